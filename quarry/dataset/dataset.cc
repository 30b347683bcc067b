#include "quarry/dataset/dataset.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "quarry/format/description_rules.h"
#include "quarry/format/dimension_names.h"
#include "quarry/format/manifest.h"
#include "quarry/pack/packed_steps.h"
#include "quarry/query/make_plan.h"
#include "quarry/query/question_rules.h"

namespace quarry {

namespace {

/// "u, v, w", or the first of very many.
std::string FieldNames(const std::vector<FieldDescription>& fields) {
  constexpr std::size_t kMost = 20;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min(fields.size(), kMost); ++i) names.push_back(fields[i].name);
  if (fields.size() > kMost) names.push_back(fmt::format("and {} more", fields.size() - kMost));
  return fmt::format("{}", fmt::join(names, ", "));
}

/// Memory of a dataset that is opened without a store.
constexpr std::uint64_t kOwnStoreBytes = 128 << 20;

/// [bytes] to read and parse a manifest: its text, the messages and the structs that it becomes.
std::uint64_t ParsingMemory(const Result<ObjectInfo>& manifest) {
  constexpr std::uint64_t kTimesText = 6;
  return manifest.ok() ? kTimesText * manifest->size : 0;  // without a file: reading it gives the reason
}

Location StepManifest(const Location& root, std::uint64_t step) {
  return root / format::StepFolder(step) / "step.json";
}

bool IsFolder(const Location& location) {
  const Result<ObjectInfo> info = location.Stat();
  return info.ok() && info->kind == ObjectKind::kFolder;
}

}  // namespace

/// Contents of the folder "steps".
struct Dataset::Listing {
  std::vector<std::uint64_t> steps;
  bool catalogue_is_current = false;
};

Result<Dataset::Listing> Dataset::List(const Location& root) {
  const Result<std::vector<FolderEntry>> entries = (root / "steps").List();
  if (entries.status().code() == StatusCode::kNotFound)
    return Status(StatusCode::kDataLoss, entries.status().message());
  if (entries.status().code() == StatusCode::kDataLoss) return entries.status();
  if (!entries.ok()) return Status(StatusCode::kInternal, entries.status().message());
  Listing listing;
  for (const FolderEntry& entry : *entries) {
    if (const std::optional<std::uint64_t> step = format::StepOfFolder(entry.name)) {
      listing.steps.push_back(*step);
    } else if (entry.name == format::kCurrentFile) {
      listing.catalogue_is_current = true;
    }
  }
  std::sort(listing.steps.begin(), listing.steps.end());
  return listing;
}

Result<std::vector<std::uint64_t>> ListSteps(const Location& root) {
  QUARRY_ASSIGN_OR_RETURN(Dataset::Listing listing, Dataset::List(WithPacks(root)));
  return std::move(listing.steps);
}

Result<std::shared_ptr<const Dataset>> Dataset::Open(const Location& given, std::shared_ptr<PatchStore> store,
                                                     const std::function<bool()>& cancelled) {
  const Location root = WithPacks(given);
  const Result<ObjectInfo> folder = root.Stat();
  if (!folder.ok() && folder.status().code() != StatusCode::kNotFound) return folder.status();
  if (!folder.ok() || folder->kind != ObjectKind::kFolder)
    return NotFound("there is no dataset \"{}\"; give the path of a NAME.quarry directory", root);
  const Location path = root / "dataset.json";
  const Result<ObjectInfo> manifest = path.Stat();
  // An unreadable manifest is not missing: reading it gives the reason.
  const bool missing =
      manifest.ok() ? manifest->kind != ObjectKind::kFile : manifest.status().code() == StatusCode::kNotFound;
  if (missing) {
    // Steps without their dataset.json are a damaged dataset; any other directory is no dataset.
    if (IsFolder(root / "steps")) return DataLoss("\"{}\" is missing; the dataset is damaged", path);
    return NotFound("\"{}\" is not a dataset: it has no dataset.json", root);
  }
  if (!store) store = std::make_shared<PatchStore>(kOwnStoreBytes);
  const MetadataCache metadata(store);
  QUARRY_ASSIGN_OR_RETURN(const PatchStore::Memory memory, metadata.Reserve(ParsingMemory(manifest)));
  QUARRY_ASSIGN_OR_RETURN(const std::string text, path.ReadText(format::kManifestLimit));
  QUARRY_ASSIGN_OR_RETURN(
      DatasetDescription description,
      format::DecodeDatasetManifest(text, cancelled).Annotate(fmt::format("\"{}\"", path)));
  QUARRY_ASSIGN_OR_RETURN(Listing listing, List(root));
  return std::shared_ptr<const Dataset>(
      new Dataset(root, std::move(description), std::move(listing), std::move(store)));
}

