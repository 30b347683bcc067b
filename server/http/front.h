#pragma once

#include <optional>
#include <string>
#include <vector>

#include "server/http/http_call.h"
#include "server/http/page.h"
#include "server/http/zarr_front.h"
#include "server/service.h"

namespace quarry::server::http {

struct FrontOptions {
  bool mutual = false;               ///< clients show certificates
  bool loopback = true;              ///< only programs of this machine connect, and use its own names
  int grpc_port = 0;                 ///< gRPC port of the same service; 0: there is none
  std::vector<std::string> origins;  ///< origins whose pages may ask, "https://example.org"; "*": all
};

/// Routes requests, and checks that they are allowed. Thread-safe.
class Front {
 public:
  /// @param service  outlives the front
  Front(FrontOptions options, Page page, Service* service);
  ~Front();

  /// The answer, where it is known at once; nothing: it takes a thread, see Run. In both cases with the
  /// headers that every answer to this request has in `headers`.
  /// @param path  see PathOf
  std::optional<Answer> AnswerNow(const Request& request, const std::string& path, Headers* headers) const;

  /// Answers on this thread.
  void Run(Exchange* exchange);

 private:
  std::optional<Answer> CheckCaller(const Request& request) const;
  std::optional<Answer> AnswerPost(const Request& request, const std::string& path) const;
  Answer AnswerPreflight(const Request& request) const;
  bool IsKnownHost(std::string_view host) const;
  /// The origin whose pages may read the answer; empty: none but our own.
  std::string AllowedOrigin(const Request& request) const;
  void AddCrossOrigin(const Request& request, Headers* headers) const;

  const FrontOptions options_;
  const Page page_;
  Service* const service_;
  ZarrFront zarr_;
};

}  // namespace quarry::server::http
