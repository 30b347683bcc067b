#include "tests/property/patch_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>

#include "quarry/geometry/patch_grid.h"

namespace quarry::testing {
namespace {

using Broken = std::optional<std::string>;

template <typename T>
std::span<const T> SamplesOf(ByteSpan bytes) {
  return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
}

template <typename T>
bool SameBits(T a, T b) {
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}

/// Calls visit(i, original number) for every sample of a level until it returns false.
template <typename Visit>
void ForEachSample(const PatchLayout& layout, int level, Visit visit) {
  const Index3 shape = LevelShape(layout.shape, level);
  std::size_t i = 0;
  for (std::int64_t z = 0; z < shape[2]; ++z) {
    for (std::int64_t y = 0; y < shape[1]; ++y) {
      const auto row =
          static_cast<std::size_t>(layout.shape[0] * ((y << level) + layout.shape[1] * (z << level)));
      for (std::int64_t x = 0; x < shape[0]; ++x, ++i) {
        if (!visit(i, row + static_cast<std::size_t>(x << level))) return;
      }
    }
  }
}

PatchParts PartsOf(const PatchCase& patch) {
  return {patch.layout.levels, static_cast<int>(patch.tolerances.size())};
}

bool EndsWith(const Bytes& bytes, const Bytes& end) {
  return bytes.size() >= end.size() &&
         std::equal(end.begin(), end.end(), bytes.end() - static_cast<std::ptrdiff_t>(end.size()));
}

std::string Place(const PatchLayout& layout, int level, std::size_t number) {
  const Index3 shape = LevelShape(layout.shape, level);
  const auto n = static_cast<std::int64_t>(number);
  return fmt::format("level {} at ({}, {}, {})", level, n % shape[0], n / shape[0] % shape[1],
                     n / shape[0] / shape[1]);
}

}  // namespace

Broken PatchChecker::Check(const PatchCase& patch, std::uint64_t garbage) {
  valid_ = ClassifySamples(patch.layout.type, patch.patch->samples, patch.patch->fill, &validity_);
  return DispatchType(patch.layout.type, [&]<typename T>(T) { return CheckTyped<T>(patch, garbage); });
}

template <typename T>
Broken PatchChecker::CheckTyped(const PatchCase& patch, std::uint64_t garbage) {
  const Result<EncodedPatch> encoded =
      EncodePatch(*patch.coder, patch.layout, patch.patch->samples, patch.patch->fill, patch.tolerances);
  if (!encoded.ok()) return "EncodePatch: " + encoded.status().message();
  if (Broken broken = CheckRecord<T>(patch, *encoded)) return broken;
  coded_ = CodedPatch();
  if (valid_ > 0) {
    if (Broken broken = CheckCoder<T>(patch, *encoded)) return broken;
  }
  for (int layer = 0; layer < PartsOf(patch).layers; ++layer) {
    double max_error = 0;
    if (Broken broken = CheckReader<T>(patch, *encoded, layer, &max_error)) return broken;
    const double recorded = encoded->errors[PartsOf(patch).Of(layer, 0)].max_error;
    if (valid_ > 0 && recorded != max_error)
      return fmt::format("largest error {} is recorded as {}", max_error, recorded);
  }
  if (valid_ > 0 && valid_ < validity_.size() && garbage % 2 != 0) {
    if (Broken broken = CheckGarbage<T>(patch, garbage)) return broken;
  }
  if (patch.coder->traits().is_lossless && valid_ < validity_.size()) return CheckAnyBits<T>(patch);
  return std::nullopt;
}

template <typename T>
Broken PatchChecker::CheckRecord(const PatchCase& patch, const EncodedPatch& encoded) const {
  const auto levels = static_cast<std::size_t>(patch.layout.levels);
  const std::size_t parts = patch.tolerances.size() * levels;
  if (encoded.levels.size() != parts || encoded.errors.size() != parts) return "a level is missing";
  const bool masked = valid_ < validity_.size();
  if (encoded.mask_levels.size() != (masked ? levels : 0)) return "masked, but without masks, or the reverse";
  if (masked && encoded.mask_levels.back().empty()) return "the coarsest mask is empty";
  if (encoded.valid != valid_) return fmt::format("{} of {} valid samples", encoded.valid, valid_);
  const std::span<const T> samples = SamplesOf<T>(patch.patch->samples);
  double least = std::numeric_limits<double>::infinity();
  double most = -least;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (validity_[i] == 0) continue;
    least = std::min(least, static_cast<double>(samples[i]));
    most = std::max(most, static_cast<double>(samples[i]));
  }
  if (encoded.min != least || encoded.max != most)
    return fmt::format("range {} to {} is recorded as {} to {}", least, most, encoded.min, encoded.max);
  return std::nullopt;
}

