#pragma once

#include <cstdint>
#include <cstdlib>

namespace quarry::testing {

/// QUARRY_SEED, which changes from run to run in continuous integration; 1 if it is not set.
inline std::uint64_t SeedFromEnvironment() {
  const char* const text = std::getenv("QUARRY_SEED");
  return text == nullptr ? 1 : std::strtoull(text, nullptr, 10);
}

/// Random numbers that are the same everywhere. @source Steele, Lea, Flood 2014, SplitMix64
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t Next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  /// 0 .. count - 1.
  std::uint64_t Below(std::uint64_t count) { return Next() % count; }
  /// first .. last.
  int Between(int first, int last) {
    return first + static_cast<int>(Below(static_cast<std::uint64_t>(std::int64_t{last} - first) + 1));
  }
  /// True once in `times` on average.
  bool OneIn(std::uint64_t times) { return Below(times) == 0; }
  /// [0, 1).
  double Fraction() { return static_cast<double>(Next() >> 11) * 0x1p-53; }

 private:
  std::uint64_t state_;
};

}  // namespace quarry::testing
