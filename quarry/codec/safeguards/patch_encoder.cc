#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <optional>
#include <utility>

#include "quarry/codec/entropy/varint.h"
#include "quarry/codec/interpolate/interpolate.h"
#include "quarry/codec/mask/validity_coder.h"
#include "quarry/codec/safeguards/patch_form.h"
#include "quarry/geometry/patch_grid.h"

namespace quarry::safeguards {
namespace {

const InterpolateCoder kInterpolate;
const ValidityCoder kPlanes;

/// Which samples are zero and positive. Missing samples, and the signs of zeros, are as those before them.
template <typename T>
struct Survey {
  Bytes nonzero;
  Bytes positive;
  bool any_zero = false;
  bool any_nonzero = false;
  bool any_negative = false;
  T least = 0;  ///< smallest magnitude that is not zero
  T most = 0;
};

template <typename T>
Survey<T> SurveyPatch(std::span<const T> samples, Validity validity) {
  Survey<T> survey;
  survey.nonzero.resize(samples.size());
  survey.positive.resize(samples.size());
  bool nonzero = true;
  bool positive = true;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (IsValid(validity, i)) {
      nonzero = samples[i] != 0;
      survey.any_zero |= !nonzero;
      if (nonzero) {
        positive = samples[i] > 0;
        const T magnitude = Magnitude(samples[i]);
        survey.least = survey.any_nonzero ? std::min(survey.least, magnitude) : magnitude;
        survey.most = std::max(survey.most, magnitude);
        survey.any_nonzero = true;
        survey.any_negative |= !positive;
      }
    }
    survey.nonzero[i] = static_cast<std::byte>(nonzero);
    survey.positive[i] = static_cast<std::byte>(positive);
  }
  return survey;
}

/// The planes that are coded apart, as payloads and as the levels that a decoder gets.
struct CodedPlanes {
  std::optional<CodedPatch> nonzero;
  std::optional<CodedPatch> positive;

  Planes At(std::size_t level) const {
    return {nonzero ? AsValidity(nonzero->decoded[level]) : Validity(),
            positive ? AsValidity(positive->decoded[level]) : Validity()};
  }
};

template <typename T>
class Encoder {
 public:
  Encoder(Safeguard safeguard, const PatchCoder& coder, const PatchLayout& layout, ByteSpan samples,
          Validity validity, double tolerance)
      : safeguard_(safeguard),
        coder_(coder),
        layout_(layout),
        bytes_(samples),
        samples_(SamplesOf<T>(samples)),
        validity_(validity),
        tolerance_(tolerance),
        survey_(SurveyPatch(samples_, validity)) {}

  Result<CodedPatch> Run() {
    if (!survey_.any_nonzero) return Finish({PatchMode::kZero}, {});
    QUARRY_RETURN_IF_ERROR(CodePlanes());
    if (safeguard_ != Safeguard::kRelative) return CodeSamples();
    if constexpr (std::is_floating_point_v<T>) {
      QUARRY_ASSIGN_OR_RETURN(std::optional<CodedPatch> coded, CodeLogarithms());
      if (coded) return std::move(*coded);
    }
    return CodeExactly();
  }

 private:
  Status CodePlanes() {
    const PatchLayout layout{DataType::kUint8, layout_.shape, layout_.levels};
    if (survey_.any_zero) {
      QUARRY_ASSIGN_OR_RETURN(planes_.nonzero, kPlanes.Encode({layout, survey_.nonzero, {}, kOneExactLayer}));
    }
    if (safeguard_ != Safeguard::kZeros && survey_.any_negative) {
      QUARRY_ASSIGN_OR_RETURN(planes_.positive,
                              kPlanes.Encode({layout, survey_.positive, {}, kOneExactLayer}));
    }
    return Status::Ok();
  }

  Result<CodedPatch> CodeSamples() {
    const std::vector<std::uint8_t> coded = Coded();
    const Bytes samples = Replaced(coded);
    QUARRY_ASSIGN_OR_RETURN(CodedPatch base,
                            kInterpolate.Encode({layout_, samples, coded, std::array{tolerance_}}));
    Header<T> header{PatchMode::kSamples};
    if (safeguard_ == Safeguard::kSigns) header.least = survey_.least;
    return Finish(header, std::move(base));
  }

