#pragma once

#include <functional>

#include "quarry/dataset/dataset.h"
#include "quarry/dataset/reader.h"
#include "quarry/query/statistics.h"

namespace quarry {

/// Fetches and decodes a plan with one level, and takes the statistics of its samples on the way: no more of
/// them are in memory than for a read.
/// @param cancelled  asked between patches; true ends it with kCancelled
/// @errors those of CheckStatistics and ExecuteRead
Result<query::Statistics> ComputeStatistics(const Dataset& dataset, const query::ReadPlan& plan,
                                            const query::StatisticsRequest& request, ReadEngine* engine,
                                            const std::function<bool()>& cancelled);

}  // namespace quarry
