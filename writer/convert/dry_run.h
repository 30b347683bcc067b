#pragma once

#include <string>

#include "writer/convert/plan.h"

namespace quarry::writer {

/// The plan of a run in words, with a size estimated by encoding a few patches that are spread over the grid.
/// Local to one rank; writes nothing.
Result<std::string> DescribeRun(const WriteOptions& options, const Jobs& jobs,
                                const DatasetDescription& dataset, int ranks);

}  // namespace quarry::writer
