#include "quarry/disk_cache/disk_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>

#include "quarry/base/checksum.h"
#include "quarry/base/output.h"
#include "quarry/base/units.h"

namespace quarry::disk_cache {
namespace {

constexpr std::uint64_t kDefaultBytes = std::uint64_t{10} << 30;
/// A folder of ours in the folder of the user: what else is there is not touched.
constexpr const char* kBlocks = "/blocks-1";
constexpr const char* kLock = "/lock";
/// [s] A file that was used within this time counts as used just now.
constexpr std::int64_t kTick = 5;

std::atomic<std::uint64_t> from_cache{0}, fetched{0}, damaged_blocks{0};

/// Once for each folder of a process.
void Warn(const std::string& folder, const std::string& why) {
  static auto& mutex = *new std::mutex;
  static auto& warned = *new std::set<std::string>;
  const std::lock_guard lock(mutex);
  if (!warned.insert(folder).second) return;
  WriteError(
      fmt::format("warning: the cache \"{}\" is not used: {}; data is read from the store\n", folder, why));
}

Status MakeFolder(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return Status::Ok();
  return ErrnoStatus(errno, "create folder", path);
}

Status CheckOwner(const std::string& path) {
  struct stat info;
  if (::stat(path.c_str(), &info) != 0) return ErrnoStatus(errno, "stat", path);
  if (!S_ISDIR(info.st_mode)) return NotAFile(path, NameOfType(info.st_mode));
  if (info.st_uid != ::geteuid())
    return FailedPrecondition("\"{}\" belongs to another user, who could change what is read from it", path);
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return FailedPrecondition("others may write to \"{}\", and so change what is read from it", path);
  return Status::Ok();
}

bool IsHexadecimal(std::string_view text, std::size_t length) {
  return text.size() == length && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

/// Calls with each name in a folder; there may be no such folder.
template <typename Visit>
void ForEachName(const std::string& folder, const Visit& visit) {
  const std::unique_ptr<DIR, int (*)(DIR*)> open(::opendir(folder.c_str()), ::closedir);
  if (!open) return;
  while (const dirent* const entry = ::readdir(open.get())) visit(std::string(entry->d_name));
}

int OpenForReading(const std::string& path) {
  return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
}

/// The time of a file says when it was used last.
void Touch(int fd) {
  struct stat info;
  if (::fstat(fd, &info) != 0 || info.st_mtim.tv_sec + kTick > ::time(nullptr)) return;
  (void)::futimens(fd, nullptr);
}

}  // namespace

/// A file of the cache.
struct DiskCache::Kept {
  std::string path;
  std::uint64_t bytes = 0;  ///< that it takes of the disk
  std::int64_t used = 0;    ///< [ns] since 1970
};

Usage UsageOfProcess() { return {from_cache, fetched, damaged_blocks}; }

std::string DiskCache::FolderOf(const Choice& choice) {
  if (choice.folder) return *choice.folder;
  const char* const folder = std::getenv("QUARRY_CACHE");
  return folder == nullptr ? "" : folder;
}

Result<std::uint64_t> DiskCache::MostBytesOf(const Choice& choice) {
  if (choice.most_bytes > 0) return choice.most_bytes;
  const char* const text = std::getenv("QUARRY_CACHE_SIZE");
  if (text == nullptr || *text == '\0') return kDefaultBytes;
  const Result<std::uint64_t> bytes = ParseBytes(text);
  if (!bytes.ok() || *bytes == 0)
    return InvalidArgument("QUARRY_CACHE_SIZE \"{}\" is not a size, for example 10GiB", text);
  return bytes;
}

Result<std::uint64_t> DiskCache::ParseSize(const std::string& text) {
  if (text.empty()) return 0;
  QUARRY_ASSIGN_OR_RETURN(const std::uint64_t bytes, ParseBytes(text).Annotate("--cache-size"));
  if (bytes == 0) return InvalidArgument("--cache-size is 0; --cache \"\" means no cache");
  return bytes;
}

Result<std::shared_ptr<DiskCache>> DiskCache::Open(const Choice& choice) {
  static auto& mutex = *new std::mutex;
  static auto& open = *new std::map<std::string, std::weak_ptr<DiskCache>>;
  std::string folder = FolderOf(choice);
  if (folder.empty()) return std::shared_ptr<DiskCache>();
  QUARRY_ASSIGN_OR_RETURN(const std::uint64_t most, MostBytesOf(choice));
  std::error_code error;
  if (const auto absolute = std::filesystem::absolute(folder, error); !error) folder = absolute.string();
  const std::lock_guard lock(mutex);
  auto known = open[folder].lock();
  if (known && known->most_bytes() == most) return known;
  auto made = At(folder, most);
  if (!made.ok()) {
    Warn(folder, made.status().message());
    return std::shared_ptr<DiskCache>();
  }
  open[folder] = *made;
  return made;
}

Result<std::shared_ptr<DiskCache>> DiskCache::At(const std::string& folder, std::uint64_t most_bytes) {
  const std::filesystem::path above = std::filesystem::path(folder).parent_path();
  if (!above.empty()) QUARRY_RETURN_IF_ERROR(CreateDirectories(above));
  QUARRY_RETURN_IF_ERROR(MakeFolder(folder));
  QUARRY_RETURN_IF_ERROR(CheckOwner(folder));
  QUARRY_RETURN_IF_ERROR(MakeFolder(folder + kBlocks));
  QUARRY_RETURN_IF_ERROR(CheckOwner(folder + kBlocks));
  return std::shared_ptr<DiskCache>(new DiskCache(folder, most_bytes));
}

std::string DiskCache::PathOf(const BlockFile& file) const {
  return fmt::format("{}{}/{}/{}", folder_, kBlocks, file.name().substr(0, 2), file.name().substr(2));
}

std::vector<BlockRun> DiskCache::Read(const ObjectKey& key, std::uint64_t offset, std::span<std::byte> out) {
  std::vector<BlockRun> missing;
  for (std::uint64_t done = 0; done < out.size();) {
    const std::uint64_t at = offset + done, segment = at / kSegment;
    const auto part =
        out.subspan(done, std::min<std::uint64_t>(out.size() - done, (segment + 1) * kSegment - at));
    const BlockFile file(key, segment);
    std::vector<BlockRun> here;
    if (const FileDescriptor fd(OpenForReading(PathOf(file))); fd.get() >= 0) {
      damaged_blocks += file.Read(fd.get(), at, part, &here);
      Touch(fd.get());
    } else {
      here = {{at / kBlock, (at + part.size() - 1) / kBlock + 1}};
    }
    for (const BlockRun& run : here) {
      if (!missing.empty() && missing.back().end == run.begin) {
        missing.back().end = run.end;
      } else {
        missing.push_back(run);
      }
    }
    done += part.size();
  }
  std::uint64_t absent = 0;
  for (const BlockRun& run : missing)
    absent +=
        std::min<std::uint64_t>(offset + out.size(), run.end * kBlock) - std::max(offset, run.begin * kBlock);
  from_cache += out.size() - absent;
  fetched += absent;
  return missing;
}

/// Reserves bytes, and evicts when too few are left. Each process looks at the folder after a 32nd of the
/// size, so that N processes have N 32nds too many at most.
bool DiskCache::MakeRoom(std::uint64_t bytes) {
  const std::uint64_t step = most_bytes_ / 32;
  const std::lock_guard lock(mutex_);
  if (bytes > room_) {
    if (bytes + step > most_bytes_) return false;
    if (!Trim(most_bytes_ - bytes - step).ok()) return false;
    room_ = bytes + step;
  }
  room_ -= bytes;
  return true;
}

void DiskCache::StopWriting(int error) {
  if (writes_.exchange(false)) Warn(folder_, ErrnoStatus(error, "write to", folder_).message());
}

void DiskCache::Write(const ObjectKey& key, std::uint64_t first, ByteSpan bytes) {
  for (std::uint64_t done = 0; done < bytes.size();) {
    const std::uint64_t block = first + done / kBlock, segment = block / kSegmentBlocks;
    const std::uint64_t most = ((segment + 1) * kSegmentBlocks - block) * kBlock;
    const ByteSpan part = bytes.subspan(done, std::min<std::uint64_t>(bytes.size() - done, most));
    WriteSegment(BlockFile(key, segment), block, part);
    done += part.size();
  }
}

void DiskCache::WriteSegment(const BlockFile& file, std::uint64_t first, ByteSpan bytes) {
  constexpr std::uint64_t kOverhead = 12 << 10;  // front, entries, and the rest of a page
  if (!writes_ || !MakeRoom(bytes.size() + kOverhead)) return;
  const std::string path = PathOf(file);
  const auto open = [&] { return ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600); };
  FileDescriptor fd(open());
  if (fd.get() < 0 && errno == ENOENT) {
    (void)::mkdir(path.substr(0, path.rfind('/')).c_str(), 0700);
    fd = FileDescriptor(open());
  }
  const int error = fd.get() < 0 ? errno : file.Write(fd.get(), first, bytes);
  if (error != 0) StopWriting(error);
}

void DiskCache::Drop(const ObjectKey& key, std::uint64_t offset, std::uint64_t size) {
  const std::uint64_t end = size == 0 ? offset / kSegment : (offset + size - 1) / kSegment + 1;
  for (std::uint64_t segment = offset / kSegment; segment < end; ++segment)
    (void)::unlink(PathOf(BlockFile(key, segment)).c_str());
}

/// The files with names of ours.
std::vector<DiskCache::Kept> DiskCache::Files() const {
  std::vector<Kept> files;
  const std::string blocks = folder_ + kBlocks;
  ForEachName(blocks, [&](const std::string& half) {
    if (!IsHexadecimal(half, 2)) return;
    ForEachName(fmt::format("{}/{}", blocks, half), [&](const std::string& rest) {
      if (!IsHexadecimal(rest, 14)) return;
      Kept file{fmt::format("{}/{}/{}", blocks, half, rest)};
      struct stat info;
      if (::lstat(file.path.c_str(), &info) != 0) return;
      file.bytes = static_cast<std::uint64_t>(info.st_blocks) * 512;
      file.used = info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec;
      files.push_back(std::move(file));
    });
  });
  return files;
}

Status DiskCache::Trim(std::uint64_t most_bytes) {
  const std::string path = folder_ + kLock;
  const FileDescriptor lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (lock.get() < 0) return ErrnoStatus(errno, "open", path);
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    return Unavailable("another process removes data from \"{}\"; try again", folder_);
  std::vector<Kept> files = Files();
  std::uint64_t all = 0;
  for (const Kept& file : files) all += file.bytes;
  if (all <= most_bytes) return Status::Ok();
  std::ranges::sort(files, {}, &Kept::used);
  // An eighth more, so that not each write looks through the folder.
  const std::uint64_t left = most_bytes - most_bytes / 8;
  for (const Kept& file : files) {
    if (all <= left) break;
    if (::unlink(file.path.c_str()) != 0 && errno != ENOENT) return ErrnoStatus(errno, "remove", file.path);
    all -= file.bytes;
  }
  return Status::Ok();
}

Result<Contents> DiskCache::List() const {
  Contents contents;
  std::map<std::string, std::uint64_t> objects;
  for (const Kept& file : Files()) {
    contents.bytes += file.bytes;
    ++contents.files;
    const FileDescriptor fd(OpenForReading(file.path));
    const std::string url = fd.get() < 0 ? "" : BlockFile::UrlOf(fd.get());
    if (!url.empty()) objects[url] += file.bytes;
  }
  for (auto& [url, bytes] : objects) contents.objects.push_back({url, bytes});
  return contents;
}

}  // namespace quarry::disk_cache
