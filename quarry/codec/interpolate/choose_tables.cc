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
  std::size_t symbols = 0;  ///< one more than the largest that occurs
  Histogram histogram;      ///< of these; the rest is unset
  float bits = 0;
};

/// Increments of the same counter wait for each other: neighbours count in turns.
constexpr std::size_t kTurns = 4;

/// How often each symbol of a bin occurs among the sampled indices, of which there are fewer than 2^16.
using SymbolCounts = std::array<std::array<std::uint16_t, kTurns>, entropy::kSymbols>;

/// Scratch of a thread.
struct Scratch {
  std::vector<Group> groups =
      std::vector<Group>(2 * kFineBins);  ///< one a bin, and one for each two neighbours
  std::vector<SymbolCounts> counts = std::vector<SymbolCounts>(kFineBins);

  static Scratch& OfThread() {
    thread_local Scratch scratch;
    return scratch;
  }
};

float Bits(const Group& group) {
  // The terms first: these are vectors, while the sum has a fixed order.
  std::array<float, entropy::kSymbols> terms;
  int used = 0;
  for (std::size_t s = 0; s < group.symbols; ++s) {
    const std::uint32_t n = group.histogram[s];
    const auto value = static_cast<float>(n);
    terms[s] = n > 0 ? value * FixedLog2(value) : 0.0f;
    used += n > 0 ? 1 : 0;
  }
  float bits = static_cast<float>(group.count) * FixedLog2(static_cast<float>(group.count));
  for (std::size_t s = 0; s < group.symbols; ++s) bits -= terms[s];
  return bits + static_cast<float>(used) * kBitsPerFrequency + kBitsPerTable +
         static_cast<float>(group.count) * static_cast<float>(group.shift);
}

int ShiftFor(std::uint64_t sum, std::uint64_t count) {
  int shift = 0;
  while (shift < entropy::kMaxShift && sum > (kMeanInSymbol * count) << shift) ++shift;
  return shift;
}

std::uint32_t CountedSymbol(std::int32_t index, int shift) {
  return std::min<std::uint32_t>(Fold(index, shift).symbol, entropy::kLargestSymbol);
}

/// The symbol that stands for another one after a larger shift; the dropped bits are lost.
std::uint32_t Coarser(std::uint32_t symbol, int by) {
  return CountedSymbol(static_cast<std::int32_t>((symbol >> 1) ^ (~(symbol & 1) + 1)), by);
}

void AddHistogram(const Group& from, Group* to) {
  if (from.shift == to->shift) {
    for (std::size_t s = 0; s < from.symbols; ++s) to->histogram[s] += from.histogram[s];
    return;
  }
  for (std::uint32_t s = 0; s < from.symbols; ++s)
    to->histogram[Coarser(s, to->shift - from.shift)] += from.histogram[s];
}

void Merge(const Group& a, const Group& b, Group* merged) {
  merged->first_bin = a.first_bin;
  merged->shift = std::max(a.shift, b.shift);
  merged->count = a.count + b.count;
  // A larger shift makes no symbol larger.
  merged->symbols = std::max(a.symbols, b.symbols);
  std::fill_n(merged->histogram.begin(), merged->symbols, 0u);
  AddHistogram(a, merged);
  AddHistogram(b, merged);
  merged->bits = Bits(*merged);
}

/// Calls use(i, turn) for all indices, or in large levels for evenly spaced short runs.
template <typename Use>
void ForSampled(std::size_t count, Use use) {
  constexpr std::size_t kRun = 64;
  constexpr std::size_t kEnough = 16384;
  const std::size_t stride = count > 2 * kEnough ? count / kEnough * kRun : kRun;
  for (std::size_t begin = 0; begin < count; begin += stride) {
    const std::size_t end = std::min(begin + kRun, count);
    std::size_t i = begin;
    for (; i + kTurns <= end; i += kTurns) {
      for (std::size_t turn = 0; turn < kTurns; ++turn) use(i + turn, turn);
    }
    for (; i < end; ++i) use(i, 0);
  }
}

/// How many sampled indices every bin has, and the sum of their magnitudes.
struct BinSums {
  std::array<std::uint64_t, kFineBins> counts{};
  std::array<std::uint64_t, kFineBins> sums{};
};

