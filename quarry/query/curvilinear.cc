#include "quarry/query/curvilinear.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

namespace quarry::query {
namespace {

/// Cells along each side of the smallest block that has a box.
constexpr std::int64_t kBlock = 4;
/// [cells] How far outside of all cells a place may lie.
constexpr double kOutside = 0.01;
/// [cells] Nearer to a side is on it: otherwise a place on a sample would depend on the next sample, which
/// may be missing.
constexpr double kOnSide = 1e-9;
/// [sides] How far a side may lean from a parallel or meridian, and be taken for one.
constexpr double kLean = 1e-3;

using Vector = std::array<double, 3>;
using Flat = std::array<std::array<double, 2>, 4>;

double Dot(const Vector& a, const Vector& b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

double SquaredLength(const Vector& a, const Vector& b) {
  const Vector apart = {a[0] - b[0], a[1] - b[1], a[2] - b[2]};
  return Dot(apart, apart);
}

double Cross(const std::array<double, 2>& a, const std::array<double, 2>& b) {
  return a[0] * b[1] - a[1] * b[0];
}

/// [cells] How far fractions are outside of a cell; infinite for NaN.
double OutsideBy(double s, double t) {
  if (std::isnan(s) || std::isnan(t)) return std::numeric_limits<double>::infinity();
  const double most = std::max({-s, s - 1, -t, t - 1});
  return most <= kOnSide ? 0 : most;
}

/// The fractions s and t of a cell at its origin: 0 = a + s e + t f + s t g. NaN where there are none.
std::array<double, 2> FractionsAtOrigin(const Flat& corners) {
  const auto& [a, b, c, d] = corners;
  const std::array<double, 2> e = {b[0] - a[0], b[1] - a[1]};
  const std::array<double, 2> f = {c[0] - a[0], c[1] - a[1]};
  const std::array<double, 2> g = {d[0] - b[0] - f[0], d[1] - b[1] - f[1]};
  const std::array<double, 2> h = {-a[0], -a[1]};
  // h - t f and e + t g have one direction: a quadratic equation of t.
  const double square = Cross(g, f);
  const double linear = Cross(h, g) + Cross(e, f);
  const double constant = Cross(h, e);
  const double root = std::sqrt(linear * linear - 4 * square * constant);
  const double half = -(linear + std::copysign(root, linear)) / 2;
  std::array<double, 2> best = {std::nan(""), std::nan("")};
  double least = std::numeric_limits<double>::infinity();
  for (const double t : {constant / half, half / square}) {
    const std::array<double, 2> along = {e[0] + t * g[0], e[1] + t * g[1]};
    const std::size_t longer = std::abs(along[0]) > std::abs(along[1]) ? 0 : 1;
    const double s = (h[longer] - t * f[longer]) / along[longer];
    const double outside = OutsideBy(s, t);
    if (outside < least) {
      least = outside;
      best = {s, t};
    }
  }
  return best;
}

double OnSide(double fraction) {
  if (fraction <= kOnSide) return 0;
  return fraction >= 1 - kOnSide ? 1 : fraction;
}

}  // namespace

/// A place that is looked for, and the best cell by now.
struct CurvilinearGrid::Search {
  Spot from;
  double outside = kOutside;  ///< [cells]
  double size = 0;            ///< squared diagonal of the cell
  std::int64_t index = -1;    ///< index of the cell: i + nx j
  std::array<double, 2> found = {};

