#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "quarry/client.h"
#include "quarry/question.h"

/// Copies of a box or of a coarse level. Samples are read as any client reads them, and coded anew: a box may
/// begin anywhere, and the source may be behind a server.
namespace quarry::writer {

struct SubsetOptions {
  std::optional<Box> box;    ///< level-0 samples; left out: all. Fields on other grids are cut along its axes
  std::size_t box_grid = 0;  ///< the grid on which the box lies: position in the description
  int level = 0;             ///< the samples of this level become level 0 of the copy
  /// The error that coding may add. Neither: none, samples are the same bit by bit.
  query::Recode recode;
  std::optional<query::StepRange> steps;  ///< left out: all
  std::vector<std::string> fields;        ///< empty: all
  /// Name of the source in the attribute `quarry_source` of each field.
  std::string source_name;
  std::uint64_t memory = 256 << 20;  ///< [bytes] for writing
  bool dry_run = false;              ///< only says what is to be done
  bool break_lock = false;           ///< see LockOptions
  bool allow_http = false;           ///< see PipelineOptions
  /// Called with samples read so far and in the end; may be empty.
  std::function<void(std::uint64_t done, std::uint64_t all)> progress;
};

/// Result of a copy; of a dry run what it would be.
struct SubsetReport {
  std::uint64_t steps = 0;         ///< that were chosen
  std::uint64_t there = 0;         ///< steps of these that were in the target before
  std::uint64_t samples = 0;       ///< that were written
  std::uint64_t sample_bytes = 0;  ///< the same, not coded
  std::uint64_t bytes = 0;         ///< bytes of their subfiles and masks; 0 of a dry run
  std::vector<std::string> warnings;
};

/// Copies samples to a place where nothing is, or where an earlier copy of the same samples was interrupted
/// or is to get further steps or fields. Grids, positions, attributes, times and missing samples stay what
/// they are; each field gets the attribute `quarry_source`, which says which samples these are and with which
/// error they were stored.
/// @errors kNotFound: no such field or step; kInvalidArgument: a box outside the grid or on two grids, a
/// level or bound that a field cannot have; kDataLoss: the source is damaged; kFailedPrecondition: another
/// dataset is in the target; those of reading and of DatasetWriter
Result<SubsetReport> CopySubset(const client::Dataset& from, const std::string& to,
                                const SubsetOptions& options);

}  // namespace quarry::writer
