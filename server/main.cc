// quarry-server: answers box and resolution queries over every dataset below a directory.
#include <grpc/support/log.h>
#include <signal.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <ctime>
#include <optional>

#include "quarry/base/address.h"
#include "quarry/base/memory.h"
#include "quarry/base/units.h"
#include "quarry/base/version.h"
#include "server/grpc_service.h"
#include "server/listener.h"
#include "server/memory_guard.h"

namespace {

using quarry::InvalidArgument;
using quarry::Result;
using quarry::Status;
namespace server = quarry::server;

struct Options {
  std::string root;
  std::string memory = "2GiB";
  std::string index;
  std::string scratch;
  int threads = 0;
  int drain_seconds = 30;
  double watch_seconds = 1;

  server::ListenOptions listen;
  server::TlsFiles tls;
  std::string tokens;
  std::string metrics;

  double deadline_seconds = 3600;
  std::string max_request_bytes;
  std::size_t queue = 256;
  int calls = 1000;
  int client_calls = 0;
  std::string client_bytes;

  std::string log_level = "info";
  std::string log_format = "text";
  bool quiet = false;
};

void DeclareData(CLI::App* app, Options* options) {
  app->add_option("ROOT,--root", options->root, "directory; every dataset below it is served")->required();
  app->add_option("--index", options->index,
                  "directory with an index folder NAME per dataset; default: NAME.quarry/index");
  app->add_option("--scratch", options->scratch,
                  "local directory for private copies of indices; default: the system's");
  app->add_option("--watch", options->watch_seconds,
                  "seconds between two looks at a dataset whose steps a client watches; default: 1")
      ->check(CLI::Range(0.01, 3600.0));
}

void DeclareConnections(CLI::App* app, Options* options) {
  const std::string group = "Connections";
  app->add_option("--listen", options->listen.address,
                  "address and port; port 0 picks a free one; default: 127.0.0.1:50051")
      ->group(group);
  auto* certificate =
      app->add_option("--tls-cert", options->tls.certificate,
                      "TLS with this certificate and its chain, a PEM file; clients say grpcs://; SIGHUP reads it "
                      "and the other files again")
          ->group(group);
  auto* key =
      app->add_option("--tls-key", options->tls.key, "the key of --tls-cert, a PEM file without password")
          ->needs(certificate)
          ->group(group);
  certificate->needs(key);
  app->add_option("--tls-client-ca", options->tls.client_authority,
                  "only clients with a certificate of this authority, a PEM file")
      ->needs(certificate)
      ->group(group);
  app->add_flag("--insecure", options->listen.insecure,
                "plain text also beyond this machine, for --listen without TLS and for --metrics")
      ->group(group);
  app->add_option(
         "--tokens", options->tokens,
         "file with lines NAME sha256:HEX DATASET...: only who has a token may ask; SIGHUP reads it again")
      ->group(group);
  app->add_option("--streams", options->listen.streams,
                  "most calls of one connection at a time; default: 100")
      ->check(CLI::Range(1, 1'000'000))
      ->group(group);
}

void DeclareLimits(CLI::App* app, Options* options) {
  const std::string group = "Limits";
  app->add_option("--memory", options->memory, "most memory for reads in progress; default: 2GiB")
      ->group(group);
  app->add_option("--threads", options->threads, "decoding threads; default: one per processor")
      ->check(CLI::Range(0, 1024))
      ->group(group);
  app->add_option("--queue", options->queue,
                  "most reads that wait for memory; more are refused; default: 256")
      ->check(CLI::Range(0, 1'000'000))
      ->group(group);
  app->add_option("--calls", options->calls, "most calls that run at a time; more are refused; default: 1000")
      ->check(CLI::Range(1, 1'000'000))
      ->group(group);
  app->add_option("--client-calls", options->client_calls,
                  "most calls of one client that run at a time: of a token, a certificate, or else an address; "
                  "default: no limit")
      ->check(CLI::Range(1, 1'000'000))
      ->group(group);
  app->add_option("--client-bytes", options->client_bytes,
                  "most payload, or samples where these are more, of the running reads of one client, like "
                  "8GiB; default: no limit")
      ->group(group);
  app->add_option("--deadline", options->deadline_seconds,
                  "seconds that an answer may take; 0: any time; default: 3600")
      ->check(CLI::Range(0.0, 1e7))
      ->group(group);
  app->add_option("--max-request-bytes", options->max_request_bytes,
                  "most payload that one read may need, and most samples that it may send, like 4GiB; "
                  "default: no limit")
      ->group(group);
  app->add_option("--drain", options->drain_seconds,
                  "seconds that running reads may take after SIGTERM; default: 30")
      ->check(CLI::Range(0, 3600))
      ->group(group);
}

void DeclareObservation(CLI::App* app, Options* options) {
  const std::string group = "Observation";
  app->add_option("--metrics", options->metrics,
                  "address and port for Prometheus, http://HOST:PORT/metrics; default: none")
      ->group(group);
  auto* level =
      app->add_option("--log-level", options->log_level, "debug, info, warn or error; default: info")
          ->check(CLI::IsMember({"debug", "info", "warn", "error"}))
          ->group(group);
  app->add_option("--log-format", options->log_format, "text, or json: one object a line; default: text")
      ->check(CLI::IsMember({"text", "json"}))
      ->group(group);
  app->add_flag("--quiet", options->quiet, "the same as --log-level warn")->excludes(level)->group(group);
}

void DeclareOptions(CLI::App* app, Options* options) {
  DeclareData(app, options);
  DeclareConnections(app, options);
  DeclareLimits(app, options);
  DeclareObservation(app, options);
  app->set_config("--config", "", "TOML file with these options by their names: root = \"/data/runs\"");
  app->allow_config_extras(CLI::config_extras_mode::error);
  app->set_version_flag("--version", std::string("quarry-server ") + quarry::kVersion);
  app->footer(
      "Example:\n  quarry-server /data/runs --listen 127.0.0.1:50051 --memory 4GiB\nThe line \"listening on "
      "ADDRESS:PORT\" goes to stdout when it is ready; SIGTERM drains and ends with 0.");
}

/// Signals are taken by one thread that waits for them; every other thread starts with them blocked.
sigset_t BlockSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

/// What gRPC has to say, of handshakes that failed for example, goes into the same log.
void LogForGrpc(gpr_log_func_args* message) {
  const auto level = message->severity == GPR_LOG_SEVERITY_ERROR  ? spdlog::level::warn
                     : message->severity == GPR_LOG_SEVERITY_INFO ? spdlog::level::info
                                                                  : spdlog::level::debug;
  spdlog::log(level, "gRPC: {}", message->message);
}

std::shared_ptr<server::ServerLog> MakeLog(const Options& options) {
  const auto level = options.quiet ? spdlog::level::warn : spdlog::level::from_str(options.log_level);
  auto log = std::make_shared<server::ServerLog>(
      std::make_shared<spdlog::sinks::stderr_sink_mt>(),
      options.log_format == "json" ? server::LogFormat::kJson : server::LogFormat::kText, level);
  spdlog::set_default_logger(log->logger());
  gpr_set_log_function(LogForGrpc);
  return log;
}

/// What the options lead to, checked before any data is opened.
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
  if (!options.metrics.empty())
    return server::CheckPlainText("--metrics", options.metrics, options.listen.insecure);
  return Status::Ok();
}

