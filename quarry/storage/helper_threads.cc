#include "quarry/storage/helper_threads.h"

#include <atomic>
#include <exception>

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

}  // namespace

std::vector<std::jthread> StartHelpers(std::size_t most, const std::function<void()>& work) {
  const std::function<bool()> cancelled = CancelScope::Carried();
  std::vector<std::jthread> helpers;
  helpers.reserve(most);
  while (helpers.size() < most && AllHelpers().Take()) {
    try {
      helpers.emplace_back([work, cancelled] {
        {
          const CancelScope scope(cancelled);
          work();
        }
        AllHelpers().Return();
      });
    } catch (const std::exception&) {  // no more threads, or no memory for one
      AllHelpers().Return();
      break;
    }
  }
  return helpers;
}

}  // namespace quarry