  bool Improves(double other_outside, double other_size, std::int64_t other_index) const {
    if (index < 0) return other_outside <= outside;
    if (other_outside != outside) return other_outside < outside;
    // A halo repeats cells, rounded otherwise.
    constexpr double kFarSmaller = 1.0 / 16;
    if (other_size < kFarSmaller * size) return true;
    return other_index < index && kFarSmaller * other_size <= size;
  }
};

Result<CurvilinearGrid> CurvilinearGrid::Create(CoordinateKind kind, std::int64_t nx, std::int64_t ny,
                                                std::vector<double> x, std::vector<double> y) {
  const std::uint64_t samples = static_cast<std::uint64_t>(nx) * static_cast<std::uint64_t>(ny);
  if (nx < 1 || ny < 1 || x.size() != samples || y.size() != samples)
    return InvalidArgument("{} and {} coordinates are given for {} x {} samples; give one of each for each",
                           x.size(), y.size(), nx, ny);
  CurvilinearGrid grid;
  grid.kind_ = kind;
  grid.nx_ = nx;
  grid.ny_ = ny;
  grid.x_ = std::move(x);
  grid.y_ = std::move(y);
  grid.DropPlacesThatAreNone();
  grid.MakeBlocks();
  grid.JoinBlocks();
  return grid;
}

std::optional<std::array<double, 2>> CurvilinearGrid::Find(double x, double y) const {
  if (!IsPlace(x, y)) return std::nullopt;
  Search search{.from = SpotOf(x, y)};
  LookInto(layers_.size() - 1, 0, 0, &search);
  if (search.index < 0) return std::nullopt;
  return search.found;
}

std::uint64_t CurvilinearGrid::bytes() const {
  std::uint64_t bytes = (x_.size() + y_.size()) * sizeof(double);
  for (const Layer& layer : layers_) bytes += layer.extents.size() * sizeof(Extent);
  return bytes;
}

double CurvilinearGrid::turn() const {
  return kind_ == CoordinateKind::kDegrees ? 360 : 2 * std::numbers::pi;
}

/// Radians in the unit of the coordinates.
double CurvilinearGrid::radians() const { return 2 * std::numbers::pi / turn(); }

/// The shorter way round from one longitude to another.
double CurvilinearGrid::Apart(double to, double from) const {
  return is_sphere() ? std::remainder(to - from, turn()) : to - from;
}

/// Whether these are the coordinates of a place.
bool CurvilinearGrid::IsPlace(double x, double y) const {
  if (!std::isfinite(x) || !std::isfinite(y)) return false;
  constexpr double kRounding = 1e-6;
  return !is_sphere() || (std::abs(y) <= turn() / 4 * (1 + kRounding) && std::abs(x) <= 2 * turn());
}

CurvilinearGrid::Spot CurvilinearGrid::SpotOf(double x, double y) const {
  if (!is_sphere()) return {x, y, {x, y, 0}};
  const double longitude = x * radians();
  const double latitude = y * radians();
  const double from_axis = std::cos(latitude);
  return {x, y, {from_axis * std::cos(longitude), from_axis * std::sin(longitude), std::sin(latitude)}};
}

CurvilinearGrid::Spot CurvilinearGrid::SampleAt(std::int64_t i, std::int64_t j) const {
  const auto sample = static_cast<std::size_t>(i + nx_ * j);
  return SpotOf(x_[sample], y_[sample]);
}

/// Whether no corner is missing.
bool CurvilinearGrid::IsWhole(const Cell& cell) {
  return std::ranges::none_of(cell, [](const Spot& corner) { return std::isnan(corner.x); });
}

/// Whether its sides run along parallels and meridians: they are straight in longitude and latitude then. Two
/// of its corners may lie on a pole.
bool CurvilinearGrid::IsAligned(const Cell& cell) const {
  const auto is_along = [&](std::size_t second, std::size_t third) {
    const double along = Apart(cell[second].x, cell[0].x);
    const double along_other = Apart(cell[3].x, cell[third].x);
    const double up = cell[third].y - cell[0].y;
    const double up_other = cell[3].y - cell[second].y;
    const double lean_x = kLean * std::min(std::abs(along), std::abs(along_other));
    const double lean_y = kLean * std::min(std::abs(up), std::abs(up_other));
    return std::max(std::abs(along), std::abs(along_other)) < 0.49 * turn() &&
           std::abs(Apart(cell[third].x, cell[0].x)) <= lean_x &&
           std::abs(Apart(cell[3].x, cell[second].x)) <= lean_x &&
           std::abs(cell[second].y - cell[0].y) <= lean_y && std::abs(cell[3].y - cell[third].y) <= lean_y;
  };
  return is_along(1, 2) || is_along(2, 1);
}

/// How far places in or beside a cell may lie outside of the box around its corners, for the box is around
/// chords, and a cell lies on the sphere.
/// @source Jung's theorem: corners no farther from each other than d lie within sqrt(3/8) d of one place
double CurvilinearGrid::Margin(const Cell& cell) const {
  double longest = 0;
  for (std::size_t a = 0; a < 4; ++a) {
    for (std::size_t b = a + 1; b < 4; ++b)
      longest = std::max(longest, SquaredLength(cell[a].at, cell[b].at));
  }
  const double beside = 2 * kOutside * std::sqrt(longest);
  if (!is_sphere()) return beside;
  double bulge = 1 - std::sqrt(std::max(0.0, 1 - 3.0 / 8 * longest));
  if (IsAligned(cell)) {
    // Parallels run outside of great circles.
    const double along = Apart(cell[3].x, cell[0].x) * radians();
    bulge += 1 - std::cos(along / 2);
  }
  return beside + bulge;
}

/// @returns false where a corner is too far away
bool CurvilinearGrid::Flatten(const Cell& cell, const Spot& from, Flat* flat) const {
  if (!is_sphere() || IsAligned(cell)) {
    const double first = Apart(cell[0].x, from.x);
    for (std::size_t c = 0; c < 4; ++c)
      (*flat)[c] = {first + Apart(cell[c].x, cell[0].x), cell[c].y - from.y};
    return true;
  }
  // Seen from the centre of the sphere, great circles are straight.
  const Vector east = {-std::sin(from.x * radians()), std::cos(from.x * radians()), 0};
  const Vector north = {-from.at[2] * east[1], from.at[2] * east[0],
                        from.at[0] * east[1] - from.at[1] * east[0]};
  for (std::size_t c = 0; c < 4; ++c) {
    const double near = Dot(cell[c].at, from.at);
    if (!(near > 0)) return false;
    (*flat)[c] = {Dot(cell[c].at, east) / near, Dot(cell[c].at, north) / near};
  }
  return true;
}

void CurvilinearGrid::DropPlacesThatAreNone() {
  for (std::size_t s = 0; s < x_.size(); ++s) {
    double& x = x_[s];
    double& y = y_[s];
    if (!IsPlace(x, y)) {
      x = y = std::numeric_limits<double>::quiet_NaN();
      continue;
    }
    if (!ranges_) ranges_ = {{{x, x}, {y, y}}};
    auto& [along_x, along_y] = *ranges_;
    along_x = {std::min(along_x.low, x), std::max(along_x.high, x)};
    along_y = {std::min(along_y.low, y), std::max(along_y.high, y)};
  }
}

void CurvilinearGrid::MakeBlocks() {
  constexpr double kFar = std::numeric_limits<double>::infinity();
  Layer& blocks = layers_.emplace_back();
  blocks.nx = std::max<std::int64_t>(1, (nx_ - 1 + kBlock - 1) / kBlock);
  blocks.ny = std::max<std::int64_t>(1, (ny_ - 1 + kBlock - 1) / kBlock);
  blocks.extents.assign(static_cast<std::size_t>(blocks.nx * blocks.ny),
                        {{kFar, kFar, kFar}, {-kFar, -kFar, -kFar}});
  std::vector<Spot> below(static_cast<std::size_t>(nx_));
  std::vector<Spot> above(below.size());
  for (std::int64_t i = 0; i < nx_; ++i) above[static_cast<std::size_t>(i)] = SampleAt(i, 0);
  for (std::int64_t j = 0; j + 1 < ny_; ++j) {
    below.swap(above);
    for (std::int64_t i = 0; i < nx_; ++i) above[static_cast<std::size_t>(i)] = SampleAt(i, j + 1);
    for (std::size_t i = 0; i + 1 < below.size(); ++i) {
      const Cell cell = {below[i], below[i + 1], above[i], above[i + 1]};
      if (!IsWhole(cell)) continue;
      const double margin = Margin(cell);
      const std::int64_t block = static_cast<std::int64_t>(i) / kBlock + blocks.nx * (j / kBlock);
      Extent& extent = blocks.extents[static_cast<std::size_t>(block)];
      for (std::size_t a = 0; a < 3; ++a) {
        const auto [low, high] = std::minmax({cell[0].at[a], cell[1].at[a], cell[2].at[a], cell[3].at[a]});
        extent.low[a] = std::min(extent.low[a], low - margin);
        extent.high[a] = std::max(extent.high[a], high + margin);
      }
    }
  }
}

void CurvilinearGrid::JoinBlocks() {
  while (layers_.back().extents.size() > 1) {
    const Layer& finer = layers_.back();
    Layer joined{(finer.nx + 1) / 2, (finer.ny + 1) / 2, {}};
    joined.extents.reserve(static_cast<std::size_t>(joined.nx * joined.ny));
    for (std::int64_t j = 0; j < joined.ny; ++j) {
      for (std::int64_t i = 0; i < joined.nx; ++i) {
        Extent extent = finer.extents[static_cast<std::size_t>(2 * i + finer.nx * 2 * j)];
        for (std::int64_t quarter = 1; quarter < 4; ++quarter) {
          const std::int64_t fine_i = 2 * i + quarter % 2;
          const std::int64_t fine_j = 2 * j + quarter / 2;
          if (fine_i >= finer.nx || fine_j >= finer.ny) continue;
          const Extent& other = finer.extents[static_cast<std::size_t>(fine_i + finer.nx * fine_j)];
          for (std::size_t a = 0; a < 3; ++a) {
            extent.low[a] = std::min(extent.low[a], other.low[a]);
            extent.high[a] = std::max(extent.high[a], other.high[a]);
          }
        }
        joined.extents.push_back(extent);
      }
    }
    layers_.push_back(std::move(joined));
  }
}

void CurvilinearGrid::LookInto(std::size_t layer, std::int64_t i, std::int64_t j, Search* search) const {
  const Layer& blocks = layers_[layer];
  if (i >= blocks.nx || j >= blocks.ny) return;
  const Extent& extent = blocks.extents[static_cast<std::size_t>(i + blocks.nx * j)];
  for (std::size_t a = 0; a < 3; ++a) {
    const double at = search->from.at[a];
    if (!(extent.low[a] <= at && at <= extent.high[a])) return;
  }
  if (layer == 0) return LookIntoCells(i, j, search);
  for (std::int64_t quarter = 0; quarter < 4; ++quarter)
    LookInto(layer - 1, 2 * i + quarter % 2, 2 * j + quarter / 2, search);
}

void CurvilinearGrid::LookIntoCells(std::int64_t block_i, std::int64_t block_j, Search* search) const {
  const std::int64_t end_i = std::min(nx_, kBlock * (block_i + 1) + 1);
  const std::int64_t end_j = std::min(ny_, kBlock * (block_j + 1) + 1);
  std::array<Spot, kBlock + 1> below;
  std::array<Spot, kBlock + 1> above;
  for (std::int64_t j = kBlock * block_j; j < end_j; ++j) {
    below = above;
    std::size_t column = 0;
    for (std::int64_t i = kBlock * block_i; i < end_i; ++i, ++column) {
      above[column] = SampleAt(i, j);
      if (i == kBlock * block_i || j == kBlock * block_j) continue;
      LookIntoCell({below[column - 1], below[column], above[column - 1], above[column]}, i - 1, j - 1,
                   search);
    }
  }
}

void CurvilinearGrid::LookIntoCell(const Cell& cell, std::int64_t i, std::int64_t j, Search* search) const {
  const double size = std::max(SquaredLength(cell[0].at, cell[3].at), SquaredLength(cell[1].at, cell[2].at));
  const double sides = std::max(SquaredLength(cell[0].at, cell[1].at), SquaredLength(cell[0].at, cell[2].at));
  // No place of a cell is farther from a corner than twice its longest side or diagonal.
  if (SquaredLength(cell[0].at, search->from.at) > 4 * std::max(size, sides)) return;
  Flat flat;
  if (!Flatten(cell, search->from, &flat)) return;
  // A missing corner brings NaN, which goes as far as the fractions.
  const std::array<double, 2> fractions = FractionsAtOrigin(flat);
  const double outside = OutsideBy(fractions[0], fractions[1]);
  const std::int64_t index = i + nx_ * j;
  if (!(outside <= kOutside) || !search->Improves(outside, size, index)) return;
  search->outside = outside;
  search->size = size;
  search->index = index;
  search->found = {static_cast<double>(i) + OnSide(fractions[0]),
                   static_cast<double>(j) + OnSide(fractions[1])};
}

}  // namespace quarry::query
