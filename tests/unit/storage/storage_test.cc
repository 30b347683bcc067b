// Promises of every storage, tested for the file system and for memory; and properties of each alone.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <filesystem>
#include <fstream>
#include <latch>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "quarry/base/cancel_scope.h"
#include "quarry/base/file.h"
#include "quarry/storage/posix_storage.h"
#include "quarry/storage/stamp_watch.h"
#include "tests/testing/failing_memory.h"
#include "tests/testing/faulty_storage.h"
#include "tests/testing/late_storage.h"
#include "tests/testing/memory_storage.h"

namespace quarry {
namespace {

namespace fs = std::filesystem;
using testing::Fault;
using testing::FaultyStorage;
using testing::Operation;

const auto kNever = [] { return false; };

Bytes BytesOf(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::string TextOf(ByteSpan bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

/// A folder of a tested storage, and ways to change its contents.
class Site {
 public:
  virtual ~Site() = default;
  virtual Location root() const = 0;
  virtual void Put(const std::string& path, std::string_view text) = 0;
  virtual void MakeFolder(const std::string& path) = 0;
  virtual void Rename(const std::string& from, const std::string& to) = 0;
  virtual void Remove(const std::string& path) = 0;
  /// Makes an object's last change an old one.
  virtual void Age(const std::string& path) = 0;
};

class PosixSite : public Site {
 public:
  PosixSite() {
    std::string pattern = (fs::temp_directory_path() / "quarry-test-XXXXXX").string();
    EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
  }
  ~PosixSite() override { fs::remove_all(root_); }
  Location root() const override { return root_; }
  void Put(const std::string& path, std::string_view text) override {
    fs::create_directories((root_ / path).parent_path());
    const fs::path staged = root_.string() + ".staged";
    std::ofstream(staged, std::ios::binary) << text;
    fs::rename(staged, root_ / path);
  }
  void MakeFolder(const std::string& path) override { fs::create_directories(root_ / path); }
  void Rename(const std::string& from, const std::string& to) override {
    fs::rename(root_ / from, root_ / to);
  }
  void Remove(const std::string& path) override { EXPECT_GT(fs::remove_all(root_ / path), 0u); }
  void Age(const std::string& path) override {
    const timespec times[2] = {{1000, 0}, {1000, 0}};
    EXPECT_EQ(::utimensat(AT_FDCWD, (root_ / path).c_str(), times, 0), 0);
  }

 private:
  fs::path root_;
};

/// The same behind a server's rule for links.
class BelowSite final : public PosixSite {
 public:
  Location root() const override {
    return {std::make_shared<PosixStorage>(PosixSite::root().path, FollowLinks::kOwner),
            PosixSite::root().path};
  }
};

/// The same as on a file server: several threads read.
class ServerSite final : public PosixSite {
 public:
  Location root() const override {
    const ReadCosts costs{.latency = 0.002, .bandwidth = 1e9, .side_by_side = 16, .most_bytes = 4096};
    return {std::make_shared<PosixStorage>(costs), PosixSite::root().path};
  }
};

class MemorySite : public Site {
 public:
  MemorySite() { EXPECT_TRUE(memory_->MakeFolder("some/root").ok()); }
  Location root() const override { return {memory_, "some/root"}; }
  void Put(const std::string& path, std::string_view text) override {
    EXPECT_TRUE(memory_->Put("some/root/" + path, BytesOf(text)).ok());
  }
  void MakeFolder(const std::string& path) override {
    EXPECT_TRUE(memory_->MakeFolder("some/root/" + path).ok());
  }
  void Rename(const std::string& from, const std::string& to) override {
    EXPECT_TRUE(memory_->Rename("some/root/" + from, "some/root/" + to).ok());
  }
  void Remove(const std::string& path) override { EXPECT_TRUE(memory_->Remove("some/root/" + path).ok()); }
  void Age(const std::string&) override {}

 private:
  std::shared_ptr<testing::MemoryStorage> memory_ = std::make_shared<testing::MemoryStorage>();
};

/// The same with late answers, on threads of the storage.
class LateSite final : public MemorySite {
 public:
  Location root() const override { return {late_, MemorySite::root().path}; }

 private:
  const std::shared_ptr<const Storage> late_ =
      std::make_shared<testing::LateStorage>(MemorySite::root().storage);
};

class StorageTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == "posix") site_ = std::make_unique<PosixSite>();
    if (GetParam() == "below") site_ = std::make_unique<BelowSite>();
    if (GetParam() == "server") site_ = std::make_unique<ServerSite>();
    if (GetParam() == "memory") site_ = std::make_unique<MemorySite>();
    if (GetParam() == "late") site_ = std::make_unique<LateSite>();
    root_ = site_->root();
  }

