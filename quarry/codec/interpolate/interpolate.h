#pragma once

#include "quarry/codec/coder.h"

namespace quarry {

/// "interpolate": every level is the exact subset of the samples, each within the tolerance. From the
/// coarsest sample on, the samples that a level adds are predicted from those already decoded, the
/// differences quantised uniformly, and the indices coded with contexts from their neighbours. After SZ3
/// (Liang et al. 2021) and MGARD in idea, with prediction over several axes at once and levels that can be
/// decoded one by one. Payload: docs/format.md, "Payload of interpolate". Integer types are coded on their
/// lattice; float fields whose samples are all multiples of a power of two are recognised and coded without
/// loss where the tolerance is below it.
class InterpolateCoder final : public PatchCoder {
 public:
  CoderId id() const override { return CoderId::kInterpolate; }
  bool Supports(DataType type) const override { return SizeOf(type) != 0; }
  Result<CodedPatch> Encode(const PatchLayout& layout, ByteSpan samples, Validity validity,
                            double tolerance) const override;
  std::unique_ptr<PatchDecoder> NewDecoder(const PatchLayout& layout) const override;
};

}  // namespace quarry
