#pragma once

#include <atomic>
#include <memory>

namespace quarry {

/// Cancels the calls that hold it. Copies share one flag, which is set once and never reset; a token made by
/// the default constructor can never be set. Thread-safe; Cancel may be called from a signal handler.
class CancelToken {
 public:
  CancelToken() = default;
  static CancelToken Create() {
    CancelToken token;
    token.flag_ = std::make_shared<std::atomic<bool>>(false);
    return token;
  }

  void Cancel() const {
    if (flag_) flag_->store(true, std::memory_order_relaxed);
  }
  bool cancelled() const { return flag_ && flag_->load(std::memory_order_relaxed); }
  /// False for a token that can never be set.
  bool can_be_cancelled() const { return flag_ != nullptr; }

 private:
  static_assert(std::atomic<bool>::is_always_lock_free);
  std::shared_ptr<std::atomic<bool>> flag_;
};

}  // namespace quarry
