#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "quarry/base/endian.h"
#include "quarry/base/status.h"
#include "quarry/codec/coder.h"
#include "quarry/data_type.h"
#include "quarry/geometry/patch_grid.h"
#include "quarry/payload_order.h"

/// Bytes and structs of a subfile. Nothing here opens a file. docs/format.md is the specification.
namespace quarry::format {

/// Version that this program writes, and the newest that it reads; it reads all from 1 on.
inline constexpr std::uint16_t kMajorVersion = 4;
inline constexpr std::uint16_t kMinorVersion = 0;
inline constexpr std::size_t kMaxFieldName = 63;
inline constexpr int kMaxLevels = 32;

/// Tables of more rows are in blocks of as many, as base-2 logarithm. A block then has about as many bytes as
/// the patch that is read by it. Larger blocks are not read.
inline constexpr int kBlockBits = 10;

/// How the table of a subfile with so many patches is written: 0, or the base-2 logarithm of the rows of its
/// blocks.
constexpr int BlockBitsOf(std::uint64_t patches, int bits = kBlockBits) {
  return patches > std::uint64_t{1} << bits ? bits : 0;
}

/// Bytes of the header in a subfile of this version; the payload follows.
constexpr std::size_t HeaderSize(std::uint16_t major_version) { return major_version == 1 ? 136 : 144; }

/// With payload order coarse, levels are coarse that have at most one in so many of the samples of a patch.
inline constexpr std::int64_t kCoarseShare = 64;

/// The finest of the coarse levels; `levels` if there is none.
int FirstCoarseLevel(const Index3& dims, const Index3& patch, int levels);

/// First bytes of a subfile. They suffice to read it without any other file of the dataset but its mask.
struct SubfileHeader {
  /// Size in the version that is written, the largest of those that are read.
  static constexpr std::size_t kEncodedSize = HeaderSize(kMajorVersion);

  std::uint16_t version = kMajorVersion;
  std::uint64_t step = 0;
  std::uint32_t field_number = 0;    ///< position in DatasetManifest.fields
  std::uint32_t subfile_number = 0;  ///< position in FieldStep.subfiles
  Index3 dims{};                     ///< grid, x, y, z
  Index3 patch{};                    ///< powers of two
  int levels = 1;
  int layers = 1;  ///< layers of accuracy
  DataType type = DataType::kFloat32;
  CoderId coder = CoderId::kWaveletZfp;
  PayloadOrder order = PayloadOrder::kPatch;
  int coarse_level = 0;  ///< with order coarse the finest of the levels that lie level by level; otherwise 0
  int block_bits = 0;    ///< base-2 logarithm of the rows of a block of the table; 0: it is not in blocks
  std::uint64_t patch_count = 0;
  std::string field_name;
  std::uint64_t mask = 0;  ///< name of the mask of this field and step; 0: no sample is missing

  PatchParts parts() const { return {levels, layers}; }

  /// Sets the order, and the coarse level of a file that is written with it, from grid, patch and levels.
  void SetOrder(PayloadOrder payload_order);

  friend bool operator==(const SubfileHeader&, const SubfileHeader&) = default;

  /// Encodes in the current version, independent of `version`.
  void EncodeTo(Bytes* out) const;
  /// @param bytes at least the first kEncodedSize bytes of the file
  /// @errors kDataLoss: magic, version, checksum or a value out of range
  static Result<SubfileHeader> DecodeFrom(ByteSpan bytes);
};

/// Where one level of one patch lies in the payload, and how good it is.
struct LevelEntry {
  static constexpr std::size_t EncodedSize(std::uint16_t major_version) {
    return major_version == 1 ? 32 : 36;
  }

  std::uint64_t offset = 0;  ///< from the start of the file
  std::uint32_t size = 0;
  float rmse = 0;  ///< over the covered samples
  std::uint64_t checksum = 0;
  double max_error = 0;
  float coverage = 1;  ///< share of the patch's valid samples that the level can show