BinSums SumBins(std::span<const std::int32_t> indices, std::span<const std::uint8_t> bins) {
  // Both in one number: fewer than 2^16 indices are sampled, and none is above 2^28.
  constexpr int kCountAt = 48;
  std::array<std::array<std::uint64_t, kTurns>, kFineBins> packed{};
  ForSampled(indices.size(), [&](std::size_t i, std::size_t turn) {
    const auto magnitude = static_cast<std::uint32_t>(indices[i] < 0 ? -indices[i] : indices[i]);
    packed[bins[i]][turn] += (std::uint64_t{1} << kCountAt) + magnitude;
  });
  BinSums all;
  for (std::size_t bin = 0; bin < kFineBins; ++bin) {
    for (const std::uint64_t part : packed[bin]) {
      all.counts[bin] += part >> kCountAt;
      all.sums[bin] += part & ((std::uint64_t{1} << kCountAt) - 1);
    }
  }
  return all;
}

/// Moves what was counted of a bin to its group.
void TakeCounts(const SymbolCounts& counts, std::uint32_t weight, Group* group) {
  for (std::size_t s = 0; s < entropy::kSymbols; ++s) {
    std::uint32_t count = 0;
    for (const std::uint16_t part : counts[s]) count += part;
    group->histogram[s] = count * weight;
  }
  group->symbols = entropy::kSymbols;
  while (group->histogram[group->symbols - 1] == 0) --group->symbols;
  group->bits = Bits(*group);
}

/// @returns in scratch
std::vector<Group*> GroupPerBin(std::span<const std::int32_t> indices, std::span<const std::uint8_t> bins,
                                Scratch* scratch) {
  const BinSums of_bins = SumBins(indices, bins);
  std::size_t seen = 0;
  for (const std::uint64_t count : of_bins.counts) seen += count;
  // The sampled indices of a group stand for all of it, so their bits are scaled before tables are weighed
  // against them.
  seen = std::max<std::size_t>(seen, 1);
  const auto weight = static_cast<std::uint32_t>((indices.size() + seen / 2) / seen);
  std::vector<Group*> groups;
  std::array<int, kFineBins> shift_of_bin{};
  for (std::size_t bin = 0; bin < kFineBins; ++bin) {
    if (of_bins.counts[bin] == 0) continue;
    Group* group = &scratch->groups[groups.size()];
    group->first_bin = static_cast<std::uint8_t>(bin);
    group->shift = ShiftFor(of_bins.sums[bin], of_bins.counts[bin]);
    group->count = of_bins.counts[bin] * weight;
    shift_of_bin[bin] = group->shift;
    scratch->counts[bin] = {};
    groups.push_back(group);
  }
  SymbolCounts* const counts = scratch->counts.data();
  ForSampled(indices.size(), [&](std::size_t i, std::size_t turn) {
    ++counts[bins[i]][CountedSymbol(indices[i], shift_of_bin[bins[i]])][turn];
  });
  for (Group* group : groups) TakeCounts(scratch->counts[group->first_bin], weight, group);
  groups.front()->first_bin = 0;
  return groups;
}

}  // namespace

TableChoice ChooseTables(std::span<const std::int32_t> indices, std::span<const std::uint8_t> bins) {
  Scratch& scratch = Scratch::OfThread();
  std::vector<Group*> groups = GroupPerBin(indices, bins, &scratch);
  // Greedily merge the neighbours that gain most, or lose least while there are too many.
  std::vector<Group*> candidates;
  for (std::size_t i = 0; i + 1 < groups.size(); ++i) {
    candidates.push_back(&scratch.groups[kFineBins + i]);
    Merge(*groups[i], *groups[i + 1], candidates[i]);
  }
  while (!candidates.empty()) {
    std::size_t best = 0;
    float best_gain = -1e30f;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      const float gain = groups[i]->bits + groups[i + 1]->bits - candidates[i]->bits;
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
    if (best < candidates.size()) Merge(*groups[best], *groups[best + 1], candidates[best]);
    if (best > 0) Merge(*groups[best - 1], *groups[best], candidates[best - 1]);
  }
  TableChoice choice;
  for (const Group* group : groups) {
    choice.contexts.first_bins.push_back(group->first_bin);
    choice.shifts.push_back(static_cast<std::uint8_t>(group->shift));
    choice.bits += static_cast<double>(group->bits);
  }
  return choice;
}

}  // namespace quarry::interpolate
