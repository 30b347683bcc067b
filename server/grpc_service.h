#pragma once

#include "quarry/v1/service.grpc.pb.h"
#include "server/answer_stream.h"
#include "server/call.h"
#include "server/query_service.h"

namespace quarry::server {

/// QueryService over gRPC: messages to questions, answers to messages, errors to codes; nothing else.
class GrpcService final : public ::quarry::v1::QuarryService::Service {
 public:
  /// @param operations  limits, tokens, log and metrics; both live as long as the server
  GrpcService(QueryService* service, Operations* operations);

  grpc::Status ListDatasets(grpc::ServerContext* context, const ::quarry::v1::ListDatasetsRequest* request,
                            ::quarry::v1::ListDatasetsResponse* response) override;
  grpc::Status GetDataset(grpc::ServerContext* context, const ::quarry::v1::GetDatasetRequest* request,
                          ::quarry::v1::GetDatasetResponse* response) override;
  grpc::Status PlanRead(grpc::ServerContext* context, const ::quarry::v1::PlanReadRequest* request,
                        ::quarry::v1::PlanReadResponse* response) override;
  grpc::Status GetStatistics(grpc::ServerContext* context, const ::quarry::v1::GetStatisticsRequest* request,
                             ::quarry::v1::GetStatisticsResponse* response) override;
  grpc::Status ReadPoints(grpc::ServerContext* context, const ::quarry::v1::ReadPointsRequest* request,
                          ::quarry::v1::ReadPointsResponse* response) override;

 private:
  grpc::Status Read(grpc::ServerContext* context, const ::quarry::v1::ReadRequest& request,
                    const AnswerStream::Writer& write);

  /// Admits a call, does its work, and answers, logs and counts however it ends.
  template <typename Work>
  grpc::Status Handle(grpc::ServerContext* context, const char* method, const std::string& dataset,
                      Work work);

  QueryService* const service_;
  Operations* const operations_;
};

}  // namespace quarry::server
