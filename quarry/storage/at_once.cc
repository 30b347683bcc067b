#include "quarry/storage/at_once.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "quarry/base/cancel_scope.h"

namespace quarry {
namespace {

/// Threads of this process that help others. Each has a stack, and waits for a storage.
class Helpers {
 public:
  bool Take() {
    constexpr int kMost = 128;
    if (++taken_ <= kMost) return true;
    --taken_;
    return false;
  }
  void Return() { --taken_; }

 private:
  std::atomic<int> taken_ = 0;
};

Helpers& AllHelpers() {
  static auto& helpers = *new Helpers;
  return helpers;
}

/// The calls of one caller, shared with its helpers.
class Calls {
 public:
  Calls(std::size_t count, const std::function<void(std::size_t)>& call) : count_(count), call_(call) {}

  /// Makes calls until none is left. No exception leaves it: it would end the process.
  void Work() {
    for (std::size_t next = next_++; next < count_; next = next_++) {
      try {
        call_(next);
      } catch (...) {
        const std::lock_guard lock(mutex_);
        if (!thrown_) thrown_ = std::current_exception();
      }
    }
  }
  void Rethrow() const {
    if (thrown_) std::rethrow_exception(thrown_);
  }

 private:
  const std::size_t count_;
  const std::function<void(std::size_t)>& call_;
  std::atomic<std::size_t> next_ = 0;
  std::mutex mutex_;
  std::exception_ptr thrown_;
};

}  // namespace

void CallAtOnce(std::size_t calls, std::size_t most, const std::function<void(std::size_t)>& call) {
  const std::size_t threads = std::min(calls, most);
  if (threads < 2) {
    for (std::size_t i = 0; i < calls; ++i) call(i);
    return;
  }
  Calls all(calls, call);
  const std::function<bool()> cancelled = CancelScope::Carried();
  {
    std::vector<std::jthread> helpers;  // joined at the end of the block
    helpers.reserve(threads - 1);
    while (helpers.size() < threads - 1 && AllHelpers().Take()) {
      try {
        helpers.emplace_back([&all, &cancelled] {
          const CancelScope scope(cancelled);
          all.Work();
          AllHelpers().Return();
        });
      } catch (const std::exception&) {  // no more threads, or no memory for one: this one does the rest
        AllHelpers().Return();
        break;
      }
    }
    all.Work();
  }
  all.Rethrow();
}

}  // namespace quarry
