#include "quarry/dataset/decode_pool.h"

#include <tbb/global_control.h>
#include <tbb/task_arena.h>

#include <condition_variable>
#include <mutex>
#include <thread>

namespace quarry {

struct DecodePool::Impl {
  // No slot is kept for the submitting thread: it reads ahead and streams while the others decode.
  explicit Impl(int threads)
      : workers(tbb::global_control::max_allowed_parallelism, static_cast<std::size_t>(threads) + 1),
        arena(threads, /*reserved_for_masters=*/0) {}

  tbb::global_control workers;  // one more than arena slots: TBB counts the submitting thread too
  tbb::task_arena arena;
  std::mutex mutex;
  std::condition_variable idle;
  std::size_t running = 0;
};

DecodePool::DecodePool(int threads)
    : impl_(std::make_unique<Impl>(
          threads > 0 ? threads : static_cast<int>(std::max(1u, std::thread::hardware_concurrency())))) {}

DecodePool::~DecodePool() {
  std::unique_lock lock(impl_->mutex);
  impl_->idle.wait(lock, [this] { return impl_->running == 0; });
}

int DecodePool::threads() const { return impl_->arena.max_concurrency(); }

void DecodePool::Submit(std::function<void()> task) {
  {
    const std::lock_guard lock(impl_->mutex);
    ++impl_->running;
  }
  const auto finish = [](Impl* impl) {
    const std::lock_guard lock(impl->mutex);
    if (--impl->running == 0) impl->idle.notify_all();
  };
  try {
    impl_->arena.enqueue([impl = impl_.get(), task = std::move(task), finish] {
      task();
      finish(impl);
    });
  } catch (...) {  // out of memory: the task will never run, and nobody may wait for it
    finish(impl_.get());
    throw;
  }
}

}  // namespace quarry