/// Codes the samples again with the coder alone: the bytes must be the same, and a decoder must return the
/// samples that the coder announces.
template <typename T>
Broken PatchChecker::CheckCoder(const PatchCase& patch, const EncodedPatch& encoded) {
  const bool masked = valid_ < validity_.size();
  const Bytes* samples = &patch.patch->samples;
  if (masked) {
    replaced_.assign(samples->begin(), samples->end());
    T* out = reinterpret_cast<T*>(replaced_.data());
    T last = out[std::find(validity_.begin(), validity_.end(), 1) - validity_.begin()];
    for (std::size_t i = 0; i < validity_.size(); ++i) {
      if (validity_[i] != 0) last = out[i];
      out[i] = last;
    }
    samples = &replaced_;
  }
  Result<CodedPatch> coded = patch.coder->Encode(
      {patch.layout, *samples, masked ? Validity(validity_) : Validity(), patch.tolerances});
  if (!coded.ok()) return "Encode: " + coded.status().message();
  coded_ = *std::move(coded);
  for (std::size_t l = 0; l < coded_.levels.size(); ++l) {
    const bool after_missing = masked && PartsOf(patch).LayerOf(static_cast<int>(l)) == 0;
    const bool same =
        after_missing ? EndsWith(encoded.levels[l], coded_.levels[l]) : encoded.levels[l] == coded_.levels[l];
    if (!same) return fmt::format("encoded twice, level {} differs", l);
  }
  return std::nullopt;
}

template <typename T>
Broken PatchChecker::CheckReader(const PatchCase& patch, const EncodedPatch& encoded, int layer,
                                 double* max_error) {
  PatchReader reader(*patch.coder, patch.layout, layer + 1);
  const bool masked = valid_ < validity_.size();
  for (int level = patch.layout.levels - 1; level >= 0; --level) {
    const auto l = static_cast<std::size_t>(level);
    const ByteSpan mask = masked ? ByteSpan(encoded.mask_levels[l]) : ByteSpan();
    std::vector<ByteSpan> payloads;
    for (int k = 0; k <= layer; ++k) payloads.emplace_back(encoded.levels[PartsOf(patch).Of(k, level)]);
    std::optional<PatchReader> into;
    if (level == Volume(patch.layout.shape) % patch.layout.levels) into = reader.Clone();
    const Status status = reader.Advance(payloads, mask);
    if (!status.ok()) return fmt::format("level {} does not decode: {}", level, status.message());
    if (into) {
      const Index3 shape = LevelShape(patch.layout.shape, level);
      array_.resize(reader.samples().size());
      const SamplePlace place = SamplePlace::Dense(array_.data(), shape, sizeof(T));
      if (!into->AdvanceInto(payloads, mask, place).ok() || !std::ranges::equal(array_, reader.samples()))
        return fmt::format("level {} decodes to other samples in an array", level);
    }
    if (reader.level() != level) return fmt::format("level {} calls itself {}", level, reader.level());
    const auto count = static_cast<std::size_t>(Volume(LevelShape(patch.layout.shape, level)));
    if (reader.samples().size() != count * sizeof(T))
      return fmt::format("level {} has {} bytes of samples", level, reader.samples().size());
    if (reader.validity().size() != (masked ? count : 0))
      return fmt::format("level {} has a mask of {} samples", level, reader.validity().size());
    level_validity_.resize(count);
    ForEachSample(patch.layout, level, [&](std::size_t i, std::size_t original) {
      level_validity_[i] = validity_[original];
      return true;
    });
    if (masked && !std::equal(level_validity_.begin(), level_validity_.end(), reader.validity().begin()))
      return fmt::format("the mask of level {} is wrong", level);
    if (Broken broken = CheckLevel<T>(patch, layer, level, reader.samples(), true, max_error)) return broken;
    if (into && layer + 1 < PartsOf(patch).layers) {
      if (Broken broken = CheckAddedLayer(patch, encoded, &reader)) return broken;
    }
  }
  return std::nullopt;
}

