#pragma once

#include <chrono>
#include <string>

#include "quarry/base/status.h"

namespace quarry::server {

/// The end of a call, as every transport sends it.
struct StatusDetails {
  std::string message;  ///< UTF-8, and short enough for a header
  std::string bytes;    ///< bytes of the google.rpc.Status; empty for success
};

/// The same code, the same message, and one google.rpc.ErrorInfo of domain "quarry" whose reason is the name
/// of the code.
/// @param request_id  goes into the ErrorInfo's metadata as "request_id", unless it is empty
StatusDetails DetailsOf(const Status& status, const std::string& request_id);

/// When a refused call may be repeated: another time for each, so that those that are refused together do not
/// come back together.
std::chrono::milliseconds RetryAfter();

}  // namespace quarry::server
