#include "quarry/dataset/step_follower.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

namespace quarry {
namespace {

/// Most steps of one call: the caller may want to stop.
constexpr std::size_t kMostAtOnce = 16;

}  // namespace

Status StepFollower::CheckSameDirectory() { return OrGone(Status::Ok()); }

/// The status to report after `error`: a dataset that is removed while it is read looks damaged for a moment.
Status StepFollower::OrGone(Status error) const {
  if (identity_.empty()) return error;
  const Result<ObjectInfo> info = root_.Stat();
  const bool gone = info.ok() ? info->identity != identity_ : info.status().code() == StatusCode::kNotFound;
  if (gone) return Gone();
  return error.ok() ? info.status() : error;
}

Status StepFollower::Gone() const {
  return NotFound("the dataset \"{}\" has gone, or another is in its place; watch again", root_);
}

/// Whether the last listing is that of the folder as it is now.
bool StepFollower::Holds() {
  const Clock::time_point now = Clock::now();
  if (now < trusted_until_) return true;
  if (!watch_.Holds(StampOf(Dataset::StepsAt(root_, dataset_.get())), root_.storage->stamp_tick()))
    return false;
  trusted_until_ = now + root_.storage->trust();
  return true;
}

bool StepFollower::Changed() { return HasUnread() || !Holds(); }

void StepFollower::Repeat() { next_ -= std::exchange(last_, 0); }

Result<StepFollower::Found> StepFollower::Poll() {
  last_ = 0;
  if (HasUnread()) {
    QUARRY_RETURN_IF_ERROR(CheckSameDirectory());
    Result<Found> found = ReadSome();
    if (found.ok()) return found;
    // The step may have been deleted since the listing: a new one tells that from damage.
  }
  // The stamp is taken before the listing: later changes alter it.
  if (Holds()) return Found();
  QUARRY_RETURN_IF_ERROR(List());
  return ReadSome();
}

/// Opens the dataset anew, because new steps may bring new fields, and finds the steps that were not
/// returned.
Status StepFollower::List() {
  const Clock::time_point begun = Clock::now();
  Result<std::shared_ptr<const Dataset>> dataset = Dataset::Open(root_, store_);
  if (!dataset.ok()) return OrGone(std::move(dataset).status());
  dataset_ = *std::move(dataset);
  hold_ = {};
  const std::string identity = dataset_->identity();
  if (identity_.empty()) identity_ = identity;
  if (identity.empty()) QUARRY_RETURN_IF_ERROR(CheckSameDirectory());
  if (!identity.empty() && identity != identity_) return Gone();
  const auto returned = unread_.begin() + static_cast<std::ptrdiff_t>(next_);
  const auto middle = seen_.insert(seen_.end(), unread_.begin(), returned);
  std::inplace_merge(seen_.begin(), middle, seen_.end());
  const std::vector<std::uint64_t>& steps = dataset_->steps();
  const auto first = after_ ? std::upper_bound(steps.begin(), steps.end(), *after_) : steps.begin();
  unread_ = {};  // the first listing may have been long, the next ones are short
  next_ = 0;
  std::set_difference(first, steps.end(), seen_.begin(), seen_.end(), std::back_inserter(unread_));
  watch_.Looked();
  trusted_until_ = begun + root_.storage->trust();
  return Status::Ok();
}

/// Some of the unread steps. A step that cannot be read ends them: the next call lists the steps again, and
/// reports the error if it is still there.
Result<StepFollower::Found> StepFollower::ReadSome() {
  Found found;
  std::uint64_t bytes = 0;
  std::vector<Result<StepSummary>> some;
  for (std::size_t at = 0; HasUnread() && found.size() < kMostAtOnce && bytes < kMostBytes; ++at) {
    if (at == some.size()) {
      const std::size_t most = std::min(kMostAtOnce - found.size(), dataset_->summaries_at_once());
      some = dataset_->Summaries(
          std::span(unread_).subspan(next_).first(std::min(most, unread_.size() - next_)), &hold_);
      at = 0;
    }
    Result<StepSummary>& step = some[at];
    if (!step.ok()) {
      unread_.resize(next_);
      watch_ = {};
      LookAnew();
      if (found.empty()) return OrGone(std::move(step).status());
      break;
    }
    bytes += MemoryOf(*step);
    found.push_back(std::make_shared<const StepSummary>(*std::move(step)));
    ++next_;
    ++last_;
  }
  return found;
}

}  // namespace quarry
