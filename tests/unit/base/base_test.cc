#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <thread>

#include "quarry/base/address.h"
#include "quarry/base/checksum.h"
#include "quarry/base/file.h"
#include "quarry/base/float16.h"
#include "quarry/base/missing.h"
#include "quarry/base/numbers.h"
#include "quarry/base/per_thread.h"
#include "quarry/base/split.h"
#include "quarry/base/stream_bytes.h"
#include "quarry/base/units.h"
#include "quarry/base/utf8.h"
#include "quarry/base/wide_integer.h"

namespace quarry {
namespace {

TEST(ExitCode, FollowsTheContractOfThePrograms) {
  EXPECT_EQ(ExitCode(Status::Ok()), 0);
  EXPECT_EQ(ExitCode(InvalidArgument("x")), 2);
  EXPECT_EQ(ExitCode({StatusCode::kAlreadyExists, ""}), 2);
  EXPECT_EQ(ExitCode(NotFound("x")), 3);
  EXPECT_EQ(ExitCode(DataLoss("x")), 4);
  EXPECT_EQ(ExitCode({StatusCode::kUnavailable, ""}), 5);
  EXPECT_EQ(ExitCode({StatusCode::kResourceExhausted, ""}), 5);
  EXPECT_EQ(ExitCode(InternalError("x")), 6);
}

TEST(ParseNumber, TakesWhatTheTypeHolds) {
  EXPECT_EQ(*ParseNumber<std::uint64_t>("18446744073709551615"), 18446744073709551615u);
  EXPECT_EQ(*ParseNumber<std::int64_t>("-9223372036854775808"), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(*ParseNumber<int>("010"), 10) << "decimal, as the names of steps";
  EXPECT_EQ(*ParseNumber<int>("+5"), 5);
  EXPECT_EQ(*ParseNumber<double>("-1.5e-3"), -1.5e-3);
  EXPECT_EQ(*ParseNumber<double>("5e-324"), 5e-324);
}

TEST(ParseNumber, RefusesWhatTheTypeDoesNotHold) {
  const auto message = [](const auto& result) { return result.ok() ? "taken" : result.status().message(); };

  EXPECT_EQ(message(ParseNumber<std::uint64_t>("18446744073709551616")),
            "18446744073709551616 is not between 0 and 18446744073709551615");
  EXPECT_EQ(message(ParseNumber<std::uint64_t>("-1")), "-1 is not between 0 and 18446744073709551615");
  EXPECT_EQ(message(ParseNumber<int>("2147483648")), "2147483648 is not between -2147483648 and 2147483647");
  for (const char* text : {"1e999", "-1e999", "1e-999"})
    EXPECT_NE(message(ParseNumber<double>(text)).find("too large or too close to 0"), std::string::npos)
        << text;
  EXPECT_FALSE(ParseNumber<float>("1e300").ok());
  for (const char* text : {"nan", "-nan", "NaN", "inf", "-inf", "+inf", "infinity"})
    EXPECT_NE(message(ParseNumber<double>(text)).find("not a finite number"), std::string::npos) << text;
  for (const char* text : {"", " 1", "1 ", "+-1", "++1", "1.5", "1e3", "0x10", "one", "--1"})
    EXPECT_EQ(message(ParseNumber<int>(text)), fmt::format("\"{}\" is not a whole number", text));
  for (const char* text : {"", " 1", "1,5", "0x1p3", "one", "1e"})
    EXPECT_EQ(message(ParseNumber<double>(text)), fmt::format("\"{}\" is not a number", text));
}

TEST(Split, KeepsEmptyParts) {
  using Parts = std::vector<std::string_view>;

  EXPECT_EQ(Split("a,,b:c", ','), (Parts{"a", "", "b:c"}));
  EXPECT_EQ(Split(",a,", ','), (Parts{"", "a", ""}));
  EXPECT_EQ(Split("a", ','), Parts{"a"});
  EXPECT_EQ(Split("", ','), Parts{""});
}

TEST(ParseHostPort, TakesNamesAndBothKindsOfAddresses) {
  EXPECT_EQ(ParseHostPort("127.0.0.1:50051")->host, "127.0.0.1");
  EXPECT_EQ(ParseHostPort("node7:0")->port, 0);
  EXPECT_EQ(ParseHostPort("[::1]:65535")->host, "[::1]");
  for (const char* wrong : {"", "nowhere", ":1", "a:", "a:-1", "a:65536", "a:1x", "::1", "a:b:1"})
    EXPECT_EQ(ParseHostPort(wrong).status().code(), StatusCode::kInvalidArgument) << wrong;
}

TEST(IsLoopback, KnowsWhatStaysOnThisMachine) {
  for (const char* here : {"localhost", "127.0.0.1", "127.8.9.1", "[::1]", "::1"})
    EXPECT_TRUE(IsLoopback(here)) << here;
  for (const char* away :
       {"0.0.0.0", "[::]", "10.0.0.1", "node7", "127.0.0.1.example.org", "localhost.example.org", ""})
    EXPECT_FALSE(IsLoopback(away)) << away;
}

TEST(RemoveTree, RemovesFoldersAndOfLinksOnlyTheLinks) {
  namespace fs = std::filesystem;
  const fs::path root = fs::path(::testing::TempDir()) / "quarry-remove-tree";
  fs::remove_all(root);
  fs::create_directories(root / "tree" / "a folder with a long name" / "inner");
  fs::create_directories(root / "outside");
  std::ofstream(root / "outside" / "kept") << "x";
  std::ofstream(root / "tree" / "a folder with a long name" / "a file with a long name") << "x";
  fs::create_directory_symlink(root / "outside", root / "tree" / "link");

  EXPECT_TRUE(RemoveTree(root / "tree").ok());
  EXPECT_FALSE(fs::exists(root / "tree"));
  EXPECT_TRUE(fs::exists(root / "outside" / "kept"));
  EXPECT_TRUE(RemoveTree(root / "tree").ok()) << "nothing there";
  EXPECT_TRUE(RemoveTree(root / "outside" / "kept").ok()) << "a file";
  EXPECT_TRUE(fs::exists(root / "outside"));
  const Status wrong = RemoveTree("/proc/self/stat");
  EXPECT_EQ(wrong.code(), StatusCode::kInternal);
  EXPECT_NE(wrong.message().find("\"/proc/self/stat\""), std::string::npos) << wrong.message();
  fs::remove_all(root);
}

TEST(PerThread, IsOneForEachThreadAndGoesWithIt) {
  static std::atomic<int> alive = 0;
  struct Counted {
    Counted() { ++alive; }
    ~Counted() { --alive; }
    int value = 0;
  };
  static const PerThread<Counted> counted;
  EXPECT_EQ(alive, 0) << "made when it is asked for";
  counted->value = 1;
  EXPECT_EQ((*counted).value, 1);
  std::thread([] {
    EXPECT_EQ(counted->value, 0);
    counted->value = 2;
    EXPECT_EQ(alive, 2);
  }).join();
  EXPECT_EQ(alive, 1);
  EXPECT_EQ(counted->value, 1);
}

TEST(ErrnoStatus, DistinguishesMissingFilesFromFailingOnes) {
  EXPECT_EQ(ErrnoStatus(ENOENT, "open", "a").code(), StatusCode::kNotFound);
  const Status full = ErrnoStatus(ENOSPC, "write", "b.qsf");
  EXPECT_EQ(full.code(), StatusCode::kInternal);
  EXPECT_NE(full.message().find("b.qsf"), std::string::npos);
  EXPECT_NE(full.message().find("free some space"), std::string::npos);
}

TEST(Status, AnnotatePutsContextInFront) {
  EXPECT_EQ(DataLoss("bad byte").Annotate("step 3").message(), "step 3: bad byte");
  EXPECT_TRUE(Status::Ok().Annotate("step 3").ok());
  EXPECT_EQ(Result<int>(DataLoss("bad bytes")).Annotate("step 3").status().message(), "step 3: bad bytes");
  EXPECT_EQ(*Result<int>(3).Annotate("step 3"), 3);
}

TEST(Checksum, EqualsPublishedXxh3OfTheEmptyString) {
  // XXH3_64bits of zero bytes with seed 0, from the xxHash specification's test vectors.
  EXPECT_EQ(ChecksumText(Checksum({})), "2d06800538d394c2");
}

TEST(Checksum, InPiecesEqualsTheWhole) {
  Bytes bytes(10007);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 31);
  StreamingChecksum pieces;
  pieces.Update(ByteSpan(bytes).first(1));
  pieces.Update(ByteSpan(bytes).subspan(1, 5000));
  pieces.Update(ByteSpan(bytes).subspan(5001));

  EXPECT_EQ(pieces.Finish(), Checksum(bytes));
}

TEST(LittleEndian, WritesTheLowestByteFirst) {
  Bytes bytes;
  PutLittleEndian(&bytes, std::uint32_t{0x01020304});

  ASSERT_EQ(bytes.size(), 4u);
  EXPECT_EQ(bytes[0], std::byte{4});
  EXPECT_EQ(bytes[3], std::byte{1});
  EXPECT_EQ(GetLittleEndian<std::uint32_t>(bytes.data()), 0x01020304u);
}

TEST(ParseBytes, UnderstandsUnitsAndRefusesTheRest) {
  EXPECT_EQ(*ParseBytes("2GiB"), std::uint64_t{2} << 30);
  EXPECT_EQ(*ParseBytes("512 MiB"), std::uint64_t{512} << 20);
  EXPECT_EQ(*ParseBytes("1000"), 1000u);
  EXPECT_EQ(*ParseBytes("1.5K"), 1536u);
  for (const char* bad : {"", "x", "-1", "3 apples", "1e30"}) EXPECT_FALSE(ParseBytes(bad).ok()) << bad;
}

TEST(Printable, ShowsWhatWouldCommandATerminalOrALog) {
  EXPECT_EQ(Printable("p\u00e9n\u2192\U0001f30a \"x\""), "p\u00e9n\u2192\U0001f30a \"x\"");
  EXPECT_EQ(Printable("a\n[info] forged\r\t\x1b[2J\x7f"), "a\\x0a[info] forged\\x0d\\x09\\x1b[2J\\x7f");
  EXPECT_EQ(Printable("\u009b31m \u2028 \u202e"), "\\u009b31m \\u2028 \\u202e");
  EXPECT_EQ(Printable("bad\xff\xe2\x82"), "bad\\xff\\xe2\\x82");
}

TEST(IsUtf8, FollowsTheStandard) {
  for (const char* good : {"", "m/s", "\xc2\xb5m", "\xe2\x82\xac", "\xf0\x9f\x8c\x8a"})
    EXPECT_TRUE(IsUtf8(good)) << good;
  // A lone continuation, an overlong slash, a surrogate, a code point beyond the last, a truncated sequence.
  for (const char* bad : {"\x80", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82"})
    EXPECT_FALSE(IsUtf8(bad));
  EXPECT_EQ(ToUtf8("dump\xff.raw"), "dump?.raw");
}

class FileTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("quarry-file-test-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path folder_;
};

TEST_F(FileTest, ReplaceFileLeavesTheOldFileOrTheNewOne) {
  const Bytes first(3, std::byte{1});
  const Bytes second(5, std::byte{2});
  ASSERT_TRUE(ReplaceFile(folder_ / "a", first).ok());
  ASSERT_TRUE(ReplaceFile(folder_ / "a", second).ok());

  EXPECT_EQ(*ReadWholeFile(folder_ / "a", 100), second);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1) << "no temporary file stays";
}

TEST_F(FileTest, AMappedFileAppearsWholeOrNotAtAll) {
  std::ofstream(folder_ / "a") << "old";
  {
    MappedFile dropped = *MappedFile::Create(folder_ / "a", 5000);
    ASSERT_EQ(dropped.bytes().size(), 5000u);
    std::ranges::fill(dropped.bytes(), std::byte{7});
  }
  EXPECT_EQ(*ReadTextFile(folder_ / "a", 100), "old");
  MappedFile file = *MappedFile::Create(folder_ / "a", 5000);
  std::ranges::fill(file.bytes(), std::byte{9});
  EXPECT_EQ(*ReadTextFile(folder_ / "a", 100), "old");

  const Status published = file.Publish();

  ASSERT_TRUE(published.ok()) << published.message();
  EXPECT_EQ(*ReadWholeFile(folder_ / "a", 5000), Bytes(5000, std::byte{9}));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1) << "no temporary file stays";
}

TEST_F(FileTest, AMappedFileWithoutSpaceIsAnErrorBeforeItIsTouched) {
  const Status status = MappedFile::Create(folder_ / "a", std::uint64_t{1} << 60).status();
  EXPECT_EQ(status.code(), StatusCode::kInternal) << status.message();
  EXPECT_NE(status.message().find("free some space"), std::string::npos) << status.message();
  EXPECT_EQ(MappedFile::Create(folder_ / "no" / "a", 5).status().code(), StatusCode::kNotFound);
  EXPECT_TRUE(std::filesystem::is_empty(folder_)) << "no temporary file stays";
}

TEST_F(FileTest, CreateRefusesToWriteOverAFile) {
  std::ofstream(folder_ / "a") << "precious";
  EXPECT_FALSE(WritableFile::Create(folder_ / "a").ok());
}

TEST_F(FileTest, ReadPastTheEndIsDataLossThatSaysWhere) {
  std::ofstream(folder_ / "a") << "12345";
  const auto file = RandomAccessFile::Open(folder_ / "a");
  Bytes bytes(4);
  const Status status = file->ReadAt(3, bytes);

  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_NE(status.message().find("ends at byte 5"), std::string::npos) << status.message();
}

TEST(Beginning, EndsBetweenCharacters) {
  const std::string text = "a\u00e9\u20ac\U0001f600";  // 1, 2, 3 and 4 bytes
  const std::vector<std::size_t> lengths = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 10};
  for (std::size_t most = 0; most < lengths.size(); ++most) {
    EXPECT_EQ(Beginning(text, most).size(), lengths[most]) << most;
    EXPECT_TRUE(IsUtf8(Beginning(text, most)));
  }
  EXPECT_EQ(Beginning("\x80\x80\x80\x80\x80\x80", 5).size(), 2u) << "no UTF-8: cut somewhere near";
}

TEST(StreamBytes, CopiesThoseBytesAndNoOthersFromAnyPlaceToAnyOther) {
  constexpr std::byte kGuard{0xa5};
  Bytes from;
  for (int i = 0; i < 500; ++i) from.push_back(static_cast<std::byte>(i * 7));
  for (std::size_t begin = 0; begin < 66; ++begin) {
    for (const std::size_t bytes : {0, 1, 15, 63, 64, 65, 127, 128, 200, 256, 301}) {
      Bytes to(500, kGuard);
      StreamBytes(to.data() + begin, from.data() + begin / 2, bytes);
      EndStreaming();
      Bytes expected(500, kGuard);
      std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(begin / 2), bytes,
                  expected.begin() + static_cast<std::ptrdiff_t>(begin));
      ASSERT_EQ(to, expected) << bytes << " bytes to " << begin;
    }
  }
}

