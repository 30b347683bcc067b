#pragma once

#include "quarry/codec/coder.h"
#include "quarry/geometry/patch_grid.h"

namespace quarry::fuzz {

/// Discards the samples: every valid one decodes to zero, from any payload.
class BlankCoder final : public PatchCoder {
 public:
  const CoderTraits& traits() const override {
    static constexpr CoderTraits kTraits{.id = CoderId::kLossless, .name = "blank"};
    return kTraits;
  }
  bool Supports(DataType type) const override { return SizeOf(type) != 0; }

  std::unique_ptr<PatchDecoder> NewPlainDecoder(const PatchLayout& layout) const override {
    return std::make_unique<Decoder>(layout);
  }

 protected:
  Result<CodedPatch> EncodeChecked(const EncodeRequest& request) const override {
    const PatchLayout& layout = request.layout;
    CodedPatch coded;
    for (int level = 0; level < layout.levels; ++level) {
      coded.levels.emplace_back(level % 2, std::byte{0x5a});
      coded.decoded.push_back(Zeros(layout, level));
    }
    return coded;
  }

 private:
  static Bytes Zeros(const PatchLayout& layout, int level) {
    return Bytes(static_cast<std::size_t>(Volume(LevelShape(layout.shape, level))) * SizeOf(layout.type),
                 std::byte{0});
  }

  class Decoder final : public PatchDecoder {
   public:
    explicit Decoder(const PatchLayout& layout) : layout_(layout), level_(layout.levels) {}
    int level() const override { return level_; }
    ByteSpan samples() const override { return samples_; }
    std::unique_ptr<PatchDecoder> Clone() const override { return std::make_unique<Decoder>(*this); }
    std::uint64_t memory() const override { return samples_.size(); }
    Result<bool> Advance(const LevelInput&) override {
      samples_ = Zeros(layout_, --level_);
      return false;
    }

   private:
    PatchLayout layout_;
    int level_;
    Bytes samples_;
  };
};

}  // namespace quarry::fuzz
