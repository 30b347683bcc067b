// The seal detects its own damage: nothing else protects the data file.
#include "quarry/index/seal.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "tests/testing/make_dataset.h"

namespace quarry::index {
namespace {

TEST(SealFile, EveryChangedDigitIsNoticed) {
  const testing::TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "seal.json";
  const Seal seal{"patches-0123456789abcdef.mdb", 40960, 0x0123456789abcdef};
  ASSERT_TRUE(WriteSeal(folder.path(), seal).ok());
  std::stringstream read;
  read << std::ifstream(path).rdbuf();
  const std::string text = read.str();
  ASSERT_EQ(ReadSeal(folder.path())->bytes, seal.bytes);

  int changed = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] < '0' || text[i] > '9') continue;
    std::string other = text;
    other[i] = text[i] == '9' ? '8' : static_cast<char>(text[i] + 1);
    std::ofstream(path, std::ios::trunc) << other;
    EXPECT_EQ(ReadSeal(folder.path()).status().code(), StatusCode::kDataLoss) << other;
    ++changed;
  }
  EXPECT_GT(changed, 30);
}

}  // namespace
}  // namespace quarry::index
