// quarry-server: answers box and resolution queries over every dataset below a directory, or at a URL.
#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>
#include <signal.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <functional>
#include <future>
#include <optional>
#include <thread>

#include "quarry/base/address.h"
#include "quarry/base/memory.h"
#include "quarry/base/output.h"
#include "quarry/base/units.h"
#include "quarry/command_line/command_line.h"
#include "quarry/disk_cache/disk_cache.h"
#include "quarry/remote/open_url.h"
#include "quarry/remote/url.h"
#include "quarry/storage/posix_storage.h"
#include "server/grpc/listener.h"
#include "server/guard/memory_guard.h"
#include "server/guard/privileges.h"
#include "server/guard/watchdog.h"
#include "server/http/http_listener.h"
#include "server/options.h"

namespace {

using quarry::InvalidArgument;
using quarry::Result;
using quarry::Status;
namespace server = quarry::server;
using server::Options;

/// One thread waits for signals and handles them; every other thread starts with them blocked.
sigset_t BlockSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

/// Messages of gRPC, for example on failed handshakes, go into the same log.
void LogForGrpc(gpr_log_func_args* message) {
  const auto level = message->severity == GPR_LOG_SEVERITY_ERROR  ? spdlog::level::warn
                     : message->severity == GPR_LOG_SEVERITY_INFO ? spdlog::level::info
                                                                  : spdlog::level::debug;
  spdlog::log(level, "gRPC: {}", message->message);
}

/// Messages of Protobuf as well, which complains of every question that is not well-formed.
void LogForProtobuf(google::protobuf::LogLevel level, const char*, int, const std::string& message) {
  spdlog::log(level == google::protobuf::LOGLEVEL_FATAL ? spdlog::level::err : spdlog::level::debug,
              "Protobuf: {}", message);
}

std::shared_ptr<server::ServerLog> MakeLog(const Options& options) {
  const auto level = options.quiet ? spdlog::level::warn : spdlog::level::from_str(options.log_level);
  auto log = std::make_shared<server::ServerLog>(
      std::make_shared<spdlog::sinks::stderr_sink_mt>(),
      options.log_format == "json" ? server::LogFormat::kJson : server::LogFormat::kText, level);
  spdlog::set_default_logger(log->logger());
  gpr_set_log_function(LogForGrpc);
  google::protobuf::SetLogHandler(LogForProtobuf);
  return log;
}

/// The results of the options, checked before any data is opened.
struct Prepared {
  std::uint64_t memory = 0;
  server::CallLimits limits;
  server::ClientLimits client;
  std::shared_ptr<server::Tls> tls;
  std::shared_ptr<server::TokenStore> tokens;
};

Status CheckAddresses(const Options& options) {
  const bool tls = !options.tls.certificate.empty();
  QUARRY_RETURN_IF_ERROR(
      server::CheckPlainText("--listen", options.listen.address, options.listen.insecure || tls));
  if (!options.http.empty())
    QUARRY_RETURN_IF_ERROR(server::CheckPlainText("--http", options.http, options.listen.insecure || tls));
  if (!options.metrics.empty())
    return server::CheckPlainText("--metrics", options.metrics, options.listen.insecure);
  return Status::Ok();
}

/// A URL is asked when the datasets are looked for.
Status CheckRoot(const Options& options) {
  if (quarry::remote::IsUrl(options.root)) {
    if (options.index.empty()) return Status::Ok();
    return InvalidArgument(
        "--index is for a directory of datasets: behind a URL, the tables of the subfiles are read instead");
  }
  std::error_code ignored;
  if (std::filesystem::is_directory(options.root, ignored)) return Status::Ok();
  return quarry::NotFound("there is no directory \"{}\"; give one that holds NAME.quarry datasets",
                          options.root);
}

void LogCertificateEnd(const std::string& file, double end) {
  constexpr double kDay = 24 * 3600;
  const double days = (end - static_cast<double>(std::time(nullptr))) / kDay;
  if (days < 0) {
    spdlog::warn("the certificate {} expired {:.1f} days ago: clients will refuse it", file, -days);
  } else {
    spdlog::info("the certificate {} is valid for {:.1f} more days", file, days);
  }
}

Result<Prepared> Prepare(const Options& options) {
  QUARRY_RETURN_IF_ERROR(CheckAddresses(options));
  Prepared prepared;
  QUARRY_ASSIGN_OR_RETURN(prepared.memory, quarry::ParseBytes(options.memory));
  constexpr std::uint64_t kLeastMemory = 1 << 20;
  if (prepared.memory < kLeastMemory)
    return InvalidArgument("--memory {} is too little to decode in; give 1MiB or more, like 2GiB",
                           options.memory);
  prepared.limits.calls = options.calls;
  prepared.limits.time =
      std::chrono::milliseconds(static_cast<std::int64_t>(options.deadline_seconds * 1000));
  if (!options.max_request_bytes.empty()) {
    QUARRY_ASSIGN_OR_RETURN(prepared.limits.request_bytes, quarry::ParseBytes(options.max_request_bytes));
  }
  prepared.limits.stall = std::chrono::milliseconds(static_cast<std::int64_t>(options.stall_seconds * 1000));
  // Half, and never all: there is always room for somebody else.
  prepared.client.calls = options.client_calls > 0 ? options.client_calls : std::max(1, options.calls / 2);
  prepared.client.calls_per_second = options.client_rate;
  if (!options.client_bytes.empty()) {
    QUARRY_ASSIGN_OR_RETURN(prepared.client.bytes, quarry::ParseBytes(options.client_bytes));
  }
  if (!options.tls.certificate.empty()) {
    QUARRY_ASSIGN_OR_RETURN(prepared.tls, server::Tls::Load(options.tls));
    LogCertificateEnd(options.tls.certificate, prepared.tls->certificate_end());
  }
  if (!options.tokens.empty()) {
    QUARRY_ASSIGN_OR_RETURN(prepared.tokens, server::TokenStore::Load(options.tokens));
    spdlog::info("{} tokens", prepared.tokens->size());
  }
  QUARRY_RETURN_IF_ERROR(CheckRoot(options));
  return prepared;
}

void ReloadTokens(server::TokenStore* tokens) {
  if (const Status status = tokens->Reload(); status.ok()) {
    spdlog::info("SIGHUP: {} tokens", tokens->size());
  } else {
    spdlog::error("SIGHUP: the old tokens stay in use: {}", status.message());
  }
}

void ReloadCertificate(const std::string& file, server::Tls* tls, server::HttpListener* http,
                       server::Metrics* metrics) {
  Status status = tls->Reload();
  if (status.ok() && http != nullptr) status = http->SetCertificate(tls->pem());
  if (!status.ok()) {
    spdlog::error("SIGHUP: the old certificate stays in use: {}", status.message());
    return;
  }
  spdlog::info("SIGHUP: new connections use the certificate now in {}", file);
  LogCertificateEnd(file, tls->certificate_end());
  metrics->SetCertificateEnd(tls->certificate_end());
}

void LogPrivileges(const Options& options) {
  for (const std::string& needless :
       server::NeedlessPrivileges(::geteuid(), {options.tls.key, options.tokens}))
    spdlog::warn("{}", needless);
}

/// Returns when the server is to stop; SIGHUP reloads tokens, certificate and datasets.
void WaitForStop(const sigset_t& signals, const Options& options, const Prepared& prepared,
                 server::Service* service, server::HttpListener* http) {
  for (;;) {
    int signal = 0;
    sigwait(&signals, &signal);
    if (signal != SIGHUP) return;
    if (prepared.tokens) ReloadTokens(prepared.tokens.get());
    if (prepared.tls)
      ReloadCertificate(options.tls.certificate, prepared.tls.get(), http, &service->operations()->metrics);
    LogPrivileges(options);
    service->Forget();
    spdlog::info("SIGHUP: datasets are opened anew");
  }
}

/// Whether somebody has asked once more to stop, and does not want to wait. For several threads.
class ToldAgain {
 public:
  explicit ToldAgain(const sigset_t& signals) : signals_(signals) {}

