#include "quarry/geometry/morton.h"

#include <algorithm>
#include <array>
#include <bit>

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

/// Level of the smallest cell at the origin that holds the box.
int LevelThatHolds(const Box& box) {
  const std::int64_t end = std::max({box.end[0], box.end[1], box.end[2]});
  int level = 0;
  while ((std::int64_t{1} << level) < end) ++level;
  return level;
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

std::uint64_t MortonCodeOfRank(const Index3& extent, std::int64_t rank) {
  const Box box{{0, 0, 0}, extent};
  Index3 origin{};
  std::uint64_t code = 0;
  for (int level = LevelThatHolds(box) - 1; level >= 0; --level) {
    const std::int64_t side = std::int64_t{1} << level;
    // The rank-th position is in the first of the eight parts that has more than rank; rank then counts in
    // it.
    for (std::uint64_t child = 0; child < 8; ++child) {
      Box part{origin, origin};
      for (std::size_t a = 0; a < 3; ++a) {
        part.begin[a] += (child >> a & 1) != 0 ? side : 0;
        part.end[a] = part.begin[a] + side;
      }
      const Box inside = Intersect(part, box);
      const std::int64_t count = inside.empty() ? 0 : inside.volume();
      if (rank < count) {
        origin = part.begin;
        code |= child << 3 * level;
        break;
      }
      rank -= count;
    }
  }
  return code;
}

std::int64_t MortonRankOf(const Index3& extent, const Index3& position) {
  const Box box{{0, 0, 0}, extent};
  const std::uint64_t code = MortonEncode(position);
  Index3 origin{};
  std::int64_t rank = 0;
  for (int level = LevelThatHolds(box) - 1; level >= 0; --level) {
    const std::int64_t side = std::int64_t{1} << level;
    const std::uint64_t own = code >> 3 * level & 7;
    Index3 begin = origin;
    for (std::uint64_t child = 0; child <= own; ++child) {
      for (std::size_t a = 0; a < 3; ++a) begin[a] = origin[a] + ((child >> a & 1) != 0 ? side : 0);
      if (child == own) break;
      const Box inside = Intersect({begin, {begin[0] + side, begin[1] + side, begin[2] + side}}, box);
      if (!inside.empty()) rank += inside.volume();
    }
    origin = begin;
    const Box cell{origin, {origin[0] + side, origin[1] + side, origin[2] + side}};
    // Every code of a cell that lies in the extent counts.
    if (box.Contains(cell))
      return rank + static_cast<std::int64_t>(code & ((std::uint64_t{1} << 3 * level) - 1));
  }
  return rank;
}

MortonRuns::MortonRuns(const Box& box, MortonRun codes) : box_(box), codes_(codes) {
  if (box.empty()) return;
  const int level = LevelThatHolds(box);
  cells_.reserve(static_cast<std::size_t>(7 * level + 1));  // seven siblings of a cell wait at each level
  cells_.push_back({{0, 0, 0}, 0, level});
  ahead_ = NextCell();
}

std::optional<MortonRun> MortonRuns::Next() {
  std::optional<MortonRun> run = ahead_;
  if (!run) return run;
  ahead_ = NextCell();
  while (ahead_ && ahead_->begin == run->end) {
    run->end = ahead_->end;
    ahead_ = NextCell();
  }
  return run;
}

/// The next cell that lies in the box, with its wanted codes.
std::optional<MortonRun> MortonRuns::NextCell() {
  while (!cells_.empty()) {
    const Cell cell = cells_.back();
    cells_.pop_back();
    const std::int64_t side = std::int64_t{1} << cell.level;
    const Box positions{cell.origin, {cell.origin[0] + side, cell.origin[1] + side, cell.origin[2] + side}};
    if (!box_.Contains(positions)) {
      PushChildren(cell);
      continue;
    }
    const std::uint64_t end = cell.code + (std::uint64_t{1} << 3 * cell.level);
    const MortonRun wanted{std::max(cell.code, codes_.begin), std::min(end, codes_.end)};
    if (wanted.begin < wanted.end) return wanted;
  }
  return std::nullopt;
}

/// Pushes the children with positions in the box and wanted codes, the first one on top.
void MortonRuns::PushChildren(const Cell& cell) {
  // Bit c of a set of children is the c-th; its bit a says which half of the cell along axis a it has.
  constexpr std::array<unsigned, 3> kUpper = {0b1010'1010, 0b1100'1100, 0b1111'0000};
  const int level = cell.level - 1;
  const std::int64_t side = std::int64_t{1} << level;
  unsigned meeting = 0b1111'1111;
  for (std::size_t a = 0; a < 3; ++a) {
    const std::int64_t middle = cell.origin[a] + side;
    if (middle <= box_.begin[a]) meeting &= kUpper[a];
    if (middle >= box_.end[a]) meeting &= ~kUpper[a];
  }
  const std::uint64_t codes = std::uint64_t{1} << 3 * level;
  while (meeting != 0) {
    const auto child = static_cast<std::uint64_t>(std::bit_width(meeting) - 1);
    meeting ^= 1U << child;
    const std::uint64_t code = cell.code + child * codes;
    if (code >= codes_.end || code + codes <= codes_.begin) continue;
    Cell& next = cells_.emplace_back(Cell{cell.origin, code, level});
    for (std::size_t a = 0; a < 3; ++a) next.origin[a] += (child >> a & 1) != 0 ? side : 0;
  }
}

void CodeCutter::Add(MortonRun run) {
  while (run.begin < run.end) {
    if (room_ == 0) {
      pieces_.push_back({run.begin, run.begin});
      room_ = most_;
    }
    const std::uint64_t taken = std::min(room_, run.end - run.begin);
    run.begin += taken;
    room_ -= taken;
    pieces_.back().end = run.begin;
  }
}

std::vector<MortonRun> CutCodes(const Box& box, std::uint64_t most) {
  CodeCutter cutter(most);
  MortonRuns runs(box);
  for (std::optional<MortonRun> run = runs.Next(); run; run = runs.Next()) cutter.Add(*run);
  return cutter.pieces();
}

std::uint64_t CountCodes(const Box& box, const MortonRun& codes) {
  if (codes == kAllCodes) return box.empty() ? 0 : static_cast<std::uint64_t>(box.volume());
  std::uint64_t count = 0;
  MortonRuns runs(box, codes);
  for (std::optional<MortonRun> run = runs.Next(); run; run = runs.Next()) count += run->end - run->begin;
  return count;
}

}  // namespace quarry
