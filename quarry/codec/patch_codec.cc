#include "quarry/codec/patch_codec.h"

#include <algorithm>

#include "quarry/codec/error_record.h"

namespace quarry {
namespace {

template <typename T>
std::span<const T> SamplesOf(ByteSpan bytes) {
  return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
}

template <typename T>
Result<EncodedPatch> EncodeTyped(const PatchCoder& coder, const PatchLayout& layout, ByteSpan bytes,
                                 double tolerance) {
  const std::span<const T> samples = SamplesOf<T>(bytes);
  QUARRY_ASSIGN_OR_RETURN(CodedPatch coded, coder.Encode(layout, bytes, {}, tolerance));
  const auto [min, max] = std::minmax_element(samples.begin(), samples.end());
  EncodedPatch encoded;
  encoded.valid = samples.size();
  encoded.min = static_cast<double>(*min);
  encoded.max = static_cast<double>(*max);
  encoded.errors = RecordErrors(layout, bytes, {}, coded.decoded);
  encoded.levels = std::move(coded.levels);
  if (!(encoded.errors[0].max_error <= tolerance)) {
    return InternalError(
        "a patch decodes with an error of {} instead of {}: this is a bug in Quarry, please report it",
        encoded.errors[0].max_error, tolerance);
  }
  return encoded;
}

}  // namespace

Result<EncodedPatch> EncodePatch(const PatchCoder& coder, const PatchLayout& layout, ByteSpan samples,
                                 std::optional<std::uint64_t> /*fill*/, double tolerance) {
  return layout.type == DataType::kFloat32 ? EncodeTyped<float>(coder, layout, samples, tolerance)
                                           : EncodeTyped<double>(coder, layout, samples, tolerance);
}

class PatchReader::State {
 public:
  explicit State(std::unique_ptr<PatchDecoder> decoder) : decoder_(std::move(decoder)) {}
  PatchDecoder& decoder() { return *decoder_; }

 private:
  std::unique_ptr<PatchDecoder> decoder_;
};

PatchReader::PatchReader(const PatchCoder& coder, const PatchLayout& layout)
    : state_(std::make_unique<State>(coder.NewDecoder(layout))) {}
PatchReader::~PatchReader() = default;
PatchReader::PatchReader(PatchReader&&) noexcept = default;
PatchReader& PatchReader::operator=(PatchReader&&) noexcept = default;

Status PatchReader::Advance(ByteSpan payload, ByteSpan /*mask_payload*/) {
  return state_->decoder().Advance(payload, {});
}
int PatchReader::level() const { return state_->decoder().level(); }
ByteSpan PatchReader::samples() const { return state_->decoder().samples(); }
Validity PatchReader::validity() const { return {}; }

}  // namespace quarry
