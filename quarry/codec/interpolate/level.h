#pragma once

#include <cstdint>
#include <vector>

#include "quarry/base/memory.h"
#include "quarry/codec/coder.h"
#include "quarry/codec/interpolate/kernels.h"
#include "quarry/codec/interpolate/level_base.h"
#include "quarry/codec/interpolate/predictor.h"

/// One level of a patch as bytes: what its samples add to the coarser level.
namespace quarry::interpolate {

/// An array whose new elements are unset.
template <typename T>
using Buffer = std::vector<T, BufferAllocator<T>>;

/// An array with kPadding zeros before and after it.
template <typename T>
class PaddedArray {
 public:
  /// Discards the previous contents; the elements are unset.
  void Resize(std::size_t size) {
    size_ = size;
    storage_.resize(size + 2 * kPadding);
    std::fill_n(storage_.begin(), kPadding, T(0));
    std::fill_n(storage_.end() - kPadding, kPadding, T(0));
  }
  T* data() { return storage_.data() + kPadding; }
  const T* data() const { return storage_.data() + kPadding; }
  std::size_t size() const { return size_; }

 private:
  Buffer<T> storage_ = Buffer<T>(2 * kPadding);
  std::size_t size_ = 0;
};

/// A level, the same in encoder and decoder.
template <typename T>
struct LevelGrid {
  Index3 shape{1, 1, 1};
  PaddedArray<T> values;
  PaddedArray<std::uint16_t> magnitudes;  ///< magnitudes of the indices, at most kMaxMagnitude
  PredictorSpec predictor = PredictorSpec::Default();
  bool exact = false;  ///< its new samples are the original ones bit by bit
};

/// How the indices of a level become samples.
struct Quantiser {
  double step = 0;        ///< 0: indices cannot hold the tolerance, every sample is coded exactly
  double max_error = 0;   ///< encoder only: of a reconstruction
  bool integral = false;  ///< all samples are whole numbers below 2^20 (float32) or 2^48 (float64)
};

/// Codes the samples of `shape` that are not in `grid`, the next coarser level; `grid` becomes the level as
/// decoders get it.
/// @param base  the level in the layer of accuracy before
/// @param samples   dense, finite where valid
/// @param validity         of `samples`, or empty
/// @param need_magnitudes  a finer level will be coded from this one
/// @param place  for the decoded samples of the finest level, which `grid` then does not get; or null
template <typename T>
Bytes EncodeLevel(const Quantiser& quantiser, const Index3& shape, const T* samples, Validity validity,
                  const LevelBase<T>& base, bool need_magnitudes, const SamplePlace* place,
                  LevelGrid<T>* grid);

/// Turns `grid` into the level of `shape` that EncodeLevel left in its grid.
/// @param need_magnitudes  a finer level will be decoded from this one
/// @param place  for the samples of the last level that is wanted, which `grid` then does not get; or null
/// @errors kDataLoss; the grid is then unusable
template <typename T>
Status DecodeLevel(ByteSpan payload, const Quantiser& quantiser, const Index3& shape, Validity validity,
                   const LevelBase<T>& base, bool need_magnitudes, const SamplePlace* place,
                   LevelGrid<T>* grid);

}  // namespace quarry::interpolate
