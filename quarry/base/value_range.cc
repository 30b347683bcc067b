#include "quarry/base/value_range.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cfloat>
#include <cmath>

namespace quarry {
namespace {

/// Values that people use for "missing": nines alone, a power of ten from 1e10 on, ends of types, and what
/// netCDF fills floats with.
bool LooksLikeFill(double value) {
  const double size = std::abs(value);
  constexpr std::int64_t kMostNines = 999'999'999'999'999;
  for (std::int64_t nines = 99; nines <= kMostNines; nines = 10 * nines + 9) {
    if (size == static_cast<double>(nines) || size == static_cast<double>(nines) + 0.9) return true;
  }
  constexpr std::array<double, 9> kEnds = {
      32767, 32768, 2147483647, 2147483648, 65535, 4294967295, 9.969209968386869e36, FLT_MAX, DBL_MAX};
  if (std::ranges::find(kEnds, size) != kEnds.end()) return true;
  const double power = std::log10(size);
  return size >= 1e10 && std::abs(power - std::round(power)) < 1e-6;
}

/// Samples between two gaps, [begin, end) of the sorted ones.
struct Core {
  std::size_t begin = 0;
  std::size_t end = 0;

  std::size_t size() const { return end - begin; }
};

/// The places behind which the widest gaps lie, with both ends.
std::vector<std::size_t> WidestGaps(const std::vector<double>& sorted) {
  std::vector<std::size_t> places;
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    if (sorted[i] > sorted[i - 1]) places.push_back(i);
  }
  constexpr std::size_t kLooked = 6;
  const std::size_t kept = std::min(kLooked, places.size());
  const auto width = [&](std::size_t i) { return sorted[i] - sorted[i - 1]; };
  std::partial_sort(places.begin(), places.begin() + static_cast<std::ptrdiff_t>(kept), places.end(),
                    [&](std::size_t a, std::size_t b) { return width(a) > width(b); });
  places.resize(kept);
  places.push_back(0);
  places.push_back(sorted.size());
  std::ranges::sort(places);
  return places;
}

/// Whether the farthest sample outside the core is above it.
bool ReachesAbove(const std::vector<double>& sorted, const Core& core) {
  return sorted.back() - sorted[core.end - 1] >= sorted[core.begin] - sorted.front();
}

/// The width of the gap beside the core, on the side of the farthest sample.
double GapBeside(const std::vector<double>& sorted, const Core& core) {
  return ReachesAbove(sorted, core) ? sorted[core.end] - sorted[core.end - 1]
                                    : sorted[core.begin] - sorted[core.begin - 1];
}

double FarthestOutside(const std::vector<double>& sorted, const Core& core) {
  return ReachesAbove(sorted, core) ? sorted.back() : sorted.front();
}

/// How many times as wide as the range of the core a gap has to be.
double Threshold(const std::vector<double>& sorted, const Core& core) {
  const double value = FarthestOutside(sorted, core);
  if (LooksLikeFill(value)) return 10;
  constexpr std::size_t kFew = 64;
  // A few samples, or less than a half of many, are not a norm: only a gap beyond every physical range
  // separates the others.
  if (sorted.size() < kFew || core.size() < sorted.size() / 2) return 1e6;
  const auto [first, last] = std::equal_range(sorted.begin(), sorted.end(), value);
  constexpr std::ptrdiff_t kRepeated = 4;  // one of them may be the end of the range, counted twice
  return last - first >= kRepeated ? 100 : 1000;
}

}  // namespace

std::optional<OutlyingSamples> FindOutlying(std::vector<double>* sample, double min, double max) {
  if (!(min < max) || sample->size() < 8) return std::nullopt;
  const std::size_t looked = sample->size();
  sample->push_back(min);
  sample->push_back(max);
  std::ranges::sort(*sample);
  const std::vector<double>& sorted = *sample;
  const std::vector<std::size_t> places = WidestGaps(sorted);
  std::optional<Core> found;
  for (const std::size_t begin : places) {
    for (const std::size_t end : places) {
      // Most samples may be missing, but a few alone do not make a field; one value alone has no range.
      if (end < begin + sorted.size() / 20 + 4 || (begin == 0 && end == sorted.size())) continue;
      const Core core{begin, end};
      const double range = sorted[end - 1] - sorted[begin];
      if (range > 0 && GapBeside(sorted, core) / range >= Threshold(sorted, core) &&
          (!found || core.size() > found->size()))
        found = core;
    }
  }
  if (!found) return std::nullopt;
  const std::size_t outside = sorted.size() - found->size();
  // The two ends of the range are not of the sample.
  const std::size_t counted = outside - std::min<std::size_t>(outside, 1);
  return OutlyingSamples{FarthestOutside(sorted, *found),
                         static_cast<double>(counted) / static_cast<double>(looked), sorted[found->begin],
                         sorted[found->end - 1]};
}

std::string ToString(const OutlyingSamples& outlying) {
  const std::string share =
      outlying.share > 0 ? fmt::format("{:.2g} % of the samples", 100 * outlying.share) : "very few samples";
  return fmt::format("{} reach to {}, while all others lie from {:.6g} to {:.6g}", share, outlying.value,
                     outlying.low, outlying.high);
}

}  // namespace quarry
