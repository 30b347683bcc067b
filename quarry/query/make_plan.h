#pragma once

#include <cstdint>

#include "quarry/query/read_plan.h"

/// From a question to the plan that answers it.
namespace quarry::query {

/// Plans a query: the level and layer that it leaves open, the samples that executing it delivers, and the
/// payload that it needs. For what it reads, see Cost.
/// @param references  of the field
/// @param read_gap    of the storage that holds the payload
/// @errors those of PatchLocator::Find; kNotFound: no level and layer keep the error, or fit into the bytes;
/// kDataLoss: field and mask do not match, or references do not end
Result<ReadPlan> MakePlan(const DatasetDescription& dataset, const PatchLocator& locator,
                          const FindReferences& references, const Query& query, std::uint64_t read_gap);

}  // namespace quarry::query
