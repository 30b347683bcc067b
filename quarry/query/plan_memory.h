#pragma once

#include <cstdint>

#include "quarry/query/fetch.h"
#include "quarry/query/read_plan.h"

/// Upper bounds of the memory that a plan and its execution take.
namespace quarry::query {

/// Memory of the decoded samples of a patch at a level, with those that are missing.
std::uint64_t DecodedBytes(const ReadPlan& plan, const PlannedPatch& patch, int level);

/// Upper bound of the memory to read a fetch and to decode its pieces.
std::uint64_t DecodeMemory(const ReadPlan& plan, const Fetch& fetch);
/// The same for a piece alone.
std::uint64_t DecodeMemory(const ReadPlan& plan, const Piece& piece);

/// Upper bound of the memory that delivering takes beside decoding: the largest patch that is delivered, and
/// the block that is cut out of it.
std::uint64_t DeliveryMemory(const ReadPlan& plan);
/// The same before the plan is made, for any patch at the level that is asked for.
std::uint64_t DeliveryMemory(const DatasetDescription& dataset, const Query& query);

/// Upper bound of the patches of a plan, from the geometry alone.
std::uint64_t MostPatches(const DatasetDescription& dataset, const Query& query);
/// Whether a plan of so many patches leaves them to be found again, run by run.
bool PlansInRuns(const Query& query, std::uint64_t patches);
/// Boxes that an answer leaves out, and the memory that they take from its plan to its message.
std::uint64_t MostLeftOut(std::uint64_t bytes);
std::uint64_t LeftOutMemory(std::uint64_t boxes);
/// Upper bound of the memory that MakePlan takes, from the geometry alone: so much is pinned before a patch
/// is located. Of a plan in runs, also what planning and executing each of them takes.
std::uint64_t PlanningMemory(const DatasetDescription& dataset, const Query& query);
/// Upper bound of the memory of a plan, and of its fetches while it is executed.
std::uint64_t PlanMemory(const ReadPlan& plan);

}  // namespace quarry::query
