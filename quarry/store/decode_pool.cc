#include "quarry/store/decode_pool.h"

#include <algorithm>
#include <cstdlib>

#include "quarry/base/memory.h"

namespace quarry {
namespace {

/// After this many tasks, the oldest one is next.
constexpr std::uint64_t kOldestEvery = 8;

/// The C library extends the memory of every thread but the first page by page, with a system call and a page
/// fault each: a third of the time of a first read. Memory that is allocated and freed at once stays with the
/// thread, to be touched in huge pages where the system has them.
void ExtendMemoryOfThread() {
  constexpr std::size_t kBytes = 30 << 20;     // larger blocks come from elsewhere, see KeepFreedMemory
  void* volatile taken = std::malloc(kBytes);  // volatile: compilers drop an unused allocation
  AdviseHugePages(taken, kBytes);
  std::free(taken);
}

}  // namespace

DecodePool::DecodePool(int threads)
    : thread_count_(threads > 0 ? threads
                                : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()))) {}

DecodePool::~DecodePool() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
}

void DecodePool::Submit(DecodePriority priority, std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    while (threads_.size() < static_cast<std::size_t>(thread_count_))
      threads_.emplace_back([this] { Work(); });
    const Place place{-priority.level, priority.bytes, submitted_++};
    waiting_.emplace(place, std::move(task));
    by_age_.emplace(place.number, place);
  }
  changed_.notify_one();
}

void DecodePool::Work() {
  ExtendMemoryOfThread();
  while (const std::function<void()> task = TakeNext()) task();
}

/// Waits for a task. None when the pool is ending and every task is taken.
std::function<void()> DecodePool::TakeNext() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return ending_ || !waiting_.empty(); });
  if (waiting_.empty()) return nullptr;
  auto next = waiting_.begin();
  if (++taken_ % kOldestEvery == 0) next = waiting_.find(by_age_.begin()->second);
  std::function<void()> task = std::move(next->second);
  by_age_.erase(next->first.number);
  waiting_.erase(next);
  return task;
}

}  // namespace quarry
