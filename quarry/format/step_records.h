#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "quarry/base/endian.h"
#include "quarry/base/status.h"
#include "quarry/description.h"

/// The records of steps in the catalogue of a dataset: each as its differences from the step before.
/// docs/format.md, "Records of steps".
namespace quarry::format {

/// A step as the catalogue has it.
struct StepRecord {
  std::uint64_t manifest_bytes = 0;  ///< size of its step.json
  StepSummary summary;               ///< with the checksum

  friend bool operator==(const StepRecord&, const StepRecord&) = default;
};

/// The record of a step.json. @param text  of the file
StepRecord RecordOf(const StepDescription& step, const std::string& text);

/// [bytes] The largest record. Steps with more have none.
inline constexpr std::uint64_t kMaxRecordBytes = 1 << 20;
/// [bytes] The longest name of a source in a record. Steps with a longer one have none.
inline constexpr std::size_t kMaxRecordSource = 4096;

/// Encodes records one after the other.
class RecordEncoder {
 public:
  /// Appends a record.
  /// @param record  its step is larger than that of the record before
  /// @returns false: it is too large, and nothing has changed
  bool Add(const StepRecord& record);

  const Bytes& bytes() const { return bytes_; }
  std::uint64_t records() const { return records_; }

 private:
  Bytes bytes_;
  std::uint64_t records_ = 0;
  StepRecord before_;                         ///< without fields
  std::map<std::string, std::size_t> names_;  ///< position of each field in `fields_`
  std::vector<FieldSummary> fields_;          ///< the last record of each
};

/// @param count  records that `bytes` hold, and nothing else
/// @errors kDataLoss
Result<std::vector<StepRecord>> DecodeRecords(ByteSpan bytes, std::uint64_t count);

}  // namespace quarry::format
