#pragma once

#include "quarry/codec/coder.h"

namespace quarry {

/// Codes masks: uint8 samples that are 0 (missing) or 1 (valid), exactly. Level l is every 2^l-th sample.
/// Each sample that a level adds is predicted from the known ones around it; an adaptive arithmetic coder
/// stores where the prediction fails. A word of 64 samples whose known neighbours all agree costs one flag, a
/// small part of a bit; noise costs a bit a sample.
///
/// Payloads: docs/format.md, "Missing data". A patch that is all valid has no bytes at any level; every other
/// patch has at least one in the coarsest. Tolerance and validity are unused.
class ValidityCoder final : public PatchCoder {
 public:
  CoderId id() const override { return CoderId::kValidity; }
  std::string_view name() const override { return "validity"; }
  bool Supports(DataType type) const override { return type == DataType::kUint8; }
  bool CodesFields() const override { return false; }
  bool IsLossless() const override { return true; }
  bool BoundsEveryLevel() const override { return true; }
  /// @errors kInvalidArgument: another type, bytes that do not match the shape, a sample above 1
  Result<CodedPatch> Encode(const PatchLayout& layout, ByteSpan samples, Validity validity,
                            double tolerance) const override;
  std::unique_ptr<PatchDecoder> NewDecoder(const PatchLayout& layout) const override;

  /// Whether a coarsest payload says that no sample of the patch is valid, at any level.
  static bool SaysAllMissing(ByteSpan coarsest_payload);
};

}  // namespace quarry
