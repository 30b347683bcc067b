#include <optional>
#include <span>
#include <type_traits>
#include <utility>

#include "quarry/codec/entropy/planes.h"
#include "quarry/codec/lossless/fixed_point.h"
#include "quarry/codec/lossless/patch_form.h"
#include "quarry/codec/lossless/step.h"
#include "quarry/codec/quantum.h"
#include "quarry/codec/sample_span.h"

namespace quarry::lossless {
namespace {

/// The grids of a patch, from the coarsest level on. V is the type of the coded numbers.
template <typename V>
class LevelsDecoder {
 public:
  LevelsDecoder(const PatchLayout& layout, int dropped_bits)
      : layout_(layout), dropped_bits_(dropped_bits), level_(layout.levels) {}

  Status Advance(ByteSpan payload, Validity validity) {
    --level_;
    if (level_ == layout_.levels - 1) {
      QUARRY_RETURN_IF_ERROR(Start(&payload, validity));
    } else {
      QUARRY_RETURN_IF_ERROR(Refine(&payload, level_, DataOrNull(validity)));
    }
    if (!payload.empty()) return DataLoss("level {} has {} bytes too many", level_, payload.size());
    return Status::Ok();
  }

  std::span<const V> samples() const { return samples_; }

 private:
  Status Start(ByteSpan* payload, Validity validity) {
    const int grids = GridCount(layout_);
    const auto grid_valid = [&](int grid) {
      return CoarserValidity(validity, LevelShape(layout_.shape, level_), grid - level_);
    };
    const ValidityBuffer base_valid = grid_valid(grids - 1);
    const GridView<V> base = View(grids - 1, DataOrNull(base_valid));
    samples_.resize(Count(base.shape));
    QUARRY_RETURN_IF_ERROR(DecodeBase<V>(base, payload, samples_.data()));
    for (int grid = grids - 2; grid >= level_; --grid) {
      const ValidityBuffer valid = grid_valid(grid);
      QUARRY_RETURN_IF_ERROR(Refine(payload, grid, DataOrNull(valid)));
    }
    return Status::Ok();
  }

  Status Refine(ByteSpan* payload, int grid, const std::uint8_t* valid) {
    const GridView<V> view = View(grid, valid);
    Buffer<V> refined(Count(view.shape));
    QUARRY_RETURN_IF_ERROR(DecodeStep<V>(samples_.data(), view, payload, refined.data()));
    samples_.swap(refined);
    return Status::Ok();
  }

  GridView<V> View(int grid, const std::uint8_t* valid) const {
    return {nullptr, LevelShape(layout_.shape, grid), valid, dropped_bits_};
  }

  PatchLayout layout_;
  int dropped_bits_;
  int level_;
  Buffer<V> samples_;
};

template <typename T>
class Decoder final : public PatchDecoder {
 public:
  explicit Decoder(const PatchLayout& layout) : layout_(layout), level_(layout.levels) {}

  int level() const override { return level_; }
  ByteSpan samples() const override {
    return std::as_bytes(mode_ == PatchMode::kLevels && levels_ ? levels_->samples()
                                                                : std::span<const T>(samples_));
  }
  std::unique_ptr<PatchDecoder> Clone() const override { return std::make_unique<Decoder>(*this); }
  std::uint64_t memory() const override {
    std::uint64_t bytes = packed_.size() + samples_.size() * sizeof(T);
    if (levels_) bytes += levels_->samples().size_bytes();
    if (integers_) bytes += integers_->samples().size_bytes();
    return bytes;
  }

  Result<bool> Advance(const LevelInput& input) override {
    ByteSpan payload = input.payload;
    const Validity validity = input.validity;
    if (level_ == 0) return InternalError("a patch of {} levels has no finer level", layout_.levels);
    const std::size_t count = Count(LevelShape(layout_.shape, level_ - 1));
    if (!validity.empty() && validity.size() != count) {
      return InternalError("level {} has {} samples and validity of {}", level_ - 1, count, validity.size());
    }
    if (level_ == layout_.levels) QUARRY_RETURN_IF_ERROR(ReadMode(&payload));
    QUARRY_RETURN_IF_ERROR(Decode(payload, validity));
    --level_;
    return false;
  }

 private:
  using Integer = std::conditional_t<std::is_floating_point_v<T>, IntegerOf<T>, T>;

  /// The first bytes of the coarsest level.
  Status ReadMode(ByteSpan* payload) {
    if (payload->empty()) return DataLoss("the coarsest level of a patch is empty");
    mode_ = static_cast<PatchMode>((*payload)[0]);
    *payload = payload->subspan(1);
    switch (mode_) {
      case PatchMode::kConstant:
        return ReadConstant(payload);
      case PatchMode::kWhole:
        return ReadWhole(payload);
      case PatchMode::kLevels:
        return ReadDroppedBits(payload);
      case PatchMode::kIntegers:
      case PatchMode::kMultiples:
        if constexpr (std::is_floating_point_v<T>)
          return mode_ == PatchMode::kIntegers ? ReadExponent(payload) : ReadQuantum(payload);
        break;
    }
    return DataLoss("unknown patch mode {}", static_cast<int>(mode_));
  }

