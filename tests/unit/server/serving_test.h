#pragma once

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>

#include "clients/cpp/client.h"
#include "server/grpc_service.h"
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
  void TearDown() override { server_->Shutdown(); }

  void Start(std::uint64_t memory) {
    service_ =
        std::make_unique<QueryService>(CatalogueOptions{folder_.path(), {}, folder_.path()}, memory, 2);
    grpc_service_ = std::make_unique<GrpcService>(service_.get(), &operations_, std::chrono::milliseconds(5));
    Listen();
    stub_ = pb::QuarryService::NewStub(
        grpc::CreateChannel("127.0.0.1:" + std::to_string(port_), grpc::InsecureChannelCredentials()));
  }

  /// On a free port the first time, and on the same one again.
  void Listen() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:" + std::to_string(port_), grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(grpc_service_.get());
    server_ = builder.BuildAndStart();
  }

  std::filesystem::path Path(const std::string& name) const { return folder_.path() / (name + ".quarry"); }
  std::string Target(const std::string& name) const {
    return "grpc://127.0.0.1:" + std::to_string(port_) + "/" + name;
  }
  std::unique_ptr<client::Dataset> Remote(const std::string& name) const {
    return *client::Dataset::Open(Target(name));
  }
  std::unique_ptr<client::Dataset> Local(const std::string& name) const {
    return *client::Dataset::Open(Path(name).string());
  }

  testing::TemporaryFolder folder_;
  int port_ = 0;
  std::unique_ptr<QueryService> service_;
  Operations operations_;
  std::unique_ptr<GrpcService> grpc_service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<pb::QuarryService::Stub> stub_;
};

}  // namespace quarry::server
