#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "quarry/index/lmdb_reader.h"
#include "quarry/index/private_copy.h"

namespace quarry::index {

/// An open piece of an index: the records of some steps. Never trusted, see lmdb_reader.h. Thread-safe.
struct Piece {
  /// @errors kDataLoss: not a file of LMDB with these databases
  static Result<std::shared_ptr<const Piece>> Open(PrivateCopy copy);

  PrivateCopy copy;
  StoredPages pages;
  StoredTree patches;
  StoredTree steps;
  StoredTree masks;
  StoredTree mask_subfiles;
  StoredTree boxes;
  StoredTree mask_boxes;
};

/// Opens the copy of a sealed piece. @errors those of Piece::Open, with the path and what to do
Result<std::shared_ptr<const Piece>> OpenPiece(const Location& folder, const SealedPiece& sealed,
                                               PrivateCopy copy);

/// Private copies of the pieces of one index, each made when it is first needed. As a piece never changes,
/// they serve all openings of the dataset, one after the other. Thread-safe; a piece that cannot be read now
/// delays nobody who needs another.
class PieceCopies {
 public:
  /// @param scratch  local directory; the copies disappear when the process ends
  explicit PieceCopies(std::filesystem::path scratch) : scratch_(std::move(scratch)) {}

  /// @errors those of PrivateCopy::Map and Piece::Open
  Result<std::shared_ptr<const Piece>> Obtain(const Location& folder, const SealedPiece& sealed);

  /// Forgets the copies of pieces that a seal does not name; who uses one keeps it.
  void KeepOnly(const Seal& seal);

 private:
  using Key = std::pair<std::uint64_t, std::uint64_t>;  ///< checksum and bytes
  struct Slot {
    std::mutex mutex;  ///< held while the piece is copied
    std::shared_ptr<const Piece> piece;
  };

  const std::filesystem::path scratch_;
  std::mutex mutex_;
  std::map<Key, std::shared_ptr<Slot>> slots_;
};

}  // namespace quarry::index
