#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "quarry/base/endian.h"
#include "quarry/base/status.h"
#include "quarry/codec/interpolate/kernels.h"

/// Choice of the table that codes a sample, by its context: the activity around it, a scaled sum of the
/// magnitudes of already decoded neighbours; and in a layer of accuracy beyond the first its class too.
namespace quarry::interpolate {

/// Fine bins of activity: 0, then two an octave (1, 1.5, 2, 3, 4, 6, 8, 12 ...).
/// The last begins at 49152: no activity is above 64800.
inline constexpr std::size_t kFineBins = 32;

/// Classes of the samples of a further layer, by where the prediction is in the interval that the layer
/// before leaves open: 0 far from both ends, 1 and 2 nearer to one, 3 outside and moved to one
/// (level_base.h).
inline constexpr std::size_t kClasses = 4;
/// The context of a sample is its bin, or kFineBins times its class and its bin.
inline constexpr std::size_t kMostContexts = kClasses * kFineBins;

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

/// The tables of a level: consecutive contexts share one.
struct ContextMap {
  std::vector<std::uint8_t> first;  ///< context of every table, ascending, the first is 0

  /// For Kernels::classify, where contexts are bins.
  std::vector<std::uint16_t> Thresholds() const;
  /// Replaces every context by its table.
  void ContextsToTables(std::span<std::uint8_t> contexts) const;
};

}  // namespace quarry::interpolate
