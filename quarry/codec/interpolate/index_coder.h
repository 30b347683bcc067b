#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "quarry/base/memory.h"
#include "quarry/codec/interpolate/choose_tables.h"
#include "quarry/codec/interpolate/kernels.h"

/// The indices of a level as bytes: with adaptive bits, or with tables.
namespace quarry::interpolate {

/// Levels of at most so many samples have one lane: decoding them takes no time worth more bytes.
inline constexpr std::size_t kOneLaneUpTo = 600;

/// Indices of valid samples, band after band.
struct CodedIndices {
  std::span<const std::int32_t> indices;
  std::span<std::uint8_t> contexts;
  std::span<const std::size_t> ends;  ///< ends of the bands that are not empty
};

/// @param coded  its contexts are bins
Bytes CodeAdaptive(const CodedIndices& coded);

/// A body with tables.
struct CodedTables {
  Bytes body;
  std::uint8_t flags = 0;              ///< flags of the head
  std::vector<std::size_t> too_large;  ///< coded samples whose indices no table holds
};

/// @param coded        its contexts become tables
/// @param flag_groups  groups of zeros may be flagged
/// @param symbols_of   scratch
CodedTables CodeTables(TableChoice choice, const CodedIndices& coded, const Kernels& kernels,
                       bool flag_groups, std::vector<entropy::CodedSymbol>* symbols_of);

}  // namespace quarry::interpolate
