#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "quarry/base/status.h"

namespace quarry::format {

/// Steps that follow each other at one distance.
struct StepRun {
  std::uint64_t first = 0;
  std::uint64_t distance = 1;
  std::uint64_t steps = 1;

  std::uint64_t last() const { return first + distance * (steps - 1); }

  friend bool operator==(const StepRun&, const StepRun&) = default;
};

/// Most steps of runs that a reader lists.
inline constexpr std::uint64_t kMaxListedSteps = std::uint64_t{1} << 22;

/// @param steps  ascending
std::vector<StepRun> RunsOf(std::span<const std::uint64_t> steps);

/// Adds a step, if it is not there. Takes a moment if it is behind all others, else as long as RunsOf.
void AddStep(std::uint64_t step, std::vector<StepRun>* runs);

std::uint64_t CountSteps(std::span<const StepRun> runs);

/// All steps, ascending. @param runs  that CheckRuns has seen
std::vector<std::uint64_t> StepsOf(std::span<const StepRun> runs);

/// @errors kDataLoss: they do not ascend, overflow, or have more than kMaxListedSteps
Status CheckRuns(std::span<const StepRun> runs);

}  // namespace quarry::format