TEST(SampleValue, KeepsEveryDigitOfIntegers) {
  for (const char* text : {"-9223372036854775808", "-9223372036854775807", "9223372036854775807", "0",
                           "9223372036854775808", "18446744073709551615", "9007199254740993"}) {
    const auto value = ParseInteger(text);
    ASSERT_TRUE(value) << text;
    const bool is_signed = value->As<std::int64_t>().has_value();
    EXPECT_EQ(is_signed ? fmt::format("{}", *value->As<std::int64_t>())
                        : fmt::format("{}", *value->As<std::uint64_t>()),
              text);
  }
  EXPECT_EQ(ToString(*ParseInteger("18446744073709551615")), "18446744073709551615");
  EXPECT_FALSE(ParseInteger("18446744073709551616"));
  EXPECT_FALSE(ParseInteger("1.0"));
}

TEST(SampleValue, IsHeldByTypesThatHaveIt) {
  const auto largest = SampleValue(std::numeric_limits<std::int64_t>::max());
  EXPECT_TRUE(CanHold(DataType::kInt64, largest));
  EXPECT_TRUE(CanHold(DataType::kUint64, largest));
  EXPECT_FALSE(CanHold(DataType::kFloat64, largest)) << "2^63 is another number";
  EXPECT_FALSE(CanHold(DataType::kInt64, 0x1p63));
  EXPECT_TRUE(CanHold(DataType::kUint64, 0x1p63));
  EXPECT_FALSE(CanHold(DataType::kUint64, -1));
  EXPECT_TRUE(CanHold(DataType::kInt64, -0x1p63));
  EXPECT_FALSE(CanHold(DataType::kInt32, 2147483648.0));
  EXPECT_FALSE(CanHold(DataType::kInt8, 0.5));
  EXPECT_FALSE(CanHold(DataType::kInt64, std::nan("")));
  EXPECT_TRUE(CanHold(DataType::kFloat32, std::nan("")));
  EXPECT_EQ(BitsOf(DataType::kUint64, std::numeric_limits<std::uint64_t>::max()), ~std::uint64_t{0});
  EXPECT_EQ(BitsOf(DataType::kInt16, -2), 0xfffeu);
}

