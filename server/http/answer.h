#pragma once

#include <cstdint>
#include <string>

#include "server/http/channel.h"
#include "server/http/syntax.h"
#include "server/peer.h"

namespace quarry::server::http {

class Request;

/// An answer in one piece.
struct Answer {
  int status = 200;
  Headers headers;
  SharedBytes body;
  std::uint64_t announced = 0;  ///< [bytes] of a body that is sent elsewhere, or not at all

  /// An error, in words. @param text  one line
  static Answer Say(int status, const std::string& text, Headers headers = {});
};

/// The bytes of an answer. The body is left out where the request or the status has none.
/// @param headers  added to those of the answer
Outgoing ToOutgoing(const Answer& answer, const Request& request, const Headers& headers, bool keep_alive);

}  // namespace quarry::server::http
