#include "quarry/codec/interpolate/contexts.h"

#include <algorithm>

#include "quarry/codec/instruction_sets.h"

namespace quarry::interpolate {
namespace {

/// The table of a context is the number of first contexts up to it, without that of table 0.
struct CountFirst {
  static constexpr std::size_t kBlock = 1024;  // stays in the first cache

  QUARRY_INLINE static void Run(std::uint8_t* contexts, std::size_t count, const std::uint8_t* firsts,
                                std::size_t tables) {
    std::array<std::uint8_t, kBlock> counts;
    for (std::size_t begin = 0; begin < count; begin += kBlock) {
      const std::size_t width = std::min(kBlock, count - begin);
      std::uint8_t* __restrict context = contexts + begin;
      std::uint8_t* __restrict table = counts.data();
      for (std::size_t i = 0; i < width; ++i) table[i] = 0;
      for (std::size_t t = 1; t < tables; ++t) {
        const std::uint8_t first = firsts[t];
        for (std::size_t i = 0; i < width; ++i)
          table[i] = static_cast<std::uint8_t>(table[i] + (context[i] >= first ? 1 : 0));
      }
      for (std::size_t i = 0; i < width; ++i) context[i] = table[i];
    }
  }
};

}  // namespace

std::vector<std::uint16_t> ContextMap::Thresholds() const {
  std::vector<std::uint16_t> thresholds;
  thresholds.reserve(first.size());
  for (std::size_t table = 1; table < first.size(); ++table) thresholds.push_back(kBinBegin[first[table]]);
  return thresholds;
}

void ContextMap::ContextsToTables(std::span<std::uint8_t> contexts) const {
  RunOnBestInstructionSet<CountFirst>(contexts.data(), contexts.size(), first.data(), first.size());
}

}  // namespace quarry::interpolate
