#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "quarry/box.h"
#include "quarry/data_type.h"
#include "writer/model/machine.h"

/// Measurements behind `quarry-plan calibrate`. Each takes up to a second or two, repeats itself, and keeps
/// the fastest, to exclude the load of other programs.
namespace quarry::plan {

/// Samples to encode: float32 or float64, x fastest.
struct Sample {
  std::filesystem::path path;  ///< empty: a generated field
  Index3 dims{};
  DataType type = DataType::kFloat32;
  double relative_tolerance = 1e-4;  ///< tolerance as a fraction of the value range
};

struct CalibrationOptions {
  std::filesystem::path directory =
      ".";  ///< where subfiles would be written; measured files are removed again
  std::uint64_t file_bytes = std::uint64_t{64} << 20;
  bool cold_reads = false;  ///< drop the file from the page cache before reading it
  Sample sample;
};

/// Measures everything that one machine can tell about itself; network constants are left as they are in the
/// defaults.
/// @param report  called with the name and result of each measurement as it comes
Result<model::Machine> Calibrate(const CalibrationOptions& options,
                                 const std::function<void(const std::string&)>& report);

}  // namespace quarry::plan
