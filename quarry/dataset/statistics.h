#pragma once

#include "quarry/dataset/dataset.h"
#include "quarry/dataset/read_engine.h"
#include "quarry/query/statistics.h"

namespace quarry {

/// Fetches and decodes a plan with one level, and computes the statistics of its samples on the way: memory
/// holds no more of them than for a read. The caller has pinned what a read needs, and
/// StatisticsAccumulator::kMemory. Patches of a plan in runs are found again run by run: for the bins, and
/// for the samples.
/// @param requester  if it has gone, it ends with kCancelled
/// @param locator    finds the patches of runs; null: the subfiles' own tables
/// @errors those of CheckStatistics, CheckHistogram and ExecuteRead
Result<query::Statistics> ComputeStatistics(const Dataset& dataset, const query::ReadPlan& plan,
                                            const query::StatisticsRequest& request, ReadEngine* engine,
                                            const Requester& requester,
                                            const query::PatchLocator* locator = nullptr);

}  // namespace quarry
