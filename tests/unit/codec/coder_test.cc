#include "quarry/codec/coder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "quarry/codec/patch_reader.h"
#include "quarry/geometry/patch_grid.h"

namespace quarry {
namespace {

constexpr double kTolerance = 0.01;

/// Noise: every lossy coder changes it within the tolerance.
std::vector<float> Noise(const Index3& shape) {
  std::mt19937 random(1);
  std::vector<float> samples(static_cast<std::size_t>(Volume(shape)));
  for (float& sample : samples) sample = static_cast<float>(random()) / 4294967296.0f;
  return samples;
}

/// Largest difference between a decoded level and every 2^level-th sample.
double LevelErrorOf(const Index3& shape, const std::vector<float>& samples, int level, ByteSpan decoded) {
  const Index3 coarse = LevelShape(shape, level);
  const float* next = reinterpret_cast<const float*>(decoded.data());
  double largest = 0;
  for (std::int64_t z = 0; z < coarse[2]; ++z) {
    for (std::int64_t y = 0; y < coarse[1]; ++y) {
      for (std::int64_t x = 0; x < coarse[0]; ++x) {
        const std::int64_t i = (x << level) + shape[0] * ((y << level) + shape[1] * (z << level));
        const double error = std::abs(static_cast<double>(*next++) - samples[static_cast<std::size_t>(i)]);
        largest = std::max(largest, error);
      }
    }
  }
  return largest;
}

TEST(Coders, AreFoundByTheirIdsAndNames) {
  // As in subfiles and manifests.
  const std::vector<std::pair<int, std::string_view>> stored = {
      {1, "wavelet-zfp"},       {2, "interpolate"},       {3, "lossless"},
      {5, "interpolate-zeros"}, {6, "interpolate-signs"}, {7, "interpolate-relative"}};
  ASSERT_EQ(FieldCoders().size(), stored.size());
  for (const auto& [number, name] : stored) {
    const auto id = static_cast<CoderId>(number);
    ASSERT_NE(FindCoder(id), nullptr) << name;
    EXPECT_EQ(FindCoder(id)->id(), id);
    EXPECT_EQ(Name(id), name);
    EXPECT_EQ(*ParseCoder(name), id);
  }
  EXPECT_EQ(FindCoder(static_cast<CoderId>(200)), nullptr);
  EXPECT_EQ(Name(static_cast<CoderId>(200)), "unknown");
}

TEST(Coders, ThatOfMasksIsThereButNoFieldMayNameIt) {
  ASSERT_NE(FindCoder(CoderId::kValidity), nullptr);
  EXPECT_FALSE(FindCoder(CoderId::kValidity)->traits().codes_fields);

  const Result<CoderId> named = ParseCoder("validity");
  EXPECT_EQ(named.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(
      named.status().message(),
      "unknown codec \"validity\"; this version knows wavelet-zfp, interpolate, lossless, interpolate-zeros, "
      "interpolate-signs, interpolate-relative");
}

/// Compares a coder's stated capabilities with its effect on noise.
TEST(Coders, DoWhatTheySay) {
  const PatchLayout layout{DataType::kFloat32, {24, 17, 9}, 3};
  const std::vector<float> samples = Noise(layout.shape);
  for (const PatchCoder* coder : FieldCoders()) {
    const CodedPatch coded =
        *coder->Encode({layout, std::as_bytes(std::span(samples)), {}, std::array{kTolerance}});
    const auto error = [&](int level) {
      return LevelErrorOf(layout.shape, samples, level, coded.decoded[static_cast<std::size_t>(level)]);
    };
    EXPECT_LE(error(0), kTolerance) << coder->name();
    EXPECT_EQ(error(0) == 0, coder->traits().is_lossless) << coder->name() << ": " << error(0);
    for (int level = 1; level < layout.levels; ++level)
      EXPECT_EQ(error(level) <= kTolerance, coder->traits().bounds_every_level)
          << coder->name() << ": " << error(level);
  }
}

TEST(Coders, RefuseMoreLayersThanTheyHave) {
  const PatchLayout layout{DataType::kFloat32, {8, 8, 8}, 2};
  const std::vector<float> samples = Noise(layout.shape);
  for (const PatchCoder* coder : FieldCoders()) {
    const auto status = [&](int layers) {
      const std::vector<double> tolerances(static_cast<std::size_t>(layers), kTolerance);
      return coder->Encode({layout, std::as_bytes(std::span(samples)), {}, tolerances}).status();
    };
    const int most = coder->traits().most_layers;
    EXPECT_TRUE(status(most).ok()) << coder->name();
    for (const int layers : {0, most + 1}) {
      EXPECT_EQ(status(layers).code(), StatusCode::kInvalidArgument) << coder->name();
      EXPECT_NE(status(layers).message().find(coder->name()), std::string::npos) << status(layers).message();
    }
  }
}

TEST(Coders, IgnoreAReferenceThatTheyCannotUse) {
  const PatchLayout layout{DataType::kFloat32, {8, 8, 8}, 2};
  const std::vector<float> samples = Noise(layout.shape);
  const ByteSpan bytes = std::as_bytes(std::span(samples));
  const PatchReference itself{{bytes}, {}};
  for (const PatchCoder* coder : FieldCoders()) {
    const CodedPatch alone = *coder->Encode({layout, bytes, {}, std::array{kTolerance}});
    const CodedPatch coded = *coder->Encode({layout, bytes, {}, std::array{kTolerance}, &itself});
    EXPECT_EQ(coded.refers, coder->traits().can_refer) << coder->name();
    EXPECT_EQ(coded.levels == alone.levels, !coder->traits().can_refer) << coder->name();
  }
}

TEST(Coders, GetNoLayersAndReferencesThatTheyCannotUse) {
  const PatchLayout layout{DataType::kFloat32, {8, 8, 8}, 1};
  const std::vector<float> samples = Noise(layout.shape);
  for (const PatchCoder* coder : FieldCoders()) {
    if (coder->traits().most_layers > 1 || coder->traits().can_refer) continue;
    const CodedPatch coded =
        *coder->Encode({layout, std::as_bytes(std::span(samples)), {}, std::array{kTolerance}});
    const std::array<ByteSpan, 2> layers = {coded.levels[0], coded.levels[0]};
    PatchReader further(*coder, layout, 2);
    EXPECT_EQ(further.Advance(layers, {}).code(), StatusCode::kInternal) << coder->name();

    const LevelParts step{std::span(layers).first(1), {}};
    PatchReader referring(*coder, layout, 1, {{}, {0}});
    EXPECT_EQ(referring.Advance(std::array{step, step}).code(), StatusCode::kInternal) << coder->name();
  }
}

}  // namespace
}  // namespace quarry
