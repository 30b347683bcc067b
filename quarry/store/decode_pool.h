#pragma once

#include <compare>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

namespace quarry {

/// Decides which waiting task is next.
struct DecodePriority {
  int level = 0;            ///< coarse levels before fine ones
  std::uint64_t bytes = 0;  ///< then those of the smallest fetches
};

/// The threads that decode patches, shared by all reads of a process. They are started with the first task.
/// Thread-safe.
class DecodePool {
 public:
  /// @param threads  0: one per processor
  explicit DecodePool(int threads = 0);
  /// Waits for the tasks that were submitted.
  ~DecodePool();
  DecodePool(const DecodePool&) = delete;
  DecodePool& operator=(const DecodePool&) = delete;

  int threads() const { return thread_count_; }

  /// Runs `task` soon on one of the threads, by priority, then in the order of submission. Now and then the
  /// oldest task is next whatever its priority, so that none waits for ever. It must not throw.
  void Submit(DecodePriority priority, std::function<void()> task);

 private:
  /// The place of a waiting task: the smallest is next.
  struct Place {
    int finer = 0;  ///< the negated level
    std::uint64_t bytes = 0;
    std::uint64_t number = 0;  ///< of the submission

    friend auto operator<=>(const Place&, const Place&) = default;
  };

  void Work();
  std::function<void()> TakeNext();

  const int thread_count_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Place, std::function<void()>> waiting_;
  std::map<std::uint64_t, Place> by_age_;  ///< of the waiting tasks
  std::uint64_t submitted_ = 0;
  std::uint64_t taken_ = 0;
  bool ending_ = false;
  std::vector<std::jthread> threads_;  ///< destroyed first
};

}  // namespace quarry
