// The cache on disk: right bytes whatever is in its files, few questions to the storage behind, a bounded
// size.
#include "quarry/disk_cache/disk_cache.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <random>

#include "quarry/base/checksum.h"
#include "quarry/dataset/table_locator.h"
#include "quarry/disk_cache/cached_storage.h"
#include "tests/testing/faulty_storage.h"
#include "tests/testing/make_dataset.h"
#include "tests/testing/memory_storage.h"
#include "tests/testing/temporary_folder.h"

namespace quarry::disk_cache {
namespace {

namespace fs = std::filesystem;
using quarry::testing::Fault;
using quarry::testing::FaultyStorage;
using quarry::testing::MemoryStorage;
using quarry::testing::Operation;

constexpr std::uint64_t kContent = 0x1234;

Bytes RandomBytes(std::size_t size, unsigned seed) {
  std::mt19937 random(seed);
  Bytes bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

/// A storage of one object, behind caches in one folder.
class DiskCacheTest : public ::testing::Test {
 protected:
  void Put(Bytes bytes) {
    bytes_ = std::move(bytes);
    ASSERT_TRUE(memory_->Put("a", bytes_).ok());
  }

  /// As another process has it.
  std::shared_ptr<const Storage> Cached(std::uint64_t most = 1 << 30) {
    auto cache = DiskCache::At(folder(), most);
    EXPECT_TRUE(cache.ok()) << cache.status().message();
    return std::make_shared<const CachedStorage>(origin_, *cache);
  }

  Bytes Read(const Storage& storage, std::uint64_t offset, std::uint64_t size,
             std::uint64_t content = kContent) {
    Bytes out(size);
    const Status status = storage.Refer("a", bytes_.size(), content)->ReadAt(offset, out);
    EXPECT_TRUE(status.ok()) << status.message();
    return out;
  }

  Bytes Part(std::uint64_t offset, std::uint64_t size) const {
    const auto begin = bytes_.begin() + static_cast<std::ptrdiff_t>(offset);
    return {begin, begin + static_cast<std::ptrdiff_t>(size)};
  }

  std::size_t asked() const { return origin_->Calls(Operation::kRead).size(); }
  std::string folder() const { return (temporary_.path() / "cache").string(); }

  std::vector<fs::path> Files() const {
    std::vector<fs::path> files;
    for (const auto& entry : fs::recursive_directory_iterator(temporary_.path() / "cache" / "blocks-1")) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
    return files;
  }

  const quarry::testing::TemporaryFolder temporary_;
  const std::shared_ptr<MemoryStorage> memory_ = std::make_shared<MemoryStorage>();
  const std::shared_ptr<FaultyStorage> origin_ = std::make_shared<FaultyStorage>(memory_);
  Bytes bytes_;
};

TEST_F(DiskCacheTest, WhatWasReadOnceIsNotAskedForAgain) {
  Put(RandomBytes(3 * kBlock + 100, 1));
  const std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges = {
      {0, 1},           {kBlock - 1, 2},       {5, 3 * kBlock}, {3 * kBlock, 100}, {3 * kBlock + 99, 1},
      {kBlock, kBlock}, {0, 3 * kBlock + 100}, {2 * kBlock, 50}};
  for (const auto& [offset, size] : ranges) {
    const auto first = Cached();
    EXPECT_EQ(Read(*first, offset, size), Part(offset, size));
    origin_->ForgetCalls();
    EXPECT_EQ(Read(*first, offset, size), Part(offset, size));
    EXPECT_EQ(Read(*Cached(), offset, size), Part(offset, size));
    EXPECT_EQ(asked(), 0u);
  }
}

TEST_F(DiskCacheTest, RangesOfManySegmentsAndWhatLiesBetweenThem) {
  Put(RandomBytes(2 * kSegment + kSegment / 2, 2));
  EXPECT_EQ(Read(*Cached(), kSegment - 10, 20), Part(kSegment - 10, 20));
  EXPECT_EQ(Read(*Cached(), 2 * kSegment - 10, 20), Part(2 * kSegment - 10, 20));
  origin_->ForgetCalls();
  EXPECT_EQ(Read(*Cached(), kSegment - 10, kSegment + 20), Part(kSegment - 10, kSegment + 20));
  ASSERT_EQ(asked(), 1u);
  EXPECT_EQ(origin_->Calls(Operation::kRead)[0].offset, kSegment + kBlock);
  EXPECT_EQ(origin_->Calls(Operation::kRead)[0].size, kSegment - 2 * kBlock);
}

TEST_F(DiskCacheTest, NothingIsReadBeyondTheBlocksOfARange) {
  Put(RandomBytes(10 * kBlock, 3));
  Read(*Cached(), 2 * kBlock + 1, kBlock);
  ASSERT_EQ(asked(), 1u);
  EXPECT_EQ(origin_->Calls(Operation::kRead)[0].offset, 2 * kBlock);
  EXPECT_EQ(origin_->Calls(Operation::kRead)[0].size, 2 * kBlock);
}

TEST_F(DiskCacheTest, AFlippedByteOfAFileIsNeverRead) {
  Put(RandomBytes(kBlock + 500, 4));
  EXPECT_EQ(Read(*Cached(), 0, bytes_.size()), bytes_);
  ASSERT_EQ(Files().size(), 1u);
  const fs::path file = Files()[0];
  constexpr std::uint64_t kTable = 4096, kData = kTable + 16 * kSegmentBlocks;
  std::vector<std::uint64_t> places;
  for (std::uint64_t i = 0; i < 50; ++i) places.push_back(i);
  for (std::uint64_t i = 0; i < 32; ++i) places.push_back(kTable + i);
  for (std::uint64_t i = 0; i < bytes_.size(); i += 7) places.push_back(kData + i);
  std::size_t again = 0;
  for (const std::uint64_t place : places) {
    {
      std::fstream open(file, std::ios::in | std::ios::out | std::ios::binary);
      open.seekg(static_cast<std::streamoff>(place));
      const int byte = open.get();
      open.seekp(static_cast<std::streamoff>(place));
      open.put(static_cast<char>(byte ^ (1 << (place % 8))));
    }
    origin_->ForgetCalls();
    const auto storage = Cached();
    ASSERT_EQ(Read(*storage, 0, bytes_.size()), bytes_) << "byte " << place;
    again += asked();
    origin_->ForgetCalls();
    ASSERT_EQ(Read(*storage, 0, bytes_.size()), bytes_) << "byte " << place;
    ASSERT_EQ(asked(), 0u) << "byte " << place << " is not mended";
  }
  EXPECT_EQ(again, places.size());  // each flip was noticed
}

TEST_F(DiskCacheTest, AFileThatIsCutIsReadAsFarAsItGoes) {
  Put(RandomBytes(4 * kBlock, 5));
  constexpr std::uint64_t kData = 4096 + 16 * kSegmentBlocks;
  for (const std::uint64_t size : std::initializer_list<std::uint64_t>{0, 10, 4096, 4100, kData - 1,
                                                                       kData + 3, kData + 2 * kBlock + 5}) {
    EXPECT_EQ(Read(*Cached(), 0, bytes_.size()), bytes_);
    fs::resize_file(Files()[0], size);
    EXPECT_EQ(Read(*Cached(), 0, bytes_.size()), bytes_) << size;
  }
}

TEST_F(DiskCacheTest, AnotherContentOrSizeIsAnotherObject) {
  Put(RandomBytes(2 * kBlock, 6));
  const Bytes old = Read(*Cached(), 0, bytes_.size());
  Put(RandomBytes(2 * kBlock, 7));
  EXPECT_EQ(Read(*Cached(), 0, bytes_.size(), kContent), old);  // as promised
  EXPECT_EQ(Read(*Cached(), 0, bytes_.size(), kContent + 1), bytes_);
  Put(RandomBytes(3 * kBlock, 8));
  EXPECT_EQ(Read(*Cached(), 0, bytes_.size(), kContent), bytes_);
}

/// A file has the name of another one, as with equal hashes: each is what its front and entries say.
TEST_F(DiskCacheTest, AFileInThePlaceOfAnotherIsNotRead) {
  Put(RandomBytes(2 * kBlock, 9));
  Read(*Cached(), 0, bytes_.size(), 1);
  const fs::path one = Files()[0];
  const fs::path copy = temporary_.path() / "copy";
  fs::copy_file(one, copy);
  Put(RandomBytes(2 * kBlock, 10));
  Read(*Cached(), 0, bytes_.size(), 2);
  for (const fs::path& file : Files()) fs::copy_file(copy, file, fs::copy_options::overwrite_existing);
  EXPECT_EQ(Read(*Cached(), 0, bytes_.size(), 2), bytes_);
  EXPECT_EQ(Read(*Cached(), 0, bytes_.size(), 2), bytes_);
}

TEST_F(DiskCacheTest, OtherObjectsAreAskedForEachTime) {
  Put(RandomBytes(100, 11));
  const auto storage = Cached();
  for (int i = 0; i < 2; ++i) {
    Put(RandomBytes(100, 12 + static_cast<unsigned>(i)));
    EXPECT_EQ(*storage->ReadWhole("a", 1000), bytes_);
    EXPECT_EQ(storage->OpenWith("a", FileEnd::kFront, 1000, nullptr)->bytes, bytes_);
    Bytes out(100);
    const auto object = *storage->Open("a");
    ASSERT_TRUE(object->ReadAt(0, out).ok());
    EXPECT_EQ(out, bytes_);
    EXPECT_EQ(storage->AllowCopies(object), object);  // a storage in memory has no versions
  }
  EXPECT_EQ(asked(), 6u);
  EXPECT_TRUE(Files().empty());
}

TEST_F(DiskCacheTest, WrongCopiesAreDroppedWhenTheReaderSaysSo) {
  Put(RandomBytes(2 * kBlock, 13));
  origin_->Add(Operation::kRead, "*", 1, 1, Fault::Lie());
  const auto storage = Cached();
  const auto lied_to = storage->Refer("a", bytes_.size(), kContent);
  Bytes out(bytes_.size());
  ASSERT_TRUE(lied_to->ReadAt(0, out).ok());
  EXPECT_NE(out, bytes_);
  EXPECT_FALSE(lied_to->Distrust(0, out.size()));  // no copy was read

  const auto later = Cached()->Refer("a", bytes_.size(), kContent);
  const auto other = Cached();
  const auto object = other->Refer("a", bytes_.size(), kContent);
  ASSERT_TRUE(object->ReadAt(0, out).ok());
  EXPECT_NE(out, bytes_);
  EXPECT_TRUE(object->Distrust(0, out.size()));
  ASSERT_TRUE(object->ReadAt(0, out).ok());
  EXPECT_EQ(out, bytes_);
  EXPECT_EQ(Read(*Cached(), 0, bytes_.size()), bytes_);
}

TEST_F(DiskCacheTest, TwoCachesInAFolderKeepToItsSize) {
  constexpr std::uint64_t kMost = 2 << 20;
  Put(RandomBytes(100 << 10, 14));
  const auto one = Cached(kMost), two = Cached(kMost);
  const auto cache = *DiskCache::At(folder(), kMost);
  std::uint64_t largest = 0;
  for (std::uint64_t content = 0; content < 100; ++content) {
    EXPECT_EQ(Read(content % 2 == 0 ? *one : *two, 0, bytes_.size(), content), bytes_);
    largest = std::max(largest, cache->List()->bytes);
  }
  EXPECT_LE(largest, kMost + 2 * kMost / 32);
  EXPECT_GE(largest, kMost / 2);
}

TEST_F(DiskCacheTest, WhatWasUsedLastStays) {
  Put(RandomBytes(100 << 10, 15));
  const auto storage = Cached();
  for (std::uint64_t content = 0; content < 10; ++content) Read(*storage, 0, bytes_.size(), content);
  for (const fs::path& file : Files())
    fs::last_write_time(file, fs::file_time_type::clock::now() - std::chrono::hours(1));
  Read(*storage, 0, bytes_.size(), 3);
  Read(*storage, 0, bytes_.size(), 7);
  ASSERT_TRUE((*DiskCache::At(folder(), 0))->Trim(300 << 10).ok());
  origin_->ForgetCalls();
  Read(*storage, 0, bytes_.size(), 3);
  Read(*storage, 0, bytes_.size(), 7);
  EXPECT_EQ(asked(), 0u);
  EXPECT_LE((*DiskCache::At(folder(), 0))->List()->bytes, 300u << 10);
}

TEST_F(DiskCacheTest, NobodyWaitsForOneWhoEvicts) {
  Put(RandomBytes(100 << 10, 16));
  const auto storage = Cached(1 << 20);
  const int lock = ::open((folder() + "/lock").c_str(), O_RDWR | O_CREAT, 0600);
  ASSERT_EQ(::flock(lock, LOCK_EX), 0);
  for (std::uint64_t content = 0; content < 30; ++content)
    EXPECT_EQ(Read(*storage, 0, bytes_.size(), content), bytes_);
  EXPECT_LE((*DiskCache::At(folder(), 0))->List()->bytes, 1u << 20);
  EXPECT_EQ((*DiskCache::At(folder(), 0))->Trim(0).code(), StatusCode::kUnavailable);
  ::close(lock);
  EXPECT_TRUE((*DiskCache::At(folder(), 0))->Trim(0).ok());
  EXPECT_TRUE(Files().empty());
}

TEST_F(DiskCacheTest, OnlyFilesOfTheCacheAreRemoved) {
  Put(RandomBytes(100, 17));
  Read(*Cached(), 0, 100);
  const fs::path blocks = temporary_.path() / "cache" / "blocks-1";
  fs::create_directories(blocks / "ab");
  for (const fs::path& other : {temporary_.path() / "cache" / "notes", blocks / "ab" / "notes"})
    std::ofstream(other) << "mine";
  ASSERT_TRUE((*DiskCache::At(folder(), 0))->Trim(0).ok());
  EXPECT_TRUE(fs::exists(temporary_.path() / "cache" / "notes"));
  EXPECT_EQ(Files(), std::vector<fs::path>{blocks / "ab" / "notes"});
}

TEST_F(DiskCacheTest, AFolderThatOthersMayWriteToIsNotUsed) {
  fs::create_directory(folder());
  ASSERT_EQ(::chmod(folder().c_str(), 0777), 0);
  EXPECT_EQ(DiskCache::At(folder(), 1).status().code(), StatusCode::kFailedPrecondition);
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 2; ++i) EXPECT_EQ(*DiskCache::Open({folder(), 1}), nullptr);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("others may write"), std::string::npos) << said;
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
}

TEST_F(DiskCacheTest, AFolderIsMadeForItsUserAlone) {
  const auto cache = *DiskCache::At(folder() + "/below/this", 1 << 20);
  ASSERT_NE(cache, nullptr);
  for (const char* name : {"/below/this", "/below/this/blocks-1"}) {
    struct stat info;
    ASSERT_EQ(::stat((folder() + name).c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0700u) << name;
  }
}

/// Files cannot grow beyond some bytes, as on a full disk.
TEST_F(DiskCacheTest, AFullDiskCostsTheCacheAndNotTheRead) {
  Put(RandomBytes(20 * kBlock, 18));
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    constexpr std::uint64_t kMost = 4096 + 16 * kSegmentBlocks + 5 * kBlock;
    const rlimit limit{kMost, kMost};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const auto storage = Cached();
    bool right = true;
    for (int i = 0; i < 3; ++i) right = right && Read(*storage, 0, bytes_.size()) == bytes_;
    ::_exit(right ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(Read(*Cached(), 0, bytes_.size()), bytes_);
}

TEST_F(DiskCacheTest, AnErrorOfTheStorageIsThatOfTheReadAndKeepsNothing) {
  Put(RandomBytes(3 * kBlock, 19));
  origin_->Add(Operation::kRead, "*", 1, 1, Fault::Fail(Unavailable("gone")));
  const auto storage = Cached();
  Bytes out(100);
  const auto object = storage->Refer("a", bytes_.size(), kContent);
  EXPECT_EQ(object->ReadAt(0, out).code(), StatusCode::kUnavailable);
  EXPECT_TRUE(Files().empty());
  ASSERT_TRUE(object->ReadAt(0, out).ok());
  EXPECT_EQ(out, Part(0, 100));
  EXPECT_EQ(object->ReadAt(bytes_.size() - 1, out).code(), StatusCode::kDataLoss);
  EXPECT_EQ(storage->Refer("b", 10, kContent)->ReadAt(0, std::span(out).first(5)).code(),
            StatusCode::kNotFound);
  const ReadRange range{object.get(), 0, out};
  EXPECT_EQ(storage->ReadRanges(std::span(&range, 1), [] { return true; }).code(), StatusCode::kCancelled);
}

/// Files of a cache have no secret: what is in them is the URL of the object without its query.
TEST_F(DiskCacheTest, ListsObjectsByTheirUrls) {
  Put(RandomBytes(100, 20));
  Read(*Cached(), 0, 100);
  const Contents contents = *(*DiskCache::At(folder(), 0))->List();
  ASSERT_EQ(contents.objects.size(), 1u);
  EXPECT_EQ(contents.objects[0].url, "a");
  EXPECT_EQ(contents.files, 1u);
  EXPECT_EQ(contents.bytes, contents.objects[0].bytes);
}

/// A dataset in memory that is read through a cache.
class CachedDatasetTest : public DiskCacheTest {
 protected:
  void Make(quarry::testing::DatasetRecipe recipe) {
    const quarry::testing::TemporaryFolder folder;
    quarry::testing::MakeDataset(folder.path() / "d.quarry", recipe);
    ASSERT_TRUE(memory_->CopyFolder(folder.path() / "d.quarry", "d.quarry").ok());
  }
  Result<std::vector<float>> ReadBox(const std::shared_ptr<const Storage>& storage) {
    QUARRY_ASSIGN_OR_RETURN(const auto dataset, Dataset::Open(Location(storage, "d.quarry")));
    query::ReadRequest request;
    request.field = "pressure";
    return quarry::testing::TryReadAll(*dataset, request);
  }
  static std::size_t AskedForSubfiles(const FaultyStorage& origin) {
    const auto calls = origin.Calls(Operation::kRead);
    return static_cast<std::size_t>(std::count_if(
        calls.begin(), calls.end(), [](const auto& call) { return call.path.ends_with(".qsf"); }));
  }
};

TEST_F(CachedDatasetTest, TheSecondReadAsksForNoSubfile) {
  Make({.missing = true});
  const auto wanted = ReadBox(memory_);
  ASSERT_TRUE(wanted.ok()) << wanted.status().message();
  const auto equal = [&](const Result<std::vector<float>>& got) {
    return got.ok() && std::memcmp(got->data(), wanted->data(), wanted->size() * sizeof(float)) == 0;
  };
  EXPECT_TRUE(equal(ReadBox(Cached())));
  EXPECT_GT(AskedForSubfiles(*origin_), 0u);
  origin_->ForgetCalls();
  EXPECT_TRUE(equal(ReadBox(Cached())));
  EXPECT_EQ(AskedForSubfiles(*origin_), 0u);
}

/// A store once gave wrong bytes for a subfile, which were kept with right checksums of blocks: of its table
/// or of its payload. The next read drops them and is right.
TEST_F(CachedDatasetTest, WrongBytesOfTheStoreAreNotKeptForEver) {
  Make({.dims = {70, 66, 40}, .patch = {16, 16, 16}, .files = 2, .block_bits = 2});
  const auto wanted = ReadBox(memory_);
  ASSERT_TRUE(wanted.ok());
  const auto honest = std::make_shared<FaultyStorage>(memory_);
  ASSERT_TRUE(ReadBox(Cached()).ok());
  const std::size_t clean = AskedForSubfiles(*origin_);
  ASSERT_GT(clean, 3u);
  int failed = 0, mended = 0;
  for (std::uint64_t lie = 1; lie <= clean; ++lie) {
    fs::remove_all(folder());
    honest->ForgetCalls();
    const auto liar = std::make_shared<FaultyStorage>(memory_);
    liar->Add(Operation::kRead, "*.qsf", lie, 1, Fault::Lie());
    const auto first =
        ReadBox(std::make_shared<const CachedStorage>(liar, *DiskCache::At(folder(), 1 << 30)));
    failed += first.ok() ? 0 : 1;
    mended += first.ok() && AskedForSubfiles(*liar) > clean ? 1 : 0;
    for (int again = 0; again < 2; ++again) {
      const auto got =
          ReadBox(std::make_shared<const CachedStorage>(honest, *DiskCache::At(folder(), 1 << 30)));
      ASSERT_TRUE(got.ok()) << "lie " << lie << ": " << got.status().message();
      EXPECT_EQ(*got, *wanted);
    }
  }
  EXPECT_GT(failed + mended, 2) << failed << " and " << mended << " of " << clean;
}

/// Copies are wrong, with right checksums of blocks: all of a dataset, or payloads alone, whose tables are
/// right.
TEST_F(CachedDatasetTest, NoWrongCopyOfATableOrAPayloadIsBelieved) {
  Make({.dims = {70, 66, 40}, .patch = {16, 16, 16}, .files = 2, .missing = true, .block_bits = 2});
  const auto wanted = ReadBox(memory_);
  ASSERT_TRUE(wanted.ok());
  const auto dataset = *Dataset::Open(Location(memory_, "d.quarry"));
  const auto field = *dataset->FieldOf(0, "pressure");
  for (const bool payloads_alone : {false, true}) {
    fs::remove_all(folder());
    const auto cache = *DiskCache::At(folder(), 1 << 30);
    const auto spoil = [&](const Location& path, const SubfileDescription& subfile) {
      Bytes bytes = *path.ReadWhole(1 << 30);
      // Payloads come first, behind the header.
      const std::size_t begin = payloads_alone ? 200 : 0;
      const std::size_t end = payloads_alone ? bytes.size() / 2 : bytes.size();
      for (std::size_t i = begin; i < end; i += 50) bytes[i] ^= std::byte{4};
      cache->Write({path.path, "content " + ChecksumText(subfile.table_checksum), subfile.bytes}, 0, bytes);
    };
    for (std::size_t s = 0; s < field->subfiles.size(); ++s)
      spoil(SubfileLocation(dataset->root(), 0, "pressure", s), field->subfiles[s]);
    for (std::size_t s = 0; s < field->mask->subfiles.size() && !payloads_alone; ++s)
      spoil(MaskSubfileLocation(dataset->root(), field->mask->name, s), field->mask->subfiles[s]);
    for (int again = 0; again < 2; ++again) {
      const auto got = ReadBox(std::make_shared<const CachedStorage>(origin_, cache));
      ASSERT_TRUE(got.ok()) << payloads_alone << " " << got.status().message();
      EXPECT_EQ(std::memcmp(got->data(), wanted->data(), wanted->size() * sizeof(float)), 0);
    }
  }
}

/// Another dataset comes to the same place.
TEST_F(CachedDatasetTest, ARepublishedDatasetIsReadAnew) {
  Make({.tolerance = 1e-3});
  ASSERT_TRUE(ReadBox(Cached()).ok());
  ASSERT_TRUE(memory_->Remove("d.quarry").ok());
  Make({.tolerance = 1e-2});
  const auto wanted = ReadBox(memory_), got = ReadBox(Cached());
  ASSERT_TRUE(got.ok()) << got.status().message();
  EXPECT_EQ(*got, *wanted);
}

}  // namespace
}  // namespace quarry::disk_cache
