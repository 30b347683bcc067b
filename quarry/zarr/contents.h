#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "quarry/description.h"
#include "quarry/v1/dataset.pb.h"

/// A dataset as a Zarr hierarchy: plain data and pure functions. Nothing here asks a server or a file.
namespace quarry::zarr {

/// Which view of a dataset a hierarchy shows.
struct View {
  std::vector<std::string> fields;  ///< in this order; empty: all
  std::optional<int>
      layer;             ///< layer of accuracy, 0 the roughest; left out: the last, as in fields with fewer
  bool float32 = false;  ///< shows float64 fields as float32

  friend auto operator<=>(const View&, const View&) = default;
};

/// A step that holds a field.
struct HeldStep {
  std::uint64_t step = 0;
  double time = 0;           ///< NaN: not known
  bool missing = false;      ///< some of its samples are missing
  std::uint64_t record = 0;  ///< checksum of the field's record in step.json, which has those of its files
};

/// A field, and the steps that hold it.
struct FieldContents {
  FieldDescription description;  ///< with the bound of the layer that is shown
  int layer = 0;
  bool rounded = false;  ///< float64 that is shown as float32
  std::vector<HeldStep> steps;
  std::vector<double> max_errors;  ///< errors of the stored samples at each level, the largest of all steps
  double magnitude = 0;            ///< largest of the original samples

  /// The largest error of all steps, with what rounding adds. @param level  see max_errors; the last beyond
  /// it
  double max_error(int level) const;
  /// The type of its samples in the hierarchy.
  std::string dtype() const;
};

/// Everything that a hierarchy is made from.
class Contents {
 public:
  /// @errors kNotFound: the view has a field that the dataset lacks, or a layer that all of its fields lack
  static Result<Contents> Create(DatasetDescription dataset, View view = {});

  /// Takes the steps in ascending order. Ignores fields that were declared since.
  void Add(const ::quarry::v1::StepManifest& step);

  const DatasetDescription& dataset() const { return dataset_; }
  const View& view() const { return view_; }
  /// Checksum of dataset.json and the view.
  std::uint64_t checksum() const { return checksum_; }
  const std::vector<FieldContents>& fields() const { return fields_; }
  /// The steps that hold a field which changes with time; all steps, if no field does.
  const std::vector<HeldStep>& steps() const { return steps_; }
  /// Whether fields that change have a dimension of steps. A dataset with one step needs none: viewers would
  /// open on an axis of length 1.
  bool has_step_dimension() const { return steps_.size() != 1; }
  /// [bytes] in memory, about, with the documents that are made from it.
  std::uint64_t bytes() const;

 private:
  Contents(DatasetDescription dataset, View view);

  DatasetDescription dataset_;
  View view_;
  std::uint64_t checksum_ = 0;
  std::vector<FieldContents> fields_;
  std::vector<HeldStep> steps_;
  std::uint64_t text_bytes_ = 0;  ///< in memory, of the texts and of their chunks
};

/// Levels of the grid that has the most.
int LevelsOf(const DatasetDescription& dataset);

bool HasTimes(const std::vector<HeldStep>& steps);

}  // namespace quarry::zarr
