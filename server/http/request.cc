#include "server/http/request.h"

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <limits>

#include "quarry/base/utf8.h"
#include "server/http/syntax.h"

namespace quarry::server::http {
namespace {

namespace beast = boost::beast;

beast::string_view ToBoost(std::string_view text) { return {text.data(), text.size()}; }
std::string_view ToStd(beast::string_view text) { return {text.data(), text.size()}; }

Status LongHead() {
  return ResourceExhausted("the head of the request has more than {} bytes; send fewer and shorter headers",
                           kMostHead);
}

Status LongBody() { return ResourceExhausted("the body of the request is too long; ask for less at a time"); }

Status LongFraming() {
  return InvalidArgument(
      "the chunks and trailers of the body take more than {} bytes beside its content; send larger chunks",
      kMostFraming);
}

Status ToStatus(const beast::error_code& error) {
  if (error == beast::http::error::header_limit) return LongHead();
  if (error == beast::http::error::body_limit) return LongBody();
  return InvalidArgument("not an HTTP/1.1 request: {}", error.message());
}

/// Whether the head says where the body ends. Beast takes a request for one without a body if it does not
/// know its transfer coding, and the body for the next request.
/// @source RFC 9112, 6.1 and 6.3
Status CheckFraming(const beast::http::fields& fields, bool old) {
  const auto codings = fields.equal_range(beast::http::field::transfer_encoding);
  if (codings.first == codings.second) return Status::Ok();
  if (old) return InvalidArgument("HTTP/1.0 has no Transfer-Encoding; send a Content-Length");
  if (fields.count(beast::http::field::content_length) > 0)
    return InvalidArgument("a request has a Transfer-Encoding or a Content-Length, not both");
  std::string all;
  for (auto it = codings.first; it != codings.second; ++it)
    all += (all.empty() ? "" : ", ") + std::string(ToStd(it->value()));
  if (beast::iequals(ToBoost(Trimmed(all)), "chunked")) return Status::Ok();
  const std::size_t comma = all.rfind(',');
  const std::string_view last =
      Trimmed(std::string_view(all).substr(comma == std::string::npos ? 0 : comma + 1));
  if (beast::iequals(ToBoost(last), "chunked"))
    return Unimplemented("unknown transfer codings \"{}\"; send the body as it is, or chunked",
                         Printable(Beginning(all, 100)));
  return InvalidArgument(
      "the last transfer coding is \"{}\", which does not say where the body ends; send the "
      "body as it is, or chunked",
      Printable(Beginning(last, 100)));
}

}  // namespace

struct Request::State {
  beast::http::request_parser<beast::http::string_body> parser;
  Status failed;           ///< how Put has ended for good
  std::size_t head = 0;    ///< [bytes] of it that the parser has taken
  std::uint64_t body = 0;  ///< [bytes] that the parser has taken behind the head, of any kind
  std::uint64_t most = std::numeric_limits<std::uint64_t>::max();  ///< see LimitBody
};

Request::Request() : state_(std::make_unique<State>()) {
  state_->parser.header_limit(static_cast<std::uint32_t>(kMostHead));
  // Checked where it is known how long a question may be, and before memory is made for it.
  state_->parser.body_limit(std::numeric_limits<std::uint64_t>::max());
}

Request::~Request() = default;

Result<std::size_t> Request::Put(std::string_view bytes) {
  // A parser that has failed is in no state to go on.
  QUARRY_RETURN_IF_ERROR(state_->failed);
  Result<std::size_t> used = Parse(bytes);
  state_->failed = used.status();
  return used;
}

Result<std::size_t> Request::Parse(std::string_view bytes) {
  std::size_t used = 0;
  auto& parser = state_->parser;
  // The parser looks at an announced length when it has the head, and not again.
  if (has_head() && content_length().value_or(0) > state_->most) return LongBody();
  while (used < bytes.size() && !parser.is_done()) {
    const bool head = parser.is_header_done();
    // Beast asserts that so much is there of the end of a body in chunks, when it has seen its beginning.
    constexpr std::size_t kShortestEnd = std::string_view("0\r\n\r\n").size();
    if (head && !content_length() && bytes.size() - used < kShortestEnd) break;
    beast::error_code error;
    const std::size_t more =
        parser.put(boost::asio::const_buffer(bytes.data() + used, bytes.size() - used), error);
    used += more;
    // The parser's own limit is for each call, so headers are counted here.
    if (!head && (state_->head += more) > kMostHead) return LongHead();
    if (error == beast::http::error::need_more) break;
    if (error) return ToStatus(error);
    if (head) {
      state_->body += more;
    } else if (parser.is_header_done()) {
      QUARRY_RETURN_IF_ERROR(CheckFraming(parser.get(), is_old()));
      // The body is left to callers that know how much of it they want.
      break;
    }
    if (more == 0) break;
  }
  if (!has_head() && state_->head + bytes.size() - used > kMostHead) return LongHead();
  if (has_head() && !is_done() && Framing(bytes.size() - used) > kMostFraming) return LongFraming();
  return used;
}

/// [bytes] behind the head that are not content. @param unused  of it: a line without an end
std::uint64_t Request::Framing(std::size_t unused) const {
  if (content_length()) return 0;
  return state_->body + unused - state_->parser.get().body().size();
}

bool Request::has_head() const { return state_->parser.is_header_done(); }
bool Request::is_done() const { return state_->parser.is_done(); }

std::string_view Request::method() const { return ToStd(state_->parser.get().method_string()); }
std::string_view Request::target() const { return ToStd(state_->parser.get().target()); }
bool Request::is_old() const { return state_->parser.get().version() < 11; }
bool Request::keep_alive() const { return state_->parser.keep_alive(); }

std::optional<std::string_view> Request::Header(std::string_view name) const {
  const auto& fields = state_->parser.get();
  const auto found = fields.find(ToBoost(name));
  if (found == fields.end()) return std::nullopt;
  return ToStd(found->value());
}

std::size_t Request::Count(std::string_view name) const { return state_->parser.get().count(ToBoost(name)); }

std::optional<std::uint64_t> Request::content_length() const {
  const auto length = state_->parser.content_length();
  return length ? std::optional<std::uint64_t>(*length) : std::nullopt;
}

void Request::LimitBody(std::uint64_t bytes) {
  state_->most = bytes;
  state_->parser.body_limit(bytes);
}
std::string& Request::body() { return state_->parser.get().body(); }

}  // namespace quarry::server::http
