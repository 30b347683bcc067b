#include "server/guard/deadline_watch.h"

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
  entries_.emplace(key, std::move(expired));
  // Most entries go before their time, and the thread sleeps through them.
  if (time < wakes_) changed_.notify_all();
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
    wakes_ = entries_.empty() ? Clock::time_point::max() : entries_.begin()->first.first;
    if (entries_.empty()) {
      changed_.wait(lock);
    } else if (Clock::now() < wakes_) {
      changed_.wait_until(lock, wakes_);
    } else {
      // Under the lock: Remove cannot return while the callback runs, so the objects that it uses still
      // exist.
      entries_.begin()->second();
      entries_.erase(entries_.begin());
    }
  }
}

}  // namespace quarry::server