  Status ReadConstant(ByteSpan* payload) {
    if (payload->size() != sizeof(T))
      return DataLoss("a constant of {} bytes has {}", sizeof(T), payload->size());
    constant_ = GetLittleEndian<T>(payload->data());
    *payload = {};
    return Status::Ok();
  }

  /// All levels in one stream. Each level unpacks it again: keeping the samples of level 0 for the finer
  /// levels would take thousands of times the memory of a coarse level.
  Status ReadWhole(ByteSpan* payload) {
    Buffer<T> whole(Count(layout_.shape));
    const ByteSpan stream = *payload;
    QUARRY_RETURN_IF_ERROR(entropy::TakePlanes(payload, &whole));
    const ByteSpan packed = stream.first(stream.size() - payload->size());
    packed_.assign(packed.begin(), packed.end());
    return Status::Ok();
  }

  Status ReadDroppedBits(ByteSpan* payload) {
    if (payload->empty()) return DataLoss("the coarsest level of a patch ends in its first bytes");
    const int dropped_bits = std::to_integer<int>((*payload)[0]);
    if (dropped_bits >= static_cast<int>(8 * sizeof(T)))
      return DataLoss("{} bits of samples of {} bytes cannot be dropped", dropped_bits, sizeof(T));
    *payload = payload->subspan(1);
    levels_.emplace(layout_, dropped_bits);
    return Status::Ok();
  }

  Status ReadExponent(ByteSpan* payload) {
    if (payload->size() < 2) return DataLoss("the coarsest level of a patch ends in its first bytes");
    exponent_ = GetLittleEndian<std::int16_t>(payload->data());
    if (!IsExponent<T>(exponent_))
      return DataLoss("{} is not an exponent for samples of {} bytes", exponent_, sizeof(T));
    *payload = payload->subspan(2);
    integers_.emplace(layout_, 0);
    return Status::Ok();
  }

  Status ReadQuantum(ByteSpan* payload) {
    if (payload->size() < 2 * sizeof(double))
      return DataLoss("the coarsest level of a patch ends in its first bytes");
    LittleEndianReader reader(payload->data());
    const auto unit = reader.Get<double>();
    quantum_ = QuantumOf(unit, reader.Get<double>());
    if (!IsUsable(quantum_))
      return DataLoss("a patch has multiples of {} with the offset {}, which are not valid", quantum_.unit,
                      quantum_.offset);
    *payload = payload->subspan(2 * sizeof(double));
    integers_.emplace(layout_, 0);
    return Status::Ok();
  }

  Status Decode(ByteSpan payload, Validity validity) {
    const int level = level_ - 1;
    if (mode_ == PatchMode::kLevels) return levels_->Advance(payload, validity);
    if (integers_) return DecodeIntegers(payload, validity);
    if (!payload.empty()) return DataLoss("level {} has {} bytes too many", level, payload.size());
    if (mode_ == PatchMode::kConstant) {
      samples_.assign(Count(LevelShape(layout_.shape, level)), constant_);
      return Status::Ok();
    }
    Buffer<T> whole(Count(layout_.shape));
    ByteSpan packed = packed_;
    QUARRY_RETURN_IF_ERROR(entropy::TakePlanes(&packed, &whole));
    samples_ = level == 0 ? std::move(whole) : Subsample<T>(whole, layout_.shape, level);
    return Status::Ok();
  }

  Status DecodeIntegers(ByteSpan payload, Validity validity) {
    QUARRY_RETURN_IF_ERROR(integers_->Advance(payload, validity));
    const std::span<const Integer> integers = integers_->samples();
    samples_.resize(integers.size());
    if constexpr (std::is_floating_point_v<T>) {
      if (mode_ == PatchMode::kIntegers) {
        FromIntegers<T>(integers, exponent_, samples_.data());
      } else {
        for (std::size_t i = 0; i < integers.size(); ++i)
          samples_[i] = SampleOf<T>(quantum_, static_cast<double>(integers[i]));
      }
    }
    return Status::Ok();
  }

  PatchLayout layout_;
  int level_;
  PatchMode mode_ = PatchMode::kConstant;
  T constant_ = 0;
  int exponent_ = 0;  ///< exponent of PatchMode::kIntegers
  Quantum quantum_;   ///< quantum of PatchMode::kMultiples
  Bytes packed_;      ///< bytes of PatchMode::kWhole
  std::optional<LevelsDecoder<T>> levels_;
  std::optional<LevelsDecoder<Integer>> integers_;
  Buffer<T> samples_;
};

}  // namespace

std::unique_ptr<PatchDecoder> NewPatchDecoder(const PatchLayout& layout) {
  return DispatchType(layout.type, [&]<typename T>(T) -> std::unique_ptr<PatchDecoder> {
    return std::make_unique<Decoder<T>>(layout);
  });
}

}  // namespace quarry::lossless
