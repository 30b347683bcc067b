#include "server/guard/workers.h"

#include <exception>
#include <utility>

namespace quarry::server {

void Workers::Finish() {
  {
    const std::lock_guard lock(mutex_);
    finishing_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

bool Workers::Run(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    // Each idle thread takes one piece of work: more pieces need another thread, or wait for one.
    if (waiting_.size() >= idle_ && !AddThread() && threads_.empty()) return false;
    waiting_.push_back(std::move(work));
  }
  changed_.notify_one();
  return true;
}

/// Returns whether there is one more.
bool Workers::AddThread() {
  if (finishing_ || threads_.size() >= threads_limit_) return false;
  try {
    threads_.emplace_back([this] { Loop(); });
    return true;
  } catch (const std::exception&) {  // no more threads, or no memory for one
    return false;
  }
}

void Workers::Loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    ++idle_;
    changed_.wait(lock, [this] { return finishing_ || !waiting_.empty(); });
    --idle_;
    if (waiting_.empty()) return;
    std::function<void()> work = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    work();
    work = nullptr;  // destruction of what it holds may take long
    lock.lock();
  }
}

}  // namespace quarry::server
