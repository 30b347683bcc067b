#include "quarry/format/subfile.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "quarry/base/checksum.h"

namespace quarry::format {
namespace {

SubfileHeader ExampleHeader() {
  SubfileHeader header;
  header.step = 123456789012;
  header.field_number = 3;
  header.subfile_number = 7;
  header.dims = {91, 17, 1};
  header.patch = {16, 8, 1};
  header.levels = 4;
  header.type = DataType::kFloat64;
  header.order = PayloadOrder::kLevel;
  header.patch_count = 2;
  header.field_name = "velocity_x";
  header.mask = 0x0123456789abcdef;
  return header;
}

/// Two patches with payloads of 10 and 0 bytes a level.
std::vector<PatchEntry> ExampleRows() {
  std::vector<PatchEntry> rows(2);
  std::uint64_t offset = SubfileHeader::kEncodedSize;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i].patch_index = i;
    rows[i].min = -1.5;
    rows[i].max = 2.5;
    rows[i].valid = 100 + static_cast<std::uint32_t>(i);
    for (int level = 0; level < 4; ++level) {
      const bool empty = i == 1;
      rows[i].levels.push_back(
          {0, empty ? 0u : 10u, 0.25f, empty ? Checksum({}) : 0x1122334455667788u, 0.5, 0.75f});
    }
  }
  // Level by level from the coarsest, as the header says.
  for (int level = 3; level >= 0; --level) {
    for (PatchEntry& row : rows) {
      row.levels[static_cast<std::size_t>(level)].offset = offset;
      offset += row.levels[static_cast<std::size_t>(level)].size;
    }
  }
  return rows;
}

PatchGrid ExampleGrid() { return *PatchGrid::Create(ExampleHeader().dims, ExampleHeader().patch); }

struct Table {
  Bytes bytes;
  SubfileFooter footer;
};

Table MakeTable(Bytes bytes) {
  Table table;
  table.bytes = std::move(bytes);
  table.footer.table_offset = SubfileHeader::kEncodedSize + 40;
  table.footer.table_size = table.bytes.size();
  table.footer.table_checksum = Checksum(table.bytes);
  table.footer.file_size = table.footer.table_offset + table.footer.table_size + SubfileFooter::kEncodedSize;
  return table;
}

Table EncodeTable(const std::vector<PatchEntry>& rows) {
  return MakeTable(EncodePatchTable(rows, ExampleGrid()));
}

/// As version 3 has it.
Table EncodeEqualRows(const std::vector<PatchEntry>& rows) {
  Bytes bytes;
  for (const PatchEntry& row : rows) row.EncodeTo(&bytes);
  return MakeTable(std::move(bytes));
}

SubfileHeader HeaderOfVersion(std::uint16_t version) {
  SubfileHeader header = ExampleHeader();
  header.version = version;
  return header;
}

TEST(SubfileHeader, RoundTripAndEveryFlippedBitIsFound) {
  Bytes bytes;
  ExampleHeader().EncodeTo(&bytes);
  ASSERT_EQ(bytes.size(), SubfileHeader::kEncodedSize);
  EXPECT_EQ(*SubfileHeader::DecodeFrom(bytes), ExampleHeader());

  for (std::size_t i = 0; i < bytes.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      Bytes damaged = bytes;
      damaged[i] ^= static_cast<std::byte>(1 << bit);
      EXPECT_EQ(SubfileHeader::DecodeFrom(damaged).status().code(), StatusCode::kDataLoss)
          << "byte " << i << " bit " << bit;
    }
  }
}

