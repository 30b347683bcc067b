#include <algorithm>
#include <functional>
#include <vector>

#include "quarry/codec/entropy/varint.h"
#include "quarry/codec/interpolate/interpolate.h"
#include "quarry/codec/mask/validity_coder.h"
#include "quarry/codec/safeguards/patch_form.h"
#include "quarry/geometry/patch_grid.h"

namespace quarry::safeguards {
namespace {

const InterpolateCoder kInterpolate;
const ValidityCoder kPlanes;

/// Decodes the levels of a plane. It is all 1, and takes no memory, if its coarsest level has no byte.
class PlaneDecoder {
 public:
  PlaneDecoder() = default;
  PlaneDecoder(const PlaneDecoder& other) : decoder_(other.decoder_ ? other.decoder_->Clone() : nullptr) {}
  PlaneDecoder(PlaneDecoder&&) = default;
  PlaneDecoder& operator=(PlaneDecoder&&) = default;

  /// Takes the plane's part of a level off the front of its payload.
  Status Take(const PatchLayout& layout, int level, ByteSpan* payload) {
    QUARRY_ASSIGN_OR_RETURN(const std::uint64_t size, entropy::TakeVarint(payload));
    if (size > payload->size())
      return DataLoss("a plane of level {} has {} bytes of {}", level, size, payload->size());
    const ByteSpan plane = payload->first(size);
    *payload = payload->subspan(size);
    if (level + 1 == layout.levels && !plane.empty())
      decoder_ = kPlanes.NewDecoder({DataType::kUint8, layout.shape, layout.levels});
    if (decoder_) return decoder_->Advance({plane}).status();
    if (plane.empty()) return Status::Ok();
    return DataLoss("level {} has a plane of {} bytes, but the coarsest level has none", level, plane.size());
  }

  Validity samples() const { return decoder_ ? AsValidity(decoder_->samples()) : Validity(); }
  std::uint64_t memory() const { return decoder_ ? decoder_->memory() : 0; }

 private:
  std::unique_ptr<PatchDecoder> decoder_;
};

template <typename T>
class Decoder final : public PatchDecoder {
 public:
  Decoder(Safeguard safeguard, const PatchLayout& layout)
      : safeguard_(safeguard), layout_(layout), level_(layout.levels) {}
  Decoder(const Decoder& other)
      : safeguard_(other.safeguard_),
        layout_(other.layout_),
        level_(other.level_),
        header_(other.header_),
        nonzero_(other.nonzero_),
        positive_(other.positive_),
        base_(other.base_ ? other.base_->Clone() : nullptr),
        samples_(other.samples_) {}

  int level() const override { return level_; }
  ByteSpan samples() const override { return samples_; }
  std::unique_ptr<PatchDecoder> Clone() const override { return std::make_unique<Decoder>(*this); }
  std::uint64_t memory() const override {
    return samples_.size() + nonzero_.memory() + positive_.memory() + (base_ ? base_->memory() : 0);
  }

  Result<bool> Advance(const LevelInput& input) override {
    ByteSpan payload = input.payload;
    if (level_ == 0) return InternalError("a patch of {} levels has no finer level", layout_.levels);
    const int level = level_ - 1;
    if (level_ == layout_.levels) QUARRY_RETURN_IF_ERROR(Start(&payload));
    samples_.resize(static_cast<std::size_t>(Volume(LevelShape(layout_.shape, level))) * sizeof(T));
    if (header_.mode == PatchMode::kZero) {
      if (!payload.empty())
        return DataLoss("level {} of a patch of zeros has {} bytes", level, payload.size());
    } else {
      if (header_.mode != PatchMode::kExact) QUARRY_RETURN_IF_ERROR(TakePlanes(level, &payload));
      QUARRY_RETURN_IF_ERROR(base_->Advance({payload, Coded(input.validity)}));
    }
    Restore(header_, base_ ? base_->samples() : ByteSpan(), {nonzero_.samples(), positive_.samples()},
            std::span(reinterpret_cast<T*>(samples_.data()), samples_.size() / sizeof(T)));
    level_ = level;
    return false;
  }

 private:
  Status Start(ByteSpan* payload) {
    if (payload->empty()) return DataLoss("the coarsest level of a patch is empty");
    header_.mode = static_cast<PatchMode>(payload->front());
    *payload = payload->subspan(1);
    if (header_.mode == PatchMode::kZero) return Status::Ok();
    const bool relative = safeguard_ == Safeguard::kRelative;
    if (header_.mode > PatchMode::kExact || relative == (header_.mode == PatchMode::kSamples))
      return DataLoss("unknown mode {} of a patch", static_cast<int>(header_.mode));
    const DataType type = header_.mode == PatchMode::kLogarithms ? DataType::kInt32 : layout_.type;
    base_ = kInterpolate.NewDecoder({type, layout_.shape, layout_.levels});
    if (header_.mode == PatchMode::kLogarithms) return ReadScale(payload);
    return safeguard_ == Safeguard::kSigns ? ReadLeast(payload) : Status::Ok();
  }

  Status ReadScale(ByteSpan* payload) {
    constexpr std::size_t kBytes = 3;
    constexpr int kMostBits = 30;
    if (payload->size() < kBytes)
      return DataLoss("the scale of a patch ends after {} bytes", payload->size());
    LittleEndianReader reader(payload->data());
    header_.scale.bits = reader.Get<std::uint8_t>();
    header_.scale.offset = reader.Get<std::int16_t>();
    *payload = payload->subspan(kBytes);
    if (header_.scale.bits <= kMostBits) return Status::Ok();
    return DataLoss("logarithms of {} bits", header_.scale.bits);
  }

  Status ReadLeast(ByteSpan* payload) {
    if (header_.mode != PatchMode::kSamples) return Status::Ok();
    if (payload->size() < sizeof(T))
      return DataLoss("the least magnitude of a patch has {} bytes", payload->size());
    header_.least = GetLittleEndian<T>(payload->data());
    *payload = payload->subspan(sizeof(T));
    return Status::Ok();
  }

  Status TakePlanes(int level, ByteSpan* payload) {
    QUARRY_RETURN_IF_ERROR(nonzero_.Take(layout_, level, payload));
    if (safeguard_ != Safeguard::kZeros) QUARRY_RETURN_IF_ERROR(positive_.Take(layout_, level, payload));
    return Status::Ok();
  }

  /// Which samples of the level interpolate has coded; valid until the next call.
  Validity Coded(Validity validity) {
    const Validity nonzero = nonzero_.samples();
    if (nonzero.empty() || validity.empty()) return nonzero.empty() ? validity : nonzero;
    coded_.resize(nonzero.size());
    std::transform(nonzero.begin(), nonzero.end(), validity.begin(), coded_.begin(), std::bit_and());
    return coded_;
  }

  const Safeguard safeguard_;
  const PatchLayout layout_;
  int level_;
  Header<T> header_;
  PlaneDecoder nonzero_;
  PlaneDecoder positive_;
  std::unique_ptr<PatchDecoder> base_;
  std::vector<std::uint8_t> coded_;
  Bytes samples_;
};

}  // namespace

std::unique_ptr<PatchDecoder> NewPatchDecoder(Safeguard safeguard, const PatchLayout& layout) {
  return DispatchNarrow(layout.type, [&](auto zero) -> std::unique_ptr<PatchDecoder> {
    return std::make_unique<Decoder<decltype(zero)>>(safeguard, layout);
  });
}

}  // namespace quarry::safeguards
