#include "quarry/format/coarse_object.h"

#include <gtest/gtest.h>

#include "quarry/base/checksum.h"

namespace quarry::format {
namespace {

constexpr std::size_t kBegin = 16;
constexpr std::size_t kFixed = 34;  // [bytes] an entry takes besides its path

Bytes BytesOf(std::initializer_list<int> values) {
  Bytes bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

Bytes Example() {
  return EncodeCoarseObject(
      {{"steps/000000/f/0000.qsf", 1000, 7, 3, 2}, {"steps/000000/f/0001.qsf", 6, 8, 2, 4}},
      {BytesOf({1, 2, 3, 4, 5}), BytesOf({6, 7, 8, 9, 10, 11})});
}

/// With another number at a place, and the checksum that fits.
template <typename T>
Bytes With(std::size_t at, T number) {
  Bytes bytes = Example();
  StoreLittleEndian(number, bytes.data() + at);
  bytes.resize(bytes.size() - sizeof(std::uint64_t));
  PutLittleEndian(&bytes, Checksum(bytes));
  return bytes;
}

TEST(CoarseObject, ComesBack) {
  const auto object = CoarseObject::Decode(Example());
  ASSERT_TRUE(object.ok()) << object.status().message();
  ASSERT_EQ(object->files().size(), 2u);
  EXPECT_EQ(object->Find("steps/000000/f/0001.qsf"), 1u);
  EXPECT_EQ(object->Find("steps/000000/f/0002.qsf"), 2u);
  const ByteSpan front = object->Front(1);
  const ByteSpan back = object->Back(0);
  EXPECT_EQ(Bytes(front.begin(), front.end()), BytesOf({6, 7}));
  EXPECT_EQ(Bytes(back.begin(), back.end()), BytesOf({4, 5}));
  EXPECT_TRUE(CoarseObject::Decode(EncodeCoarseObject({}, {})).ok());
}

TEST(CoarseObject, EveryFlippedBitAndEveryCutIsDamage) {
  const Bytes whole = Example();
  for (std::size_t i = 0; i < whole.size(); ++i) {
    Bytes damaged = whole;
    damaged[i] ^= std::byte{1};
    EXPECT_FALSE(CoarseObject::Decode(damaged).ok()) << i;
    EXPECT_FALSE(
        CoarseObject::Decode(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(i))).ok())
        << i;
  }
}

TEST(CoarseObject, ImpossibleNumbersAreDamageWhateverTheChecksumSays) {
  EXPECT_TRUE(CoarseObject::Decode(With<std::uint16_t>(10, 9)).ok()) << "a minor version";
  EXPECT_FALSE(CoarseObject::Decode(With<std::uint16_t>(8, 5)).ok()) << "a major version";
  EXPECT_FALSE(CoarseObject::Decode(With<std::uint32_t>(12, 1)).ok());
  EXPECT_FALSE(CoarseObject::Decode(With<std::uint32_t>(12, 3)).ok());
  EXPECT_FALSE(CoarseObject::Decode(With<std::uint32_t>(12, 0xffffffff)).ok());
  EXPECT_FALSE(CoarseObject::Decode(With<std::uint64_t>(kBegin, 4)).ok()) << "front and back overlap";
  for (const std::size_t at : {kBegin + 16, kBegin + 24}) {
    for (const std::uint64_t bytes :
         {std::uint64_t{0}, std::uint64_t{500}, ~std::uint64_t{0}, ~std::uint64_t{0} - 2})
      EXPECT_FALSE(CoarseObject::Decode(With(at, bytes)).ok()) << at << ", " << bytes;
  }
  EXPECT_FALSE(CoarseObject::Decode(With<std::uint16_t>(kBegin + 32, 300)).ok());
  // The second path is that of the first.
  const std::size_t number = kBegin + 2 * kFixed + 23 + 23 - 5;
  EXPECT_FALSE(CoarseObject::Decode(With(number, '0')).ok());
}

}  // namespace
}  // namespace quarry::format