TEST(SubfileHeader, OrderCoarseSaysWhichLevelsAreCoarse) {
  SubfileHeader header = ExampleHeader();
  header.SetOrder(PayloadOrder::kCoarse);
  EXPECT_EQ(header.coarse_level, FirstCoarseLevel(header.dims, header.patch, header.levels));
  const auto decoded = [&](int coarse_level, int order = 3, int version = kMajorVersion) {
    SubfileHeader changed = header;
    changed.coarse_level = coarse_level;
    Bytes bytes;
    changed.EncodeTo(&bytes);
    bytes[8] = static_cast<std::byte>(version);
    bytes[50] = static_cast<std::byte>(order);
    StoreLittleEndian(Checksum(ByteSpan(bytes).first(136)), bytes.data() + 136);
    return SubfileHeader::DecodeFrom(bytes);
  };
  for (int level = 1; level <= header.levels; ++level) {
    const auto read = decoded(level);
    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_EQ(read->order, PayloadOrder::kCoarse);
    EXPECT_EQ(read->coarse_level, level);
  }
  for (const int level : {0, header.levels + 1, 255})
    EXPECT_NE(decoded(level).status().message().find(fmt::format("coarse level {}", level)),
              std::string::npos);
  EXPECT_NE(decoded(1, 3, 3).status().message().find("payload order 3"), std::string::npos) << "version 3";
  EXPECT_NE(decoded(1, 4).status().message().find("payload order 4"), std::string::npos);
  EXPECT_EQ(decoded(7, 2)->coarse_level, 0) << "reserved in other orders";

  header.SetOrder(PayloadOrder::kLevel);
  EXPECT_EQ(header.coarse_level, 0);
}

TEST(SubfileHeader, NewerMajorVersionIsRefusedByName) {
  Bytes bytes;
  ExampleHeader().EncodeTo(&bytes);
  bytes[8] = std::byte{kMajorVersion + 1};
  const std::uint64_t checksum = Checksum(ByteSpan(bytes).first(bytes.size() - 8));
  std::memcpy(bytes.data() + bytes.size() - 8, &checksum, 8);

  const Status status = SubfileHeader::DecodeFrom(bytes).status();
  EXPECT_NE(status.message().find(fmt::format("version {}", kMajorVersion + 1)), std::string::npos)
      << status.message();
}

/// The example in the layout of version 1: no mask in the header, rows without validity and coverage.
Bytes HeaderOfVersionOne() {
  Bytes bytes;
  ExampleHeader().EncodeTo(&bytes);
  bytes.resize(136 - 8);
  bytes[8] = std::byte{1};
  bytes[12] = std::byte{136};
  PutLittleEndian(&bytes, Checksum(bytes));
  bytes.resize(SubfileHeader::kEncodedSize);  // more of the file
  return bytes;
}

TEST(SubfileHeader, VersionOneIsReadAndEveryFlippedBitIsFound) {
  const Bytes bytes = HeaderOfVersionOne();
  SubfileHeader expected = ExampleHeader();
  expected.version = 1;
  expected.mask = 0;
  EXPECT_EQ(*SubfileHeader::DecodeFrom(bytes), expected);

  for (std::size_t i = 0; i < 136; ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      Bytes damaged = bytes;
      damaged[i] ^= static_cast<std::byte>(1 << bit);
      EXPECT_EQ(SubfileHeader::DecodeFrom(damaged).status().code(), StatusCode::kDataLoss)
          << "byte " << i << " bit " << bit;
    }
  }
}

TEST(DecodePatchTable, RowsOfVersionOneHaveEverySampleValid) {
  const SubfileHeader header = *SubfileHeader::DecodeFrom(HeaderOfVersionOne());
  Bytes table;
  for (const PatchEntry& row : ExampleRows()) {
    PutLittleEndian(&table, row.patch_index);
    PutLittleEndian(&table, row.min);
    PutLittleEndian(&table, row.max);
    for (const LevelEntry& level : row.levels) {
      PutLittleEndian(&table, level.offset - 8);
      PutLittleEndian(&table, level.size);
      PutLittleEndian(&table, level.rmse);
      PutLittleEndian(&table, level.checksum);
      PutLittleEndian(&table, level.max_error);
    }
  }
  SubfileFooter footer;
  footer.table_offset = 136 + 40;
  footer.table_size = table.size();
  footer.table_checksum = Checksum(table);
  const auto rows = DecodePatchTable(table, header, footer);

  ASSERT_TRUE(rows.ok()) << rows.status().message();
  EXPECT_EQ((*rows)[0].levels[3].offset, 136u);
  EXPECT_EQ((*rows)[0].valid, 16u * 8);
  EXPECT_EQ((*rows)[1].levels[3].coverage, 1);
}

