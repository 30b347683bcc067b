#include "quarry/codec/interpolate/contexts.h"

#include <algorithm>

#include "quarry/codec/instruction_sets.h"

namespace quarry::interpolate {
namespace {

/// The table of a bin is the number of first bins up to it, without that of table 0.
struct CountFirstBins {
  static constexpr std::size_t kBlock = 1024;  // stays in the first cache

  QUARRY_INLINE static void Run(std::uint8_t* bins, std::size_t count, const std::uint8_t* first_bins,
                                std::size_t tables) {
    std::array<std::uint8_t, kBlock> counts;
    for (std::size_t begin = 0; begin < count; begin += kBlock) {
      const std::size_t width = std::min(kBlock, count - begin);
      std::uint8_t* __restrict bin = bins + begin;
      std::uint8_t* __restrict table = counts.data();
      for (std::size_t i = 0; i < width; ++i) table[i] = 0;
      for (std::size_t t = 1; t < tables; ++t) {
        const std::uint8_t first = first_bins[t];
        for (std::size_t i = 0; i < width; ++i)
          table[i] = static_cast<std::uint8_t>(table[i] + (bin[i] >= first ? 1 : 0));
      }
      for (std::size_t i = 0; i < width; ++i) bin[i] = table[i];
    }
  }
};

}  // namespace

std::vector<std::uint16_t> ContextMap::Thresholds() const {
  std::vector<std::uint16_t> thresholds;
  thresholds.reserve(first_bins.size());
  for (std::size_t table = 1; table < first_bins.size(); ++table)
    thresholds.push_back(kBinBegin[first_bins[table]]);
  return thresholds;
}

void ContextMap::BinsToTables(std::span<std::uint8_t> bins) const {
  RunOnBestInstructionSet<CountFirstBins>(bins.data(), bins.size(), first_bins.data(), first_bins.size());
}

}  // namespace quarry::interpolate
