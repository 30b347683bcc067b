#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "quarry/base/endian.h"
#include "quarry/base/status.h"
#include "quarry/codec/interpolate/kernels.h"

/// Choice of the table that codes a sample, by the activity around it: a scaled sum of the magnitudes of
/// already decoded neighbours.
namespace quarry::interpolate {

/// Fine bins of activity: 0, then two an octave (1, 1.5, 2, 3, 4, 6, 8, 12 ...).
/// The last begins at 49152: no activity is above 64800.
inline constexpr std::size_t kFineBins = 32;

/// Smallest activity of every bin.
inline constexpr std::array<std::uint16_t, kFineBins> kBinBegin = [] {
  std::array<std::uint16_t, kFineBins> begin{};
  begin[1] = 1;
  for (std::size_t bin = 2; bin < kFineBins; ++bin) {
    const unsigned power = 1u << (bin / 2);
    begin[bin] = static_cast<std::uint16_t>(bin % 2 == 0 ? power : power + power / 2);
  }
  return begin;
}();

/// The tables of a level: consecutive bins share one.
struct ContextMap {
  std::vector<std::uint8_t> first_bins;  ///< of every table, ascending, the first is 0

  /// For Kernels::classify.
  std::vector<std::uint16_t> Thresholds() const;
  /// Replaces every bin by its table.
  void BinsToTables(std::span<std::uint8_t> bins) const;
};

}  // namespace quarry::interpolate