TEST(SubfileFooter, RoundTripAndEveryFlippedBitIsFound) {
  Bytes bytes;
  EncodeTable(ExampleRows()).footer.EncodeTo(&bytes);
  ASSERT_EQ(bytes.size(), SubfileFooter::kEncodedSize);
  EXPECT_TRUE(SubfileFooter::DecodeFrom(bytes).ok());

  for (std::size_t i = 0; i < bytes.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      Bytes damaged = bytes;
      damaged[i] ^= static_cast<std::byte>(1 << bit);
      EXPECT_EQ(SubfileFooter::DecodeFrom(damaged).status().code(), StatusCode::kDataLoss)
          << "byte " << i << " bit " << bit;
    }
  }
}

TEST(DecodePatchTable, RoundTripAndEveryFlippedBitIsFound) {
  const Table table = EncodeTable(ExampleRows());
  EXPECT_EQ(*DecodePatchTable(table.bytes, ExampleHeader(), table.footer), ExampleRows());

  for (std::size_t i = 0; i < table.bytes.size(); ++i) {
    Bytes damaged = table.bytes;
    damaged[i] ^= std::byte{0x10};
    EXPECT_EQ(DecodePatchTable(damaged, ExampleHeader(), table.footer).status().code(), StatusCode::kDataLoss)
        << "byte " << i;
  }
}

TEST(DecodePatchTable, EveryTableOfVersionThreeIsReadAndEveryFlippedBitIsFound) {
  const Table table = EncodeEqualRows(ExampleRows());
  EXPECT_EQ(*DecodePatchTable(table.bytes, HeaderOfVersion(3), table.footer), ExampleRows());

  for (std::size_t i = 0; i < table.bytes.size(); ++i) {
    Bytes damaged = table.bytes;
    damaged[i] ^= std::byte{0x10};
    EXPECT_FALSE(DecodePatchTable(damaged, HeaderOfVersion(3), table.footer).ok()) << "byte " << i;
  }
}

TEST(EncodePatchTable, TakesTheBytesOfTheDocument) {
  std::vector<PatchEntry> rows = ExampleRows();
  rows[0].valid = 16 * 8;
  rows[0].levels[3].rmse = 0;
  rows[0].levels[3].max_error = 0;
  rows[0].levels[3].coverage = 1;
  rows[1].refers = true;
  for (LevelEntry& level : rows[1].levels) level = {level.offset, 0, 0, Checksum({}), 0, 1};

  // Row 0: step 0, no bits, min in 2 bytes, max in 2. Levels 0 to 2: widths, size, checksum, 0.25 in 1 byte
  // (2^-2: 7d, the sign and the exponent's last bit are 0), 0.5 in 2 (3fe: 7fc), coverage; level 3: widths,
  // size, checksum. Row 1: step 0, bits 1 + 2 + 4, min and max, 101 valid.
  const Bytes table = EncodePatchTable(rows, ExampleGrid());
  EXPECT_EQ(table.size(), 3u + 4 + 3 * (1 + 1 + 8 + 1 + 2 + 4) + (1 + 1 + 8) + 3 + 4 + 1);
  const std::array<unsigned char, 7> begin = {0x00, 0x00, 0x22, 0xbf, 0xf8, 0x40, 0x04};
  EXPECT_EQ(std::memcmp(table.data(), begin.data(), begin.size()), 0);
  const std::array<unsigned char, 8> end = {0x00, 0x07, 0x22, 0xbf, 0xf8, 0x40, 0x04, 101};
  EXPECT_EQ(std::memcmp(table.data() + table.size() - end.size(), end.data(), end.size()), 0);
  EXPECT_EQ(*DecodePatchTable(table, ExampleHeader(), MakeTable(table).footer), rows);
}

