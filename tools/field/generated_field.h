#pragma once

#include "quarry/base/endian.h"
#include "quarry/box.h"
#include "quarry/data_type.h"

namespace quarry::tools {

/// Samples of a box of an endless field, x fastest: waves of several lengths and a little noise, about four
/// times smaller at 1e-4 of the range, like much turbulence. A sample depends on its position alone, so ranks
/// can make their own parts.
/// @param type  float32 or float64
Bytes GenerateField(const Box& box, DataType type);

}  // namespace quarry::tools
