#pragma once

#include <cstdint>

/// Applies a macro to the C++ type of every DataType but the integers of 64 bits: for instantiations of
/// templates.
#define QUARRY_FOR_EACH_NARROW_TYPE(APPLY) \
  APPLY(float);                            \
  APPLY(double);                           \
  APPLY(std::int8_t);                      \
  APPLY(std::uint8_t);                     \
  APPLY(std::int16_t);                     \
  APPLY(std::uint16_t);                    \
  APPLY(std::int32_t);                     \
  APPLY(std::uint32_t)

/// The same for all of them.
#define QUARRY_FOR_EACH_SAMPLE_TYPE(APPLY) \
  QUARRY_FOR_EACH_NARROW_TYPE(APPLY);      \
  APPLY(std::int64_t);                     \
  APPLY(std::uint64_t)