  std::unique_ptr<Site> site_;
  Location root_;
};

INSTANTIATE_TEST_SUITE_P(Every, StorageTest, ::testing::Values("posix", "below", "server", "memory", "late"),
                         [](const auto& info) { return info.param; });

TEST_P(StorageTest, ListsTheNamesOfAFolderInOrder) {
  site_->Put("b.txt", "b");
  site_->Put("b/inner/deep.txt", "deep");
  site_->Put("a", "a");
  site_->MakeFolder("empty");

  const auto entries = root_.List();
  ASSERT_TRUE(entries.ok()) << entries.status().message();
  EXPECT_EQ(*entries, (std::vector<FolderEntry>{{"a", ObjectKind::kFile},
                                                {"b", ObjectKind::kFolder},
                                                {"b.txt", ObjectKind::kFile},
                                                {"empty", ObjectKind::kFolder}}));
  EXPECT_TRUE((root_ / "empty").List()->empty());
}

TEST_P(StorageTest, AMissingThingIsNotFoundWhateverIsAskedOfIt) {
  site_->Put("file", "text");
  for (const char* name : {"none", "none/below", "file/below"}) {
    const Location missing = root_ / name;
    EXPECT_EQ(missing.Stat().status().code(), StatusCode::kNotFound) << name;
    EXPECT_EQ(missing.Open().status().code(), StatusCode::kNotFound) << name;
    EXPECT_EQ(missing.List().status().code(), StatusCode::kNotFound) << name;
    EXPECT_EQ(missing.ReadWhole(100).status().code(), StatusCode::kNotFound) << name;
    EXPECT_NE(missing.Open().status().message().find("\"" + missing.path + "\""), std::string::npos);
    EXPECT_EQ(StampOf(missing).text, "-");
  }
  EXPECT_EQ((root_ / "file").List().status().code(), StatusCode::kNotFound);
}

TEST_P(StorageTest, AFolderCannotBeRead) {
  const Status status = root_.Open().status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(
      status.message(),
      "\"" + root_.path + "\" is a folder where a file should be; replace it, or give the path of a file");
}

TEST_P(StorageTest, StatTellsFilesFromFoldersAndHowLargeTheyAre) {
  site_->Put("file", "12345");

  EXPECT_EQ(root_.Stat()->kind, ObjectKind::kFolder);
  EXPECT_EQ((root_ / "file").Stat()->kind, ObjectKind::kFile);
  EXPECT_EQ((root_ / "file").Stat()->size, 5u);
}

TEST_P(StorageTest, ReadsAreOfTheBytesAskedForAndEndWithTheFile) {
  site_->Put("file", "0123456789");
  const auto object = *(root_ / "file").Open();
  EXPECT_EQ(object->size(), 10u);
  EXPECT_EQ(object->path(), (root_ / "file").path);

  Bytes bytes(4);
  ASSERT_TRUE(object->ReadAt(3, bytes).ok());
  EXPECT_EQ(TextOf(bytes), "3456");
  ASSERT_TRUE(object->ReadAt(6, bytes).ok());
  EXPECT_EQ(TextOf(bytes), "6789");
  for (const auto& [offset, end] : {std::pair{8, 10}, {10, 10}, {50, 50}}) {
    const Status status = object->ReadAt(static_cast<std::uint64_t>(offset), bytes);
    EXPECT_EQ(status.code(), StatusCode::kDataLoss) << offset;
    const std::string said = fmt::format("ends at byte {}, {} bytes too early", end, offset + 4 - end);
    EXPECT_NE(status.message().find(said), std::string::npos) << status.message();
  }
}

TEST_P(StorageTest, ManyRangesOfManyObjectsAreReadTogether) {
  site_->Put("a", "0123456789");
  site_->Put("b", "abcdefghij");
  const auto a = *(root_ / "a").Open();
  const auto b = *(root_ / "b").Open();
  Bytes out[3] = {Bytes(2), Bytes(3), Bytes(1)};
  const std::vector<ReadRange> ranges = {{a.get(), 8, out[0]}, {b.get(), 0, out[1]}, {a.get(), 0, out[2]}};

  ASSERT_TRUE(root_.storage->ReadRanges(ranges, kNever).ok());
  EXPECT_EQ(TextOf(out[0]), "89");
  EXPECT_EQ(TextOf(out[1]), "abc");
  EXPECT_EQ(TextOf(out[2]), "0");
  EXPECT_EQ(root_.storage->ReadRanges(ranges, [] { return true; }).code(), StatusCode::kCancelled);
}

TEST_P(StorageTest, EachRangeIsReportedOnceWithItsOwnStatus) {
  site_->Put("a", "0123456789");
  const auto a = *(root_ / "a").Open();
  std::vector<Bytes> out(20, Bytes(1));
  std::vector<ReadRange> ranges;
  for (std::size_t i = 0; i < out.size(); ++i) ranges.push_back({a.get(), i, out[i]});
  std::mutex mutex;
  std::map<std::size_t, std::vector<StatusCode>> reported;
  const auto done = [&](std::size_t range, const Status& status) {
    const std::lock_guard lock(mutex);
    reported[range].push_back(status.code());
  };
  const Status status = root_.storage->BeginRead(ranges, done, kNever)->Wait(kNever);

  EXPECT_EQ(status.code(), StatusCode::kDataLoss) << "beyond the end";
  ASSERT_EQ(reported.size(), out.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    ASSERT_EQ(reported[i].size(), 1u) << i;
    if (i < 10) {
      EXPECT_EQ(reported[i][0], StatusCode::kOk);
      EXPECT_EQ(TextOf(out[i]), fmt::format("{}", i));
    } else {
      EXPECT_NE(reported[i][0], StatusCode::kOk) << i;
    }
  }
}

TEST_P(StorageTest, AReadingThatIsDroppedHasReportedItsRanges) {
  site_->Put("a", "0123456789");
  const auto a = *(root_ / "a").Open();
  std::vector<Bytes> out(10, Bytes(1));
  std::vector<ReadRange> ranges;
  for (std::size_t i = 0; i < out.size(); ++i) ranges.push_back({a.get(), i, out[i]});
  std::atomic<int> reported = 0;
  root_.storage
      ->BeginRead(
          ranges, [&](std::size_t, const Status&) { ++reported; }, kNever)
      .reset();
  EXPECT_EQ(reported, 10);
}

TEST_P(StorageTest, AFileOpensWithItsFirstOrItsLastBytes) {
  site_->Put("file", "12345");
  Stamp stamp;
  const OpenedFile front = *(root_ / "file").OpenWith(FileEnd::kFront, 3, &stamp);
  const OpenedFile back = *(root_ / "file").OpenWith(FileEnd::kBack, 3, nullptr);
  const OpenedFile all = *(root_ / "file").OpenWith(FileEnd::kBack, 30, nullptr);

  EXPECT_EQ(TextOf(front.bytes), "123");
  EXPECT_EQ(TextOf(back.bytes), "345");
  EXPECT_EQ(TextOf(all.bytes), "12345");
  EXPECT_EQ(front.object->size(), 5u);
  EXPECT_EQ(stamp, StampOf(root_ / "file"));
  EXPECT_EQ((root_ / "none").OpenWith(FileEnd::kFront, 3, nullptr).status().code(), StatusCode::kNotFound);
}

TEST_P(StorageTest, AFileOfAKnownSizeIsLookedAtWhenItIsRead) {
  site_->Put("file", "12345");
  const auto read = [&](const std::string& name, std::uint64_t size) -> Result<std::string> {
    const auto file = (root_ / name).Refer(size, 0);
    EXPECT_EQ(file->size(), size);
    Bytes out(2);
    QUARRY_RETURN_IF_ERROR(file->ReadAt(1, out));
    return TextOf(out);
  };
  EXPECT_EQ(*read("file", 5), "23");
  EXPECT_EQ(read("none", 5).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(*read("file", 9), "23") << "the rest of a truncated file";
  Bytes beyond(3);
  const Status cut = (root_ / "file").Refer(9, 0)->ReadAt(4, beyond);
  EXPECT_EQ(cut.code(), StatusCode::kDataLoss);
  EXPECT_NE(cut.message().find("has 5 bytes, but bytes 4..7 are needed; it is truncated"), std::string::npos)
      << cut.message();
}

TEST_P(StorageTest, CallsAtOnceAreEachMadeOnce) {
  std::vector<std::atomic<int>> made(100);
  root_.storage->AtOnce(made.size(), [&](std::size_t i) { ++made[i]; });
  for (const std::atomic<int>& times : made) EXPECT_EQ(times, 1);
}

/// A storage that answers some requests sooner together, and nothing else.
class WideStorage final : public Storage {
 public:
  explicit WideStorage(const ReadCosts& costs) : costs_(costs) {}
  Result<std::vector<FolderEntry>> List(const std::string&) const override { return NotFound("nothing"); }
  Result<ObjectInfo> Stat(const std::string&) const override { return NotFound("nothing"); }
  Result<std::shared_ptr<const StoredObject>> Open(const std::string&) const override {
    return NotFound("nothing");
  }
  ReadCosts costs() const override { return costs_; }
  std::chrono::milliseconds stamp_tick() const override { return std::chrono::milliseconds(0); }

 private:
  const ReadCosts costs_;
};

TEST(AtOnceTest, CallsWaitSideBySide) {
  const WideStorage storage({.side_by_side = 4});
  std::barrier all(4);  // passed by four at a time, so that fewer threads would wait for ever
  std::atomic<int> made = 0;
  storage.AtOnce(8, [&](std::size_t) {
    all.arrive_and_wait();
    ++made;
  });
  EXPECT_EQ(made, 8);
}

TEST(AtOnceTest, AllThreadsHearThatTheCallerWaitsNoLonger) {
  const WideStorage storage({.side_by_side = 4});
  std::barrier all(4);
  std::atomic<int> heard = 0;
  const CancelScope scope([] { return true; });
  storage.AtOnce(4, [&](std::size_t) {
    all.arrive_and_wait();
    heard += CancelScope::Cancelled() ? 1 : 0;
  });
  EXPECT_EQ(heard, 4);
}

TEST(AtOnceTest, AnExceptionComesBackWhenAllCallsHaveEnded) {
  const WideStorage storage({.side_by_side = 4});
  std::atomic<int> made = 0;
  EXPECT_THROW(storage.AtOnce(20,
                              [&](std::size_t i) {
                                ++made;
                                if (i == 3) throw std::bad_alloc();
                              }),
               std::bad_alloc);
  EXPECT_EQ(made, 20);
}

TEST(ReadCostsTest, TheGapIsWhatTheWayTakesForARequest) {
  EXPECT_EQ(ReadCosts{}.gap(), 8u << 10) << "files";
  // 20 ms x 125 MB/s / 16.
  EXPECT_EQ((ReadCosts{.latency = 0.02, .bandwidth = 125e6, .side_by_side = 16}.gap()), 156'250u);
  EXPECT_EQ((ReadCosts{.latency = 1, .bandwidth = 1e9}.gap()), 1u << 20);
  EXPECT_EQ((ReadCosts{.latency = 1e-6, .bandwidth = 1e9}.gap()), 8u << 10);
}

TEST_P(StorageTest, AWholeFileIsReadUpToALimit) {
  site_->Put("file", "12345");

  EXPECT_EQ(*(root_ / "file").ReadText(5), "12345");
  const Status status = (root_ / "file").ReadWhole(4).status();
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_NE(status.message().find("has 5 bytes, more than the 4"), std::string::npos) << status.message();
}

TEST_P(StorageTest, AnOpenFileStaysReadableWhenItIsReplacedOrRemoved) {
  site_->Put("file", "first");
  const auto first = *(root_ / "file").Open();
  site_->Put("file", "second one");
  const auto second = *(root_ / "file").Open();
  site_->Remove("file");

  Bytes bytes(5);
  ASSERT_TRUE(first->ReadAt(0, bytes).ok());
  EXPECT_EQ(TextOf(bytes), "first");
  ASSERT_TRUE(second->ReadAt(0, bytes).ok());
  EXPECT_EQ(TextOf(bytes), "secon");
}

TEST_P(StorageTest, TheStampOfAReplacedFileIsAnother) {
  site_->Put("file", "12345");
  const Stamp before = StampOf(root_ / "file");
  EXPECT_EQ(StampOf(root_ / "file"), before);
  site_->Put("file", "54321");
  EXPECT_NE(StampOf(root_ / "file"), before);
}

TEST(PosixStorageTest, AStampIsOldAMinuteAfterTheLastChange) {
  PosixSite site;
  site.Put("file", "text");
  EXPECT_FALSE(StampOf(site.root() / "file").old);
  site.Age("file");
  EXPECT_TRUE(StampOf(site.root() / "file").old);
  constexpr std::time_t kYear2400 = 13'569'465'600;  // in nanoseconds more than 64 bits have
  const timespec times[2] = {{kYear2400, 0}, {kYear2400, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, (site.root() / "file").path.c_str(), times, 0), 0);
  EXPECT_FALSE(StampOf(site.root() / "file").old);
}

TEST_P(StorageTest, TheStampOfAFolderShowsNamesThatComeAndGo) {
  site_->MakeFolder("folder");
  const auto changes_by = [&](const std::function<void()>& change) {
    site_->Age("folder");
    const Stamp before = StampOf(root_ / "folder");
    EXPECT_EQ(StampOf(root_ / "folder"), before);
    change();
    return StampOf(root_ / "folder") != before;
  };
  EXPECT_TRUE(changes_by([&] { site_->Put("folder/a", "a"); }));
  EXPECT_TRUE(changes_by([&] { site_->Rename("folder/a", "folder/b"); }));
  EXPECT_TRUE(changes_by([&] { site_->Put("folder/b", "b"); }));
  EXPECT_TRUE(changes_by([&] { site_->Remove("folder/b"); }));
}

TEST_P(StorageTest, AFolderIsTheSameWhereverItIsMovedAndAnotherInItsPlaceIsNot) {
  site_->Put("a/file", "text");
  const std::string identity = (root_ / "a").Stat()->identity;
  site_->Put("a/more", "text");
  EXPECT_EQ((root_ / "a").Stat()->identity, identity);
  site_->Rename("a", "b");
  site_->Put("a/file", "text");

  EXPECT_EQ((root_ / "b").Stat()->identity, identity);
  EXPECT_NE((root_ / "a").Stat()->identity, identity);
  EXPECT_EQ(*(root_ / "b" / "more").ReadText(10), "text");
}

TEST_P(StorageTest, NamesEndPaths) {
  EXPECT_EQ((root_ / "a.quarry").name(), "a.quarry");
  EXPECT_EQ((root_ / "a.quarry/").name(), "a.quarry");
  EXPECT_EQ((root_ / "a.quarry" / "x/../.").name(), "a.quarry");
}

/// An object whose reads wait for each other.
class MeetingObject final : public StoredObject {
 public:
  explicit MeetingObject(std::ptrdiff_t readers) : all_(readers) {}
  const std::string& path() const override { return path_; }
  std::uint64_t size() const override { return 1 << 20; }
  Status ReadAt(std::uint64_t offset, std::span<std::byte> out) const override {
    all_.arrive_and_wait();
    if (offset == 0) return DataLoss("damaged");
    std::ranges::fill(out, std::byte{7});
    return Status::Ok();
  }

 private:
  const std::string path_ = "meeting";
  mutable std::latch all_;
};

TEST(PosixStorageTest, RangesOfAFileServerAreReadSideBySide) {
  constexpr std::size_t kRanges = 4;
  const PosixStorage storage(ReadCosts{.latency = 0.002, .bandwidth = 1e9, .side_by_side = kRanges});
  const MeetingObject object(kRanges);
  std::array<Bytes, kRanges> memory;
  std::vector<ReadRange> ranges;
  for (std::size_t i = 0; i < kRanges; ++i) {
    memory[i].resize(10);
    ranges.push_back({&object, 100 * i, memory[i]});
  }
  std::mutex mutex;
  std::map<std::size_t, StatusCode> done;
  const Status status = storage
                            .BeginRead(
                                ranges,
                                [&](std::size_t range, const Status& of_range) {
                                  const std::lock_guard lock(mutex);
                                  EXPECT_TRUE(done.emplace(range, of_range.code()).second);
                                },
                                kNever)
                            ->Wait(kNever);
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_EQ(done.size(), kRanges);
  EXPECT_EQ(done[0], StatusCode::kDataLoss);
  EXPECT_EQ(done[3], StatusCode::kOk);
  EXPECT_EQ(memory[3][9], std::byte{7});
}

TEST(PosixStorageTest, ALocalDiskIsReadByOneThread) {
  EXPECT_EQ(CostsOfFileSystem(fs::temp_directory_path().string()).side_by_side, 1);
  EXPECT_EQ(CostsOfFileSystem("/proc").side_by_side, 1);
  EXPECT_EQ(CostsOfFileSystem("/no/such/path").side_by_side, 1);
  EXPECT_EQ(PosixStorage::For("/proc"), PosixStorage::Instance());
}

TEST(LocationTest, APathAloneIsAFileOfTheSystem) {
  EXPECT_EQ(Location("a/b").storage, PosixStorage::Instance());
  EXPECT_EQ(Location(fs::path("a/b")).path, "a/b");
  EXPECT_EQ(Location("run42.quarry").name(), "run42.quarry");
  EXPECT_EQ(Location(".").name(), fs::current_path().filename().string());
}

TEST(LocationTest, PrintsAsItsPathAndJoinsAsPathsDo) {
  EXPECT_EQ(fmt::format("\"{}\"", Location("a") / "b"), "\"a/b\"");
  for (const char* folder : {"", "a", "a/", "/", "/a"}) {
    EXPECT_EQ((Location(folder) / "b").path, (fs::path(folder) / "b").string());
    EXPECT_EQ((Location(folder) / "b/c").path, (fs::path(folder) / "b/c").string());
  }
}

TEST(PosixStorageTest, FollowsLinksAndTellsWhatIsNeitherFileNorFolder) {
  PosixSite site;
  site.Put("folder/file", "text");
  const fs::path root = site.root().path;
  fs::create_directory_symlink(root / "folder", root / "link");
  fs::create_symlink(root / "nowhere", root / "broken");
  ASSERT_EQ(::mkfifo((root / "pipe").c_str(), 0600), 0);

  EXPECT_EQ(*site.root().List(), (std::vector<FolderEntry>{{"broken", ObjectKind::kOther, true},
                                                           {"folder", ObjectKind::kFolder},
                                                           {"link", ObjectKind::kFolder, true},
                                                           {"pipe", ObjectKind::kOther}}));
  EXPECT_EQ((site.root() / "link").Stat()->kind, ObjectKind::kFolder);

  const Storage& storage = *site.root().storage;
  EXPECT_EQ(*storage.ListNames(root.string()), (std::vector<FolderEntry>{{"broken", ObjectKind::kOther, true},
                                                                         {"folder", ObjectKind::kFolder},
                                                                         {"link", ObjectKind::kOther, true},
                                                                         {"pipe", ObjectKind::kOther}}));
  EXPECT_EQ(storage.KindBehindLink((root / "link").string()), ObjectKind::kFolder);
  EXPECT_EQ(storage.KindBehindLink((root / "broken").string()), ObjectKind::kOther);
  EXPECT_EQ((site.root() / "pipe").Stat()->kind, ObjectKind::kOther);
  EXPECT_EQ((site.root() / "broken").Stat().status().code(), StatusCode::kNotFound);
}

/// The attack: opening a FIFO waits for a writer, which never comes.
TEST(PosixStorageTest, WhatIsNoFileIsNamedAndMakesNobodyWait) {
  PosixSite site;
  site.MakeFolder("folder");
  const fs::path root = site.root().path;
  ASSERT_EQ(::mkfifo((root / "pipe").c_str(), 0600), 0);
  const FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM, 0));
  sockaddr_un address{AF_UNIX, {}};
  std::string(root / "socket").copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  fs::create_symlink("/dev/zero", root / "zero");

  for (const auto& [name, what] :
       {std::pair{"pipe", "FIFO"}, {"socket", "socket"}, {"zero", "device"}, {"folder", "folder"}}) {
    const Status status = (site.root() / name).ReadWhole(100).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find(fmt::format("{}\" is a {}", name, what)), std::string::npos)
        << status.message();
    EXPECT_EQ(StatusOfPart(status, root / name, "").code(), StatusCode::kDataLoss);
    EXPECT_EQ(ReadTextFile(root / name, 100).status().message(), status.message());
  }
}

