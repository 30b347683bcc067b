#include "server/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/exposer.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <exception>

#include "quarry/base/address.h"
#include "quarry/version.h"

namespace quarry::server {
namespace {

/// [s] From an answer from memory to a whole dataset.
const prometheus::Histogram::BucketBoundaries kSeconds = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                                                          0.5,   1,      2.5,   5,    10,    30,   60,  300};

prometheus::MetricFamily Gauge(const char* name, const char* help, std::uint64_t value) {
  prometheus::MetricFamily family{name, help, prometheus::MetricType::Gauge, {}};
  family.metric.emplace_back().gauge.value = static_cast<double>(value);
  return family;
}

prometheus::MetricFamily Counter(const char* name, const char* help, std::uint64_t value) {
  prometheus::MetricFamily family{name, help, prometheus::MetricType::Counter, {}};
  family.metric.emplace_back().counter.value = static_cast<double>(value);
  return family;
}

/// Asks the store at each scrape: nothing has to be updated in between.
class StoreMetrics final : public prometheus::Collectable {
 public:
  explicit StoreMetrics(std::function<PatchStore::State()> state) : state_(std::move(state)) {}

  std::vector<prometheus::MetricFamily> Collect() const override {
    const PatchStore::State state = state_();
    return {
        Gauge("quarry_memory_budget_bytes", "Memory for everything that is decoded or read.", state.total),
        Gauge("quarry_memory_pinned_bytes", "Memory of reads that run.", state.pinned),
        Gauge("quarry_memory_reserved_bytes", "Memory in which patches are decoded now.", state.reserved),
        Gauge("quarry_memory_stored_bytes", "Decoded patches that are kept.", state.stored),
        Gauge("quarry_memory_waiting_reads", "Reads that wait for memory.", state.waiting),
        Gauge("quarry_store_patches", "Decoded patches that are kept.", state.patches),
        Counter("quarry_store_hits_total", "Wanted patches that were stored or being decoded.", state.hits),
        Counter("quarry_store_misses_total", "Wanted patches that had to be decoded.", state.misses),
        Counter("quarry_store_evictions_total", "Patches removed for others.", state.evictions)};
  }

 private:
  const std::function<PatchStore::State()> state_;
};

/// The same for connections.
class ConnectionMetrics final : public prometheus::Collectable {
 public:
  explicit ConnectionMetrics(std::function<Acceptor::State()> state) : state_(std::move(state)) {}

  std::vector<prometheus::MetricFamily> Collect() const override {
    const Acceptor::State state = state_();
    return {Gauge("quarry_connections", "Open connections.", state.open),
            Counter("quarry_connections_accepted_total", "Accepted connections.", state.accepted),
            Counter("quarry_connections_refused_total",
                    "Connections closed at once: too many, or no descriptor.", state.refused),
            Counter("quarry_connections_cut_total", "Connections closed because their client misbehaved.",
                    state.cut)};
  }

 private:
  const std::function<Acceptor::State()> state_;
};

}  // namespace

struct Metrics::State {
  std::shared_ptr<prometheus::Registry> registry = std::make_shared<prometheus::Registry>();
  prometheus::Family<prometheus::Counter>& requests = prometheus::BuildCounter()
                                                          .Name("quarry_requests_total")
                                                          .Help("Requests that have ended.")
                                                          .Register(*registry);
  prometheus::Family<prometheus::Histogram>& seconds =
      prometheus::BuildHistogram()
          .Name("quarry_request_seconds")
          .Help("Time from the arrival of a request to its last message.")
          .Register(*registry);
  prometheus::Counter& bytes = prometheus::BuildCounter()
                                   .Name("quarry_sent_bytes_total")
                                   .Help("Bytes of the messages of replies.")
                                   .Register(*registry)
                                   .Add({});
  prometheus::Counter& patches = prometheus::BuildCounter()
                                     .Name("quarry_decoded_patches_total")
                                     .Help("Patches that were read and decoded for complete answers.")
                                     .Register(*registry)
                                     .Add({});
  prometheus::Family<prometheus::Counter>& damage =
      prometheus::BuildCounter()
          .Name("quarry_damage_total")
          .Help("Damaged payloads, and requests failed for damage.")
          .Register(*registry);
  prometheus::Gauge& running = prometheus::BuildGauge()
                                   .Name("quarry_requests_running")
                                   .Help("Requests that are being answered.")
                                   .Register(*registry)
                                   .Add({});
  prometheus::Family<prometheus::Gauge>& certificate_end =
      prometheus::BuildGauge()
          .Name("quarry_certificate_end_seconds")
          .Help("When the server's certificate ends, in seconds since 1970.")
          .Register(*registry);
  std::vector<std::shared_ptr<prometheus::Collectable>> watched;  ///< asked at each scrape
  std::unique_ptr<prometheus::Exposer> exposer;
};

Metrics::Metrics() : state_(std::make_unique<State>()) {
  prometheus::BuildGauge()
      .Name("quarry_build_info")
      .Help("1, with the version as its label.")
      .Register(*state_->registry)
      .Add({{"version", kVersion}})
      .Set(1);
}

Metrics::~Metrics() = default;

void Metrics::Begin() { state_->running.Increment(); }

void Metrics::End(const RequestRecord& record) {
  state_->running.Decrement();
  state_->requests.Add({{"method", record.method}, {"code", CodeName(record.code)}}).Increment();
  state_->seconds.Add({{"method", record.method}}, kSeconds).Observe(record.seconds);
  state_->bytes.Increment(static_cast<double>(record.bytes));
  state_->patches.Increment(static_cast<double>(record.patches));
  // Only datasets of the catalog can be damaged, so clients cannot invent labels.
  if (record.code == StatusCode::kDataLoss) CountDamage(record.dataset);
}

void Metrics::CountDamage(const std::string& dataset) {
  state_->damage.Add({{"dataset", dataset}}).Increment();
}

void Metrics::WatchStore(std::function<PatchStore::State()> state) {
  state_->watched.push_back(std::make_shared<StoreMetrics>(std::move(state)));
}

void Metrics::WatchConnections(std::function<Acceptor::State()> state) {
  state_->watched.push_back(std::make_shared<ConnectionMetrics>(std::move(state)));
}

void Metrics::SetCertificateEnd(double seconds) { state_->certificate_end.Add({}).Set(seconds); }

Result<int> Metrics::Serve(const std::string& address) {
  QUARRY_RETURN_IF_ERROR(ParseHostPort(address));
  try {
    // A client that does not end its request holds one thread for a moment.
    state_->exposer = std::make_unique<prometheus::Exposer>(std::vector<std::string>{
        "listening_ports", address, "num_threads", "8", "request_timeout_ms", "2000"});
    state_->exposer->RegisterCollectable(state_->registry);
    for (const auto& watched : state_->watched) state_->exposer->RegisterCollectable(watched);
    return state_->exposer->GetListeningPorts().at(0);
  } catch (const std::exception& error) {
    return Status(
        StatusCode::kUnavailable,
        fmt::format("cannot serve metrics on {} ({}); choose a free port of this machine, or port 0", address,
                    error.what()));
  }
}

std::string Metrics::Text() const {
  std::vector<prometheus::MetricFamily> families = state_->registry->Collect();
  for (const auto& watched : state_->watched) {
    for (prometheus::MetricFamily& family : watched->Collect()) families.push_back(std::move(family));
  }
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace quarry::server
