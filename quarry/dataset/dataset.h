#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "quarry/dataset/catalogue.h"
#include "quarry/dataset/coarse_steps.h"
#include "quarry/dataset/metadata_cache.h"
#include "quarry/dataset/step_listing.h"
#include "quarry/dataset/step_manifests.h"
#include "quarry/dataset/table_locator.h"
#include "quarry/description.h"
#include "quarry/query/points.h"
#include "quarry/query/read_plan.h"
#include "quarry/storage/location.h"

namespace quarry {

/// A dataset, open for reading. Published steps never change, so whatever is read may be kept, and read
/// again. Thread-safe.
class Dataset : public std::enable_shared_from_this<Dataset> {
 public:
  /// Reads dataset.json and lists the steps.
  /// @param store  keeps the manifests of steps and the tables, as far as there is room; left out: a small
  /// one of the dataset's own
  /// @param cancelled  asked while a large dataset.json is read; left out: never
  /// @errors kNotFound: no such dataset; kDataLoss: dataset.json is damaged; kCancelled
  static Result<std::shared_ptr<const Dataset>> Open(const Location& root,
                                                     std::shared_ptr<PatchStore> store = nullptr,
                                                     const std::function<bool()>& cancelled = {});

  /// The file or folder whose stamp differs when steps were published.
  /// @param opened  the same dataset, as it was; null: it was not opened yet
  static Location StepsAt(const Location& root, const Dataset* opened);

  const Location& root() const { return root_; }
  /// Identity of the directory, as of Open.
  std::string identity() const;
  const DatasetDescription& description() const { return description_; }
  /// Published steps in ascending order, as of Open.
  const std::vector<std::uint64_t>& steps() const { return steps_; }

  /// A field of a step, from the store or the storage; null if the step does not have it. Reads no more of a
  /// step.json in sections than it needs.
  /// @errors kNotFound: no such step; kDataLoss
  Result<std::shared_ptr<const FieldStepDescription>> FieldOf(std::uint64_t step,
                                                              const std::string& field) const;
  /// All of step.json. @errors as FieldOf
  Result<std::shared_ptr<const StepDescription>> Step(std::uint64_t step) const;
  /// The same from the storage, not kept: for callers that look at each step once.
  Result<StepDescription> LoadStep(std::uint64_t step) const;

  /// A step without its files, from the catalogue, or from step.json where that has no record that can be
  /// trusted: for lists of steps.
  /// @param hold  speeds up questions for steps that follow each other, of one caller at a time
  /// @errors as Step
  Result<StepSummary> Summary(std::uint64_t step, Catalogue::Hold* hold) const;

  /// The same of several steps, whose step.json files are read together where that is faster.
  std::vector<Result<StepSummary>> Summaries(std::span<const std::uint64_t> steps,
                                             Catalogue::Hold* hold) const;
  /// So many are worth asking for at a time: one, where calls are not made together anyway.
  std::size_t summaries_at_once() const;
  /// Shows the summaries of steps to a function, in their order, until it returns an error.
  /// @errors of Summary; that of the function
  Status ForEachSummary(std::span<const std::uint64_t> steps,
                        const std::function<Status(StepSummary)>& look) const;

  const Catalogue& catalogue() const { return catalogue_; }
  /// The record that the catalogue should have of a step, from step.json. @errors as Step
  Result<format::StepRecord> LoadRecord(std::uint64_t step) const;

  /// True when a question has found the step.json of its step replaced since it was read, or got no answer
  /// about the catalogue. This dataset goes on with what it has read; the next one that is opened has the
  /// new.
  bool outdated() const { return manifests_.outdated() || catalogue_.unanswered(); }

  /// Finds patches in the subfiles' own tables.
  const TableLocator& tables() const { return *tables_; }

  /// One answer of a series: which field of which step.
  struct Subject {
    std::size_t field_number = 0;
    std::optional<std::uint64_t> step;
  };
  /// The number of a field in the description. @param name  empty: the only field
  /// @errors kNotFound: no such field; kInvalidArgument: no name, and several fields
  Result<std::size_t> FieldNumber(const std::string& name) const;

  /// The answers to a request for several fields or steps, in their order. Small: the questions are made one
  /// by one.
  /// @errors kNotFound: no such field, or no step that has it; kInvalidArgument: see CheckSeries, or more
  /// than kMaxAnswers
  Result<std::vector<Subject>> Expand(const query::SeriesRequest& request) const;

  /// Checks a question against the dataset, and finds the step and its mask.
  /// @errors kNotFound: no such field or step; kInvalidArgument: box, level or max_error out of range
  Result<query::Query> Resolve(const query::ReadRequest& request) const;
  /// The same for points. @errors besides: see CheckPoints
  Result<query::Query> Resolve(const query::PointsRequest& request) const;

  /// Plans a question, within query::PlanningMemory.
  /// @param locator  where to find patches; null: the subfiles' own tables
  /// @errors kNotFound: no level within max_error or max_bytes; those of MakePlan
  Result<query::ReadPlan> Plan(const query::Query& query, const query::PatchLocator* locator = nullptr) const;
  Result<query::ReadPlan> Plan(const query::ReadRequest& request,
                               const query::PatchLocator* locator = nullptr) const;
  /// Finds the patches of a run again, and plans them. @errors those of query::PlanRun
  Result<query::ReadPlan> PlanRun(const query::ReadPlan& plan, const query::PatchRun& run,
                                  const query::PatchLocator* locator = nullptr) const;

  /// Shows a plan to a function, or each of its runs in their order, planned again. An error ends it.
  /// @errors those of PlanRun and `look`; kCancelled
  Status ForEachRun(const query::ReadPlan& plan, const query::PatchLocator* locator,
                    const std::function<bool()>& cancelled,
                    const std::function<Status(const query::ReadPlan&)>& look) const;

  /// Plans points. @param query  resolved from the request
  Result<query::PointsPlan> PlanPoints(const query::PointsRequest& request, query::Query query,
                                       const query::PatchLocator* locator = nullptr,
                                       const query::InTurn& in_turn = query::AtOnce) const;

  /// The coarse objects of the steps; null where reading costs no wait, or no step has one.
  const CoarseSteps* coarse() const { return coarse_.get(); }

 private:
  Dataset(Location root, std::string identity, DatasetDescription description, StepListing listing,
          std::shared_ptr<PatchStore> store, std::shared_ptr<const CoarseSteps> coarse);

  Result<query::Query> ResolveAlone(const query::ReadRequest& request) const;
  void LoadWithCoarse(const query::ReadRequest& request) const;
  void LoadCoarse(std::uint64_t step) const;
  Status CheckStep(std::uint64_t step) const;
  /// The steps to which one refers, directly.
  Result<std::vector<query::ReferenceStep>> ReferencesOf(std::uint64_t number,
                                                         const std::string& field) const;
  Result<std::uint64_t> ResolveStep(std::size_t field, std::optional<std::uint64_t> asked) const;

  const Location root_;
  const std::shared_ptr<const CoarseSteps> coarse_;
  mutable std::once_flag identity_known_;
  mutable std::string identity_;  ///< empty: not asked for yet
  const DatasetDescription description_;
  const std::vector<std::uint64_t> steps_;
  const MetadataCache metadata_;
  const StepManifests manifests_;
  const bool publishes_by_head_;
  const Catalogue catalogue_;
  std::unique_ptr<const TableLocator> tables_;
};

/// Numbers of the published steps below `root`/steps, ascending. Names other than plain numbers are not
/// steps.
Result<std::vector<std::uint64_t>> ListSteps(const Location& root);

}  // namespace quarry
