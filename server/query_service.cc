#include "server/query_service.h"

namespace quarry::server {

Result<PreparedRead> QueryService::Prepare(const std::string& dataset, const query::ReadRequest& request) {
  PreparedRead read;
  QUARRY_ASSIGN_OR_RETURN(read.served, catalogue_.Find(dataset));
  QUARRY_ASSIGN_OR_RETURN(read.plan, read.served->dataset->Plan(request, read.served->index.get()));
  return read;
}

Result<Series> QueryService::Expand(const std::string& dataset, const query::SeriesRequest& request) {
  Series series;
  QUARRY_ASSIGN_OR_RETURN(series.served, catalogue_.Find(dataset));
  QUARRY_ASSIGN_OR_RETURN(series.questions, series.served->dataset->Expand(request));
  return series;
}

Result<PreparedRead> QueryService::Prepare(const Series& series, std::size_t number) {
  PreparedRead read{series.served, {}};
  QUARRY_ASSIGN_OR_RETURN(read.plan,
                          series.served->dataset->Plan(series.questions[number], series.served->index.get()));
  return read;
}

Status QueryService::Read(const PreparedRead& read, const std::function<bool()>& cancelled, BlockSink* sink,
                          query::Position from) {
  return ExecuteRead(*read.served->dataset, read.plan, &engine_, cancelled, sink, from);
}

Status QueryService::ReadPayloads(const PreparedRead& read, const std::function<bool()>& cancelled,
                                  PayloadSink* sink, query::Position from) {
  return ExecutePayloads(*read.served->dataset, read.plan, &engine_, cancelled, sink, from);
}

Result<query::StatisticsAnswer> QueryService::Statistics(const PreparedRead& read,
                                                         const query::StatisticsRequest& request,
                                                         const std::function<bool()>& cancelled) {
  QUARRY_RETURN_IF_ERROR(query::CheckStatistics(request));
  QUARRY_ASSIGN_OR_RETURN(query::Statistics statistics,
                          ComputeStatistics(*read.served->dataset, read.plan, request, &engine_, cancelled));
  return query::StatisticsAnswer{query::StatisticsHeader(read.plan), std::move(statistics)};
}

Result<PreparedPoints> QueryService::PreparePoints(const std::string& dataset,
                                                   const query::PointsRequest& request) {
  QUARRY_ASSIGN_OR_RETURN(std::shared_ptr<const ServedDataset> served, catalogue_.Find(dataset));
  QUARRY_ASSIGN_OR_RETURN(query::PointsPlan plan, served->dataset->PlanPoints(request, served->index.get()));
  return PreparedPoints{std::move(served), std::move(plan)};
}

Result<query::PointsAnswer> QueryService::ReadPoints(PreparedPoints points,
                                                     const std::function<bool()>& cancelled) {
  return quarry::ReadPoints(*points.served->dataset, std::move(points.plan), &engine_, cancelled);
}

}  // namespace quarry::server
