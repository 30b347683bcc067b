// Many clients that ask for everything: some take it as fast as it comes, some slowly, some go away in the
// middle. Says on stdout, as JSON, how the calls ended; exits with 1 when one ended in a way that it should not.
#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

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
      : options_(options), end_(Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                                   std::chrono::duration<double>(options.seconds))) {}

  void Run() {
    std::vector<std::jthread> clients;
    for (int i = 0; i < options_.clients; ++i) clients.emplace_back([this, i] { RunClient(i); });
  }

  /// Prints what was counted. False when a call ended as none should.
  bool Report() const {
    nlohmann::json json{{"bytes", bytes_}, {"calls", calls_}, {"codes", nlohmann::json::object()}};
    for (const auto& [code, count] : codes_) json["codes"][std::to_string(code)] = count;
    if (!unexpected_.empty()) json["unexpected"] = unexpected_;
    fmt::print("{}\n", json.dump());
    return unexpected_.empty();
  }

 private:
  void RunClient(int number) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    const auto stub = pb::QuarryService::NewStub(
        grpc::CreateCustomChannel(options_.address, grpc::InsecureChannelCredentials(), arguments));
    std::mt19937_64 random(options_.seed + static_cast<std::uint64_t>(number));
    while (Clock::now() < end_) {
      const Manner manner = static_cast<Manner>(random() % 3);
      Call(stub.get(), manner, 1 + random() % 200, random() % 2 == 0, random() % 3);
    }
  }

  /// @param messages  after which a client goes away
  void Call(pb::QuarryService::Stub* stub, Manner manner, std::uint64_t messages, bool patches,
            std::uint64_t coarser) {
    pb::ReadRequest request;
    request.mutable_query()->set_dataset(options_.dataset);
    request.mutable_query()->set_field(options_.field);
    request.mutable_query()->set_first_level(static_cast<std::uint32_t>(coarser));
    request.set_encoding(patches ? pb::ENCODING_PATCHES : pb::ENCODING_SAMPLES);
    grpc::ClientContext context;
    // A first connection may fail for reasons of the client's own (gRPC before 1.61 loses the errno of connect:
    // grpc/grpc#35064). The subject are calls that have reached the server.
    context.set_wait_for_ready(true);
    const auto stream = stub->Read(&context, request);
    pb::ReadResponse message;
    std::uint64_t bytes = 0;
    bool gone = false;
    for (std::uint64_t taken = 0; !gone && stream->Read(&message); ++taken) {
      bytes += message.ByteSizeLong();
      // A slow reader is the subject of this program.
      if (manner == Manner::kSlow) std::this_thread::sleep_for(std::chrono::milliseconds(options_.pause_ms));
      gone = (manner == Manner::kGoesAway && taken >= messages) || Clock::now() >= end_;
      if (gone) context.TryCancel();
    }
    const grpc::Status status = stream->Finish();
    const bool expected = status.ok() || status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED ||
                          (gone && status.error_code() == grpc::StatusCode::CANCELLED);
    const std::lock_guard lock(mutex_);
    ++calls_;
    bytes_ += bytes;
    ++codes_[status.error_code()];
    if (!expected)
      unexpected_ = fmt::format("code {}: {}", static_cast<int>(status.error_code()), status.error_message());
  }

  const Options options_;
  const Clock::time_point end_;
  std::mutex mutex_;
  std::uint64_t calls_ = 0;
  std::uint64_t bytes_ = 0;
  std::map<int, std::uint64_t> codes_;
  std::string unexpected_;
};

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Many clients at once that ask for a whole field: quick, slow, and gone in the middle.");
  app.add_option("ADDRESS", options.address, "HOST:PORT")->required();
  app.add_option("--dataset", options.dataset)->required();
  app.add_option("--field", options.field)->required();
  app.add_option("--clients", options.clients, "each with a connection of its own");
  app.add_option("--seconds", options.seconds, "after which calls that run are cancelled");
  app.add_option("--pause", options.pause_ms, "milliseconds between messages of a slow client");
  app.add_option("--seed", options.seed);
  app.footer("Example:\n  load_client 127.0.0.1:50051 --dataset run42 --field pressure --seconds 600");
  CLI11_PARSE(app, argc, argv);
  Load load(options);
  load.Run();
  return load.Report() ? 0 : 1;
}