/// The head is read after the steps are listed: a change between the two makes its records newer than the
/// list, never older.
Dataset::Dataset(Location root, DatasetDescription description, Listing listing,
                 std::shared_ptr<PatchStore> store)
    : root_(std::move(root)),
      description_(std::move(description)),
      steps_(std::move(listing.steps)),
      metadata_(std::move(store)),
      catalogue_(root_, description_, listing.catalogue_is_current, &metadata_) {
  tables_ = std::make_unique<TableLocator>(
      root_, description_, [this](std::uint64_t step) { return Step(step); }, &metadata_);
}

Result<std::shared_ptr<const StepDescription>> Dataset::Step(std::uint64_t step) const {
  QUARRY_RETURN_IF_ERROR(CheckStep(step));
  MetadataCache::Key key;
  key.step = step;
  const auto bytes = [&] { return ParsingMemory(StepManifest(root_, step).Stat()); };
  return metadata_.Obtain<StepDescription>(key, bytes, [&] {
    RememberStamp(step);
    std::string text;
    return ReadStep(step, &text);
  });
}

/// A step that had to make room and is read again may have been replaced since.
void Dataset::RememberStamp(std::uint64_t step) const {
  const Stamp stamp = StampOf(StepManifest(root_, step));
  const std::lock_guard lock(mutex_);
  const auto [known, first] = stamps_.try_emplace(step, stamp);
  if (!first && known->second != stamp) outdated_ = true;
}

void Dataset::LookForReplacement(std::uint64_t step) const {
  Stamp read;
  {
    const std::lock_guard lock(mutex_);
    const auto known = stamps_.find(step);
    if (known == stamps_.end()) return;
    read = known->second;
  }
  if (StampOf(StepManifest(root_, step)) != read) outdated_ = true;
}

Status Dataset::CheckStep(std::uint64_t step) const {
  if (std::binary_search(steps_.begin(), steps_.end(), step)) return Status::Ok();
  return NotFound("step {} is not in \"{}\"; run \"quarry info\" for the {} steps that are", step, root_,
                  steps_.size());
}

Result<StepDescription> Dataset::LoadStep(std::uint64_t step) const {
  QUARRY_RETURN_IF_ERROR(CheckStep(step));
  const std::uint64_t bytes = ParsingMemory(StepManifest(root_, step).Stat());
  QUARRY_ASSIGN_OR_RETURN(const PatchStore::Memory memory, metadata_.Reserve(bytes));
  std::string text;
  return ReadStep(step, &text);
}

Result<StepSummary> Dataset::Summary(std::uint64_t step, Catalogue::Hold* hold) const {
  QUARRY_RETURN_IF_ERROR(CheckStep(step));
  if (std::optional<StepSummary> found = catalogue_.Find(step, hold)) return *std::move(found);
  QUARRY_ASSIGN_OR_RETURN(format::StepRecord record, LoadRecord(step));
  return std::move(record.summary);
}

Result<format::StepRecord> Dataset::LoadRecord(std::uint64_t step) const {
  const std::uint64_t bytes = ParsingMemory(StepManifest(root_, step).Stat());
  QUARRY_ASSIGN_OR_RETURN(const PatchStore::Memory memory, metadata_.Reserve(bytes));
  std::string text;
  QUARRY_ASSIGN_OR_RETURN(const StepDescription description, ReadStep(step, &text));
  return format::RecordOf(description, text);
}

Result<StepDescription> Dataset::ReadStep(std::uint64_t step, std::string* text) const {
  const Location path = StepManifest(root_, step);
  Result<std::string> read = path.ReadText(format::kManifestLimit);
  if (!read.ok()) return StatusOfPart(std::move(read).status(), path, "; the step is damaged");
  *text = *std::move(read);
  QUARRY_ASSIGN_OR_RETURN(
      StepDescription description,
      format::DecodeStepManifest(*text, description_).Annotate(fmt::format("\"{}\"", path)));
  if (description.step != step)
    return DataLoss("\"{}\" describes step {}; it was moved here", path, description.step);
  return description;
}

