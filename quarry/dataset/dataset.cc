#include "quarry/dataset/dataset.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <optional>

#include "quarry/base/file.h"
#include "quarry/format/description_rules.h"
#include "quarry/format/dimension_names.h"
#include "quarry/format/manifest.h"
#include "quarry/format/step_sections.h"
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

bool IsFolder(const Location& location) {
  const Result<ObjectInfo> info = location.Stat();
  return info.ok() && info->kind == ObjectKind::kFolder;
}

/// @param path   of the manifest
/// @param error  of opening it
Status WhyNoManifest(const Location& root, const Location& path, const Status& error) {
  // The storage has not said that it is missing.
  if (MayPass(error) || error.code() == StatusCode::kPermissionDenied) return error;
  if (!root.storage->has_folders())
    return error.code() == StatusCode::kNotFound
               ? NotFound("\"{}\" is not a dataset: it has no dataset.json", root)
               : error;
  const Result<ObjectInfo> folder = root.Stat();
  if (!folder.ok() && folder.status().code() != StatusCode::kNotFound) return folder.status();
  if (!folder.ok() || folder->kind != ObjectKind::kFolder)
    return NotFound("there is no dataset \"{}\"; give the path of a NAME.quarry directory", root);
  const Result<ObjectInfo> manifest = path.Stat();
  // An unreadable manifest is not missing: opening it gives the reason.
  const bool missing =
      manifest.ok() ? manifest->kind != ObjectKind::kFile : manifest.status().code() == StatusCode::kNotFound;
  if (!missing) return error;
  // In a store, it is the last file that comes.
  if (!root.storage->folders_appear_whole() && IsFolder(root / "steps"))
    return NotFound(
        "\"{}\" has files of steps and no dataset.json yet: it is being written, or that was interrupted; "
        "run the "
        "same command again that writes it",
        root);
  // Steps without their dataset.json are a damaged dataset; any other directory is no dataset.
  if (IsFolder(root / "steps")) return DataLoss("\"{}\" is missing; the dataset is damaged", path);
  return NotFound("\"{}\" is not a dataset: it has no dataset.json", root);
}

}  // namespace

Result<std::vector<std::uint64_t>> ListSteps(const Location& root) {
  QUARRY_ASSIGN_OR_RETURN(StepListing listing, ListPublished(WithPacks(root)));
  return std::move(listing.steps);
}

Result<std::shared_ptr<const Dataset>> Dataset::Open(const Location& given, std::shared_ptr<PatchStore> store,
                                                     const std::function<bool()>& cancelled) {
  constexpr std::uint64_t kFront = 1 << 20;  // all of most
  const Location root = WithPacks(given);
  const Location path = root / "dataset.json";
  const bool at_once = root.storage->costs().side_by_side > 1;
  std::string identity;
  Result<OpenedFile> manifest = OpenedFile();
  Result<StepListing> listing = StepListing();
  std::vector<std::function<void()>> looks = {
      [&] { manifest = path.OpenWith(FileEnd::kFront, kFront, nullptr); },
      [&] {
        if (at_once || manifest.ok()) listing = ListPublished(root);
      }};
  if (at_once && root.storage->has_folders()) looks.emplace_back([&] { identity = IdentityOf(root); });
  root.storage->AtOnce(looks.size(), [&](std::size_t i) { looks[i](); });
  if (!manifest.ok()) return WhyNoManifest(root, path, manifest.status());
  const std::uint64_t size = manifest->object->size();
  QUARRY_RETURN_IF_ERROR(CheckFileSize(path.path, size, format::kManifestLimit));
  if (!store) store = std::make_shared<PatchStore>(kOwnStoreBytes);
  const MetadataCache metadata(store);
  QUARRY_ASSIGN_OR_RETURN(const PatchStore::Memory memory, metadata.Reserve(ParsingMemory(size)));
  std::string text(reinterpret_cast<const char*>(manifest->bytes.data()), manifest->bytes.size());
  QUARRY_ASSIGN_OR_RETURN(const std::string rest,
                          format::ReadTextAt(*manifest->object, text.size(), size - text.size()));
  text += rest;
  QUARRY_ASSIGN_OR_RETURN(
      DatasetDescription description,
      format::DecodeDatasetManifest(text, cancelled).Annotate(fmt::format("\"{}\"", path)));
  if (description.has_packs && !root.storage->has_folders())
    return InvalidArgument(
        "\"{}\" has packs of steps, which are found by a list, and web servers have none; read it from an "
        "object "
        "store (s3://), or run \"quarry pack --unpack\" and copy it again",
        root);
  QUARRY_RETURN_IF_ERROR(listing.status());
  // Packs are found by their names, wherever the steps are listed.
  if (description.has_packs && listing->head) QUARRY_RETURN_IF_ERROR((root / "steps").List().status());
  std::shared_ptr<const CoarseSteps> coarse;
  if (description.has_coarse_objects && at_once) coarse = std::make_shared<const CoarseSteps>(root);
  const Location shown = coarse ? Location(coarse, root.path) : root;
  return std::shared_ptr<const Dataset>(new Dataset(shown, std::move(identity), std::move(description),
                                                    *std::move(listing), std::move(store),
                                                    std::move(coarse)));
}