/// A folder "open" with links of every kind to the folder "closed" beside it.
class LinksTest : public ::testing::Test {
 protected:
  void SetUp() override {
    site_.Put("open/own/file", "open");
    site_.Put("closed/file", "closed");
    fs::create_directory_symlink("own", open() / "inside");
    fs::create_directory_symlink("../closed", open() / "relative");
    fs::create_directory_symlink(open().parent_path() / "closed", open() / "absolute");
    fs::create_directory_symlink("relative", open() / "twice");
    fs::create_symlink("../../closed/file", open() / "own/file link");
    fs::create_symlink("circle", open() / "circle");
  }
  fs::path open() const { return fs::path(site_.root().path) / "open"; }
  Location With(FollowLinks links) const {
    return {std::make_shared<PosixStorage>(open().string(), links), open().string()};
  }
  static std::string Read(const Location& file) {
    const auto text = file.ReadText(100);
    return text.ok() ? *text : "";
  }
  /// Gives everything of a name to another user: links, too, are owned.
  static void Give(const fs::path& path, uid_t user) {
    if (::lchown(path.c_str(), user, user) != 0) GTEST_SKIP() << "only root may give files away";
  }

  PosixSite site_;
};

const char* const kThroughLinks[] = {"inside/file", "relative/file", "absolute/file", "twice/file",
                                     "own/file link"};

