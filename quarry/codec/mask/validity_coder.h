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
  const CoderTraits& traits() const override { return kTraits; }
  bool Supports(DataType type) const override { return type == DataType::kUint8; }
  std::unique_ptr<PatchDecoder> NewPlainDecoder(const PatchLayout& layout) const override;

  /// Whether a coarsest payload says that no sample of the patch is valid, at any level.
  static bool SaysAllMissing(ByteSpan coarsest_payload);

 protected:
  /// @errors kInvalidArgument: another type, bytes that do not match the shape, a sample above 1
  Result<CodedPatch> EncodeChecked(const EncodeRequest& request) const override;

 private:
  static constexpr CoderTraits kTraits{
      .id = CoderId::kValidity, .name = "validity", .codes_fields = false, .is_lossless = true};
};

}  // namespace quarry
