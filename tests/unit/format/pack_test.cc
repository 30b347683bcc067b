// Bytes of packs: names, tables, differences of texts, and what is refused.
#include "quarry/format/pack.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "quarry/base/checksum.h"
#include "quarry/format/text_difference.h"

namespace quarry::format {
namespace {

std::string NameOf(const std::vector<std::uint64_t>& steps) {
  PackName name;
  for (const std::uint64_t step : steps) EXPECT_TRUE(name.Add(step)) << step;
  return name.text();
}

std::vector<std::uint64_t> StepsOf(const std::string& name) {
  const Result<std::vector<StepRun>> runs = StepsOfPack(name);
  EXPECT_TRUE(runs.ok()) << name;
  std::vector<std::uint64_t> steps;
  for (const StepRun& run : *runs) {
    for (std::uint64_t i = 0; i < run.steps; ++i) steps.push_back(run.first + i * run.distance);
  }
  return steps;
}

TEST(PackNameTest, SaysWhichStepsThePackHas) {
  EXPECT_EQ(NameOf({0}), "pack-0.qsp");
  EXPECT_EQ(NameOf({0, 1, 2, 3}), "pack-0_1x3.qsp");
  EXPECT_EQ(NameOf({7, 107, 207, 257}), "pack-7_100x2_50.qsp");
  EXPECT_EQ(NameOf({0, 103, 223, 343}), "pack-0_103_120x2.qsp");
  EXPECT_EQ(NameOf({5, UINT64_MAX}), "pack-5_18446744073709551610.qsp");
  for (const std::vector<std::uint64_t>& steps :
       {std::vector<std::uint64_t>{0}, {3, 4}, {1, 2, 4, 5, 7, 8}, {10, 20, 30, 31, 32}, {0, UINT64_MAX}})
    EXPECT_EQ(StepsOf(NameOf(steps)), steps);
}

TEST(PackNameTest, EndsWhereAFileNameDoes) {
  PackName name;
  std::vector<std::uint64_t> steps;
  std::uint64_t step = 0;
  // Distances that are all different.
  while (name.Add(step)) {
    steps.push_back(step);
    step += 1000 + steps.size();
  }

  EXPECT_LE(name.text().size(), 255u);
  EXPECT_GT(name.text().size(), 245u);
  EXPECT_EQ(StepsOf(name.text()), steps);
}

TEST(PackNameTest, HasAsManyStepsAsReadersTake) {
  PackName name;
  for (std::uint64_t step = 0; step < kMaxPackSteps; ++step) ASSERT_TRUE(name.Add(step));

  EXPECT_FALSE(name.Add(kMaxPackSteps));
  EXPECT_EQ(StepsOf(name.text()).size(), kMaxPackSteps);
}

TEST(PackNameTest, OtherNamesAreRefused) {
  EXPECT_FALSE(IsPackName("000000"));
  EXPECT_FALSE(IsPackName("pack-0.qsp~"));
  EXPECT_FALSE(IsPackName(".partial-pack"));
  for (const std::string name : {"pack-.qsp",
                                 "pack-x.qsp",
                                 "pack-01.qsp",
                                 "pack--1.qsp",
                                 "pack-0_.qsp",
                                 "pack-0_0.qsp",
                                 "pack-0_01.qsp",
                                 "pack-0_1x1.qsp",
                                 "pack-0_1x0.qsp",
                                 "pack-0_1x.qsp",
                                 "pack-0_x2.qsp",
                                 "pack-0__1.qsp",
                                 "pack-0_1x2x3.qsp",
                                 "pack-0_1x4096.qsp",
                                 "pack-0_1x4000_2x96.qsp",
                                 "pack-1_18446744073709551615.qsp",
                                 "pack-0_9223372036854775808x2.qsp",
                                 "pack-0_1x99999999999999999999.qsp",
                                 "pack-0 _1.qsp",
                                 "pack-0-1.qsp"}) {
    EXPECT_TRUE(IsPackName(name)) << name;
    EXPECT_EQ(StepsOfPack(name).status().code(), StatusCode::kDataLoss) << name;
  }
  EXPECT_EQ(StepsOfPack("pack-0_1x4095.qsp")->back().last(), 4095u);
}

// ---- Differences

std::string Back(const Bytes& difference, const std::string& from, std::uint64_t size) {
  const Result<std::string> text = DecodeDifference(difference, from, size);
  return text.ok() ? *text : "error: " + text.status().message();
}

TEST(TextDifferenceTest, TextsComeBack) {
  const std::string first =
      "{\n  \"step\": \"1\",\n  \"min\": 0.25,\n  \"levels\": [\n    1\n  ],\n  \"end\": 0\n}\n";
  const std::string later = "{\n  \"step\": \"1000\",\n  \"min\": -0.125,\n  \"end\": 0\n}\n";
  for (const std::string& text :
       {first, later, std::string(), std::string("no line"), first + later, later + first}) {
    for (const std::string& from : {first, later, std::string(), std::string("\n\n\n")}) {
      const Bytes difference = EncodeDifference(text, from);

      EXPECT_EQ(Back(difference, from, text.size()), text);
      EXPECT_LE(difference.size(), text.size() + 32);
    }
  }
  // One piece for all before the number, one for all behind it.
  EXPECT_EQ(EncodeDifference(first, first).size(), 3u);
  const std::string changed = "{\n  \"step\": \"2\"" + first.substr(15);
  EXPECT_EQ(EncodeDifference(changed, first).size(), 3u + 1 + 3);
}

TEST(TextDifferenceTest, RandomTextsComeBack) {
  std::mt19937 random(1);
  const auto text = [&] {
    std::string made;
    for (int i = 0; i < 60; ++i) made += "ab:\n"[random() % 4];
    return made;
  };
  for (int i = 0; i < 2000; ++i) {
    const std::string a = text();
    const std::string b = text();
    ASSERT_EQ(Back(EncodeDifference(a, b), b, a.size()), a);
  }
}

TEST(TextDifferenceTest, WhatLeavesATextIsRefused) {
  const std::string from = "0123456789";
  const auto bytes = [](std::vector<unsigned> numbers) {
    Bytes out;
    for (const unsigned number : numbers) out.push_back(static_cast<std::byte>(number));
    return out;
  };
  EXPECT_EQ(Back(bytes({2, 3, 1, 'x', 1, 2, 0}), from, 6), "234x67");
  for (const auto& [wrong, size] : std::vector<std::pair<std::vector<unsigned>, std::uint64_t>>{
           {{11, 0, 0}, 0},                // skips more than there is
           {{0, 11, 0}, 11},               // copies more than there is
           {{5, 6, 0}, 6},                 // the same from a position
           {{0, 3, 0}, 2},                 // more than the size
           {{0, 0, 2, 'x'}, 2},            // the end is missing
           {{0, 3}, 3},                    // so is a number
           {{0, 3, 0}, 4},                 // less than the size
           {{0, 0, 3, 'x', 'y', 'z'}, 2},  // new bytes beyond the size
           {{255, 255, 255, 255, 255, 255, 255, 255, 255, 127, 0, 0}, 0}})
    EXPECT_EQ(DecodeDifference(bytes(wrong), from, size).status().code(), StatusCode::kDataLoss);
}

// ---- Tables

/// Three steps with two fields, the last one only in some.
PackTable SomeTable() {
  PackTable table;
  table.names = {"f/0000.qsf", "g/0000.qsf", "g/0001.qsf"};
  table.steps = {{2, 0, 100, 100, {{0, 0, 10}, {1, 0, 20}, {2, 0, 30}}},
                 {3, 0, 101, 50, {{0, 0, 11}}},
                 {10, 0, 99, 99, {{0, 0, 12}, {2, 0, 13}}}};
  return table;
}

constexpr std::uint64_t kTableOffset = kPackBegin + 100 + 60 + 50 + 11 + 99 + 25;

struct Encoded {
  Bytes table;
  Bytes footer;
  std::uint64_t file_size = 0;
};

Encoded Encode(const PackTable& table, std::uint64_t offset = kTableOffset) {
  Encoded encoded;
  encoded.table = EncodePackEnd(table, offset);
  encoded.file_size = offset + encoded.table.size();
  const auto footer = encoded.table.end() - static_cast<std::ptrdiff_t>(kPackFooter);
  encoded.footer.assign(footer, encoded.table.end());
  encoded.table.erase(footer, encoded.table.end());
  return encoded;
}

Result<PackTable> Decode(const Encoded& encoded) {
  QUARRY_ASSIGN_OR_RETURN(const PackFooter footer, DecodePackFooter(encoded.footer, encoded.file_size));
  return DecodePackTable(encoded.table, footer);
}

TEST(PackTableTest, ComesBackWithOffsets) {
  const Encoded encoded = Encode(SomeTable());

  const Result<PackTable> table = Decode(encoded);

  ASSERT_TRUE(table.ok()) << table.status().message();
  EXPECT_EQ(table->names, SomeTable().names);
  ASSERT_EQ(table->steps.size(), 3u);
  EXPECT_EQ(table->FindStep(4), nullptr);
  const PackTable::Step& first = *table->FindStep(2);
  EXPECT_EQ(first.offset, kPackBegin);
  EXPECT_EQ(table->FindFile(first, "g/0001.qsf")->offset, kPackBegin + 100 + 10 + 20);
  const PackTable::Step& last = *table->FindStep(10);
  EXPECT_EQ(last.offset, kPackBegin + 100 + 60 + 50 + 11);
  EXPECT_EQ(last.stored, 99u);
  EXPECT_EQ(table->FindFile(last, "g/0000.qsf"), nullptr);
  EXPECT_EQ(table->FindFile(last, "h/0000.qsf"), nullptr);
  EXPECT_EQ(table->FindFile(last, "g/0001.qsf")->offset + 13, kTableOffset);
  EXPECT_EQ(table->FindStep(3)->stored, 50u);
}

TEST(PackTableTest, ImpossibleValuesAreRefused) {
  const std::vector<std::pair<const char*, std::function<void(PackTable*)>>> changes = {
      {"ends before the table", [](PackTable* table) { table->steps[2].files.pop_back(); }},
      {"ends behind it", [](PackTable* table) { ++table->steps[0].files[0].size; }},
      {"no steps", [](PackTable* table) { table->steps.clear(); }},
      {"names not ascending", [](PackTable* table) { std::swap(table->names[0], table->names[1]); }},
      {"twice", [](PackTable* table) { table->names[1] = table->names[0]; }},
      {"a path", [](PackTable* table) { table->names[0] = "../0000.qsf"; }},
      {"another path", [](PackTable* table) { table->names[0] = "f/../../0000.qsf"; }},
      {"hidden", [](PackTable* table) { table->names[0] = ".f/0000.qsf"; }},
      {"no number", [](PackTable* table) { table->names[0] = "f/00.qsf"; }},
      {"no folder", [](PackTable* table) { table->names[0] = "0000.qsf"; }},
      {"step.json", [](PackTable* table) { table->names[0] = "f/step.json"; }},
      {"unknown name", [](PackTable* table) { table->steps[2].files[1].name = 3; }},
      {"difference of the first",
       [](PackTable* table) { table->steps[0].stored = 99, table->steps[0].size = 100; }},
      {"more stored than there is", [](PackTable* table) { table->steps[1].size = 49; }},
      {"empty manifest", [](PackTable* table) { table->steps[1].stored = 0; }},
      {"large manifest", [](PackTable* table) { table->steps[1].size = kPackedManifestLimit + 1; }},
      {"empty file", [](PackTable* table) { table->steps[1].files[0].size = 0; }},
      {"overflow", [](PackTable* table) { table->steps[1].files[0].size = UINT64_MAX; }},
  };
  for (const auto& [what, change] : changes) {
    PackTable table = SomeTable();
    change(&table);
    // A table that ends where it says, but for the changed sizes.
    EXPECT_EQ(Decode(Encode(table)).status().code(), StatusCode::kDataLoss) << what;
  }
}

TEST(PackTableTest, StepsDoNotOverflow) {
  PackTable table = SomeTable();
  table.steps[1].step = UINT64_MAX;
  table.steps.pop_back();
  EXPECT_TRUE(Decode(Encode(table, kTableOffset - 99 - 25)).ok());
  table = SomeTable();
  table.steps[1].step = UINT64_MAX;  // the next difference leads beyond it
  EXPECT_EQ(Decode(Encode(table)).status().code(), StatusCode::kDataLoss);
}

TEST(PackTableTest, EveryChangedByteIsNoticed) {
  const Encoded encoded = Encode(SomeTable());
  for (std::size_t i = 0; i < encoded.table.size(); ++i) {
    Encoded damaged = encoded;
    damaged.table[i] ^= std::byte{1};
    EXPECT_EQ(Decode(damaged).status().code(), StatusCode::kDataLoss) << "byte " << i << " of the table";
  }
  for (std::size_t i = 0; i < encoded.footer.size(); ++i) {
    Encoded damaged = encoded;
    damaged.footer[i] ^= std::byte{1};
    EXPECT_EQ(Decode(damaged).status().code(), StatusCode::kDataLoss) << "byte " << i << " of the footer";
  }
  Encoded longer = encoded;
  ++longer.file_size;
  EXPECT_EQ(Decode(longer).status().code(), StatusCode::kDataLoss);
}

/// Any bytes behind right checksums: an error, or a table whose files lie in the pack.
TEST(PackTableTest, HostileTablesAreHarmless) {
  std::mt19937 random(7);
  const Encoded encoded = Encode(SomeTable());
  std::size_t read = 0;
  for (int i = 0; i < 200'000; ++i) {
    Bytes table = encoded.table;
    for (unsigned changes = 1 + random() % 3; changes > 0; --changes)
      table[random() % table.size()] = static_cast<std::byte>(random());
    PackFooter footer{kTableOffset, table.size(), Checksum(table), kTableOffset + table.size() + kPackFooter};
    const Result<PackTable> decoded = DecodePackTable(table, footer);
    if (!decoded.ok()) continue;
    ++read;
    for (const PackTable::Step& step : decoded->steps) {
      ASSERT_LE(step.offset + step.stored, kTableOffset);
      for (const PackTable::File& file : step.files) {
        ASSERT_LE(file.offset + file.size, kTableOffset);
        ASSERT_LT(file.name, decoded->names.size());
      }
    }
  }
  EXPECT_GT(read, 100u);
}

TEST(PackTest, BeginsAsOne) {
  Bytes begin = EncodePackBegin();
  ASSERT_EQ(begin.size(), kPackBegin);
  EXPECT_TRUE(CheckPackBegin(begin).ok());
  begin[10] = std::byte{1};  // a minor version
  EXPECT_TRUE(CheckPackBegin(begin).ok());
  begin[8] = std::byte{5};
  EXPECT_NE(CheckPackBegin(begin).message().find("newer Quarry"), std::string::npos);
  begin[0] = std::byte{0};
  EXPECT_EQ(CheckPackBegin(begin).code(), StatusCode::kDataLoss);
  EXPECT_EQ(CheckPackBegin(ByteSpan(begin).first(8)).code(), StatusCode::kDataLoss);
}

}  // namespace
}  // namespace quarry::format