TEST_F(LinksTest, AreFollowedAsTold) {
  for (const FollowLinks links : {FollowLinks::kNo, FollowLinks::kOwner, FollowLinks::kYes}) {
    const Location root = With(links);
    EXPECT_EQ(Read(root / "own/file"), "open");
    for (const char* path : kThroughLinks) {
      const bool follows = links != FollowLinks::kNo;
      EXPECT_EQ(Read(root / path).empty(), !follows) << path;
      const StatusCode code = follows ? StatusCode::kOk : StatusCode::kPermissionDenied;
      EXPECT_EQ((root / path).Open().status().code(), code) << path;
    }
    const FolderEntry link = root.List()->at(2);
    EXPECT_EQ(link.name, "inside");
    EXPECT_TRUE(link.is_link);
    EXPECT_EQ(link.kind, links == FollowLinks::kNo ? ObjectKind::kOther : ObjectKind::kFolder);
    EXPECT_EQ(root.storage->KindBehindLink((root / "inside").path), link.kind);
    EXPECT_EQ((root / "circle").Open().status().code(), StatusCode::kPermissionDenied);
    EXPECT_EQ((root / "none").Open().status().code(), StatusCode::kNotFound);
  }
}

/// The attack: who may write in one folder links to what only the server may read.
TEST_F(LinksTest, OfOneOwnerDoNotLeadToTheFilesOfAnother) {
  constexpr uid_t kOther = 12345;
  for (const char* name : {"closed", "closed/file"}) {
    Give(fs::path(site_.root().path) / name, kOther);
    if (IsSkipped()) return;
  }
  const Location root = With(FollowLinks::kOwner);
  EXPECT_EQ(Read(root / "inside/file"), "open");
  for (const char* path : {"relative/file", "absolute/file", "twice/file", "own/file link"}) {
    const Status status = (root / path).Open().status();
    EXPECT_EQ(status.code(), StatusCode::kPermissionDenied) << path;
    EXPECT_NE(status.message().find("--follow-symlinks"), std::string::npos) << status.message();
    EXPECT_EQ(Read(With(FollowLinks::kYes) / path), "closed");
  }
  const std::vector<FolderEntry> entries = *root.List();
  for (const FolderEntry& entry : entries)
    EXPECT_EQ(entry.kind == ObjectKind::kFolder, entry.name == "inside" || entry.name == "own") << entry.name;
  // A link that its target's owner has made.
  Give(open() / "relative", kOther);
  EXPECT_EQ(Read(root / "relative/file"), "closed");
  EXPECT_EQ(Read(root / "twice/file"), "") << "and one to it";
}