  friend bool operator==(const LevelEntry&, const LevelEntry&) = default;
};

/// One row of the patch table.
struct PatchEntry {
  std::uint64_t patch_index = 0;   ///< x + px * (y + py * z)
  double min = 0;                  ///< minimum of the valid original samples; +infinity when there is none
  double max = 0;                  ///< -infinity when there is none
  std::uint32_t valid = 0;         ///< samples that are not missing
  bool refers = false;             ///< to the patch of the step that step.json names
  std::vector<LevelEntry> levels;  ///< in the order of PatchParts; in one layer the finest level first

  friend bool operator==(const PatchEntry&, const PatchEntry&) = default;

  /// Size of a row of equal size: in files before version 4, in the index, and between ranks. No row of
  /// version 4 has more.
  static constexpr std::size_t EncodedSize(int parts, std::uint16_t major_version = kMajorVersion) {
    return (major_version == 1 ? 24 : 28) +
           static_cast<std::size_t>(parts) * LevelEntry::EncodedSize(major_version);
  }
  void EncodeTo(Bytes* out) const;
  /// A row of version 1 has no count of valid samples: it stays 0 until a caller that knows the grid sets it.
  /// @param bytes exactly EncodedSize(parts, major_version) bytes, checked by the table's checksum
  static PatchEntry DecodeFrom(ByteSpan bytes, int parts, std::uint16_t major_version = kMajorVersion);

  std::uint64_t payload_bytes() const;
};

/// Last bytes of a subfile.
struct SubfileFooter {
  static constexpr std::size_t kEncodedSize = 48;

  std::uint64_t table_offset = 0;
  std::uint64_t table_size = 0;
  std::uint64_t table_checksum = 0;  ///< checksum of the table; if it is in blocks, that of its root
  std::uint64_t file_size = 0;

  friend bool operator==(const SubfileFooter&, const SubfileFooter&) = default;

  void EncodeTo(Bytes* out) const;
  /// @param bytes exactly the last kEncodedSize bytes of the file
  static Result<SubfileFooter> DecodeFrom(ByteSpan bytes);
};

/// Checks a row, wherever it was read from, a table or an index.
/// @param samples   of its patch
/// @param payload   [begin, end) of the bytes of the file in which payloads may lie
/// @errors kDataLoss
Status CheckRow(const PatchEntry& row, std::int64_t samples,
                const std::pair<std::uint64_t, std::uint64_t>& payload);

/// A table without blocks in the version that is written. Offsets are not in it.
/// @param rows  in ascending Morton order; parts without bytes have the checksum of nothing
Bytes EncodePatchTable(const std::vector<PatchEntry>& rows, const PatchGrid& grid);

/// [bytes] of a row in a file, give or take those that say which patch it is.
std::size_t StoredRowSize(const PatchEntry& row);

/// Whether a table of this size can have so many rows: before memory is taken for either.
/// @errors kDataLoss
Status CheckTableSize(const SubfileHeader& header, const SubfileFooter& footer);

/// Decodes and checks a whole table without blocks: rows in ascending Morton order, indices inside the grid,
/// payload ranges inside [header end, table begin), possible counts and shares of valid samples. Afterwards
/// every offset and size can be used without further checks.
/// @errors kDataLoss
Result<std::vector<PatchEntry>> DecodePatchTable(ByteSpan table, const SubfileHeader& header,
                                                 const SubfileFooter& footer);

/// Parts whose payloads follow each other for some patches before the next patches, first to last inclusive;
/// numbers descend (see PatchParts).
struct PartRun {
  int first = 0;
  int last = 0;
};

/// The runs of a file's payload: a layer at a time, so that the rough ones are read in one go; or of each
/// layer its levels, or the coarse ones and then all others together.
std::vector<PartRun> PartRuns(const SubfileHeader& header);

/// Visits (row, part) pairs in the order in which their payloads lie in the file.
template <typename Visit>
void ForEachPayload(const SubfileHeader& header, std::size_t rows, Visit visit) {
  for (const PartRun& run : PartRuns(header)) {
    for (std::size_t row = 0; row < rows; ++row) {
      for (int part = run.first; part >= run.last; --part) visit(row, part);
    }
  }
}

}  // namespace quarry::format
