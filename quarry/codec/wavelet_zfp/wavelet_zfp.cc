#include "quarry/codec/wavelet_zfp/wavelet_zfp.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

#include "quarry/base/per_thread.h"
#include "quarry/codec/error_record/error_record.h"
#include "quarry/codec/mask/fill_missing.h"
#include "quarry/codec/sample_span.h"
#include "quarry/codec/wavelet_zfp/lifting.h"
#include "quarry/codec/wavelet_zfp/zfp_stream.h"
#include "quarry/geometry/patch_grid.h"

namespace quarry {
namespace {

// First byte of the coarsest level: how the whole patch is stored.
enum class PatchMode : std::uint8_t {
  kConstant = 0,  // one sample follows; finer levels are empty
  kWavelet = 1,   // float64 accuracy unit follows, then an array of coefficients
  kVerbatim = 2,  // samples follow, finer levels are the samples that each adds
};

// First byte of an array of coefficients. An array without any byte is all zeros.
enum class ArrayKind : std::uint8_t {
  kZfp = 1,       // in units of the level's accuracy
  kVerbatim = 2,  // unchanged: for small arrays that zfp would make larger
};

// Initial accuracy unit of a patch, in tolerances. Errors of zfp stay well below its accuracy, so a unit
// above 1 still holds the tolerance on nearly every patch of turbulent data. Every patch starts here, so its
// bytes do not depend on its neighbours.
constexpr double kFirstFactor = 2.8;
// Each coarser level is coded this many powers of two more accurately.
constexpr int kLevelShift = 2;
constexpr int kMaxAttempts = 8;
// A patch whose error stays below this part of the tolerance is loosened once. This applies to nearly every
// patch; it makes encoding slower by half and payloads smaller by 1 to 5 %, smooth ones by far more.
constexpr double kLoosenBelow = 0.9;
constexpr double kMaxLoosening = 8;
constexpr double kAim = 0.97;

/// Accuracy of a level's coefficients: the coarsest array shares that of the last detail level.
double LevelUnit(double unit, int level, int levels) {
  const int exponent = std::max(0, std::min(level, levels - 2));
  return std::ldexp(unit, -kLevelShift * exponent);
}

/// Arrays of a level: the coarsest is one dense box, the others the three slabs of details.
std::vector<Index3> LevelArrays(const PatchLayout& layout, int level) {
  const Index3 shape = LevelShape(layout.shape, level);
  if (level == layout.levels - 1) return {shape};
  const wavelet_zfp::DetailShapes slabs = wavelet_zfp::DetailSlabs(shape);
  return {slabs.begin(), slabs.end()};
}

std::int64_t TotalVolume(std::span<const Index3> shapes) {
  std::int64_t volume = 0;
  for (const Index3& shape : shapes) volume += Volume(shape);
  return volume;
}

template <typename T>
void AppendSamples(std::span<const T> samples, Bytes* out) {
  if constexpr (std::endian::native == std::endian::little) {
    const ByteSpan bytes = std::as_bytes(samples);
    out->insert(out->end(), bytes.begin(), bytes.end());
  } else {
    for (const T sample : samples) PutLittleEndian(out, sample);
  }
}

template <typename T>
Status ReadSamples(ByteSpan bytes, std::span<T> samples) {
  if (bytes.size() != samples.size_bytes()) {
    return DataLoss("a level has {} bytes of samples instead of {}", bytes.size(), samples.size_bytes());
  }
  if (!samples.empty()) std::memcpy(samples.data(), bytes.data(), bytes.size());
  if constexpr (std::endian::native == std::endian::big) {
    for (T& sample : samples) sample = ByteSwapped(sample);
  }
  return Status::Ok();
}

template <typename T>
class Decoder final : public PatchDecoder {
 public:
  explicit Decoder(const PatchLayout& layout) : layout_(layout), level_(layout.levels) {}
  Decoder(const Decoder& other)
      : layout_(other.layout_),
        level_(other.level_),
        mode_(other.mode_),
        constant_(other.constant_),
        unit_(other.unit_) {
    if (!other.samples_) return;
    Allocate(level_);
    std::copy_n(other.samples_.get(), size_, samples_.get());
  }