TEST_F(LinksTest, NothingElseIsOpened) {
  const Location root = With(FollowLinks::kYes);
  for (const std::string& path :
       {site_.root().path + "/closed/file", open().string() + "er", open().string() + "/../closed/file",
        open().string() + "/..", std::string("/etc/passwd")})
    for (const Status& status : {root.storage->Stat(path).status(), root.storage->Open(path).status(),
                                 root.storage->List(path).status()})
      EXPECT_EQ(status.code(), StatusCode::kPermissionDenied) << path << status.message();
  EXPECT_EQ(root.storage->Stat(open().string() + "/")->kind, ObjectKind::kFolder);
}

TEST(StampWatchTest, ALookHoldsWhenItBeganATickAfterItsStampWasSeen) {
  constexpr std::chrono::milliseconds kLong = std::chrono::hours(1);
  constexpr std::chrono::milliseconds kNone(0);
  StampWatch watch;
  EXPECT_FALSE(watch.Holds({"a"}, kLong));
  watch.Looked();
  EXPECT_FALSE(watch.Holds({"a"}, kLong)) << "another change may have left this stamp";
  EXPECT_FALSE(watch.Holds({"a"}, kNone));
  EXPECT_FALSE(watch.Holds({"a"}, kNone)) << "the look has failed";
  watch.Looked();
  EXPECT_TRUE(watch.Holds({"a"}, kNone));
  EXPECT_TRUE(watch.Differs({"b"}));
  EXPECT_FALSE(watch.Holds({"b"}, kNone));
}

