#include "server/query_service.h"

namespace quarry::server {

Result<PreparedRead> QueryService::Prepare(const std::string& dataset, const query::ReadRequest& request) {
  PreparedRead read;
  QUARRY_ASSIGN_OR_RETURN(read.served, catalogue_.Find(dataset));
  QUARRY_ASSIGN_OR_RETURN(read.plan, read.served->dataset->Plan(request, read.served->index.get()));
  return read;
}

Status QueryService::Read(const PreparedRead& read, const std::function<bool()>& cancelled, BlockSink* sink) {
  QUARRY_ASSIGN_OR_RETURN(const MemoryBudget::Reservation memory,
                          memory_.Reserve(query::PeakMemory(read.plan), cancelled));
  return ExecuteRead(*read.served->dataset, read.plan, &pool_, cancelled, sink);
}

}  // namespace quarry::server
