#include "quarry/format/subfile.h"

#include <gtest/gtest.h>

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
      rows[i].levels.push_back({offset, i == 0 ? 10u : 0u, 0.25f, 0x1122334455667788u, 0.5, 0.75f});
      offset += rows[i].levels.back().size;
    }
  }
  return rows;
}

struct Table {
  Bytes bytes;
  SubfileFooter footer;
};

Table EncodeTable(const std::vector<PatchEntry>& rows) {
  Table table;
  for (const PatchEntry& row : rows) row.EncodeTo(&table.bytes);
  table.footer.table_offset = SubfileHeader::kEncodedSize + 40;
  table.footer.table_size = table.bytes.size();
  table.footer.table_checksum = Checksum(table.bytes);
  table.footer.file_size = table.footer.table_offset + table.footer.table_size + SubfileFooter::kEncodedSize;
  return table;
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
  EXPECT_EQ((*rows)[0].levels[0].offset, 136u);
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
    const Table table = EncodeTable(bad[i]);
    EXPECT_EQ(DecodePatchTable(table.bytes, ExampleHeader(), table.footer).status().code(),
              StatusCode::kDataLoss)
        << "case " << i;
  }
}

TEST(ForEachPayload, PatchOrderAndLevelOrderVisitCoarseToFine) {
  std::vector<std::pair<std::size_t, int>> visits;
  const auto visit = [&](std::size_t row, int part) { visits.emplace_back(row, part); };
  ForEachPayload(PayloadOrder::kPatch, 2, {2, 1}, visit);
  EXPECT_EQ(visits, (std::vector<std::pair<std::size_t, int>>{{0, 1}, {0, 0}, {1, 1}, {1, 0}}));
  visits.clear();
  ForEachPayload(PayloadOrder::kLevel, 2, {2, 1}, visit);
  EXPECT_EQ(visits, (std::vector<std::pair<std::size_t, int>>{{0, 1}, {1, 1}, {0, 0}, {1, 0}}));
}

TEST(ForEachPayload, LayersFollowEachOtherTheRoughestFirst) {
  const PatchParts parts{2, 2};
  std::vector<std::array<int, 3>> visits;  // row, layer, level
  const auto visit = [&](std::size_t row, int part) {
    visits.push_back({static_cast<int>(row), parts.LayerOf(part), parts.LevelOf(part)});
  };
  using Visits = std::vector<std::array<int, 3>>;
  ForEachPayload(PayloadOrder::kPatch, 2, parts, visit);
  EXPECT_EQ(visits,
            (Visits{{0, 0, 1}, {0, 0, 0}, {1, 0, 1}, {1, 0, 0}, {0, 1, 1}, {0, 1, 0}, {1, 1, 1}, {1, 1, 0}}));
  visits.clear();
  ForEachPayload(PayloadOrder::kLevel, 2, parts, visit);
  EXPECT_EQ(visits,
            (Visits{{0, 0, 1}, {1, 0, 1}, {0, 0, 0}, {1, 0, 0}, {0, 1, 1}, {1, 1, 1}, {0, 1, 0}, {1, 1, 0}}));
}

}  // namespace
}  // namespace quarry::format