  int level() const override { return level_; }
  ByteSpan samples() const override { return std::as_bytes(std::span<const T>(samples_.get(), size_)); }
  std::unique_ptr<PatchDecoder> Clone() const override { return std::make_unique<Decoder>(*this); }
  std::uint64_t memory() const override { return size_ * sizeof(T); }

  Result<bool> Advance(const LevelInput& input) override {
    if (level_ == 0) return InternalError("a patch of {} levels has no finer level", layout_.levels);
    QUARRY_RETURN_IF_ERROR(level_ == layout_.levels ? Start(input.payload) : Refine(input.payload));
    return false;
  }

 private:
  Status Start(ByteSpan payload) {
    if (payload.empty()) return DataLoss("the coarsest level of a patch is empty");
    mode_ = static_cast<PatchMode>(payload[0]);
    payload = payload.subspan(1);
    Allocate(layout_.levels - 1);
    switch (mode_) {
      case PatchMode::kConstant:
        QUARRY_RETURN_IF_ERROR(ReadSamples<T>(payload, std::span<T>(&constant_, 1)));
        std::fill_n(samples_.get(), size_, constant_);
        break;
      case PatchMode::kVerbatim:
        QUARRY_RETURN_IF_ERROR(ReadSamples<T>(payload, std::span<T>(samples_.get(), size_)));
        break;
      case PatchMode::kWavelet: {
        if (payload.size() < sizeof(double))
          return DataLoss("the coarsest level of a patch has no accuracy unit");
        unit_ = GetLittleEndian<double>(payload.data());
        if (!(unit_ > 0) || !std::isfinite(unit_))
          return DataLoss("the accuracy unit {} of a patch is not positive", unit_);
        QUARRY_RETURN_IF_ERROR(
            ReadArrays(payload.subspan(sizeof(double)), layout_.levels - 1, samples_.get()));
        break;
      }
      default:
        return DataLoss("unknown patch mode {}", static_cast<int>(mode_));
    }
    level_ = layout_.levels - 1;
    return Status::Ok();
  }

  Status Refine(ByteSpan payload) {
    const std::unique_ptr<T[]> coarse = std::move(samples_);
    const int level = level_ - 1;
    const Index3 shape = LevelShape(layout_.shape, level);
    Allocate(level);
    if (mode_ == PatchMode::kConstant) {
      if (!payload.empty())
        return DataLoss("level {} of a constant patch has {} bytes", level, payload.size());
      std::fill_n(samples_.get(), size_, constant_);
    } else if (mode_ == PatchMode::kWavelet && payload.empty()) {
      wavelet_zfp::Inverse<T>(coarse.get(), nullptr, shape, samples_.get());
    } else {
      static const PerThread<std::vector<T>> scratch;
      std::vector<T>& details = *scratch;
      const auto count = static_cast<std::size_t>(wavelet_zfp::DetailVolume(shape));
      if (details.size() < count) details.resize(count);
      if (mode_ == PatchMode::kVerbatim) {
        QUARRY_RETURN_IF_ERROR(ReadSamples<T>(payload, std::span<T>(details.data(), count)));
        wavelet_zfp::Merge<T>(coarse.get(), details.data(), shape, samples_.get());
      } else {
        QUARRY_RETURN_IF_ERROR(ReadArrays(payload, level, details.data()));
        wavelet_zfp::Inverse<T>(coarse.get(), details.data(), shape, samples_.get());
      }
    }
    level_ = level;
    return Status::Ok();
  }

