// The files of the catalogue: how many there are, how large, and what each of them stands for.
#include "writer/upkeep/catalogue_writer.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "quarry/base/checksum.h"
#include "quarry/base/file.h"
#include "tests/testing/temporary_folder.h"

namespace quarry::writer {
namespace {

namespace fs = std::filesystem;

using format::StepRecord;

/// @param fields  how many it has
StepRecord RecordOf(std::uint64_t step, std::size_t fields = 1, double time = 0) {
  StepRecord record;
  record.manifest_bytes = 1000 + step % 7;
  record.summary.checksum = step * 0x9e3779b97f4a7c15;
  record.summary.step = step;
  record.summary.time = time;
  for (std::size_t f = 0; f < fields; ++f) {
    FieldSummary& field = record.summary.fields.emplace_back();
    field.name = "f" + std::to_string(f);
    field.min = 1.0 / static_cast<double>(step + f + 1);
    field.levels.resize(3);
  }
  return record;
}

class CatalogueWriterTest : public ::testing::Test {
 protected:
  CatalogueWriterTest() { fs::create_directories(root() / "steps"); }

  fs::path root() const { return folder_.path(); }
  fs::path current() const { return root() / "steps" / format::kCurrentFile; }
  Bytes HeadBytes() const { return *ReadWholeFile(root() / format::kHeadFile, format::kHeadLimit); }
  std::size_t Pages() const {
    std::size_t count = 0;
    if (!fs::exists(root() / format::kCatalogueFolder)) return count;
    for (const auto& entry : fs::directory_iterator(root() / format::kCatalogueFolder))
      count += entry.is_regular_file() ? 1 : 0;
    return count;
  }

  /// All records, as a reader takes them.
  std::map<std::uint64_t, StepRecord> Read() const {
    const format::CatalogueHead head = *format::DecodeHead(HeadBytes());
    std::map<std::uint64_t, StepRecord> all;
    const auto add = [&](const std::vector<StepRecord>& records) {
      for (const StepRecord& record : records) all.insert_or_assign(record.summary.step, record);
    };
    for (const format::PageRef& ref : head.pages)
      add(*format::DecodePage(*ReadWholeFile(root() / format::PagePath(ref.name), format::kPageLimit), ref));
    add(head.records);
    EXPECT_EQ(head.steps, all.size());
    EXPECT_EQ(Pages(), head.pages.size()) << "no page is left that the head does not name";
    return all;
  }

