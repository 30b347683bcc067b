#include "quarry/storage/directory_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "quarry/base/file.h"

namespace quarry {
namespace {

namespace fs = std::filesystem;

fs::path TemporaryOf(const fs::path& path) {
  static std::atomic<std::uint64_t> made{0};
  return path.parent_path() /
         fmt::format("{}{}-{}", DirectoryWriter::kTemporary, ::getpid(), made.fetch_add(1));
}

/// Makes a file; its folder as well, if that is missing.
template <typename Make>
auto MadeInFolder(const fs::path& path, Make make) -> decltype(make()) {
  auto made = make();
  const StatusCode code = made.status().code();
  // A file that cannot be created although its folder is there is kInternal: another thread may have made the
  // folder between these two looks.
  const bool may_lack_folder = code == StatusCode::kNotFound || code == StatusCode::kInternal;
  if (made.ok() || !may_lack_folder || !path.has_parent_path()) return made;
  QUARRY_RETURN_IF_ERROR(CreateDirectories(path.parent_path()));
  return make();
}

Result<std::string> TagOfFile(const std::string& path) {
  struct stat info;
  if (::stat(path.c_str(), &info) != 0) return ErrnoStatus(errno, "stat", path);
  return fmt::format("{}-{}-{}.{:09}-{}", info.st_dev, info.st_ino, info.st_ctim.tv_sec, info.st_ctim.tv_nsec,
                     info.st_size);
}

Status NewName(const fs::path& temporary, const fs::path& path) {
  if (::link(temporary.c_str(), path.c_str()) == 0) return Status::Ok();
  if (errno == EEXIST) return AlreadyExists("\"{}\" is there already", path.string());
  // File systems without links have this call, or nothing that does not replace.
  if (::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, path.c_str(), RENAME_NOREPLACE) == 0)
    return Status::Ok();
  if (errno == EEXIST) return AlreadyExists("\"{}\" is there already", path.string());
  return ErrnoStatus(errno, "create", path.string());
}

/// Gives a durable file its name. The temporary name is gone then, also after an error.
Status Place(const fs::path& temporary, const fs::path& path, const PutCondition& condition) {
  bool is_moved = false;
  const Status placed = [&]() -> Status {
    if (condition.kind == PutCondition::Kind::kIfAbsent) return NewName(temporary, path);
    if (condition.kind == PutCondition::Kind::kIfTag) {
      QUARRY_ASSIGN_OR_RETURN(const std::string tag, TagOfFile(path.string()));
      if (tag != condition.tag)
        return FailedPrecondition("\"{}\" was replaced by another process", path.string());
    }
    Status renamed = Rename(temporary, path);
    is_moved = renamed.ok();
    return renamed;
  }();
  if (!is_moved) ::unlink(temporary.c_str());
  return placed;
}

class FileInParts final : public Upload {
 public:
  static Result<std::unique_ptr<Upload>> Begin(const fs::path& path, std::uint64_t part_bytes) {
    const fs::path temporary = TemporaryOf(path);
    QUARRY_ASSIGN_OR_RETURN(
        FileDescriptor fd, MadeInFolder(path, [&]() -> Result<FileDescriptor> {
          FileDescriptor made(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
          if (made.get() < 0) return ErrnoStatus(errno, "create", temporary.string());
          return made;
        }));
    return std::unique_ptr<Upload>(new FileInParts(path, temporary, std::move(fd), part_bytes));
  }

  std::uint64_t part_bytes() const override { return part_bytes_; }

  Status PutPart(std::uint64_t number, ByteSpan bytes) override {
    auto at = static_cast<off_t>(number * part_bytes_);
    while (!bytes.empty()) {
      const ssize_t written = ::pwrite(fd_.get(), bytes.data(), bytes.size(), at);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return ErrnoStatus(errno, "write", path_.string());
      bytes = bytes.subspan(static_cast<std::size_t>(written));
      at += written;
    }
    return Status::Ok();
  }

  Status Complete(std::uint64_t size, const PutCondition& condition) override {
    struct stat info;
    if (::fstat(fd_.get(), &info) != 0) return ErrnoStatus(errno, "stat", path_.string());
    if (static_cast<std::uint64_t>(info.st_size) != size)
      return InternalError("\"{}\" has {} of {} bytes", temporary_.string(), info.st_size, size);
    if (::fsync(fd_.get()) != 0) return ErrnoStatus(errno, "sync", path_.string());
    return Place(temporary_, path_, condition);
  }

  Status Abort() override {
    if (::unlink(temporary_.c_str()) == 0 || errno == ENOENT) return Status::Ok();
    return ErrnoStatus(errno, "remove", temporary_.string());
  }

 private:
  FileInParts(fs::path path, fs::path temporary, FileDescriptor fd, std::uint64_t part)
      : path_(std::move(path)), temporary_(std::move(temporary)), fd_(std::move(fd)), part_bytes_(part) {}

  const fs::path path_, temporary_;
  const FileDescriptor fd_;
  const std::uint64_t part_bytes_;
};

/// A file with its name from the begin.
class FileInPlace final : public NewFile {
 public:
  explicit FileInPlace(WritableFile file) : file_(std::move(file)) {}