  bool operator()() {
    constexpr timespec kNow{0, 0};
    const int signal = ::sigtimedwait(&signals_, nullptr, &kNow);
    if (signal == SIGTERM || signal == SIGINT) told_ = true;
    return told_;
  }

 private:
  const sigset_t signals_;
  std::atomic<bool> told_ = false;
};

/// Files that this process may have open.
std::uint64_t MostFiles() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 1024;
}

/// Half of the files for connections of all ports, a quarter for data; the rest are indices, logs and what is
/// just being read.
server::ConnectionLimits ConnectionsOf(const Options& options) {
  constexpr std::uint64_t kMost = 1000;
  const std::uint64_t ports = options.http.empty() ? 1 : 2;
  const int total = options.connections > 0
                        ? options.connections
                        : static_cast<int>(std::clamp<std::uint64_t>(MostFiles() / 2 / ports, 1, kMost));
  return {total, std::max(1, total / 2)};
}
std::size_t DataFiles() { return std::clamp<std::uint64_t>(MostFiles() / 4, 1, 1 << 20); }

Result<quarry::Location> RootOf(const Options& options) {
  using quarry::FollowLinks;
  quarry::disk_cache::Choice cache{options.cache, 0};
  QUARRY_ASSIGN_OR_RETURN(cache.most_bytes, quarry::disk_cache::DiskCache::ParseSize(options.cache_size));
  if (quarry::remote::IsUrl(options.root))
    return quarry::remote::LocationOf(options.root, {options.allow_http, cache});
  const auto links = options.follow_symlinks == "yes"  ? FollowLinks::kYes
                     : options.follow_symlinks == "no" ? FollowLinks::kNo
                                                       : FollowLinks::kOwner;
  return quarry::Location(std::make_shared<const quarry::PosixStorage>(
                              options.root, links, DataFiles(), quarry::CostsOfFileSystem(options.root)),
                          options.root);
}