  testing::TemporaryFolder folder_;
};

TEST_F(CatalogueWriterTest, AStepCostsASmallHeadAndPagesAreFull) {
  CatalogueWriter writer(root());
  std::map<std::uint64_t, StepRecord> expected;
  std::size_t largest = 0;
  for (std::uint64_t step = 0; step < 3000; ++step) {
    expected[step] = RecordOf(step);
    ASSERT_TRUE(writer.Put(RecordOf(step), true).ok());
    largest = std::max<std::size_t>(largest, fs::file_size(root() / format::kHeadFile));
  }

  EXPECT_TRUE(Read() == expected);
  EXPECT_LE(Pages(), 3u);
  EXPECT_LE(largest, 40u << 10);
  EXPECT_TRUE(fs::exists(current()));
}

TEST_F(CatalogueWriterTest, LargeRecordsMakeSmallerPages) {
  CatalogueWriter writer(root());
  std::map<std::uint64_t, StepRecord> expected;
  for (std::uint64_t step = 0; step < 60; ++step) {
    expected[step] = RecordOf(step, 1000);
    ASSERT_TRUE(writer.Put(RecordOf(step, 1000), true).ok());
  }

  EXPECT_TRUE(Read() == expected);
  EXPECT_EQ(Pages(), 4u) << "of 16 steps";
}

TEST_F(CatalogueWriterTest, ARestartedWriterGoesOnAsIfItWereOne) {
  {
    CatalogueWriter writer(root());
    for (std::uint64_t step = 0; step < 700; ++step) ASSERT_TRUE(writer.Put(RecordOf(step), true).ok());
  }
  const Bytes at_once = HeadBytes();
  fs::remove(root() / format::kHeadFile);
  for (std::uint64_t step = 0; step < 700; step += 35) {
    CatalogueWriter writer = CatalogueWriter::Found(root());
    for (std::uint64_t i = step; i < step + 35; ++i) ASSERT_TRUE(writer.Put(RecordOf(i), true).ok());
  }
  EXPECT_EQ(HeadBytes(), at_once);

  auto next = std::uint64_t{0};
  CatalogueWriter anew = CatalogueWriter::Found(root());
  ASSERT_TRUE(anew.Remake({{0, 1, 700}},
                          [&]() -> Result<std::optional<StepRecord>> {
                            return next == 700 ? std::optional<StepRecord>()
                                               : std::optional(RecordOf(next++));
                          })
                  .ok());
  EXPECT_EQ(HeadBytes(), at_once);
  EXPECT_EQ(Read().size(), 700u);
}

TEST_F(CatalogueWriterTest, StepsInAnyOrderAndAgain) {
  CatalogueWriter writer(root());
  std::map<std::uint64_t, StepRecord> expected;
  const auto put = [&](std::uint64_t step, double time, bool is_new) {
    expected[step] = RecordOf(step, 1, time);
    if (!is_new) {
      ASSERT_TRUE(writer.Doubt(step).ok());
      EXPECT_FALSE(fs::exists(current()));
    }
    ASSERT_TRUE(writer.Put(RecordOf(step, 1, time), is_new).ok());
    EXPECT_TRUE(fs::exists(current()));
  };
  for (std::uint64_t step = 0; step < 600; ++step) put(step * 7919 % 600, 0, true);
  for (std::uint64_t step = 0; step < 600; step += 2) put(step, 1, false);
  // Again and again: records that nothing needs do not pile up.
  for (int round = 0; round < 8; ++round) {
    for (std::uint64_t step = 0; step < 300; ++step) put(step, round, false);
  }

  EXPECT_TRUE(Read() == expected);
  EXPECT_LE(Pages(), 4u);
}

TEST_F(CatalogueWriterTest, ADoubtEndsWithTheRecordOfItsStep) {
  CatalogueWriter writer(root());
  ASSERT_TRUE(writer.Put(RecordOf(1), true).ok());
  ASSERT_TRUE(writer.Doubt(1).ok());
  ASSERT_TRUE(writer.Put(RecordOf(2), true).ok());
  EXPECT_FALSE(fs::exists(current())) << "the record of step 1 may be old";
  ASSERT_TRUE(writer.Put(RecordOf(1, 2), false).ok());
  EXPECT_TRUE(fs::exists(current()));
}

TEST_F(CatalogueWriterTest, RecordsThatWereFoundWithoutTheFileStayInDoubt) {
  {
    CatalogueWriter writer(root());
    ASSERT_TRUE(writer.Put(RecordOf(1), true).ok());
  }
  fs::remove(current());
  CatalogueWriter writer = CatalogueWriter::Found(root());
  ASSERT_TRUE(writer.Put(RecordOf(2), true).ok());

  EXPECT_FALSE(fs::exists(current()));
  EXPECT_EQ(Read().size(), 2u);
}

TEST_F(CatalogueWriterTest, WhatCannotBeWrittenIsWrittenWithTheNextStep) {
  CatalogueWriter writer(root());
  ASSERT_TRUE(writer.Put(RecordOf(0), true).ok());
  // A file in the place of the folder of pages, and a folder in that of the head.
  std::ofstream(root() / format::kCatalogueFolder).put('x');
  fs::remove(root() / format::kHeadFile);
  fs::create_directory(root() / format::kHeadFile);
  for (std::uint64_t step = 1; step < 600; ++step) EXPECT_FALSE(writer.Put(RecordOf(step), true).ok());
  fs::remove(root() / format::kCatalogueFolder);
  fs::remove(root() / format::kHeadFile);
  ASSERT_TRUE(writer.Put(RecordOf(600), true).ok());

  EXPECT_EQ(Read().size(), 601u);
}

TEST_F(CatalogueWriterTest, PagesThatNoHeadNamesAreRemoved) {
  CatalogueWriter writer(root());
  for (std::uint64_t step = 0; step < 300; ++step) ASSERT_TRUE(writer.Put(RecordOf(step), true).ok());
  std::ofstream(root() / format::kCatalogueFolder / "0123456789abcdef").put('x');
  std::ofstream(root() / format::kCatalogueFolder / ".0123456789abcdef.partial").put('x');
  CatalogueWriter again = CatalogueWriter::Found(root());
  ASSERT_TRUE(again.RemoveUnnamed().ok());

  EXPECT_EQ(Pages(), 1u);
  EXPECT_EQ(Read().size(), 300u);
}

}  // namespace
}  // namespace quarry::writer