Result<std::uint64_t> Dataset::ResolveStep(std::size_t field, std::optional<std::uint64_t> asked) const {
  const std::string& name = description_.fields[field].name;
  if (asked) {
    QUARRY_ASSIGN_OR_RETURN(const auto step, Step(*asked));
    if (step->FindField(name) != nullptr) return *asked;
    if (!description_.fields[field].still)
      return NotFound("field \"{}\" is not in step {} of \"{}\"; choose another step", name, *asked, root_);
  }
  // Most fields are in the first step, which is looked at next.
  if (!steps_.empty()) {
    QUARRY_ASSIGN_OR_RETURN(const auto step, Step(steps_.front()));
    if (step->FindField(name) != nullptr) return steps_.front();
  }
  Catalogue::Hold hold;
  for (const std::uint64_t candidate : steps_) {
    QUARRY_ASSIGN_OR_RETURN(const StepSummary step, Summary(candidate, &hold));
    if (step.FindField(name) != nullptr) return candidate;
  }
  return NotFound("no step of \"{}\" has the field \"{}\" yet", root_, name);
}

Result<std::size_t> Dataset::FieldNumber(const std::string& name) const {
  const std::vector<FieldDescription>& fields = description_.fields;
  if (name.empty() && fields.size() == 1) return std::size_t{0};
  if (name.empty())
    return InvalidArgument("\"{}\" has {} fields; name one of them: {}", root_, fields.size(),
                           FieldNames(fields));
  if (const std::optional<std::size_t> number = description_.FindField(name)) return *number;
  return NotFound("field \"{}\" is not in \"{}\"; it has: {}", name, root_, FieldNames(fields));
}

Result<query::Query> Dataset::Resolve(const query::ReadRequest& request) const {
  query::Query query;
  QUARRY_ASSIGN_OR_RETURN(query.field_number, FieldNumber(request.field));
  const FieldDescription& field = description_.fields[query.field_number];
  const GridDescription& grid = description_.GridOf(field);
  query.box = query::BoxOn(grid.domain(), request.box);
  QUARRY_RETURN_IF_ERROR(WithAxes(CheckBox(query.box, grid.dims), grid));
  query.target = request.target;
  query.level = query::NamedLevel(request.target).value_or(0);
  const int last_layer = field.layers() - 1;
  query.layer = request.layer.value_or(last_layer);
  query.any_layer = !request.layer;
  if (query.layer < 0 || query.layer > last_layer)
    return InvalidArgument(
        "layer {} cannot be read; field \"{}\" has layers of accuracy 0 (the roughest) to {}", query.layer,
        field.name, last_layer);
  query.first_layer = request.first_layer.value_or(query.layer);
  if (query.first_layer < 0 || query.first_layer > query.layer)
    return InvalidArgument(
        "layers {} to {} cannot be read; layers of accuracy come from the roughest on, and \"{}\" has 0 to "
        "{}",
        query.first_layer, query.layer, field.name, last_layer);
  query.first_level = query::FirstLevelOn(grid.levels, request.first_level, query.level);
  query.focus = request.focus;
  query.values = request.values;
  query.allow_damage = request.allow_damage;
  QUARRY_RETURN_IF_ERROR(query::CheckLevels(request, field.name, grid.levels));
  QUARRY_ASSIGN_OR_RETURN(query.step, ResolveStep(query.field_number, request.step));
  LookForReplacement(query.step);
  QUARRY_ASSIGN_OR_RETURN(const auto step, Step(query.step));
  query.mask = step->FindField(field.name)->mask_name();
  return query;
}

