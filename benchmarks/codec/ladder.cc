#include "benchmarks/codec/ladder.h"

#include <cstdio>

#include "benchmarks/codec/candidate.h"
#include "quarry/codec/patch_codec.h"
#include "quarry/codec/patch_reader.h"

namespace quarry::bench {
namespace {

/// Payloads of a layer, from the coarsest level to the finest.
std::vector<ByteSpan> PayloadsOf(const EncodedPatch& encoded, int layer) {
  std::vector<ByteSpan> payloads;
  for (int level = encoded.parts.levels - 1; level >= 0; --level)
    payloads.emplace_back(encoded.levels[encoded.parts.Of(layer, level)]);
  return payloads;
}

ByteSpan MaskOf(const EncodedPatch& encoded, int level) {
  return encoded.mask_levels.empty() ? ByteSpan{}
                                     : ByteSpan(encoded.mask_levels[static_cast<std::size_t>(level)]);
}

/// Decodes layer 0, from the coarsest level on.
Status DecodeLevels(const EncodedPatch& encoded, PatchReader* reader) {
  int level = encoded.parts.levels;
  for (const ByteSpan payload : PayloadsOf(encoded, 0))
    QUARRY_RETURN_IF_ERROR(reader->Advance(payload, MaskOf(encoded, --level)));
  return Status::Ok();
}

/// One tolerance, as a layer or alone, over all patches.
struct Step {
  explicit Step(std::size_t patches) : decode_times(patches) {}

  std::uint64_t bytes = 0;  ///< without masks
  Deviation deviation;
  PassTimes decode_times;
};

class Ladder {
 public:
  Ladder(const Volume& volume, const std::vector<double>& relative)
      : volume_(volume),
        relative_(relative),
        layers_(relative.size(), Step(volume.patches.size())),
        alone_(relative.size(), Step(volume.patches.size())) {
    for (const double tolerance : relative) tolerances_.push_back(tolerance * volume.range());
    if (volume.options.fill) fill_ = FillBits(*volume.options.fill, volume.options.type);
  }

  Status Measure(int repeats) {
    QUARRY_RETURN_IF_ERROR(Encode());
    for (int pass = 0; pass < repeats; ++pass) {
      for (std::size_t k = 0; k < relative_.size(); ++k) {
        layers_[k].decode_times.StartPass();
        alone_[k].decode_times.StartPass();
      }
      for (std::size_t patch = 0; patch < volume_.patches.size(); ++patch) {
        QUARRY_RETURN_IF_ERROR(DecodeLayers(patch, pass == 0));
        for (std::size_t k = 0; k < relative_.size(); ++k)
          QUARRY_RETURN_IF_ERROR(DecodeAlone(patch, k, pass == 0));
      }
    }
    return Status::Ok();
  }

  bool Kept() const {
    bool kept = true;
    for (std::size_t k = 0; k < relative_.size(); ++k) {
      for (const Deviation* deviation : {&layers_[k].deviation, &alone_[k].deviation}) {
        if (deviation->beyond == 0 && (relative_[k] > 0 || deviation->changed == 0)) continue;
        fmt::print(stderr, "codec_bench: VIOLATION: {}, {} of {}: the largest error is {}\n",
                   volume_.options.name, deviation == &alone_[k].deviation ? "alone" : "a layer",
                   relative_[k], deviation->max_error);
        kept = false;
      }
    }
    return kept;
  }

  nlohmann::ordered_json Describe() const {
    nlohmann::ordered_json steps = nlohmann::ordered_json::array();
    for (std::size_t k = 0; k < relative_.size(); ++k) {
      steps.push_back({{"tolerance", relative_[k]},
                       {"max_error", layers_[k].deviation.max_error},
                       {"bytes", layers_[k].bytes},
                       {"decode_mbps", Speed(layers_[k])},
                       {"alone", Coder(k).name()},
                       {"bytes_alone", alone_[k].bytes},
                       {"decode_mbps_alone", Speed(alone_[k])}});
    }
    return {{"program", "codec_bench"},           {"volume", volume_.options.name},
            {"type", Name(volume_.options.type)}, {"dims", volume_.options.dims},
            {"patch", volume_.patch_shape},       {"mask_bytes", mask_bytes_},
            {"ladder", std::move(steps)}};
  }

