#pragma once

#include "quarry/codec/coder.h"

namespace quarry {

/// The coder of Fan et al. (section IV.B): multilinear B-spline wavelet, each level compressed by zfp at
/// fixed accuracy. Coarse levels are low-pass filtered: smooth to look at, but not samples of the original.
///
/// One accuracy for all levels would exceed the tolerance, because the inverse transform amplifies the errors
/// of coarse levels. So each coarser level is coded four times more accurately (nearly free: it has an eighth
/// of the samples), and the whole patch is decoded and compared; its unit of accuracy then shrinks until
/// every sample holds the tolerance. A patch that cannot hold it (tolerance near the precision of the type)
/// is stored verbatim, in the same levels.
///
/// Missing samples are filled before the transform (mask::FillMissing) and not compared; the decoder ignores
/// them.
///
/// Payload layout: docs/format.md, "Payload of wavelet-zfp". Types: float32 and float64.
class WaveletZfpCoder final : public PatchCoder {
 public:
  const CoderTraits& traits() const override { return kTraits; }
  bool Supports(DataType type) const override { return IsFloat(type); }
  std::unique_ptr<PatchDecoder> NewPlainDecoder(const PatchLayout& layout) const override;

 protected:
  Result<CodedPatch> EncodeChecked(const EncodeRequest& request) const override;

 private:
  static constexpr CoderTraits kTraits{.id = CoderId::kWaveletZfp,
                                       .name = "wavelet-zfp",
                                       .bounds_every_level = false,
                                       .can_repeat = true,
                                       .encode_ns = 10,
                                       .decode_ns = 3};
};

}  // namespace quarry
