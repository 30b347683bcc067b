#pragma once

#include <algorithm>
#include <limits>
#include <vector>

#include "quarry/codec/patch_codec.h"
#include "writer/pipeline/exchange.h"

namespace quarry::writer {

/// Range and number of valid samples; without any, min is infinity and max minus infinity.
struct SampleScan {
  double min = std::numeric_limits<double>::infinity();
  double max = -std::numeric_limits<double>::infinity();
  std::uint64_t valid = 0;

  void Add(const SampleScan& other) {
    min = std::min(min, other.min);
    max = std::max(max, other.max);
    valid += other.valid;
  }
};

/// @param fill  see EncodePatch
SampleScan ScanSamples(DataType type, ByteSpan samples, std::optional<std::uint64_t> fill);

/// An encoded patch, on the rank that encoded it.
struct EncodedPatchOfGrid {
  std::int64_t patch_index = 0;
  EncodedPatch encoded;
};

/// How to encode the patches of a field and step.
struct EncodeSettings {
  CoderId coder = CoderId::kWaveletZfp;
  DataType type = DataType::kFloat32;
  int levels = 1;
  std::vector<double> tolerances;     ///< see EncodePatch; minus PatchSamples::change of a patch
  std::optional<std::uint64_t> fill;  ///< see EncodePatch
};

/// Encodes one patch. The bytes depend on the samples alone.
/// @errors name the patch; kInternal also without memory
/// @threads safe
/// @param reference  see EncodeOptions, like `decoded`
Result<EncodedPatchOfGrid> EncodePatchOfGrid(const PatchGrid& grid, const EncodeSettings& settings,
                                             const PatchSamples& patch,
                                             const DecodedPatch* reference = nullptr,
                                             DecodedPatch* decoded = nullptr);

}  // namespace quarry::writer
