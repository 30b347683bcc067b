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
  CoderId id() const override { return CoderId::kInterpolate; }
  std::string_view name() const override { return "interpolate"; }
  bool Supports(DataType type) const override { return SizeOf(type) != 0 && !IsWideInteger(type); }
  bool IsLossless() const override { return false; }
  bool BoundsEveryLevel() const override { return true; }
  int MostLayers() const override { return kMaxLayers; }
  Result<CodedPatch> Encode(const PatchLayout& layout, ByteSpan samples, Validity validity,
                            double tolerance) const override;
  Result<CodedPatch> EncodeLayers(const PatchLayout& layout, ByteSpan samples, Validity validity,
                                  Tolerances tolerances) const override;
  bool CanRefer() const override { return true; }
  Result<CodedPatch> EncodeReferring(const PatchLayout& layout, ByteSpan samples, Validity validity,
                                     Tolerances tolerances, const PatchReference& reference) const override;
  std::unique_ptr<PatchDecoder> NewDecoder(const PatchLayout& layout) const override;
};

}  // namespace quarry
