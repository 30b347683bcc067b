#pragma once

#include "quarry/dataset/dataset.h"
#include "quarry/dataset/read_engine.h"
#include "quarry/query/points.h"

namespace quarry {

/// Fetches and decodes the patches around the points and interpolates; answers a cost-only plan at once. The
/// caller has pinned what a read needs, and query::kBytesPerPoint for each point.
/// @param requester  if it has gone, it ends with kCancelled
/// @param locator    finds the patches of runs; null: the subfiles' own tables
/// @errors those of ExecuteRead
Result<query::PointsAnswer> ReadPoints(const Dataset& dataset, query::PointsPlan plan, ReadEngine* engine,
                                       const Requester& requester,
                                       const query::PatchLocator* locator = nullptr);

}  // namespace quarry
