#pragma once

#include <functional>
#include <memory>
#include <string>

#include "quarry/store/patch_store.h"
#include "server/guard/acceptor.h"
#include "server/request_log.h"

namespace quarry::server {

/// The metrics that Prometheus scrapes: counters, latencies, and the current state of the patch store.
/// docs/operations.md lists the names. Thread-safe.
class Metrics {
 public:
  Metrics();
  ~Metrics();

  void Begin();
  void End(const RequestRecord& record);

  /// Counts damage of a dataset of the catalog.
  void CountDamage(const std::string& dataset);

  /// @param state  called at every scrape, from its thread
  void WatchStore(std::function<PatchStore::State()> state);

  /// The same, for the connections.
  void WatchConnections(std::function<Acceptor::State()> state);

  /// Seconds since 1970 at which the server's certificate ends.
  void SetCertificateEnd(double seconds);

  /// Answers GET /metrics over HTTP until this object is destroyed. Returns the port.
  /// @param address  HOST:PORT, with port 0 for a free one
  /// @errors kInvalidArgument: not an address; kUnavailable: cannot listen there
  Result<int> Serve(const std::string& address);

  /// The text that Serve answers with.
  std::string Text() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace quarry::server
