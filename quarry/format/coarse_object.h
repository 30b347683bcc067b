#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "quarry/base/endian.h"
#include "quarry/base/status.h"
#include "quarry/format/subfile.h"
#include "quarry/format/table_index.h"

/// Bytes and structs of a coarse object: fronts and backs of the subfiles of a step and of its masks, as they
/// are. docs/format.md, "Coarse objects". Nothing here opens a file.
namespace quarry::format {

/// The name in the folder of a step. A field of this name takes the place.
inline constexpr std::string_view kCoarseFile = "coarse";
/// [bytes] of the files that a writer puts into an object at most, and the smallest steps that get one.
inline constexpr std::uint64_t kMostCoarseBytes = std::uint64_t{2} << 20;
inline constexpr std::uint64_t kLeastCoarseStep = std::uint64_t{128} << 10;
/// Limits of readers.
inline constexpr std::uint64_t kCoarseLimit = std::uint64_t{4} << 20;
inline constexpr std::uint64_t kMaxCoarseFiles = 4096;

/// A file of which a coarse object has the first and the last bytes.
struct CoarseFile {
  std::string path;                  ///< below the dataset: "steps/000123/pressure/0000.qsf"
  std::uint64_t size = 0;            ///< [bytes] of the file
  std::uint64_t table_checksum = 0;  ///< that of its footer, from which all bytes of the file follow
  std::uint64_t front = 0;           ///< [bytes] from its begin
  std::uint64_t back = 0;            ///< [bytes] up to its end

  friend bool operator==(const CoarseFile&, const CoarseFile&) = default;
};

/// [bytes] from the begin of a subfile that have its header and its coarsest levels, as far as these are
/// coarse and lie level by level.
/// @param header  of a file of the version that is written
/// @param root    of its table
/// @param levels  so many of them at most
std::uint64_t CoarseFront(const SubfileHeader& header, const SubfileFooter& footer, const TableIndex& root,
                          std::size_t levels);

/// The object of some files. @param files  ascending by path
/// @param bytes  of each file its front and its back
Bytes EncodeCoarseObject(const std::vector<CoarseFile>& files, const std::vector<Bytes>& bytes);

/// A decoded object.
class CoarseObject {
 public:
  /// @errors kDataLoss: it is damaged
  static Result<CoarseObject> Decode(Bytes bytes);

  const std::vector<CoarseFile>& files() const { return files_; }
  /// The number of a file; files().size() if it is not in the object.
  std::size_t Find(std::string_view path) const;
  ByteSpan Front(std::size_t file) const {
    return ByteSpan(bytes_).subspan(begins_[file], files_[file].front);
  }
  ByteSpan Back(std::size_t file) const {
    return ByteSpan(bytes_).subspan(begins_[file] + files_[file].front, files_[file].back);
  }
  /// [bytes] of memory.
  std::uint64_t memory() const;

 private:
  Bytes bytes_;
  std::vector<CoarseFile> files_;
  std::vector<std::uint64_t> begins_;  ///< where the bytes of each file begin
};

}  // namespace quarry::format
