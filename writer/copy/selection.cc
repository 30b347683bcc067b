#include "writer/copy/selection.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "quarry/format/invariants.h"
#include "quarry/format/manifest.h"
#include "writer/upkeep/dataset_files.h"

namespace quarry::writer {

Result<Selection> Selection::Make(std::shared_ptr<const Dataset> source, const CopyOptions& options) {
  Selection selection(std::move(source));
  QUARRY_RETURN_IF_ERROR(selection.ChooseFields(options.fields));
  QUARRY_RETURN_IF_ERROR(selection.ChooseSteps(options.steps));
  if (selection.all_fields_) {
    const Location manifest = selection.source_->root() / "dataset.json";
    QUARRY_ASSIGN_OR_RETURN(selection.text_, manifest.ReadText(format::kManifestLimit));
    // It may have been replaced since the dataset was opened.
    QUARRY_ASSIGN_OR_RETURN(const DatasetDescription now, format::DecodeDatasetManifest(selection.text_));
    if (format::EncodeManifest(now) != format::EncodeManifest(selection.description_))
      return Unavailable("\"{}\" was replaced just now; start the copy again", manifest);
  }
  return selection;
}

Status Selection::ChooseFields(const std::vector<std::string>& fields) {
  description_ = source_->description();
  if (fields.empty()) return Status::Ok();
  const std::set<std::string_view> wanted(fields.begin(), fields.end());
  for (const std::string& field : fields) {
    if (!description_.FindField(field))
      return NotFound("field \"{}\" is not in \"{}\"; run \"quarry info\" for those that are", field,
                      source_->root());
  }
  QUARRY_RETURN_IF_ERROR(format::CheckChosenFields(description_, wanted));
  all_fields_ = wanted.size() == description_.fields.size();
  for (std::size_t f = 0; f < description_.fields.size(); ++f)
    description_.fields[f].number = description_.NumberOf(f);
  std::erase_if(description_.fields,
                [&](const FieldDescription& field) { return !wanted.contains(field.name); });
  return format::CheckDataset(description_);
}

Status Selection::ChooseSteps(const std::optional<query::StepRange>& range) {
  for (const std::uint64_t step : source_->steps()) {
    if (!range || range->Contains(step)) steps_.push_back(step);
  }
  chosen_ = {steps_.begin(), steps_.end()};
  if (!steps_.empty() || !range) return Status::Ok();
  return NotFound("\"{}\" has no step in this range; run \"quarry info\" for those that it has",
                  source_->root());
}

Result<StepToCopy> Selection::Load(std::uint64_t number) const {
  StepToCopy copy;
  QUARRY_ASSIGN_OR_RETURN(
      copy.step, ReadStep(source_->root() / format::StepFolder(number), source_->description(), &copy.text));
  if (copy.step.step != number)
    return DataLoss("step {} of \"{}\" lies where step {} belongs", copy.step.step, source_->root(), number);
  const auto is_left = [&](const FieldStepDescription& field) { return !HasField(field.name); };
  if (std::erase_if(copy.step.fields, is_left) == 0) return copy;
  QUARRY_ASSIGN_OR_RETURN(copy.text, ManifestText(copy.step, "step.json"));
  return copy;
}

Status Selection::CheckReferences(const StepToCopy& copy, const std::set<std::uint64_t>& there) const {
  for (const FieldStepDescription& field : copy.step.fields) {
    for (const std::uint64_t other : field.references) {
      if (!chosen_.contains(other) && !there.contains(other))
        return InvalidArgument(
            "field \"{}\" of step {} refers to step {}; choose --steps with that step as well, or --fields "
            "without the field",
            field.name, copy.step.step, other);
    }
  }
  return Status::Ok();
}

Status Selection::CheckStillFields(const std::set<std::uint64_t>& there) const {
  std::vector<std::string> still;
  for (const FieldDescription& field : description_.fields) {
    if (field.still) still.push_back(field.name);
  }
  if (still.empty() || steps_.size() == source_->steps().size()) return Status::Ok();
  std::vector<std::uint64_t> left;
  for (const std::uint64_t step : source_->steps()) {
    if (!chosen_.contains(step) && !there.contains(step)) left.push_back(step);
  }
  return source_->ForEachSummary(left, [&](const StepSummary& summary) -> Status {
    for (const std::string& field : still) {
      if (summary.FindField(field) != nullptr)
        return InvalidArgument(
            "step {} has the field \"{}\", which stands for all steps; choose --steps with that step as "
            "well, "
            "or --fields without the field",
            summary.step, field);
    }
    return Status::Ok();
  });
}

}  // namespace quarry::writer
