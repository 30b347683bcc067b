#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>

#include "quarry/base/checksum.h"
#include "quarry/format/subfile_table.h"
#include "quarry/geometry/morton.h"

/// Tables in blocks, and long tables without: bytes, reading in pieces, damage and forgery.
namespace quarry::format {
namespace {

/// A file in memory that counts what is read of it.
class CountedFile final : public StoredObject {
 public:
  explicit CountedFile(Bytes bytes) : bytes_(std::move(bytes)) {}

  const std::string& path() const override { return path_; }
  std::uint64_t size() const override { return bytes_.size(); }
  Status ReadAt(std::uint64_t offset, std::span<std::byte> out) const override {
    if (offset > bytes_.size() || out.size() > bytes_.size() - offset) return DataLoss("read behind the end");
    std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(offset), out.size(), out.begin());
    read_ += out.size();
    largest_ = std::max<std::uint64_t>(largest_, out.size());
    return Status::Ok();
  }

  Bytes& bytes() { return bytes_; }
  std::uint64_t read() const { return read_; }
  std::uint64_t largest() const { return largest_; }

 private:
  const std::string path_ = "table.qsf";
  Bytes bytes_;
  mutable std::uint64_t read_ = 0;
  mutable std::uint64_t largest_ = 0;
};

struct Recipe {
  std::uint64_t rows = 0;
  int block_bits = 0;
  PayloadOrder order = PayloadOrder::kPatch;
  int levels = 3;
  int layers = 1;
  std::uint64_t first = 0;  ///< patch along the curve
};

SubfileHeader HeaderOf(const Recipe& recipe) {
  SubfileHeader header;
  header.dims = {127, 64, 129};
  header.patch = {4, 4, 4};
  header.levels = recipe.levels;
  header.layers = recipe.layers;
  header.coder = CoderId::kInterpolate;
  header.order = recipe.order;
  // The two finest levels lie together.
  header.coarse_level = recipe.order == PayloadOrder::kCoarse ? std::min(2, recipe.levels - 1) : 0;
  header.block_bits = recipe.block_bits;
  header.patch_count = recipe.rows;
  header.field_name = "u";
  return header;
}

PatchGrid GridOf(const SubfileHeader& header) { return *PatchGrid::Create(header.dims, header.patch); }

/// Rows with sizes of zero and more, all with their offsets.
PatchRows RowsOf(const Recipe& recipe) {
  const SubfileHeader header = HeaderOf(recipe);
  const std::vector<std::int64_t> order = GridOf(header).MortonOrder();
  PatchRows rows;
  for (std::uint64_t i = 0; i < recipe.rows; ++i) {
    PatchEntry& row = rows.emplace_back();
    row.patch_index = static_cast<std::uint64_t>(order[recipe.first + i]);
    row.min = -1.5 - static_cast<double>(i);
    row.max = 0.25;
    row.valid = static_cast<std::uint32_t>(i % 3);
    for (int part = 0; part < header.parts().count(); ++part) {
      const auto size =
          static_cast<std::uint32_t>(i % 4 == 2 ? 0 : (7 * i + static_cast<std::uint64_t>(part)) % 5);
      const std::uint64_t checksum =
          size == 0 ? Checksum(ByteSpan()) : 1000 * i + static_cast<std::uint64_t>(part);
      row.levels.push_back({0, size, 0.5f, checksum, 0.125, 1});
    }
  }
  std::uint64_t offset = SubfileHeader::kEncodedSize;
  ForEachPayload(header, rows.size(), [&](std::size_t row, int part) {
    LevelEntry& level = rows[row].levels[static_cast<std::size_t>(part)];
    level.offset = offset;
    offset += level.size;
  });
  return rows;
}

/// A subfile whose payloads are zeros.
Bytes FileOf(const Recipe& recipe) {
  const SubfileHeader header = HeaderOf(recipe);
  Bytes file;
  header.EncodeTo(&file);
  const PatchRows rows = RowsOf(recipe);
  std::uint64_t payload = 0;
  for (const PatchEntry& row : rows) payload += row.payload_bytes();
  file.insert(file.end(), payload, std::byte{0});
  TableEncoder encoder(header, GridOf(header), file.size());
  for (const PatchEntry& row : rows) encoder.Put(row, &file);
  encoder.Finish(&file);
  return file;
}

Result<TableWalk> Open(const std::shared_ptr<const StoredObject>& file) {
  QUARRY_ASSIGN_OR_RETURN(SubfileTable table, ReadSubfileTable(*file));
  return TableWalk(std::make_shared<const SubfileTable>(std::move(table)), file);
}

/// All rows of a file, block by block.
Result<PatchRows> ReadAll(const std::shared_ptr<const StoredObject>& file) {
  QUARRY_ASSIGN_OR_RETURN(TableWalk walk, Open(file));
  PatchRows rows;
  for (std::uint64_t block = 0; block < walk.blocks(); ++block) {
    QUARRY_RETURN_IF_ERROR(walk.GoTo(block));
    rows.insert(rows.end(), walk.rows().begin(), walk.rows().end());
  }
  return rows;
}

Result<PatchRows> ReadAll(Bytes bytes) { return ReadAll(std::make_shared<CountedFile>(std::move(bytes))); }

SubfileFooter FooterOf(const Bytes& file) {
  return *SubfileFooter::DecodeFrom(ByteSpan(file).last(SubfileFooter::kEncodedSize));
}

TEST(TableBlocks, EveryRowComesBackFromBlocksOfAnySize) {
  for (const PayloadOrder order : kPayloadOrders) {
    for (const int layers : {1, 2}) {
      for (const int bits : {1, 2, 3, kBlockBits}) {
        for (const std::uint64_t rows : {1, 2, 3, 4, 5, 8, 9, 17, 64, 65, 100}) {
          const Recipe recipe{rows, bits, order, 3, layers, 5};
          const auto read = ReadAll(FileOf(recipe));
          ASSERT_TRUE(read.ok()) << read.status().message() << " " << rows << " rows, bits " << bits;
          EXPECT_EQ(*read, RowsOf(recipe)) << rows << " rows, bits " << bits;
        }
      }
    }
  }
}

TEST(TableBlocks, RowsAreThoseOfATableWithoutBlocks) {
  Recipe recipe{37, 3};
  const Bytes blocked = FileOf(recipe);
  recipe.block_bits = 0;
  const Bytes flat = FileOf(recipe);
  const std::uint64_t begin = FooterOf(flat).table_offset;
  const std::uint64_t size = FooterOf(flat).table_size;
  ASSERT_EQ(FooterOf(blocked).table_offset, begin);
  EXPECT_TRUE(std::equal(flat.begin() + static_cast<std::ptrdiff_t>(begin),
                         flat.begin() + static_cast<std::ptrdiff_t>(begin + size),
                         blocked.begin() + static_cast<std::ptrdiff_t>(begin)));
  // Five blocks of rows: five entries of one run.
  EXPECT_EQ(FooterOf(blocked).table_size, size + 5 * 32);
  EXPECT_EQ(FooterOf(blocked).table_checksum, Checksum(ByteSpan(blocked).subspan(begin + size, 5 * 32)));
}

TEST(TableBlocks, ShortTablesAreWrittenWithoutBlocks) {
  EXPECT_EQ(BlockBitsOf(1), 0);
  EXPECT_EQ(BlockBitsOf(1024), 0);
  EXPECT_EQ(BlockBitsOf(1025), 10);
  EXPECT_EQ(BlockBitsOf(4, 2), 0);
  EXPECT_EQ(BlockBitsOf(5, 2), 2);
}

TEST(TableBlocks, SeekFindsEveryCodeAndReadsNoOtherBlock) {
  const Recipe recipe{1000, 3, PayloadOrder::kLevel, 3, 1, 77};
  const SubfileHeader header = HeaderOf(recipe);
  const PatchGrid grid = GridOf(header);
  const auto file = std::make_shared<CountedFile>(FileOf(recipe));
  for (const PatchEntry& row : RowsOf(recipe)) {
    auto walk = Open(file);
    ASSERT_TRUE(walk.ok()) << walk.status().message();
    const std::uint64_t before = file->read();
    const std::uint64_t code = grid.PatchMorton(static_cast<std::int64_t>(row.patch_index));
    ASSERT_TRUE(walk->Seek(code).ok());
    EXPECT_NE(std::find(walk->rows().begin(), walk->rows().end(), row), walk->rows().end());
    EXPECT_LT(code, walk->end_code());
    // 125 blocks of rows, 16 of their entries, 2 of the entries of these, and the root.
    EXPECT_LE(file->read() - before, 2 * 8 * 48u + 8 * PatchEntry::EncodedSize(3));
    const std::uint64_t once = file->read();
    ASSERT_TRUE(walk->Seek(code).ok());
    ASSERT_TRUE(walk->GoTo(walk->block()).ok());
    EXPECT_EQ(file->read(), once) << "the block is there already";
  }
}

TEST(TableBlocks, ALongTableWithoutBlocksIsReadInPiecesAndItsRowsAreNotKept) {
  const Recipe recipe{16000, 0, PayloadOrder::kLevel, 6, 2, 0};
  const auto file = std::make_shared<CountedFile>(FileOf(recipe));
  const auto table = ReadSubfileTable(*file);
  ASSERT_TRUE(table.ok()) << table.status().message();
  EXPECT_TRUE(table->rows.empty());
  EXPECT_EQ(table->root.size(), 16u);
  EXPECT_GT(FooterOf(file->bytes()).table_size, 3u << 19);
  EXPECT_LE(file->largest(), 1u << 20);
  const std::uint64_t once = file->read();
  EXPECT_EQ(once,
            FooterOf(file->bytes()).table_size + SubfileHeader::kEncodedSize + SubfileFooter::kEncodedSize);
  const PatchRows rows = RowsOf(recipe);
  EXPECT_EQ(*ReadAll(file), rows);

  TableWalk walk(std::make_shared<const SubfileTable>(*table), file);
  const std::uint64_t before = file->read();
  ASSERT_TRUE(walk.GoTo(3).ok());
  EXPECT_LE(file->read() - before, 1024 * PatchEntry::EncodedSize(12));
  EXPECT_EQ(walk.rows().front(), rows[3 * 1024]);
  // The file has changed since: a block of it is as safe as all of it was.
  file->bytes()[FooterOf(file->bytes()).table_offset + 5] ^= std::byte{1};
  EXPECT_EQ(walk.GoTo(0).code(), StatusCode::kDataLoss);
}

TEST(TableBlocks, ATableOfVersionThreeIsReadInPiecesToo) {
  const Recipe recipe{3000};
  const PatchRows rows = RowsOf(recipe);
  Bytes file;
  HeaderOf(recipe).EncodeTo(&file);
  file[8] = std::byte{3};
  StoreLittleEndian(Checksum(ByteSpan(file).first(136)), file.data() + 136);
  SubfileFooter footer;
  for (const PatchEntry& row : rows) file.insert(file.end(), row.payload_bytes(), std::byte{0});
  footer.table_offset = file.size();
  for (const PatchEntry& row : rows) row.EncodeTo(&file);
  footer.table_size = file.size() - footer.table_offset;
  footer.table_checksum = Checksum(ByteSpan(file).subspan(footer.table_offset));
  footer.file_size = file.size() + SubfileFooter::kEncodedSize;
  footer.EncodeTo(&file);

  const auto counted = std::make_shared<CountedFile>(file);
  EXPECT_EQ(*ReadAll(counted), rows);
  EXPECT_TRUE(ReadSubfileTable(*counted)->rows.empty());
  file[footer.table_offset + 2000 * 136 + 30] ^= std::byte{1};
  const Status damaged = ReadAll(file).status();
  EXPECT_NE(damaged.message().find("checksum"), std::string::npos) << damaged.message();
}

TEST(TableBlocks, EveryFlippedBitIsFound) {
  for (const PayloadOrder order : kPayloadOrders) {
    const Bytes file = FileOf({11, 1, order, 2, 1, 0});
    for (std::size_t i = FooterOf(file).table_offset; i < file.size(); ++i) {
      for (int bit = 0; bit < 8; ++bit) {
        Bytes damaged = file;
        damaged[i] ^= static_cast<std::byte>(1 << bit);
        EXPECT_EQ(ReadAll(damaged).status().code(), StatusCode::kDataLoss) << "byte " << i << " bit " << bit;
      }
    }
  }
}

/// A file of four blocks of two rows, with entries that a test may forge: two stages of them.
struct Forged {
  Recipe recipe{8, 1, PayloadOrder::kLevel, 2, 1, 0};
  Bytes file = FileOf(recipe);
  std::uint64_t entries = file.size() - SubfileFooter::kEncodedSize - 6 * 40;  ///< four, then two of the root