/// A level that gets the next layer is what it is when both are decoded level by level.
/// @param reader  stays as it is
Broken PatchChecker::CheckAddedLayer(const PatchCase& patch, const EncodedPatch& encoded,
                                     PatchReader* reader) {
  const int layers = reader->layers();
  PatchReader refined = reader->Clone();
  PatchReader whole(*patch.coder, patch.layout, layers + 1);
  std::vector<ByteSpan> added;
  for (int level = patch.layout.levels - 1; level >= reader->level(); --level) {
    std::vector<ByteSpan> payloads;
    for (int k = 0; k <= layers; ++k) payloads.emplace_back(encoded.levels[PartsOf(patch).Of(k, level)]);
    added.push_back(payloads.back());
    const ByteSpan mask = encoded.mask_levels.empty()
                              ? ByteSpan()
                              : ByteSpan(encoded.mask_levels[static_cast<std::size_t>(level)]);
    if (!whole.Advance(payloads, mask).ok()) return fmt::format("level {} does not decode", level);
  }
  if (const Status status = refined.AddLayer(added); !status.ok())
    return fmt::format("layer {} is not added to level {}: {}", layers, reader->level(), status.message());
  if (refined.layers() != layers + 1 || !std::ranges::equal(refined.samples(), whole.samples()))
    return fmt::format("layer {}, added to level {}, has other samples", layers, reader->level());
  return std::nullopt;
}

/// @param with_missing  missing samples must be present bit by bit, and valid ones must be those announced by
///                      the coder
/// @param max_error     out: of this level, over valid samples
template <typename T>
Broken PatchChecker::CheckLevel(const PatchCase& patch, int layer, int level, ByteSpan decoded,
                                bool with_missing, double* max_error) const {
  const std::span<const T> originals = SamplesOf<T>(patch.patch->samples);
  const std::span<const T> samples = SamplesOf<T>(decoded);
  const bool bounded = level == 0 || patch.coder->traits().bounds_every_level;
  const double tolerance = patch.tolerances[static_cast<std::size_t>(layer)];
  const bool exact = patch.coder->traits().is_lossless || (layer > 0 && tolerance == 0);
  const T* promised = nullptr;
  if (with_missing && !coded_.decoded.empty()) {
    const Bytes& bytes = coded_.decoded[PartsOf(patch).Of(layer, level)];
    if (bytes.size() != decoded.size())
      return fmt::format("Encode says {} bytes at level {}", bytes.size(), level);
    promised = reinterpret_cast<const T*>(bytes.data());
  }
  double largest = 0;
  Broken broken;
  ForEachSample(patch.layout, level, [&](std::size_t i, std::size_t original) {
    const T sample = samples[i];
    if (level_validity_[i] == 0) {
      if (with_missing && !SameBits(sample, originals[original]))
        broken = fmt::format("a missing sample is not what it was: {}", Place(patch.layout, level, i));
      return !broken;
    }
    const auto value = static_cast<double>(originals[original]);
    const double error = std::abs(static_cast<double>(sample) - value);
    const double allowed = patch.coder->traits().bound_is_relative ? tolerance * std::abs(value) : tolerance;
    // Not written with >: a NaN breaks the promise.
    if (bounded && !exact && !(error <= allowed)) {
      broken = fmt::format("error {} above tolerance {}: {}, {} decoded as {}", error, allowed,
                           Place(patch.layout, level, i), originals[original], sample);
    } else if (!IsKept(patch.coder->id(), originals[original], sample)) {
      broken = fmt::format("a zero or a sign is lost: {}, {} decoded as {}", Place(patch.layout, level, i),
                           originals[original], sample);
    } else if (exact && !SameBits(sample, originals[original])) {
      broken =
          fmt::format("{} decoded as {}: {}", originals[original], sample, Place(patch.layout, level, i));
    } else if (promised != nullptr && !SameBits(sample, promised[i])) {
      broken = fmt::format("Encode says {}, the reader {}: {}", promised[i], sample,
                           Place(patch.layout, level, i));
    }
    largest = error > largest ? error : largest;
    return !broken;
  });
  *max_error = largest;
  return broken;
}

