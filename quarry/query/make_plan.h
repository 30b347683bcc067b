#pragma once

#include <cstdint>

#include "quarry/query/read_plan.h"

/// From a question to the plan that answers it.
namespace quarry::query {

/// Plans a query, in memory that PlanningMemory states: the level and layer that it leaves open, the samples
/// that executing it delivers, and the payload that it needs. For what it reads, see Cost.
/// @param references  of the field
/// @param read_gap    of the storage that holds the payload
/// @errors those of PatchLocator::Find; kNotFound: no level and layer keep the error, or fit into the bytes;
/// kDataLoss: field and mask do not match, or references do not end
Result<ReadPlan> MakePlan(const DatasetDescription& dataset, const PatchLocator& locator,
                          const FindReferences& references, const Query& query, std::uint64_t read_gap);

/// Plans one run of a plan in runs: its patches, with the levels, cost and totals of the whole plan.
/// @param plan  made with the same arguments
/// @errors those of MakePlan; kDataLoss: the patches are others now
Result<ReadPlan> PlanRun(const DatasetDescription& dataset, const PatchLocator& locator,
                         const FindReferences& references, const ReadPlan& plan, const PatchRun& run);

}  // namespace quarry::query
