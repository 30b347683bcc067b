#include <gtest/gtest.h>

#include <vector>

#include "quarry/picture/colormap.h"
#include "quarry/picture/png_file.h"

namespace quarry::picture {
namespace {

TEST(Colormap, MixesTheColoursOfTheNearestStops) {
  const auto gray = Colormap::Find("gray");
  ASSERT_TRUE(gray.ok());
  EXPECT_EQ(gray->At(0), (Rgb{0, 0, 0}));
  EXPECT_EQ(gray->At(1), (Rgb{255, 255, 255}));
  EXPECT_EQ(gray->At(-3), (Rgb{0, 0, 0}));
  EXPECT_EQ(gray->At(7), (Rgb{255, 255, 255}));
  // 33 stops; the first two are 0 and 255 / 32 = 7: a quarter of the way is 1.75.
  EXPECT_EQ(gray->At(0.25 / 32), (Rgb{2, 2, 2}));
  // Blue, white and red, as Moreland gives them.
  const auto coolwarm = Colormap::Find("coolwarm");
  ASSERT_TRUE(coolwarm.ok());
  EXPECT_EQ(coolwarm->At(0), (Rgb{59, 76, 192}));
  EXPECT_EQ(coolwarm->At(0.5), (Rgb{221, 220, 220}));
  EXPECT_EQ(coolwarm->At(1), (Rgb{180, 4, 38}));
  EXPECT_EQ(Colormap::Find("rainbow").status().code(), StatusCode::kInvalidArgument);
}

TEST(EncodePng, RefusesWhatIsNoPicture) {
  const std::vector<std::uint8_t> samples(12);
  const auto code = [&](std::int64_t columns, std::int64_t rows, bool transparency, int repeat) {
    return EncodePng({columns, rows, transparency, repeat, samples}).status().code();
  };
  EXPECT_EQ(code(2, 2, false, 1), StatusCode::kOk);
  EXPECT_EQ(code(3, 1, true, 5), StatusCode::kOk);
  for (const auto& [columns, rows, repeat] :
       {std::tuple{0, 4, 1}, {4, -1, 1}, {1, 4, 0}, {4, 1, 32768}, {32768, 1, 1}, {3, 2, 1}, {1, 3, 1}})
    EXPECT_EQ(code(columns, rows, false, repeat), StatusCode::kInvalidArgument) << columns << " x " << rows;
}

TEST(EncodePng, WritesTheShapeIntoTheHeader) {
  const std::vector<std::uint8_t> samples(3 * 2 * 4);
  const auto png =
      EncodePng({.columns = 3, .rows = 2, .transparency = true, .repeat = 5, .samples = samples});
  ASSERT_TRUE(png.ok()) << png.status().message();
  const auto byte = [&](std::size_t at) { return static_cast<int>((*png)[at]); };
  // PNG, part 11.2.2: width at 16, height at 20, both big-endian; bit depth at 24; colour type 6 is RGB with
  // alpha.
  EXPECT_EQ(byte(19), 3);
  EXPECT_EQ(byte(23), 10);
  EXPECT_EQ(byte(24), 8);
  EXPECT_EQ(byte(25), 6);
}

}  // namespace
}  // namespace quarry::picture