/// A coder keeps its promise for any values in the places of missing samples.
template <typename T>
Broken PatchChecker::CheckGarbage(const PatchCase& patch, std::uint64_t garbage) {
  Random random(garbage);
  std::byte* sample = replaced_.data();
  for (std::size_t i = 0; i < validity_.size(); ++i, sample += sizeof(T)) {
    const std::uint64_t bits = random.Next();
    if (validity_[i] == 0) std::memcpy(sample, &bits, sizeof(T));
  }
  const Result<CodedPatch> coded =
      patch.coder->Encode({patch.layout, replaced_, validity_, std::array{patch.tolerances.front()}});
  if (!coded.ok()) return "Encode with garbage: " + coded.status().message();
  const std::unique_ptr<PatchDecoder> decoder = patch.coder->NewDecoder(patch.layout);
  for (int level = patch.layout.levels - 1; level >= 0; --level) {
    level_validity_.resize(static_cast<std::size_t>(Volume(LevelShape(patch.layout.shape, level))));
    ForEachSample(patch.layout, level, [&](std::size_t i, std::size_t original) {
      level_validity_[i] = validity_[original];
      return true;
    });
    const Status status =
        decoder->Advance({coded->levels[static_cast<std::size_t>(level)], level_validity_}).status();
    if (!status.ok()) return fmt::format("level {} of garbage does not decode: {}", level, status.message());
    double max_error = 0;
    if (Broken broken = CheckLevel<T>(patch, 0, level, decoder->samples(), false, &max_error))
      return "with garbage: " + *broken;
  }
  return std::nullopt;
}

/// A lossless coder accepts any bits as samples, also NaNs.
template <typename T>
Broken PatchChecker::CheckAnyBits(const PatchCase& patch) {
  const Result<CodedPatch> coded =
      patch.coder->Encode({patch.layout, patch.patch->samples, {}, std::array{patch.tolerances.front()}});
  if (!coded.ok()) return "Encode of any bits: " + coded.status().message();
  const std::unique_ptr<PatchDecoder> decoder = patch.coder->NewDecoder(patch.layout);
  const std::span<const T> originals = SamplesOf<T>(patch.patch->samples);
  for (int level = patch.layout.levels - 1; level >= 0; --level) {
    const Status status = decoder->Advance({coded->levels[static_cast<std::size_t>(level)]}).status();
    if (!status.ok()) return fmt::format("level {} of any bits does not decode: {}", level, status.message());
    const std::span<const T> samples = SamplesOf<T>(decoder->samples());
    Broken broken;
    ForEachSample(patch.layout, level, [&](std::size_t i, std::size_t original) {
      if (!SameBits(samples[i], originals[original]))
        broken = fmt::format("any bits, not the same: {}", Place(patch.layout, level, i));
      return !broken;
    });
    if (broken) return broken;
  }
  return std::nullopt;
}

}  // namespace quarry::testing
