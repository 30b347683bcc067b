#pragma once

#include "quarry/codec/coder.h"

namespace quarry {

/// Restores samples of every type bit by bit: integers, and floating point with negative zeros, infinities
/// and NaNs. Level l is every 2^l-th sample.
///
/// Each level is predicted from the next coarser one, axis by axis; only the differences of the bit patterns
/// are stored, in planes that zstd compresses (predict.h, planes.h). The encoder tries a few methods on parts
/// of the patch and takes the smallest. Missing samples cost nothing: they are left out, and predictions
/// replace them. The tolerance is ignored.
///
/// Payload: docs/format.md, "Payload of lossless".
class LosslessCoder final : public PatchCoder {
 public:
  const CoderTraits& traits() const override { return kTraits; }
  bool Supports(DataType type) const override;
  std::unique_ptr<PatchDecoder> NewPlainDecoder(const PatchLayout& layout) const override;

 protected:
  Result<CodedPatch> EncodeChecked(const EncodeRequest& request) const override;

 private:
  static constexpr CoderTraits kTraits{.id = CoderId::kLossless,
                                       .name = "lossless",
                                       .is_lossless = true,
                                       .can_repeat = true,
                                       .encode_ns = 6,
                                       .decode_ns = 0.8};
};

}  // namespace quarry
