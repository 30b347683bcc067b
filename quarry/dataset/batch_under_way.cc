#include "quarry/dataset/batch_under_way.h"

#include <algorithm>
#include <utility>

namespace quarry {

void BatchUnderWay::Add(std::shared_ptr<DecodeTask> task, std::size_t first, std::size_t end) {
  const std::vector<std::size_t> ranges = fetched_->fetch.RangesOf(first, end);
  for (const std::size_t range : ranges) needs_.push_back({range, tasks_.size()});
  tasks_.push_back({std::move(task), ranges.size()});
}

/// Told of each range.
RangeDone BatchUnderWay::Prepare() {
  std::ranges::stable_sort(needs_, {}, &Need::range);
  left_ = fetched_->fetch.ranges.size();
  return [this](std::size_t range, const Status& status) { RangeIsThere(range, status); };
}

Status BatchUnderWay::Begin(PayloadSource* source, const std::function<bool()>& cancelled) {
  QUARRY_ASSIGN_OR_RETURN(reading_, source->Begin(fetched_, Prepare(), cancelled));
  SubmitWithoutRanges();
  return Status::Ok();
}

Status BatchUnderWay::Begin(std::unique_ptr<EarlyReading> early) {
  early->ReportTo(Prepare());
  reading_ = std::move(early);
  SubmitWithoutRanges();
  return Status::Ok();
}

/// Empty payloads need no range.
void BatchUnderWay::SubmitWithoutRanges() {
  for (Waiting& waiting : tasks_) {
    std::unique_lock lock(mutex_);
    std::shared_ptr<DecodeTask> task = TakeIfComplete(&waiting);
    lock.unlock();
    if (task) Submit(std::move(task));
  }
}

/// The task, if it has all that it needs and is not held. Under the lock.
std::shared_ptr<DecodeTask> BatchUnderWay::TakeIfComplete(Waiting* waiting) const {
  return held_ || waiting->missing > 0 ? nullptr : std::exchange(waiting->task, nullptr);
}

void BatchUnderWay::RangeIsThere(std::size_t range, const Status& status) {
  const auto begin = std::ranges::lower_bound(needs_, range, {}, &Need::range);
  for (auto need = begin; need != needs_.end() && need->range == range; ++need) {
    std::shared_ptr<DecodeTask> complete;
    std::shared_ptr<DecodeTask> dropped;  // after the lock: it gives its patches up
    {
      const std::lock_guard lock(mutex_);
      Waiting& waiting = tasks_[need->task];
      --waiting.missing;
      if (!status.ok()) {
        dropped = std::move(waiting.task);
      } else {
        complete = TakeIfComplete(&waiting);
      }
    }
    if (complete) Submit(std::move(complete));
  }
  const std::lock_guard lock(mutex_);
  if (first_.ok()) first_ = status;
  --left_;
}

/// Where the pool has no memory or no thread, the patches are given up.
void BatchUnderWay::Submit(std::shared_ptr<DecodeTask> task) const {
  try {
    pool_->Submit(priority_, [task = std::move(task)] { (void)task->Run(); });
  } catch (const std::exception&) {
    return;
  }
}

Status BatchUnderWay::Wait(const std::function<bool()>& cancelled) {
  const Status waited = reading_->Wait(cancelled);
  const Status first = status();
  return first.ok() ? waited : first;
}

std::vector<std::shared_ptr<DecodeTask>> BatchUnderWay::TakeComplete() {
  std::vector<std::shared_ptr<DecodeTask>> complete;
  complete.reserve(tasks_.size());
  const std::lock_guard lock(mutex_);
  held_ = false;
  for (Waiting& waiting : tasks_) {
    if (auto task = TakeIfComplete(&waiting)) complete.push_back(std::move(task));
  }
  return complete;
}

void BatchUnderWay::SubmitComplete() {
  for (const std::shared_ptr<DecodeTask>& task : TakeComplete()) Submit(task);
}

bool BatchUnderWay::ended() const {
  const std::lock_guard lock(mutex_);
  return left_ == 0;
}

Status BatchUnderWay::status() const {
  const std::lock_guard lock(mutex_);
  return first_;
}

}  // namespace quarry