  /// Coefficients of a level into `data`, multiplied back from units of accuracy.
  Status ReadArrays(ByteSpan payload, int level, T* data) const {
    const std::vector<Index3> shapes = LevelArrays(layout_, level);
    const auto count = static_cast<std::size_t>(TotalVolume(shapes));
    if (payload.empty()) {
      std::fill_n(data, count, T(0));
      return Status::Ok();
    }
    const auto kind = static_cast<ArrayKind>(payload[0]);
    payload = payload.subspan(1);
    if (kind == ArrayKind::kVerbatim) return ReadSamples<T>(payload, std::span<T>(data, count));
    if (kind != ArrayKind::kZfp)
      return DataLoss("unknown array kind {} in level {}", static_cast<int>(kind), level);
    QUARRY_RETURN_IF_ERROR(wavelet_zfp::ZfpDecompress<T>(payload, shapes, data));
    const T unit = static_cast<T>(LevelUnit(unit_, level, layout_.levels));
    for (std::size_t i = 0; i < count; ++i) data[i] *= unit;
    return Status::Ok();
  }

  void Allocate(int level) {
    size_ = static_cast<std::size_t>(Volume(LevelShape(layout_.shape, level)));
    samples_ = std::make_unique_for_overwrite<T[]>(size_);
  }

  PatchLayout layout_;
  int level_;
  PatchMode mode_ = PatchMode::kConstant;
  T constant_ = 0;
  double unit_ = 0;
  std::unique_ptr<T[]> samples_;
  std::size_t size_ = 0;
};

/// The patch as coefficients per level, independent of the accuracy.
template <typename T>
using Coefficients = std::vector<std::vector<T>>;

/// `Step` is wavelet_zfp::Forward, or wavelet_zfp::Split for verbatim patches.
template <typename T, typename Step>
Coefficients<T> Decompose(const PatchLayout& layout, std::span<const T> samples, Step step) {
  Coefficients<T> levels(static_cast<std::size_t>(layout.levels));
  std::vector<T> fine(samples.begin(), samples.end());
  for (int l = 0; l + 1 < layout.levels; ++l) {
    const Index3 shape = LevelShape(layout.shape, l);
    std::vector<T> coarse(static_cast<std::size_t>(Volume(LevelShape(shape, 1))));
    levels[static_cast<std::size_t>(l)].resize(static_cast<std::size_t>(wavelet_zfp::DetailVolume(shape)));
    step(fine.data(), shape, coarse.data(), levels[static_cast<std::size_t>(l)].data());
    fine.swap(coarse);
  }
  levels.back() = std::move(fine);
  return levels;
}

/// Appends one level's coefficients in the cheapest of the three ways. False when they cannot be expressed in
/// this unit.
template <typename T>
Result<bool> AppendArrays(std::span<const T> coefficients, std::span<const Index3> shapes, double unit,
                          Bytes* out) {
  const T inverse = static_cast<T>(1 / unit);
  if (!std::isfinite(inverse) || !(inverse > 0) || !(static_cast<T>(unit) > 0)) return false;
  static const PerThread<std::vector<T>> scratch;
  std::vector<T>& scaled = *scratch;
  scaled.resize(coefficients.size());
  T largest = 0;
  for (std::size_t i = 0; i < coefficients.size(); ++i) {
    scaled[i] = coefficients[i] * inverse;
    const T magnitude = std::abs(scaled[i]);
    largest = magnitude <= largest ? largest : magnitude;
  }
  if (!std::isfinite(largest)) return false;
  if (largest < T(0.5)) return true;  // zero is accurate enough for all of them
  Bytes compressed;
  QUARRY_RETURN_IF_ERROR(wavelet_zfp::ZfpCompress<T>(scaled.data(), shapes, &compressed));
  if (compressed.size() < coefficients.size_bytes()) {
    out->push_back(static_cast<std::byte>(ArrayKind::kZfp));
    out->insert(out->end(), compressed.begin(), compressed.end());
  } else {
    out->push_back(static_cast<std::byte>(ArrayKind::kVerbatim));
    AppendSamples<T>(coefficients, out);
  }
  return true;
}

/// Payloads of all levels with this accuracy unit; empty when it cannot be expressed.
template <typename T>
Result<std::vector<Bytes>> CodeCoefficients(const PatchLayout& layout, const Coefficients<T>& coefficients,
                                            double unit) {
  std::vector<Bytes> payloads(coefficients.size());
  payloads.back().push_back(static_cast<std::byte>(PatchMode::kWavelet));
  PutLittleEndian(&payloads.back(), unit);
  for (int l = 0; l < layout.levels; ++l) {
    const auto i = static_cast<std::size_t>(l);
    QUARRY_ASSIGN_OR_RETURN(const bool expressed,
                            AppendArrays<T>(coefficients[i], LevelArrays(layout, l),
                                            LevelUnit(unit, l, layout.levels), &payloads[i]));
    if (!expressed) return std::vector<Bytes>();
  }
  return payloads;
}

/// A patch to encode.
template <typename T>
struct Patch {
  PatchLayout layout;
  std::span<const T> samples;  ///< missing ones filled
  Validity validity;
};

/// Decodes `payloads` as a reader will.
template <typename T>
class Verification {
 public:
  static Result<Verification> Run(const Patch<T>& patch, const std::vector<Bytes>& payloads) {
    const PatchLayout& layout = patch.layout;
    Verification result;
    Decoder<T> decoder(layout);
    result.levels_.resize(payloads.size());
    for (int l = layout.levels - 1; l >= 0; --l) {
      QUARRY_RETURN_IF_ERROR(decoder.Advance({payloads[static_cast<std::size_t>(l)]}));
      const ByteSpan samples = decoder.samples();
      result.levels_[static_cast<std::size_t>(l)].assign(samples.begin(), samples.end());
    }
    const auto* finest = reinterpret_cast<const T*>(result.levels_[0].data());
    result.max_error_ =
        CompareSamples<T>(patch.samples, {finest, patch.samples.size()}, patch.validity).max_error;
    return result;
  }

