#pragma once

#include <string>

#include "writer/convert/jobs.h"

namespace quarry::writer {

/// Describes a run in advance; estimates the size by encoding a few patches spread over the grid. Local to
/// one rank; writes nothing.
Result<std::string> DescribeRun(const WriteOptions& options, const Jobs& jobs,
                                const DatasetDescription& dataset, int ranks);

}  // namespace quarry::writer
