#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "quarry/box.h"

namespace quarry {

/// Coordinates that a Morton code can hold on each axis: 21 bits.
inline constexpr std::int64_t kMaxPatchesPerAxis = std::int64_t{1} << 21;

/// Position along the Z-order curve: bit i of x, y, z becomes bit 3i, 3i+1, 3i+2. Coordinates in [0, 2^21).
/// Patches that are close in this order are close in space, which is why subfiles keep it.
/// @source van Oosterom and Vijlbrief 1996; papers on hierarchical layouts call it Morton or Z order
std::uint64_t MortonEncode(const Index3& position);

/// Inverse of MortonEncode for codes below 2^63.
Index3 MortonDecode(std::uint64_t code);

/// The code of the position that has `rank` others of [0, extent) before it along the curve.
/// @param rank  below the volume of extent
/// @complexity the logarithm of the longest side
std::uint64_t MortonCodeOfRank(const Index3& extent, std::int64_t rank);

/// How many positions of [0, extent) lie before this one along the curve: the inverse of MortonCodeOfRank.
/// @param position  in [0, extent)
/// @complexity the logarithm of the longest side
std::int64_t MortonRankOf(const Index3& extent, const Index3& position);

/// Consecutive codes, half-open.
struct MortonRun {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

  friend bool operator==(const MortonRun&, const MortonRun&) = default;
};

/// Every code.
inline constexpr MortonRun kAllCodes{0, std::numeric_limits<std::uint64_t>::max()};

/// The codes of all positions in a box as the fewest runs, ascending, one after the other: no list of them is
/// made. A thin box has short runs: a plane across x has them of one code, across y of two, across z of four.
/// @complexity a run takes time in the logarithm of the box's longest side; memory as much
class MortonRuns {
 public:
  /// @param box    within [0, 2^21) on each axis
  /// @param codes  only codes in this run
  explicit MortonRuns(const Box& box, MortonRun codes = kAllCodes);

  /// Nothing after the last.
  std::optional<MortonRun> Next();

 private:
  /// 2^level positions on each axis, whose codes are consecutive.
  struct Cell {
    Index3 origin;
    std::uint64_t code = 0;
    int level = 0;
  };

  std::optional<MortonRun> NextCell();
  void PushChildren(const Cell& cell);

  const Box box_;
  const MortonRun codes_;
  std::vector<Cell> cells_;  ///< not visited yet, the next one last
  std::optional<MortonRun> ahead_;
};

/// Cuts codes into pieces of the curve: each has at most `most` of them, and all but the last have as many.
class CodeCutter {
 public:
  explicit CodeCutter(std::uint64_t most) : most_(most) {}

  /// @param run  behind those before it
  void Add(MortonRun run);
  const std::vector<MortonRun>& pieces() const { return pieces_; }

 private:
  const std::uint64_t most_;
  std::uint64_t room_ = 0;  ///< codes that the last piece may still take
  std::vector<MortonRun> pieces_;
};

/// The codes of a box in pieces, as CodeCutter makes them.
std::vector<MortonRun> CutCodes(const Box& box, std::uint64_t most);

/// Positions of a box whose codes lie in a run.
std::uint64_t CountCodes(const Box& box, const MortonRun& codes);

}  // namespace quarry
