#include "quarry/storage/at_once.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "quarry/storage/helper_threads.h"

namespace quarry {
namespace {

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
  {
    const std::vector<std::jthread> helpers = StartHelpers(threads - 1, [&all] { all.Work(); });
    all.Work();
  }
  all.Rethrow();
}

}  // namespace quarry
