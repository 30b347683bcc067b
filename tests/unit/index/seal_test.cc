// The seal of the index: every changed value is noticed, and no seal that was not written can be read.
#include "quarry/index/seal.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "tests/testing/temporary_folder.h"

namespace quarry::index {
namespace {

Seal OfTwoPieces() {
  Seal seal;
  seal.pieces.push_back({0x0123456789abcdef, 40960, 12, {{0, 4, 5, 0x1}, {9, 20, 6, 0xfedcba9876543210}}});
  seal.pieces.push_back({0x8000000000000000, 24576, 1, {{7, 7, 1, 0x2}}});
  return seal;
}

TEST(SealFile, ComesBack) {
  testing::TemporaryFolder folder;
  for (const Seal& seal : {Seal(), OfTwoPieces()}) {
    ASSERT_TRUE(WriteSeal(folder.path(), seal).ok());
    const Result<Seal> read = ReadSeal(folder.path());
    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_EQ(*read, seal);
  }
  EXPECT_EQ(OfTwoPieces().pieces[0].file_name(), "patches-0123456789abcdef.mdb");
}

TEST(SealFile, EveryChangedDigitIsNoticed) {
  testing::TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "seal.json";
  ASSERT_TRUE(WriteSeal(folder.path(), OfTwoPieces()).ok());
  std::stringstream read;
  read << std::ifstream(path).rdbuf();
  const std::string text = read.str();

  int changed = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] < '0' || text[i] > '9') continue;
    std::string other = text;
    other[i] = text[i] == '9' ? '8' : static_cast<char>(text[i] + 1);
    std::ofstream(path, std::ios::trunc) << other;
    EXPECT_EQ(ReadSeal(folder.path()).status().code(), StatusCode::kDataLoss) << other;
    ++changed;
  }
  EXPECT_GT(changed, 60);
}

TEST(SealFile, RangesWithoutAnOrderAreDamage) {
  testing::TemporaryFolder folder;
  const auto with = [&](const SealedRange& first, const SealedRange& second) {
    Seal seal = OfTwoPieces();
    seal.pieces[0].ranges = {first};
    seal.pieces[1].ranges = {second};
    EXPECT_TRUE(WriteSeal(folder.path(), seal).ok());
    return ReadSeal(folder.path()).status().code();
  };
  EXPECT_EQ(with({0, 4, 5, 0}, {5, 5, 1, 0}), StatusCode::kOk);
  EXPECT_EQ(with({5, ~0ULL, 1, 0}, {0, 4, 5, 0}), StatusCode::kOk) << "in any order";
  EXPECT_EQ(with({0, 5, 5, 0}, {5, 5, 1, 0}), StatusCode::kDataLoss) << "a step in two pieces";
  EXPECT_EQ(with({0, 4, 6, 0}, {5, 5, 1, 0}), StatusCode::kDataLoss) << "more steps than numbers";
  EXPECT_EQ(with({0, 4, 0, 0}, {5, 5, 1, 0}), StatusCode::kDataLoss) << "no steps";
  EXPECT_EQ(with({4, 0, 1, 0}, {5, 5, 1, 0}), StatusCode::kDataLoss) << "an end before the begin";

  Seal many;
  many.pieces.push_back({1, 1, kMostRanges + 1, {}});
  for (std::uint64_t i = 0; i <= kMostRanges; ++i) many.pieces[0].ranges.push_back({i, i, 1, 0});
  EXPECT_TRUE(WriteSeal(folder.path(), many).ok());
  EXPECT_EQ(ReadSeal(folder.path()).status().code(), StatusCode::kDataLoss);
  many.pieces[0].ranges.pop_back();
  EXPECT_TRUE(WriteSeal(folder.path(), many).ok());
  EXPECT_TRUE(ReadSeal(folder.path()).ok());
}

}  // namespace
}  // namespace quarry::index