TEST(EncodePatchTable, KeepsEveryNumberAndNoRowIsLargerThanAnEqualOne) {
  using Double = std::numeric_limits<double>;
  using Float = std::numeric_limits<float>;
  SubfileHeader header = ExampleHeader();
  header.dims = {50'000'000, 50'000'000, 64};
  header.patch = {64, 64, 64};
  header.levels = 3;
  header.patch_count = 3;
  const PatchGrid grid = *PatchGrid::Create(header.dims, header.patch);
  std::vector<PatchEntry> rows(3);
  rows[0] = {0,
             Double::infinity(),
             -Double::infinity(),
             0,
             true,
             {{144, 1, Float::denorm_min(), 7, Double::denorm_min(), 0}}};
  rows[1] = {1,
             -0.1,
             Double::max(),
             (64 * 64 * 64) - 1,
             false,
             {{145, 0xffffffff, Float::max(), ~std::uint64_t{0}, Double::max(), 0.1f}}};
  rows[2] = {static_cast<std::uint64_t>(grid.patch_count() - 1),
             -0.0,
             0.0,
             300,
             false,
             {{145, 128, 0.1f, 1, 0.1, 0.3f}}};
  std::uint64_t end = 144;
  for (PatchEntry& row : rows) {
    row.levels.resize(3, row.levels[0]);
    for (int level = 2; level >= 0; --level) {
      row.levels[static_cast<std::size_t>(level)].offset = end;
      end += row.levels[0].size;
    }
  }
  header.order = PayloadOrder::kPatch;
  const Bytes table = EncodePatchTable(rows, grid);
  EXPECT_LE(table.size(), 3 * PatchEntry::EncodedSize(3));

  SubfileFooter footer;
  footer.table_offset = end;
  footer.table_size = table.size();
  footer.table_checksum = Checksum(table);
  const auto decoded = DecodePatchTable(table, header, footer);
  ASSERT_TRUE(decoded.ok()) << decoded.status().message();
  EXPECT_EQ(*decoded, rows);
  EXPECT_TRUE(std::signbit((*decoded)[2].min));
}

TEST(DecodePatchTable, RefusesWhatNoRowCanBe) {
  const Bytes table = EncodePatchTable(ExampleRows(), ExampleGrid());
  const auto code = [](const Bytes& bytes, SubfileHeader header = ExampleHeader()) {
    const Table made = MakeTable(bytes);
    return DecodePatchTable(made.bytes, header, made.footer).status().code();
  };
  ASSERT_EQ(code(table), StatusCode::kOk);
  for (std::size_t size = 0; size < table.size(); ++size)
    EXPECT_EQ(code(Bytes(table.begin(), table.begin() + static_cast<std::ptrdiff_t>(size))),
              StatusCode::kDataLoss)
        << size;
  Bytes longer = table;
  longer.push_back(std::byte{0});
  EXPECT_EQ(code(longer), StatusCode::kDataLoss);
  // In the first row: another bit, and widths that no number has. In its first part: an RMSE of five bytes.
  for (const auto& [at, value] :
       {std::pair(1, 8), std::pair(2, 0x29), std::pair(2, 0x92), std::pair(8, 0x85)}) {
    Bytes wrong = table;
    wrong[static_cast<std::size_t>(at)] = static_cast<std::byte>(value);
    EXPECT_EQ(code(wrong), StatusCode::kDataLoss) << at;
  }
}

TEST(DecodePatchTable, RefusesBytesThatBelongToNoPayload) {
  Table table = EncodeTable(ExampleRows());
  table.footer.table_offset += 1;

  const Status status = DecodePatchTable(table.bytes, ExampleHeader(), table.footer).status();

  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  // A header of 144 bytes, four payloads of 10.
  EXPECT_EQ(status.message(), "patch table: payloads end at byte 184, the table begins at 185");
}

TEST(DecodePatchTable, TakesNoMemoryForRowsThatTheTableCannotHave) {
  SubfileHeader header = ExampleHeader();
  header.patch_count = std::uint64_t{1} << 60;
  const Table table = EncodeTable(ExampleRows());
  EXPECT_EQ(DecodePatchTable(table.bytes, header, table.footer).status().code(), StatusCode::kDataLoss);
  header.patch_count = table.bytes.size() / 3 + 1;
  EXPECT_EQ(CheckTableSize(header, table.footer).code(), StatusCode::kDataLoss);
  header.patch_count = 0;
  EXPECT_EQ(CheckTableSize(header, table.footer).code(), StatusCode::kDataLoss);
}

