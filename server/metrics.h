#pragma once

#include <functional>
#include <memory>
#include <string>

#include "quarry/store/patch_store.h"
#include "server/request_log.h"

namespace quarry::server {

/// What Prometheus asks for: counters, latencies, and the store of patches as it is when somebody looks. The
/// names are listed in docs/operations.md. Thread-safe.
class Metrics {
 public:
  Metrics();
  ~Metrics();

  void Begin();
  void End(const RequestRecord& record);

  /// Of a dataset of the catalogue.
  void CountDamage(const std::string& dataset);

  /// @param state  called at every scrape, from its thread
  void WatchStore(std::function<PatchStore::State()> state);

  /// Seconds since 1970 at which the server's certificate ends.
  void SetCertificateEnd(double seconds);

  /// Answers GET /metrics over HTTP until this object goes. Returns the port.
  /// @param address  HOST:PORT, with port 0 for a free one
  /// @errors kInvalidArgument: no address; kUnavailable: cannot listen there
  Result<int> Serve(const std::string& address);

  /// The text that Serve answers with.
  std::string Text() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace quarry::server
