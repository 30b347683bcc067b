#pragma once

#include "quarry/codec/coder.h"

namespace quarry {

/// Properties of every valid sample that a coder keeps, beside the largest error.
enum class Safeguard : std::uint8_t {
  kZeros,     ///< zero stays zero
  kSigns,     ///< zero stays zero, positive stays positive, and negative stays negative
  kRelative,  ///< the same, and the error is at most the tolerance times the magnitude of the sample
};

/// "interpolate-zeros", "interpolate-signs", "interpolate-relative": interpolate, with zeros and signs coded
/// apart as masks are. What is zero is missing to interpolate, so that a field that is zero in most places
/// has few bytes. A relative bound is an absolute one of the logarithms of the magnitudes (Liang et al. 2018,
/// "An efficient transformation scheme for lossy data compression with point-wise relative error bound"),
/// here in fixed point. All hold at every level. Payload: docs/format.md, "Payload of interpolate with
/// safeguards".
class SafeguardedCoder final : public PatchCoder {
 public:
  explicit SafeguardedCoder(Safeguard safeguard) : safeguard_(safeguard) {}

  const CoderTraits& traits() const override;
  bool Supports(DataType type) const override;
  bool Keeps(DataType type, ByteSpan samples, Validity validity, double tolerance,
             ByteSpan decoded) const override;
  std::unique_ptr<PatchDecoder> NewPlainDecoder(const PatchLayout& layout) const override;

 protected:
  Result<CodedPatch> EncodeChecked(const EncodeRequest& request) const override;

 private:
  Safeguard safeguard_;
};

}  // namespace quarry
