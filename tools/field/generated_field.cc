#include "tools/field/generated_field.h"

#include <array>
#include <cmath>
#include <vector>

namespace quarry::tools {
namespace {

constexpr int kWaves = 6;
constexpr double kNoise = 3e-3;

using Waves = std::array<double, kWaves>;

/// The waves along one axis, at positions begin to end.
std::vector<Waves> WavesAlong(std::size_t axis, std::int64_t begin, std::int64_t end) {
  std::vector<Waves> waves;
  for (std::int64_t i = begin; i < end; ++i) {
    Waves& at = waves.emplace_back();
    for (int w = 0; w < kWaves; ++w) {
      const double length = 64.0 / (1 << w);
      at[static_cast<std::size_t>(w)] =
          std::pow(2.0, -0.4 * w) *
          std::sin(2 * M_PI * static_cast<double>(i) / length + w + static_cast<double>(axis));
    }
  }
  return waves;
}

/// Nearly normal noise of mean 0 and deviation 1: the sum of four uniform numbers from the bits of a hash.
double NoiseAt(std::int64_t x, std::int64_t y, std::int64_t z) {
  const auto mix = [](std::uint64_t value) {  // SplitMix64
    value += 0x9E3779B97F4A7C15U;
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9U;
    value = (value ^ (value >> 27)) * 0x94D049BB133111EBU;
    return value ^ (value >> 31);
  };
  const std::uint64_t hash = mix(static_cast<std::uint64_t>(x) ^
                                 mix(static_cast<std::uint64_t>(y) ^ mix(static_cast<std::uint64_t>(z))));
  double sum = 0;
  for (int part = 0; part < 4; ++part)
    sum += static_cast<double>(hash >> (16 * part) & 0xFFFFU) / 65535 - 0.5;
  return sum * std::sqrt(3.0);
}

template <typename T>
Bytes Generate(const Box& box) {
  std::array<std::vector<Waves>, 3> waves;
  for (std::size_t a = 0; a < 3; ++a) waves[a] = WavesAlong(a, box.begin[a], box.end[a]);
  Bytes bytes(static_cast<std::size_t>(box.volume()) * sizeof(T));
  auto* sample = reinterpret_cast<T*>(bytes.data());
  for (std::int64_t z = box.begin[2]; z < box.end[2]; ++z) {
    const Waves& along_z = waves[2][static_cast<std::size_t>(z - box.begin[2])];
    for (std::int64_t y = box.begin[1]; y < box.end[1]; ++y) {
      const Waves& along_y = waves[1][static_cast<std::size_t>(y - box.begin[1])];
      for (std::int64_t x = box.begin[0]; x < box.end[0]; ++x) {
        const Waves& along_x = waves[0][static_cast<std::size_t>(x - box.begin[0])];
        double value = kNoise * NoiseAt(x, y, z);
        for (std::size_t w = 0; w < kWaves; ++w) value += along_x[w] * along_y[w] * along_z[w];
        *sample++ = static_cast<T>(value);
      }
    }
  }
  return bytes;
}

}  // namespace

Bytes GenerateField(const Box& box, DataType type) {
  return type == DataType::kFloat32 ? Generate<float>(box) : Generate<double>(box);
}

}  // namespace quarry::tools
