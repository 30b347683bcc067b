#include "writer/pipeline/store_publisher.h"

#include <algorithm>
#include <span>

#include "quarry/dataset/step_listing.h"
#include "quarry/format/catalogue.h"
#include "quarry/format/manifest.h"
#include "quarry/format/mask.h"
#include "quarry/pack/packed_steps.h"
#include "writer/upkeep/dataset_files.h"

namespace quarry::writer {
namespace {

ByteSpan AsBytes(const std::string& text) { return std::as_bytes(std::span(text)); }

}  // namespace

Result<std::unique_ptr<Publisher>> StorePublisher::Open(const WritableLocation& place, bool append,
                                                        bool break_lock) {
  const WritableLocation absolute{
      Location(place.root.storage, place.root.storage->AbsolutePath(place.root.path)), place.storage};
  std::unique_ptr<StorePublisher> publisher(new StorePublisher(absolute));
  QUARRY_RETURN_IF_ERROR(publisher->Begin(append, break_lock));
  return Result<std::unique_ptr<Publisher>>(std::move(publisher));
}

Status StorePublisher::Begin(bool append, bool break_lock) {
  const Location manifest = root() / "dataset.json";
  const auto exists = [&]() -> Result<bool> {
    const Status seen = manifest.Stat().status();
    if (seen.ok()) return true;
    return seen.code() == StatusCode::kNotFound ? Result<bool>(false) : Result<bool>(seen);
  };
  QUARRY_ASSIGN_OR_RETURN(const bool there, exists());
  if (!append && there)
    return AlreadyExists("\"{}\" exists already; append to it (--append), or choose another name (--output)",
                         root());
  if (append && !there)
    return NotFound("there is no dataset \"{}\" to append to; create it (without --append)", root());
  QUARRY_ASSIGN_OR_RETURN(const bool keeps, place_.storage->KeepsConditions((root() / "steps").path));
  ignores_conditions_ = !keeps;
  QUARRY_ASSIGN_OR_RETURN(StoreClaim claim, StoreClaim::Take(place_, break_lock));
  claim_.emplace(std::move(claim));
  // The last holder may have shown it.
  QUARRY_ASSIGN_OR_RETURN(const bool now, exists());
  if (now && !there) return CreatedMeanwhile(root().path);
  return append ? BeginExisting(break_lock) : BeginNew(break_lock);
}

Status StorePublisher::BeginNew(bool break_lock) {
  QUARRY_ASSIGN_OR_RETURN(const auto names, DatasetNames(root()));
  if (!names) {
    return FailedPrecondition("\"{}\" is there, and is no dataset; choose another name (--output)", root());
  }
  if (break_lock) return RemoveAll();
  // The claim is the only file.
  QUARRY_ASSIGN_OR_RETURN(const auto steps, (root() / "steps").ListNames());
  const bool only_ours = *names == std::set<std::string>{"steps"} && steps.size() == 1;
  if (only_ours) return Status::Ok();
  return FailedPrecondition(
      "\"{}\" has files of a writer or a copy that has not ended; let it end, or if it was killed, give "
      "--break-lock, which removes them, or choose another name (--output)",
      root());
}

/// @param recover  a writer may have been killed
Status StorePublisher::BeginExisting(bool recover) {
  QUARRY_ASSIGN_OR_RETURN(existing_, ReadDescription(root()));
  QUARRY_ASSIGN_OR_RETURN(const auto head, PublishingHead(root()));
  if (!head) return AddsNoSteps(root());
  const std::vector<std::uint64_t> steps = format::StepsOf(head->runs);
  steps_ = {steps.begin(), steps.end()};
  catalogue_ = CatalogueWriter::Found(place_);
  return recover ? Recover() : Status::Ok();
}

/// Removes what no step has, and makes the catalogue anew: the record of a step may lack fields that were
/// added to it.
Status StorePublisher::Recover() {
  QUARRY_RETURN_IF_ERROR(place_.storage->RemoveLeftovers(root().path).status());
  QUARRY_RETURN_IF_ERROR(RemoveUnpublished(place_, {steps_.begin(), steps_.end()}).status());
  std::set<std::string> masks;
  const Location with_packs = WithPacks(root());
  for (const std::uint64_t step : steps_) {
    QUARRY_ASSIGN_OR_RETURN(const StepDescription read,
                            ReadStep(with_packs / format::StepFolder(step), *existing_));
    for (const FieldStepDescription& field : read.fields) {
      if (field.mask) masks.insert(format::MaskText(field.mask->name));
    }
  }
  const Result<std::vector<FolderEntry>> there = (root() / "masks").ListNames();
  if (there.ok()) {
    for (const FolderEntry& mask : *there) {
      if (!masks.contains(mask.name)) QUARRY_RETURN_IF_ERROR(Remove(root() / "masks" / mask.name));
    }
  } else if (there.status().code() != StatusCode::kNotFound) {
    return there.status();
  }
  QUARRY_RETURN_IF_ERROR(RemakeCatalogue(
      &*catalogue_, root(), *existing_, [](std::uint64_t) {}, [](const Status&) {}));
  return catalogue_->RemoveUnnamed();
}

Status StorePublisher::Remove(const Location& folder) const {
  return RemoveFiles({folder, place_.storage}).status();
}

/// All but the claim.
Status StorePublisher::RemoveAll() const {
  QUARRY_RETURN_IF_ERROR(place_.storage->RemoveLeftovers(root().path).status());
  return RemoveDatasetFiles(place_, kClaimFile).status();
}

Result<PublishedStep> StorePublisher::Published(std::uint64_t step) const {
  if (!existing_ || !steps_.contains(step)) return PublishedStep();
  return ReadPublished(WithPacks(root()) / format::StepFolder(step), *existing_);
}

Result<std::string> StorePublisher::StageField(std::uint64_t step, const std::string& field) {
  const Location folder = FolderOf(step) / field;
  // Files that nothing names are left over from a killed writer.
  const Location unnamed = steps_.contains(step) ? folder : FolderOf(step);
  if (!staged_.contains(FolderOf(step).path)) QUARRY_RETURN_IF_ERROR(Remove(unnamed));
  staged_.insert(unnamed.path);
  return folder.path;
}

Result<std::string> StorePublisher::StageMask(std::uint64_t name) {
  std::string folder = (root() / format::MaskFolder(name)).path;
  staged_.insert(folder);
  return folder;
}

Status StorePublisher::PublishStep(const DatasetDescription& dataset, const StepDescription& step) {
  if (std::exchange(ignores_conditions_, false)) {
    warning_ = fmt::format(
        "the store ignores conditions, so that two writers of \"{}\" would not be told apart; see to it that "
        "there is one",
        root());
  }
  if (is_broken_)
    return FailedPrecondition("an earlier step of \"{}\" has failed to appear; open the dataset again",
                              root());
  QUARRY_RETURN_IF_ERROR(claim_->Check());
  QUARRY_RETURN_IF_ERROR(PutStep(dataset, step));
  staged_.clear();
  steps_.insert(step.step);
  return Status::Ok();
}

Status StorePublisher::PutStep(const DatasetDescription& dataset, const StepDescription& step) {
  if (!existing_) return PublishNew(dataset, step);
  QUARRY_RETURN_IF_ERROR(Declare(dataset));
  if (steps_.contains(step.step)) return AddFields(step);
  QUARRY_ASSIGN_OR_RETURN(const std::string text, ManifestText(step, "step.json"));
  if (existing_->has_coarse_objects) (void)StageCoarse(step, *existing_, FolderOf(step.step));
  QUARRY_RETURN_IF_ERROR(PutOnce({FolderOf(step.step) / "step.json", place_.storage}, text));
  return PutHead(step, text, true);
}

Status StorePublisher::PublishNew(const DatasetDescription& given, const StepDescription& step) {
  DatasetDescription dataset = given;
  dataset.has_coarse_objects = StageCoarse(step, dataset, FolderOf(step.step));
  QUARRY_ASSIGN_OR_RETURN(const std::string text, ManifestText(step, "step.json"));
  QUARRY_ASSIGN_OR_RETURN(const std::string description, ManifestText(dataset, "dataset.json"));
  QUARRY_RETURN_IF_ERROR(PutOnce({FolderOf(step.step) / "step.json", place_.storage}, text));
  catalogue_.emplace(place_);
  catalogue_->PublishSteps();
  QUARRY_RETURN_IF_ERROR(PutHead(step, text, true));
  QUARRY_RETURN_IF_ERROR(Sure(step.step, PutOnce({root() / "dataset.json", place_.storage}, description)));
  existing_ = dataset;
  return Status::Ok();
}

/// New fields are declared before the step that has them: a declared field without data is harmless, data of
/// an unknown field is not. So is a unit without times.
Status StorePublisher::Declare(const DatasetDescription& dataset) {
  if (!Declares(dataset, *existing_)) return Status::Ok();
  DatasetDescription next = dataset;
  next.has_packs = existing_->has_packs;
  next.has_coarse_objects = existing_->has_coarse_objects;
  QUARRY_RETURN_IF_ERROR(ReplaceDescription(place_, next));
  existing_ = std::move(next);
  return Status::Ok();
}

Status StorePublisher::AddFields(const StepDescription& step) {
  const Location manifest = FolderOf(step.step) / "step.json";
  const Result<std::string> tag = place_.storage->TagOf(manifest.path);
  if (tag.status().code() == StatusCode::kNotFound)
    return FailedPrecondition(
        "step {} of \"{}\" is in a pack, to which no fields are added in a store; write them to a directory, "
        "and "
        "copy it",
        step.step, root());
  QUARRY_RETURN_IF_ERROR(tag.status());
  QUARRY_ASSIGN_OR_RETURN(StepDescription whole, ReadStep(FolderOf(step.step), *existing_));
  QUARRY_RETURN_IF_ERROR(AddFieldsTo(step, &whole));
  QUARRY_ASSIGN_OR_RETURN(const std::string text, ManifestText(whole, "step.json"));
  // Its old record could not be taken back.
  if (!format::RecordEncoder().Add(format::RecordOf(whole, text)))
    return ResourceExhausted(
        "step {} of \"{}\" would have more fields than a head in a store can list; write "
        "to a directory",
        step.step, root());
  Status put = place_.storage->Put(manifest.path, AsBytes(text), PutCondition::IfTag(*tag));
  if (!put.ok()) {
    // The answer to a request that has put it may have been lost.
    const Result<std::string> there = manifest.ReadText(format::kManifestLimit);
    if (!there.ok() || *there != text) return put;
  }
  if (existing_->has_coarse_objects) (void)StageCoarse(whole, *existing_, FolderOf(step.step));
  return PutHead(whole, text, false);
}

Status StorePublisher::PutHead(const StepDescription& step, const std::string& text, bool is_new) {
  return Sure(step.step, catalogue_->Put(format::RecordOf(step, text), is_new));
}

/// A request without an answer may still have made a step visible: nothing of it is removed then.
Status StorePublisher::Sure(std::uint64_t step, Status put) {
  if (put.ok()) return put;
  is_broken_ = true;
  if (put.code() == StatusCode::kFailedPrecondition || put.code() == StatusCode::kResourceExhausted)
    return put;
  claim_->Keep();
  staged_.clear();
  is_unsure_ = true;
  return {StatusCode::kUnknown,
          fmt::format("whether step {} is published is not known: {}; go on with quarry-write --resume "
                      "--break-lock, which looks",
                      step, put.message())};
}

void StorePublisher::Abandon() {
  // Where another writer has taken over, these are its files.
  if (is_unsure_ || !claim_->Check().ok()) return claim_->Keep();
  for (const std::string& folder : std::exchange(staged_, {})) {
    std::erase_if(masks_,
                  [&](const auto& mask) { return folder == (root() / format::MaskFolder(mask.first)).path; });
    // A writer that breaks the claim removes what is left.
    if (!Remove(Location(root().storage, folder)).ok()) claim_->Keep();
  }
  if (existing_) return;
  if (!RemoveAll().ok()) claim_->Keep();
  catalogue_.reset();
}

}  // namespace quarry::writer
