#pragma once

#include <filesystem>
#include <vector>

#include "quarry/base/file.h"
#include "quarry/description.h"
#include "quarry/format/subfile.h"
#include "writer/pipeline/encode.h"

namespace quarry::writer {

/// The row of the patch table for an encoded patch, offsets zero.
format::PatchEntry SampleRow(const EncodedPatchOfGrid& patch);

/// The row of a mask for a patch, offsets zero; without payload if every sample is valid.
/// @param samples  of the patch at level 0
format::PatchEntry MaskRow(const EncodedPatchOfGrid& patch, std::int64_t samples);

/// Bytes that a patch takes in a subfile, its row included.
std::uint64_t StoredBytes(const format::PatchEntry& row);

/// Summary of a subfile for step.json.
struct SubfileSummary {
  std::uint64_t bytes = 0;
  std::uint64_t patches = 0;
  Box bounds;
  std::uint64_t table_checksum = 0;
  std::uint64_t valid = 0;
  /// Per part, see PatchParts.
  struct Level {
    double max_error = 0;
    double sum_of_squares = 0;  ///< differences over the covered samples; a fixed order of summation
    double covered = 0;         ///< samples; a sum of rounded shares, so not a whole number
    std::uint64_t bytes = 0;
  };
  std::vector<Level> levels;

  void EncodeTo(Bytes* out) const;
  static SubfileSummary DecodeFrom(LittleEndianReader* reader, int parts);
};

/// Writes one subfile: header, payload, sync, patch table block by block, footer, sync (docs/format.md,
/// publishing).
class SubfileWriter {
 public:
  /// @param header  with the number of rows, and whether the table is in blocks
  /// @param rows    in Morton order; their offsets are filled in
  static Result<SubfileWriter> Create(const std::filesystem::path& path, const format::SubfileHeader& header,
                                      const PatchGrid& grid, std::vector<format::PatchEntry> rows);

  const std::vector<format::PatchEntry>& rows() const { return rows_; }

  /// The next bytes of the payload, in the order of format::ForEachPayload.
  Status Append(ByteSpan payload);
  /// @errors kInternal also if payload is missing
  Result<SubfileSummary> Finish();

 private:
  SubfileWriter(WritableFile file, const format::SubfileHeader& header, const PatchGrid& grid,
                std::vector<format::PatchEntry> rows)
      : file_(std::move(file)), header_(header), grid_(grid), rows_(std::move(rows)) {}

  Status Flush();

  WritableFile file_;
  format::SubfileHeader header_;
  PatchGrid grid_;
  std::vector<format::PatchEntry> rows_;
  SubfileSummary summary_;
  std::uint64_t payload_end_ = 0;
  Bytes buffer_;  ///< small payloads collected for one write
};

}  // namespace quarry::writer
