#pragma once

#include <chrono>

#include "quarry/v1/service.grpc.pb.h"
#include "server/answer_stream.h"
#include "server/call.h"
#include "server/query_service.h"

namespace quarry::server {

/// QueryService over gRPC: messages to questions, answers to messages, errors to codes; nothing else.
class GrpcService final : public ::quarry::v1::QuarryService::Service {
 public:
  /// @param operations  limits, tokens, log and metrics; both live as long as the server
  /// @param look_every  how often a dataset whose steps are watched is looked at
  GrpcService(QueryService* service, Operations* operations,
              std::chrono::milliseconds look_every = std::chrono::milliseconds(1000));

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
  grpc::Status WatchSteps(grpc::ServerContext* context, const ::quarry::v1::WatchStepsRequest* request,
                          grpc::ServerWriter<::quarry::v1::WatchStepsResponse>* writer) override;

 private:
  Status Read(const ::quarry::v1::ReadRequest& request, Call* call, const AnswerStream::Writer& write);
  Result<query::Price> AdmitSeries(const Series& series, std::size_t first, const PreparedRead& read,
                                   Call* call);
  Status SendAnswer(const PreparedRead& read, ::quarry::v1::Encoding encoding,
                    const ::quarry::v1::ReadPosition& from, Call* call, AnswerStream* stream);

  /// Admits a call, does its work, and answers, logs and counts however it ends.
  template <typename Work>
  grpc::Status Handle(grpc::ServerContext* context, const char* method, const std::string& dataset,
                      Work work);

  /// Waits until it is time to look at a watched dataset again, or the call has to end.
  void Rest(Call* call) const;

  QueryService* const service_;
  Operations* const operations_;
  const std::chrono::milliseconds look_every_;
};

}  // namespace quarry::server
