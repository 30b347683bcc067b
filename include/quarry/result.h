#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

/// Errors as values: Status, and Result<T>.
namespace quarry {

/// Kinds of errors, with the numeric values of gRPC's status codes, so that a code crosses the network
/// unchanged.
enum class StatusCode : std::uint8_t {
  kOk = 0,
  kCancelled = 1,
  kUnknown = 2,          ///< it is done, but it may not last: a sync has failed
  kInvalidArgument = 3,  ///< the caller asked for something impossible
  kDeadlineExceeded = 4,
  kNotFound = 5,       ///< dataset, field, step or file does not exist
  kAlreadyExists = 6,  ///< output exists already
  kPermissionDenied = 7,
  kResourceExhausted = 8,  ///< a limit of the server, with its number in the message
  kFailedPrecondition = 9,
  kAborted = 10,
  kOutOfRange = 11,
  kUnimplemented = 12,
  kInternal = 13,     ///< the operating system failed: disk full, read error, out of memory
  kUnavailable = 14,  ///< server cannot be reached
  kDataLoss = 15,     ///< bytes on disk are not what was written
  kUnauthenticated = 16,
};

/// Success, or a code and one line that says what is wrong, the value, where, and what to do.
/// Cheap to move; safe to copy between threads.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  static Status Ok() { return {}; }

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }

  /// Prefixes the message of an error with "context: "; does nothing to success.
  Status Annotate(std::string_view context) && {
    if (!ok()) message_.insert(0, std::string(context) + ": ");
    return std::move(*this);
  }

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

/// A value, or the Status that says why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}  // NOLINT: implicit, so that `return value;` reads well
  Result(Status status) : status_(std::move(status)) {}  // NOLINT: implicit, so that errors pass through

  bool ok() const { return value_.has_value(); }
  const Status& status() const& { return status_; }
  Status status() && { return std::move(status_); }

  /// As Status::Annotate.
  Result Annotate(std::string_view context) && {
    status_ = std::move(status_).Annotate(context);
    return std::move(*this);
  }

  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T&& operator*() && { return std::move(*value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

namespace internal {
inline Status ToStatus(Status status) { return status; }
template <typename T>
Status ToStatus(Result<T>&& result) {
  return std::move(result).status();
}
}  // namespace internal

}  // namespace quarry

#define QUARRY_CONCAT_INNER(a, b) a##b
#define QUARRY_CONCAT(a, b) QUARRY_CONCAT_INNER(a, b)

/// Returns from the function with the error, if `expression` is one.
#define QUARRY_RETURN_IF_ERROR(expression)                            \
  do {                                                                \
    if (auto quarry_status_ = (expression); !quarry_status_.ok())     \
      return ::quarry::internal::ToStatus(std::move(quarry_status_)); \
  } while (false)

/// `QUARRY_ASSIGN_OR_RETURN(auto x, F());` returns from the function with the error, or assigns the value.
#define QUARRY_ASSIGN_OR_RETURN(declaration, expression) \
  QUARRY_ASSIGN_OR_RETURN_IMPL(QUARRY_CONCAT(quarry_result_, __LINE__), declaration, expression)
#define QUARRY_ASSIGN_OR_RETURN_IMPL(result, declaration, expression) \
  auto result = (expression);                                         \
  if (!result.ok()) return std::move(result).status();                \
  declaration = *std::move(result)