  std::uint64_t At(int entry, int number) const {
    return GetLittleEndian<std::uint64_t>(Place(entry, number));
  }
  void Set(int entry, int number, std::uint64_t value) {
    StoreLittleEndian(value, const_cast<std::byte*>(Place(entry, number)));
  }
  /// Makes every checksum above the rows right.
  void Repair() {
    for (int block = 0; block < 2; ++block)
      Set(4 + block, 2, Checksum(ByteSpan(file).subspan(entries + static_cast<std::size_t>(block) * 80, 80)));
    StoreLittleEndian(Checksum(ByteSpan(file).subspan(entries + 160, 80)), file.data() + file.size() - 32);
    StoreLittleEndian(Checksum(ByteSpan(file).last(48).first(32)), file.data() + file.size() - 16);
  }

 private:
  const std::byte* Place(int entry, int number) const {
    return file.data() + entries + static_cast<std::size_t>(entry) * 40 +
           static_cast<std::size_t>(number) * 8;
  }
};

TEST(TableBlocks, EntriesThatContradictEachOtherAreRefused) {
  {
    Forged undamaged;
    undamaged.Repair();
    EXPECT_EQ(*ReadAll(undamaged.file), RowsOf(undamaged.recipe));
  }
  for (int entry = 0; entry < 6; ++entry) {
    for (const int number : {0, 1, 3, 4}) {  // code, offset, payloads of two runs
      for (const std::uint64_t change :
           {std::uint64_t{1}, ~std::uint64_t{0}, std::uint64_t{1} << 62, std::uint64_t{1} << 63}) {
        Forged forged;
        forged.Set(entry, number, forged.At(entry, number) + change);
        forged.Repair();
        const Status status = ReadAll(forged.file).status();
        EXPECT_EQ(status.code(), StatusCode::kDataLoss)
            << "entry " << entry << " number " << number << " plus " << change;
      }
    }
  }
}

TEST(TableBlocks, ABlockCannotStandForAnother) {
  Forged forged;
  for (const int number : {0, 1, 2, 3, 4}) {
    const std::uint64_t first = forged.At(1, number);
    forged.Set(1, number, forged.At(2, number));
    forged.Set(2, number, first);
  }
  forged.Repair();
  EXPECT_EQ(ReadAll(forged.file).status().code(), StatusCode::kDataLoss);
}

TEST(TableBlocks, NoMemoryIsTakenForRowsThatTheFileCannotHave) {
  for (const std::uint64_t patches : {std::uint64_t{0}, std::uint64_t{9}, std::uint64_t{1} << 40,
                                      std::numeric_limits<std::uint64_t>::max()}) {
    Forged forged;
    StoreLittleEndian(patches, forged.file.data() + 56);
    StoreLittleEndian(Checksum(ByteSpan(forged.file).first(136)), forged.file.data() + 136);
    EXPECT_EQ(ReadAll(forged.file).status().code(), StatusCode::kDataLoss) << patches << " patches";
  }
}

TEST(TableBlocks, SizesOfBlocksThatNobodyWritesAreRefused) {
  Bytes header;
  HeaderOf({5, 1}).EncodeTo(&header);
  EXPECT_EQ(header[50], std::byte{1 | 1 << 3});
  EXPECT_EQ(SubfileHeader::DecodeFrom(header)->block_bits, 1);
  const auto with_byte = [&](std::uint16_t version, int byte) {
    Bytes changed = header;
    changed[8] = static_cast<std::byte>(version);
    changed[50] = static_cast<std::byte>(byte);
    StoreLittleEndian(Checksum(ByteSpan(changed).first(136)), changed.data() + 136);
    return SubfileHeader::DecodeFrom(changed).status();
  };
  EXPECT_TRUE(with_byte(4, 2 | kBlockBits << 3).ok());
  EXPECT_FALSE(with_byte(4, 2 | (kBlockBits + 1) << 3).ok());
  EXPECT_FALSE(with_byte(4, 3 | 1 << 3).ok());
  EXPECT_FALSE(with_byte(4, 1 << 3).ok());
  // The versions before have no blocks: as programs that know none refuse the order.
  EXPECT_TRUE(with_byte(3, 2).ok());
  EXPECT_FALSE(with_byte(3, 2 | 1 << 3).ok());
}

}  // namespace
}  // namespace quarry::format
