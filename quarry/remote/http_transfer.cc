#include "quarry/remote/http_transfer.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdio>
#include <cstring>

#include "quarry/remote/text.h"

namespace quarry::remote {
namespace {

/// [bytes] Most of an answer with an error status that is kept: its reason is short.
constexpr std::uint64_t kMostErrorBody = 64 << 10;
constexpr int kMostRedirects = 5;
constexpr long kStallBytes = 1024;

std::optional<std::uint64_t> NumberIn(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return number;
}

/// "bytes BEGIN-END/SIZE"
struct ContentRange {
  std::uint64_t begin = 0, end = 0;
  std::optional<std::uint64_t> size;
};

std::optional<ContentRange> ParseContentRange(std::string_view text) {
  if (!text.starts_with("bytes ")) return std::nullopt;
  text.remove_prefix(6);
  const std::size_t dash = text.find('-'), slash = text.find('/');
  if (dash == std::string_view::npos || slash == std::string_view::npos || slash < dash) return std::nullopt;
  const auto begin = NumberIn(text.substr(0, dash));
  const auto last = NumberIn(text.substr(dash + 1, slash - dash - 1));
  if (!begin || !last || *last < *begin) return std::nullopt;
  return ContentRange{*begin, *last + 1, NumberIn(text.substr(slash + 1))};
}

}  // namespace

HttpTransfer::~HttpTransfer() { curl_.slist_free_all(headers_); }

void HttpTransfer::Prepare(CURL* handle, void* pointer) {
  // Headers of another try are not about this one.
  reply = HttpReply();
  content_range_.clear();
  content_length_.reset();
  retry_after_.reset();
  sent_ = 0;
  begun_ = false;
  wrong_ = Status::Ok();

  Headers headers = request_.headers;
  if (request_.range_begin) {
    const std::uint64_t begin = *request_.range_begin + received_;
    headers.emplace_back("range", fmt::format("bytes={}-{}", begin, begin + wanted() - 1));
  }
  if (request_.first_bytes)
    headers.emplace_back("range", fmt::format("bytes=0-{}", *request_.first_bytes - 1));
  if (request_.last_bytes) headers.emplace_back("range", fmt::format("bytes=-{}", *request_.last_bytes));
  if (request_.sign) headers = request_.sign(request_, std::move(headers));
  curl_.slist_free_all(headers_);
  headers_ = nullptr;
  for (const auto& [name, value] : headers)
    headers_ = curl_.slist_append(headers_, fmt::format("{}: {}", name, value).c_str());
  if (!request_.body.empty()) headers_ = curl_.slist_append(headers_, "expect:");

  const auto set = curl_.easy_setopt;
  curl_.easy_reset(handle);
  set(handle, CURLOPT_URL, url_.c_str());
  set(handle, CURLOPT_PRIVATE, pointer);
  set(handle, CURLOPT_NOSIGNAL, 1L);
  set(handle, CURLOPT_USERAGENT, options_.user_agent.c_str());
  set(handle, CURLOPT_HTTPHEADER, headers_);
  if (!options_.certificates.empty()) set(handle, CURLOPT_CAINFO, options_.certificates.c_str());
  set(handle, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_2TLS));
  // libcurl would wait for the first answer over plain HTTP, as it does not know HTTP/1.1 before.
  set(handle, CURLOPT_PIPEWAIT, request_.waits_to_share && url_.starts_with("https://") ? 1L : 0L);
  set(handle, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(options_.connect_patience.count()));
  set(handle, CURLOPT_LOW_SPEED_LIMIT, kStallBytes);
  set(handle, CURLOPT_LOW_SPEED_TIME, static_cast<long>(options_.stall_patience.count()));
  set(handle, CURLOPT_TCP_KEEPALIVE, 1L);
  set(handle, CURLOPT_PROTOCOLS_STR, "http,https");
  set(handle, CURLOPT_HEADERFUNCTION, &HttpTransfer::OnHeader);
  set(handle, CURLOPT_HEADERDATA, this);
  set(handle, CURLOPT_WRITEFUNCTION, &HttpTransfer::OnBody);
  set(handle, CURLOPT_WRITEDATA, this);
  if (request_.method == "HEAD") {
    set(handle, CURLOPT_NOBODY, 1L);
  } else if (request_.method == "PUT") {
    set(handle, CURLOPT_UPLOAD, 1L);
    set(handle, CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(request_.body.size()));
    set(handle, CURLOPT_READFUNCTION, &HttpTransfer::OnUpload);
    set(handle, CURLOPT_READDATA, this);
    // libcurl sends a body again where a connection that was kept open turns out to be closed.
    set(handle, CURLOPT_SEEKFUNCTION, &HttpTransfer::OnSeek);
    set(handle, CURLOPT_SEEKDATA, this);
  } else if (request_.method == "POST") {
    set(handle, CURLOPT_POST, 1L);
    set(handle, CURLOPT_POSTFIELDS,
        request_.body.empty() ? "" : reinterpret_cast<const char*>(request_.body.data()));
    set(handle, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request_.body.size()));
  } else if (request_.method != "GET") {
    set(handle, CURLOPT_CUSTOMREQUEST, request_.method.c_str());
  }
}

