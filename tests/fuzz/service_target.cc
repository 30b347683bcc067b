// Hostile questions to the handlers of a server, over the golden dataset. The first byte is the method.

#include <google/protobuf/stubs/logging.h>
#include <spdlog/spdlog.h>

#include <array>
#include <filesystem>

#include "server/service.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/unit/server/fake_peer.h"

namespace quarry::fuzz {
namespace {

constexpr std::array kMethods = {"ListDatasets",  "GetDataset", "PlanRead",   "Read",
                                 "GetStatistics", "ReadPoints", "WatchSteps", "NoSuchMethod"};

struct Running {
  Running() {
    spdlog::set_level(spdlog::level::err);
    google::protobuf::SetLogHandler(nullptr);
    operations.limits.request_bytes = 64 << 20;
    service.emplace(
        server::DatasetCatalogOptions{std::string(QUARRY_GOLDEN), {}, std::filesystem::temp_directory_path()},
        server::EngineOptions{16 << 20, 1}, &operations, std::chrono::milliseconds(1));
  }
  server::Operations operations;
  std::optional<server::Service> service;
};

}  // namespace
}  // namespace quarry::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace quarry;
  static fuzz::Running running;
  if (size == 0) return 0;
  const std::string method = fuzz::kMethods[data[0] % fuzz::kMethods.size()];
  server::FakePeer peer(std::string(reinterpret_cast<const char*>(data) + 1, size - 1));
  // A watching client leaves soon.
  if (method == "WatchSteps") peer.most_asks = 1;
  const Status status = server::Ask(&*running.service, method, &peer);
  fuzz::Require(status.ok() || !status.message().empty(), "an error says what is wrong");
  fuzz::Require(status.code() != StatusCode::kInternal && status.code() != StatusCode::kDataLoss,
                "the fault is the client's");
  fuzz::Require(running.operations.running == 0, "the call has ended");
  if (status.ok() && method == "Read") {
    v1::ReadResponse last;
    fuzz::Require(last.ParseFromString(peer.messages.back()) && last.has_read_end(),
                  "a good answer has an end");
  }
  return 0;
}
