#pragma once

#include <functional>
#include <memory>

namespace quarry {

/// The threads that decode patches, shared by all reads of a process. Thread-safe.
class DecodePool {
 public:
  /// @param threads  0: one per processor
  explicit DecodePool(int threads = 0);
  /// Waits for the tasks that were submitted.
  ~DecodePool();
  DecodePool(const DecodePool&) = delete;
  DecodePool& operator=(const DecodePool&) = delete;

  int threads() const;

  /// Runs `task` soon on one of the threads, roughly in the order of submission. It must not throw.
  void Submit(std::function<void()> task);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace quarry
