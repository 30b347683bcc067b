#pragma once

#include <string>
#include <string_view>

#include "quarry/base/status.h"

namespace quarry {

/// The address at which a server listens or is reached.
struct HostPort {
  std::string host;  ///< as written: a name, 127.0.0.1, [::1]
  int port = 0;
};

/// "HOST:PORT"; an IPv6 address stands in brackets. @errors kInvalidArgument
Result<HostPort> ParseHostPort(std::string_view text);

/// True for hosts that do not leave this machine: localhost, 127.x.x.x, [::1]. Names are not looked up.
bool IsLoopback(std::string_view host);

}  // namespace quarry
