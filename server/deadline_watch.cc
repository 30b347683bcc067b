#include "server/deadline_watch.h"

namespace quarry::server {

DeadlineWatch::DeadlineWatch() : thread_([this] { Run(); }) {}

DeadlineWatch::~DeadlineWatch() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

DeadlineWatch::Entry DeadlineWatch::Add(Clock::time_point time, std::function<void()> expired) {
  const std::lock_guard lock(mutex_);
  const Key key{time, next_++};
  const auto it = entries_.emplace(key, std::move(expired)).first;
  if (it == entries_.begin()) changed_.notify_all();
  return {this, key};
}

void DeadlineWatch::Entry::Reset() {
  if (watch_ != nullptr) std::exchange(watch_, nullptr)->Remove(key_);
}

void DeadlineWatch::Remove(const Key& key) {
  const std::lock_guard lock(mutex_);
  entries_.erase(key);
}

void DeadlineWatch::Run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (entries_.empty()) {
      changed_.wait(lock);
    } else if (const Clock::time_point first = entries_.begin()->first.first; Clock::now() < first) {
      changed_.wait_until(lock, first);
    } else {
      // Under the lock: Remove cannot return while the callback runs, so what it uses is still there.
      entries_.begin()->second();
      entries_.erase(entries_.begin());
    }
  }
}

}  // namespace quarry::server
