#include "quarry/codec/entropy/rans.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "quarry/codec/interpolate/kernels.h"
#include "quarry/codec/interpolate/level_bands.h"
#include "tests/testing/random.h"

namespace quarry::entropy {
namespace {

using Counts = std::array<std::uint32_t, kSymbols>;

/// Statistics of all kinds, also unrealistic ones.
Counts RandomCounts(testing::Random* random) {
  Counts counts{};
  const std::uint64_t used = 1 + random->Below(kLargestSymbol + 1);
  const std::uint64_t kind = random->Below(4);
  for (std::size_t s = 0; s < used; ++s) {
    if (kind == 0) counts[s] = 1000;                                                // all equal
    if (kind == 1) counts[s] = static_cast<std::uint32_t>(random->Below(1 << 20));  // any
    if (kind == 2) counts[s] = s < 50 ? 5000 : 1;                                   // many rare ones
    if (kind == 3) counts[s] = static_cast<std::uint32_t>(random->Next() >> 40 >> random->Below(24));
  }
  counts[random->Below(used)] += 1;
  return counts;
}

SymbolTable MakeTable(const Counts& counts, int bits) {
  SymbolTable table;
  Normalise(counts, bits, &table);
  return table;
}

TEST(Normalise, GivesEverySymbolThatOccursAPartOfTheWhole) {
  testing::Random random(3);
  for (int i = 0; i < 4000; ++i) {
    const Counts counts = RandomCounts(&random);
    const int bits = random.Between(10, 11);
    const SymbolTable table = MakeTable(counts, bits);

    EXPECT_EQ(std::accumulate(table.frequencies.begin(), table.frequencies.end(), 0), 1 << bits);
    for (std::size_t s = 0; s < kSymbols; ++s)
      ASSERT_EQ(counts[s] > 0, table.frequencies[s] > 0) << "case " << i << ", symbol " << s;
  }
}

/// 88 times 1024 / 89, rounded up, is more than 1024.
TEST(Normalise, TakesFromTheLargeWhatRoundingGaveTooMuch) {
  Counts counts{};
  for (std::size_t s = 0; s < 89; ++s) counts[s] = 7;
  const SymbolTable table = MakeTable(counts, 10);

  EXPECT_EQ(std::accumulate(table.frequencies.begin(), table.frequencies.end(), 0), 1024);
  for (std::size_t s = 0; s < 89; ++s) EXPECT_GT(table.frequencies[s], 0) << s;
}

TEST(SymbolTables, ComeBack) {
  testing::Random random(4);
  for (int i = 0; i < 1000; ++i) {
    const int bits = random.Between(10, 11);
    std::vector<SymbolTable> tables(1 + random.Below(interpolate::kMaxTables));
    for (SymbolTable& table : tables) {
      table = MakeTable(RandomCounts(&random), bits);
      table.shift = static_cast<std::uint8_t>(random.Below(kMaxShift + 1));
    }
    Bytes bytes;
    EncodeTables(tables, bits, &bytes);
    const auto decoded = DecodeTables(bytes, tables.size(), bits);

    ASSERT_TRUE(decoded.ok()) << decoded.status().message();
    for (std::size_t t = 0; t < tables.size(); ++t) {
      EXPECT_EQ((*decoded)[t].shift, tables[t].shift);
      ASSERT_EQ((*decoded)[t].frequencies, tables[t].frequencies) << "case " << i;
    }
  }
}

/// Slots are filled by frequency: a wrong sum would leave some empty, or write beyond them.
TEST(SymbolTables, OfAnyBytesAddUpOrAreRefused) {
  testing::Random random(6);
  int refused = 0;
  for (int i = 0; i < 20000; ++i) {
    const int bits = random.Between(10, 11);
    std::vector<SymbolTable> tables(1 + random.Below(interpolate::kMaxTables));
    for (SymbolTable& table : tables) table = MakeTable(RandomCounts(&random), bits);
    Bytes bytes;
    EncodeTables(tables, bits, &bytes);
    bytes[random.Below(bytes.size())] ^= static_cast<std::byte>(1 << random.Below(8));
    const auto decoded = DecodeTables(bytes, tables.size(), bits);
    refused += !decoded.ok();
    if (!decoded.ok()) continue;
    for (const SymbolTable& table : *decoded) {
      ASSERT_EQ(std::accumulate(table.frequencies.begin(), table.frequencies.end(), 0), 1 << bits);
      ASSERT_LE(table.shift, kMaxShift);
    }
  }
  EXPECT_GT(refused, 100);
}

/// Every run starts at lane 0, and every instruction set writes the same bytes and reads the same symbols.
TEST(Rans, SymbolsComeBackFromEveryInstructionSet) {
  testing::Random random(5);
  for (int i = 0; i < 300; ++i) {
    const int bits = random.Between(10, 11);
    const std::size_t lanes = interpolate::kLaneCounts[random.Below(4)];
    std::vector<SymbolTable> tables;
    std::vector<std::vector<std::uint8_t>> in_use;
    for (std::size_t t = 0, count = 1 + random.Below(interpolate::kMaxTables); t < count; ++t) {
      tables.push_back(MakeTable(RandomCounts(&random), bits));
      in_use.emplace_back();
      for (std::size_t s = 0; s < kSymbols; ++s) {
        if (tables.back().frequencies[s] > 0) in_use.back().push_back(static_cast<std::uint8_t>(s));
      }
    }
    std::vector<CodedSymbol> symbols(random.Below(3000));
    // Room for a vector after the last symbol.
    std::vector<std::uint8_t> table_of(symbols.size() + kMostLanes);
    for (std::size_t s = 0; s < symbols.size(); ++s) {
      table_of[s] = static_cast<std::uint8_t>(random.Below(tables.size()));
      const auto& used = in_use[table_of[s]];
      symbols[s] = static_cast<CodedSymbol>(table_of[s] << 8 | used[random.Below(used.size())]);
    }
    std::vector<std::size_t> run_ends = {random.Below(symbols.size() + 1), symbols.size()};
    Bytes bytes;
    EncodeRans(symbols, run_ends, tables, bits, lanes, interpolate::FindKernels("scalar")->encode_rans,
               &bytes);

    std::vector<std::uint32_t> slots;
    MakeSlots(tables, bits, &slots);
    for (const char* name : {"scalar", "avx2", "avx512", "neon"}) {
      const interpolate::Kernels* kernels = interpolate::FindKernels(name);
      if (kernels == nullptr) continue;
      Bytes same;
      EncodeRans(symbols, run_ends, tables, bits, lanes, kernels->encode_rans, &same);
      ASSERT_EQ(same, bytes) << name << ", case " << i;
      std::vector<std::uint16_t> words;
      RansReader reader;
      reader.lanes = lanes;
      reader.bits = bits;
      const Status status = StartRans(bytes, &words, &reader);
      ASSERT_TRUE(status.ok()) << status.message();
      reader.slots = slots.data();
      std::vector<std::uint8_t> decoded(symbols.size() + kMostLanes);
      std::size_t begin = 0;
      for (const std::size_t end : run_ends) {
        ASSERT_TRUE(
            kernels->decode_rans(&reader, table_of.data() + begin, end - begin, decoded.data() + begin));
        begin = end;
      }
      EXPECT_EQ(reader.position, reader.count) << name << " leaves words";
      for (std::size_t s = 0; s < symbols.size(); ++s)
        ASSERT_EQ(decoded[s], symbols[s] & 0xff) << name << ", case " << i << ", symbol " << s;
    }
  }
}

}  // namespace
}  // namespace quarry::entropy
