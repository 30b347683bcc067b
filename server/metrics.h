#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "quarry/store/patch_store.h"
#include "server/guard/acceptor.h"
#include "server/request_log.h"

namespace quarry::server {

/// The bytes of reads of a store, by where they came from.
struct DiskCacheUse {
  std::uint64_t from_cache = 0;  ///< [bytes]
  std::uint64_t fetched = 0;     ///< [bytes]
  std::uint64_t damaged = 0;     ///< blocks of the cache with a wrong checksum, which were fetched again
};

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

  /// The same, for the cache on disk of a root at a URL.
  void WatchDiskCache(std::function<DiskCacheUse()> use);

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