bool HttpTransfer::Redirect(std::string url) {
  if (++redirects_ > kMostRedirects || (url_.starts_with("https://") && !url.starts_with("https://")))
    return false;
  url_ = std::move(url);
  return true;
}

std::size_t HttpTransfer::OnHeader(char* data, std::size_t size, std::size_t count, void* self) {
  static_cast<HttpTransfer*>(self)->TakeHeader({data, size * count});
  return size * count;
}

std::size_t HttpTransfer::OnBody(char* data, std::size_t size, std::size_t count, void* self) {
  return static_cast<HttpTransfer*>(self)->TakeBody({data, size * count}) ? size * count : 0;
}

std::size_t HttpTransfer::OnUpload(char* data, std::size_t size, std::size_t count, void* self) {
  auto& transfer = *static_cast<HttpTransfer*>(self);
  const Bytes& body = transfer.request_.body;
  const std::size_t some = std::min<std::size_t>(size * count, body.size() - transfer.sent_);
  std::memcpy(data, body.data() + transfer.sent_, some);
  transfer.sent_ += some;
  return some;
}

int HttpTransfer::OnSeek(void* self, curl_off_t offset, int origin) {
  auto& transfer = *static_cast<HttpTransfer*>(self);
  if (origin != SEEK_SET || offset < 0 || static_cast<std::size_t>(offset) > transfer.request_.body.size())
    return CURL_SEEKFUNC_CANTSEEK;
  transfer.sent_ = static_cast<std::size_t>(offset);
  return CURL_SEEKFUNC_OK;
}

void HttpTransfer::TakeHeader(std::string_view line) {
  if (line.starts_with("HTTP/")) {
    // A redirect, or "100 Continue", came before.
    reply = HttpReply();
    content_range_.clear();
    content_length_.reset();
    const std::size_t space = line.find(' ');
    reply.status =
        static_cast<int>(space == std::string_view::npos ? 0 : NumberIn(line.substr(space + 1)).value_or(0));
    return;
  }
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return;
  std::string name(line.substr(0, colon));
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const std::string value = Trimmed(line.substr(colon + 1));
  if (name == "etag") reply.tag = value;
  if (name == "last-modified") reply.changed = value;
  if (name == "content-type") reply.type = value;
  if (name == "x-amz-bucket-region") reply.bucket_region = value;
  if (name == "content-range") content_range_ = value;
  if (name == "content-length") content_length_ = NumberIn(value);
  if (name == "retry-after") {
    if (const auto seconds = NumberIn(value))
      retry_after_ = std::chrono::seconds(std::min<std::uint64_t>(*seconds, 3600));
  }
}

/// Whether the body that begins is that of the range.
Status HttpTransfer::CheckBegin() {
  const std::uint64_t begin = *request_.range_begin + received_;
  if (reply.status == 200) {
    // All of the object: no harm where all of it is wanted.
    if (begin == 0 && content_length_ == request_.out.size()) return Status::Ok();
    return FailedPrecondition(
        "\"{}\": the server answers a range of bytes with the whole file; use one that supports Range "
        "requests, "
        "as nginx, Apache and object stores do",
        request_.shown);
  }
  const std::optional<ContentRange> range = ParseContentRange(content_range_);
  if (!range || range->begin != begin)
    return Unavailable("\"{}\": the server was asked for bytes from {} on and sends \"{}\"", request_.shown,
                       begin, content_range_);
  reply.size = range->size;
  if (range->end - range->begin < wanted())
    return DataLoss("\"{}\" has {} bytes, but bytes {}..{} are needed; it is truncated", request_.shown,
                    range->size.value_or(range->end), *request_.range_begin,
                    *request_.range_begin + request_.out.size());
  return Status::Ok();
}

