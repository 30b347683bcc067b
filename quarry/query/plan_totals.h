#pragma once

#include "quarry/query/read_plan.h"

/// Sums over the patches of a plan, of which a run may be in memory at a time.
namespace quarry::query {

/// Sums over the patches that are in memory.
/// @param plan  with the question, type, parts and levels
PlanTotals TotalsOf(const ReadPlan& plan);

/// The levels that a plan delivers, in order, without errors and payload.
std::vector<LevelExtent> LevelsOf(const ReadPlan& plan);

/// Completes levels and cost of a plan by its totals.
void AddTotals(const PlanTotals& totals, ReadPlan* plan);

}  // namespace quarry::query
