#include "quarry/dataset/dataset.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "quarry/format/manifest.h"

namespace quarry {

namespace fs = std::filesystem;

namespace {

/// "u, v, w", or the first of very many.
std::string FieldNames(const std::vector<FieldDescription>& fields) {
  constexpr std::size_t kMost = 20;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min(fields.size(), kMost); ++i) names.push_back(fields[i].name);
  if (fields.size() > kMost) names.push_back(fmt::format("and {} more", fields.size() - kMost));
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

bool IsDataset(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path / "dataset.json", ignored);
}

Result<std::vector<std::uint64_t>> ListSteps(const fs::path& root) {
  std::vector<std::uint64_t> steps;
  std::error_code error;
  for (fs::directory_iterator it(root / "steps", error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    std::uint64_t step = 0;
    const auto [stop, parse_error] = std::from_chars(name.data(), name.data() + name.size(), step);
    const bool number = parse_error == std::errc() && stop == name.data() + name.size();
    if (number && format::StepFolder(step) == "steps/" + name) steps.push_back(step);
  }
  if (error) return DataLoss("cannot list \"{}\": {}", (root / "steps").string(), error.message());
  std::sort(steps.begin(), steps.end());
  return steps;
}

Result<std::shared_ptr<const Dataset>> Dataset::Open(const fs::path& root) {
  std::error_code ignored;
  if (!fs::is_directory(root, ignored)) {
    return NotFound("there is no dataset \"{}\"; give the path of a NAME.quarry directory", root.string());
  }
  const fs::path path = root / "dataset.json";
  // What may not be looked at is not missing.
  if (std::error_code error; fs::status(path, error).type() == fs::file_type::none &&
                             error == std::errc::permission_denied)
    return ErrnoStatus(EACCES, "open", path.string());
  if (!IsDataset(root)) {
    // Steps without their dataset.json are a damaged dataset; any other directory is simply none.
    if (fs::is_directory(root / "steps", ignored))
      return DataLoss("\"{}\" is missing; the dataset is damaged", path.string());
    return NotFound("\"{}\" is not a dataset: it has no dataset.json", root.string());
  }
  QUARRY_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, format::kManifestLimit));
  Result<DatasetDescription> description = format::DecodeDatasetManifest(text);
  if (!description.ok())
    return std::move(description).status().Annotate(fmt::format("\"{}\"", path.string()));
  QUARRY_ASSIGN_OR_RETURN(std::vector<std::uint64_t> steps, ListSteps(root));
  return std::shared_ptr<const Dataset>(new Dataset(root, *std::move(description), std::move(steps)));
}

Dataset::Dataset(fs::path root, DatasetDescription description, std::vector<std::uint64_t> steps)
    : root_(std::move(root)), description_(std::move(description)), steps_(std::move(steps)) {
  tables_ =
      std::make_unique<TableCatalog>(root_, description_, [this](std::uint64_t step) { return Step(step); });
}

Result<std::shared_ptr<const StepDescription>> Dataset::Step(std::uint64_t step) const {
  const std::lock_guard lock(mutex_);
  if (const auto hit = loaded_steps_.find(step); hit != loaded_steps_.end()) return hit->second;
  QUARRY_ASSIGN_OR_RETURN(StepDescription description, LoadStep(step));
  return loaded_steps_[step] = std::make_shared<const StepDescription>(std::move(description));
}

Result<StepDescription> Dataset::LoadStep(std::uint64_t step) const {
  if (!std::binary_search(steps_.begin(), steps_.end(), step)) {
    return NotFound("step {} is not in \"{}\"; run \"quarry info\" for the {} steps that are", step,
                    root_.string(), steps_.size());
  }
  const fs::path path = root_ / format::StepFolder(step) / "step.json";
  Result<std::string> text = ReadTextFile(path, format::kManifestLimit);
  if (!text.ok() && text.status().code() == StatusCode::kNotFound)
    return DataLoss("\"{}\" is missing; the step is damaged", path.string());
  if (!text.ok()) return std::move(text).status();
  Result<StepDescription> description = format::DecodeStepManifest(*text, description_.grid);
  if (!description.ok())
    return std::move(description).status().Annotate(fmt::format("\"{}\"", path.string()));
  if (description->step != step)
    return DataLoss("\"{}\" describes step {}; it was moved here", path.string(), description->step);
  for (const FieldStepDescription& field : description->fields) {
    if (field.levels.size() != static_cast<std::size_t>(description_.levels)) {
      return DataLoss("\"{}\" records {} levels of field \"{}\" instead of {}", path.string(),
                      field.levels.size(), field.name, description_.levels);
    }
  }
  return description;
}

