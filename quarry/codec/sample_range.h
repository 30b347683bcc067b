#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "quarry/codec/coder.h"
#include "quarry/codec/instruction_sets.h"

namespace quarry {

/// Finds the least and the most of some samples. Zeros of both signs are equal: which one it is depends on
/// their places, which are counted from the first sample added.
template <typename T>
class SampleRange {
 public:
  /// Samples that are compared with as many others at once, so that no comparison waits for the previous one.
  static constexpr std::size_t kLanes = 16;

  /// @param sample  one of those to come
  explicit SampleRange(T sample) : start_(sample) {
    least_.fill(sample);
    most_.fill(sample);
  }

  /// @param validity  of the samples, or null: all are valid
  /// @param count     a multiple of kLanes but for the last ones
  void Add(const T* samples, const std::uint8_t* validity, std::size_t count) {
    if (validity == nullptr) {
      RunOnBestInstructionSet<AddSamples<false>>(samples, validity, count, this);
    } else {
      RunOnBestInstructionSet<AddSamples<true>>(samples, validity, count, this);
    }
  }

  T least() const { return *std::min_element(least_.begin(), least_.end()); }
  T most() const { return *std::max_element(most_.begin(), most_.end()); }

 private:
  template <bool kMasked>
  struct AddSamples {
    QUARRY_INLINE static void Run(const T* samples, const std::uint8_t* validity, std::size_t count,
                                  SampleRange* range) {
      T* __restrict least = range->least_.data();
      T* __restrict most = range->most_.data();
      const T start = range->start_;
      for (std::size_t begin = 0; begin < count; begin += kLanes) {
        // A width that is not a constant: of a loop that is unrolled, the compiler makes no vectors.
        const std::size_t width = std::min(kLanes, count - begin);
        for (std::size_t lane = 0; lane < width; ++lane) {
          T sample = samples[begin + lane];
          if constexpr (kMasked) sample = validity[begin + lane] != 0 ? sample : start;
          least[lane] = sample < least[lane] ? sample : least[lane];
          most[lane] = sample > most[lane] ? sample : most[lane];
        }
      }
    }
  };

  T start_;
  std::array<T, kLanes> least_;
  std::array<T, kLanes> most_;
};

}  // namespace quarry
