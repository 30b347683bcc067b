#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "quarry/base/file.h"

namespace quarry {

struct LockOptions {
  int timeout_seconds = 20;  ///< to wait for another holder
  bool break_lock = false;   ///< first removes the owner file of a process that is not known to run
};

/// A line that says who holds a lock since when, and that no other lock has: "HOST PROCESS TIME NUMBER".
std::string LockOwnerLine();

/// An exclusive lock on a directory: flock, and on file systems without it an owner file in the directory. It
/// ends at destruction. With flock it ends with the process too, however that ends; a killed process leaves
/// its owner file behind, and until that is removed nobody gets the lock. The lock stays with the directory
/// when that is renamed.
class DirectoryLock {
 public:
  /// The owner file: one line with host, process and time.
  static constexpr std::string_view kOwnerFile = ".quarry-owner";

  /// @errors kNotFound: there is no such directory; kUnavailable: another holds the lock, or its owner file
  /// was left behind; the message names the holder and says what to do; kFailedPrecondition: the process
  /// whose lock is to be broken runs on this machine; kInternal
  static Result<DirectoryLock> Acquire(const std::filesystem::path& path, const LockOptions& options = {});

  ~DirectoryLock();
  DirectoryLock(DirectoryLock&& other) noexcept = default;
  DirectoryLock& operator=(DirectoryLock&& other) noexcept;

  /// Removes the directory, which must have nothing else in it, and ends the lock. If that fails, somebody
  /// else may have it.
  void RemoveDirectory() &&;

 private:
  DirectoryLock(FileDescriptor fd, std::filesystem::path path, std::string owner)
      : fd_(std::move(fd)), path_(std::move(path)), owner_(std::move(owner)) {}
  void Release();

  FileDescriptor fd_;
  std::filesystem::path path_;
  std::string owner_;  ///< content of our owner file; empty: flock holds the lock
};

}  // namespace quarry