server::DatasetCatalogOptions CatalogOptionsOf(const Options& options, quarry::Location root) {
  server::DatasetCatalogOptions catalog{std::move(root), options.index,
                                        options.scratch.empty() ? std::filesystem::temp_directory_path()
                                                                : std::filesystem::path(options.scratch),
                                        std::chrono::seconds(5)};
  catalog.remote = quarry::remote::IsUrl(options.root);
  return catalog;
}

server::DiskCacheUse DiskCacheBytes() {
  const quarry::disk_cache::Usage usage = quarry::disk_cache::UsageOfProcess();
  return {usage.from_cache, usage.fetched, usage.damaged};
}

Status ServeMetrics(const std::string& address, server::Metrics* metrics) {
  if (address.empty()) return Status::Ok();
  QUARRY_ASSIGN_OR_RETURN(const quarry::HostPort parsed, quarry::ParseHostPort(address));
  QUARRY_ASSIGN_OR_RETURN(const int port, metrics->Serve(address));
  quarry::PrintOut("metrics on {}:{}\n", parsed.host, port);
  return Status::Ok();
}

/// The page beside the programs; the build tree has the same folders. Empty if there is none.
std::string DefaultPage() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path page = program.parent_path().parent_path() / "share/quarry/viewer";
  return !error && std::filesystem::exists(page / "index.html", error) ? page.string() : "";
}

/// Null without --http. The page hears of the port that gRPC has got, so that one listens already.
Result<std::unique_ptr<server::HttpListener>> ServeHttp(const Options& options, const Prepared& prepared,
                                                        const server::Listener& grpc,
                                                        server::Service* service) {
  if (options.http.empty()) return std::unique_ptr<server::HttpListener>();
  QUARRY_ASSIGN_OR_RETURN(const quarry::HostPort grpc_address, quarry::ParseHostPort(grpc.address()));
  server::HttpOptions http;
  http.address = options.http;
  if (prepared.tls) http.tls = prepared.tls->pem();
  http.insecure = options.listen.insecure;
  http.connections = ConnectionsOf(options);
  http.grpc_port = grpc_address.port;
  http.page = options.page.empty() ? DefaultPage() : options.page;
  http.cors = options.cors;
  http.sources = options.connect;
  QUARRY_ASSIGN_OR_RETURN(auto listener, server::HttpListener::Start(http, service));
  quarry::PrintOut("http on {}\n", listener->address());
  return listener;
}

/// The connections of all ports.
server::Acceptor::State Sum(server::Acceptor::State one, const server::Acceptor::State& other) {
  one.open += other.open;
  one.accepted += other.accepted;
  one.refused += other.refused;
  one.cut += other.cut;
  return one;
}

/// Both ports at the same time.
void Drain(const sigset_t& signals, std::chrono::seconds time, server::Listener* listener,
           server::HttpListener* http) {
  ToldAgain told_again(signals);
  const std::function<bool()> hurry = [&told_again] { return told_again(); };
  std::jthread other;
  if (http != nullptr) other = std::jthread([&] { http->Drain(time, hurry); });
  listener->Drain(time, hurry);
}

