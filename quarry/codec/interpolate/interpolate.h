#pragma once

#include "quarry/codec/coder.h"

namespace quarry {

/// "interpolate": every level is the exact subset of the samples, each within the tolerance. Starting from
/// the coarsest sample, each level predicts its new samples from those already decoded, quantises the
/// differences uniformly, and codes the indices with contexts from their neighbours. The idea is that of SZ3
/// (Liang et al. 2021) and MGARD, with prediction over several axes at once and levels that can be decoded
/// one by one. Payload: docs/format.md, "Payload of interpolate". Integer types are coded on their lattice.
/// Float samples that were rounded before, to decimals or to packed integers, are coded as multiples of their
/// unit where that allows larger steps; within less than half a unit they are then as exact as they were.
/// An exact layer of accuracy has the payload of `lossless` where that is smaller.
class InterpolateCoder final : public PatchCoder {
 public:
  const CoderTraits& traits() const override { return kTraits; }
  bool Supports(DataType type) const override { return SizeOf(type) != 0 && !IsWideInteger(type); }
  std::unique_ptr<PatchDecoder> NewPlainDecoder(const PatchLayout& layout) const override;

 protected:
  Result<CodedPatch> EncodeChecked(const EncodeRequest& request) const override;

 private:
  static constexpr CoderTraits kTraits{.id = CoderId::kInterpolate,
                                       .name = "interpolate",
                                       .most_layers = kMaxLayers,
                                       .can_refer = true,
                                       .can_repeat = true};
};

}  // namespace quarry
