#pragma once

#include <cstdint>
#include <string>

#include "server/http/channel.h"
#include "server/http/syntax.h"
#include "server/peer.h"

namespace quarry::server::http {

struct Exchange;

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
Outgoing ToOutgoing(const Answer& answer, const Exchange& exchange);

}  // namespace quarry::server::http
