#pragma once

#include <memory>
#include <string>

#include "quarry/dataset/decode_pool.h"
#include "quarry/dataset/reader.h"
#include "server/catalogue.h"
#include "server/memory_budget.h"

namespace quarry::server {

/// A question with its plan, and the dataset kept open for it.
struct PreparedRead {
  std::shared_ptr<const ServedDataset> served;
  query::ReadPlan plan;

  query::AnswerHeader header() const { return {plan.type, plan.query.step, plan.levels, plan.price}; }
};

/// What the server does, in the words of the library: knows no gRPC, no messages. Thread-safe.
class QueryService {
 public:
  /// @param threads  for decoding; 0: one per processor
  /// @param queue  most reads that may wait for memory at a time
  QueryService(CatalogueOptions catalogue, std::uint64_t memory_bytes, int threads,
               std::size_t queue = SIZE_MAX)
      : catalogue_(std::move(catalogue)), memory_(memory_bytes, queue), pool_(threads) {}

  Catalogue& catalogue() { return catalogue_; }
  const MemoryBudget& memory() const { return memory_; }

  /// Plans without reading payload. @errors those of Catalogue::Find and Dataset::Plan
  Result<PreparedRead> Prepare(const std::string& dataset, const query::ReadRequest& request);

  /// Fetches, decodes and delivers, within the memory budget. @errors those of ExecuteRead and
  /// MemoryBudget::Reserve
  Status Read(const PreparedRead& read, const std::function<bool()>& cancelled, BlockSink* sink);

 private:
  Catalogue catalogue_;
  MemoryBudget memory_;
  DecodePool pool_;
};

}  // namespace quarry::server
