#include "quarry/codec/interpolate/choose_tables.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "quarry/base/per_thread.h"
#include "quarry/codec/interpolate/fixed_log.h"

namespace quarry::interpolate {
namespace {

/// Mean magnitude of an index up to which all of its bits are in the symbol.
constexpr std::uint64_t kMeanInSymbol = 14;
/// Bits that a frequency costs in the stored table, about.
constexpr float kBitsPerFrequency = 5.5f;
constexpr float kBitsPerTable = 22;
/// Its name, and the context that it begins with.
constexpr float kBitsPerName = 16;
/// Neighbours keep tables of their own if these save this part of all bits. Each table takes 8 KiB of the
/// cache from which the decoder reads one slot a sample; and bits of sampled indices are fewer than those of
/// all, as tables fit the sampled ones.
constexpr float kLeastGain = 0.002f;
/// Named tables need not be decoded: they may cost a little more than stored ones.
constexpr double kNamedMayCost = 1.002;
/// Levels of at most so many samples have named tables without a look at stored ones.
constexpr std::size_t kAlwaysNamed = 4096;
/// Levels whose indices cost more bits each have large ones, for which named tables may have no symbols.
constexpr double kMostBitsNamed = 10;

using Histogram = std::array<std::uint32_t, entropy::kSymbols>;

/// Consecutive contexts with one table.
struct Group {
  std::uint8_t first = 0;  ///< context
  int shift = 0;
  std::uint64_t count = 0;
  std::uint64_t magnitudes = 0;  ///< their sum
  std::size_t symbols = 0;       ///< one more than the largest that occurs
  Histogram histogram;           ///< counts of the symbols; the rest is unset
  float bits = 0;
  entropy::TableName name = 0;  ///< the best named table, where these are chosen
};

/// Increments of the same counter wait for each other: neighbours count in turns.
constexpr std::size_t kTurns = 4;

/// How often each symbol of a context occurs among the sampled indices, of which there are fewer than 2^16.
using SymbolCounts = std::array<std::array<std::uint16_t, kTurns>, entropy::kSymbols>;

/// Scratch of a thread.
struct Scratch {
  std::vector<Group> groups =
      std::vector<Group>(2 * kMostContexts);  ///< one a context, and one for each two neighbours
  std::vector<SymbolCounts> counts = std::vector<SymbolCounts>(kMostContexts);