Result<std::uint64_t> Dataset::ResolveStep(const query::ReadRequest& request) const {
  if (request.step) {
    QUARRY_ASSIGN_OR_RETURN(const auto step, Step(*request.step));
    if (step->FindField(request.field) != nullptr) return *request.step;
    return NotFound("field \"{}\" is not in step {} of \"{}\"; choose another step", request.field,
                    *request.step, root_.string());
  }
  for (const std::uint64_t candidate : steps_) {
    QUARRY_ASSIGN_OR_RETURN(const auto step, Step(candidate));
    if (step->FindField(request.field) != nullptr) return candidate;
  }
  return NotFound("no step of \"{}\" has the field \"{}\" yet", root_.string(), request.field);
}

Status Dataset::NoField(const std::string& name) const {
  return NotFound("field \"{}\" is not in \"{}\"; it has: {}", name, root_.string(),
                  FieldNames(description_.fields));
}

Result<query::Query> Dataset::Resolve(const query::ReadRequest& request) const {
  const std::optional<std::size_t> field = description_.FindField(request.field);
  if (!field) return NoField(request.field);
  query::Query query;
  query.field_number = *field;
  const Index3& dims = description_.grid.dims;
  query.box = request.box.value_or(Box{{0, 0, 0}, dims});
  QUARRY_RETURN_IF_ERROR(CheckBox(query.box, dims));
  query.level = request.level;
  query.first_level = request.first_level.value_or(query.level);
  query.max_error = request.max_error;
  query.max_bytes = request.max_bytes;
  query.stride = request.stride;
  query.focus = request.focus;
  query.values = request.values;
  query.strict = request.strict;
  QUARRY_RETURN_IF_ERROR(query::CheckLevels(request, description_.levels));
  QUARRY_ASSIGN_OR_RETURN(query.step, ResolveStep(request));
  QUARRY_ASSIGN_OR_RETURN(const auto step, Step(query.step));
  query.mask = step->FindField(request.field)->mask_name();
  return query;
}

Result<std::vector<query::ReadRequest>> Dataset::Expand(const query::SeriesRequest& request) const {
  QUARRY_RETURN_IF_ERROR(query::CheckSeries(request));
  if (request.single()) return std::vector{request.read};
  const std::vector<std::string> fields =
      request.fields.empty() ? std::vector{request.read.field} : request.fields;
  for (const std::string& field : fields) {
    if (!description_.FindField(field)) return NoField(field);
  }
  std::vector<query::ReadRequest> questions;
  const auto ask = [&](const std::string& field, std::optional<std::uint64_t> step) {
    questions.push_back(request.read);
    questions.back().field = field;
    questions.back().step = step;
  };
  if (!request.steps) {
    for (const std::string& field : fields) ask(field, request.read.step);
    return questions;
  }
  for (const std::uint64_t number : steps_) {
    if (!request.steps->Contains(number)) continue;
    QUARRY_ASSIGN_OR_RETURN(const auto step, Step(number));
    for (const std::string& field : fields) {
      if (step->FindField(field) != nullptr) ask(field, number);
    }
    if (questions.size() > query::kMaxAnswers) {
      return InvalidArgument("more than {} answers are asked for; ask for fewer steps or fields at a time",
                             query::kMaxAnswers);
    }
  }
  if (!questions.empty()) return questions;
  return NotFound(
      "no step of those asked for is in \"{}\" and has the field; run \"quarry info\" for those that are",
      root_.string());
}

Result<query::ReadPlan> Dataset::Plan(const query::ReadRequest& request,
                                      const query::PatchCatalog* catalog) const {
  QUARRY_ASSIGN_OR_RETURN(const query::Query query, Resolve(request));
  return query::MakePlan(description_, catalog != nullptr ? *catalog : *tables_, query);
}

Result<query::PointsPlan> Dataset::PlanPoints(const query::PointsRequest& request,
                                              const query::PatchCatalog* catalog) const {
  query::ReadRequest read;
  read.field = request.field;
  read.step = request.step;
  read.strict = true;  // the error of the answer would not hold
  QUARRY_ASSIGN_OR_RETURN(query::Query query, Resolve(read));
  QUARRY_ASSIGN_OR_RETURN(const PatchGrid grid,
                          PatchGrid::Create(description_.grid.dims, description_.patch));
  QUARRY_ASSIGN_OR_RETURN(auto interpolator, query::PointInterpolator::Create(grid, request.points));
  query.box = interpolator.box();
  query.only_patches = interpolator.patches();
  QUARRY_ASSIGN_OR_RETURN(query::ReadPlan plan,
                          query::MakePlan(description_, catalog != nullptr ? *catalog : *tables_, query));
  plan.price.reply_bytes = request.points.size() * sizeof(double);
  return query::PointsPlan{std::move(plan), std::move(interpolator), request.price_only};
}

}  // namespace quarry
