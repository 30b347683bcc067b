#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

/// Finds outliers that make the range of a field: a tolerance relative to 1e36, an undeclared fill value,
/// would destroy temperatures around 20.
namespace quarry {

/// Which samples of a grid stand for all: every stride()-th in its order, some ten thousand at most.
class SampleChoice {
 public:
  explicit SampleChoice(std::uint64_t volume) : stride_(volume / kMost + 1) {}
  std::uint64_t stride() const { return stride_; }
  /// The first place from `place` on that is chosen.
  std::uint64_t Next(std::uint64_t place) const { return (place + stride_ - 1) / stride_ * stride_; }

 private:
  static constexpr std::uint64_t kMost = 1 << 16;
  std::uint64_t stride_;
};

/// Samples far from all others, which make the range.
struct OutlyingSamples {
  double value = 0;  ///< the farthest
  double share = 0;  ///< share of the valid samples; 0: fewer than were looked at
  double low = 0;    ///< smallest of the others
  double high = 0;
};

/// Compares the range of a field with that of nearly all of its samples. Samples outlie when a gap without
/// any sample parts them from the others, which is 1000 times as wide as the range of these; 100 times for
/// one value that comes back, 10 times for one that people use for missing samples, such as -999 or 1e20.
/// Where the others are less than a half, or fewer than 64, it takes such a value, or a gap of a million
/// times.
/// @param sample    of the valid ones, see SampleChoice; changed
/// @param min, max  of all valid samples
std::optional<OutlyingSamples> FindOutlying(std::vector<double>* sample, double min, double max);

/// "few samples make the range of ...": for messages, with the value and the range of the others.
std::string ToString(const OutlyingSamples& outlying);

}  // namespace quarry