TEST(WideIntegers, AreSubtractedBeforeTheyAreRounded) {
  constexpr std::int64_t kLarge = (std::int64_t{1} << 62) + 1;
  EXPECT_EQ(Difference<double>(kLarge, kLarge - 1), 1);
  EXPECT_EQ(Difference<double>(~std::uint64_t{0}, std::uint64_t{5}), 0x1p64);
  EXPECT_EQ(
      Difference<double>(std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()),
      -0x1p64);
  EXPECT_EQ(RoundedDown(~std::uint64_t{0}), std::nextafter(0x1p64, 0));
  EXPECT_EQ(RoundedUp(std::numeric_limits<std::int64_t>::min()), -0x1p63);
}

TEST(Float16, EveryNumberComesBackWithItsBits) {
  for (std::uint32_t half = 0; half < 0x10000; ++half)
    ASSERT_EQ(HalfOfFloat(FloatOfHalf(static_cast<std::uint16_t>(half))), half);
  EXPECT_EQ(FloatOfHalf(0x3c00), 1);
  EXPECT_EQ(FloatOfHalf(0xc000), -2);
  EXPECT_EQ(FloatOfHalf(0x0001), 0x1p-24F);
  EXPECT_EQ(FloatOfHalf(0x7bff), 65504);
}

}  // namespace
}  // namespace quarry
