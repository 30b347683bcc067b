#include "quarry/codec/lossless/ranks.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <numeric>

#include "quarry/codec/entropy/planes.h"
#include "quarry/codec/entropy/varint.h"
#include "quarry/codec/lossless/arithmetic.h"
#include "quarry/codec/lossless/step.h"
#include "quarry/codec/sample_types.h"
#include "quarry/geometry/patch_grid.h"

namespace quarry::lossless {
namespace {

constexpr int kTableLevel = 3;

// A trial is worth it if, of this many samples, one in kOneRepeated shares its value with another.
constexpr std::size_t kSeen = 4096;
constexpr std::size_t kOneRepeated = 32;

template <typename Word>
struct Indexed {
  Word word;  // unsigned order
  std::int32_t index;
};

/// Radix sort by word, from the lowest byte to the highest; skips bytes that are all equal.
template <typename Word>
void SortByWord(Buffer<Indexed<Word>>* items) {
  std::array<std::array<std::uint32_t, 256>, sizeof(Word)> counts{};
  for (const Indexed<Word>& item : *items) {
    for (std::size_t b = 0; b < sizeof(Word); ++b) ++counts[b][item.word >> (8 * b) & 0xff];
  }
  Buffer<Indexed<Word>> sorted(items->size());
  for (std::size_t b = 0; b < sizeof(Word); ++b) {
    if (std::ranges::find(counts[b], items->size()) != counts[b].end()) continue;
    std::array<std::uint32_t, 256> next;
    std::uint32_t begin = 0;
    for (std::size_t digit = 0; digit < 256; ++digit) {
      next[digit] = begin;
      begin += counts[b][digit];
    }
    for (const Indexed<Word>& item : *items) sorted[next[item.word >> (8 * b) & 0xff]++] = item;
    items->swap(sorted);
  }
}

/// Unsigned numbers in the order of the samples.
template <typename V>
WordOf<V> SortKey(V sample) {
  using Word = WordOf<V>;
  return static_cast<Word>(OrderedWord<V>(sample) ^ static_cast<Word>(Word{1} << kTopBit<Word>));
}
template <typename V>
V SampleOfKey(WordOf<V> key) {
  using Word = WordOf<V>;
  return SampleOf<V>(static_cast<Word>(key ^ static_cast<Word>(Word{1} << kTopBit<Word>)));
}

/// The distinct values of the valid samples, and the rank of each sample among them; missing samples get the
/// rank of the valid sample before them.
template <typename V>
struct Ranking {
  Buffer<WordOf<V>> keys;
  Buffer<std::int32_t> ranks;

  Ranking(const V* samples, const std::uint8_t* valid, std::size_t count) : ranks(count) {
    using Word = WordOf<V>;
    Buffer<Indexed<Word>> items;
    items.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
      if (valid == nullptr || valid[i] != 0)
        items.push_back({SortKey<V>(samples[i]), static_cast<std::int32_t>(i)});
    }
    SortByWord<Word>(&items);
    for (const Indexed<Word>& item : items) {
      if (keys.empty() || keys.back() != item.word) keys.push_back(item.word);
      ranks[static_cast<std::size_t>(item.index)] = static_cast<std::int32_t>(keys.size()) - 1;
    }
    if (valid != nullptr) FillMissing<std::int32_t>(valid, count, ranks.data());
  }
};

template <typename V>
Ranking<V> RankCoarse(const V* coarse, const GridView<V>& grid) {
  const Index3 shape = LevelShape(grid.shape, 1);
  if (grid.valid == nullptr) return {coarse, nullptr, Count(shape)};
  Buffer<std::uint8_t> valid(Count(shape));
  const std::array<Index3, 4> shapes = PassShapes(grid.shape, kAxisOrders[0]);
  const PassArrays<std::uint8_t> arrays(grid.valid, shapes, kAxisOrders[0]);
  TakeEven<std::uint8_t>(arrays.After(0), shapes[1], kAxisOrders[0][0], valid.data());
  return {coarse, valid.data(), Count(shape)};
}

/// The table from both of its parts, and the ranks of the coarse samples in it.
template <typename V>
RankedGrid<V> Merge(Ranking<V> coarse, const Buffer<WordOf<V>>& listed) {
  RankedGrid<V> ranked;
  ranked.table.reserve(coarse.keys.size() + listed.size());
  Buffer<std::int32_t> moved(coarse.keys.size());
  std::size_t next = 0;
  for (std::size_t i = 0; i < coarse.keys.size(); ++i) {
    while (next < listed.size() && listed[next] < coarse.keys[i]) ranked.table.push_back(listed[next++]);
    moved[i] = static_cast<std::int32_t>(ranked.table.size());
    ranked.table.push_back(coarse.keys[i]);
  }
  ranked.table.insert(ranked.table.end(), listed.begin() + static_cast<std::ptrdiff_t>(next), listed.end());
  ranked.coarse = std::move(coarse.ranks);
  // Without any valid coarse sample, all ranks are zero.
  for (std::int32_t& rank : ranked.coarse) rank = moved.empty() ? 0 : moved[static_cast<std::size_t>(rank)];
  return ranked;
}

}  // namespace

