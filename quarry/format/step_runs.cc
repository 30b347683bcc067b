#include "quarry/format/step_runs.h"

#include <algorithm>

namespace quarry::format {
namespace {

/// @param step  behind all others
void AddBehind(std::uint64_t step, std::vector<StepRun>* runs) {
  if (!runs->empty()) {
    StepRun& last = runs->back();
    if (last.steps == 1) last.distance = step - last.first;
    if (step - last.last() == last.distance) {
      ++last.steps;
      return;
    }
  }
  runs->push_back({step, 1, 1});
}

}  // namespace

std::vector<StepRun> RunsOf(std::span<const std::uint64_t> steps) {
  std::vector<StepRun> runs;
  for (const std::uint64_t step : steps) AddBehind(step, &runs);
  return runs;
}

void AddStep(std::uint64_t step, std::vector<StepRun>* runs) {
  if (runs->empty() || step > runs->back().last()) return AddBehind(step, runs);
  std::vector<std::uint64_t> steps = StepsOf(*runs);
  const auto place = std::lower_bound(steps.begin(), steps.end(), step);
  if (*place == step) return;
  steps.insert(place, step);
  *runs = RunsOf(steps);
}

std::uint64_t CountSteps(std::span<const StepRun> runs) {
  std::uint64_t steps = 0;
  for (const StepRun& run : runs) steps += run.steps;
  return steps;
}

std::vector<std::uint64_t> StepsOf(std::span<const StepRun> runs) {
  std::vector<std::uint64_t> steps;
  steps.reserve(CountSteps(runs));
  for (const StepRun& run : runs) {
    for (std::uint64_t i = 0; i < run.steps; ++i) steps.push_back(run.first + i * run.distance);
  }
  return steps;
}

Status CheckRuns(std::span<const StepRun> runs) {
  std::uint64_t left = kMaxListedSteps;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    const StepRun& run = runs[r];
    if (run.steps == 0 || run.distance == 0 || run.steps > left ||
        run.steps - 1 > (UINT64_MAX - run.first) / run.distance || (r > 0 && run.first <= runs[r - 1].last()))
      return DataLoss("run {} of steps has {} from {} at the distance {}", r, run.steps, run.first,
                      run.distance);
    left -= run.steps;
  }
  return Status::Ok();
}

}  // namespace quarry::format
