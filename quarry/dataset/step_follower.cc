#include "quarry/dataset/step_follower.h"

namespace quarry {
namespace {

/// Most steps of one call: the caller may want to stop.
constexpr std::size_t kMostAtOnce = 16;

}  // namespace

Status StepFollower::CheckSameDirectory() {
  if (identity_.empty()) {
    QUARRY_ASSIGN_OR_RETURN(const ObjectInfo info, root_.Stat());
    identity_ = info.identity;
  }
  return OrGone(Status::Ok());
}

/// The status to report after `error`: a dataset that is removed while it is read looks damaged for a moment.
Status StepFollower::OrGone(Status error) const {
  if (identity_.empty()) return error;
  const Result<ObjectInfo> info = root_.Stat();
  const bool gone = info.ok() ? info->identity != identity_ : info.status().code() == StatusCode::kNotFound;
  if (gone) return NotFound("the dataset \"{}\" has gone, or another is in its place; watch again", root_);
  return error.ok() ? info.status() : error;
}

bool StepFollower::Changed() { return !watch_.Holds(StampOf(root_ / "steps"), root_.storage->stamp_tick()); }

void StepFollower::Repeat() {
  for (const std::uint64_t step : last_) seen_.erase(step);
  last_.clear();
  watch_ = {};
}

Result<std::vector<std::shared_ptr<const StepDescription>>> StepFollower::Poll() {
  std::vector<std::shared_ptr<const StepDescription>> found;
  std::uint64_t bytes = 0;
  last_.clear();
  // Taken before the listing: later changes alter it.
  if (watch_.Holds(StampOf(root_ / "steps"), root_.storage->stamp_tick())) return found;
  // Opened anew each time: new steps may bring new fields.
  Result<std::shared_ptr<const Dataset>> dataset = Dataset::Open(root_, store_);
  if (!dataset.ok()) return OrGone(std::move(dataset).status());
  dataset_ = *std::move(dataset);
  QUARRY_RETURN_IF_ERROR(CheckSameDirectory());
  for (const std::uint64_t number : dataset_->steps()) {
    if ((after_ && number <= *after_) || seen_.contains(number)) continue;
    if (found.size() == kMostAtOnce || bytes >= kMostBytes) return found;  // the next call lists them again
    Result<StepDescription> step = dataset_->LoadStep(number);
    if (!step.ok() && found.empty()) return OrGone(std::move(step).status());
    if (!step.ok()) return found;  // the next call tries again, and reports the error
    seen_.insert(number);
    last_.push_back(number);
    bytes += MemoryOf(*step);
    found.push_back(std::make_shared<const StepDescription>(*std::move(step)));
  }
  watch_.Looked();
  return found;
}

}  // namespace quarry
