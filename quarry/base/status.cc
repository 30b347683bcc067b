#include "quarry/base/status.h"

#include <cerrno>
#include <system_error>

namespace quarry {

std::string ErrnoText(int error_number) { return std::generic_category().message(error_number); }

Status ErrnoStatus(int error_number, std::string_view action, std::string_view path) {
  std::string message = fmt::format("cannot {} \"{}\": {}", action, path, ErrnoText(error_number));
  switch (error_number) {
    case ENOENT:
    case ENOTDIR:
      return {StatusCode::kNotFound, message + "; check the path"};
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return {StatusCode::kInternal, message + "; free some space or write elsewhere, then run again"};
    case EMFILE:
    case ENFILE:
      return {StatusCode::kResourceExhausted,
              message + "; ask again later, or raise the limit on open files (ulimit -n)"};
    case EACCES:
    case EPERM:
    case EROFS:
      if (action == "open" || action == "read" || action == "list" || action == "stat")
        return {StatusCode::kInternal,
                message + "; give this user permission to read it, and to enter the folders above it"};
      return {StatusCode::kInternal, message + "; choose a writable path, or change its permissions"};
    default:
      return {StatusCode::kInternal, message};
  }
}

int ExitCode(const Status& status) {
  switch (status.code()) {
    case StatusCode::kOk:
      return 0;
    case StatusCode::kInvalidArgument:
    case StatusCode::kAlreadyExists:
    case StatusCode::kFailedPrecondition:
    case StatusCode::kOutOfRange:
    case StatusCode::kUnimplemented:
      return 2;
    case StatusCode::kNotFound:
      return 3;
    case StatusCode::kDataLoss:
      return 4;
    case StatusCode::kCancelled:
    case StatusCode::kDeadlineExceeded:
    case StatusCode::kPermissionDenied:
    case StatusCode::kResourceExhausted:
    case StatusCode::kAborted:
    case StatusCode::kUnavailable:
    case StatusCode::kUnauthenticated:
      return 5;
    case StatusCode::kUnknown:
    case StatusCode::kInternal:
      return 6;
  }
  return 6;
}

}  // namespace quarry
