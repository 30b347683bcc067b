#pragma once

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "quarry/client.h"
#include "quarry/client_grpc.h"
#include "quarry/v1/service.grpc.pb.h"
#include "server/grpc/listener.h"
#include "tests/testing/make_dataset.h"

/// Our client against a server in front of a real one, which corrupts answers on their way: each time the
/// client gets a clear error, and every level handed to the caller has exactly the requested samples.
namespace quarry::client {

namespace pb = ::quarry::v1;

inline constexpr std::array kEncodings = {Encoding::kSamples, Encoding::kPatches, Encoding::kCoded};

using Messages = std::vector<pb::ReadResponse>;
/// Changes the messages of an answer, and decides how its stream ends.
using Spoil = std::function<grpc::Status(int stream, Messages* messages)>;

inline const grpc::Status kBroken(grpc::StatusCode::UNAVAILABLE, "cut");

/// Forwards questions to a real server, and corrupts its answers.
class Spoiler final : public pb::QuarryService::Service {
 public:
  explicit Spoiler(std::unique_ptr<pb::QuarryService::Stub> real) : real_(std::move(real)) {}

  Spoil read = [](int, Messages*) { return grpc::Status::OK; };
  std::function<void(pb::ReadHeader*)> header = [](pb::ReadHeader*) {};      ///< for plans and statistics
  std::function<void(pb::ReadRequest*)> question = [](pb::ReadRequest*) {};  ///< before it is forwarded
  bool without_scales = false;       ///< as a server that does not know them
  std::atomic<bool> silent = false;  ///< calls are not answered until they are cancelled
  std::atomic<int> calls = 0;
  std::atomic<int> streams = 0;

  grpc::Status GetDataset(grpc::ServerContext* context, const pb::GetDatasetRequest* request,
                          pb::GetDatasetResponse* response) override {
    return Forward(context, &pb::QuarryService::Stub::GetDataset, *request, response);
  }
  grpc::Status PlanRead(grpc::ServerContext* context, const pb::PlanReadRequest* request,
                        pb::PlanReadResponse* response) override {
    const grpc::Status status = Forward(context, &pb::QuarryService::Stub::PlanRead, *request, response);
    header(response->mutable_header());
    return status;
  }
  grpc::Status GetStatistics(grpc::ServerContext* context, const pb::GetStatisticsRequest* request,
                             pb::GetStatisticsResponse* response) override {
    pb::GetStatisticsRequest forwarded = *request;
    if (without_scales) forwarded.clear_scale();
    const grpc::Status status =
        Forward(context, &pb::QuarryService::Stub::GetStatistics, forwarded, response);
    header(response->mutable_header());
    return status;
  }
  grpc::Status Read(grpc::ServerContext* context, const pb::ReadRequest* request,
                    grpc::ServerWriter<pb::ReadResponse>* writer) override {
    WaitWhileSilent(context);
    grpc::ClientContext of_call;
    pb::ReadRequest forwarded = *request;
    question(&forwarded);
    const auto stream = real_->Read(&of_call, forwarded);
    Messages messages;
    for (pb::ReadResponse message; stream->Read(&message);) messages.push_back(message);
    EXPECT_TRUE(stream->Finish().ok());
    const grpc::Status end = read(streams++, &messages);
    for (const pb::ReadResponse& message : messages) writer->Write(message);
    return end;
  }

 private:
  template <typename Method, typename Request, typename Response>
  grpc::Status Forward(grpc::ServerContext* context, Method method, const Request& request,
                       Response* response) {
    WaitWhileSilent(context);
    grpc::ClientContext of_call;
    return (real_.get()->*method)(&of_call, request, response);
  }
  void WaitWhileSilent(grpc::ServerContext* context) {
    ++calls;
    while (silent && !context->IsCancelled()) std::this_thread::yield();
  }

  const std::unique_ptr<pb::QuarryService::Stub> real_;
};

inline std::unique_ptr<grpc::Server> Listen(grpc::Service* service, int* port) {
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), port);
  builder.RegisterService(service);
  return builder.BuildAndStart();
}

class HostileServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    // The box below cuts patches and leaves some out.
    testing::MakeDataset(folder_.path() / "a.quarry", {.dims = {40, 20, 12}, .levels = 3, .steps = {0, 3}});
    Serve();
  }

  /// Serves the dataset "a", and reads the truth from it.
  void Serve() {
    EnableGrpc();
    service_ =
        std::make_unique<server::Service>(server::DatasetCatalogOptions{folder_.path(), {}, folder_.path()},
                                          server::EngineOptions{std::uint64_t{64} << 20, 1}, &operations_);
    server::ListenOptions options;
    options.address = "127.0.0.1:0";
    real_server_ = *server::Listener::Start(options, service_.get());
    spoiler_ = std::make_unique<Spoiler>(pb::QuarryService::NewStub(
        grpc::CreateChannel(real_server_->address(), grpc::InsecureChannelCredentials())));
    spoiler_server_ = Listen(spoiler_.get(), &port_);
    const auto local = *Dataset::Open(folder_.path() / "a.quarry");
    ASSERT_TRUE(local
                    ->ReadLevels(question_,
                                 [&](LevelSamples* samples, const ReadCost&) {
                                   truth_.push_back(*samples);
                                   return Status::Ok();
                                 })
                    .ok());
  }
  /// A dataset in layers of accuracy.
  /// @param rougher  tolerances of those before the last
  /// @param missing  with missing samples
  void ServeLayers(std::vector<double> rougher, bool missing) {
    testing::MakeDataset(folder_.path() / "a.quarry", {.dims = {40, 20, 12},
                                                       .levels = 3,
                                                       .steps = {0, 3},
                                                       .coder = CoderId::kInterpolate,
                                                       .missing = missing,
                                                       .rougher = std::move(rougher)});
    Serve();
  }
  void TearDown() override {
    spoiler_server_->Shutdown();
    real_server_.reset();
  }

  std::string Target() const { return fmt::format("grpc://127.0.0.1:{}/a", port_); }
  std::unique_ptr<Dataset> Open(Options options = {}) const {
    options.threads = 1;
    return *Dataset::Open(Target(), options);
  }

  /// Asks the question, and checks every level that comes back.
  Status Read(Encoding encoding, Spoil spoil) {
    spoiler_->read = std::move(spoil);
    spoiler_->streams = 0;
    levels_ = 0;
    const auto dataset = Open({.encoding = encoding, .retries = 3});
    return dataset->ReadLevels(question_, Check());
  }

  /// The same without opening the dataset.
  Status ReadUnopened(Encoding encoding, Spoil spoil) {
    spoiler_->read = std::move(spoil);
    spoiler_->streams = 0;
    spoiler_->calls = 0;
    levels_ = 0;
    const auto reader = *Reader::At(Target(), {.threads = 1, .encoding = encoding, .retries = 3});
    return reader->ReadSeries({question_, {}, {}}, Check());
  }

  LevelCallback Check() {
    return [this](LevelSamples* samples, const ReadCost&) {
      CheckLevel(*samples);
      return Status::Ok();
    };
  }

  void CheckLevel(const LevelSamples& samples) {
    const LevelSamples& expected = truth_.at(levels_++);
    EXPECT_EQ(samples.level, expected.level);
    EXPECT_EQ(samples.layer, expected.layer);
    EXPECT_EQ(samples.extent, expected.extent);
    EXPECT_EQ(samples.type, expected.type);
    EXPECT_EQ(samples.data, expected.data);
    EXPECT_TRUE(samples.damaged.empty());
  }

  void ExpectError(Encoding encoding, const std::string& what, Spoil spoil,
                   StatusCode code = StatusCode::kInternal) {
    const Status status = Read(encoding, std::move(spoil));
    EXPECT_EQ(status.code(), code) << what << ": " << status.message();
    EXPECT_FALSE(status.message().empty()) << what;
    EXPECT_LT(levels_, truth_.size()) << what;
    EXPECT_EQ(spoiler_->streams, 1) << what << ": asking again does not help";
  }

  inline static const query::ReadRequest kQuestion{.field = "pressure",
                                                   .step = 3,
                                                   .box = Box{{3, 2, 1}, {29, 19, 11}},
                                                   .first_level = 2,
                                                   .allow_damage = true};

  query::ReadRequest question_ = kQuestion;
  testing::TemporaryFolder folder_;
  server::Operations operations_;
  std::unique_ptr<server::Service> service_;
  std::unique_ptr<server::Listener> real_server_;
  std::unique_ptr<Spoiler> spoiler_;
  std::unique_ptr<grpc::Server> spoiler_server_;
  int port_ = 0;
  std::vector<LevelSamples> truth_;
  std::size_t levels_ = 0;  ///< number of received levels
};

/// The messages that carry samples, patches or tiles of a level.
inline std::vector<pb::ReadResponse*> Carrying(Messages* messages, std::uint32_t level) {
  std::vector<pb::ReadResponse*> found;
  for (pb::ReadResponse& message : *messages) {
    if ((message.has_samples() && message.samples().level() == level) ||
        (message.has_patches() && message.patches().level() == level) ||
        (message.has_coded() && message.coded().level() == level))
      found.push_back(&message);
  }
  return found;
}

inline auto FirstLevelEnd(Messages* messages) {
  return std::ranges::find_if(*messages, &pb::ReadResponse::has_level_end);
}

/// Says that all of a tile is damaged.
inline pb::BlockExtent* AddDamage(pb::CodedTile* tile) {
  pb::BlockExtent* const damaged = tile->add_damaged();
  *damaged->mutable_begin() = tile->begin();
  *damaged->mutable_shape() = tile->shape();
  return damaged;
}

/// The first stream ends after some messages.
inline Spoil CutOnce(std::size_t count, std::function<void(Messages*)> change) {
  return [=](int stream, Messages* messages) {
    if (stream > 0) {
      change(messages);
      return grpc::Status::OK;
    }
    EXPECT_LT(count, messages->size());
    messages->resize(count);
    return kBroken;
  };
}

}  // namespace quarry::client