  double max_error() const { return max_error_; }
  std::vector<Bytes> TakeLevels() { return std::move(levels_); }

 private:
  double max_error_ = 0;
  std::vector<Bytes> levels_;
};

template <typename T>
struct Attempt {
  std::vector<Bytes> payloads;
  Verification<T> verification;

  std::size_t size() const {
    std::size_t bytes = 0;
    for (const Bytes& payload : payloads) bytes += payload.size();
    return bytes;
  }
};

template <typename T>
std::vector<Bytes> CodeVerbatim(const Patch<T>& patch) {
  const Coefficients<T> levels = Decompose<T>(patch.layout, patch.samples, wavelet_zfp::Split<T>);
  std::vector<Bytes> payloads(levels.size());
  payloads.back().push_back(static_cast<std::byte>(PatchMode::kVerbatim));
  for (std::size_t l = 0; l < levels.size(); ++l) AppendSamples<T>(levels[l], &payloads[l]);
  return payloads;
}

template <typename T>
std::vector<Bytes> CodeConstant(const PatchLayout& layout, T value) {
  std::vector<Bytes> payloads(static_cast<std::size_t>(layout.levels));
  payloads.back().push_back(static_cast<std::byte>(PatchMode::kConstant));
  PutLittleEndian(&payloads.back(), value);
  return payloads;
}

template <typename T>
Result<Attempt<T>> Verified(const Patch<T>& patch, std::vector<Bytes> payloads) {
  QUARRY_ASSIGN_OR_RETURN(Verification<T> verification, Verification<T>::Run(patch, payloads));
  return Attempt<T>{std::move(payloads), std::move(verification)};
}

/// The search for the loosest accuracy unit that holds the tolerance; verbatim samples when there is none.
template <typename T>
Result<Attempt<T>> CodeWithinTolerance(const Patch<T>& patch, double tolerance) {
  const Coefficients<T> coefficients = Decompose<T>(patch.layout, patch.samples, wavelet_zfp::Forward<T>);
  double factor = kFirstFactor;
  for (int attempt = 0; attempt < kMaxAttempts && tolerance > 0; ++attempt) {
    QUARRY_ASSIGN_OR_RETURN(std::vector<Bytes> payloads,
                            CodeCoefficients<T>(patch.layout, coefficients, factor * tolerance));
    if (payloads.empty()) break;
    QUARRY_ASSIGN_OR_RETURN(Attempt<T> coded, Verified<T>(patch, std::move(payloads)));
    const double error = coded.verification.max_error() / tolerance;
    if (!(error <= 1)) {
      factor *= std::isfinite(error) ? std::min(0.8, kAim / error) : 0.1;
      continue;
    }
    if (error < kLoosenBelow && attempt == 0) {
      const double looser = factor * (error > 0 ? std::min(kMaxLoosening, kAim / error) : kMaxLoosening);
      QUARRY_ASSIGN_OR_RETURN(payloads, CodeCoefficients<T>(patch.layout, coefficients, looser * tolerance));
      if (!payloads.empty()) {
        QUARRY_ASSIGN_OR_RETURN(Attempt<T> loosened, Verified<T>(patch, std::move(payloads)));
        if (loosened.verification.max_error() <= tolerance && loosened.size() < coded.size()) return loosened;
      }
    }
    return coded;
  }
  return Verified<T>(patch, CodeVerbatim<T>(patch));
}

template <typename T>
Result<CodedPatch> EncodeTyped(const PatchLayout& layout, ByteSpan bytes, Validity validity,
                               double tolerance) {
  Patch<T> patch{layout, SamplesOf<T>(bytes), validity};
  std::vector<T> filled;
  if (!validity.empty()) {
    filled = mask::FillMissing<T>(layout.shape, patch.samples, validity);
    patch.samples = filled;
  }
  const auto [min, max] = std::minmax_element(patch.samples.begin(), patch.samples.end());
  QUARRY_ASSIGN_OR_RETURN(Attempt<T> coded, *min == *max ? Verified<T>(patch, CodeConstant<T>(layout, *min))
                                                         : CodeWithinTolerance<T>(patch, tolerance));
  return CodedPatch{std::move(coded.payloads), coded.verification.TakeLevels()};
}

}  // namespace

Result<CodedPatch> WaveletZfpCoder::EncodeChecked(const EncodeRequest& request) const {
  const auto& [layout, samples, validity, tolerances, reference] = request;
  const double tolerance = tolerances.front();
  if (!Supports(layout.type))
    return InvalidArgument("codec wavelet-zfp does not code {}; give float32 or float64", Name(layout.type));
  if (samples.size() != static_cast<std::size_t>(Volume(layout.shape)) * SizeOf(layout.type) ||
      samples.empty()) {
    return InvalidArgument("a patch of shape {} has {} bytes of samples", ToString(layout.shape),
                           samples.size());
  }
  if (!validity.empty() && validity.size() != static_cast<std::size_t>(Volume(layout.shape))) {
    return InvalidArgument("a patch of shape {} has the validity of {} samples", ToString(layout.shape),
                           validity.size());
  }
  if (!validity.empty() && std::count(validity.begin(), validity.end(), 0) == std::ssize(validity))
    return InvalidArgument("a patch of shape {} has no valid sample", ToString(layout.shape));
  if (!(tolerance >= 0)) return InvalidArgument("tolerance {} is not a positive number", tolerance);
  return layout.type == DataType::kFloat32 ? EncodeTyped<float>(layout, samples, validity, tolerance)
                                           : EncodeTyped<double>(layout, samples, validity, tolerance);
}

std::unique_ptr<PatchDecoder> WaveletZfpCoder::NewPlainDecoder(const PatchLayout& layout) const {
  if (layout.type == DataType::kFloat32) return std::make_unique<Decoder<float>>(layout);
  return std::make_unique<Decoder<double>>(layout);
}

}  // namespace quarry