/// Ends the process where connections do not close soon: clients that take nothing keep gRPC from it, and no
/// call waits any more.
/// @param close  releases all that gRPC owns. Its own end, with the last of that, may wait 10 s for a
/// connection
///               with TLS whose client has just left.
void CloseOrLeave(const std::function<void()>& close) {
  constexpr auto kPatience = std::chrono::milliseconds(500);
  std::promise<void> closed;
  std::thread closing([&close, &closed] {
    close();
    closed.set_value();
  });
  if (closed.get_future().wait_for(kPatience) == std::future_status::ready) return closing.join();
  spdlog::default_logger()->flush();
  std::fflush(nullptr);
  std::_Exit(0);
}

/// Patches that answers wanted and did not have to decode, by their order (docs/decisions/memory.md).
void LogHits(const quarry::PatchStore::State& state) {
  const std::uint64_t wanted = state.hits + state.misses;
  if (wanted == 0) return;
  spdlog::info("hit ratio {:.1f} %: {} of {} patches that answers wanted were in memory",
               100.0 * static_cast<double>(state.hits) / static_cast<double>(wanted), state.hits, wanted);
}

Status Serve(const Options& options) {
  const sigset_t signals = BlockSignals();
  const std::shared_ptr<server::ServerLog> log = MakeLog(options);
  QUARRY_ASSIGN_OR_RETURN(Prepared prepared, Prepare(options));
  QUARRY_ASSIGN_OR_RETURN(const quarry::Location root, RootOf(options));

  std::optional<server::Service> service;  // destroyed last: the metrics read its memory until they are gone
  server::Operations operations;
  operations.limits = prepared.limits;
  operations.clients.SetLimits(prepared.client);
  operations.tokens = prepared.tokens;
  operations.log = log;
  const auto watch = std::chrono::milliseconds(static_cast<std::int64_t>(options.watch_seconds * 1000));
  service.emplace(CatalogOptionsOf(options, root),
                  server::EngineOptions{prepared.memory, options.threads, options.queue}, &operations, watch);
  const server::MemoryGuard guard(prepared.memory);
  service->OnLargeRelease([&guard] { guard.Look(); });
  QUARRY_ASSIGN_OR_RETURN(const auto found, service->catalog().List());
  spdlog::info("{} datasets below {}", found->datasets.size(), root);
  operations.metrics.WatchStore([&service] { return service->store().state(); });
  if (quarry::remote::IsUrl(options.root)) operations.metrics.WatchDiskCache(DiskCacheBytes);
  if (prepared.tls) operations.metrics.SetCertificateEnd(prepared.tls->certificate_end());

  server::ListenOptions listen = options.listen;
  listen.connections = ConnectionsOf(options);
  if (prepared.tls) listen.tls = prepared.tls->credentials();
  QUARRY_ASSIGN_OR_RETURN(auto listener, server::Listener::Start(listen, &*service));
  QUARRY_ASSIGN_OR_RETURN(auto http, ServeHttp(options, prepared, *listener, &*service));
  operations.metrics.WatchConnections(
      [acceptor = listener->acceptor(), web = http ? http->acceptor() : nullptr] {
        return web ? Sum(acceptor->state(), web->state()) : acceptor->state();
      });
  QUARRY_RETURN_IF_ERROR(ServeMetrics(options.metrics, &operations.metrics));
  LogPrivileges(options);
  quarry::PrintOut("listening on {}\n", listener->address());
  // The starter of the server waits for this line. RunProgram says why it could not be written.
  if (!quarry::FlushOutput().ok()) return Status::Ok();
  {
    const server::Watchdog watchdog(listener->address());
    WaitForStop(signals, options, prepared, &*service, http.get());
  }
  spdlog::info("stopping: no new reads, running ones have {} s", options.drain_seconds);
  Drain(signals, std::chrono::seconds(options.drain_seconds), listener.get(), http.get());
  http.reset();
  LogHits(service->store().state());
  CloseOrLeave([&] {
    listener.reset();
    listen.tls.reset();
    prepared.tls.reset();
  });
  return Status::Ok();
}

/// Every connection, and every subfile that a read opens, is a file: allows as many as the system permits.
void RaiseFileLimit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  quarry::command_line::Parser app("quarry-server",
                                   "Serves every Quarry dataset below a directory, or at a URL.");
  server::DeclareOptions(&app, &options);
  quarry::KeepFreedMemory();
  RaiseFileLimit();
  return RunProgram(&app, argc, argv, [&]() -> Result<int> {
    QUARRY_RETURN_IF_ERROR(Serve(options));
    return 0;
  });
}
