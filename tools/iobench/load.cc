#include "tools/iobench/load.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>

#include "quarry/base/units.h"
#include "quarry/geometry/morton.h"
#include "writer/distribution/decomposition.h"

namespace quarry::iobench {
namespace {

/// Rank of each cell of the unit grid, x fastest.
std::vector<int> OwnersOfCells(const Index3& unit_grid, const Index3& process_grid) {
  std::vector<int> owner(static_cast<std::size_t>(Volume(unit_grid)));
  const std::vector<Box> shares = distribution::ProcessGridBoxes(unit_grid, process_grid);
  for (std::size_t rank = 0; rank < shares.size(); ++rank) {
    const Box& box = shares[rank];
    for (std::int64_t z = box.begin[2]; z < box.end[2]; ++z) {
      for (std::int64_t y = box.begin[1]; y < box.end[1]; ++y) {
        const std::int64_t row = unit_grid[0] * (y + unit_grid[1] * z);
        std::fill(owner.begin() + row + box.begin[0], owner.begin() + row + box.end[0],
                  static_cast<int>(rank));
      }
    }
  }
  return owner;
}

std::vector<std::size_t> MortonOrderOfCells(const Index3& grid) {
  std::vector<std::uint64_t> code;
  for (std::int64_t z = 0; z < grid[2]; ++z) {
    for (std::int64_t y = 0; y < grid[1]; ++y) {
      for (std::int64_t x = 0; x < grid[0]; ++x) code.push_back(MortonEncode({x, y, z}));
    }
  }
  std::vector<std::size_t> order(code.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return code[a] < code[b]; });
  return order;
}

/// SplitMix64. @source Steele, Lea and Flood 2014, Fast Splittable Pseudorandom Number Generators
std::uint64_t Mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

}  // namespace

std::uint64_t Load::total() const { return std::accumulate(bytes.begin(), bytes.end(), std::uint64_t{0}); }

std::vector<std::size_t> Load::UnitsOf(int rank) const {
  std::vector<std::size_t> mine;
  for (std::size_t u = 0; u < units(); ++u) {
    if (owner[u] == rank) mine.push_back(u);
  }
  return mine;
}

std::vector<std::uint64_t> Load::BytesPerRank() const {
  std::vector<std::uint64_t> sums(static_cast<std::size_t>(Volume(process_grid)), 0);
  for (std::size_t u = 0; u < units(); ++u) sums[static_cast<std::size_t>(owner[u])] += bytes[u];
  return sums;
}

Result<Load> MakeLoad(const distribution::SizeGrid& sizes, const Index3& process_grid) {
  Load load{process_grid, sizes.shape, {}, {}};
  const std::vector<int> owner = OwnersOfCells(sizes.shape, process_grid);
  for (const std::size_t cell : MortonOrderOfCells(sizes.shape)) {
    const std::uint64_t size = sizes.bytes[cell];
    if (size > static_cast<std::uint64_t>(std::numeric_limits<int>::max())) {
      return InvalidArgument(
          "a unit has {}, more than one message can hold (2 GiB); give more --units-per-rank",
          FormatBytes(size));
    }
    load.bytes.push_back(size);
    load.owner.push_back(owner[cell]);
  }
  if (load.total() == 0) return InvalidArgument("all sizes are 0 bytes; there is nothing to write");
  return load;
}

Bytes MakeUnit(std::size_t unit, std::uint64_t bytes) {
  constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15;
  Bytes data(bytes);
  std::uint64_t state = Mix(unit + 1);
  for (std::size_t at = 0; at < data.size(); at += sizeof(state)) {
    const std::uint64_t word = Mix(state += kGolden);
    std::memcpy(data.data() + at, &word, std::min(sizeof(word), data.size() - at));
  }
  return data;
}

}  // namespace quarry::iobench
