#include "server/listener.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>

#include <algorithm>
#include <thread>

#include "quarry/base/address.h"

namespace quarry::server {
namespace {

/// What clients ask the health service about, beside "": the whole server.
constexpr const char* kServiceName = "quarry.v1.QuarryService";

void SetArguments(const ListenOptions& options, grpc::ServerBuilder* builder) {
  // Two servers on one port would take turns with the clients of one another.
  builder->AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // A client that has vanished is noticed, and what its reads hold is freed.
  constexpr int kPingEveryMs = 60'000;
  constexpr int kPingTimeoutMs = 20'000;
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kPingEveryMs);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kPingTimeoutMs);
  // Clients behind firewalls that forget quiet connections may ping too: gRPC's own minimum is five minutes.
  constexpr int kClientsPingMs = 20'000;
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, kClientsPingMs);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder->AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, options.streams);
  // Running calls are not cut: the grace after this age is without end.
  builder->AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS,
                              static_cast<int>(options.connection_age.count()));
  builder->SetMaxReceiveMessageSize(options.request_bytes);
}

}  // namespace

Status CheckPlainText(const std::string& what, const std::string& address, bool insecure) {
  QUARRY_ASSIGN_OR_RETURN(const HostPort parsed, ParseHostPort(address));
  if (insecure || IsLoopback(parsed.host)) return Status::Ok();
  const std::string_view instead = what == "--listen" ? ", give --tls-cert and --tls-key," : "";
  return InvalidArgument(
      "{} {} would send data in plain text to other machines; listen on 127.0.0.1{} or say --insecure where "
      "everybody on the network is trusted",
      what, address, instead);
}

Result<std::unique_ptr<Listener>> Listener::Start(const ListenOptions& options, grpc::Service* service) {
  QUARRY_RETURN_IF_ERROR(
      CheckPlainText("--listen", options.address, options.insecure || options.tls != nullptr));
  QUARRY_ASSIGN_OR_RETURN(const HostPort address, ParseHostPort(options.address));
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  SetArguments(options, &builder);
  int port = 0;
  builder.AddListeningPort(options.address, options.tls ? options.tls : grpc::InsecureServerCredentials(),
                           &port);
  builder.RegisterService(service);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (!server || port == 0) {
    return Status(
        StatusCode::kUnavailable,
        fmt::format("cannot listen on {}; choose a free port of this machine, or port 0", options.address));
  }
  server->GetHealthCheckService()->SetServingStatus(kServiceName, true);
  return std::unique_ptr<Listener>(
      new Listener(options.tls, std::move(server), fmt::format("{}:{}", address.host, port)));
}

Listener::~Listener() { Stop(std::chrono::milliseconds(0)); }

void Listener::Drain(Operations* operations, std::chrono::milliseconds time) {
  using Clock = std::chrono::steady_clock;
  if (!server_) return;
  server_->GetHealthCheckService()->SetServingStatus(false);
  operations->draining = true;
  // gRPC's own shutdown would wait for watchers of the health as well, who never leave.
  constexpr auto kLookUp = std::chrono::milliseconds(5);
  const Clock::time_point end = Clock::now() + time;
  while (operations->running > 0 && Clock::now() < end) std::this_thread::sleep_for(kLookUp);
  // The last words of calls that have just ended may still be on their way.
  constexpr auto kLastWords = std::chrono::milliseconds(1000);
  Stop(std::min(time, kLastWords));
}

void Listener::Stop(std::chrono::milliseconds time) {
  if (!server_) return;
  server_->Shutdown(std::chrono::system_clock::now() + time);
  server_->Wait();
  server_.reset();
}

}  // namespace quarry::server
