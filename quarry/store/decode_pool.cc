#include "quarry/store/decode_pool.h"

#include <tbb/global_control.h>
#include <tbb/task_arena.h>

#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>
#include <tuple>

namespace quarry {
namespace {

/// Every so many tasks, the oldest one is next.
constexpr std::uint64_t kOldestEvery = 8;

}  // namespace

struct DecodePool::Impl {
  // No slot is kept for the submitting thread: it reads ahead and streams while the others decode.
  explicit Impl(int threads)
      : workers(tbb::global_control::max_allowed_parallelism, static_cast<std::size_t>(threads) + 1),
        arena(threads, /*reserved_for_masters=*/0) {}

  /// Negated level, bytes, number of submission: the smallest is next.
  using Place = std::tuple<int, std::uint64_t, std::uint64_t>;

  std::function<void()> TakeNext() {
    const std::lock_guard lock(mutex);
    auto next = waiting.begin();
    if (++taken % kOldestEvery == 0) next = waiting.find(by_age.begin()->second);
    std::function<void()> task = std::move(next->second);
    by_age.erase(std::get<2>(next->first));
    waiting.erase(next);
    return task;
  }

  void Finish() {
    const std::lock_guard lock(mutex);
    if (--running == 0) idle.notify_all();
  }

  tbb::global_control workers;  // one more than arena slots: TBB counts the submitting thread too
  tbb::task_arena arena;
  std::mutex mutex;
  std::condition_variable idle;
  std::map<Place, std::function<void()>> waiting;
  std::map<std::uint64_t, Place> by_age;
  std::uint64_t submitted = 0;
  std::uint64_t taken = 0;
  std::size_t running = 0;  ///< tasks that were submitted and have not ended
};

DecodePool::DecodePool(int threads)
    : impl_(std::make_unique<Impl>(
          threads > 0 ? threads : static_cast<int>(std::max(1u, std::thread::hardware_concurrency())))) {}

DecodePool::~DecodePool() {
  std::unique_lock lock(impl_->mutex);
  impl_->idle.wait(lock, [this] { return impl_->running == 0; });
}

int DecodePool::threads() const { return impl_->arena.max_concurrency(); }

void DecodePool::Submit(DecodePriority priority, std::function<void()> task) {
  Impl* const impl = impl_.get();
  Impl::Place place;
  {
    const std::lock_guard lock(impl->mutex);
    place = {-priority.level, priority.bytes, impl->submitted++};
    ++impl->running;
  }
  bool queued = false;
  try {
    {
      const std::lock_guard lock(impl->mutex);
      impl->waiting.emplace(place, std::move(task));
      impl->by_age.emplace(std::get<2>(place), place);
      queued = true;
    }
    // As many of these as there are tasks: whichever runs first takes the most urgent one.
    impl->arena.enqueue([impl] {
      impl->TakeNext()();
      impl->Finish();
    });
  } catch (...) {  // out of memory: nobody may wait for a task that will never run
    bool taken = false;
    {
      const std::lock_guard lock(impl->mutex);
      taken = impl->waiting.erase(place) == 0 && queued;
      impl->by_age.erase(std::get<2>(place));
    }
    // The runner of another task has taken this one: that other one has no runner now.
    if (taken) impl->TakeNext()();
    impl->Finish();
    if (!taken) throw;
  }
}

}  // namespace quarry
