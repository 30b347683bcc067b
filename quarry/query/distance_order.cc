#include "quarry/query/distance_order.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace quarry::query {
namespace {

/// Distance of a coordinate from the nearest of the samples [begin, end).
double DistanceAlong(double coordinate, std::int64_t begin, std::int64_t end) {
  return coordinate - std::clamp(coordinate, static_cast<double>(begin), static_cast<double>(end - 1));
}

/// Distances are not negative, so their bits have the order of their values.
std::uint64_t BitsOf(double distance) { return std::bit_cast<std::uint64_t>(distance); }
double DistanceWith(std::uint64_t key) { return std::bit_cast<double>(key); }

}  // namespace

double SquaredDistance(const std::array<double, 3>& point, const Box& box) {
  double sum = 0;
  for (std::size_t a = 0; a < 3; ++a) {
    const double along = DistanceAlong(point[a], box.begin[a], box.end[a]);
    sum += along * along;
  }
  return sum;
}

/// @returns false: no position is in the cell
/// The bounds are those of single patches, bit by bit: along an axis the farthest patch is the first or the
/// last, and rounding keeps the order of sums and squares.
bool DistanceOrder::CutCell(const Index3& origin, int level, Cell* cell) const {
  const std::int64_t side = std::int64_t{1} << level;
  const Box cube{origin, {origin[0] + side, origin[1] + side, origin[2] + side}};
  cell->positions = Intersect(cube, positions_);
  if (cell->positions.empty()) return false;
  const std::uint64_t code = MortonEncode(origin);
  cell->codes = {code, code + (std::uint64_t{1} << 3 * level)};
  cell->whole = cell->positions == cube;
  const Index3& last = cell->positions.end;
  const Box first_patch = grid_.PatchBox(cell->positions.begin);
  const Box last_patch = grid_.PatchBox(Index3{last[0] - 1, last[1] - 1, last[2] - 1});
  cell->nearest = SquaredDistance(focus_, {first_patch.begin, last_patch.end});
  cell->farthest = 0;
  for (std::size_t a = 0; a < 3; ++a) {
    const double to_first = DistanceAlong(focus_[a], first_patch.begin[a], first_patch.end[a]);
    const double to_last = DistanceAlong(focus_[a], last_patch.begin[a], last_patch.end[a]);
    cell->farthest += std::max(to_first * to_first, to_last * to_last);
  }
  return true;
}

template <typename Take>
void DistanceOrder::Walk(const Shell& shell, const Take& take) const {
  struct Cube {
    Index3 origin;
    int level;
  };
  if (positions_.empty()) return;
  const std::int64_t end = std::max({positions_.end[0], positions_.end[1], positions_.end[2]});
  const int top = std::bit_width(static_cast<std::uint64_t>(end - 1));
  std::vector<Cube> waiting;
  waiting.reserve(static_cast<std::size_t>(7 * top + 1));  // seven siblings of a cube wait at each level
  waiting.push_back({{0, 0, 0}, top});
  while (!waiting.empty()) {
    const Cube cube = waiting.back();
    waiting.pop_back();
    Cell cell;
    if (!CutCell(cube.origin, cube.level, &cell)) continue;
    if (cell.codes.end <= shell.codes.begin || cell.codes.begin >= shell.codes.end) continue;
    if (cell.nearest > shell.farthest || cell.farthest < shell.nearest) continue;
    const bool inside = cell.nearest >= shell.nearest && cell.farthest <= shell.farthest;
    if (inside && take(cell)) continue;
    const std::int64_t half = std::int64_t{1} << (cube.level - 1);
    for (int child = 7; child >= 0; --child) {  // the first one on top
      Cube& part = waiting.emplace_back(Cube{cube.origin, cube.level - 1});
      for (std::size_t a = 0; a < 3; ++a) part.origin[a] += (child >> a & 1) != 0 ? half : 0;
    }
  }
}

std::vector<MortonRun> DistanceOrder::CodesOf(const Shell& shell) const {
  std::vector<MortonRun> runs;
  Walk(shell, [&](const Cell& cell) {
    if (!cell.whole) return false;
    const MortonRun codes{std::max(cell.codes.begin, shell.codes.begin),
                          std::min(cell.codes.end, shell.codes.end)};
    if (!runs.empty() && runs.back().end == codes.begin) {
      runs.back().end = codes.end;
    } else {
      runs.push_back(codes);
    }
    return true;
  });
  return runs;
}

/// Counts the patches in intervals of distances, and those of an interval with too many in parts of it.
class DistanceOrder::Cutter {
 public:
  Cutter(const DistanceOrder& order, std::uint64_t most) : order_(order), most_(most) {}

  std::vector<Shell> Run() {
    std::uint64_t first = BitsOf(std::numeric_limits<double>::infinity());
    std::uint64_t last = 0;
    order_.Walk({}, [&](const Cell& cell) {
      first = std::min(first, BitsOf(cell.nearest));
      last = std::max(last, BitsOf(cell.farthest));
      return true;
    });
    if (first <= last) Split(first, last);
    Close();
    return std::move(shells_);
  }

 private:
  static constexpr std::uint64_t kIntervals = 4096;

  /// Takes the patches whose keys lie from one to another, both included.
  void Split(std::uint64_t first, std::uint64_t last) {
    const std::uint64_t width = (last - first) / kIntervals + 1;
    const auto interval_of = [&](double distance) { return (BitsOf(distance) - first) / width; };
    std::vector<std::uint64_t> counts(kIntervals);
    order_.Walk({kAllCodes, DistanceWith(first), DistanceWith(last)}, [&](const Cell& cell) {
      const std::uint64_t interval = interval_of(cell.nearest);
      if (interval != interval_of(cell.farthest)) return false;
      counts[interval] += static_cast<std::uint64_t>(cell.positions.volume());
      return true;
    });
    for (std::uint64_t i = 0; i < kIntervals; ++i) {
      if (counts[i] == 0) continue;
      const std::uint64_t begin = first + i * width;
      const std::uint64_t end = std::min(last, begin + width - 1);
      if (counts[i] <= most_) {
        Add(begin, end, counts[i]);
      } else if (begin < end) {
        Split(begin, end);
      } else {
        AddEqual(begin);
      }
    }
  }

  void Add(std::uint64_t begin, std::uint64_t end, std::uint64_t count) {
    if (count_ + count > most_) Close();
    if (count_ == 0) open_.nearest = DistanceWith(begin);
    open_.farthest = DistanceWith(end);
    count_ += count;
  }

  /// More patches of one distance than a shell takes.
  void AddEqual(std::uint64_t key) {
    Close();
    const Shell all{kAllCodes, DistanceWith(key), DistanceWith(key)};
    CodeCutter cutter(most_);
    for (const MortonRun& run : order_.CodesOf(all)) cutter.Add(run);
    for (const MortonRun& codes : cutter.pieces()) shells_.push_back({codes, all.nearest, all.farthest});
  }

  void Close() {
    if (std::exchange(count_, 0) > 0) shells_.push_back(open_);
  }

  const DistanceOrder& order_;
  const std::uint64_t most_;
  Shell open_;
  std::uint64_t count_ = 0;  ///< patches of open_
  std::vector<Shell> shells_;
};

std::vector<Shell> DistanceOrder::Cut(std::uint64_t most) const { return Cutter(*this, most).Run(); }

}  // namespace quarry::query
