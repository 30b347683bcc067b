#include "quarry/store/decode_pool.h"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <limits>
#include <utility>

#include "quarry/base/memory.h"
#include "quarry/base/processors.h"

namespace quarry {
namespace {

/// After this many tasks of a client, its oldest one is next.
constexpr std::uint64_t kOldestEvery = 8;
/// [bytes] Head start of a client that returns from a pause: a small read, or the first picture of a large
/// one, does not take turns with busy clients.
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
    : thread_count_(threads > 0 ? threads : UsableProcessors()), now_(kAhead) {}

DecodePool::~DecodePool() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
}

/// Fewer threads decode as well, only slower.
void DecodePool::StartThreads() {
  try {
    while (threads_.size() < static_cast<std::size_t>(thread_count_))
      threads_.emplace_back([this] { Work(); });
  } catch (const std::exception&) {  // no more threads, or no memory for one
    if (threads_.empty()) throw;
  }
}

void DecodePool::Submit(DecodePriority priority, std::function<void()> task) {
  const std::lock_guard lock(mutex_);
  StartThreads();
  Add(priority, {std::move(task), priority.work});
}

void DecodePool::InTurn(std::uint64_t client, std::uint64_t work, const std::function<void()>& compute) {
  constexpr int kFirst = std::numeric_limits<int>::max();
  Lock lock(mutex_);
  Turn turn;
  Add({kFirst, 0, client, work}, {nullptr, work, &turn});
  turn.begins.wait(lock, [&] { return turn.begun; });
  lock.unlock();
  struct Ending {
    DecodePool* pool;
    ~Ending() {
      const std::lock_guard relocked(pool->mutex_);
      pool->End();
    }
  } const ending{this};
  compute();
}

std::size_t DecodePool::waiting() const {
  const std::lock_guard lock(mutex_);
  return waiting_ + begun_.size();
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

void DecodePool::Add(const DecodePriority& priority, Task task) {
  Queue* const queue = QueueOf(priority.client);
  const Place place{-priority.level, priority.bytes, submitted_++};
  TaskNode node;
  node.push_back(std::move(task));
  const auto aged = queue->by_age.emplace(place.number, place).first;
  try {
    queue->waiting.emplace(place, std::move(node));
  } catch (...) {  // no memory
    queue->by_age.erase(aged);
    throw;
  }
  ++waiting_;
  BeginNext();
}

/// Gives the free turns to the next tasks.
void DecodePool::BeginNext() {
  while (running_ < thread_count_ && waiting_ > 0) {
    Queue* next = nullptr;
    for (auto& [client, queue] : queues_) {
      if (!queue.waiting.empty() && (next == nullptr || queue.start < next->start)) next = &queue;
    }
    TaskNode node = next->TakeNext();
    const Task& task = node.front();
    --waiting_;
    ++running_;
    now_ = std::max(now_, next->start);
    next->start += task.work;
    if (task.turn != nullptr) {
      task.turn->begun = true;
      task.turn->begins.notify_one();
    } else {
      begun_.splice(begun_.end(), node);
      changed_.notify_one();
    }
  }
}

/// Ends a turn.
void DecodePool::End() {
  --running_;
  BeginNext();
  if (ending_ && waiting_ == 0) changed_.notify_all();
}

/// Runs tasks until the pool is ending and none is left.
void DecodePool::Work() {
  ExtendMemoryOfThread();
  Lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return !begun_.empty() || (ending_ && waiting_ == 0); });
    if (begun_.empty()) return;
    TaskNode task;
    task.splice(task.end(), begun_, begun_.begin());
    lock.unlock();
    task.front().run();
    task.clear();  // destruction of what it holds may take long
    lock.lock();
    End();
  }
}

DecodePool::TaskNode DecodePool::Queue::TakeNext() {
  auto next = waiting.begin();
  if (++taken % kOldestEvery == 0) next = waiting.find(by_age.begin()->second);
  TaskNode task = std::move(next->second);
  by_age.erase(next->first.number);
  waiting.erase(next);
  return task;
}

}  // namespace quarry
