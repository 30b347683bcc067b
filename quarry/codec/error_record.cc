#include "quarry/codec/error_record.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "quarry/geometry/patch_grid.h"
#include "quarry/wavelet/lifting.h"

namespace quarry {

template <typename T>
LevelError CompareSamples(std::span<const T> original, std::span<const T> decoded) {
  // Eight independent lanes: the compiler can use vector registers without being allowed to reorder one
  // lane's sum.
  constexpr std::size_t kLanes = 8;
  std::array<double, kLanes> largest{};
  std::array<double, kLanes> squares{};
  const auto add = [&](std::size_t i, std::size_t lane) {
    const double difference = std::abs(static_cast<double>(original[i]) - static_cast<double>(decoded[i]));
    largest[lane] = difference <= largest[lane] ? largest[lane] : difference;
    squares[lane] += difference * difference;
  };
  const std::size_t whole = original.size() / kLanes * kLanes;
  for (std::size_t i = 0; i < whole; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) add(i + lane, lane);
  }
  for (std::size_t i = whole; i < original.size(); ++i) add(i, i - whole);
  LevelError error;
  double sum = 0;
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    error.max_error = largest[lane] <= error.max_error ? error.max_error : largest[lane];
    sum += squares[lane];
  }
  error.rmse = std::sqrt(sum / static_cast<double>(original.size()));
  // The sum keeps a NaN, the comparisons above lose it: a decoded NaN must never look like a small error.
  if (std::isnan(error.rmse)) error.max_error = error.rmse;
  return error;
}

template <typename T>
LevelError CompareUpsampled(std::span<const T> original, const Index3& shape, std::span<const T> coarse,
                            int level) {
  std::vector<T> current(coarse.begin(), coarse.end());
  std::vector<T> finer;
  for (int l = level - 1; l >= 0; --l) {
    const Index3 finer_shape = LevelShape(shape, l);
    finer.resize(static_cast<std::size_t>(Volume(finer_shape)));
    wavelet::Inverse<T>(current.data(), nullptr, finer_shape, finer.data());
    current.swap(finer);
  }
  return CompareSamples<T>(original, current);
}

template LevelError CompareSamples<float>(std::span<const float>, std::span<const float>);
template LevelError CompareSamples<double>(std::span<const double>, std::span<const double>);
template LevelError CompareUpsampled<float>(std::span<const float>, const Index3&, std::span<const float>,
                                            int);
template LevelError CompareUpsampled<double>(std::span<const double>, const Index3&, std::span<const double>,
                                             int);

}  // namespace quarry
