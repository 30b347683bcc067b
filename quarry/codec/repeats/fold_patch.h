#pragma once

#include <optional>
#include <span>
#include <vector>

#include "quarry/codec/repeats/repeats.h"

namespace quarry::repeats {

/// A patch without the axes that it does not depend on.
struct FoldedPatch {
  Repeats repeats;
  Bytes samples;                       ///< in the coded shape; missing ones are plausible
  std::vector<std::uint8_t> validity;  ///< one for each of these; empty: all are valid
  double distance = 0;  ///< [unit of the field] largest one of a valid sample from its coded one
};

/// Leaves out axes along which all valid samples have the same bits.
/// @return nothing if there is no such axis, or if most samples are missing
std::optional<FoldedPatch> FoldSameBits(const PatchLayout& layout, ByteSpan samples, Validity validity);

/// Leaves out axes along which valid samples are so close to each other that one number stands for them
/// within a part of the tolerance. Not of integers of 64 bits.
/// @return as FoldSameBits
std::optional<FoldedPatch> FoldCloseSamples(const PatchLayout& layout, ByteSpan samples, Validity validity,
                                            double tolerance);

}  // namespace quarry::repeats