void LogCertificateEnd(const std::string& file, double end) {
  constexpr double kDay = 24 * 3600;
  const double days = (end - static_cast<double>(std::time(nullptr))) / kDay;
  if (days < 0) {
    spdlog::warn("the certificate {} ended {:.1f} days ago: clients will refuse it", file, -days);
  } else {
    spdlog::info("the certificate {} is good for {:.1f} days more", file, days);
  }
}

Result<Prepared> Prepare(const Options& options) {
  QUARRY_RETURN_IF_ERROR(CheckAddresses(options));
  Prepared prepared;
  QUARRY_ASSIGN_OR_RETURN(prepared.memory, quarry::ParseBytes(options.memory));
  constexpr std::uint64_t kLeastMemory = 1 << 20;
  if (prepared.memory < kLeastMemory)
    return InvalidArgument("--memory {} is too little to decode anything in; give 1MiB or more, like 2GiB",
                           options.memory);
  prepared.limits.calls = options.calls;
  prepared.limits.time =
      std::chrono::milliseconds(static_cast<std::int64_t>(options.deadline_seconds * 1000));
  if (!options.max_request_bytes.empty()) {
    QUARRY_ASSIGN_OR_RETURN(prepared.limits.request_bytes, quarry::ParseBytes(options.max_request_bytes));
  }
  prepared.client.calls = options.client_calls;
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
  std::error_code ignored;
  if (!std::filesystem::is_directory(options.root, ignored))
    return quarry::NotFound("there is no directory \"{}\"; give one that holds NAME.quarry datasets",
                            options.root);
  return prepared;
}

void ReloadTokens(server::TokenStore* tokens) {
  if (const Status status = tokens->Reload(); status.ok()) {
    spdlog::info("SIGHUP: {} tokens", tokens->size());
  } else {
    spdlog::error("SIGHUP: the tokens stay as they were: {}", status.message());
  }
}

