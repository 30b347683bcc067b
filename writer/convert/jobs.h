#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "writer/convert/convert.h"
#include "writer/pipeline/field_source.h"

/// The work of a run, from its options and inputs alone: the same on every rank, without communication.

namespace quarry::writer {

/// The first step of a field's inputs, by the field's name.
using FirstSteps = std::map<std::string, std::uint64_t>;

/// One dump to convert. Its file is opened only when its turn comes: a series may exceed the limit of open
/// files.
struct Job {
  input::InputInfo info;
  std::size_t moment = 0;  ///< position in the answer of OpenInputs for info.path
  bool done = false;       ///< published by an earlier run
  /// Options of an implied coordinate field; null: those of the run.
  std::shared_ptr<const WriteOptions> own;

  bool is_coordinate() const { return own != nullptr; }
  const WriteOptions& OptionsIn(const WriteOptions& run) const { return own ? *own : run; }
  /// @param run  its options
  Result<std::unique_ptr<input::Input>> Open(const WriteOptions& run) const;
};

/// The dumps of each step, by step number.
using Jobs = std::map<std::uint64_t, std::vector<Job>>;

/// Opens all inputs and numbers their steps: inputs of the same field are consecutive steps; different fields
/// share step numbers. Coordinate fields and still fields belong to the first step.
/// @errors those of OpenInputs; kInvalidArgument when grids differ, options contradict, or two variables of
/// one file would be steps of one field
Result<Jobs> ListJobs(const WriteOptions& options);

/// The same jobs with other numbers.
/// @param first  those of fields that begin elsewhere than at 0
/// @errors kInvalidArgument: a number beyond the largest
Result<Jobs> Renumber(Jobs jobs, const FirstSteps& first);

/// The names of the fields that are converted: of coordinates alone, or of the others.
std::set<std::string> FieldsOf(const Jobs& jobs, bool coordinates);

/// Without the coordinates that a dataset has already. @returns  their names
std::set<std::string> LeaveOutCoordinates(const std::set<std::string>& known, Jobs* jobs);

/// Warnings for the user before the run: warnings of the inputs, each once; a series whose order is not that
/// of its names or times.
std::vector<std::string> ListWarnings(const WriteOptions& options, const Jobs& jobs);

/// How the times of the inputs count: as the first says that has one.
TimeUnit TimeUnitOf(const WriteOptions& options, const Jobs& jobs);

/// Physical time of a step in the dataset's unit: the user's value, or that of the files that have one.
/// @errors kInvalidArgument: the files of the step have different times, or units that have nothing in common
Result<std::optional<double>> TimeOf(const WriteOptions& options, const std::vector<Job>& step,
                                     const TimeUnit& unit);

/// Which rank encodes a patch. With direct reading, the rank that has read it.
distribution::PlacementStrategy PlacementOf(const WriteOptions& options);

}  // namespace quarry::writer
