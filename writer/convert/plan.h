#pragma once

#include <map>
#include <string>
#include <vector>

#include "writer/convert/convert.h"
#include "writer/pipeline/defaults.h"

/// What a run will do, from its options and inputs alone: the same on every rank, without communication.
namespace quarry::writer {

/// One dump to convert. Its file is opened when its turn comes: a series may be longer than a process may have
/// open files.
struct Job {
  InputInfo info;
  std::size_t moment = 0;  ///< position in the answer of OpenInputs for info.path
  bool done = false;       ///< published by an earlier run

  Result<std::unique_ptr<Input>> Open(const InputOptions& options) const;
};

/// The dumps of each step, by step number.
using Jobs = std::map<std::uint64_t, std::vector<Job>>;

/// Opens all inputs and numbers their steps: inputs of the same field are consecutive steps; different fields
/// share them.
/// @errors those of OpenInputs; kInvalidArgument when grids differ or options contradict
Result<Jobs> PlanJobs(const WriteOptions& options);

/// The dataset.json that the run leads to, from the existing one when appending.
/// @errors kInvalidArgument: options do not fit each other or the existing dataset
Result<DatasetDescription> PlanDescription(const WriteOptions& options, const Jobs& jobs,
                                           const std::optional<DatasetDescription>& existing);

/// Physical time of a step: as the user gave it, or from the first of its files that tells.
std::optional<double> PlanTime(const WriteOptions& options, const std::vector<Job>& step);

/// A fill value in the words of a user: a number that a sample of this type can have, or "nan" for floats.
/// @errors kInvalidArgument
Result<double> ParseFill(const std::string& text, DataType type);

}  // namespace quarry::writer
