#pragma once

#include <string>
#include <string_view>

#include "quarry/base/file.h"

namespace quarry {

/// Which symbolic links are followed.
enum class FollowLinks {
  kNo,
  kOwner,  ///< links whose owner also owns their target
  kYes,
};

/// The error of a failed open. @param action  "list", "stat" or "open"
/// @errors those of ErrnoStatus; kPermissionDenied: a folder that cannot be listed; kInvalidArgument: see
/// NotAFile
Status OpenError(int error_number, std::string_view action, const std::string& path);

/// Opens files below a folder, and follows symbolic links there by a rule. Changing links meanwhile does not
/// bypass the rule: every link is checked as it is followed. Keeps nothing open. Thread-safe.
class Opener {
 public:
  Opener(std::string root, FollowLinks links) : root_(std::move(root)), links_(links) {}

  /// @param path    the root, or one below it that begins with the root's path
  /// @param flags   of open, like kReadFlags
  /// @param action  for messages
  /// @errors kPermissionDenied: a link is not followed, or the path is not below the root; those of
  /// OpenError
  Result<FileDescriptor> Open(const std::string& path, int flags, const char* action) const;

  /// @errors kPermissionDenied: the path is not below the root
  Status CheckWithin(const std::string& path) const;

 private:
  const std::string root_;
  const FollowLinks links_;
};

}  // namespace quarry
