#pragma once

#include <cstdint>
#include <string_view>

#include "quarry/result.h"

namespace quarry {

/// How the samples of a patch become bytes. The numbers are stored in subfiles and never change.
enum class CoderId : std::uint8_t {
  kWaveletZfp = 1,
  kInterpolate = 2,
  kLossless = 3,
  kValidity = 4,  ///< masks: uint8 samples that are 0 or 1
  kInterpolateZeros = 5,
  kInterpolateSigns = 6,
  kInterpolateRelative = 7,
};

/// Name of the coder with this id, "unknown" when this version does not know it.
std::string_view Name(CoderId id);

/// Id of the coder that `--codec` or a manifest names. @errors kInvalidArgument that lists the known names
Result<CoderId> ParseCoder(std::string_view name);

}  // namespace quarry
