#include "quarry/codec/interpolate/contexts.h"

namespace quarry::interpolate {

std::array<std::uint16_t, kMaxTables - 1> ContextMap::Thresholds() const {
  std::array<std::uint16_t, kMaxTables - 1> thresholds;
  thresholds.fill(0xffff);
  for (std::size_t table = 1; table < first_bins.size(); ++table)
    thresholds[table - 1] = kBinBegin[first_bins[table]];
  return thresholds;
}

std::array<std::uint8_t, kFineBins> ContextMap::TableOfBin() const {
  std::array<std::uint8_t, kFineBins> tables{};
  std::size_t table = 0;
  for (std::size_t bin = 0; bin < kFineBins; ++bin) {
    while (table + 1 < first_bins.size() && first_bins[table + 1] <= bin) ++table;
    tables[bin] = static_cast<std::uint8_t>(table);
  }
  return tables;
}

}  // namespace quarry::interpolate
