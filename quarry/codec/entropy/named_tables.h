#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "quarry/codec/entropy/rans.h"

/// Tables of symbols that a payload names with a byte instead of storing them: distributions of an index
/// around zero, of four shapes and 64 scales. docs/format.md, "Named tables".
namespace quarry::entropy {

/// The sum of their frequencies is 2^kNamedBits.
inline constexpr int kNamedBits = 11;

/// Bits 0 to 5: the scale s, 2^((bits - 12) / 4), of an index. Bits 6 and 7: how often an index q occurs.
using TableName = std::uint8_t;
inline constexpr std::size_t kNamedShapes = 4;  ///< heavy tails, exp(-|q|/s), between, exp(-(q/s)^2)
inline constexpr int kNamedScales = 64;

inline constexpr TableName NameOf(std::size_t shape, int scale) {
  return static_cast<TableName>(shape << 6 | static_cast<std::size_t>(scale));
}

/// How many bits of an index are stored beside its symbol: scales that differ by an octave share their
/// symbols.
inline constexpr int ShiftOf(TableName name) {
  const int scale = name & 63;
  return scale < 28 ? 0 : (scale - 24) / 4;
}

/// Thread-safe; made at the first use.
const SymbolTable& NamedTable(TableName name);

/// The largest symbol that has a frequency in it; all below have one too.
std::uint8_t LargestSymbolOf(TableName name);

/// As MakeSlots of these tables.
void MakeNamedSlots(std::span<const TableName> names, std::vector<std::uint32_t>* slots);

}  // namespace quarry::entropy
