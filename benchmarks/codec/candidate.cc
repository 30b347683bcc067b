#include "benchmarks/codec/candidate.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "quarry/codec/patch_codec.h"
#include "quarry/codec/patch_reader.h"
#include "quarry/geometry/patch_grid.h"

namespace quarry::bench {

double PassTimes::Best() const {
  return std::accumulate(best_.begin(), best_.end(), 0.0,
                         [](double sum, double best) { return sum + std::max(best, 0.0); });
}

double PassTimes::Median() const {
  if (passes_.empty()) return 0;
  std::vector<double> sorted = passes_;
  std::sort(sorted.begin(), sorted.end());
  return sorted[sorted.size() / 2];
}

namespace {

class CoderCandidate final : public Candidate {
 public:
  CoderCandidate(const PatchCoder& coder, const Volume& volume, double tolerance)
      : Candidate(std::string(coder.name()), coder.traits().is_lossless, volume),
        coder_(coder),
        tolerance_(tolerance),
        encoded_(volume.patches.size()),
        patch_times_(volume.patches.size()),
        level_times_(static_cast<std::size_t>(volume.levels), PassTimes(volume.patches.size())) {
    if (volume.options.fill) fill_ = FillBits(*volume.options.fill, volume.options.type);
  }

  void StartEncodePass() override {
    Candidate::StartEncodePass();
    patch_times_.StartPass();
    ++pass_;
  }

  void StartDecodePass() override {
    Candidate::StartDecodePass();
    for (PassTimes& times : level_times_) times.StartPass();
  }

  Status Encode(std::size_t index) override {
    // In turns, so that neither always finds the samples in the cache.
    if (pass_ % 2 == 0) QUARRY_RETURN_IF_ERROR(EncodeAlone(index));
    QUARRY_RETURN_IF_ERROR(EncodeWithRecord(index));
    if (pass_ % 2 != 0) QUARRY_RETURN_IF_ERROR(EncodeAlone(index));
    return Status::Ok();
  }

  Status Decode(std::size_t index) override {
    const EncodedPatch& encoded = encoded_[index];
    const auto begin = std::chrono::steady_clock::now();
    reader_.emplace(coder_, patch(index).layout);
    double elapsed = 0;
    for (int level = volume().levels - 1; level >= 0; --level) {
      const auto l = static_cast<std::size_t>(level);
      const ByteSpan mask = encoded.mask_levels.empty() ? ByteSpan{} : ByteSpan(encoded.mask_levels[l]);
      QUARRY_RETURN_IF_ERROR(reader_->Advance(encoded.levels[l], mask));
      // The coarsest level bears the cost of the decoder itself.
      const double now = SecondsSince(begin);
      level_times_[l].Add(index, now - elapsed);
      elapsed = now;
    }
    decode_times.Add(index, elapsed);
    return Status::Ok();
  }

  ByteSpan decoded() const override { return reader_->samples(); }

  std::optional<double> recorded_error() const override {
    double largest = 0;
    for (const EncodedPatch& encoded : encoded_) {
      if (encoded.valid > 0) largest = std::max(largest, encoded.errors[0].max_error);
    }
    return largest;
  }

  std::uint64_t bytes() const override { return PayloadBytes() + MaskBytes(); }

  void Describe(nlohmann::ordered_json* result) const override {
    (*result)["mask_bytes"] = MaskBytes();
    (*result)["encode_patch_mbps"] = static_cast<double>(volume().raw_bytes()) / 1e6 / patch_times_.Best();
    DescribeRecord(result);
    nlohmann::ordered_json levels;
    for (int level = 0; level < volume().levels; ++level) levels.push_back(DescribeLevel(level));
    (*result)["levels"] = std::move(levels);
  }

 private:
  Status EncodeAlone(std::size_t index) {
    const Patch& from = patch(index);
    if (from.valid == 0) {  // never reaches a coder
      encode_times.Add(index, 0);
      return Status::Ok();
    }
    // A coder may take missing samples as they are, but EncodePatch gives it harmless ones.
    const auto begin = std::chrono::steady_clock::now();
    const Result<CodedPatch> coded =
        coder_.Encode({from.layout, from.harmless(), from.validity, std::array{tolerance_}});
    encode_times.Add(index, SecondsSince(begin));
    return coded.status();
  }

  Status EncodeWithRecord(std::size_t index) {
    const Patch& from = patch(index);
    const auto begin = std::chrono::steady_clock::now();
    Result<EncodedPatch> encoded = EncodePatch(coder_, from.layout, from.samples, fill_, tolerance_);
    patch_times_.Add(index, SecondsSince(begin));
    QUARRY_RETURN_IF_ERROR(encoded.status());
    if (pass_ == 0) {
      encoded_[index] = *std::move(encoded);
    } else if (encoded->levels != encoded_[index].levels) {
      return InternalError("{} encodes patch {} to other bytes the second time", name(), index);
    }
    return Status::Ok();
  }

  /// Cost of the error record, if nothing is missing; otherwise masks cost too.
  void DescribeRecord(nlohmann::ordered_json* result) const {
    double alone = 0;
    double with_record = 0;
    for (std::size_t i = 0; i < encoded_.size(); ++i) {
      if (!patch(i).validity.empty()) continue;
      alone += encode_times.Best(i);
      with_record += patch_times_.Best(i);
    }
    if (with_record == 0) return;
    (*result)["record_share"] = (with_record - alone) / with_record;
    (*result)["record_over_encode"] = (with_record - alone) / alone;
  }

  std::uint64_t PayloadBytes() const {
    std::uint64_t sum = 0;
    for (const EncodedPatch& encoded : encoded_) sum += encoded.size();
    return sum;
  }

  std::uint64_t MaskBytes() const {
    std::uint64_t sum = 0;
    for (const EncodedPatch& encoded : encoded_) {
      for (const Bytes& level : encoded.mask_levels) sum += level.size();
    }
    return sum;
  }

  nlohmann::ordered_json DescribeLevel(int level) const {
    const auto l = static_cast<std::size_t>(level);
    std::uint64_t samples = 0;
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < encoded_.size(); ++i) {
      samples += static_cast<std::uint64_t>(quarry::Volume(LevelShape(patch(i).layout.shape, level)));
      bytes += encoded_[i].levels[l].size();
      if (!encoded_[i].mask_levels.empty()) bytes += encoded_[i].mask_levels[l].size();
    }
    return {{"level", level},
            {"samples", samples},
            {"bytes", bytes},
            {"decode_ns_per_sample", level_times_[l].Best() * 1e9 / static_cast<double>(samples)}};
  }

  const PatchCoder& coder_;
  double tolerance_;
  std::optional<std::uint64_t> fill_;
  std::vector<EncodedPatch> encoded_;
  PassTimes patch_times_;
  std::vector<PassTimes> level_times_;
  std::optional<PatchReader> reader_;
  int pass_ = -1;
};

}  // namespace

std::unique_ptr<Candidate> NewCoderCandidate(const PatchCoder& coder, const Volume& volume,
                                             double tolerance) {
  return std::make_unique<CoderCandidate>(coder, volume, tolerance);
}

}  // namespace quarry::bench
