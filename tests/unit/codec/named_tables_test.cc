#include "quarry/codec/entropy/named_tables.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

namespace quarry::entropy {
namespace {

constexpr int kSum = 1 << kNamedBits;

/// Symbol 0 has the rest, which takes the rounding of all others.
TEST(NamedTables, AddUpAndFallFromOneToTheLargestSymbol) {
  for (int name = 0; name < 256; ++name) {
    const Frequencies& frequencies = NamedTable(static_cast<TableName>(name)).frequencies;
    ASSERT_EQ(std::accumulate(frequencies.begin(), frequencies.end(), 0), kSum) << name;
    const std::size_t largest = LargestSymbolOf(static_cast<TableName>(name));
    for (std::size_t s = 1; s < kSymbols; ++s) {
      // -q and q are as frequent as each other.
      ASSERT_EQ(frequencies[s], frequencies[(s + 1) / 2 * 2 - 1]) << name << ", symbol " << s;
      ASSERT_LE(frequencies[s], s > 1 ? frequencies[s - 1] : kSum) << name << ", symbol " << s;
      ASSERT_EQ(frequencies[s] > 0, s <= largest) << name << ", symbol " << s;
    }
  }
}

/// The distribution exp(-|q| / s): at the scale s = 1, which is number 12, a factor of e^-1 lies between
/// neighbours.
TEST(NamedTables, HaveTheDistributionOfTheirShape) {
  const double e = std::exp(1.0);
  const double sum = 1 + 2 / (e - 1);
  const Frequencies& exponential = NamedTable(NameOf(1, 12)).frequencies;
  EXPECT_NEAR(exponential[0], kSum / sum, 4);
  EXPECT_NEAR(exponential[2], kSum / sum / e, 0.6);
  EXPECT_NEAR(exponential[4], kSum / sum / (e * e), 0.6);

  // The distribution exp(-(q / s)^2) at s = 4, number 20: the sum is s sqrt(pi), to many digits.
  const Frequencies& bell = NamedTable(NameOf(3, 20)).frequencies;
  const double of_bell = 4 * std::sqrt(std::acos(-1.0));
  EXPECT_NEAR(bell[0], kSum / of_bell, 4);
  for (const int q : {1, 4, 8})
    EXPECT_NEAR(bell[static_cast<std::size_t>(2 * q)], kSum / of_bell * std::exp(-q * q / 16.0), 0.6) << q;
}

TEST(NamedTables, ShareTheirSymbolsWhereScalesDifferByAnOctave) {
  EXPECT_EQ(ShiftOf(NameOf(2, 27)), 0);
  EXPECT_EQ(ShiftOf(NameOf(2, 28)), 1);
  EXPECT_EQ(ShiftOf(NameOf(2, 63)), 9);
  for (int scale = 28; scale < kNamedScales; ++scale)
    EXPECT_EQ(&NamedTable(NameOf(2, scale)), &NamedTable(NameOf(2, 24 + scale % 4))) << scale;
  EXPECT_NE(&NamedTable(NameOf(2, 24)), &NamedTable(NameOf(1, 24)));
}

TEST(NamedTables, HaveTheSlotsOfStoredOnes) {
  const std::vector<TableName> names = {NameOf(0, 3), NameOf(3, 31), NameOf(1, 0), NameOf(2, 27)};
  std::vector<SymbolTable> tables;
  tables.reserve(names.size());
  for (const TableName name : names) tables.push_back(NamedTable(name));
  std::vector<std::uint32_t> named;
  std::vector<std::uint32_t> stored;
  MakeNamedSlots(names, &named);
  MakeSlots(tables, kNamedBits, &stored);
  stored.resize(names.size() << kNamedBits);
  named.resize(stored.size());
  EXPECT_EQ(named, stored);
}

}  // namespace
}  // namespace quarry::entropy
