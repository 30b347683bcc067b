#include "quarry/dataset/array_filling.h"

#include <chrono>

namespace quarry {

bool ArrayFilling::Turn::BeginWriting() {
  const std::lock_guard lock(filling_->mutex_);
  writing_ = !filling_->stopped_;
  if (writing_) ++filling_->writing_;
  return writing_;
}

void ArrayFilling::Turn::End(State state) {
  ArrayFilling* const filling = std::exchange(filling_, nullptr);
  if (filling == nullptr) return;
  // Notified under the lock: whoever waits may end the filling at once.
  const std::lock_guard lock(filling->mutex_);
  filling->states_[patch_] = state;
  if (std::exchange(writing_, false)) --filling->writing_;
  filling->changed_.notify_all();
}

ArrayFilling::Turn ArrayFilling::TryTake(std::size_t patch) {
  const std::lock_guard lock(mutex_);
  if (states_[patch] != State::kOpen) return {};
  states_[patch] = State::kTaken;
  return Turn(this, patch);
}

bool ArrayFilling::AwaitPatch(std::size_t patch, const std::function<bool()>& cancelled) {
  constexpr auto kLookUp = std::chrono::milliseconds(50);
  std::unique_lock lock(mutex_);
  while (states_[patch] == State::kTaken) {
    if (changed_.wait_for(lock, kLookUp) == std::cv_status::no_timeout) continue;
    lock.unlock();
    const bool given_up = cancelled();
    lock.lock();
    if (given_up) break;
  }
  return states_[patch] == State::kWritten;
}

void ArrayFilling::Stop() {
  std::unique_lock lock(mutex_);
  stopped_ = true;
  changed_.wait(lock, [this] { return writing_ == 0; });
}

}  // namespace quarry
