#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace quarry {

/// What decides which of the tasks that wait is next.
struct DecodePriority {
  int level = 0;            ///< coarse levels before fine ones
  std::uint64_t bytes = 0;  ///< then those of reads that have the least payload still to come
};

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

  /// Runs `task` soon on one of the threads, in the order of priority, equals in the order of submission.
  /// Now and then the oldest task is next whatever its priority, so that none waits for ever. It must not
  /// throw.
  void Submit(DecodePriority priority, std::function<void()> task);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace quarry
