#include "quarry/storage/opener.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <string_view>

namespace quarry {
namespace {

/// As many as the system follows.
constexpr int kMostLinks = 40;

constexpr int kPathFlags = O_PATH | O_CLOEXEC;

/// Opens a path that has no symbolic link in it.
FileDescriptor OpenWithoutLinks(int folder, const char* path, int flags) {
  open_how how{};
  how.flags = static_cast<std::uint64_t>(flags | O_CLOEXEC);
  how.resolve = RESOLVE_NO_SYMLINKS;
  return FileDescriptor(static_cast<int>(::syscall(SYS_openat2, folder, path, &how, sizeof how)));
}

/// Follows a path name by name. Errors are numbers of errno; ELOOP for a link that is not followed.
class Walk {
 public:
  explicit Walk(FollowLinks links) : links_(links) {}

  /// @param flags  of the last name
  /// @returns -1 with errno
  FileDescriptor Open(int folder, std::string_view path, int flags) {
    FileDescriptor at(::openat(folder, ".", kPathFlags));
    while (at.get() >= 0) {
      path.remove_prefix(std::min(path.find_first_not_of('/'), path.size()));
      const std::string name(path.substr(0, path.find('/')));
      path.remove_prefix(name.size());
      const bool last = path.find_first_not_of('/') == std::string_view::npos;
      if (name.empty()) return FileDescriptor(::openat(at.get(), ".", flags | O_CLOEXEC));
      FileDescriptor next = Step(at.get(), name.c_str(), last ? flags : kPathFlags);
      if (last) return next;
      at = std::move(next);
    }
    return at;
  }

 private:
  /// Opens one name, or the target of the link of this name.
  FileDescriptor Step(int folder, const char* name, int flags) {
    FileDescriptor found(::openat(folder, name, kPathFlags | O_NOFOLLOW));
    struct stat info;
    if (found.get() < 0 || ::fstat(found.get(), &info) != 0) return FileDescriptor();
    if (S_ISLNK(info.st_mode)) return Follow(folder, found.get(), info.st_uid, flags);
    if ((flags & O_PATH) != 0) return found;
    // A file that replaces the link meanwhile is not a link, so it is safe to open.
    return FileDescriptor(::openat(folder, name, flags | O_NOFOLLOW | O_CLOEXEC));
  }

  /// @param link  open itself, so that its owner and its text are those of one link
  FileDescriptor Follow(int folder, int link, uid_t owner, int flags) {
    std::array<char, PATH_MAX> text;
    const ssize_t size = ::readlinkat(link, "", text.data(), text.size());
    if (size < 0) return FileDescriptor();
    if (links_ == FollowLinks::kNo || ++followed_ > kMostLinks) return Refuse();
    const std::string_view path(text.data(), static_cast<std::size_t>(size));
    const FileDescriptor top(path.starts_with('/') ? ::open("/", kPathFlags) : -1);
    FileDescriptor target = Open(top.get() >= 0 ? top.get() : folder, path, flags);
    struct stat info;
    if (target.get() < 0 || ::fstat(target.get(), &info) != 0) return FileDescriptor();
    return links_ == FollowLinks::kYes || info.st_uid == owner ? std::move(target) : Refuse();
  }

  static FileDescriptor Refuse() {
    errno = ELOOP;
    return FileDescriptor();
  }

  const FollowLinks links_;
  int followed_ = 0;
};

Status Refused(const std::string& path, FollowLinks links) {
  return {StatusCode::kPermissionDenied,
          fmt::format("\"{}\" is behind a symbolic link that is not followed{}; start the server with "
                      "another --follow-symlinks, or replace the link with the data",
                      path, links == FollowLinks::kOwner ? ", as its owner does not own its target" : "")};
}

/// Whether a path is a folder, or inside it.
bool IsWithin(std::string_view path, std::string_view folder) {
  if (!path.starts_with(folder)) return false;
  path.remove_prefix(folder.size());
  const bool separated = path.empty() || folder.ends_with('/') || path.starts_with('/');
  return separated && path != ".." && !path.ends_with("/..") && path.find("/../") == std::string_view::npos &&
         !path.starts_with("../");
}

}  // namespace

Status OpenError(int error_number, std::string_view action, const std::string& path) {
  if (error_number == ENXIO) return NotAFile(path, "socket or device");
  Status status = ErrnoStatus(error_number, action, path);
  if (error_number != EACCES || action != "list") return status;
  return {StatusCode::kPermissionDenied, status.message()};
}

Result<FileDescriptor> Opener::Open(const std::string& path, int flags, const char* action) const {
  QUARRY_RETURN_IF_ERROR(CheckWithin(path));
  FileDescriptor found = OpenWithoutLinks(AT_FDCWD, path.c_str(), flags);
  if (found.get() >= 0) return found;
  // ENOSYS, EPERM: an old kernel, or a container without this call.
  if (errno != ELOOP && errno != ENOSYS && errno != EPERM) return OpenError(errno, action, path);
  const FileDescriptor root(::open(root_.c_str(), kPathFlags | O_DIRECTORY));
  if (root.get() < 0) return OpenError(errno, action, root_);
  found = Walk(links_).Open(root.get(), std::string_view(path).substr(root_.size()), flags);
  if (found.get() >= 0) return found;
  return errno == ELOOP ? Refused(path, links_) : OpenError(errno, action, path);
}

Status Opener::CheckWithin(const std::string& path) const {
  if (IsWithin(path, root_)) return Status::Ok();
  return {StatusCode::kPermissionDenied,
          fmt::format("\"{}\" is not below \"{}\"; give a path that is", path, root_)};
}

}  // namespace quarry
