#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "quarry/base/status.h"

namespace quarry::picture {

using Rgb = std::array<std::uint8_t, 3>;

/// A colour for every number between 0 and 1.
class Colormap {
 public:
  static constexpr std::size_t kStops = 33;
  using Table = std::array<Rgb, kStops>;

  /// viridis, magma and cividis (perceptually uniform; cividis also for colour-blind eyes), coolwarm
  /// (diverging), gray.
  /// @errors kInvalidArgument that lists the names
  static Result<Colormap> Find(const std::string& name);

  /// Linear between the stops; `position` is clamped to [0, 1], NaN is black.
  Rgb At(double position) const;

 private:
  explicit Colormap(const Table& table) : table_(&table) {}
  const Table* table_;
};

}  // namespace quarry::picture
