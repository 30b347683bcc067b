#include "quarry/codec/interpolate/choose_tables.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/testing/random.h"

namespace quarry::interpolate {
namespace {

/// How many tables two contexts get. In one of them so many of a hundred indices are 0, in the other
/// `difference` more; the others are 1 or -1.
std::size_t TablesOfTwo(std::uint64_t zeros, std::uint64_t difference) {
  constexpr std::size_t kSamples = 40000;
  testing::Random random(1);  // not the day's: what tables save depends on the numbers
  std::vector<std::int32_t> indices;
  std::vector<std::uint8_t> contexts;
  for (std::size_t i = 0; i < kSamples; ++i) {
    const bool second = random.OneIn(2);
    const bool is_zero = random.Below(100) < zeros + (second ? difference : 0);
    indices.push_back(is_zero ? 0 : random.OneIn(2) ? 1 : -1);
    contexts.push_back(second ? 9 : 3);
  }
  return ChooseTables(indices, contexts).contexts.first.size();
}

// With H(p) the bits of a choice of probability p, two tables save 40000 times H(.5) less the mean of H(.5 -
// d) and H(.5 + d), of 40000 (H(.5) + .5) bits: less than 0.2 % for d = .03, and more than a tenth for d =
// .3.
TEST(ChooseTablesTest, NeighboursShareATableUnlessTwoSaveSomeOfTheBits) {
  EXPECT_EQ(TablesOfTwo(47, 6), 1u);
  EXPECT_EQ(TablesOfTwo(20, 60), 2u);
}

}  // namespace
}  // namespace quarry::interpolate
