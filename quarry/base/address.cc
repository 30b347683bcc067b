#include "quarry/base/address.h"

#include <arpa/inet.h>

#include "quarry/base/numbers.h"

namespace quarry {

Result<HostPort> ParseHostPort(std::string_view text) {
  constexpr int kLargestPort = 65535;
  const std::size_t colon = text.rfind(':');
  HostPort parsed;
  bool good = colon != std::string_view::npos && colon > 0;
  if (good) {
    parsed.host = text.substr(0, colon);
    const std::string_view port = text.substr(colon + 1);
    good = ReadNumber(port, &parsed.port) && parsed.port >= 0 && parsed.port <= kLargestPort;
    const bool bracketed = parsed.host.starts_with('[') && parsed.host.ends_with(']');
    good = good && (bracketed || parsed.host.find(':') == std::string::npos);
  }
  if (!good)
    return InvalidArgument("\"{}\" is not HOST:PORT; write for example 127.0.0.1:50051, or [::1]:50051",
                           text);
  return parsed;
}

bool IsLoopback(std::string_view host) {
  if (host == "localhost") return true;
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  const std::string text(host);
  in_addr v4{};
  if (inet_pton(AF_INET, text.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  in6_addr v6{};
  return inet_pton(AF_INET6, text.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

}  // namespace quarry
