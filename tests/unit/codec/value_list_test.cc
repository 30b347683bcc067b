#include "quarry/codec/interpolate/value_list.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "quarry/codec/entropy/bit_string.h"
#include "tests/testing/random.h"

namespace quarry::interpolate {
namespace {

template <typename T>
class ValueListOf : public ::testing::Test {
 public:
  using Words = typename ValueList<T>::Words;

  static Words MagnitudesOf(const std::vector<T>& values) {
    Words magnitudes;
    for (const T value : values)
      magnitudes.push_back(std::bit_cast<typename ValueList<T>::Word>(std::abs(value)));
    std::sort(magnitudes.begin(), magnitudes.end());
    magnitudes.erase(std::unique(magnitudes.begin(), magnitudes.end()), magnitudes.end());
    return magnitudes;
  }

  /// By the order of numbers, and the negative zero before the other one.
  static bool IsBelow(T a, T b) { return a < b || (a == b && std::signbit(a) && !std::signbit(b)); }
};

using FloatTypes = ::testing::Types<float, double>;
TYPED_TEST_SUITE(ValueListOf, FloatTypes);

TYPED_TEST(ValueListOf, MagnitudesHasThemWithBothSigns) {
  ValueList<TypeParam> list;
  list.Add(TestFixture::MagnitudesOf({2, 0}));
  list.Add(TestFixture::MagnitudesOf({1}));
  const std::vector<TypeParam> expected = {-2, -1, TypeParam(-0.0), 0, 1, 2};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(list.ValueAt(i), expected[i]);
    EXPECT_EQ(std::signbit(list.ValueAt(i)), std::signbit(expected[i]));
    EXPECT_EQ(list.PlaceOf(expected[i]), i);
  }
  EXPECT_EQ(list.Around(1, 0.5).begin, 4u);
  EXPECT_EQ(list.Around(1, 0.5).end, 5u);
  EXPECT_EQ(list.Around(0, 1).begin, 1u) << "the ends belong to it";
  EXPECT_EQ(list.Around(0, 1).end, 5u);
  EXPECT_EQ(list.Around(0, 0).begin, 3u) << "the other zero is below";
  EXPECT_EQ(list.Around(-1.5, 0.1).size(), 0u);
  EXPECT_EQ(list.Around(5, 1).size(), 0u);
}

TYPED_TEST(ValueListOf, AnyMagnitudesFindsWhatASearchOfAllFinds) {
  testing::Random random(testing::SeedFromEnvironment());
  for (int i = 0; i < 40; ++i) {
    // Crowded around a number, or over many octaves.
    const double middle = random.OneIn(2) ? 0 : 1e3 * random.Fraction();
    const double octaves = random.OneIn(2) ? 0 : 40;
    std::vector<TypeParam> numbers(1 + random.Below(500));
    for (TypeParam& number : numbers)
      number = static_cast<TypeParam>(middle + random.Fraction() * std::exp2(-octaves * random.Fraction()));
    ValueList<TypeParam> list;
    const auto half = static_cast<std::ptrdiff_t>(numbers.size() / 2);
    auto first = TestFixture::MagnitudesOf({numbers.begin(), numbers.begin() + half});
    auto all = TestFixture::MagnitudesOf(numbers);
    typename TestFixture::Words rest;
    std::set_difference(all.begin(), all.end(), first.begin(), first.end(), std::back_inserter(rest));
    list.Add(first);
    list.Add(rest);
    std::vector<TypeParam> values;
    for (const auto magnitude : all) values.push_back(std::bit_cast<TypeParam>(magnitude));
    for (std::size_t k = 0; k < all.size(); ++k) values.push_back(-values[k]);
    std::sort(values.begin(), values.end(), TestFixture::IsBelow);
    ASSERT_EQ(values.size(), 2 * all.size());
    for (int query = 0; query < 200; ++query) {
      TypeParam near = numbers[random.Below(numbers.size())];
      if (random.OneIn(2)) near = -near;
      if (random.OneIn(3)) near = static_cast<TypeParam>(near * (1 + 0.1 * random.Fraction()));
      const double reach = random.OneIn(4) ? 0 : std::exp2(-30 * random.Fraction());
      const auto low = static_cast<TypeParam>(static_cast<double>(near) - reach);
      const auto high = static_cast<TypeParam>(static_cast<double>(near) + reach);
      const auto range = list.Around(near, reach);
      std::size_t begin = 0;
      while (begin < values.size() && TestFixture::IsBelow(values[begin], low)) ++begin;
      std::size_t end = begin;
      while (end < values.size() && !TestFixture::IsBelow(high, values[end])) ++end;
      ASSERT_EQ(range.size(), end - begin);
      if (end > begin) {
        ASSERT_EQ(range.begin, begin);
      }
      for (std::size_t at = begin; at < end; ++at) ASSERT_EQ(list.ValueAt(at), values[at]);
    }
  }
}

TEST(PlaceCodeTest, TakesTheBitsOfTheDocument) {
  Bytes out;
  entropy::BitStringWriter bits(&out);
  // Among three places the first takes a bit, the others two: 0, 10, 11, and the only place of one takes
  // none.
  for (const std::uint64_t place : {0, 1, 2}) entropy::PlaceCode(3).Put(place, &bits);
  entropy::PlaceCode(1).Put(0, &bits);
  bits.Finish();
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0], std::byte{0b11010});
  entropy::BitStringReader reader(out);
  for (const std::uint64_t place : {0, 1, 2}) EXPECT_EQ(entropy::PlaceCode(3).Take(&reader), place);
  EXPECT_EQ(entropy::PlaceCode(1).Take(&reader), 0u);
  EXPECT_TRUE(reader.IsAtEnd());
}

