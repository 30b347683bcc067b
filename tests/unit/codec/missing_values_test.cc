// Which missing value a payload stores once, and which it lists one by one.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "quarry/codec/patch_codec.h"

namespace quarry {
namespace {

TEST(MissingValues, TheMostFrequentOneIsTheCommonOne) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const PatchLayout layout{DataType::kFloat32, {6, 1, 1}, 1};
  for (const auto& [common, rare] : {std::pair(kNan, kInfinity), {kInfinity, kNan}}) {
    const std::vector<float> samples = {common, rare, 1, common, common, 2};
    const EncodedPatch encoded =
        *EncodePatch(*FindCoder(CoderId::kLossless), layout, std::as_bytes(std::span(samples)), {}, 0);
    ASSERT_GE(encoded.levels[0].size(), 5u);
    float stored = 0;
    std::memcpy(&stored, encoded.levels[0].data(), sizeof(stored));
    EXPECT_EQ(std::memcmp(&stored, &common, sizeof(stored)), 0) << stored;
    EXPECT_EQ(std::to_integer<int>(encoded.levels[0][4]), 1) << "exceptions";
  }
}

}  // namespace
}  // namespace quarry
