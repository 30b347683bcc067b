#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "quarry/dataset/table_catalog.h"
#include "quarry/format/description.h"
#include "quarry/query/plan.h"
#include "quarry/query/points.h"

namespace quarry {

/// A dataset directory, open for reading. Published steps never change, so that everything read once may be
/// kept. Thread-safe.
class Dataset : public std::enable_shared_from_this<Dataset> {
 public:
  /// Reads dataset.json and lists the steps. @errors kNotFound: no such dataset; kDataLoss: dataset.json is
  /// damaged
  static Result<std::shared_ptr<const Dataset>> Open(const std::filesystem::path& root);

  const std::filesystem::path& root() const { return root_; }
  const DatasetDescription& description() const { return description_; }
  /// Published steps in ascending order, as of Open.
  const std::vector<std::uint64_t>& steps() const { return steps_; }

  /// step.json of one step, read when first asked for. @errors kNotFound, kDataLoss
  Result<std::shared_ptr<const StepDescription>> Step(std::uint64_t step) const;
  /// The same from disk, and not kept: for those who look at each step once.
  Result<StepDescription> LoadStep(std::uint64_t step) const;

  /// The catalogue over the subfiles' own tables.
  const TableCatalog& tables() const { return *tables_; }

  /// The questions that a request consists of, in the order of their answers.
  /// @errors kNotFound: no such field, or no step that has it; kInvalidArgument: see CheckSeries, or more than
  /// kMaxAnswers
  Result<std::vector<query::ReadRequest>> Expand(const query::SeriesRequest& request) const;

  /// Checks a question against the dataset and plans it.
  /// @param catalog  where to find patches; null: the subfiles' own tables
  /// @errors kNotFound: no such field or step, or no level within max_error or max_bytes; kInvalidArgument:
  /// box, level or max_error out of range; those of MakePlan
  Result<query::ReadPlan> Plan(const query::ReadRequest& request,
                               const query::PatchCatalog* catalog = nullptr) const;

  /// The same for points. @errors kNotFound: no such field or step; kInvalidArgument: see PointInterpolator
  Result<query::PointsPlan> PlanPoints(const query::PointsRequest& request,
                                       const query::PatchCatalog* catalog = nullptr) const;

 private:
  Dataset(std::filesystem::path root, DatasetDescription description, std::vector<std::uint64_t> steps);

  Status NoField(const std::string& name) const;
  Result<query::Query> Resolve(const query::ReadRequest& request) const;
  Result<std::uint64_t> ResolveStep(const query::ReadRequest& request) const;

  const std::filesystem::path root_;
  const DatasetDescription description_;
  const std::vector<std::uint64_t> steps_;
  std::unique_ptr<const TableCatalog> tables_;
  mutable std::mutex mutex_;
  mutable std::map<std::uint64_t, std::shared_ptr<const StepDescription>> loaded_steps_;
};

/// Numbers of the published steps below `root`/steps, ascending. Anything that is not a plain number is no
/// step.
Result<std::vector<std::uint64_t>> ListSteps(const std::filesystem::path& root);

/// True for a directory that holds a dataset.json.
bool IsDataset(const std::filesystem::path& path);

}  // namespace quarry