TEST(PlaceCodeTest, EveryPlaceOfEveryCountComesBack) {
  Bytes out;
  entropy::BitStringWriter bits(&out);
  const auto for_each = [](auto use) {
    for (std::uint64_t count = 1; count < 70; ++count)
      for (std::uint64_t place = 0; place < count; ++place) use(place, count);
    for (const std::uint64_t place :
         {std::uint64_t{0}, std::uint64_t{123456789012}, (std::uint64_t{1} << 40) + 2})
      use(place, (std::uint64_t{1} << 40) + 3);
  };
  for_each([&](std::uint64_t place, std::uint64_t count) { entropy::PlaceCode(count).Put(place, &bits); });
  bits.Finish();
  entropy::BitStringReader reader(out);
  for_each([&](std::uint64_t place, std::uint64_t count) {
    ASSERT_EQ(entropy::PlaceCode(count).Take(&reader), place) << count;
  });
  EXPECT_TRUE(reader.IsAtEnd());
}

TEST(BitStringTest, NumbersOfAnyWidthComeBack) {
  testing::Random random(testing::SeedFromEnvironment());
  std::vector<std::pair<std::uint64_t, int>> numbers;
  for (int i = 0; i < 2000; ++i) {
    const int width = static_cast<int>(random.Below(65));
    const std::uint64_t value =
        random.Next() & (width == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << width) - 1);
    numbers.emplace_back(value, width);
  }
  Bytes out;
  entropy::BitStringWriter writer(&out);
  for (const auto& [value, width] : numbers) writer.Put(value, width);
  writer.Finish();
  entropy::BitStringReader reader(out);
  for (const auto& [value, width] : numbers) ASSERT_EQ(reader.Take(width), value) << width;
  EXPECT_TRUE(reader.IsAtEnd());
}

TEST(BitStringTest, ManyAtOnceAreTheSameAsOneByOne) {
  testing::Random random(testing::SeedFromEnvironment());
  Bytes together;
  Bytes one_by_one;
  entropy::BitStringWriter many(&together);
  entropy::BitStringWriter single(&one_by_one);
  for (const std::size_t count : {0, 1, 2, 3, 5, 64, 1001}) {
    for (const unsigned widest : {1u, 14u, 15u, 25u}) {
      std::vector<std::uint8_t> widths;
      std::vector<std::uint32_t> values;
      for (std::size_t i = 0; i < count; ++i) {
        // The widest all at once, too.
        widths.push_back(static_cast<std::uint8_t>(count == 64 ? widest : random.Below(widest + 1)));
        values.push_back(static_cast<std::uint32_t>(random.Next()) & ((std::uint32_t{1} << widths[i]) - 1));
        single.Put(values[i], widths[i]);
      }
      many.PutAll(
          values, [&](std::size_t i) { return widths[i]; }, widest);
      // Some bits that are not written yet, before the next ones.
      many.Put(0x15555555, 31);
      single.Put(0x15555555, 31);
    }
  }
  many.Finish();
  single.Finish();
  EXPECT_EQ(together, one_by_one);
}

TEST(BitStringTest, ItsEndIsWhereItsBytesEnd) {
  const Bytes bytes(9, std::byte{0xff});
  entropy::BitStringReader reader(bytes);
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(reader.Take(8), 0xffu);
    EXPECT_FALSE(reader.IsAtEnd());
  }
  EXPECT_EQ(reader.Take(1), 1u);
  EXPECT_TRUE(reader.IsAtEnd()) << "seven bits of the last byte are left";
  EXPECT_EQ(reader.Take(8), 0x7fu) << "zeros follow";
  EXPECT_FALSE(reader.IsAtEnd());
}

}  // namespace
}  // namespace quarry::interpolate