bool HttpTransfer::TakeBody(std::string_view data) {
  if (reply.status >= 300 && reply.status < 400) return true;
  if (!begun_) {
    begun_ = true;
    const std::string& tag = received_ > 0 ? first_tag_ : request_.wanted_tag;
    if (ToOut()) wrong_ = CheckBegin();
    if (wrong_.ok() && ToOut() && !tag.empty() && reply.tag != tag)
      wrong_ = DataLoss("\"{}\" was replaced while it was read; open the dataset again", request_.shown);
    if (wrong_.ok() && received_ == 0) first_tag_ = reply.tag;
  }
  if (!wrong_.ok()) return false;
  const auto* const bytes = reinterpret_cast<const std::byte*>(data.data());
  if (ToOut()) {
    // A server may send more than it was asked for; the rest of the answer is not wanted.
    const std::uint64_t some = std::min<std::uint64_t>(data.size(), wanted());
    std::copy_n(bytes, some, request_.out.begin() + static_cast<std::ptrdiff_t>(received_));
    received_ += some;
    return some == data.size();
  }
  const bool success = reply.status == 200 || reply.status == 206;
  const std::uint64_t most = success ? request_.limit : kMostErrorBody;
  if (data.size() > most - std::min<std::uint64_t>(most, reply.body.size())) {
    if (!success) return true;  // the rest of a reason
    wrong_ = DataLoss("\"{}\" has more than {} bytes, which is not what it should be", request_.shown, most);
    return false;
  }
  reply.body.insert(reply.body.end(), bytes, bytes + data.size());
  return true;
}

HttpTransfer::End HttpTransfer::Broken(CURLcode code, CURL* handle) const {
  End end;
  long error = 0;
  curl_.easy_getinfo(handle, CURLINFO_OS_ERRNO, &error);
  std::string why = curl_.easy_strerror(code);
  if (code == CURLE_COULDNT_CONNECT && error != 0) why = ErrnoText(static_cast<int>(error));
  if (code == CURLE_OPERATION_TIMEDOUT)
    why = fmt::format("no connection in {} s, or less than 1 KiB/s for {} s",
                      options_.connect_patience.count() / 1000, options_.stall_patience.count());
  if (code == CURLE_PEER_FAILED_VERIFICATION)
    why = fmt::format(
        "the server's certificate is not trusted: {} has none for it; AWS_CA_BUNDLE names another file",
        options_.certificates.empty() ? "the system" : fmt::format("\"{}\"", options_.certificates));
  end.status = Unavailable("\"{}\" cannot be {}: {}", request_.shown, action(), why);
  // A certificate, a protocol or a name will be no better.
  end.may_repeat = code == CURLE_COULDNT_CONNECT || code == CURLE_OPERATION_TIMEDOUT ||
                   code == CURLE_GOT_NOTHING || code == CURLE_RECV_ERROR || code == CURLE_SEND_ERROR ||
                   code == CURLE_PARTIAL_FILE || code == CURLE_HTTP2 || code == CURLE_HTTP2_STREAM ||
                   code == CURLE_SSL_CONNECT_ERROR || code == CURLE_COULDNT_RESOLVE_HOST;
  return end;
}

HttpTransfer::End HttpTransfer::Finish(CURLcode code, CURL* handle) {
  const bool whole = ToOut() && request_.out.size() == received_ && begun_ && wrong_.ok();
  // curl calls an answer whose rest is not taken an error.
  if (!wrong_.ok()) {
    End end{wrong_, wrong_.code() == StatusCode::kUnavailable, false, {}};
    return end;
  }
  if (code != CURLE_OK && !whole) return Broken(code, handle);
  End end;
  end.retry_after = retry_after_;
  // A signature is for one host.
  char* to = nullptr;
  if (!request_.sign && curl_.easy_getinfo(handle, CURLINFO_REDIRECT_URL, &to) == CURLE_OK && to != nullptr) {
    end.redirect = to;
    return end;
  }
  if (MayHelp(reply.status)) {
    end.may_repeat = true;
    end.refused = reply.status == 429 || reply.status == 503;
    end.status =
        Unavailable("\"{}\" cannot be {}: the server answers {}", request_.shown, action(), reply.status);
    return end;
  }
  if (ToOut() && !whole) {
    end.may_repeat = true;
    end.status = Unavailable("\"{}\" cannot be read: an answer ended after {} of {} bytes", request_.shown,
                             received_, request_.out.size());
    return end;
  }
  if (!reply.size && reply.status == 200) reply.size = content_length_;
  if (reply.status == 206 && !request_.range_begin) {
    const std::optional<ContentRange> range = ParseContentRange(content_range_);
    if (range) reply.size = range->size;
    // The end of an object is wanted, and its begin for what it says.
    const std::uint64_t begin = request_.last_bytes ? reply.size.value_or(0) - reply.body.size() : 0;
    if (!range || !range->size || range->begin != begin || range->end - range->begin != reply.body.size()) {
      end.may_repeat = true;
      end.status = Unavailable("\"{}\": the server was asked for a part and sends \"{}\" and {} bytes",
                               request_.shown, content_range_, reply.body.size());
    }
  }
  return end;
}

}  // namespace quarry::remote
