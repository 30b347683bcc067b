#pragma once

#include <memory>
#include <string>

#include "quarry/dataset/points.h"
#include "quarry/dataset/reader.h"
#include "quarry/dataset/statistics.h"
#include "server/catalogue.h"

namespace quarry::server {

/// A question with its plan, and the dataset kept open for it.
struct PreparedRead {
  std::shared_ptr<const ServedDataset> served;
  query::ReadPlan plan;
};

/// The questions of a request, and the dataset kept open for them: planned one by one, since the plans of a
/// thousand would take memory that nothing counts.
struct Series {
  std::shared_ptr<const ServedDataset> served;
  std::vector<query::ReadRequest> questions;
};

/// The same for points.
struct PreparedPoints {
  std::shared_ptr<const ServedDataset> served;
  query::PointsPlan plan;
};

/// What the server does, in the words of the library: knows no gRPC, no messages. Thread-safe.
class QueryService {
 public:
  /// @param threads  for decoding; 0: one per processor
  /// @param queue  most reads that may wait for memory at a time
  QueryService(CatalogueOptions catalogue, std::uint64_t memory_bytes, int threads,
               std::size_t queue = SIZE_MAX)
      : catalogue_(std::move(catalogue)), engine_(memory_bytes, threads, queue) {}

  Catalogue& catalogue() { return catalogue_; }
  /// What reads share.
  const PatchStore& store() const { return engine_.store; }

  /// Plans without reading payload. @errors those of Catalogue::Find and Dataset::Plan
  Result<PreparedRead> Prepare(const std::string& dataset, const query::ReadRequest& request);

  /// @errors those of Catalogue::Find and Dataset::Expand
  Result<Series> Expand(const std::string& dataset, const query::SeriesRequest& request);

  /// @errors those of Dataset::Plan
  Result<PreparedRead> Prepare(const Series& series, std::size_t number);

  /// Fetches, decodes and delivers, within the memory budget. @errors those of ExecuteRead
  Status Read(const PreparedRead& read, const std::function<bool()>& cancelled, BlockSink* sink,
              query::Position from = {});
  /// The same without decoding. @errors those of ExecutePayloads
  Status ReadPayloads(const PreparedRead& read, const std::function<bool()>& cancelled, PayloadSink* sink,
                      query::Position from = {});

  /// @param read  prepared from query::SamplesOf(request)
  /// @errors those of Read and query::CheckStatistics
  Result<query::StatisticsAnswer> Statistics(const PreparedRead& read,
                                             const query::StatisticsRequest& request,
                                             const std::function<bool()>& cancelled);

  /// @errors those of Catalogue::Find and Dataset::PlanPoints
  Result<PreparedPoints> PreparePoints(const std::string& dataset, const query::PointsRequest& request);

  /// @errors those of Read
  Result<query::PointsAnswer> ReadPoints(PreparedPoints points, const std::function<bool()>& cancelled);

 private:
  Catalogue catalogue_;
  ReadEngine engine_;
};

}  // namespace quarry::server
