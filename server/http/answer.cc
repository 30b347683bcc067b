#include "server/http/answer.h"

#include <ctime>
#include <utility>

#include "quarry/base/utf8.h"
#include "server/http/http_call.h"

namespace quarry::server::http {

Answer Answer::Say(int status, const std::string& text, Headers headers) {
  headers.emplace_back("content-type", "text/plain; charset=utf-8");
  headers.emplace_back("cache-control", "no-store");
  headers.emplace_back("x-content-type-options", "nosniff");
  return {status, std::move(headers), OwnBytes(Printable(text) + "\n"), 0};
}

Outgoing ToOutgoing(const Answer& answer, const Exchange& exchange) {
  Headers all = answer.headers;
  all.insert(all.end(), exchange.headers.begin(), exchange.headers.end());
  all.emplace_back("date", HttpDate(std::time(nullptr)));
  const bool has_body = answer.status != 204 && answer.status != 304;
  if (has_body)
    all.emplace_back("content-length", std::to_string(answer.body.bytes.size() + answer.announced));
  all.emplace_back("connection", exchange.keep_alive ? "keep-alive" : "close");
  Outgoing outgoing;
  outgoing.Add(HeadOf(answer.status, all));
  const bool wanted = !exchange.request->has_head() || exchange.request->method() != "HEAD";
  if (has_body && wanted) outgoing.Add(answer.body);
  return outgoing;
}

}  // namespace quarry::server::http
