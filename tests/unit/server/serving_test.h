#pragma once

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>

#include "quarry/client.h"
#include "quarry/client_grpc.h"
#include "quarry/v1/service.grpc.pb.h"
#include "server/grpc/listener.h"
#include "tests/testing/make_dataset.h"

namespace quarry::server {

namespace pb = ::quarry::v1;

/// A real server on a free port, over datasets that the test makes.
class ServingTest : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::MakeDataset(Path("a"), {.steps = {0, 2}});
    testing::MakeDataset(
        Path("b"),
        {.dims = {50, 1, 1}, .patch = {16, 1, 1}, .levels = 5, .order = format::PayloadOrder::kLevel});
    testing::MakeDataset(Path("c"), {.missing = true});
    Start(std::uint64_t{1} << 30);
  }
  void TearDown() override { listener_.reset(); }

  void Start(std::uint64_t memory) {
    client::EnableGrpc();
    listener_.reset();
    service_ =
        std::make_unique<Service>(DatasetCatalogOptions{folder_.path(), {}, folder_.path()},
                                  EngineOptions{memory, 2}, &operations_, std::chrono::milliseconds(5));
    Listen();
    stub_ = pb::QuarryService::NewStub(
        grpc::CreateChannel("127.0.0.1:" + std::to_string(port_), grpc::InsecureChannelCredentials()));
  }

  /// On a free port the first time, and on the same one again.
  void Listen() {
    ListenOptions options;
    options.address = "127.0.0.1:" + std::to_string(port_);
    auto listener = Listener::Start(options, service_.get());
    ASSERT_TRUE(listener.ok()) << listener.status().message();
    listener_ = *std::move(listener);
    port_ = std::stoi(listener_->address().substr(listener_->address().rfind(':') + 1));
  }

  std::filesystem::path Path(const std::string& name) const { return folder_.path() / (name + ".quarry"); }
  std::string Target(const std::string& name) const {
    return "grpc://127.0.0.1:" + std::to_string(port_) + "/" + name;
  }
  std::unique_ptr<client::Dataset> Remote(const std::string& name) const {
    return *client::Dataset::Open(Target(name), {.encoding = client::Encoding::kSamples});
  }
  std::unique_ptr<client::Dataset> Local(const std::string& name) const {
    return *client::Dataset::Open(Path(name).string());
  }

  testing::TemporaryFolder folder_;
  int port_ = 0;
  std::unique_ptr<Service> service_;
  Operations operations_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<pb::QuarryService::Stub> stub_;
};

}  // namespace quarry::server