  Status Append(ByteSpan bytes) override { return file_.Append(bytes); }
  std::uint64_t size() const override { return file_.size(); }
  Status Sync() override { return file_.Sync(); }
  Status Finish() override { return file_.SyncAndClose(); }

 private:
  WritableFile file_;
};

}  // namespace

Status DirectoryWriter::Put(const std::string& path, ByteSpan bytes, const PutCondition& condition) const {
  const fs::path temporary = TemporaryOf(path);
  QUARRY_ASSIGN_OR_RETURN(WritableFile file,
                          MadeInFolder(path, [&] { return WritableFile::Create(temporary); }));
  Status written = file.Append(bytes);
  if (written.ok()) written = file.SyncAndClose();
  if (!written.ok()) {
    ::unlink(temporary.c_str());
    return written;
  }
  return Place(temporary, path, condition);
}

Result<std::unique_ptr<Upload>> DirectoryWriter::BeginUpload(const std::string& path, std::uint64_t) const {
  return FileInParts::Begin(path, part_bytes_);
}

Result<std::unique_ptr<NewFile>> DirectoryWriter::Create(const std::string& path, std::uint64_t) const {
  Result<WritableFile> file = MadeInFolder(path, [&] { return WritableFile::Create(path); });
  std::error_code ignored;
  if (!file.ok() && fs::exists(path, ignored)) return AlreadyExists("\"{}\" is there already", path);
  QUARRY_RETURN_IF_ERROR(file.status());
  return std::unique_ptr<NewFile>(std::make_unique<FileInPlace>(*std::move(file)));
}

Result<std::string> DirectoryWriter::TagOf(const std::string& path) const { return TagOfFile(path); }

Status DirectoryWriter::Remove(const std::string& path) const {
  if (::unlink(path.c_str()) == 0 || errno == ENOENT) return Status::Ok();
  return ErrnoStatus(errno, "remove", path);
}

Result<std::uint64_t> DirectoryWriter::RemoveLeftovers(const std::string& folder) const {
  std::uint64_t removed = 0;
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, error);
  for (const fs::recursive_directory_iterator end; !error && entry != end; entry.increment(error)) {
    if (!entry->path().filename().string().starts_with(kTemporary)) continue;
    QUARRY_RETURN_IF_ERROR(Remove(entry->path().string()));
    ++removed;
  }
  if (error && error != std::errc::no_such_file_or_directory)
    return ErrnoStatus(error.value(), "list", folder);
  return removed;
}

Status DirectoryWriter::MakeFolder(const std::string& folder) const { return CreateDirectories(folder); }

Status DirectoryWriter::RenameFolder(const std::string& from, const std::string& to) const {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return Status::Ok();
  if (errno == EEXIST) return AlreadyExists("\"{}\" is there already", to);
  if (errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP)
    return ErrnoStatus(errno, fmt::format("rename \"{}\" to", from), to);
  // The lock keeps others from making the folder between these calls; rename replaces none with files in it.
  std::error_code ignored;
  if (fs::exists(to, ignored)) return AlreadyExists("\"{}\" is there already", to);
  return Rename(from, to);
}

Status DirectoryWriter::SyncFolder(const std::string& folder) const { return SyncDirectory(folder); }

Result<std::shared_ptr<void>> DirectoryWriter::LockFolder(const std::string& folder,
                                                          const LockOptions& options) const {
  while (true) {
    QUARRY_RETURN_IF_ERROR(CreateDirectories(folder));
    Result<DirectoryLock> lock = DirectoryLock::Acquire(folder, options);
    // The last holder may have renamed the folder or removed it.
    if (lock.status().code() == StatusCode::kNotFound) continue;
    QUARRY_RETURN_IF_ERROR(lock.status());
    return std::shared_ptr<void>(std::make_shared<DirectoryLock>(*std::move(lock)));
  }
}

}  // namespace quarry
