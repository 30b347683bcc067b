#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "quarry/storage/location.h"

namespace quarry::index {

/// Steps from `first` to `last`, both included, whose records one piece has. No other step of the dataset is
/// between them.
struct SealedRange {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  std::uint64_t steps = 0;  ///< number of steps
  std::uint64_t marks = 0;  ///< see MarksOf

  friend bool operator==(const SealedRange&, const SealedRange&) = default;
};

/// A data file of the index, with the records of some steps. Its checksum is its name: it never changes.
struct SealedPiece {
  std::uint64_t checksum = 0;
  std::uint64_t bytes = 0;
  std::uint64_t steps = 0;  ///< in the file; some may be in no range any more
  std::vector<SealedRange> ranges;

  std::string file_name() const;
  friend bool operator==(const SealedPiece&, const SealedPiece&) = default;
};

/// The index folder holds a small seal.json that names the valid pieces, their sizes and checksums, and the
/// steps of each; a piece is used only after a comparison with the seal. It shows accidents, and no intent:
/// anybody who can write the folder can write a seal. Replacing seal.json also publishes a new index
/// atomically, while readers keep the pieces that they have.
struct Seal {
  std::vector<SealedPiece> pieces;

  friend bool operator==(const Seal&, const Seal&) = default;
};

/// Most ranges of a seal, in all of its pieces.
inline constexpr std::size_t kMostRanges = 1024;

/// @errors kNotFound: there is no index; kDataLoss: the seal is damaged, or of another version
Result<Seal> ReadSeal(const Location& folder);
Status WriteSeal(const std::filesystem::path& folder, const Seal& seal);

/// Size and checksum of a local file, as those of a piece.
Result<SealedPiece> SealFile(const std::filesystem::path& path);

/// Feeds a file to `visit` in chunks. @errors those of StoredObject::ReadAt and `visit`
Status ForEachChunk(const StoredObject& file, const std::function<Status(ByteSpan)>& visit);

/// Feeds a piece to `visit` in chunks, and compares it with the seal. No chunk may be believed before the
/// end, and no more bytes come than the seal says.
/// @errors kDataLoss: the file is not the sealed one; those of `visit`
Status ReadSealedPiece(const Location& folder, const SealedPiece& piece,
                       const std::function<Status(ByteSpan)>& visit);

}  // namespace quarry::index
