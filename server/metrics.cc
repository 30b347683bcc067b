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
const auto& kSeconds = *new const prometheus::Histogram::BucketBoundaries{
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300};

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

/// Asks at each scrape: nothing has to be updated in between.
class Watched final : public prometheus::Collectable {
 public:
  using Families = std::vector<prometheus::MetricFamily>;
  explicit Watched(std::function<Families()> collect) : collect_(std::move(collect)) {}

  Families Collect() const override { return collect_(); }

 private:
  const std::function<Families()> collect_;
};

auto& Register(auto builder, const char* name, const char* help, prometheus::Registry* registry) {
  return builder.Name(name).Help(help).Register(*registry);
}

}  // namespace

struct Metrics::State {
  std::shared_ptr<prometheus::Registry> registry = std::make_shared<prometheus::Registry>();
  prometheus::Family<prometheus::Counter>& requests = Register(
      prometheus::BuildCounter(), "quarry_requests_total", "Requests that have ended.", registry.get());
  prometheus::Family<prometheus::Histogram>& seconds =
      Register(prometheus::BuildHistogram(), "quarry_request_seconds",
               "Time from the arrival of a request to its last message.", registry.get());
  prometheus::Counter& bytes = Register(prometheus::BuildCounter(), "quarry_sent_bytes_total",
                                        "Bytes of the messages of replies.", registry.get())
                                   .Add({});
  prometheus::Counter& patches =
      Register(prometheus::BuildCounter(), "quarry_decoded_patches_total",
               "Patches that were read and decoded for complete answers.", registry.get())
          .Add({});
  prometheus::Counter& tiles = Register(prometheus::BuildCounter(), "quarry_coded_tiles_total",
                                        "Tiles that were coded for answers.", registry.get())
                                   .Add({});
  prometheus::Family<prometheus::Counter>& damage =
      Register(prometheus::BuildCounter(), "quarry_damage_total",
               "Damaged payloads, and requests failed for damage.", registry.get());
  prometheus::Gauge& running = Register(prometheus::BuildGauge(), "quarry_requests_running",
                                        "Requests that are being answered.", registry.get())
                                   .Add({});
  prometheus::Family<prometheus::Gauge>& certificate_end =
      Register(prometheus::BuildGauge(), "quarry_certificate_end_seconds",
               "When the server's certificate ends, in seconds since 1970.", registry.get());
  std::vector<std::shared_ptr<prometheus::Collectable>> watched;  ///< asked at each scrape
  std::unique_ptr<prometheus::Exposer> exposer;
};

Metrics::Metrics() : state_(std::make_unique<State>()) {
  Register(prometheus::BuildGauge(), "quarry_build_info", "1, with the version as its label.",
           state_->registry.get())
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
  state_->tiles.Increment(static_cast<double>(record.tiles));
  // Only datasets of the catalog can be damaged, so clients cannot invent labels.
  if (record.code == StatusCode::kDataLoss) CountDamage(record.dataset);
}

void Metrics::CountDamage(const std::string& dataset) {
  state_->damage.Add({{"dataset", dataset}}).Increment();
}

void Metrics::WatchStore(std::function<PatchStore::State()> state) {
  state_->watched.push_back(std::make_shared<Watched>([state = std::move(state)]() -> Watched::Families {
    const PatchStore::State now = state();
    return {Gauge("quarry_memory_budget_bytes", "Memory for everything that is decoded or read.", now.total),
            Gauge("quarry_memory_pinned_bytes", "Memory of reads that run.", now.pinned),
            Gauge("quarry_memory_reserved_bytes", "Memory in which patches are decoded now.", now.reserved),
            Gauge("quarry_memory_stored_bytes", "Decoded patches that are kept.", now.stored),
            Gauge("quarry_memory_waiting_reads", "Reads that wait for memory.", now.waiting),
            Gauge("quarry_store_patches", "Decoded patches that are kept.", now.patches),
            Counter("quarry_store_hits_total", "Wanted patches that were stored or being decoded.", now.hits),
            Counter("quarry_store_misses_total", "Wanted patches that had to be decoded.", now.misses),
            Counter("quarry_store_evictions_total", "Patches removed for others.", now.evictions)};
  }));
}

void Metrics::WatchDiskCache(std::function<DiskCacheUse()> use) {
  state_->watched.push_back(std::make_shared<Watched>([use = std::move(use)]() -> Watched::Families {
    const DiskCacheUse now = use();
    return {
        Counter("quarry_disk_cache_read_bytes_total", "Bytes that came from the cache on disk.",
                now.from_cache),
        Counter("quarry_disk_cache_fetched_bytes_total",
                "Bytes that the cache on disk lacked, and that the store was asked for.", now.fetched),
        Counter("quarry_disk_cache_damaged_blocks_total",
                "Blocks of the cache on disk with a wrong checksum, which were fetched again.", now.damaged)};
  }));
}

void Metrics::WatchConnections(std::function<Acceptor::State()> state) {
  state_->watched.push_back(std::make_shared<Watched>([state = std::move(state)]() -> Watched::Families {
    const Acceptor::State now = state();
    return {Gauge("quarry_connections", "Open connections.", now.open),
            Counter("quarry_connections_accepted_total", "Accepted connections.", now.accepted),
            Counter("quarry_connections_refused_total",
                    "Connections closed at once: too many, or no descriptor.", now.refused),
            Counter("quarry_connections_cut_total", "Connections closed because their client misbehaved.",
                    now.cut)};
  }));
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
    return Unavailable("cannot serve metrics on {} ({}); choose a free port of this machine, or port 0",
                       address, error.what());
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
