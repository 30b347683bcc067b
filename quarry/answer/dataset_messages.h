#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "quarry/dataset/dataset.h"
#include "quarry/v1/service.pb.h"

namespace quarry::answer {

/// Limits of the steps in one answer.
struct PageLimits {
  std::uint32_t steps = 0;
  std::size_t bytes = 0;  ///< about so many; at least one step
};

/// So many steps, of those that a request asks for.
std::uint32_t PageSize(std::uint32_t asked);

/// Empty without one.
std::string DateText(const std::optional<double>& time, const TimeUnit& unit);

/// The answer to GetDataset: a page of the steps, or their numbers, or the manifest alone.
/// @errors kInvalidArgument: an impossible page token; those of Dataset::Summary and Dataset::Step
Result<::quarry::v1::GetDatasetResponse> DatasetPage(const Dataset& dataset,
                                                     const ::quarry::v1::GetDatasetRequest& request,
                                                     const PageLimits& limits);

}  // namespace quarry::answer
