#pragma once

#include <atomic>
#include <chrono>

#include "quarry/v1/service.grpc.pb.h"
#include "server/query_service.h"

namespace quarry::server {

/// Messages of about this size leave the server: large enough for full speed, far below gRPC's default limit
/// of 4 MiB.
inline constexpr std::size_t kMessageBytes = 1 << 20;

/// QueryService over gRPC: messages to questions, answers to messages, errors to codes; nothing else.
class GrpcService final : public ::quarry::v1::QuarryService::Service {
 public:
  /// @param look_every  how often a dataset that is watched is looked at
  explicit GrpcService(QueryService* service,
                       std::chrono::milliseconds look_every = std::chrono::milliseconds(1000))
      : service_(service), look_every_(look_every) {}

  /// Ends the calls that would go on for as long as the client likes.
  void EndWatching() { stopping_ = true; }

  grpc::Status ListDatasets(grpc::ServerContext* context, const ::quarry::v1::ListDatasetsRequest* request,
                            ::quarry::v1::ListDatasetsResponse* response) override;
  grpc::Status GetDataset(grpc::ServerContext* context, const ::quarry::v1::GetDatasetRequest* request,
                          ::quarry::v1::GetDatasetResponse* response) override;
  grpc::Status PlanRead(grpc::ServerContext* context, const ::quarry::v1::PlanReadRequest* request,
                        ::quarry::v1::PlanReadResponse* response) override;
  grpc::Status Read(grpc::ServerContext* context, const ::quarry::v1::ReadRequest* request,
                    grpc::ServerWriter<::quarry::v1::ReadResponse>* writer) override;
  grpc::Status WatchSteps(grpc::ServerContext* context, const ::quarry::v1::WatchStepsRequest* request,
                          grpc::ServerWriter<::quarry::v1::WatchStepsResponse>* writer) override;

 private:
  QueryService* service_;
  const std::chrono::milliseconds look_every_;
  std::atomic<bool> stopping_ = false;
};

}  // namespace quarry::server
