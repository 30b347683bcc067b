#pragma once

#include <optional>
#include <string>
#include <vector>

#include "quarry/attributes.h"
#include "quarry/coder_id.h"
#include "quarry/data_type.h"
#include "quarry/description.h"
#include "quarry/sample_value.h"

namespace quarry::writer {

/// A field. Floats need one of tolerance, relative and lossless; integers without a bound are lossless.
struct FieldRequest {  // NOLINT(clang-analyzer-optin.performance.Padding): by subject
  std::string name;
  DataType type = DataType::kFloat32;
  std::optional<double> tolerance;  ///< largest absolute error of any sample, [unit of the field]
  std::optional<double> relative;   ///< the same as a fraction of the value range of each step
  bool lossless = false;
  std::string units;
  std::optional<SampleValue> fill;  ///< samples with this value are missing, besides NaN and infinity
  std::optional<CoderId> coder;     ///< default: from type and bound
  /// Instead of a bound: the tolerances of layers of accuracy, descending; the last may be 0, which is exact.
  std::vector<double> layers;
  bool relative_layers = false;  ///< they are fractions of the value range of each step
  /// Instead of a bound: the largest error of a sample as a fraction of its own magnitude, below 1.
  std::optional<double> pointwise_relative;
  /// Steps may refer to earlier ones; at least one in so many refers to none. Default: none does.
  std::optional<int> keyframe;
  /// Original type of the samples. float16 comes back as float16 without loss, and as float32 with a
  /// tolerance, which holds for that.
  GivenType given = GivenType::kStored;
  Attributes attributes;
  bool still = false;       ///< one step has it, and stands for all
  bool coordinate = false;  ///< it says where, when or under which conditions the samples of others are
  std::optional<ComplexPart> complex;
};

}  // namespace quarry::writer
