#include "quarry/store/decode_pool.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "quarry/base/memory.h"

namespace quarry {
namespace {

/// After this many tasks of a client, its oldest one is next.
constexpr std::uint64_t kOldestEvery = 8;
/// [bytes] How far a client that comes back is ahead of those who always have tasks: a small read, or the
/// first picture of a large one, does not take turns with them.
constexpr std::uint64_t kAhead = 16 << 20;

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
                                : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()))),
      now_(kAhead) {}

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
    Queue* const queue = QueueOf(priority.client);
    const Place place{-priority.level, priority.bytes, submitted_++};
    queue->waiting.emplace(place, Task{std::move(task), priority.work});
    queue->by_age.emplace(place.number, place);
    ++waiting_;
  }
  changed_.notify_one();
}

std::size_t DecodePool::waiting() const {
  const std::lock_guard lock(mutex_);
  return waiting_;
}

/// The queue of a client for a new task. Forgets the clients that are behind the others anyway.
DecodePool::Queue* DecodePool::QueueOf(std::uint64_t client) {
  const std::uint64_t earliest = now_ - kAhead;
  if (!queues_.contains(client)) {
    std::erase_if(queues_, [&](const auto& entry) {
      return entry.second.waiting.empty() && entry.second.start <= earliest;
    });
  }
  Queue& queue = queues_[client];
  if (queue.waiting.empty()) queue.start = std::max(queue.start, earliest);
  return &queue;
}

void DecodePool::Work() {
  ExtendMemoryOfThread();
  while (const std::function<void()> task = TakeNext()) task();
}

/// Waits for a task. None when the pool is ending and every task is taken.
std::function<void()> DecodePool::TakeNext() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return ending_ || waiting_ > 0; });
  Queue* next = nullptr;
  for (auto& [client, queue] : queues_) {
    if (!queue.waiting.empty() && (next == nullptr || queue.start < next->start)) next = &queue;
  }
  if (next == nullptr) return nullptr;
  --waiting_;
  Task task = next->TakeNext();
  now_ = std::max(now_, next->start);
  next->start += task.work;
  return std::move(task.run);
}

DecodePool::Task DecodePool::Queue::TakeNext() {
  auto next = waiting.begin();
  if (++taken % kOldestEvery == 0) next = waiting.find(by_age.begin()->second);
  Task task = std::move(next->second);
  by_age.erase(next->first.number);
  waiting.erase(next);
  return task;
}

}  // namespace quarry