void ReloadCertificate(const std::string& file, server::Tls* tls, server::Metrics* metrics) {
  if (const Status status = tls->Reload(); !status.ok()) {
    spdlog::error("SIGHUP: the certificate stays as it was: {}", status.message());
    return;
  }
  spdlog::info("SIGHUP: new connections get the certificate as it is now in {}", file);
  LogCertificateEnd(file, tls->certificate_end());
  metrics->SetCertificateEnd(tls->certificate_end());
}

/// Returns when the server is to stop; SIGHUP reads tokens and certificate again.
void WaitForStop(const sigset_t& signals, const Options& options, const Prepared& prepared,
                 server::Metrics* metrics) {
  for (;;) {
    int signal = 0;
    sigwait(&signals, &signal);
    if (signal != SIGHUP) return;
    if (prepared.tokens) ReloadTokens(prepared.tokens.get());
    if (prepared.tls) ReloadCertificate(options.tls.certificate, prepared.tls.get(), metrics);
    if (!prepared.tokens && !prepared.tls)
      spdlog::info("SIGHUP: there are no tokens and no certificate to read again");
  }
}

server::CatalogueOptions CatalogueOf(const Options& options) {
  return {options.root, options.index,
          options.scratch.empty() ? std::filesystem::temp_directory_path()
                                  : std::filesystem::path(options.scratch)};
}

Status ServeMetrics(const std::string& address, server::Metrics* metrics) {
  if (address.empty()) return Status::Ok();
  QUARRY_ASSIGN_OR_RETURN(const quarry::HostPort parsed, quarry::ParseHostPort(address));
  QUARRY_ASSIGN_OR_RETURN(const int port, metrics->Serve(address));
  fmt::print("metrics on {}:{}\n", parsed.host, port);
  return Status::Ok();
}

Status Serve(const Options& options) {
  const sigset_t signals = BlockSignals();
  const std::shared_ptr<server::ServerLog> log = MakeLog(options);
  QUARRY_ASSIGN_OR_RETURN(const Prepared prepared, Prepare(options));

  // In the order in which they need each other: the last goes first.
  server::QueryService service(CatalogueOf(options), prepared.memory, options.threads, options.queue);
  QUARRY_ASSIGN_OR_RETURN(const auto datasets, service.catalogue().List());
  spdlog::info("{} datasets below {}", datasets.size(), options.root);
  server::Operations operations;
  operations.limits = prepared.limits;
  operations.clients.SetLimits(prepared.client);
  operations.tokens = prepared.tokens;
  operations.log = log;
  operations.metrics.WatchStore([&service] { return service.store().state(); });
  if (prepared.tls) operations.metrics.SetCertificateEnd(prepared.tls->certificate_end());
  const auto watch = std::chrono::milliseconds(static_cast<std::int64_t>(options.watch_seconds * 1000));
  server::GrpcService grpc_service(&service, &operations, watch);

  server::ListenOptions listen = options.listen;
  if (prepared.tls) listen.tls = prepared.tls->credentials();
  QUARRY_ASSIGN_OR_RETURN(const auto listener, server::Listener::Start(listen, &grpc_service));
  QUARRY_RETURN_IF_ERROR(ServeMetrics(options.metrics, &operations.metrics));
  const server::MemoryGuard guard(prepared.memory);
  fmt::print("listening on {}\n", listener->address());
  std::fflush(stdout);

  WaitForStop(signals, options, prepared, &operations.metrics);
  spdlog::info("stopping: no new reads, running ones have {} s", options.drain_seconds);
  listener->Drain(&operations, std::chrono::seconds(options.drain_seconds));
  return Status::Ok();
}

/// Every connection is a file, and every subfile that a read has open: as many as the system lets us have.
void RaiseFileLimit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

int Fail(const Status& status) {
  fmt::print(stderr, "quarry-server: {}\n", status.message());
  return quarry::ExitCode(status);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Serves every Quarry dataset below a directory.", "quarry-server");
  DeclareOptions(&app, &options);
  quarry::KeepFreedMemory();
  RaiseFileLimit();
  try {
    app.parse(argc, argv);
    const Status status = Serve(options);
    return status.ok() ? 0 : Fail(status);
  } catch (const CLI::Success& success) {  // --help, --version
    return app.exit(success);
  } catch (const CLI::FileError& error) {
    return Fail(quarry::NotFound("--config: {}; give a file that is there, and that this user may read", error.what()));
  } catch (const CLI::ConfigError& error) {
    return Fail(InvalidArgument("--config: {}; the names are those of quarry-server --help, without --",
                                error.what()));
  } catch (const CLI::ParseError& error) {
    return Fail(InvalidArgument("{}; run quarry-server --help", error.what()));
  } catch (const std::bad_alloc&) {
    return Fail(quarry::InternalError("out of memory"));
  } catch (const std::exception& error) {
    return Fail(quarry::InternalError("unexpected: {}", error.what()));
  }
}
