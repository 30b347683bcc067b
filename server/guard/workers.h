#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace quarry::server {

/// Threads for work that blocks: as many as there is work at a time, up to a limit, beyond which work waits.
/// A thread that finishes its work waits for more. Thread-safe.
class Workers {
 public:
  /// @param threads  most of them
  explicit Workers(std::size_t threads) : threads_limit_(threads) {}
  ~Workers() { Finish(); }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  /// @param work  must not throw
  /// @returns false if there is no thread, and none can be made; the work is not done then
  bool Run(std::function<void()> work);

  /// Waits for all work to end, also for what running work gives meanwhile. Nobody else gives any from then
  /// on.
  void Finish();

 private:
  bool AddThread();
  void Loop();

  const std::size_t threads_limit_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;
  std::size_t idle_ = 0;    ///< threads that wait for work
  bool finishing_ = false;  ///< no thread is added
  std::vector<std::thread> threads_;
};

}  // namespace quarry::server
