// Finding patches in tables: the same whatever blocks these have, and from no more of them than a box needs.
#include "quarry/dataset/table_locator.h"

#include <gtest/gtest.h>

#include <fstream>

#include "quarry/dataset/dataset.h"
#include "quarry/dataset/verify.h"
#include "quarry/format/description_rules.h"
#include "tests/testing/faulty_storage.h"
#include "tests/testing/make_dataset.h"
#include "tests/testing/temporary_folder.h"

namespace quarry {
namespace {

using testing::DatasetRecipe;
using testing::FaultyStorage;
using testing::Operation;

constexpr int kNoBlocks = 30;

class TableLocatorTest : public ::testing::Test {
 protected:
  std::shared_ptr<const Dataset> Make(const std::string& name, const DatasetRecipe& recipe) {
    testing::MakeDataset(folder_.path() / name, recipe);
    return *Dataset::Open(folder_.path() / name);
  }

  testing::TemporaryFolder folder_;
};

/// 240 patches.
DatasetRecipe SmallPatches(int block_bits) {
  DatasetRecipe recipe;
  recipe.patch = {4, 4, 4};
  recipe.levels = 2;
  recipe.missing = true;
  recipe.block_bits = block_bits;
  return recipe;
}

TEST_F(TableLocatorTest, BlocksOfAnySizeGiveTheRowsOfAWholeTable) {
  for (const format::PayloadOrder order : format::kPayloadOrders) {
    DatasetRecipe recipe = SmallPatches(kNoBlocks);
    recipe.order = order;
    recipe.levels = 3;  // the last is coarse
    const std::string name = format::NameOf(order);
    const auto whole = Make(name + ".quarry", recipe);
    const PatchGrid grid = *PatchesOf(whole->description().GridOf(0));
    for (const int bits : {1, 2, 4}) {
      recipe.block_bits = bits;
      const auto blocks = Make(fmt::format("{}-{}.quarry", name, bits), recipe);
      EXPECT_GT(blocks->tables().Walk(0, 0, 0)->blocks(), 1u);
      std::mt19937 random(static_cast<unsigned>(bits));
      for (int i = 0; i < 200; ++i) {
        const Box box = testing::RandomBox(grid.patches(), &random);
        for (const bool mask : {false, true}) {
          const auto find = [&](const Dataset& dataset) {
            return mask ? *dataset.tables().FindMask(0, 0, box) : *dataset.tables().Find(0, 0, box);
          };
          const auto expected = find(*whole);
          const auto found = find(*blocks);
          ASSERT_EQ(found.size(), expected.size());
          for (std::size_t row = 0; row < found.size(); ++row) {
            ASSERT_EQ(found[row].subfile, expected[row].subfile);
            ASSERT_EQ(found[row].patch, expected[row].patch) << ToString(box);
          }
        }
      }
    }
  }
}

TEST_F(TableLocatorTest, OnePatchReadsOneBlockAndReadsItOnce) {
  DatasetRecipe recipe = SmallPatches(3);
  recipe.files = 1;
  Make("a.quarry", recipe);
  const Location disk(folder_.path() / "a.quarry");
  const auto counting = std::make_shared<FaultyStorage>(disk.storage);
  const auto dataset = *Dataset::Open(Location(counting, disk.path));
  const auto reads_of = [&](const Box& box) {
    counting->ForgetCalls();
    EXPECT_EQ(dataset->tables().Find(0, 0, box)->size(), static_cast<std::size_t>(box.volume()));
    std::vector<std::uint64_t> reads;
    for (const testing::StorageCall& call : counting->Calls(Operation::kRead))
      if (call.path.ends_with(".qsf")) reads.push_back(call.size);
    return reads;
  };
  // Header, footer with root, a block of 8 of the 30 entries, a block of rows.
  const std::vector<std::uint64_t> first = reads_of({{4, 4, 2}, {5, 5, 3}});
  ASSERT_EQ(first.size(), 4u);
  EXPECT_GE(first[1], format::SubfileFooter::kEncodedSize + 4 * 32u);
  EXPECT_EQ(first[2], 8 * 32u);
  EXPECT_LE(first[3], 8 * format::PatchEntry::EncodedSize(2));
  EXPECT_TRUE(reads_of({{4, 4, 2}, {5, 5, 3}}).empty());
  EXPECT_TRUE(reads_of({{5, 5, 3}, {6, 6, 4}}).empty()) << "of the same block";
  // Everything: what is not there yet, each block once.
  EXPECT_EQ(reads_of({{0, 0, 0}, {10, 6, 4}}).size(), 29 + 3u);
  EXPECT_TRUE(reads_of({{0, 0, 0}, {10, 6, 4}}).empty());
}

/// 12,288 patches of one sample.
DatasetRecipe ManyPatches(int block_bits) {
  DatasetRecipe recipe;
  recipe.dims = {64, 64, 3};
  recipe.patch = {1, 1, 1};
  recipe.levels = 1;
  recipe.files = 1;
  recipe.block_bits = block_bits;
  return recipe;
}

TEST_F(TableLocatorTest, BlocksThatDoNotFitIntoTheMemoryAreReadAgain) {
  for (const int bits : {format::kBlockBits, kNoBlocks}) {
    Make("a.quarry", ManyPatches(bits));
    const Location disk(folder_.path() / "a.quarry");
    const auto counting = std::make_shared<FaultyStorage>(disk.storage);
    constexpr std::uint64_t kBudget = 1 << 20;
    const auto store = std::make_shared<PatchStore>(kBudget);
    const auto dataset = *Dataset::Open(Location(counting, disk.path), store);
    for (int i = 0; i < 2; ++i) {
      const auto found = dataset->tables().Find(0, 0, Box{{0, 0, 0}, {64, 64, 3}});
      ASSERT_TRUE(found.ok()) << found.status().message();
      EXPECT_EQ(found->size(), 64u * 64 * 3);
      EXPECT_LE(store->state().stored, kBudget);
      EXPECT_EQ(store->state().reserved, 0u);
    }
    EXPECT_GT(store->state().evictions, 12u);
    // The block that was asked for last is there: another patch of it costs nothing.
    counting->ForgetCalls();
    EXPECT_EQ(dataset->tables().Find(0, 0, Box{{63, 63, 2}, {64, 64, 3}})->size(), 1u);
    EXPECT_EQ(dataset->tables().Find(0, 0, Box{{62, 63, 2}, {63, 64, 3}})->size(), 1u);
    EXPECT_LE(counting->Calls(Operation::kRead).size(), 5u);
    std::filesystem::remove_all(folder_.path() / "a.quarry");
  }
}

TEST(MetadataCacheTest, WhatTakesMoreThanTheMemoryIsRefusedByName) {
  const MetadataCache cache(std::make_shared<PatchStore>(std::uint64_t{64} << 20));
  EXPECT_TRUE(cache.CheckFits(28 << 20, "a.qsf").ok());
  const Status status = cache.CheckFits((28 << 20) + 1, "a.qsf");
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("\"a.qsf\""), std::string::npos) << status.message();
  // A block of the usual size can be read with any memory.
  EXPECT_TRUE(MetadataCache(std::make_shared<PatchStore>(1)).CheckFits(1 << 20, "a.qsf").ok());
}

TEST_F(TableLocatorTest, DamageInABlockHidesNoDamageElsewhere) {
  DatasetRecipe recipe = SmallPatches(3);
  recipe.files = 1;
  recipe.missing = false;
  auto dataset = Make("a.quarry", recipe);
  const auto nothing = [](std::uint64_t, std::uint64_t) {};
  const VerifyReport undamaged = *VerifyDataset(*dataset, nothing);
  EXPECT_TRUE(undamaged.damage.empty());
  EXPECT_EQ(undamaged.patches, 240u);

  TableWalk walk = *dataset->tables().Walk(0, 0, 0);
  ASSERT_TRUE(walk.GoTo(20).ok());
  const std::uint64_t payload = walk.payload_begin(0);
  const std::uint64_t rows = walk.table().footer.table_offset + 10;  // a byte of block 0
  const auto damage = [&](std::uint64_t at) {
    std::fstream file(folder_.path() / "a.quarry/steps/000000/pressure/0000.qsf",
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(at));
    const char byte = static_cast<char>(~file.get());
    file.seekp(static_cast<std::streamoff>(at));
    file.put(byte);
  };
  damage(payload);
  damage(rows);
  dataset = *Dataset::Open(folder_.path() / "a.quarry");
  const VerifyReport report = *VerifyDataset(*dataset, nothing);
  ASSERT_EQ(report.damage.size(), 2u);
  EXPECT_NE(report.damage[0].message().find("patch table (bytes"), std::string::npos)
      << report.damage[0].message();
  EXPECT_NE(report.damage[1].message().find(fmt::format("(bytes {}..", payload)), std::string::npos)
      << report.damage[1].message();
  EXPECT_EQ(report.patches, 240u - 8);
}

}  // namespace
}  // namespace quarry
