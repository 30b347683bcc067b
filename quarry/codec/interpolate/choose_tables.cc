#include "quarry/codec/interpolate/choose_tables.h"

#include <algorithm>

#include "quarry/codec/interpolate/fixed_log.h"

namespace quarry::interpolate {
namespace {

/// Mean magnitude of an index up to which all of its bits are in the symbol.
constexpr std::uint64_t kMeanInSymbol = 14;
/// Bits that a frequency costs in the stored table, about.
constexpr float kBitsPerFrequency = 5.5f;
constexpr float kBitsPerTable = 22;

using Histogram = std::array<std::uint32_t, entropy::kSymbols>;

/// Consecutive bins with one table.
struct Group {
  std::uint8_t first_bin = 0;
  int shift = 0;
  std::uint64_t count = 0;
  Histogram histogram{};
  float bits = 0;
};

float Bits(const Group& group) {
  float bits = static_cast<float>(group.count) * FixedLog2(static_cast<float>(group.count));
  float used = 0;
  for (const std::uint32_t n : group.histogram) {
    const auto value = static_cast<float>(n);
    bits -= n > 0 ? value * FixedLog2(value) : 0.0f;
    used += n > 0 ? 1.0f : 0.0f;
  }
  return bits + used * kBitsPerFrequency + kBitsPerTable +
         static_cast<float>(group.count) * static_cast<float>(group.shift);
}

int ShiftFor(std::uint64_t sum, std::uint64_t count) {
  int shift = 0;
  while (shift < entropy::kMaxShift && sum > (kMeanInSymbol * count) << shift) ++shift;
  return shift;
}

/// The histogram with a larger shift; the dropped bits are lost.
Histogram Coarser(const Histogram& histogram, int from, int to) {
  if (from == to) return histogram;
  Histogram coarser{};
  for (std::uint32_t symbol = 0; symbol < entropy::kSymbols; ++symbol) {
    if (histogram[symbol] == 0) continue;
    const auto high = static_cast<std::int32_t>((symbol >> 1) ^ (~(symbol & 1) + 1));
    coarser[std::min<std::uint32_t>(Fold(high, to - from).symbol, entropy::kLargestSymbol)] +=
        histogram[symbol];
  }
  return coarser;
}

Group Merged(const Group& a, const Group& b) {
  Group merged;
  merged.first_bin = a.first_bin;
  merged.shift = std::max(a.shift, b.shift);
  merged.count = a.count + b.count;
  merged.histogram = Coarser(a.histogram, a.shift, merged.shift);
  const Histogram other = Coarser(b.histogram, b.shift, merged.shift);
  for (std::size_t s = 0; s < entropy::kSymbols; ++s) merged.histogram[s] += other[s];
  merged.bits = Bits(merged);
  return merged;
}

/// Calls use(i) for all indices, or in large levels for evenly spaced short runs.
template <typename Use>
void ForSampled(std::size_t count, Use use) {
  constexpr std::size_t kRun = 64;
  constexpr std::size_t kEnough = 16384;
  const std::size_t stride = count > 2 * kEnough ? count / kEnough * kRun : kRun;
  for (std::size_t begin = 0; begin < count; begin += stride) {
    for (std::size_t i = begin; i < std::min(begin + kRun, count); ++i) use(i);
  }
}

std::vector<Group> GroupPerBin(std::span<const std::int32_t> indices, std::span<const std::uint8_t> bins) {
  std::array<std::uint64_t, kFineBins> counts{};
  std::array<std::uint64_t, kFineBins> sums{};
  ForSampled(indices.size(), [&](std::size_t i) {
    ++counts[bins[i]];
    sums[bins[i]] += static_cast<std::uint64_t>(indices[i] < 0 ? -indices[i] : indices[i]);
  });
  std::vector<Group> groups;
  std::array<std::size_t, kFineBins> group_of_bin{};
  for (std::size_t bin = 0; bin < kFineBins; ++bin) {
    if (counts[bin] == 0) continue;
    group_of_bin[bin] = groups.size();
    groups.emplace_back();
    groups.back().first_bin = static_cast<std::uint8_t>(bin);
    groups.back().shift = ShiftFor(sums[bin], counts[bin]);
  }
  // The sampled indices of a group stand for all of it, so their bits are scaled before tables are weighed
  // against them.
  std::size_t seen = 0;
  for (const std::uint64_t count : counts) seen += count;
  const auto weight = static_cast<std::uint32_t>((indices.size() + seen / 2) / seen);
  ForSampled(indices.size(), [&](std::size_t i) {
    Group& group = groups[group_of_bin[bins[i]]];
    group.count += weight;
    group.histogram[std::min<std::uint32_t>(Fold(indices[i], group.shift).symbol, entropy::kLargestSymbol)] +=
        weight;
  });
  for (Group& group : groups) group.bits = Bits(group);
  groups.front().first_bin = 0;
  return groups;
}

}  // namespace

TableChoice ChooseTables(std::span<const std::int32_t> indices, std::span<const std::uint8_t> bins) {
  std::vector<Group> groups = GroupPerBin(indices, bins);
  // Greedily merge the neighbours that gain most, or lose least while there are too many.
  std::vector<Group> candidates;
  for (std::size_t i = 0; i + 1 < groups.size(); ++i) candidates.push_back(Merged(groups[i], groups[i + 1]));
  while (!candidates.empty()) {
    std::size_t best = 0;
    float best_gain = -1e30f;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      const float gain = groups[i].bits + groups[i + 1].bits - candidates[i].bits;
      if (gain > best_gain) {
        best_gain = gain;
        best = i;
      }
    }
    if (best_gain < 0 && groups.size() <= kMaxTables) break;
    const auto at = static_cast<std::ptrdiff_t>(best);
    groups[best] = candidates[best];
    groups.erase(groups.begin() + at + 1);
    candidates.erase(candidates.begin() + at);
    if (best < candidates.size()) candidates[best] = Merged(groups[best], groups[best + 1]);
    if (best > 0) candidates[best - 1] = Merged(groups[best - 1], groups[best]);
  }
  TableChoice choice;
  for (const Group& group : groups) {
    choice.contexts.first_bins.push_back(group.first_bin);
    choice.shifts.push_back(static_cast<std::uint8_t>(group.shift));
    choice.bits += static_cast<double>(group.bits);
  }
  return choice;
}

}  // namespace quarry::interpolate