TEST(StampWatchTest, AnOldStampHoldsAfterALookUntilItHasBeenKnownForATick) {
  constexpr std::chrono::milliseconds kLong = std::chrono::hours(1);
  constexpr std::chrono::milliseconds kNone(0);
  const Stamp old{"a", true};
  StampWatch watch;
  EXPECT_FALSE(watch.Holds(old, kLong)) << "nobody has looked";
  EXPECT_FALSE(watch.Holds(old, kLong)) << "the look has failed";
  watch.Looked();
  EXPECT_TRUE(watch.Holds(old, kLong));
  EXPECT_FALSE(watch.Holds(old, kNone)) << "the clock of the storage may be wrong";
  watch.Looked();
  EXPECT_TRUE(watch.Holds(old, kNone));
  EXPECT_FALSE(watch.Holds({"b", true}, kLong));
}

TEST(MemoryStorageTest, HasOnePlaceForEverySpellingOfAPath) {
  testing::MemoryStorage memory;
  ASSERT_TRUE(memory.Put("/a//b/./c", BytesOf("text")).ok());

  for (const char* path : {"a/b/c", "/a/b/c", "a/x/../b/c", "../a/b/c"})
    EXPECT_EQ(TextOf(*memory.ReadWhole(path, 10)), "text") << path;
  EXPECT_EQ(memory.List("")->front().name, "a");
  EXPECT_EQ(memory.List("/")->front().name, "a");
}

