// Records of steps, pages of the catalogue and the head.
#include "quarry/format/catalogue.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "quarry/base/checksum.h"
#include "quarry/format/subfile.h"

namespace quarry::format {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// A double of any bits but NaN, which does not equal itself.
double AnyReal(std::mt19937_64* random) {
  const double value = std::bit_cast<double>((*random)());
  return value == value ? value : -0.0;
}

LevelRecord AnyLevel(std::mt19937_64* random) { return {AnyReal(random), AnyReal(random), (*random)(), 0.5}; }

FieldSummary AnyField(const std::string& name, std::mt19937_64* random) {
  FieldSummary field;
  field.name = name;
  field.source = "run_" + std::to_string((*random)() % 1000) + ".f32";
  for (double* const value :
       {&field.tolerance, &field.min, &field.max, &field.max_error, &field.rmse, &field.psnr})
    *value = AnyReal(random);
  for (std::uint64_t* const value : {&field.raw_bytes, &field.stored_bytes, &field.patches, &field.valid})
    *value = (*random)();
  for (std::uint64_t l = 0; l < (*random)() % 5; ++l) field.levels.push_back(AnyLevel(random));
  for (std::uint64_t k = 0; k < (*random)() % 3; ++k)
    field.rougher.push_back({AnyReal(random), {AnyLevel(random), AnyLevel(random)}});
  for (std::uint64_t r = 0; r < (*random)() % 3; ++r) field.references.push_back((*random)());
  if ((*random)() % 2 == 0) field.mask = {.name = (*random)() % 3 + 1, .bytes = 100};
  return field;
}

/// Records that have nothing in common, of steps that ascend.
std::vector<StepRecord> AnyRecords(std::size_t count) {
  std::mt19937_64 random(count);
  std::vector<StepRecord> records(count);
  std::uint64_t step = random() % 3;
  for (StepRecord& record : records) {
    record.manifest_bytes = random();
    record.summary.checksum = random();
    record.summary.step = step;
    if (random() % 4 != 0) record.summary.time = AnyReal(&random);
    for (const char* name : {"u", "temperature", "w.real"}) {
      if (random() % 3 != 0) record.summary.fields.push_back(AnyField(name, &random));
    }
    step += 1 + (random() % 3 == 0 ? random() % 1'000'000 : 0);
  }
  return records;
}

/// A run of a simulation: one field, small changes.
std::vector<StepRecord> RunOf(std::size_t count, std::uint64_t first = 0) {
  std::vector<StepRecord> records(count);
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> near(1, 1.5);
  for (std::size_t i = 0; i < count; ++i) {
    StepRecord& record = records[i];
    record.manifest_bytes = 1700 + i % 5;
    record.summary.checksum = random();
    record.summary.step = first + i;
    record.summary.time = 0.01 * static_cast<double>(i);
    FieldSummary field;
    field.name = "f";
    field.source = "step" + std::to_string(first + i) + ".f32";
    field.tolerance = 1e-3;
    field.min = -near(random);
    field.max = near(random);
    field.max_error = 1e-3 / near(random);
    field.rmse = 1e-4 * near(random);
    field.psnr = 80 * near(random);
    field.raw_bytes = 16384;
    field.stored_bytes = 800 + random() % 100;
    field.patches = 1;
    field.valid = 4096;
    field.levels.push_back({field.max_error, field.rmse, 300 + random() % 50, 1});
    for (int l = 1; l < 5; ++l)
      field.levels.push_back({std::ldexp(std::ceil(near(random) * 8192), -13), 0.1 * near(random), 60, 1});
    record.summary.fields.push_back(std::move(field));
  }
  return records;
}

void ExpectSame(const std::vector<StepRecord>& a, const std::vector<StepRecord>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(a[i] == b[i]) << "record " << i;
}

RecordEncoder Encoded(const std::vector<StepRecord>& records) {
  RecordEncoder encoder;
  for (const StepRecord& record : records) EXPECT_TRUE(encoder.Add(record));
  return encoder;
}

/// The bytes with another checksum at their end, as somebody who forges them would have it.
Bytes Resealed(Bytes bytes) {
  bytes.resize(bytes.size() - 8);
  PutLittleEndian(&bytes, Checksum(bytes));
  return bytes;
}

TEST(StepRecords, ComeBackAsTheyWere) {
  for (const std::size_t count : {0, 1, 2, 300}) {
    const std::vector<StepRecord> records = AnyRecords(count);
    const RecordEncoder encoder = Encoded(records);
    const auto decoded = DecodeRecords(encoder.bytes(), count);

    ASSERT_TRUE(decoded.ok()) << decoded.status().message();
    ExpectSame(*decoded, records);
  }
}

TEST(StepRecords, HaveTheEndsOfTheRanges) {
  StepRecord record;
  record.manifest_bytes = UINT64_MAX;
  record.summary.step = UINT64_MAX - 1;
  record.summary.fields.emplace_back();
  FieldSummary& field = record.summary.fields[0];
  field.name = std::string(63, 'x');
  field.min = kInfinity;
  field.max = -kInfinity;
  field.psnr = std::numeric_limits<double>::denorm_min();
  field.references = {0, UINT64_MAX};
  StepRecord last = record;
  last.summary.step = UINT64_MAX;
  last.summary.fields[0].min = -0.0;
  const auto decoded = DecodeRecords(Encoded({record, last}).bytes(), 2);

  ASSERT_TRUE(decoded.ok()) << decoded.status().message();
  ExpectSame(*decoded, {record, last});
  EXPECT_TRUE(std::signbit((*decoded)[1].summary.fields[0].min));
}

TEST(StepRecords, OfARunTakeAHundredBytesEach) {
  const RecordEncoder encoder = Encoded(RunOf(1000));

  EXPECT_LT(encoder.bytes().size(), 140u * 1000);
}

TEST(StepRecords, TooLargeOnesAreLeftOut) {
  std::vector<StepRecord> records = RunOf(3);
  RecordEncoder encoder;
  ASSERT_TRUE(encoder.Add(records[0]));
  const Bytes before = encoder.bytes();
  // A record of some 40 bytes a field and level, of which there are too many.
  StepRecord large = AnyRecords(1)[0];
  large.summary.step = 1;
  std::mt19937_64 random(3);
  for (int f = 0; f < 2000; ++f) {
    FieldSummary& field = large.summary.fields.emplace_back(AnyField("g" + std::to_string(f), &random));
    field.levels.assign(30, AnyLevel(&random));
    for (LevelRecord& level : field.levels) level = AnyLevel(&random);
  }
  StepRecord long_source = records[1];
  long_source.summary.fields[0].source = std::string(kMaxRecordSource + 1, 'x');

  EXPECT_FALSE(encoder.Add(large));
  EXPECT_FALSE(encoder.Add(long_source));
  EXPECT_EQ(encoder.bytes(), before);
  ASSERT_TRUE(encoder.Add(records[2]));
  ExpectSame(*DecodeRecords(encoder.bytes(), 2), {records[0], records[2]});
}

TEST(StepRecords, DamageIsFoundOrDecodesToSomething) {
  const std::vector<StepRecord> records = AnyRecords(20);
  const Bytes bytes = Encoded(records).bytes();
  std::mt19937_64 random(5);
  for (int i = 0; i < 2000; ++i) {
    Bytes damaged = bytes;
    damaged[random() % damaged.size()] ^= static_cast<std::byte>(1 << random() % 8);
    const auto decoded = DecodeRecords(damaged, records.size());
    if (!decoded.ok()) {
      EXPECT_EQ(decoded.status().code(), StatusCode::kDataLoss);
    }
  }
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(DecodeRecords(ByteSpan(bytes).first(size), records.size()).ok()) << size;
  EXPECT_FALSE(DecodeRecords(bytes, records.size() - 1).ok());
  EXPECT_FALSE(DecodeRecords(bytes, records.size() + 1).ok());
}

TEST(CataloguePage, ComesBackByItsName) {
  const std::vector<StepRecord> records = RunOf(100, 7);
  const EncodedPage page = EncodePage(records);

  EXPECT_EQ(page.ref, (PageRef{Checksum(page.bytes), page.bytes.size(), 7, 106, 100}));
  EXPECT_EQ(PagePath(0xabc), "catalogue/0000000000000abc");
  const auto decoded = DecodePage(page.bytes, page.ref);
  ASSERT_TRUE(decoded.ok()) << decoded.status().message();
  ExpectSame(*decoded, records);
}

TEST(CataloguePage, AnotherThanTheHeadNamesIsRefused) {
  const EncodedPage page = EncodePage(RunOf(10));
  Bytes damaged = page.bytes;
  damaged.back() ^= std::byte{1};
  PageRef other = page.ref;
  other.last = 10;

  EXPECT_NE(DecodePage(damaged, page.ref).status().message().find("checksum"), std::string::npos);
  EXPECT_FALSE(DecodePage(ByteSpan(page.bytes).first(page.bytes.size() - 1), page.ref).ok());
  EXPECT_NE(DecodePage(page.bytes, other).status().message().find("steps 0 to 10"), std::string::npos);
}

Bytes HeadOfThreeSteps() {
  return EncodeHead({.steps = 3, .runs = {{0, 1, 3}}, .pages = {EncodePage(RunOf(1)).ref}},
                    Encoded(RunOf(2, 1)));
}

TEST(CatalogueHead, ComesBackAsItWas) {
  const std::vector<StepRecord> records = RunOf(5, 2000);
  const std::vector<PageRef> pages = {EncodePage(RunOf(1000)).ref, EncodePage(RunOf(1000, 1000)).ref};
  const Bytes bytes = EncodeHead({.steps = 2005, .runs = {{0, 1, 2005}}, .pages = pages}, Encoded(records));
  const auto head = DecodeHead(bytes);

  ASSERT_TRUE(head.ok()) << head.status().message();
  EXPECT_EQ(head->steps, 2005u);
  EXPECT_EQ(head->pages, pages);
  EXPECT_EQ(head->runs, std::vector<StepRun>({{0, 1, 2005}}));
  EXPECT_FALSE(head->publishes);
  ExpectSame(head->records, records);
}

TEST(CatalogueHead, SaysThatItPublishes) {
  const auto head = DecodeHead(EncodeHead({.publishes = true}, RecordEncoder()));

  ASSERT_TRUE(head.ok()) << head.status().message();
  EXPECT_TRUE(head->publishes);
  EXPECT_TRUE(head->runs.empty());
}

/// As programs before runs of steps have written it.
TEST(CatalogueHead, OfVersion4IsRead) {
  const std::vector<StepRecord> records = RunOf(2, 1);
  Bytes bytes = EncodeHead({.steps = 3, .pages = {EncodePage(RunOf(1)).ref}}, Encoded(records));
  bytes[8] = std::byte{4};
  bytes.erase(bytes.begin() + 32, bytes.begin() + 48);
  const auto head = DecodeHead(Resealed(bytes));

  ASSERT_TRUE(head.ok()) << head.status().message();
  EXPECT_EQ(head->steps, 3u);
  EXPECT_EQ(head->pages, std::vector<PageRef>({EncodePage(RunOf(1)).ref}));
  EXPECT_TRUE(head->runs.empty());
  EXPECT_FALSE(head->publishes);
  ExpectSame(head->records, records);
}

TEST(CatalogueHead, DamageIsFound) {
  const Bytes bytes = HeadOfThreeSteps();
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    Bytes damaged = bytes;
    damaged[i] ^= std::byte{16};
    EXPECT_EQ(DecodeHead(damaged).status().code(), StatusCode::kDataLoss) << i;
    EXPECT_FALSE(DecodeHead(ByteSpan(bytes).first(i)).ok()) << i;
  }
}

