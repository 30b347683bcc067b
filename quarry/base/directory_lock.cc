#include "quarry/base/directory_lock.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <optional>
#include <sstream>
#include <thread>
#include <utility>

namespace quarry {

namespace fs = std::filesystem;

namespace {

const char* const kOwnerName = DirectoryLock::kOwnerFile.data();

/// Whether the open directory is still the one at this path.
bool IsStillAt(int fd, const fs::path& path) {
  struct stat open_one;
  struct stat named_one;
  return ::fstat(fd, &open_one) == 0 && ::stat(path.c_str(), &named_one) == 0 &&
         open_one.st_dev == named_one.st_dev && open_one.st_ino == named_one.st_ino;
}

enum class Flock { kTaken, kHeld, kUnsupported };

Result<Flock> TryFlock(int fd, const fs::path& path) {
  if (::flock(fd, LOCK_EX | LOCK_NB) == 0) return Flock::kTaken;
  if (errno == EWOULDBLOCK || errno == EINTR) return Flock::kHeld;
  // Some parallel file systems are mounted without locks, and some lock servers do not answer.
  if (errno == ENOSYS || errno == EOPNOTSUPP || errno == ENOLCK) return Flock::kUnsupported;
  return ErrnoStatus(errno, "lock", path.string());
}

/// Author of an owner file.
struct Owner {
  std::string host;  ///< empty: the file is not understood, or not written yet
  pid_t process = 0;
  std::string since;
};

std::string ThisHost() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

/// The content of the owner file; nothing if there is none.
Result<std::optional<std::string>> ReadOwnerLine(int folder, const fs::path& path) {
  const FileDescriptor fd(::openat(folder, kOwnerName, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (fd.get() < 0 && errno == ENOENT) return std::optional<std::string>();
  std::array<char, 512> text{};
  const ssize_t got = fd.get() < 0 ? -1 : ::read(fd.get(), text.data(), text.size());
  if (got < 0) return ErrnoStatus(errno, "read", (path / kOwnerName).string());
  return std::optional(std::string(text.data(), static_cast<std::size_t>(got)));
}

Owner ParseOwner(const std::string& line) {
  std::istringstream words(line);
  Owner owner;
  std::string host;
  if (words >> host >> owner.process >> owner.since && owner.process > 0) owner.host = host;
  return owner;
}

bool IsOfThisHost(const Owner& owner) { return !owner.host.empty() && owner.host == ThisHost(); }

/// Whether a process of this host runs.
bool Runs(pid_t process) { return ::kill(process, 0) == 0 || errno != ESRCH; }

/// @returns false if there is an owner file already
Result<bool> TryCreateOwner(int folder, const fs::path& path, const std::string& line) {
  const FileDescriptor fd(::openat(folder, kOwnerName, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  // ENOENT: the last holder has just removed the directory.
  if (fd.get() < 0 && (errno == EEXIST || errno == ENOENT)) return false;
  if (fd.get() < 0) return ErrnoStatus(errno, "create", (path / kOwnerName).string());
  if (::write(fd.get(), line.data(), line.size()) == static_cast<ssize_t>(line.size())) return true;
  const Status status = ErrnoStatus(errno, "write", (path / kOwnerName).string());
  ::unlinkat(folder, kOwnerName, 0);
  return status;
}

Status Held(const fs::path& path, int waited) {
  return Unavailable("another process is writing to \"{}\" (waited {} s); wait for it to end, then run again",
                     path.string(), waited);
}

/// The error where an owner file is in the way.
Status HeldBy(const Owner& owner, const fs::path& path, int waited) {
  const std::string file = (path / kOwnerName).string();
  if (owner.host.empty())
    return Unavailable(
        "\"{}\" says that another process is writing to its folder (waited {} s); if none "
        "is, give --break-lock or remove the file",
        file, waited);
  if (IsOfThisHost(owner) && !Runs(owner.process))
    return Unavailable(
        "process {} was writing to \"{}\" since {} and has ended without leaving its lock; "
        "give --break-lock, or remove \"{}\"",
        owner.process, path.string(), owner.since, file);
  return Unavailable(
      "process {} of \"{}\" is writing to \"{}\" since {} (waited {} s); wait for it to end, "
      "or if it no longer runs, give --break-lock or remove \"{}\"",
      owner.process, owner.host, path.string(), owner.since, waited, file);
}

/// Removes the owner file of a process that is not known to run.
Status BreakLock(int folder, const fs::path& path) {
  QUARRY_ASSIGN_OR_RETURN(const std::optional<std::string> line, ReadOwnerLine(folder, path));
  if (!line) return Status::Ok();
  const std::string file = (path / kOwnerName).string();
  const Owner owner = ParseOwner(*line);
  if (IsOfThisHost(owner) && Runs(owner.process))
    return FailedPrecondition(
        "the lock of \"{}\" cannot be broken: process {} holds it since {} and runs; end it, "
        "or if it is no writer, remove \"{}\"",
        path.string(), owner.process, owner.since, file);
  if (::unlinkat(folder, kOwnerName, 0) != 0 && errno != ENOENT) return ErrnoStatus(errno, "remove", file);
  return Status::Ok();
}

}  // namespace

std::string LockOwnerLine() {
  static std::atomic<int> number = 0;
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  std::array<char, 32> time{};
  std::strftime(time.data(), time.size(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return fmt::format("{} {} {} {}\n", ThisHost(), ::getpid(), time.data(), number++);
}

Result<DirectoryLock> DirectoryLock::Acquire(const fs::path& path, const LockOptions& options) {
  using Clock = std::chrono::steady_clock;
  constexpr auto kLookEvery = std::chrono::milliseconds(50);
  const auto deadline = Clock::now() + std::chrono::seconds(options.timeout_seconds);
  bool to_break = options.break_lock;
  while (true) {
    FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (fd.get() < 0) return ErrnoStatus(errno, "open directory", path.string());
    if (std::exchange(to_break, false)) QUARRY_RETURN_IF_ERROR(BreakLock(fd.get(), path));
    QUARRY_ASSIGN_OR_RETURN(const Flock flocked, TryFlock(fd.get(), path));
    std::optional<DirectoryLock> lock;
    if (flocked == Flock::kTaken) lock.emplace(DirectoryLock(std::move(fd), path, ""));
    if (flocked == Flock::kUnsupported) {
      std::string line = LockOwnerLine();
      QUARRY_ASSIGN_OR_RETURN(const bool created, TryCreateOwner(fd.get(), path, line));
      if (created) lock.emplace(DirectoryLock(std::move(fd), path, std::move(line)));
    }
    const int folder = lock ? lock->fd_.get() : fd.get();
    // A writer on another machine may see the same file system without flock.
    QUARRY_ASSIGN_OR_RETURN(const std::optional<std::string> owner, ReadOwnerLine(folder, path));
    const bool ours = lock && (lock->owner_.empty() ? !owner : owner == lock->owner_);
    // The last holder may have removed or renamed the directory: a lock on the old one protects nothing.
    if (ours && IsStillAt(folder, path)) return *std::move(lock);
    const Owner holder = ParseOwner(owner.value_or(""));
    const bool stale = owner && IsOfThisHost(holder) && !Runs(holder.process);
    if (stale || Clock::now() >= deadline)
      return owner && !ours ? HeldBy(holder, path, options.timeout_seconds)
                            : Held(path, options.timeout_seconds);
    lock.reset();
    std::this_thread::sleep_for(kLookEvery);
  }
}

DirectoryLock::~DirectoryLock() { Release(); }

DirectoryLock& DirectoryLock::operator=(DirectoryLock&& other) noexcept {
  if (this == &other) return *this;
  Release();
  fd_ = std::move(other.fd_);
  path_ = std::move(other.path_);
  owner_ = std::move(other.owner_);
  return *this;
}

/// Removes our owner file. If our lock was broken, the file of another process stays.
void DirectoryLock::Release() {
  if (fd_.get() < 0 || owner_.empty()) return;
  const Result<std::optional<std::string>> line = ReadOwnerLine(fd_.get(), path_);
  if (line.ok() && line->value_or("") == owner_) ::unlinkat(fd_.get(), kOwnerName, 0);
  owner_.clear();
}

void DirectoryLock::RemoveDirectory() && {
  // The owner file is removed before its directory, and flock is held until that is removed too.
  Release();
  ::rmdir(path_.c_str());
  fd_ = FileDescriptor();
}

}  // namespace quarry