Result<std::vector<Dataset::Subject>> Dataset::Expand(const query::SeriesRequest& request) const {
  QUARRY_RETURN_IF_ERROR(query::CheckSeries(request));
  std::vector<std::size_t> fields;
  const auto add_field = [&](const std::string& name) -> Status {
    QUARRY_ASSIGN_OR_RETURN(fields.emplace_back(), FieldNumber(name));
    return Status::Ok();
  };
  for (const std::string& name : request.fields) QUARRY_RETURN_IF_ERROR(add_field(name));
  if (request.fields.empty()) QUARRY_RETURN_IF_ERROR(add_field(request.read.field));
  std::vector<Subject> subjects;
  if (!request.steps) {
    for (const std::size_t field : fields) subjects.push_back({field, request.read.step});
    return subjects;
  }
  Catalogue::Hold hold;
  for (const std::uint64_t number : steps_) {
    if (!request.steps->Contains(number)) continue;
    QUARRY_ASSIGN_OR_RETURN(const StepSummary step, Summary(number, &hold));
    for (const std::size_t field : fields) {
      if (step.FindField(description_.fields[field].name) != nullptr) subjects.push_back({field, number});
    }
    if (subjects.size() > query::kMaxAnswers) {
      return InvalidArgument("more than {} answers are asked for; ask for fewer steps or fields at a time",
                             query::kMaxAnswers);
    }
  }
  if (!subjects.empty()) return subjects;
  return NotFound(
      "none of the requested steps in \"{}\" has the field; run \"quarry info\" for those that do", root_);
}

Result<std::vector<query::ReferenceStep>> Dataset::ReferencesOf(std::uint64_t number,
                                                                const std::string& field) const {
  QUARRY_ASSIGN_OR_RETURN(const auto step, Step(number));
  const FieldStepDescription* record = step->FindField(field);
  std::vector<query::ReferenceStep> found;
  if (record == nullptr) return found;
  for (const std::uint64_t other : record->references) {
    const Result<std::shared_ptr<const StepDescription>> referred = Step(other);
    const FieldStepDescription* of_field = referred.ok() ? (*referred)->FindField(field) : nullptr;
    if (of_field == nullptr)
      return DataLoss("step {} of \"{}\" refers to step {}, which has no field \"{}\" or is not there",
                      number, root_, other, field);
    found.push_back({other, of_field->mask_name()});
  }
  return found;
}

Result<query::ReadPlan> Dataset::Plan(const query::Query& query, const query::PatchLocator* locator) const {
  const std::string& field = description_.fields[query.field_number].name;
  const auto references = [&](std::uint64_t step) { return ReferencesOf(step, field); };
  return query::MakePlan(description_, locator != nullptr ? *locator : *tables_, references, query,
                         root_.storage->read_gap());
}

Result<query::ReadPlan> Dataset::PlanRun(const query::ReadPlan& plan, const query::PatchRun& run,
                                         const query::PatchLocator* locator) const {
  const auto references = [&](std::uint64_t step) { return ReferencesOf(step, plan.field); };
  return query::PlanRun(description_, locator != nullptr ? *locator : *tables_, references, plan, run);
}

Result<query::ReadPlan> Dataset::Plan(const query::ReadRequest& request,
                                      const query::PatchLocator* locator) const {
  QUARRY_ASSIGN_OR_RETURN(const query::Query query, Resolve(request));
  return Plan(query, locator);
}

Result<query::Query> Dataset::Resolve(const query::PointsRequest& request) const {
  query::ReadRequest read;
  read.field = request.field;
  read.step = request.step;
  read.layer = request.layer;
  QUARRY_ASSIGN_OR_RETURN(query::Query query, Resolve(read));
  const GridDescription& grid = description_.GridOf(query.field_number);
  QUARRY_RETURN_IF_ERROR(WithAxes(query::CheckPoints(grid.dims, request.points), grid));
  query.box = query::BoxAround(request.points);
  query.only_patches.emplace();
  return query;
}

Result<query::PointsPlan> Dataset::PlanPoints(const query::PointsRequest& request, query::Query query,
                                              const query::PatchLocator* locator,
                                              const query::InTurn& in_turn) const {
  QUARRY_ASSIGN_OR_RETURN(const PatchGrid grid, PatchesOf(description_.GridOf(query.field_number)));
  QUARRY_ASSIGN_OR_RETURN(auto interpolator, query::PointInterpolator::Create(grid, request.points, in_turn));
  query.only_patches = interpolator.patches();
  QUARRY_ASSIGN_OR_RETURN(query::ReadPlan plan, Plan(query, locator));
  plan.cost.reply_bytes = request.points.size() * sizeof(double);
  plan.cost.coded_bytes = 0;
  return query::PointsPlan{std::move(plan), std::move(interpolator), request.cost_only};
}

}  // namespace quarry
