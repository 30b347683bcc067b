#include "quarry/codec/entropy/planes.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

namespace quarry::entropy {
namespace {

constexpr std::size_t kWordSizes[] = {1, 2, 4, 8};
constexpr PlaneLayout kLayouts[] = {PlaneLayout::kBytes, PlaneLayout::kBits, PlaneLayout::kWords};

/// Words with noise in the lower bytes and small numbers in the upper ones, with runs of equal words in
/// between.
Bytes MakeWords(std::size_t count, std::size_t word_size, std::mt19937* random) {
  Bytes words(count * word_size);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t small = (*random)() % 4 == 0 ? (*random)() % 3 : 0;
    const std::uint64_t word =
        small << (8 * word_size - 8) | ((*random)() & ((std::uint64_t{1} << (8 * word_size / 2)) - 1));
    for (std::size_t k = 0; k < word_size; ++k)
      words[i * word_size + k] = static_cast<std::byte>(word >> (8 * k));
  }
  return words;
}

Bytes Encode(const Bytes& words, std::size_t word_size, PlaneLayout layout) {
  Bytes payload;
  AppendPlanes(words, word_size, layout, 1, &payload);
  return payload;
}

TEST(Planes, ReturnWhatWasAppendedInEveryLayout) {
  std::mt19937 random(1);
  for (const std::size_t word_size : kWordSizes) {
    for (const PlaneLayout layout : kLayouts) {
      for (const std::size_t count : {0, 1, 2, 7, 8, 9, 63, 65, 1000, 4099}) {
        const Bytes words = MakeWords(count, word_size, &random);
        Bytes payload = Encode(words, word_size, layout);
        const std::size_t size = payload.size();
        payload.push_back(std::byte{77});  // byte of the next reader

        Bytes decoded(words.size(), std::byte{0xee});
        ByteSpan rest = payload;
        const Status taken = TakePlanes(&rest, word_size, decoded);
        ASSERT_TRUE(taken.ok()) << taken.message();
        EXPECT_EQ(payload.size() - rest.size(), size);
        EXPECT_EQ(decoded, words) << "word size " << word_size << " layout " << static_cast<int>(layout);
      }
    }
  }
}

TEST(Planes, ConstantPlanesCostTwoBytesAndZeroPlanesOne) {
  Bytes words(4 * 1000, std::byte{0});
  for (std::size_t i = 0; i < 1000; ++i) words[4 * i + 1] = std::byte{9};

  EXPECT_EQ(Encode(words, 4, PlaneLayout::kBytes).size(), 1u + 3 * 1 + 2);
}

TEST(Planes, NoiseIsCopied) {
  std::mt19937 random(2);
  Bytes words(1 << 16);
  for (std::byte& byte : words) byte = static_cast<std::byte>(random());

  EXPECT_EQ(Encode(words, 4, PlaneLayout::kBytes).size(), words.size() + 1 + 4);
}

TEST(Planes, BitsThatAreSpreadOverBytesAreFoundAgain) {
  std::mt19937 random(3);
  Bytes words(8 * 4096, std::byte{0});
  for (std::size_t i = 0; i < 4096; ++i) words[8 * i + 5] = static_cast<std::byte>(random() % 2 * 16);

  EXPECT_LE(Encode(words, 8, PlaneLayout::kBits).size(), 4096u / 8 + 1 + 64 + 2);
}

TEST(Planes, TruncatedPayloadsAreDataLoss) {
  std::mt19937 random(4);
  for (const PlaneLayout layout : kLayouts) {
    const Bytes words = MakeWords(300, 4, &random);
    const Bytes payload = Encode(words, 4, layout);
    Bytes decoded(words.size());
    for (std::size_t size = 0; size < payload.size(); ++size) {
      ByteSpan rest = ByteSpan(payload).first(size);
      EXPECT_FALSE(TakePlanes(&rest, 4, decoded).ok()) << size << " of " << payload.size();
    }
  }
}

TEST(Planes, DamagedPayloadsNeverReadOutOfBounds) {
  std::mt19937 random(5);
  const Bytes words = MakeWords(700, 4, &random);
  for (const PlaneLayout layout : kLayouts) {
    const Bytes payload = Encode(words, 4, layout);
    for (int i = 0; i < 2000; ++i) {
      Bytes damaged = payload;
      for (unsigned n = 1 + random() % 3; n > 0; --n)
        damaged[random() % (random() % 2 == 0 ? 16 : damaged.size())] = static_cast<std::byte>(random());
      Bytes decoded(words.size());
      ByteSpan rest = damaged;
      (void)TakePlanes(&rest, 4, decoded);
      EXPECT_LE(rest.size(), damaged.size());
    }
  }
}

TEST(Planes, UnknownLayoutIsDataLoss) {
  const Bytes payload(10, std::byte{3});
  Bytes decoded(4);
  ByteSpan rest = payload;
  const Status taken = TakePlanes(&rest, 4, decoded);
  EXPECT_EQ(taken.code(), StatusCode::kDataLoss);
  EXPECT_NE(taken.message().find("layout 3"), std::string::npos);
}

}  // namespace
}  // namespace quarry::entropy