  static Scratch& OfThread() {
    static const PerThread<Scratch> scratch;
    return *scratch;
  }
};

/// With a table of its own, which is stored.
void CountStored(Group* of) {
  const Group& group = *of;
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
  of->bits = bits + static_cast<float>(used) * kBitsPerFrequency + kBitsPerTable +
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

/// Costs of symbols in named tables, in 1/kCostUnit bits.
class NamedCosts {
 public:
  static constexpr std::uint32_t kCostUnit = 64;
  /// Cost of an index that has no symbol: position and value.
  static constexpr std::uint32_t kEscape = 32 * kCostUnit;
  using Costs = std::array<std::uint32_t, entropy::kSymbols>;

  static const Costs& Of(entropy::TableName name) {
    static const auto& costs = *new const NamedCosts;
    return costs.costs_[name];
  }

 private:
  NamedCosts() {
    for (std::size_t name = 0; name < costs_.size(); ++name) {
      const auto table = static_cast<entropy::TableName>(name);
      const entropy::Frequencies& frequencies = entropy::NamedTable(table).frequencies;
      for (std::size_t s = 0; s < entropy::kSymbols; ++s)
        costs_[name][s] = frequencies[s] == 0 ? kEscape : Cost(frequencies[s], entropy::ShiftOf(table));
    }
  }
  static std::uint32_t Cost(std::uint16_t frequency, int shift) {
    const float bits = static_cast<float>(entropy::kNamedBits + shift) - FixedLog2(frequency);
    return static_cast<std::uint32_t>(std::floor(bits * static_cast<float>(kCostUnit) + 0.5f));
  }

  std::vector<Costs> costs_ = std::vector<Costs>(256);
};

/// Finds the best named table of a group: of each shape, the scale from which no neighbour is better.
class NamedSearch {
 public:
  explicit NamedSearch(const Group& group) : group_(group) {}

  void Run() {
    const float mean = static_cast<float>(group_.magnitudes) / static_cast<float>(group_.count);
    const int guess = 12 + static_cast<int>(4.0f * FixedLog2(std::max(mean, 0.125f)));
    // How much wider a shape is than its mean magnitude, in quarters of an octave.
    constexpr std::array<int, entropy::kNamedShapes> kWider = {-1, 0, 2, 3};
    for (std::size_t shape = 0; shape < entropy::kNamedShapes; ++shape)
      SearchShape(shape, guess + kWider[shape]);
  }
  std::uint64_t cost() const { return best_; }
  entropy::TableName name() const { return name_; }

 private:
  void SearchShape(std::size_t shape, int guess) {
    // Scales with fewer low bits than the histogram cannot be judged by it.
    const int least = group_.shift == 0 ? 0 : 24 + 4 * group_.shift;
    if (least >= entropy::kNamedScales) return;
    int scale = std::clamp(guess, least, entropy::kNamedScales - 1);
    std::uint64_t best = Cost(shape, scale);
    for (const int step : {1, -1}) {
      bool moved = false;
      for (int next = scale + step; next >= least && next < entropy::kNamedScales; next += step) {
        const std::uint64_t cost = Cost(shape, next);
        if (cost >= best) break;
        best = cost;
        scale = next;
        moved = true;
      }
      if (moved) break;
    }
    if (best >= best_) return;
    best_ = best;
    name_ = entropy::NameOf(shape, scale);
  }

  std::uint64_t Cost(std::size_t shape, int scale) {
    const entropy::TableName name = entropy::NameOf(shape, scale);
    const NamedCosts::Costs& costs = NamedCosts::Of(name);
    const int coarser = entropy::ShiftOf(name) - group_.shift;
    const Histogram& histogram = coarser == 0 ? group_.histogram : CoarserHistogram(coarser);
    std::uint64_t sum = 0;
    for (std::size_t s = 0; s < group_.symbols; ++s) sum += std::uint64_t{histogram[s]} * costs[s];
    return sum;
  }

  const Histogram& CoarserHistogram(int by) {
    if (by == by_) return coarser_;
    by_ = by;
    std::fill_n(coarser_.begin(), group_.symbols, 0u);
    for (std::uint32_t s = 0; s < group_.symbols; ++s) coarser_[Coarser(s, by)] += group_.histogram[s];
    return coarser_;
  }

  const Group& group_;
  std::uint64_t best_ = ~std::uint64_t{0};
  entropy::TableName name_ = 0;
  int by_ = 0;
  Histogram coarser_;
};

/// With the best of the named tables.
void CountNamed(Group* group) {
  NamedSearch search(*group);
  search.Run();
  group->name = search.name();
  group->bits = static_cast<float>(search.cost()) / static_cast<float>(NamedCosts::kCostUnit) + kBitsPerName;
}

using CountBits = void (*)(Group*);

void Merge(const Group& a, const Group& b, CountBits count_bits, Group* merged) {
  merged->first = a.first;
  merged->shift = std::max(a.shift, b.shift);
  merged->count = a.count + b.count;
  merged->magnitudes = a.magnitudes + b.magnitudes;
  // A larger shift makes no symbol larger.
  merged->symbols = std::max(a.symbols, b.symbols);
  std::fill_n(merged->histogram.begin(), merged->symbols, 0u);
  AddHistogram(a, merged);
  AddHistogram(b, merged);
  count_bits(merged);
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

/// Calls use(i) for all indices of runs, or where there are many for evenly spaced parts of them.
template <typename Use>
void ForSampledParts(const SampleRuns& runs, Use use) {
  constexpr std::size_t kPart = 32;
  constexpr std::size_t kEnough = 8192;
  std::size_t count = 0;
  for (const auto& [begin, end] : runs) count += end - begin;
  const std::size_t every = std::max<std::size_t>(1, count / kEnough);
  std::size_t part = 0;
  for (const auto& [run_begin, run_end] : runs) {
    for (std::size_t begin = run_begin; begin < run_end; begin += kPart, ++part) {
      if (part % every != 0) continue;
      for (std::size_t i = begin; i < std::min(begin + kPart, run_end); ++i) use(i);
    }
  }
}

/// How many sampled indices every context has, and the sum of their magnitudes.
struct ContextSums {
  std::array<std::uint64_t, kMostContexts> counts{};
  std::array<std::uint64_t, kMostContexts> sums{};
};

ContextSums SumContexts(std::span<const std::int32_t> indices, std::span<const std::uint8_t> contexts) {
  // Both in one number: fewer than 2^16 indices are sampled, and none is above 2^28.
  constexpr int kCountAt = 48;
  std::array<std::array<std::uint64_t, kTurns>, kMostContexts> packed{};
  ForSampled(indices.size(), [&](std::size_t i, std::size_t turn) {
    const auto magnitude = static_cast<std::uint32_t>(indices[i] < 0 ? -indices[i] : indices[i]);
    packed[contexts[i]][turn] += (std::uint64_t{1} << kCountAt) + magnitude;
  });
  ContextSums all;
  for (std::size_t context = 0; context < kMostContexts; ++context) {
    for (const std::uint64_t part : packed[context]) {
      all.counts[context] += part >> kCountAt;
      all.sums[context] += part & ((std::uint64_t{1} << kCountAt) - 1);
    }
  }
  return all;
}

/// Adds the counts of a context to its group.
void TakeCounts(const SymbolCounts& counts, std::uint32_t weight, Group* group) {
  for (std::size_t s = 0; s < entropy::kSymbols; ++s) {
    std::uint32_t count = 0;
    for (const std::uint16_t part : counts[s]) count += part;
    group->histogram[s] = count * weight;
  }
  group->symbols = entropy::kSymbols;
  while (group->histogram[group->symbols - 1] == 0) --group->symbols;
}

/// @returns in scratch
std::vector<Group*> GroupPerContext(std::span<const std::int32_t> indices,
                                    std::span<const std::uint8_t> contexts, Scratch* scratch) {
  const ContextSums of_contexts = SumContexts(indices, contexts);
  std::size_t seen = 0;
  for (const std::uint64_t count : of_contexts.counts) seen += count;
  // The sampled indices of a group stand for all of it, so their bits are scaled before tables are weighed
  // against them.
  seen = std::max<std::size_t>(seen, 1);
  const auto weight = static_cast<std::uint32_t>((indices.size() + seen / 2) / seen);
  std::vector<Group*> groups;
  std::array<int, kMostContexts> shift_of_context{};
  for (std::size_t context = 0; context < kMostContexts; ++context) {
    if (of_contexts.counts[context] == 0) continue;
    Group* group = &scratch->groups[groups.size()];
    group->first = static_cast<std::uint8_t>(context);
    group->shift = ShiftFor(of_contexts.sums[context], of_contexts.counts[context]);
    group->count = of_contexts.counts[context] * weight;
    group->magnitudes = of_contexts.sums[context] * weight;
    shift_of_context[context] = group->shift;
    scratch->counts[context] = {};
    groups.push_back(group);
  }
  SymbolCounts* const counts = scratch->counts.data();
  ForSampled(indices.size(), [&](std::size_t i, std::size_t turn) {
    ++counts[contexts[i]][CountedSymbol(indices[i], shift_of_context[contexts[i]])][turn];
  });
  for (Group* group : groups) TakeCounts(scratch->counts[group->first], weight, group);
  groups.front()->first = 0;
  return groups;
}

/// Greedily merges the neighbours that gain most, or lose least while this is little or there are too many
/// groups. Those of `groups` stay as they are but for their bits.
std::vector<Group*> MergeGroups(std::vector<Group*> groups, std::size_t most, CountBits count_bits,
                                Scratch* scratch) {
  float all_bits = 0;
  for (Group* group : groups) {
    count_bits(group);
    all_bits += group->bits;
  }
  std::vector<Group*> candidates;
  for (std::size_t i = 0; i + 1 < groups.size(); ++i) {
    candidates.push_back(&scratch->groups[kMostContexts + i]);
    Merge(*groups[i], *groups[i + 1], count_bits, candidates[i]);
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
    if (best_gain < -kLeastGain * all_bits && groups.size() <= most) break;
    const auto at = static_cast<std::ptrdiff_t>(best);
    groups[best] = candidates[best];
    groups.erase(groups.begin() + at + 1);
    candidates.erase(candidates.begin() + at);
    if (best < candidates.size()) Merge(*groups[best], *groups[best + 1], count_bits, candidates[best]);
    if (best > 0) Merge(*groups[best - 1], *groups[best], count_bits, candidates[best - 1]);
  }
  return groups;
}

TableChoice Stored(const std::vector<Group*>& groups) {
  TableChoice choice;
  for (const Group* group : groups) {
    choice.contexts.first.push_back(group->first);
    choice.shifts.push_back(static_cast<std::uint8_t>(group->shift));
    choice.bits += static_cast<double>(group->bits);
  }
  return choice;
}

TableChoice Named(const std::vector<Group*>& groups) {
  TableChoice choice = Stored(groups);
  for (std::size_t t = 0; t < groups.size(); ++t) {
    choice.names.push_back(groups[t]->name);
    choice.shifts[t] = static_cast<std::uint8_t>(entropy::ShiftOf(groups[t]->name));
  }
  return choice;
}

}  // namespace

TableChoice ChooseTables(std::span<const std::int32_t> indices, std::span<const std::uint8_t> contexts,
                         bool has_classes) {
  Scratch& scratch = Scratch::OfThread();
  const std::size_t most = has_classes ? kMaxTablesOfClasses : kMaxTables;
  const auto choose = [&](const std::vector<Group*>& groups, bool is_named) {
    TableChoice choice = is_named ? Named(groups) : Stored(groups);
    choice.has_classes = has_classes;
    return choice;
  };
  const std::vector<Group*> of_contexts = GroupPerContext(indices, contexts, &scratch);
  if (indices.size() <= kAlwaysNamed && !has_classes) {
    TableChoice named = choose(MergeGroups(of_contexts, most, CountNamed, &scratch), true);
    // Indices too large for every name would be escapes, one by one.
    if (named.bits <= kMostBitsNamed * static_cast<double>(indices.size())) return named;
  }
  // Names for the groups of stored tables: a search for each pair of contexts would cost as much time as it
  // gains bytes.
  const std::vector<Group*> groups = MergeGroups(of_contexts, most, CountStored, &scratch);
  TableChoice stored = choose(groups, false);
  for (Group* group : groups) CountNamed(group);
  TableChoice named = choose(groups, true);
  return named.bits <= stored.bits * kNamedMayCost ? named : stored;
}

void ChooseNames(std::span<const std::int32_t> indices, std::span<const std::uint8_t> tables,
                 const SampleRuns& runs, TableChoice* choice) {
  std::vector<Group> groups(choice->names.size());
  ForSampledParts(runs, [&](std::size_t i) {
    groups[tables[i]].magnitudes += static_cast<std::uint64_t>(std::abs(indices[i]));
    ++groups[tables[i]].count;
  });
  for (Group& group : groups) {
    group.shift = ShiftFor(group.magnitudes, group.count);
    group.symbols = entropy::kSymbols;
    group.histogram.fill(0);
  }
  ForSampledParts(runs, [&](std::size_t i) {
    Group& group = groups[tables[i]];
    ++group.histogram[CountedSymbol(indices[i], group.shift)];
  });
  for (std::size_t t = 0; t < groups.size(); ++t) {
    // A table may be left without samples when all of its groups are zero.
    if (groups[t].count == 0) continue;
    CountNamed(&groups[t]);
    choice->names[t] = groups[t].name;
    choice->shifts[t] = static_cast<std::uint8_t>(entropy::ShiftOf(groups[t].name));
  }
}

}  // namespace quarry::interpolate