/// The head is read after the steps are listed: a change between the two makes its records newer than the
/// list, never older.
Dataset::Dataset(Location root, std::string identity, DatasetDescription description, StepListing listing,
                 std::shared_ptr<PatchStore> store, std::shared_ptr<const CoarseSteps> coarse)
    : root_(std::move(root)),
      coarse_(std::move(coarse)),
      identity_(std::move(identity)),
      description_(std::move(description)),
      steps_(std::move(listing.steps)),
      metadata_(std::move(store)),
      manifests_(root_, description_, &metadata_),
      publishes_by_head_(listing.head && listing.head->publishes),
      catalogue_(root_, description_, listing.catalogue_is_current, &metadata_, std::move(listing.head)) {
  tables_ = std::make_unique<TableLocator>(
      root_, description_,
      [this](std::uint64_t step, const std::string& field) { return FieldOf(step, field); }, &metadata_);
}

std::string Dataset::identity() const {
  std::call_once(identity_known_, [this] {
    if (identity_.empty() && root_.storage->has_folders()) identity_ = IdentityOf(root_);
  });
  return identity_;
}

Result<std::shared_ptr<const StepDescription>> Dataset::Step(std::uint64_t step) const {
  QUARRY_RETURN_IF_ERROR(CheckStep(step));
  return manifests_.Whole(step);
}

Result<std::shared_ptr<const FieldStepDescription>> Dataset::FieldOf(std::uint64_t step,
                                                                     const std::string& field) const {
  QUARRY_RETURN_IF_ERROR(CheckStep(step));
  return manifests_.Field(step, field);
}

Location Dataset::StepsAt(const Location& root, const Dataset* opened) {
  const bool head = !root.storage->has_folders() ||
                    (!root.storage->folders_appear_whole() && (!opened || opened->publishes_by_head_));
  return root / (head ? format::kHeadFile : std::string_view("steps"));
}

Status Dataset::CheckStep(std::uint64_t step) const {
  if (std::binary_search(steps_.begin(), steps_.end(), step)) return Status::Ok();
  return NotFound("step {} is not in \"{}\"; run \"quarry info\" for the {} steps that are", step, root_,
                  steps_.size());
}

Result<StepDescription> Dataset::LoadStep(std::uint64_t step) const {
  QUARRY_RETURN_IF_ERROR(CheckStep(step));
  std::string text;
  return manifests_.Load(step, &text);
}

Result<StepSummary> Dataset::Summary(std::uint64_t step, Catalogue::Hold* hold) const {
  QUARRY_RETURN_IF_ERROR(CheckStep(step));
  if (std::optional<StepSummary> found = catalogue_.Find(step, hold)) return *std::move(found);
  QUARRY_ASSIGN_OR_RETURN(format::StepRecord record, LoadRecord(step));
  return std::move(record.summary);
}

std::size_t Dataset::summaries_at_once() const {
  constexpr std::size_t kMost = 64;
  return root_.storage->costs().side_by_side > 1 ? kMost : 1;
}

std::vector<Result<StepSummary>> Dataset::Summaries(std::span<const std::uint64_t> steps,
                                                    Catalogue::Hold* hold) const {
  std::vector<Result<StepSummary>> found(steps.size(), Status(StatusCode::kInternal, "no answer"));
  std::vector<std::size_t> asked;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    // Pages are read here, each once.
    const bool alone = steps.size() == 1;
    if (alone || (catalogue_.FindRecord(steps[i], hold) != nullptr && catalogue_.is_current())) {
      found[i] = Summary(steps[i], hold);
    } else {
      asked.push_back(i);
    }
  }
  root_.storage->AtOnce(asked.size(), [&](std::size_t i) {
    Catalogue::Hold own = *hold;
    found[asked[i]] = Summary(steps[asked[i]], &own);
  });
  return found;
}

