#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "quarry/base/endian.h"
#include "quarry/base/status.h"
#include "quarry/remote/sign.h"

namespace quarry::remote {

/// A request of HTTP. Tries that fail in a way that may pass are repeated.
struct HttpRequest {
  std::string method = "GET";
  std::string url;    ///< escaped, with its query
  std::string shown;  ///< for messages: without a query that may hold a secret
  Headers headers;    ///< names in small letters
  /// The headers of one try, a signature among them: given those of `headers`, and Range. May be empty.
  std::function<Headers(const HttpRequest& request, Headers headers)> sign;
  Bytes body;

  /// The bytes of the object that are wanted, to `out`.
  std::optional<std::uint64_t> range_begin;
  std::span<std::byte> out;
  /// Otherwise the body goes to the reply: all of it, or this many bytes from the begin, or from the end.
  std::optional<std::uint64_t> first_bytes, last_bytes;
  bool writes = false;      ///< for messages: it is not a read
  std::string wanted_tag;   ///< ETag that an answer must have; empty: any
  std::uint64_t limit = 0;  ///< [bytes] most that the body of a reply may have
  /// Waits for a connection that is being made and may carry several requests at once: HTTP/2, known after
  /// the handshake of TLS. Otherwise each request has a connection of its own at once.
  bool waits_to_share = true;
};

/// An answer with any status but those that were repeated in vain.
struct HttpReply {
  int status = 0;
  std::string tag;                    ///< ETag as it stands; often empty
  std::string changed;                ///< Last-Modified as it stands; often empty
  std::string bucket_region;          ///< x-amz-bucket-region
  std::string type;                   ///< Content-Type
  std::optional<std::uint64_t> size;  ///< [bytes] of the whole object
  Bytes body;                         ///< unless it went to `out`
};

/// Where messages may go.
struct HttpOptions {
  int connections = 24;     ///< most to one host, with HTTP/1.1
  bool allow_http = false;  ///< plain HTTP, beyond this machine
  std::string user_agent = "quarry";
  std::string certificates;  ///< a file with those of authorities; empty: the system's
  std::uint64_t seed = 0;    ///< seed of the jitter between tries; 0: any
  std::chrono::milliseconds connect_patience{10'000};
  /// A transfer slower than 1 KiB/s for so long has failed.
  std::chrono::seconds stall_patience{20};
};

/// Cost of requests, as seen so far.
struct SeenCosts {
  double latency = 0;    ///< [s] shortest time to the first byte; 0: none is known
  double bandwidth = 0;  ///< [bytes/s] of all requests together, the largest of a while
  std::uint64_t requests = 0;
  std::uint64_t bytes = 0;
  std::uint64_t retries = 0;
};

/// Requests side by side, on one thread of its own. Thread-safe.
class HttpClient {
 public:
  /// Told once of each request, on the thread of the client: must not wait.
  using Done = std::function<void(Result<HttpReply>)>;
  struct Call;

  /// @errors kUnimplemented: see LoadCurl; kResourceExhausted
  static Result<std::shared_ptr<HttpClient>> Make(HttpOptions options);
  /// Cancels what is under way.
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  /// @param done  errors: kUnavailable: the host does not answer, or refuses for too long; kDataLoss: another
  /// tag, or a body of another size than announced; kFailedPrecondition: the server gives no ranges of bytes,
  /// plain HTTP is not allowed, or the process was forked; kCancelled
  std::shared_ptr<Call> Start(HttpRequest request, Done done);

  /// When it returns, `done` has been called and nobody writes to `out` any more. Not on the thread of the
  /// client.
  void Cancel(const std::shared_ptr<Call>& call);

  /// Starts and waits. @param cancelled  asked every 50 ms, as is the CancelScope of the caller
  Result<HttpReply> Fetch(HttpRequest request, const std::function<bool()>& cancelled);

  SeenCosts seen() const;
  const HttpOptions& options() const;

 private:
  class Loop;

  explicit HttpClient(std::unique_ptr<Loop> loop);

  std::unique_ptr<Loop> loop_;
};

}  // namespace quarry::remote