TEST(DecodePatchTable, RefusesAPatchThatTheGridDoesNotHave) {
  // The step from patch 0 to patch 1 has 1 more: to that above patch 0. The grid has 6x3 patches, so 40 is
  // none.
  Bytes table = EncodePatchTable(ExampleRows(), ExampleGrid());
  const std::size_t second = StoredRowSize(ExampleRows()[0]) + 1;  // and 100 valid samples
  ASSERT_EQ(table[second], std::byte{0});
  for (const int step : {1, 40}) {
    table[second] = static_cast<std::byte>(step);
    const Table made = MakeTable(table);
    const auto rows = DecodePatchTable(made.bytes, ExampleHeader(), made.footer);
    EXPECT_EQ(rows.ok(), step == 1);
    if (rows.ok()) {
      EXPECT_EQ((*rows)[1].patch_index, 6u);
    }
  }
}

// A table with a correct checksum may still be wrong: from a writer with a bug, or an attacker.
TEST(DecodePatchTable, RefusesRowsThatPointOutside) {
  std::vector<std::vector<PatchEntry>> bad(8, ExampleRows());
  bad[0][0].levels[2].offset = 3;                      // inside the header
  bad[1][0].levels[2].size = 0xffffffff;               // beyond the payload
  bad[2][1].levels[0].offset = ~std::uint64_t{0} - 2;  // overflows
  bad[2][1].levels[0].size = 10;
  bad[3][1].patch_index = 1000000;                          // not in the grid
  std::swap(bad[4][0].patch_index, bad[4][1].patch_index);  // out of order
  bad[5][0].valid = 16 * 8 + 1;                             // more than the patch has
  bad[6][0].levels[1].coverage = 1.5f;
  bad[7][0].levels[1].coverage = std::numeric_limits<float>::quiet_NaN();
  for (std::size_t i = 0; i < bad.size(); ++i) {
    const Table table = EncodeEqualRows(bad[i]);
    EXPECT_EQ(DecodePatchTable(table.bytes, HeaderOfVersion(3), table.footer).status().code(),
              StatusCode::kDataLoss)
        << "case " << i;
  }
  for (const std::size_t i : {1, 5, 6, 7}) {
    const Table table = EncodeTable(bad[i]);
    EXPECT_EQ(DecodePatchTable(table.bytes, ExampleHeader(), table.footer).status().code(),
              StatusCode::kDataLoss)
        << "case " << i << " of version 4";
  }
}

SubfileHeader HeaderWith(PayloadOrder order, const PatchParts& parts, int coarse_level = 0) {
  SubfileHeader header;
  header.levels = parts.levels;
  header.layers = parts.layers;
  header.order = order;
  header.coarse_level = coarse_level;
  return header;
}

TEST(ForEachPayload, PatchOrderAndLevelOrderVisitCoarseToFine) {
  std::vector<std::pair<std::size_t, int>> visits;
  const auto visit = [&](std::size_t row, int part) { visits.emplace_back(row, part); };
  ForEachPayload(HeaderWith(PayloadOrder::kPatch, {2, 1}), 2, visit);
  EXPECT_EQ(visits, (std::vector<std::pair<std::size_t, int>>{{0, 1}, {0, 0}, {1, 1}, {1, 0}}));
  visits.clear();
  ForEachPayload(HeaderWith(PayloadOrder::kLevel, {2, 1}), 2, visit);
  EXPECT_EQ(visits, (std::vector<std::pair<std::size_t, int>>{{0, 1}, {1, 1}, {0, 0}, {1, 0}}));
}