  /// Nothing where 32 bits are too few for the bound, or a sample breaks it: subnormal ones may.
  Result<std::optional<CodedPatch>> CodeLogarithms() {
    constexpr std::int64_t kLeastTolerance = 8;  // below, exact samples are hardly larger
    constexpr double kEpsilon = std::numeric_limits<T>::epsilon() / 2;
    Header<T> header{PatchMode::kLogarithms};
    header.scale = safeguards::ChooseScale(survey_.least, survey_.most, tolerance_);
    const std::int64_t tolerance = safeguards::CodeTolerance(header.scale, tolerance_, kEpsilon);
    if (tolerance < kLeastTolerance) return std::optional<CodedPatch>();
    const std::vector<std::uint8_t> coded = Coded();
    const Bytes samples = Replaced(coded);
    Bytes codes(samples_.size() * sizeof(std::int32_t));
    safeguards::ToCodes(header.scale, SamplesOf<T>(samples).data(), samples_.size(),
                        reinterpret_cast<std::int32_t*>(codes.data()));
    const PatchLayout layout{DataType::kInt32, layout_.shape, layout_.levels};
    QUARRY_ASSIGN_OR_RETURN(
        CodedPatch base,
        kInterpolate.Encode({layout, codes, coded, std::array{static_cast<double>(tolerance)}}));
    CodedPatch patch = Finish(header, std::move(base));
    if (!coder_.Keeps(layout_.type, bytes_, validity_, tolerance_, patch.decoded.front()))
      return std::optional<CodedPatch>();
    return std::optional(std::move(patch));
  }

  Result<CodedPatch> CodeExactly() {
    planes_ = {};
    QUARRY_ASSIGN_OR_RETURN(CodedPatch base,
                            kInterpolate.Encode({layout_, bytes_, validity_, kOneExactLayer}));
    return Finish({PatchMode::kExact}, std::move(base));
  }

  /// Which samples interpolate codes; empty if all.
  std::vector<std::uint8_t> Coded() const {
    const Validity nonzero = AsValidity(survey_.nonzero);
    std::vector<std::uint8_t> coded(validity_.begin(), validity_.end());
    if (!survey_.any_zero) return coded;
    if (coded.empty()) return {nonzero.begin(), nonzero.end()};
    std::transform(coded.begin(), coded.end(), nonzero.begin(), coded.begin(), std::bit_and());
    return coded;
  }

  /// The samples, with those that are not coded as the coded ones before them.
  Bytes Replaced(const std::vector<std::uint8_t>& coded) const {
    Bytes replaced(bytes_.begin(), bytes_.end());
    CopyPlausibly(samples_.data(), coded, reinterpret_cast<T*>(replaced.data()));
    return replaced;
  }

  /// @param base  of interpolate; nothing in mode kZero
  CodedPatch Finish(const Header<T>& header, CodedPatch base) const {
    CodedPatch patch;
    for (int level = 0; level < layout_.levels; ++level) {
      const auto at = static_cast<std::size_t>(level);
      Bytes payload;
      if (level + 1 == layout_.levels) PutHeader(header, &payload);
      Bytes decoded(static_cast<std::size_t>(Volume(LevelShape(layout_.shape, level))) * sizeof(T));
      const std::span<T> out(reinterpret_cast<T*>(decoded.data()), decoded.size() / sizeof(T));
      if (header.mode == PatchMode::kZero) {
        Restore(header, {}, {}, out);
      } else {
        if (header.mode != PatchMode::kExact) PutPlanes(at, &payload);
        payload.insert(payload.end(), base.levels[at].begin(), base.levels[at].end());
        Restore(header, base.decoded[at], planes_.At(at), out);
      }
      patch.levels.push_back(std::move(payload));
      patch.decoded.push_back(std::move(decoded));
    }
    return patch;
  }

  void PutHeader(const Header<T>& header, Bytes* out) const {
    out->push_back(static_cast<std::byte>(header.mode));
    if (header.mode == PatchMode::kSamples && safeguard_ == Safeguard::kSigns)
      PutLittleEndian(out, header.least);
    if (header.mode == PatchMode::kLogarithms) {
      PutLittleEndian(out, static_cast<std::uint8_t>(header.scale.bits));
      PutLittleEndian(out, static_cast<std::int16_t>(header.scale.offset));
    }
  }

  void PutPlanes(std::size_t level, Bytes* out) const {
    const auto put = [&](const std::optional<CodedPatch>& plane) {
      const Bytes none;
      const Bytes& payload = plane ? plane->levels[level] : none;
      entropy::PutVarint(payload.size(), out);
      out->insert(out->end(), payload.begin(), payload.end());
    };
    put(planes_.nonzero);
    if (safeguard_ != Safeguard::kZeros) put(planes_.positive);
  }

  const Safeguard safeguard_;
  const PatchCoder& coder_;
  const PatchLayout& layout_;
  const ByteSpan bytes_;
  const std::span<const T> samples_;
  const Validity validity_;
  const double tolerance_;
  const Survey<T> survey_;
  CodedPlanes planes_;
};

}  // namespace

Result<CodedPatch> EncodePatch(Safeguard safeguard, const PatchCoder& coder, const PatchLayout& layout,
                               ByteSpan samples, Validity validity, double tolerance) {
  return DispatchNarrow(layout.type, [&](auto zero) {
    return Encoder<decltype(zero)>(safeguard, coder, layout, samples, validity, tolerance).Run();
  });
}

}  // namespace quarry::safeguards
