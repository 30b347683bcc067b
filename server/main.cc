// quarry-server: answers box and resolution queries over every dataset below a directory.
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <signal.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <chrono>

#include "quarry/base/memory.h"
#include "quarry/base/units.h"
#include "quarry/base/version.h"
#include "server/grpc_service.h"

namespace {

using quarry::InvalidArgument;
using quarry::Status;

struct Options {
  std::string root;
  std::string listen = "127.0.0.1:50051";
  std::string memory = "2GiB";
  std::string index;
  std::string scratch;
  int threads = 0;
  int drain_seconds = 30;
  double watch_seconds = 1;
  bool quiet = false;
};

void DeclareOptions(CLI::App* app, Options* options) {
  app->add_option("ROOT", options->root, "directory; every dataset below it is served")->required();
  app->add_option("--listen", options->listen,
                  "address and port; port 0 picks a free one; default: 127.0.0.1:50051");
  app->add_option("--memory", options->memory, "most memory for reads in progress; default: 2GiB");
  app->add_option("--threads", options->threads, "decoding threads; default: one per processor")
      ->check(CLI::Range(0, 1024));
  app->add_option("--index", options->index,
                  "directory with an index folder NAME per dataset; default: NAME.quarry/index");
  app->add_option("--scratch", options->scratch,
                  "local directory for private copies of indices; default: the system's");
  app->add_option("--drain", options->drain_seconds,
                  "seconds that running reads may take after SIGTERM; default: 30")
      ->check(CLI::Range(0, 3600));
  app->add_option("--watch", options->watch_seconds,
                  "seconds between two looks at a dataset whose steps a client watches; default: 1")
      ->check(CLI::Range(0.01, 3600.0));
  app->add_flag("--quiet", options->quiet, "log warnings only");
  app->set_version_flag("--version", std::string("quarry-server ") + quarry::kVersion);
  app->footer(
      "Example:\n  quarry-server /data/runs --listen 127.0.0.1:50051 --memory 4GiB\nThe line \"listening on "
      "ADDRESS:PORT\" goes to stdout when it is ready; SIGTERM drains and ends with 0.");
}

/// "127.0.0.1:0" -> "127.0.0.1".
std::string HostOf(const std::string& address) { return address.substr(0, address.rfind(':')); }

/// Signals are taken by one thread that waits for them; every other thread starts with them blocked.
sigset_t BlockStopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

Status Serve(const Options& options) {
  const sigset_t stop_signals = BlockStopSignals();
  QUARRY_ASSIGN_OR_RETURN(const std::uint64_t memory, quarry::ParseBytes(options.memory));
  std::error_code ignored;
  if (!std::filesystem::is_directory(options.root, ignored))
    return quarry::NotFound("there is no directory \"{}\"; give one that holds NAME.quarry datasets",
                            options.root);
  quarry::server::CatalogueOptions catalogue;
  catalogue.root = options.root;
  catalogue.index = options.index;
  catalogue.scratch = options.scratch.empty() ? std::filesystem::temp_directory_path()
                                              : std::filesystem::path(options.scratch);
  quarry::server::QueryService service(catalogue, memory, options.threads);
  QUARRY_ASSIGN_OR_RETURN(const auto datasets, service.catalogue().List());
  spdlog::info("{} datasets below {}", datasets.size(), options.root);

  quarry::server::GrpcService grpc_service(
      &service, std::chrono::milliseconds(static_cast<std::int64_t>(options.watch_seconds * 1000)));
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(options.listen, grpc::InsecureServerCredentials(), &port);
  // Two servers on one port would take turns with the clients of one another.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // A client that has vanished is noticed, and what its reads hold is freed.
  constexpr int kPingEveryMs = 60'000;
  constexpr int kPingTimeoutMs = 20'000;
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kPingEveryMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kPingTimeoutMs);
  builder.RegisterService(&grpc_service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (!server || port == 0) {
    return {
        quarry::StatusCode::kUnavailable,
        fmt::format("cannot listen on {}; choose a free port of this machine, or port 0", options.listen)};
  }
  fmt::print("listening on {}:{}\n", HostOf(options.listen), port);
  std::fflush(stdout);

  int signal = 0;
  sigwait(&stop_signals, &signal);
  spdlog::info("stopping: no new reads, running ones have {} s", options.drain_seconds);
  grpc_service.EndWatching();
  server->GetHealthCheckService()->SetServingStatus(false);
  server->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(options.drain_seconds));
  server->Wait();
  return Status::Ok();
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
  try {
    app.parse(argc, argv);
    spdlog::set_default_logger(spdlog::stderr_logger_mt("quarry-server"));
    spdlog::set_level(options.quiet ? spdlog::level::warn : spdlog::level::info);
    const Status status = Serve(options);
    return status.ok() ? 0 : Fail(status);
  } catch (const CLI::Success& success) {  // --help, --version
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    return Fail(InvalidArgument("{}; run quarry-server --help", error.what()));
  } catch (const std::bad_alloc&) {
    return Fail(quarry::InternalError("out of memory"));
  } catch (const std::exception& error) {
    return Fail(quarry::InternalError("unexpected: {}", error.what()));
  }
}
