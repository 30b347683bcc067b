#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "quarry/base/status.h"
#include "server/certificate.h"
#include "server/guard/acceptor.h"
#include "server/service.h"

namespace quarry::server {

struct HttpOptions {
  std::string address;               ///< HOST:PORT; port 0 picks a free one
  std::optional<Pem> tls;            ///< nothing: plain text
  bool insecure = false;             ///< plain text also where others than this machine listen
  ConnectionLimits connections;      ///< limits of this port
  int grpc_port = 0;                 ///< gRPC port of the same service, told to the page; 0: there is none
  std::string page;                  ///< folder of the web page; empty: none
  std::vector<std::string> sources;  ///< origins of other datasets that the page may read
  std::vector<std::string> cors;     ///< origins whose pages may ask; "*": all
  /// How long a connection may be idle, and the head of a request may take from its first byte on.
  std::chrono::milliseconds idle{60'000};
  std::chrono::milliseconds head{10'000};
};

/// The service behind an HTTP port: calls by gRPC-Web, datasets as Zarr, and a web page. HTTP/1.1.
class HttpListener {
 public:
  /// @param service  must live longer
  /// @errors kInvalidArgument: see CheckPlainText, Page::Load, or an origin that is none; kNotFound: no page
  /// there; kUnavailable: cannot listen there
  static Result<std::unique_ptr<HttpListener>> Start(const HttpOptions& options, Service* service);
  ~HttpListener();

  /// HOST:PORT with the port that it has got.
  const std::string& address() const;
  /// Acceptor of its connections; never null, and still there when the listener has gone.
  std::shared_ptr<const Acceptor> acceptor() const;

  /// For later connections. @errors kInvalidArgument: the certificate cannot be used; the old one stays
  Status SetCertificate(const Pem& pem);

  /// As Listener::Drain: the health check says that the server stops, new calls are refused.
  void Drain(std::chrono::milliseconds time, const std::function<bool()>& hurry = nullptr);

 private:
  struct State;

  explicit HttpListener(std::unique_ptr<State> state);

  const std::unique_ptr<State> state_;
};

}  // namespace quarry::server
