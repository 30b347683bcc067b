#include "quarry/storage/posix_storage.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <utility>

#include "quarry/base/file.h"
#include "quarry/storage/location.h"
#include "quarry/storage/threaded_reading.h"

namespace quarry {

namespace fs = std::filesystem;

namespace {

class PosixObject final : public StoredObject {
 public:
  explicit PosixObject(std::shared_ptr<const FilePool::File> file) : file_(std::move(file)) {}

  const std::string& path() const override { return file_->path(); }
  std::uint64_t size() const override { return file_->size(); }
  Status ReadAt(std::uint64_t offset, std::span<std::byte> out) const override {
    QUARRY_ASSIGN_OR_RETURN(const auto file, file_->Get());
    return file->ReadAt(offset, out);
  }
  void ExpectRead(std::uint64_t offset, std::uint64_t size) const override {
    if (const auto file = file_->Get(); file.ok()) (*file)->ExpectRead(offset, size);
  }

 private:
  const std::shared_ptr<const FilePool::File> file_;
};

ObjectKind KindOf(unsigned mode) {
  if (S_ISDIR(mode)) return ObjectKind::kFolder;
  return S_ISREG(mode) ? ObjectKind::kFile : ObjectKind::kOther;
}

/// The type of a name in a folder, without following it. @returns 0 if it was removed
unsigned TypeOf(int folder, const dirent64& entry) {
  if (entry.d_type != DT_UNKNOWN) return DTTOIF(entry.d_type);
  struct stat info;
  return ::fstatat(folder, entry.d_name, &info, AT_SYMLINK_NOFOLLOW) == 0 ? info.st_mode : 0;
}

std::uint64_t NanosecondsOf(const statx_timestamp& time) {
  constexpr std::uint64_t kPerSecond = 1'000'000'000;
  return static_cast<std::uint64_t>(time.tv_sec) * kPerSecond + time.tv_nsec;
}

bool IsOld(const statx_timestamp& changed) {
  constexpr auto kOld = std::chrono::minutes(1);
  // In seconds: file systems have dates that nanoseconds in 64 bits do not reach.
  const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  return now.time_since_epoch() - std::chrono::seconds(changed.tv_sec) > kOld;
}

/// The bytes of numbers. Every read asks for stamps, and writing digits would take as long as the file
/// system.
std::string TextOf(std::initializer_list<std::uint64_t> numbers) {
  return {reinterpret_cast<const char*>(numbers.begin()), numbers.size() * sizeof(std::uint64_t)};
}

/// Costs of a file server in the same building. A range of this size keeps one thread busy for 4 ms.
constexpr ReadCosts kFileServer{
    .latency = 0.002, .bandwidth = 1e9, .side_by_side = 16, .most_bytes = 4 << 20};

/// Types of file systems whose files are on other machines. FUSE stands for sshfs, s3fs and the
/// like; a local disk behind it only starts some threads for nothing.
constexpr std::array<std::uint32_t, 14> kOfFileServers = {
    NFS_SUPER_MAGIC, SMB_SUPER_MAGIC, AFS_SUPER_MAGIC, CODA_SUPER_MAGIC, V9FS_MAGIC, CEPH_SUPER_MAGIC,
    0x6b414653,  // AFS of the kernel
    0xff534d42,  // CIFS
    0xfe534d42,  // SMB 2
    0x0bd00bd0,  // Lustre
    0x47504653,  // GPFS
    0x19830326,  // BeeGFS
    0x5346414f,  // AuriStor
    0x65735546,  // FUSE
};

}  // namespace

ReadCosts CostsOfFileSystem(const std::string& path) {
  struct statfs info {};
  if (::statfs(path.c_str(), &info) != 0) return {};
  const auto type = static_cast<std::uint32_t>(info.f_type);
  return std::ranges::find(kOfFileServers, type) == kOfFileServers.end() ? ReadCosts{} : kFileServer;
}

const std::shared_ptr<const Storage>& PosixStorage::For(const std::string& path) {
  static const auto& of_server =
      *new const std::shared_ptr<const Storage>(std::make_shared<const PosixStorage>(kFileServer));
  return CostsOfFileSystem(path).side_by_side < 2 ? Instance() : of_server;
}

const std::shared_ptr<const Storage>& PosixStorage::Instance() {
  static const auto& instance =
      *new const std::shared_ptr<const Storage>(std::make_shared<const PosixStorage>());
  return instance;
}

Result<FileDescriptor> PosixStorage::OpenPath(const std::string& path, int flags, const char* action) const {
  if (opener_) return opener_->Open(path, flags, action);
  FileDescriptor fd(::open(path.c_str(), flags | O_CLOEXEC));
  if (fd.get() < 0) return OpenError(errno, action, path);
  return fd;
}

/// The kind of a link's target.
ObjectKind PosixStorage::KindBehind(int folder, const std::string& name, const std::string& path) const {
  struct stat info;
  if (!opener_)
    return ::fstatat(folder, name.c_str(), &info, 0) == 0 ? KindOf(info.st_mode) : ObjectKind::kOther;
  const Result<FileDescriptor> target = opener_->Open(path, O_PATH, "stat");
  return target.ok() && ::fstat(target->get(), &info) == 0 ? KindOf(info.st_mode) : ObjectKind::kOther;
}

ObjectKind PosixStorage::KindBehindLink(const std::string& path) const {
  return KindBehind(AT_FDCWD, path, path);
}

Result<std::vector<FolderEntry>> PosixStorage::List(const std::string& folder) const {
  return ListFolder(folder, true);
}

Result<std::vector<FolderEntry>> PosixStorage::ListNames(const std::string& folder) const {
  return ListFolder(folder, false);
}

Result<std::vector<FolderEntry>> PosixStorage::ListFolder(const std::string& folder,
                                                          bool follow_links) const {
  QUARRY_ASSIGN_OR_RETURN(const FileDescriptor fd, OpenPath(folder, kReadFlags | O_DIRECTORY, "list"));
  // The C library's stream of a folder also asks for its status: one call more for each of 10,000 datasets.
  constexpr std::size_t kBuffer = 32 << 10;
  std::vector<dirent64> buffer(kBuffer / sizeof(dirent64));
  const auto* const bytes = reinterpret_cast<const std::byte*>(buffer.data());
  std::vector<FolderEntry> entries;
  while (true) {
    const ssize_t got = ::getdents64(fd.get(), buffer.data(), buffer.size() * sizeof(dirent64));
    if (got < 0) return OpenError(errno, "list", folder);
    if (got == 0) break;
    for (ssize_t at = 0; at < got;) {
      const auto* const entry = reinterpret_cast<const dirent64*>(bytes + at);
      at += entry->d_reclen;
      std::string name = entry->d_name;
      if (name == "." || name == "..") continue;
      const unsigned type = TypeOf(fd.get(), *entry);
      const bool is_link = S_ISLNK(type);
      const ObjectKind kind = is_link && follow_links
                                  ? KindBehind(fd.get(), name, fmt::format("{}/{}", folder, name))
                                  : KindOf(type);
      entries.push_back({std::move(name), kind, is_link});
    }
  }
  std::sort(entries.begin(), entries.end(),
            [](const FolderEntry& a, const FolderEntry& b) { return a.name < b.name; });
  return entries;
}

Result<ObjectInfo> PosixStorage::Stat(const std::string& path) const {
  struct statx info {};
  constexpr unsigned kWanted = STATX_TYPE | STATX_INO | STATX_SIZE | STATX_MTIME | STATX_BTIME;
  if (opener_) QUARRY_RETURN_IF_ERROR(opener_->CheckWithin(path));
  if (::statx(AT_FDCWD, path.c_str(), 0, kWanted, &info) != 0) return ErrnoStatus(errno, "stat", path);
  ObjectInfo found;
  found.kind = KindOf(info.stx_mode);
  found.size = info.stx_size;
  const std::uint64_t device = std::uint64_t{info.stx_dev_major} << 32 | info.stx_dev_minor;
  // The inode number alone is not enough: a new folder may get that of a deleted one.
  found.identity = TextOf({device, info.stx_ino, NanosecondsOf(info.stx_btime)});
  found.stamp.text = TextOf({device, info.stx_ino, info.stx_size, NanosecondsOf(info.stx_mtime)});
  found.stamp.old = IsOld(info.stx_mtime);
  return found;
}

Result<std::shared_ptr<const StoredObject>> PosixStorage::Open(const std::string& path) const {
  const auto open = [path, opener = opener_]() -> Result<RandomAccessFile> {
    if (!opener) return RandomAccessFile::Open(path);
    QUARRY_ASSIGN_OR_RETURN(FileDescriptor fd, opener->Open(path, kReadFlags, "open"));
    return RandomAccessFile::Adopt(std::move(fd), path);
  };
  QUARRY_ASSIGN_OR_RETURN(auto file, files_->Add(open));
  return std::shared_ptr<const StoredObject>(std::make_shared<const PosixObject>(std::move(file)));
}

std::unique_ptr<Reading> PosixStorage::Begin(std::vector<ReadRange> ranges, RangeDone done,
                                             const std::function<bool()>& cancelled) const {
  if (costs_.side_by_side < 2) return Storage::Begin(std::move(ranges), std::move(done), cancelled);
  return BeginOnThreads(std::move(ranges), std::move(done), static_cast<std::size_t>(costs_.side_by_side));
}

Location::Location(std::string at) : Location(PosixStorage::Instance(), std::move(at)) {}
Location::Location(const char* at) : Location(std::string(at)) {}
Location::Location(const std::filesystem::path& at) : Location(at.string()) {}

std::string PosixStorage::AbsolutePath(const std::string& path) const {
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error);
  return Storage::AbsolutePath(error ? path : absolute.string());
}

}  // namespace quarry
