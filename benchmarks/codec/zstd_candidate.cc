#include <zstd.h>

#include "benchmarks/codec/candidate.h"

namespace quarry::bench {
namespace {

/// The bytes of `samples` sorted by significance: all lowest bytes, then all next ones.
template <std::size_t kSize>
void Shuffle(const std::byte* samples, std::size_t count, std::byte* planes) {
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t b = 0; b < kSize; ++b) planes[b * count + i] = samples[i * kSize + b];
  }
}

template <std::size_t kSize>
void Unshuffle(const std::byte* planes, std::size_t count, std::byte* samples) {
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t b = 0; b < kSize; ++b) samples[i * kSize + b] = planes[b * count + i];
  }
}

struct ContextFree {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

/// @param kSize  bytes of a sample that are sorted; 1: as they are
template <std::size_t kSize>
class ZstdCandidate final : public Candidate {
 public:
  ZstdCandidate(std::string name, const Volume& volume, int level)
      : Candidate(std::move(name), true, volume), level_(level), frames_(volume.patches.size()) {}

  Status Encode(std::size_t index) override {
    const Bytes& samples = patch(index).samples;
    compressed_.resize(ZSTD_compressBound(samples.size()));
    planes_.resize(samples.size());
    const auto begin = std::chrono::steady_clock::now();
    const std::byte* from = samples.data();
    if constexpr (kSize > 1) {
      Shuffle<kSize>(samples.data(), samples.size() / kSize, planes_.data());
      from = planes_.data();
    }
    const std::size_t size = ZSTD_compressCCtx(compressor_.get(), compressed_.data(), compressed_.size(),
                                               from, samples.size(), level_);
    encode_times.Add(index, SecondsSince(begin));
    if (ZSTD_isError(size)) return InternalError("zstd: {}", ZSTD_getErrorName(size));
    if (frames_[index].empty()) {
      frames_[index].assign(compressed_.begin(), compressed_.begin() + static_cast<std::ptrdiff_t>(size));
      bytes_ += size;
    }
    return Status::Ok();
  }

  Status Decode(std::size_t index) override {
    const std::size_t bytes = patch(index).samples.size();
    decoded_.resize(bytes);
    planes_.resize(bytes);
    const Bytes& frame = frames_[index];
    const auto begin = std::chrono::steady_clock::now();
    std::byte* to = kSize > 1 ? planes_.data() : decoded_.data();
    const std::size_t size = ZSTD_decompressDCtx(decompressor_.get(), to, bytes, frame.data(), frame.size());
    if constexpr (kSize > 1) Unshuffle<kSize>(planes_.data(), bytes / kSize, decoded_.data());
    decode_times.Add(index, SecondsSince(begin));
    return size == bytes ? Status::Ok() : InternalError("zstd does not decode patch {}", index);
  }

  ByteSpan decoded() const override { return decoded_; }
  std::uint64_t bytes() const override { return bytes_; }

 private:
  int level_;
  std::unique_ptr<ZSTD_CCtx, ContextFree> compressor_{ZSTD_createCCtx()};
  std::unique_ptr<ZSTD_DCtx, ContextFree> decompressor_{ZSTD_createDCtx()};
  std::vector<Bytes> frames_;
  std::uint64_t bytes_ = 0;
  Bytes compressed_;
  Bytes planes_;
  Bytes decoded_;
};

}  // namespace

std::unique_ptr<Candidate> NewZstdCandidate(const Volume& volume, int level, bool shuffle) {
  const std::string name = fmt::format("{}zstd-{}", shuffle ? "shuffle-" : "", level);
  switch (shuffle ? SizeOf(volume.options.type) : 1) {
    case 2:
      return std::make_unique<ZstdCandidate<2>>(name, volume, level);
    case 4:
      return std::make_unique<ZstdCandidate<4>>(name, volume, level);
    case 8:
      return std::make_unique<ZstdCandidate<8>>(name, volume, level);
    default:
      return std::make_unique<ZstdCandidate<1>>(name, volume, level);
  }
}

}  // namespace quarry::bench
