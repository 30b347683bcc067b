#pragma once

#include "quarry/codec/coder.h"

namespace quarry {

/// Bit by bit what went in, for every type of samples: integers, and floating point with its negative zeros,
/// infinities and NaNs. Level l is every 2^l-th sample.
///
/// Each level is predicted from the next coarser one, axis after axis, and only the differences of the bit
/// patterns are stored, in planes that zstd compresses (predict.h, planes.h). Encoding tries a few
/// ways on parts of the patch and takes the smallest. Missing samples cost nothing: they are left out, and
/// predictions stand in for them. The tolerance is not looked at.
///
/// Payload: docs/format.md, "Payload of lossless".
class LosslessCoder final : public PatchCoder {
 public:
  CoderId id() const override { return CoderId::kLossless; }
  bool Supports(DataType type) const override;
  Result<CodedPatch> Encode(const PatchLayout& layout, ByteSpan samples, Validity validity,
                            double tolerance) const override;
  std::unique_ptr<PatchDecoder> NewDecoder(const PatchLayout& layout) const override;
};

}  // namespace quarry