TEST(MemoryStorageTest, AFileIsNoFolderAndAFolderNoFile) {
  testing::MemoryStorage memory;
  ASSERT_TRUE(memory.Put("a/file", BytesOf("text")).ok());

  EXPECT_EQ(memory.Put("a", BytesOf("text")).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(memory.Put("a/file/below", BytesOf("text")).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(memory.MakeFolder("a/file").code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(TextOf(*memory.ReadWhole("a/file", 10)), "text");
}

TEST(MemoryStorageTest, RenamingTakesWhatIsInsideAndNothingElse) {
  testing::MemoryStorage memory;
  ASSERT_TRUE(memory.Put("a/x/file", BytesOf("text")).ok());
  ASSERT_TRUE(memory.Put("a.b", BytesOf("beside")).ok());
  ASSERT_TRUE(memory.Put("aa/file", BytesOf("beside")).ok());

  EXPECT_EQ(memory.Rename("a", "aa").code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(memory.Rename("a", "a/x/y").code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(memory.Rename("none", "c").code(), StatusCode::kNotFound);
  ASSERT_TRUE(memory.Rename("a", "z/b").ok());

  EXPECT_EQ(TextOf(*memory.ReadWhole("z/b/x/file", 10)), "text");
  EXPECT_EQ(memory.Stat("a").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(memory.Stat("a/x/file").status().code(), StatusCode::kNotFound);
  EXPECT_TRUE(memory.Stat("a.b").ok());
  EXPECT_TRUE(memory.Stat("aa/file").ok());
}

TEST(MemoryStorageTest, CopiesAFolderOfAnotherStorage) {
  PosixSite site;
  site.Put("a/file", "text");
  site.Put("a/b/empty", "");
  site.MakeFolder("a/c");
  testing::MemoryStorage memory;
  ASSERT_TRUE(memory.CopyFolder(site.root() / "a", "copy").ok());

  EXPECT_EQ(TextOf(*memory.ReadWhole("copy/file", 10)), "text");
  EXPECT_EQ(memory.Stat("copy/b/empty")->size, 0u);
  EXPECT_EQ(*memory.List("copy"), *(site.root() / "a").List());
  EXPECT_EQ(memory.CopyFolder(site.root() / "none", "copy").code(), StatusCode::kNotFound);
}

TEST(FaultyStorageTest, MeetsTheCallsThatARuleNames) {
  auto memory = std::make_shared<testing::MemoryStorage>();
  ASSERT_TRUE(memory->Put("a/x.qsf", BytesOf("0123456789")).ok());
  ASSERT_TRUE(memory->Put("a/y.json", BytesOf("0123456789")).ok());
  FaultyStorage faulty(memory);
  faulty.Add(Operation::kRead, "*.qsf", 2, 1, Fault::Fail(InternalError("the disk is gone")));
  faulty.Add(Operation::kRead, "*.qsf", 3, 1, Fault::Truncate());
  faulty.Add(Operation::kRead, "*.qsf", 4, 1, Fault::Lie());
  faulty.Add(Operation::kOpen, "*.json", 2, 1, Fault::Truncate());
  faulty.Add(Operation::kStat, "*.json", 1, 1, Fault::Truncate());
  faulty.Add(Operation::kList, "a", 2, 1, Fault::Lie());

  const auto read = [&] { return faulty.ReadWhole("a/x.qsf", 100); };
  EXPECT_EQ(TextOf(*read()), "0123456789");
  EXPECT_EQ(read().status().message(), "the disk is gone");
  EXPECT_EQ(read().status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(TextOf(*read()), "0123446789");
  EXPECT_EQ(TextOf(*read()), "0123456789");
  EXPECT_EQ(faulty.Calls(Operation::kRead).size(), 5u);
  EXPECT_EQ(faulty.Open("a/y.json").operator*()->size(), 10u);
  EXPECT_EQ(faulty.Open("a/y.json").operator*()->size(), 5u);
  EXPECT_EQ(faulty.Stat("a/y.json")->size, 5u);
  EXPECT_EQ(faulty.Stat("a/y.json")->size, 10u);
  EXPECT_EQ(faulty.List("a")->size(), 2u);
  EXPECT_EQ(faulty.List("a")->size(), 1u);
}

TEST(FilePool, HasNoMoreFilesOpenThanAllowedAndOpensThemAgain) {
  PosixSite site;
  for (const char* name : {"a", "b", "c"}) site.Put(name, name);
  const auto pool = std::make_shared<FilePool>(2);
  std::map<std::string, int> opened;
  std::vector<std::shared_ptr<const FilePool::File>> files;
  const auto open = [&](const std::string& name) {
    return [&, name] {
      ++opened[name];
      return RandomAccessFile::Open((site.root() / name).path);
    };
  };
  for (const char* name : {"a", "b", "c"}) files.push_back(*pool->Add(open(name)));
  EXPECT_EQ(pool->size(), 2u);
  const auto read = [&](std::size_t file) {
    Bytes byte(1);
    const auto opened_file = files[file]->Get();
    EXPECT_TRUE(opened_file.ok()) << opened_file.status().message();
    EXPECT_TRUE((*opened_file)->ReadAt(0, byte).ok());
    return TextOf(byte);
  };

  EXPECT_EQ(read(1), "b");  // now c is the one read least recently
  EXPECT_EQ(read(0), "a");
  EXPECT_EQ(read(1), "b");
  EXPECT_EQ(read(2), "c");
  EXPECT_EQ(opened, (std::map<std::string, int>{{"a", 2}, {"b", 1}, {"c", 2}}));
  EXPECT_EQ(pool->size(), 2u);
  files.clear();
  EXPECT_EQ(pool->size(), 0u);
}

TEST(FilePool, KeepsItsFilesWhereMemoryEnds) {
  PosixSite site;
  for (const char* name : {"a", "b"}) site.Put(name, name);
  const auto open = [&](const char* name) {
    return [path = (site.root() / name).path] { return RandomAccessFile::Open(path); };
  };
  const int failures = testing::ForEveryAllocation([&](int n) {
    const auto pool = std::make_shared<FilePool>(1);
    const auto a = *pool->Add(open("a"));
    bool failed = false;
    {
      const testing::FailingAllocation failing(n);
      try {
        const auto b = pool->Add(open("b"));
      } catch (const std::bad_alloc&) {
      }
      failed = failing.failed();
    }
    EXPECT_LE(pool->size(), 1u);
    EXPECT_TRUE(a->Get().ok());
    EXPECT_EQ(pool->size(), 1u);
    return failed;
  });
  EXPECT_GT(failures, 3);
}

TEST(FilePool, AFileThatTookThePlaceOfAnotherIsNotReadForIt) {
  PosixSite site;
  site.Put("a", "old");
  site.Put("b", "b");
  const auto pool = std::make_shared<FilePool>(1);
  const auto open = [&](const std::string& name) {
    return [path = (site.root() / name).path] { return RandomAccessFile::Open(path); };
  };
  const auto a = *pool->Add(open("a"));
  const auto held = *a->Get();
  const auto b = *pool->Add(open("b"));  // closes a
  site.Put("a", "new");
  const auto again = a->Get();
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.status().code(), StatusCode::kDataLoss);
  EXPECT_NE(again.status().message().find("was replaced"), std::string::npos) << again.status().message();
  Bytes bytes(3);
  EXPECT_TRUE(held->ReadAt(0, bytes).ok());
  EXPECT_EQ(TextOf(bytes), "old") << "who has it open goes on with it";
}

}  // namespace
}  // namespace quarry
