#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "quarry/base/file.h"
#include "quarry/description.h"
#include "quarry/format/subfile.h"
#include "quarry/storage/writable_storage.h"
#include "writer/pipeline/encode.h"

namespace quarry::writer {

/// The row of the patch table for an encoded patch, offsets zero.
format::PatchEntry SampleRow(const EncodedPatchOfGrid& patch);

/// The row of a mask for a patch, offsets zero; without payload if every sample is valid.
/// @param samples  of the patch at level 0
format::PatchEntry MaskRow(const EncodedPatchOfGrid& patch, std::int64_t samples);

/// MaskRow of a patch in which no sample is missing.
format::PatchEntry UnmaskedRow(std::int64_t patch_index, std::int64_t samples, int levels);

/// Payload bytes of some parts of a patch.
std::uint64_t PayloadBytes(const format::PatchEntry& row, const format::PartRun& run);

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
/// publishing). The rows of the table wait until the payload is complete; beyond a limit in an unnamed file.
class SubfileWriter {
 public:
  /// @param header        with the number of rows, and whether the table is in blocks
  /// @param most          [bytes] see WritableStorage::Create
  /// @param memory_limit  of the rows
  static Result<SubfileWriter> Create(const WritableLocation& file, const format::SubfileHeader& header,
                                      const PatchGrid& grid, std::uint64_t most,
                                      std::uint64_t memory_limit = kRowMemory);

  /// The next row, in Morton order, before its first payload.
  Status AddRow(const format::PatchEntry& row);
  /// The next bytes of the payload, in the order of format::ForEachPayload.
  Status Append(ByteSpan payload);
  /// @errors kInternal also if rows or payload are missing
  Result<SubfileSummary> Finish();

  static constexpr std::uint64_t kRowMemory = 16 << 20;

 private:
  SubfileWriter(WritableLocation place, std::unique_ptr<NewFile> file, const format::SubfileHeader& header,
                const PatchGrid& grid, std::uint64_t memory_limit);

  Status Flush();
  Status FinishFile(const format::SubfileFooter& footer);
  Status SpillRows();
  /// Calls put(row with its offsets) for each row.
  template <typename Put>
  Status ForEachRow(Put put);
  /// Appends the table and the footer to the file.
  Result<format::SubfileFooter> AppendTable();

  WritableLocation place_;
  std::unique_ptr<NewFile> file_;
  format::SubfileHeader header_;
  PatchGrid grid_;
  std::uint64_t memory_limit_;
  Bytes rows_;  ///< the last ones, behind what is in the spilled file
  std::optional<TemporaryFile> spilled_;
  std::uint64_t spilled_bytes_ = 0;
  std::vector<std::uint64_t> run_bytes_;  ///< payload of each run, see format::PartRuns
  SubfileSummary summary_;
  std::uint64_t payload_end_ = 0;
  Bytes buffer_;  ///< small payloads collected for one write
};

}  // namespace quarry::writer