template <typename V>
bool RanksLookGood(const GridView<V>& grid) {
  if constexpr (sizeof(V) < 4) return false;
  const std::size_t count = Count(grid.shape);
  if (count < 2 * kSeen) return false;
  // Odd, so that samples are not all from one column.
  const std::size_t stride = count / kSeen | 1;
  Buffer<V> seen;
  for (std::size_t i = 0; i < count && seen.size() < kSeen; i += stride) {
    if (grid.valid == nullptr || grid.valid[i] != 0) seen.push_back(grid.samples[i]);
  }
  const Ranking<V> ranking(seen.data(), nullptr, seen.size());
  return (seen.size() - ranking.keys.size()) * kOneRepeated > seen.size();
}

template <typename V>
void RankedGrid<V>::ToSamples(const Buffer<std::int32_t>& ranks, V* samples) const {
  Buffer<V> values(table.size());
  std::transform(table.begin(), table.end(), values.begin(),
                 [](WordOf<V> key) { return SampleOfKey<V>(key); });
  const auto last = static_cast<std::uint32_t>(values.size() - 1);
  for (std::size_t i = 0; i < ranks.size(); ++i)
    samples[i] = values[std::min(static_cast<std::uint32_t>(ranks[i]), last)];
}

template <typename V>
RankedGrid<V> AppendRankTable(const V* coarse, const GridView<V>& grid, Bytes* out) {
  using Word = WordOf<V>;
  Ranking<V> fine(grid.samples, grid.valid, Count(grid.shape));
  Ranking<V> known = RankCoarse<V>(coarse, grid);
  Buffer<Word> listed;
  std::set_difference(fine.keys.begin(), fine.keys.end(), known.keys.begin(), known.keys.end(),
                      std::back_inserter(listed));
  entropy::PutVarint(listed.size(), out);
  Buffer<Word> differences(listed.size());
  std::adjacent_difference(listed.begin(), listed.end(), differences.begin());
  entropy::AppendPlanes(std::as_bytes(std::span<const Word>(differences)), sizeof(Word),
                        entropy::PlaneLayout::kBytes, kTableLevel, out);
  RankedGrid<V> ranked = Merge<V>(std::move(known), listed);
  ranked.samples = std::move(fine.ranks);
  return ranked;
}

template <typename V>
Result<RankedGrid<V>> ReadRankTable(const V* coarse, const GridView<V>& grid, std::size_t new_samples,
                                    ByteSpan* payload) {
  using Word = WordOf<V>;
  QUARRY_ASSIGN_OR_RETURN(const std::uint64_t count, entropy::TakeVarint(payload));
  if (count > new_samples) return DataLoss("a level of {} new samples lists {} values", new_samples, count);
  Buffer<Word> listed(count);
  QUARRY_RETURN_IF_ERROR(entropy::TakePlanes(payload, &listed));
  std::partial_sum(listed.begin(), listed.end(), listed.begin());
  RankedGrid<V> ranked = Merge<V>(RankCoarse<V>(coarse, grid), listed);
  if (ranked.table.empty()) return DataLoss("a level coded as ranks has no values");
  return ranked;
}

#define QUARRY_INSTANTIATE(V)                                                      \
  template bool RanksLookGood<V>(const GridView<V>&);                              \
  template struct RankedGrid<V>;                                                   \
  template RankedGrid<V> AppendRankTable<V>(const V*, const GridView<V>&, Bytes*); \
  template Result<RankedGrid<V>> ReadRankTable<V>(const V*, const GridView<V>&, std::size_t, ByteSpan*)
QUARRY_FOR_EACH_SAMPLE_TYPE(QUARRY_INSTANTIATE);
#undef QUARRY_INSTANTIATE

}  // namespace quarry::lossless
