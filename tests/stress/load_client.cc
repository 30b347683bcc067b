// Many clients that ask for everything: some read fast, some slowly, some leave in the middle. Prints on
// stdout, as JSON, how the calls ended; exits with 1 if a call ended unexpectedly.
#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "quarry/command_line/command_line.h"
#include "quarry/v1/service.grpc.pb.h"

namespace {

namespace pb = ::quarry::v1;
using Clock = std::chrono::steady_clock;

struct Options {
  std::string address;
  std::string dataset;
  std::string field;
  int clients = 64;
  double seconds = 10;
  int pause_ms = 20;
  std::uint64_t seed = 1;
};

/// How a client behaves during one call.
enum class Manner { kQuick, kSlow, kGoesAway };

class Load {
 public:
  explicit Load(const Options& options)
      : options_(options),
        end_(Clock::now() +
             std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options.seconds))) {}

  void Run() {
    std::vector<std::jthread> clients;
    for (int i = 0; i < options_.clients; ++i) clients.emplace_back([this, i] { RunClient(i); });
  }

  /// Prints the counts. False if a call ended unexpectedly.
  bool Report() const {
    nlohmann::json json{{"bytes", bytes_}, {"calls", calls_}, {"codes", nlohmann::json::object()}};
    for (const auto& [code, count] : codes_) json["codes"][std::to_string(code)] = count;
    if (!unexpected_.empty()) json["unexpected"] = unexpected_;
    fmt::print("{}\n", json.dump());
    return unexpected_.empty();
  }

 private:
  /// On a busy machine the time may pass before any read is answered in full.
  bool IsOver() const { return answered_ && Clock::now() >= end_; }

  void RunClient(int number) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    const auto stub = pb::QuarryService::NewStub(
        grpc::CreateCustomChannel(options_.address, grpc::InsecureChannelCredentials(), arguments));
    std::mt19937_64 random(options_.seed + static_cast<std::uint64_t>(number));
    while (!IsOver()) {
      const Manner manner = static_cast<Manner>(random() % 3);
      Call(stub.get(), manner, 1 + random() % 200, random() % 2 == 0, random() % 3);
    }
  }

  /// @param messages  number of messages after which a client goes away
  void Call(pb::QuarryService::Stub* stub, Manner manner, std::uint64_t messages, bool patches,
            std::uint64_t coarser) {
    pb::ReadRequest request;
    request.mutable_query()->set_dataset(options_.dataset);
    request.mutable_query()->set_field(options_.field);
    request.mutable_query()->set_first_level(static_cast<std::uint32_t>(coarser));
    request.set_encoding(patches ? pb::ENCODING_PATCHES : pb::ENCODING_SAMPLES);
    grpc::ClientContext context;
    // A first connection may fail for a reason on the client's side (gRPC before 1.61 loses the errno of
    // connect: grpc/grpc#35064). This test is about calls that have reached the server.
    context.set_wait_for_ready(true);
    const auto stream = stub->Read(&context, request);
    pb::ReadResponse message;
    std::uint64_t bytes = 0;
    bool gone = false;
    for (std::uint64_t taken = 0; !gone && stream->Read(&message); ++taken) {
      bytes += message.ByteSizeLong();
      // A slow reader is the subject of this program.
      if (manner == Manner::kSlow) std::this_thread::sleep_for(std::chrono::milliseconds(options_.pause_ms));
      gone = (manner == Manner::kGoesAway && taken >= messages) || IsOver();
      if (gone) context.TryCancel();
    }
    const grpc::Status status = stream->Finish();
    const bool expected = status.ok() || status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED ||
                          (gone && status.error_code() == grpc::StatusCode::CANCELLED);
    if (status.ok()) answered_ = true;
    const std::lock_guard lock(mutex_);
    ++calls_;
    bytes_ += bytes;
    ++codes_[status.error_code()];
    if (!expected)
      unexpected_ = fmt::format("code {}: {}", static_cast<int>(status.error_code()), status.error_message());
  }

  const Options options_;
  const Clock::time_point end_;
  std::atomic<bool> answered_ = false;  ///< one call, in full
  std::mutex mutex_;
  std::uint64_t calls_ = 0;
  std::uint64_t bytes_ = 0;
  std::map<int, std::uint64_t> codes_;
  std::string unexpected_;
};

}  // namespace

int main(int argc, char** argv) {
  Options options;
  quarry::command_line::Parser app(
      "load_client", "Many clients at once that ask for a whole field: quick, slow, and gone in the middle.");
  app.AddOption("ADDRESS", &options.address, "HOST:PORT").Required();
  app.AddOption("--dataset", &options.dataset, "name of a dataset").Required();
  app.AddOption("--field", &options.field, "one of its fields").Required();
  app.AddOption("--clients", &options.clients, "each with a connection of its own");
  app.AddOption("--seconds", &options.seconds,
                "after which calls that run are cancelled, once one was answered in full");
  app.AddOption("--pause", &options.pause_ms, "milliseconds between messages of a slow client");
  app.AddOption("--seed", &options.seed, "another number makes other questions");
  app.SetFooter("Example:\n  load_client 127.0.0.1:50051 --dataset run42 --field pressure --seconds 600");
  return RunProgram(&app, argc, argv, [&]() -> quarry::Result<int> {
    Load load(options);
    load.Run();
    return load.Report() ? 0 : 1;
  });
}
