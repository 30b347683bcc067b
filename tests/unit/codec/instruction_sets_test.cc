#include "tests/unit/codec/instruction_sets.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "quarry/codec/interpolate/kernels.h"
#include "quarry/codec/patch_codec.h"
#include "quarry/codec/patch_reader.h"
#include "quarry/geometry/patch_grid.h"
#include "tests/testing/generated_patch.h"

namespace quarry {
namespace {

using testing::GeneratedPatch;
using testing::PatchSpec;
using testing::Random;
using testing::Shape;

/// Restores the active kernels at the end.
class WithKernels {
 public:
  explicit WithKernels(std::string_view name) : before_(interpolate::ActiveKernels().name) {
    EXPECT_TRUE(interpolate::SelectKernels(name)) << name;
  }
  ~WithKernels() { interpolate::SelectKernels(before_); }

 private:
  std::string_view before_;
};

const PatchCoder& Coder() { return *FindCoder(CoderId::kInterpolate); }

/// All levels, the coarsest first.
std::vector<Bytes> Decoded(const PatchLayout& layout, const EncodedPatch& encoded) {
  std::vector<Bytes> levels;
  PatchReader reader(Coder(), layout);
  for (auto l = static_cast<std::size_t>(layout.levels); l-- > 0;) {
    const ByteSpan mask = encoded.mask_levels.empty() ? ByteSpan() : ByteSpan(encoded.mask_levels[l]);
    const Status status = reader.Advance(encoded.levels[l], mask);
    EXPECT_TRUE(status.ok()) << status.message();
    levels.emplace_back(reader.samples().begin(), reader.samples().end());
  }
  return levels;
}

class InstructionSet : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (interpolate::FindKernels(GetParam()) == nullptr)
      GTEST_SKIP() << "this processor or build has no " << GetParam();
  }

  void ExpectSameAsScalar(const PatchSpec& spec, double relative_tolerance) {
    GeneratedPatch patch;
    testing::Generate(spec, &patch);
    const double tolerance = relative_tolerance * testing::ValueRange(spec.layout.type, patch);
    const std::string text = ToString(spec) + ", seed " + std::to_string(spec.seed);
    const auto encode = [&] {
      Result<EncodedPatch> encoded = EncodePatch(Coder(), spec.layout, patch.samples, patch.fill, tolerance);
      EXPECT_TRUE(encoded.ok()) << encoded.status().message();
      return encoded.ok() ? *std::move(encoded) : EncodedPatch();
    };
    EncodedPatch expected;
    std::vector<Bytes> expected_samples;
    {
      const WithKernels scalar("scalar");
      expected = encode();
      expected_samples = Decoded(spec.layout, expected);
    }

    const WithKernels kernels(GetParam());
    const EncodedPatch encoded = encode();

    ASSERT_TRUE(encoded.levels == expected.levels) << text;
    ASSERT_TRUE(encoded.mask_levels == expected.mask_levels) << text;
    for (std::size_t l = 0; l < expected.errors.size(); ++l) {
      EXPECT_EQ(encoded.errors[l].max_error, expected.errors[l].max_error) << text;
      EXPECT_EQ(encoded.errors[l].rmse, expected.errors[l].rmse) << text;
    }
    ASSERT_TRUE(Decoded(spec.layout, encoded) == expected_samples) << text;
  }
};

TEST_P(InstructionSet, MakesTheSameBytesAndSamplesAsScalarCode) {
  Random random(7);
  for (const DataType type : testing::kAllTypes) {
    for (int shape = 0; shape < static_cast<int>(Shape::kCount); ++shape) {
      for (int i = 0; i < 16; ++i) {
        PatchSpec spec = testing::RandomSpec(type, 30000, &random);
        spec.shape = static_cast<Shape>(shape);
        const double tolerance =
            i == 0 ? 0 : 1.0 / static_cast<double>(std::uint64_t{1} << random.Between(1, 36));
        ASSERT_NO_FATAL_FAILURE(ExpectSameAsScalar(spec, tolerance));
      }
    }
  }
}

/// Sizes around whole vectors, along each axis.
TEST_P(InstructionSet, MakesTheSameOfEveryWidth) {
  Random random(8);
  for (std::int64_t extent = 1; extent <= 70; ++extent) {
    for (std::size_t axis = 0; axis < 3; ++axis) {
      PatchSpec spec;
      spec.layout.type = random.OneIn(2) ? DataType::kFloat32 : DataType::kFloat64;
      spec.layout.shape = {9, 7, 6};
      spec.layout.shape[axis] = extent;
      spec.layout.levels = 3;
      spec.shape = Shape::kSmoothNoise;
      spec.seed = random.Next();
      ASSERT_NO_FATAL_FAILURE(ExpectSameAsScalar(spec, 1e-3));
    }
  }
}

/// Large enough for 32 lanes, fine tables and low bits.
TEST_P(InstructionSet, MakesTheSameOfLargePatches) {
  Random random(9);
  for (const Shape shape : {Shape::kSmoothNoise, Shape::kRough, Shape::kNoise, Shape::kFronts}) {
    for (const int bits : {4, 10, 16, 22}) {
      PatchSpec spec;
      spec.layout.type = random.OneIn(2) ? DataType::kFloat32 : DataType::kFloat64;
      spec.layout.shape = {64, 61, 64};
      spec.layout.levels = 4;
      spec.shape = shape;
      spec.missing = random.OneIn(2) ? testing::Missing::kCoast : testing::Missing::kNone;
      spec.seed = random.Next();
      ASSERT_NO_FATAL_FAILURE(ExpectSameAsScalar(spec, 1.0 / (1 << bits)));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, InstructionSet, ::testing::ValuesIn(testing::kVectorSets),
                         [](const auto& info) { return std::string(info.param); });

TEST(SelectKernels, KnowsScalarCodeEverywhereAndNoInventedOne) {
  EXPECT_NE(interpolate::FindKernels("scalar"), nullptr);
  EXPECT_EQ(interpolate::FindKernels("mmx"), nullptr);
  EXPECT_FALSE(interpolate::SelectKernels("mmx"));
}

}  // namespace
}  // namespace quarry
