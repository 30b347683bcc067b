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
  /// Rows of kLanes samples that are compared with each other before the result is stored.
  static constexpr std::size_t kRows = 8;

  template <bool kMasked>
  struct AddSamples {
    QUARRY_INLINE static void Run(const T* samples, const std::uint8_t* validity, std::size_t count,
                                  SampleRange* range) {
      std::size_t begin = 0;
      for (; begin + kRows * kLanes <= count; begin += kRows * kLanes)
        AddRows<kRows>(samples + begin, kMasked ? validity + begin : nullptr, kLanes, range);
      for (; begin < count; begin += kLanes)
        AddRows<1>(samples + begin, kMasked ? validity + begin : nullptr, std::min(kLanes, count - begin),
                   range);
    }

    /// @param width  not a constant: of a loop that is unrolled, the compiler makes no vectors
    template <std::size_t kCount>
    QUARRY_INLINE static void AddRows(const T* samples, const std::uint8_t* validity, std::size_t width,
                                      SampleRange* range) {
      T* __restrict least = range->least_.data();
      T* __restrict most = range->most_.data();
      const T start = range->start_;
      for (std::size_t lane = 0; lane < width; ++lane) {
        T low = least[lane];
        T high = most[lane];
        for (std::size_t row = 0; row < kCount; ++row) {
          T sample = samples[lane + row * kLanes];
          if constexpr (kMasked) sample = validity[lane + row * kLanes] != 0 ? sample : start;
          low = sample < low ? sample : low;
          high = sample > high ? sample : high;
        }
        least[lane] = low;
        most[lane] = high;
      }
    }
  };

  T start_;
  std::array<T, kLanes> least_;
  std::array<T, kLanes> most_;
};

}  // namespace quarry