Status Dataset::ForEachSummary(std::span<const std::uint64_t> steps,
                               const std::function<Status(StepSummary)>& look) const {
  Catalogue::Hold hold;
  const std::size_t most = summaries_at_once();
  for (std::size_t first = 0; first < steps.size(); first += most) {
    std::vector<Result<StepSummary>> some =
        Summaries(steps.subspan(first, std::min(most, steps.size() - first)), &hold);
    for (Result<StepSummary>& step : some) {
      QUARRY_RETURN_IF_ERROR(step.status());
      QUARRY_RETURN_IF_ERROR(look(*std::move(step)));
    }
  }
  return Status::Ok();
}

Result<format::StepRecord> Dataset::LoadRecord(std::uint64_t step) const {
  std::string text;
  QUARRY_ASSIGN_OR_RETURN(const StepDescription description, manifests_.Load(step, &text));
  return format::RecordOf(description, text);
}

Result<std::uint64_t> Dataset::ResolveStep(std::size_t field, std::optional<std::uint64_t> asked) const {
  const std::string& name = description_.fields[field].name;
  if (asked) {
    QUARRY_ASSIGN_OR_RETURN(const auto there, FieldOf(*asked, name));
    if (there) return *asked;
    if (!description_.fields[field].still)
      return NotFound("field \"{}\" is not in step {} of \"{}\"; choose another step", name, *asked, root_);
  }
  // Most fields are in the first step, which is looked at next.
  if (!steps_.empty()) {
    QUARRY_ASSIGN_OR_RETURN(const auto there, FieldOf(steps_.front(), name));
    if (there) return steps_.front();
  }
  std::optional<std::uint64_t> found;
  const Status ended(StatusCode::kCancelled, "found");
  const Status searched = ForEachSummary(steps_, [&](const StepSummary& step) {
    if (step.FindField(name) == nullptr) return Status::Ok();
    found = step.step;
    return ended;
  });
  if (found) return *found;
  QUARRY_RETURN_IF_ERROR(searched);
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

/// Reads the object of a step, once. Without it, readers ask for each part of a file.
void Dataset::LoadCoarse(std::uint64_t step) const {
  MetadataCache::Key key;
  key.kind = MetadataCache::Key::Kind::kCoarse;
  key.step = step;
  constexpr std::uint64_t kBytes = 2 * format::kCoarseLimit;  // as it is read, and as it is kept
  const auto copy = metadata_.Obtain<CoarseCopy>(
      key, [] { return kBytes; }, [&] { return coarse_->Read(step); });
  if (copy.ok()) coarse_->Offer(*copy);
}

/// Where a question about all of a grid begins, its step.json is asked for together with the object that has
/// the tables and the coarse levels. A question about a box needs little of the object, and points still
/// less.
void Dataset::LoadWithCoarse(const query::ReadRequest& request) const {
  if (!coarse_ || steps_.empty()) return;
  const Result<std::size_t> field = FieldNumber(request.field);
  if (!field.ok()) return;
  const Box domain = description_.GridOf(*field).domain();
  if (query::BoxOn(domain, request.box) != domain) return;
  const std::uint64_t step = request.step.value_or(steps_.front());
  const bool can_have_one = CheckStep(step).ok() && NameOfPack(root_, step).empty();
  if (!can_have_one || coarse_->was_asked_for(step)) return;
  root_.storage->AtOnce(2, [&](std::size_t i) {
    if (i == 0) {
      (void)FieldOf(step, description_.fields[*field].name);  // an error comes again
    } else {
      LoadCoarse(step);
    }
  });
  coarse_->SetAskedFor(step);  // not where the storage leaves the question: it is asked again
}

Result<query::Query> Dataset::Resolve(const query::ReadRequest& request) const {
  LoadWithCoarse(request);
  return ResolveAlone(request);
}

Result<query::Query> Dataset::ResolveAlone(const query::ReadRequest& request) const {
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
  manifests_.LookForReplacement(query.step);
  QUARRY_ASSIGN_OR_RETURN(const auto record, FieldOf(query.step, field.name));
  if (!record)
    return NotFound("field \"{}\" is no longer in step {} of \"{}\"", field.name, query.step, root_);
  query.mask = record->mask_name();
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
  std::vector<std::uint64_t> wanted;
  std::ranges::copy_if(steps_, std::back_inserter(wanted),
                       [&](std::uint64_t number) { return request.steps->Contains(number); });
  QUARRY_RETURN_IF_ERROR(ForEachSummary(wanted, [&](const StepSummary& step) {
    for (const std::size_t field : fields) {
      if (step.FindField(description_.fields[field].name) != nullptr) subjects.push_back({field, step.step});
    }
    if (subjects.size() <= query::kMaxAnswers) return Status::Ok();
    return InvalidArgument("more than {} answers are asked for; ask for fewer steps or fields at a time",
                           query::kMaxAnswers);
  }));
  if (!subjects.empty()) return subjects;
  return NotFound(
      "none of the requested steps in \"{}\" has the field; run \"quarry info\" for those that do", root_);
}

Result<std::vector<query::ReferenceStep>> Dataset::ReferencesOf(std::uint64_t number,
                                                                const std::string& field) const {
  QUARRY_ASSIGN_OR_RETURN(const auto record, FieldOf(number, field));
  std::vector<query::ReferenceStep> found;
  if (!record) return found;
  // Read together; errors come again.
  root_.storage->AtOnce(record->references.size(), [&, &references = record->references](std::size_t i) {
    (void)FieldOf(references[i], field);
  });
  for (const std::uint64_t other : record->references) {
    const auto referred = FieldOf(other, field);
    if (!referred.ok() || !*referred)
      return DataLoss("step {} of \"{}\" refers to step {}, which has no field \"{}\" or is not there",
                      number, root_, other, field);
    found.push_back({other, (*referred)->mask_name()});
  }
  return found;
}

Result<query::ReadPlan> Dataset::Plan(const query::Query& query, const query::PatchLocator* locator) const {
  const std::string& field = description_.fields[query.field_number].name;
  const auto references = [&](std::uint64_t step) { return ReferencesOf(step, field); };
  return query::MakePlan(description_, locator != nullptr ? *locator : *tables_, references, query,
                         root_.storage->costs().gap());
}

Result<query::ReadPlan> Dataset::PlanRun(const query::ReadPlan& plan, const query::PatchRun& run,
                                         const query::PatchLocator* locator) const {
  const auto references = [&](std::uint64_t step) { return ReferencesOf(step, plan.field); };
  return query::PlanRun(description_, locator != nullptr ? *locator : *tables_, references, plan, run);
}

Status Dataset::ForEachRun(const query::ReadPlan& plan, const query::PatchLocator* locator,
                           const std::function<bool()>& cancelled,
                           const std::function<Status(const query::ReadPlan&)>& look) const {
  if (plan.runs.empty()) return look(plan);
  for (const query::PatchRun& run : plan.runs) {
    if (cancelled()) return {StatusCode::kCancelled, "the request was cancelled"};
    QUARRY_ASSIGN_OR_RETURN(const query::ReadPlan part, PlanRun(plan, run, locator));
    QUARRY_RETURN_IF_ERROR(look(part));
  }
  return Status::Ok();
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
  QUARRY_ASSIGN_OR_RETURN(query::Query query, ResolveAlone(read));
  const GridDescription& grid = description_.GridOf(query.field_number);
  QUARRY_RETURN_IF_ERROR(WithAxes(query::CheckPoints(grid.dims, request.points), grid));
  query.box = query::BoxAround(request.points);
  constexpr std::uint64_t kCorners = 8;
  query.only_patches =
      std::make_shared<query::PatchList>(query::PatchList{kCorners * request.points.size(), {}});
  return query;
}

Result<query::PointsPlan> Dataset::PlanPoints(const query::PointsRequest& request, query::Query query,
                                              const query::PatchLocator* locator,
                                              const query::InTurn& in_turn) const {
  QUARRY_ASSIGN_OR_RETURN(const PatchGrid grid, PatchesOf(description_.GridOf(query.field_number)));
  QUARRY_ASSIGN_OR_RETURN(auto interpolator, query::PointInterpolator::Create(grid, request.points, in_turn));
  query.only_patches = std::make_shared<query::PatchList>(
      query::PatchList{query.only_patches->most, interpolator.Codes(grid)});
  QUARRY_ASSIGN_OR_RETURN(query::ReadPlan plan, Plan(query, locator));
  plan.cost.reply_bytes = request.points.size() * sizeof(double);
  plan.cost.coded_bytes = 0;
  return query::PointsPlan{std::move(plan), std::move(interpolator), request.cost_only};
}

}  // namespace quarry
