#include "quarry/geometry/morton.h"

namespace quarry {
namespace {

// Spreads the low 21 bits so that two zero bits follow each of them; the masks double the gap from step to
// step.
std::uint64_t SpreadBits(std::uint64_t v) {
  v &= 0x1fffff;
  v = (v | v << 32) & 0x1f00000000ffff;
  v = (v | v << 16) & 0x1f0000ff0000ff;
  v = (v | v << 8) & 0x100f00f00f00f00f;
  v = (v | v << 4) & 0x10c30c30c30c30c3;
  v = (v | v << 2) & 0x1249249249249249;
  return v;
}

std::uint64_t GatherBits(std::uint64_t v) {
  v &= 0x1249249249249249;
  v = (v | v >> 2) & 0x10c30c30c30c30c3;
  v = (v | v >> 4) & 0x100f00f00f00f00f;
  v = (v | v >> 8) & 0x1f0000ff0000ff;
  v = (v | v >> 16) & 0x1f00000000ffff;
  v = (v | v >> 32) & 0x1fffff;
  return v;
}

}  // namespace

std::uint64_t MortonEncode(const Index3& position) {
  return SpreadBits(static_cast<std::uint64_t>(position[0])) |
         SpreadBits(static_cast<std::uint64_t>(position[1])) << 1 |
         SpreadBits(static_cast<std::uint64_t>(position[2])) << 2;
}

Index3 MortonDecode(std::uint64_t code) {
  return {static_cast<std::int64_t>(GatherBits(code)), static_cast<std::int64_t>(GatherBits(code >> 1)),
          static_cast<std::int64_t>(GatherBits(code >> 2))};
}

}  // namespace quarry
