#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "quarry/storage/location.h"

/// A step is still the one that was indexed if its step.json is, which names everything else.
namespace quarry::index {

/// A published step, and a number that another step.json at its place does not have.
struct MarkedStep {
  std::uint64_t step = 0;
  std::uint64_t mark = 0;
};

/// The mark of a step, found without reading step.json: a digest of what the storage says of the file. A
/// manifest is replaced by another file, so only another one of the same size, in the same place of the file
/// system, within one tick of its clock, may have the same mark. Where it has, the index lacks the step, and
/// quarry-index does not see it; answers are right all the same, and --verify tells.
Result<std::uint64_t> MarkOfStep(const Location& dataset, std::uint64_t step);

/// One number for the marks of some steps.
std::uint64_t MarksOf(std::span<const MarkedStep> steps);

/// Checksum of the bytes of a step's step.json, of one in sections of the root, which has the checksums of
/// these: shows whether a step is still the one that was indexed.
Result<std::uint64_t> StepManifestChecksum(const Location& dataset, std::uint64_t step);

/// The value of a step in the database of steps.
struct StepRecord {
  std::uint64_t checksum = 0;        ///< StepManifestChecksum
  std::uint64_t mark = 0;            ///< MarkOfStep, when it was indexed
  std::vector<std::uint64_t> masks;  ///< names of the masks of its fields, ascending; the piece has them

  Bytes Encode() const;
  /// @errors kDataLoss: not such a value
  static Result<StepRecord> Decode(ByteSpan value);
};

}  // namespace quarry::index
