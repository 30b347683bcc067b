#include "quarry/base/file.h"

#include <fcntl.h>
#include <ftw.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>

namespace quarry {

namespace fs = std::filesystem;

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) ::close(fd_);
}

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = other.Release();
  }
  return *this;
}

const int kReadFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

std::string_view NameOfType(unsigned mode) {
  if (S_ISDIR(mode)) return "folder";
  if (S_ISFIFO(mode)) return "FIFO";
  if (S_ISSOCK(mode)) return "socket";
  if (S_ISREG(mode)) return "file";
  return "device";
}

Result<RandomAccessFile> RandomAccessFile::Open(const fs::path& path) {
  FileDescriptor fd(::open(path.c_str(), kReadFlags));
  if (fd.get() < 0 && errno == ENXIO) return NotAFile(path.native(), "socket or device");
  if (fd.get() < 0) return ErrnoStatus(errno, "open", path.string());
  return Adopt(std::move(fd), path.string());
}

Result<RandomAccessFile> RandomAccessFile::Adopt(FileDescriptor fd, std::string path) {
  struct stat info;
  if (::fstat(fd.get(), &info) != 0) return ErrnoStatus(errno, "stat", path);
  if (!S_ISREG(info.st_mode)) return NotAFile(path, NameOfType(info.st_mode));
  constexpr std::int64_t kSecond = 1'000'000'000;
  const FileIdentity identity{info.st_dev, info.st_ino, info.st_mtim.tv_sec * kSecond + info.st_mtim.tv_nsec};
  return RandomAccessFile(std::move(fd), static_cast<std::uint64_t>(info.st_size), identity, std::move(path));
}

namespace {

Status ReadFully(int fd, const std::string& path, std::uint64_t offset, std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t got = ::pread(fd, out.data(), out.size(), static_cast<off_t>(offset));
    if (got < 0) {
      if (errno == EINTR) continue;
      return ErrnoStatus(errno, "read", path);
    }
    if (got == 0) return EndsEarly(path, offset, out.size());
    offset += static_cast<std::uint64_t>(got);
    out = out.subspan(static_cast<std::size_t>(got));
  }
  return Status::Ok();
}

}  // namespace

Status RandomAccessFile::ReadAt(std::uint64_t offset, std::span<std::byte> out) const {
  return ReadFully(fd_.get(), path_, offset, out);
}

void RandomAccessFile::ExpectRead(std::uint64_t offset, std::uint64_t size) const {
#if defined(POSIX_FADV_WILLNEED)
  // Only advice: the system may refuse it.
  ::posix_fadvise(fd_.get(), static_cast<off_t>(offset), static_cast<off_t>(size), POSIX_FADV_WILLNEED);
#endif
}

Result<TemporaryFile> TemporaryFile::Create(const fs::path& folder) {
  FileDescriptor fd(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  const std::string path = (folder / "temporary file").string();
  if (fd.get() >= 0) return TemporaryFile(std::move(fd), path);
  // Network file systems have no O_TMPFILE.
  std::string name = (folder / ".temporary-XXXXXX").string();
  fd = FileDescriptor(::mkostemp(name.data(), O_CLOEXEC));
  if (fd.get() < 0) return ErrnoStatus(errno, "create a temporary file in", folder.string());
  ::unlink(name.c_str());
  return TemporaryFile(std::move(fd), path);
}

Status TemporaryFile::WriteAt(std::uint64_t offset, ByteSpan bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::pwrite(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (put < 0) {
      if (errno == EINTR) continue;
      return ErrnoStatus(errno, "write", path_);
    }
    offset += static_cast<std::uint64_t>(put);
    bytes = bytes.subspan(static_cast<std::size_t>(put));
  }
  return Status::Ok();
}

Status TemporaryFile::ReadAt(std::uint64_t offset, std::span<std::byte> out) const {
  return ReadFully(fd_.get(), path_, offset, out);
}

namespace {

/// A new file. @param access  O_WRONLY or O_RDWR
Result<FileDescriptor> CreateNew(const fs::path& path, int access) {
  FileDescriptor fd(::open(path.c_str(), access | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (fd.get() >= 0) return fd;
  const Status status = ErrnoStatus(errno, "create", path.string());
  std::error_code ignored;
  // Not a missing path: the directory exists, but nothing can be created in it.
  if (status.code() == StatusCode::kNotFound && fs::is_directory(path.parent_path(), ignored))
    return Status(StatusCode::kInternal, status.message());
  return status;
}

constexpr const char* kDescriptors = "/proc/self/fd";

fs::path TemporaryBeside(const fs::path& path) {
  return path.string() + fmt::format(".partial-{}", ::getpid());
}

Status RenameDurably(const fs::path& from, const fs::path& to) {
  QUARRY_RETURN_IF_ERROR(Rename(from, to));
  return SyncDirectory(to.parent_path());
}

}  // namespace

Result<WritableFile> WritableFile::Create(const fs::path& path) {
  QUARRY_ASSIGN_OR_RETURN(FileDescriptor fd, CreateNew(path, O_WRONLY));
  return WritableFile(std::move(fd), path.string());
}

Result<MappedFile> MappedFile::Create(const fs::path& path, std::uint64_t size) {
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  const fs::path temporary = TemporaryBeside(path);
  FileDescriptor fd;
  // A file without a name gets one through its descriptor. Network file systems have no such files.
  if (::access(kDescriptors, X_OK) == 0)
    fd = FileDescriptor(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0666));
  std::error_code ignored;
  fs::remove(temporary, ignored);
  const bool named = fd.get() < 0;
  if (named) {
    QUARRY_ASSIGN_OR_RETURN(fd, CreateNew(temporary, O_RDWR));
  }
  MappedFile file(std::move(fd), named, path, temporary);
  QUARRY_RETURN_IF_ERROR(file.Fill(size));
  return file;
}

Status MappedFile::Fill(std::uint64_t size) {
  if (size == 0) return Status::Ok();
  // A page without space on the disk would end the process when it is written.
  const int error = ::posix_fallocate(fd_.get(), 0, static_cast<off_t>(size));
  if (error != 0) return ErrnoStatus(error, "write", path_.string());
  void* const memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
  if (memory == MAP_FAILED)
    return {StatusCode::kUnimplemented, ErrnoStatus(errno, "map", path_.string()).message()};
  bytes_ = {static_cast<std::byte*>(memory), size};
  return Status::Ok();
}

void MappedFile::Unmap() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
  bytes_ = {};
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : fd_(std::move(other.fd_)),
      named_(std::exchange(other.named_, false)),
      path_(std::move(other.path_)),
      temporary_(std::move(other.temporary_)),
      bytes_(std::exchange(other.bytes_, {})) {}

MappedFile::~MappedFile() {
  Unmap();
  std::error_code ignored;
  if (named_) fs::remove(temporary_, ignored);
}

Status MappedFile::Publish() {
  Unmap();
  if (::fsync(fd_.get()) != 0) return ErrnoStatus(errno, "sync", path_.string());
  if (!named_) {
    const std::string self = fmt::format("{}/{}", kDescriptors, fd_.get());
    if (::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, temporary_.c_str(), AT_SYMLINK_FOLLOW) != 0)
      return ErrnoStatus(errno, "create", temporary_.string());
    named_ = true;
  }
  QUARRY_RETURN_IF_ERROR(Rename(temporary_, path_));
  named_ = false;
  return Status::Ok();
}

Status WritableFile::Append(ByteSpan bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(fd_.get(), bytes.data(), bytes.size());
    if (put < 0) {
      if (errno == EINTR) continue;
      return ErrnoStatus(errno, "write", path_);
    }
    size_ += static_cast<std::uint64_t>(put);
    bytes = bytes.subspan(static_cast<std::size_t>(put));
  }
  return Status::Ok();
}

