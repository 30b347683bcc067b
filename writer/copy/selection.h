#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "quarry/dataset/dataset.h"
#include "writer/copy/copy.h"

namespace quarry::writer {

/// A step as it will be in the target.
struct StepToCopy {
  StepDescription step;
  std::string text;  ///< text of step.json
};

/// The steps and fields of a dataset that are copied.
class Selection {
 public:
  /// @errors kNotFound: no such field, or no step in the range; kInvalidArgument: a field that was not chosen
  /// is needed
  static Result<Selection> Make(std::shared_ptr<const Dataset> source, const CopyOptions& options);

  const Dataset& source() const { return *source_; }
  /// Published steps in the range. Some may have none of the fields.
  const std::vector<std::uint64_t>& steps() const { return steps_; }
  bool all_fields() const { return all_fields_; }
  /// dataset.json of the source with the chosen fields, which keep their numbers.
  const DatasetDescription& description() const { return description_; }

  /// The text of dataset.json, if all fields are chosen; otherwise empty.
  const std::string& text() const { return text_; }

  /// A step with the chosen fields; with none, it is not copied. @errors kDataLoss
  Result<StepToCopy> Load(std::uint64_t step) const;

  /// Whether all that the chosen steps refer to is chosen as well, or in the target.
  /// @param there  steps of the target
  /// @errors kInvalidArgument, with what to choose
  Status CheckReferences(const StepToCopy& step, const std::set<std::uint64_t>& there) const;
  /// The same for fields that one step has for all of them. @errors besides: those of reading a summary
  Status CheckStillFields(const std::set<std::uint64_t>& there) const;

 private:
  explicit Selection(std::shared_ptr<const Dataset> source) : source_(std::move(source)) {}

  bool HasField(const std::string& name) const { return description_.FindField(name).has_value(); }
  Status ChooseFields(const std::vector<std::string>& fields);
  Status ChooseSteps(const std::optional<query::StepRange>& range);

  std::shared_ptr<const Dataset> source_;
  DatasetDescription description_;
  std::string text_;
  std::vector<std::uint64_t> steps_;
  std::set<std::uint64_t> chosen_;
  bool all_fields_ = true;
};

}  // namespace quarry::writer