 private:
  /// The coder of one tolerance alone.
  const PatchCoder& Coder(std::size_t k) const {
    return *FindCoder(relative_[k] > 0 ? CoderId::kInterpolate : CoderId::kLossless);
  }

  Status Encode() {
    const PatchCoder& coder = *FindCoder(CoderId::kInterpolate);
    for (const Patch& patch : volume_.patches) {
      QUARRY_ASSIGN_OR_RETURN(EncodedPatch layered, EncodePatch(coder, patch.layout, patch.samples, fill_,
                                                                Tolerances(tolerances_)));
      mask_bytes_ += layered.mask_size();
      std::vector<EncodedPatch> singles;
      for (std::size_t k = 0; k < relative_.size(); ++k) {
        for (const ByteSpan payload : PayloadsOf(layered, static_cast<int>(k)))
          layers_[k].bytes += payload.size();
        QUARRY_ASSIGN_OR_RETURN(EncodedPatch single,
                                EncodePatch(Coder(k), patch.layout, patch.samples, fill_, tolerances_[k]));
        alone_[k].bytes += single.size();
        singles.push_back(std::move(single));
      }
      layered_.push_back(std::move(layered));
      singles_.push_back(std::move(singles));
    }
    return Status::Ok();
  }

  /// Layer 0 with the decoder itself, and then each further one.
  Status DecodeLayers(std::size_t index, bool compare) {
    const EncodedPatch& encoded = layered_[index];
    const Patch& patch = volume_.patches[index];
    auto begin = std::chrono::steady_clock::now();
    PatchReader reader(*FindCoder(CoderId::kInterpolate), patch.layout);
    for (std::size_t k = 0; k < relative_.size(); ++k) {
      if (k == 0) {
        QUARRY_RETURN_IF_ERROR(DecodeLevels(encoded, &reader));
      } else {
        const std::vector<ByteSpan> payloads = PayloadsOf(encoded, static_cast<int>(k));
        begin = std::chrono::steady_clock::now();
        QUARRY_RETURN_IF_ERROR(reader.AddLayer(payloads));
      }
      layers_[k].decode_times.Add(index, SecondsSince(begin));
      if (compare) layers_[k].deviation.Add(patch, reader.samples(), tolerances_[k]);
    }
    return Status::Ok();
  }

  Status DecodeAlone(std::size_t index, std::size_t k, bool compare) {
    const EncodedPatch& encoded = singles_[index][k];
    const Patch& patch = volume_.patches[index];
    const auto begin = std::chrono::steady_clock::now();
    PatchReader reader(Coder(k), patch.layout);
    QUARRY_RETURN_IF_ERROR(DecodeLevels(encoded, &reader));
    alone_[k].decode_times.Add(index, SecondsSince(begin));
    if (compare) alone_[k].deviation.Add(patch, reader.samples(), tolerances_[k]);
    return Status::Ok();
  }

  double Speed(const Step& step) const {
    return static_cast<double>(volume_.raw_bytes()) / 1e6 / step.decode_times.Best();
  }

  const Volume& volume_;
  const std::vector<double>& relative_;
  std::vector<double> tolerances_;  ///< [unit of the samples]
  std::optional<std::uint64_t> fill_;
  std::vector<EncodedPatch> layered_;               ///< one for each patch
  std::vector<std::vector<EncodedPatch>> singles_;  ///< one for each patch and tolerance
  std::uint64_t mask_bytes_ = 0;
  std::vector<Step> layers_;
  std::vector<Step> alone_;
};

}  // namespace

Result<bool> PrintLadder(const Volume& volume, const std::vector<double>& ladder, int repeats) {
  Ladder measured(volume, ladder);
  QUARRY_RETURN_IF_ERROR(measured.Measure(repeats));
  std::puts(measured.Describe().dump().c_str());
  std::fflush(stdout);
  return measured.Kept();
}

}  // namespace quarry::bench