TEST(ForEachPayload, LayersFollowEachOtherTheRoughestFirst) {
  const PatchParts parts{2, 2};
  std::vector<std::array<int, 3>> visits;  // row, layer, level
  const auto visit = [&](std::size_t row, int part) {
    visits.push_back({static_cast<int>(row), parts.LayerOf(part), parts.LevelOf(part)});
  };
  using Visits = std::vector<std::array<int, 3>>;
  ForEachPayload(HeaderWith(PayloadOrder::kPatch, parts), 2, visit);
  EXPECT_EQ(visits,
            (Visits{{0, 0, 1}, {0, 0, 0}, {1, 0, 1}, {1, 0, 0}, {0, 1, 1}, {0, 1, 0}, {1, 1, 1}, {1, 1, 0}}));
  visits.clear();
  ForEachPayload(HeaderWith(PayloadOrder::kLevel, parts), 2, visit);
  EXPECT_EQ(visits,
            (Visits{{0, 0, 1}, {1, 0, 1}, {0, 0, 0}, {1, 0, 0}, {0, 1, 1}, {1, 1, 1}, {0, 1, 0}, {1, 1, 0}}));
}

TEST(ForEachPayload, CoarseLevelsComeLevelByLevelAndTheOthersPatchByPatch) {
  const PatchParts parts{4, 1};
  std::vector<std::pair<std::size_t, int>> visits;
  const auto visit = [&](std::size_t row, int part) { visits.emplace_back(row, part); };
  const auto order_of = [&](int coarse_level) {
    visits.clear();
    ForEachPayload(HeaderWith(PayloadOrder::kCoarse, parts, coarse_level), 2, visit);
    return visits;
  };
  using Visits = std::vector<std::pair<std::size_t, int>>;
  EXPECT_EQ(order_of(2), (Visits{{0, 3}, {1, 3}, {0, 2}, {1, 2}, {0, 1}, {0, 0}, {1, 1}, {1, 0}}));
  const Visits by_patch = order_of(4);
  const Visits by_level = order_of(1);
  visits.clear();
  ForEachPayload(HeaderWith(PayloadOrder::kPatch, parts), 2, visit);
  EXPECT_EQ(by_patch, visits) << "no level is coarse";
  visits.clear();
  ForEachPayload(HeaderWith(PayloadOrder::kLevel, parts), 2, visit);
  EXPECT_EQ(by_level, visits);
}

TEST(ForEachPayload, EachLayerHasItsCoarseLevelsInFrontOfItsOthers) {
  const PatchParts parts{3, 2};
  std::vector<std::array<int, 3>> visits;  // row, layer, level
  ForEachPayload(HeaderWith(PayloadOrder::kCoarse, parts, 2), 2, [&](std::size_t row, int part) {
    visits.push_back({static_cast<int>(row), parts.LayerOf(part), parts.LevelOf(part)});
  });
  EXPECT_EQ(visits, (std::vector<std::array<int, 3>>{{0, 0, 2},
                                                     {1, 0, 2},
                                                     {0, 0, 1},
                                                     {0, 0, 0},
                                                     {1, 0, 1},
                                                     {1, 0, 0},
                                                     {0, 1, 2},
                                                     {1, 1, 2},
                                                     {0, 1, 1},
                                                     {0, 1, 0},
                                                     {1, 1, 1},
                                                     {1, 1, 0}}));
}

TEST(FirstCoarseLevel, HasAtMostAShareOfTheSamplesOfAPatch) {
  EXPECT_EQ(FirstCoarseLevel({512, 512, 512}, {64, 64, 64}, 7), 2);
  EXPECT_EQ(FirstCoarseLevel({512, 512, 512}, {4, 4, 4}, 3), 2);
  EXPECT_EQ(FirstCoarseLevel({512, 512, 512}, {2, 2, 2}, 2), 2) << "none";
  EXPECT_EQ(FirstCoarseLevel({4096, 4096, 1}, {512, 512, 1}, 10), 3);
  EXPECT_EQ(FirstCoarseLevel({1 << 20, 1, 1}, {1 << 18, 1, 1}, 10), 6);
  EXPECT_EQ(FirstCoarseLevel({64, 1, 1}, {64, 1, 1}, 1), 1) << "none";
  EXPECT_EQ(FirstCoarseLevel({512, 512, 5}, {128, 128, 8}, 4), 3) << "the samples that there are count";
}

}  // namespace
}  // namespace quarry::format
