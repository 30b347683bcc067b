#include "quarry/query/fine_bins.h"

#include <cmath>

namespace quarry::query {
namespace {

/// The float64 of the value with a key.
template <typename T>
double ValueOfKey(std::uint64_t key) {
  if constexpr (std::is_floating_point_v<T>) {
    using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
    constexpr Bits kSign = Bits{1} << (8 * sizeof(T) - 1);
    const auto bits = static_cast<Bits>(key);
    return static_cast<double>(std::bit_cast<T>((bits & kSign) != 0 ? Bits(bits ^ kSign) : Bits(~bits)));
  } else if constexpr (std::is_signed_v<T>) {
    return static_cast<double>(static_cast<std::int64_t>(key ^ (std::uint64_t{1} << 63)));
  } else {
    return static_cast<double>(key);
  }
}

/// The key of the value of type T next to a number that may lie outside the type, or between two integers.
template <typename T>
std::uint64_t KeyNear(double number) {
  const auto lowest = static_cast<double>(std::numeric_limits<T>::lowest());
  const auto largest = static_cast<double>(std::numeric_limits<T>::max());
  return KeyOf<T>(number > lowest ? std::min(number, largest) : lowest);  // also of a NaN
}

}  // namespace

double LowerEnd(double value, double error) {
  return error == 0 ? value : std::nextafter(value - error, -std::numeric_limits<double>::infinity());
}

double UpperEnd(double value, double error) {
  return error == 0 ? value : std::nextafter(value + error, std::numeric_limits<double>::infinity());
}

Bounds RangeOf(const ReadPlan& plan, const PlannedPatch& patch) {
  const format::PatchEntry& row = patch.entry.patch;
  const double error = row.levels[plan.parts.Of(plan.query.layer, plan.query.level)].max_error;
  return {LowerEnd(row.min, error), UpperEnd(row.max, error)};
}

FineBins::FineBins(const ReadPlan& plan, const ForEachPart& parts) {
  Bounds range{std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()};
  parts([&](const ReadPlan& part) {
    for (const PlannedPatch& patch : part.patches) {
      if (patch.entry.patch.valid == 0) continue;
      const Bounds of_patch = RangeOf(part, patch);
      range = {std::min(range.low, of_patch.low), std::max(range.high, of_patch.high)};
    }
  });
  if (!(range.low <= range.high)) range = {0, 0};
  DispatchType(plan.type, [&]<typename T>(T) { Divide<T>(parts, range); });
}

template <typename T>
void FineBins::Divide(const ForEachPart& parts, const Bounds& range) {
  Places& to = places_;
  to.low = KeyNear<T>(range.low);
  to.high = KeyNear<T>(range.high);
  while ((to.high >> to.shift) - (to.low >> to.shift) >= kCells) ++to.shift;
  to.dropped = std::max(0, to.shift - 32);
  to.first_cell = to.low >> to.shift;
  cells_.resize((to.high >> to.shift) - to.first_cell + 1);
  to.cells = cells_.data();

  const std::vector<double> by_patches = SharesOfPatches<T>(parts);
  const double width = ValueOfKey<T>(to.high) / 2 - ValueOfKey<T>(to.low) / 2;  // whole, it may overflow
  const double keys = static_cast<double>(to.high - to.low) + 1;
  const std::uint64_t in_cell = std::uint64_t{1} << to.shift;
  std::uint32_t next = 0;
  for (std::size_t i = 0; i < cells_.size(); ++i) {
    const std::uint64_t begin = (to.first_cell + i) << to.shift;
    const double of_width = ValueOfKey<T>(begin + (in_cell - 1)) / 2 - ValueOfKey<T>(begin) / 2;
    const double share =
        std::max({width > 0 ? of_width / width : 0, static_cast<double>(in_cell) / keys, by_patches[i]});
    const double bins =
        std::min(std::ceil(share * static_cast<double>(kShare)), static_cast<double>(in_cell));
    cells_[i] = {next, static_cast<std::uint32_t>(bins)};
    // No sample is before the lowest key.
    if (i == 0) cells_[0].first -= static_cast<std::uint32_t>(to.Of(to.low));
    next = cells_[i].first + cells_[i].bins;
  }
  bins_.resize(to.Of(to.high) + 1);
}

template <typename T>
std::vector<double> FineBins::SharesOfPatches(const ForEachPart& parts) const {
  std::vector<double> shares(cells_.size() + 1);  // at first, differences between neighbours
  double samples = 0;
  parts([&](const ReadPlan& part) {
    for (const PlannedPatch& patch : part.patches) {
      if (patch.entry.patch.valid == 0) continue;
      const Bounds range = RangeOf(part, patch);
      const std::size_t first = places_.CellOf(KeyNear<T>(range.low));
      const std::size_t last = places_.CellOf(KeyNear<T>(range.high));
      if (first > last) continue;
      const auto valid = static_cast<double>(patch.entry.patch.valid);
      samples += valid;
      shares[first] += valid / static_cast<double>(last - first + 1);
      shares[last + 1] -= valid / static_cast<double>(last - first + 1);
    }
  });
  double sum = 0;
  for (double& share : shares) {
    sum += share;
    share = samples > 0 ? std::clamp(sum / samples, 0.0, 1.0) : 0;
  }
  return shares;
}

void FineBins::Close() {
  std::erase_if(bins_, [](const Bin& bin) { return bin.count == 0; });  // in place: no copy is counted
  for (std::size_t i = 1; i < bins_.size(); ++i) bins_[i].count += bins_[i - 1].count;
}

FineBins::Found FineBins::At(std::uint64_t rank) const {
  const auto bin =
      std::partition_point(bins_.begin(), bins_.end(), [&](const Bin& one) { return one.count < rank; });
  const std::uint64_t before = bin == bins_.begin() ? 0 : std::prev(bin)->count;
  const std::uint64_t place = rank - before;  // in the bin, from 1 on
  const std::uint64_t count = bin->count - before;
  if (place == 1) return {bin->min, bin->min, bin->min, &*bin};
  if (place == count) return {bin->max, bin->max, bin->max, &*bin};
  const double along = static_cast<double>(place - 1) / static_cast<double>(count - 1);
  return {std::lerp(bin->min, bin->max, along), bin->min, bin->max, &*bin};
}

}  // namespace quarry::query
