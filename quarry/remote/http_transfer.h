#pragma once

#include <curl/curl.h>

#include <optional>
#include <string>

#include "quarry/remote/curl_api.h"
#include "quarry/remote/http_client.h"
#include "quarry/remote/retry.h"

namespace quarry::remote {

/// One try of a request: what curl is told, and what it reports. On the thread of the client alone.
class HttpTransfer {
 public:
  HttpTransfer(const CurlApi& curl, const HttpOptions& options, const HttpRequest& request)
      : curl_(curl), options_(options), request_(request) {}
  ~HttpTransfer();
  HttpTransfer(const HttpTransfer&) = delete;
  HttpTransfer& operator=(const HttpTransfer&) = delete;

  /// Prepares a handle for the bytes that earlier tries have left.
  /// @param pointer  what the handle gives back for this transfer
  void Prepare(CURL* handle, void* pointer);

  /// How the try has ended.
  struct End {
    Status status;  ///< status of the try; a reply with an error status is good
    bool may_repeat = false;
    bool refused = false;  ///< the server has too much to do
    std::optional<Backoff::Duration> retry_after;
    std::string redirect;  ///< URL where the answer is; empty: here
  };
  End Finish(CURLcode code, CURL* handle);

  /// Where the next try asks. @returns false: too often, or from TLS to plain text
  bool Redirect(std::string url);
  /// Where the next try asks.
  const std::string& url() const { return url_; }

  HttpReply reply;
  /// [bytes] that have come to `out`, in all tries.
  std::uint64_t received() const { return received_; }

 private:
  static std::size_t OnHeader(char* data, std::size_t size, std::size_t count, void* self);
  static std::size_t OnBody(char* data, std::size_t size, std::size_t count, void* self);
  static std::size_t OnUpload(char* data, std::size_t size, std::size_t count, void* self);

  static int OnSeek(void* self, curl_off_t offset, int origin);

  void TakeHeader(std::string_view line);
  bool TakeBody(std::string_view data);
  bool ToOut() const { return request_.range_begin && (reply.status == 206 || reply.status == 200); }
  Status CheckBegin();
  std::string_view action() const { return request_.writes ? "written" : "read"; }
  std::uint64_t wanted() const { return request_.out.size() - received_; }
  End Broken(CURLcode code, CURL* handle) const;

  const CurlApi& curl_;
  const HttpOptions& options_;
  const HttpRequest& request_;
  std::string url_ = request_.url;
  int redirects_ = 0;
  curl_slist* headers_ = nullptr;
  std::string first_tag_;  ///< ETag of the try that brought the first bytes
  std::string content_range_;
  std::optional<std::uint64_t> content_length_;
  std::optional<Backoff::Duration> retry_after_;
  std::uint64_t received_ = 0;
  std::uint64_t sent_ = 0;
  bool begun_ = false;  ///< the body of this try
  Status wrong_;        ///< why the body is not taken
};

}  // namespace quarry::remote
