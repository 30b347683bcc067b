#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "quarry/codec/patch_codec.h"
#include "tests/testing/random.h"

/// Patches for tests of coders, made of integers: the same samples on every machine, without functions of the
/// mathematical library.
namespace quarry::testing {

/// Spatial structure of the samples.
enum class Shape : std::uint8_t {
  kSmooth,       ///< a few waves
  kRough,        ///< waves of all lengths, the shorter the weaker
  kNoise,        ///< independent samples
  kSmoothNoise,  ///< waves with weak noise
  kFronts,       ///< jumps between two waves
  kSpikes,       ///< waves and a few outliers
  kConstant,     ///< one value
  kAllButOne,    ///< one value, except in one sample
  kLabels,       ///< a few values in coherent regions
  kRamp,         ///< linear along every axis
  kMostlyZero,   ///< zeros and a few others
  kAlternating,  ///< the opposite of the neighbours, which no predictor expects
  kHeavyNoise,   ///< noise of all sizes, the large ones rare
  kCount,
};

/// Numerical range of the samples. Integers support the first four; for them the others are kUnit.
enum class Scale : std::uint8_t {
  kUnit,     ///< any ordinary unit; integers: a part of the range of the type
  kBase,     ///< a small variation on a large value
  kLattice,  ///< multiples of a power of two; integers: few values
  kHuge,     ///< up to the largest number of the type
  kTiny,     ///< around the smallest normal number
  kBits,     ///< any finite bits
  kDecimal,  ///< multiples of a power of ten, rounded, from an offset now and then
  kFloat32,  ///< float32 numbers, whatever the type; any ordinary unit
  kCount,
};

/// Which samples are missing.
enum class Missing : std::uint8_t { kNone, kRandom, kCoast, kBox, kPlanes, kOne, kAllButOne, kAll, kCount };

/// Value in the place of missing samples; integers always have kFill.
enum class MissingValue : std::uint8_t { kNan, kNanPayloads, kInfinities, kFill, kFillAndNan, kCount };

struct PatchSpec {
  PatchLayout layout;
  Shape shape = Shape::kSmooth;
  Scale scale = Scale::kUnit;
  Missing missing = Missing::kNone;
  MissingValue missing_value = MissingValue::kNan;
  std::uint64_t seed = 0;
};

std::string_view Name(Shape shape);

/// "float32 7x1x64, 3 levels, smooth, huge, random nan": for messages.
std::string ToString(const PatchSpec& spec);

struct GeneratedPatch {
  Bytes samples;
  std::optional<std::uint64_t> fill;  ///< as for EncodePatch
};

/// Depends on the spec alone. @param patch  its memory is reused
void Generate(const PatchSpec& spec, GeneratedPatch* patch);

/// A random spec. Most patches are small; most samples are in large ones.
/// @param max_volume  of the patch, in samples
PatchSpec RandomSpec(DataType type, std::int64_t max_volume, Random* random);

/// Classifies samples as coders see them: sample i is missing where validity[i] is 0.
/// @param validity  out: one byte a sample, 1 for a valid one. Determined from the bits of the samples
/// @returns valid samples
std::size_t ClassifySamples(DataType type, ByteSpan samples, std::optional<std::uint64_t> fill,
                            std::vector<std::uint8_t>* validity);

/// Difference between the largest and the smallest valid sample, at most the largest number; 0 without any.
double ValueRange(DataType type, const GeneratedPatch& patch);

inline constexpr DataType kAllTypes[] = {DataType::kFloat32, DataType::kFloat64, DataType::kInt8,
                                         DataType::kUint8,   DataType::kInt16,   DataType::kUint16,
                                         DataType::kInt32,   DataType::kUint32};

}  // namespace quarry::testing
