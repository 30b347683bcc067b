#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

namespace quarry::iobench {

/// How values are spread.
struct Spread {
  double min = 0;
  double max = 0;
  double mean = 0;
  double median = 0;

  /// @param values  at least one
  template <typename T>
  static Spread Of(std::vector<T> values) {
    std::sort(values.begin(), values.end());
    const std::size_t n = values.size();
    const auto at = [&](std::size_t i) { return static_cast<double>(values[i]); };
    const double sum = std::accumulate(values.begin(), values.end(), 0.0,
                                       [](double s, T value) { return s + static_cast<double>(value); });
    return {at(0), at(n - 1), sum / static_cast<double>(n), (at((n - 1) / 2) + at(n / 2)) / 2};
  }

  double max_over_mean() const { return mean > 0 ? max / mean : 1; }
};

}  // namespace quarry::iobench
