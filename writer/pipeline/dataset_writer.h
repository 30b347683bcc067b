#pragma once

#include <mpi.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "quarry/base/value_range.h"
#include "quarry/description.h"
#include "quarry/pipeline_options.h"
#include "writer/distribution/aggregation.h"
#include "writer/distribution/placement.h"
#include "writer/pipeline/earlier_patches.h"
#include "writer/pipeline/field_source.h"
#include "writer/pipeline/phases.h"
#include "writer/pipeline/publish.h"

namespace quarry::writer {

/// The result of writing one field of one step.
struct FieldOutcome {
  FieldStepDescription description;
  std::uint64_t new_mask_bytes = 0;  ///< 0 if the mask already existed
  /// Bytes of each patch, by patch index, on rank 0: see KeepPatchSizes.
  std::vector<std::uint64_t> stored_bytes;
  /// Samples that make the range all the same, of a field with a tolerance relative to it. On rank 0.
  std::optional<OutlyingSamples> outlying;
};

/// Subfiles per field and step: as asked for, or one for every 8 ranks; never more than patches.
std::size_t ChooseFileCount(std::optional<int> wanted, const PatchGrid& grid, int ranks);

/// Tolerances for the coder of a field, one for each layer: absolute ones, or one that is relative (see
/// CoderTraits::bound_is_relative).
/// @param min, max  of the valid samples; min above max if there are none
std::vector<double> CoderTolerances(const FieldDescription& field, double min, double max);

/// The refusal of a tolerance relative to a range that few outlying samples make.
/// @param source  for the message
Status OutlyingRefusal(const OutlyingSamples& outlying, const std::string& field, const std::string& source,
                       const RangeWords& words = {});

/// A dataset that the ranks of a communicator write, step by step: for each field exchange, encode, assign,
/// transfer, write; then publish. The bytes do not depend on the number of ranks.
///
/// All calls are collective and return the same Status on every rank. An error discards the step being
/// written; published steps stay as they are. One caller at a time.
/// @source Fan et al., Load-balancing Parallel I/O of Compressed Hierarchical Layouts, section IV
class DatasetWriter {
 public:
  /// Takes the writing lock, and removes what an interrupted run left behind.
  /// @param comm  owned by the caller; must outlive the writer
  static Result<std::unique_ptr<DatasetWriter>> Open(MPI_Comm comm, const std::string& path, OpenMode mode,
                                                     const PipelineOptions& options);
  /// The same at a place that the caller has found on every rank.
  static Result<std::unique_ptr<DatasetWriter>> Open(MPI_Comm comm, const WritableLocation& place,
                                                     OpenMode mode, const PipelineOptions& options);

  /// The description of a dataset that already existed.
  const std::optional<DatasetDescription>& existing() const { return existing_; }
  /// The published fields of a step; nothing if there is no such step.
  Result<PublishedStep> Published(std::uint64_t step);
  /// The last step that has a field; nothing if none has.
  Result<std::optional<std::uint64_t>> LastStep(const std::string& field);
  /// Whether a step has a field.
  Result<bool> Holds(const std::string& field);

  /// The unit of the dataset's times when times in `here` are written: see ContinueTimeUnit.
  Result<TimeUnit> ChooseTimeUnit(const TimeUnit& here);

  /// Sets the description of the dataset: before the first step, and again when fields are added.
  Status Declare(const DatasetDescription& dataset);
  const DatasetDescription& dataset() const { return dataset_; }
  /// How the fields on a grid are written.
  struct GridPlan {
    PatchGrid patches;
    std::size_t files = 1;  ///< for each field and step
  };
  const GridPlan& PlanOf(const FieldDescription& field) const { return grids_[field.grid]; }

  /// Before the first step: the steps that will be written, in their order, with those to which each refers
  /// where fields have keyframes. Others refer to the step before.
  using StepPlan = std::vector<std::pair<std::uint64_t, std::vector<std::uint64_t>>>;
  void PlanReferences(StepPlan plan) { plan_ = std::move(plan); }

  /// Whether outcomes have the stored bytes of every patch, which are gathered on rank 0; the same on every
  /// rank.
  void KeepPatchSizes(bool keep) { keep_patch_sizes_ = keep; }

  /// Writes one field of a step, which becomes visible with PublishStep.
  /// @param field   position in dataset().fields
  /// @param source_name  for step.json
  /// @returns       complete on rank 0
  Result<FieldOutcome> WriteField(std::uint64_t step, std::size_t field, const std::string& source_name,
                                  FieldSource* source);
  /// Publishes the fields that were written since the last step. @errors see Publisher::PublishStep
  Status PublishStep(std::uint64_t step, std::optional<double> time);
  /// Warnings for the user about the steps that were published since the last call. Not collective; rank 0
  /// has them.
  std::vector<std::string> TakeWarnings() { return std::exchange(warnings_, {}); }
  /// Removes the unpublished files.
  void Abandon();

  /// Seconds of this rank.
  const PhaseSeconds& seconds() const { return seconds_; }
  PhaseSeconds* mutable_seconds() { return &seconds_; }
  /// Patches that each rank encoded in the last field.
  const std::vector<std::int64_t>& patches_per_rank() const { return patches_per_rank_; }

 private:
  class FieldRun;

  DatasetWriter(MPI_Comm comm, const PipelineOptions& options);

  bool root() const { return rank_ == 0; }
  Result<FieldOutcome> StageField(std::uint64_t step, std::size_t number, const std::string& source_name,
                                  FieldSource* source);
  /// The patches to which those of a field may refer; null: it has no keyframes.
  Result<EarlierPatches*> BeginEarlier(std::uint64_t step, std::size_t number);

  MPI_Comm comm_;
  PipelineOptions options_;
  const int rank_;
  const int ranks_;
  int threads_ = 1;
  WritableLocation place_;
  std::unique_ptr<Publisher> publisher_;  ///< on rank 0
  std::vector<std::string> warnings_;     ///< on rank 0
  std::optional<StepNumbers> published_;  ///< on rank 0
  std::optional<DatasetDescription> existing_;
  DatasetDescription dataset_;
  std::vector<GridPlan> grids_;
  std::uint64_t exchanges_ = 0;  ///< see RankSetting
  bool keep_patch_sizes_ = false;
  std::vector<FieldStepDescription> written_;  ///< fields of the step that is being written; on rank 0
  PhaseSeconds seconds_{};
  std::vector<std::int64_t> patches_per_rank_;
  StepPlan plan_;
  std::map<std::size_t, EarlierPatches> earlier_;  ///< earlier patches of the fields that have keyframes
};

}  // namespace quarry::writer