TEST(CatalogueHead, ForgedNumbersAreRefused) {
  const Bytes bytes = HeadOfThreeSteps();
  const auto with = [&](std::size_t at, std::uint64_t value, std::size_t size) {
    Bytes forged = bytes;
    for (std::size_t i = 0; i < size; ++i) forged[at + i] = static_cast<std::byte>(value >> 8 * i);
    return DecodeHead(Resealed(forged)).status().message();
  };

  EXPECT_NE(with(8, 6, 2).find("newer Quarry"), std::string::npos);
  EXPECT_NE(with(12, kMaxPageRecords + 1, 4).find("the maximum is"), std::string::npos);
  EXPECT_NE(with(24, UINT64_MAX, 8).find("pages"), std::string::npos);
  EXPECT_NE(with(32, 2, 8).find("flags 2"), std::string::npos);
  EXPECT_NE(with(40, kMaxHeadRuns + 1, 8).find("runs"), std::string::npos);
  EXPECT_NE(with(56, kPageLimit + 1, 8).find("page"), std::string::npos);  // its bytes
  EXPECT_NE(with(64, 5, 8).find("steps 5 to 0"), std::string::npos);       // its first step
  EXPECT_NE(with(80, 2, 8).find("2 records"), std::string::npos);          // its records
  EXPECT_NE(with(96, 0, 8).find("distance 0"), std::string::npos);
  EXPECT_NE(with(104, 0, 8).find("run 0"), std::string::npos);
  EXPECT_NE(with(104, kMaxListedSteps + 1, 8).find("run 0"), std::string::npos);
}

}  // namespace
}  // namespace quarry::format
