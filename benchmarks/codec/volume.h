#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "quarry/codec/coder.h"

namespace quarry::bench {

/// A volume to load; the files are raw, little-endian, x fastest.
struct VolumeOptions {
  std::string name;
  std::string input;
  Index3 dims{};
  DataType type = DataType::kFloat32;
  /// Value of missing samples.
  std::optional<double> fill;
  /// The same volume with missing samples replaced by something harmless, for coders that have no masks. May
  /// be empty.
  std::string filled;
  /// Bytes of a mask, which such a coder needs as well.
  std::uint64_t filled_mask_bytes = 0;
};

/// One patch, cut out: dense, x fastest.
struct Patch {
  PatchLayout layout;
  Bytes samples;
  Bytes filled;                        ///< input for coders without masks; empty: `samples`
  std::vector<std::uint8_t> validity;  ///< empty: all are valid
  std::uint64_t valid = 0;

  ByteSpan harmless() const { return filled.empty() ? samples : filled; }
};

/// A volume cut as Quarry cuts it.
struct Volume {
  VolumeOptions options;
  Index3 patch_shape{};
  int levels = 1;
  double min = 0;  ///< smallest valid sample
  double max = 0;
  std::uint64_t samples = 0;
  bool has_missing = false;
  bool has_filled = false;
  std::vector<Patch> patches;  ///< in Morton order

  double range() const { return max - min; }
  std::uint64_t raw_bytes() const { return samples * SizeOf(options.type); }
};

/// The bits of `fill` as a sample of this type, for EncodePatch.
std::uint64_t FillBits(double fill, DataType type);

/// Cuts into patches of `edge` samples (1 on an axis of one sample) with as many levels as that allows.
/// @errors kInvalidArgument: the size of a file does not fit dims and type; no valid sample
Result<Volume> LoadVolume(const VolumeOptions& options, std::int64_t edge);

/// How far decoded samples are from the original ones, over the valid ones.
struct Deviation {
  double max_error = 0;
  double sum_of_squares = 0;
  std::uint64_t samples = 0;
  std::uint64_t beyond = 0;   ///< valid samples further away than the tolerance
  std::uint64_t changed = 0;  ///< samples whose bits differ, missing ones with them
  std::uint64_t missing_changed = 0;

  void Add(const Patch& patch, ByteSpan decoded, double tolerance);
  /// [dB] infinite where nothing was lost.
  double Psnr(double range) const;
};

}  // namespace quarry::bench