Status WritableFile::Sync() {
  if (::fsync(fd_.get()) != 0) return ErrnoStatus(errno, "sync", path_);
  return Status::Ok();
}

Status WritableFile::SyncAndClose() {
  QUARRY_RETURN_IF_ERROR(Sync());
  if (::close(fd_.Release()) != 0) return ErrnoStatus(errno, "close", path_);
  return Status::Ok();
}

Result<Bytes> ReadWholeFile(const fs::path& path, std::uint64_t limit) {
  QUARRY_ASSIGN_OR_RETURN(RandomAccessFile file, RandomAccessFile::Open(path));
  QUARRY_RETURN_IF_ERROR(CheckFileSize(path.native(), file.size(), limit));
  Bytes bytes(file.size());
  QUARRY_RETURN_IF_ERROR(file.ReadAt(0, bytes));
  return bytes;
}

Result<std::string> ReadTextFile(const fs::path& path, std::uint64_t limit) {
  QUARRY_ASSIGN_OR_RETURN(const Bytes bytes, ReadWholeFile(path, limit));
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

Status ReplaceFile(const fs::path& path, ByteSpan bytes) {
  return ReplaceFile(path, bytes, TemporaryBeside(path));
}

Status ReplaceFile(const fs::path& path, ByteSpan bytes, const fs::path& temporary) {
  std::error_code ignored;
  fs::remove(temporary, ignored);
  Status status = [&]() -> Status {
    QUARRY_ASSIGN_OR_RETURN(WritableFile file, WritableFile::Create(temporary));
    QUARRY_RETURN_IF_ERROR(file.Append(bytes));
    QUARRY_RETURN_IF_ERROR(file.SyncAndClose());
    return RenameDurably(temporary, path);
  }();
  if (!status.ok()) fs::remove(temporary, ignored);
  return status;
}

Status SyncDirectory(const fs::path& path) {
  const fs::path directory = path.empty() ? fs::path(".") : path;
  FileDescriptor fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() < 0) return ErrnoStatus(errno, "open directory", directory.string());
  // Some file systems cannot sync a directory and say EINVAL: nothing more can be done.
  if (::fsync(fd.get()) != 0 && errno != EINVAL)
    return ErrnoStatus(errno, "sync directory", directory.string());
  return Status::Ok();
}

Status Rename(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) {
    return ErrnoStatus(errno, fmt::format("rename \"{}\" to", from.string()), to.string());
  }
  return Status::Ok();
}

Status RemoveTree(const fs::path& path) {
  constexpr int kOpenFolders = 8;
  // An entry that another process removes meanwhile counts as removed.
  const auto remove = [](const char* entry, const struct stat*, int, FTW*) {
    return std::remove(entry) == 0 || errno == ENOENT ? 0 : -1;
  };
  if (::nftw(path.c_str(), remove, kOpenFolders, FTW_DEPTH | FTW_PHYS) == 0 || errno == ENOENT)
    return Status::Ok();
  const std::string why = ErrnoText(errno);
  return InternalError("cannot remove \"{}\": {}; remove it by hand", path.string(), why);
}

Status CreateDirectories(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) {
    const Status status = ErrnoStatus(error.value(), "create directory", path.string());
    return {StatusCode::kInternal, status.message()};
  }
  return Status::Ok();
}

}  // namespace quarry
