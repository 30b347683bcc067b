#include "analysis/spectrum/energy.h"

#include <algorithm>
#include <cmath>

namespace quarry::spectrum {
namespace {

/// Waves along an axis of n samples at position i of its transform: 0, 1, ..., n/2, ..., -2, -1.
std::int64_t WavesAt(std::int64_t i, std::int64_t n) { return 2 * i <= n ? i : i - n; }

double Square(std::int64_t value) { return static_cast<double>(value) * static_cast<double>(value); }

}  // namespace

std::size_t ShellCount(const Index3& dims) {
  double square = 0;
  for (const std::int64_t n : dims) square += Square(n / 2);
  return 1 + static_cast<std::size_t>(std::llround(std::sqrt(square)));
}

std::int64_t LastWholeShell(const Index3& dims) {
  std::int64_t shortest = 0;
  for (const std::int64_t n : dims) {
    if (n > 1) shortest = shortest == 0 ? n : std::min(shortest, n);
  }
  // Shell k reaches to k + 1/2; the waves of n samples reach to (n - 1) / 2 on both sides.
  return std::max<std::int64_t>(0, shortest == 0 ? 0 : (shortest - 1) / 2);
}

void AddEnergy(const Index3& dims, const Box& part, std::span<const std::complex<double>> waves,
               std::span<double> energy) {
  const double samples = static_cast<double>(Volume(dims));
  const double unit = 0.5 / (samples * samples);
  std::size_t next = 0;
  for (std::int64_t z = part.begin[2]; z < part.end[2]; ++z) {
    for (std::int64_t y = part.begin[1]; y < part.end[1]; ++y) {
      const double square = Square(WavesAt(y, dims[1])) + Square(WavesAt(z, dims[2]));
      for (std::int64_t x = part.begin[0]; x < part.end[0]; ++x) {
        const bool own_conjugate = x == 0 || 2 * x == dims[0];
        const auto shell = static_cast<std::size_t>(std::llround(std::sqrt(square + Square(x))));
        energy[shell] += (own_conjugate ? unit : 2 * unit) * std::norm(waves[next++]);
      }
    }
  }
}

}  // namespace quarry::spectrum
