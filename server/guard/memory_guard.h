#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

namespace quarry::server {

/// Keeps the memory of the process near its budget. Freed buffers stay with their threads, for the next read
/// (KeepFreedMemory); after minutes under many clients, the free memory between buffers in use, over all
/// threads, was more than half of the budget. It is given back when the process grows beyond a limit.
class MemoryGuard {
 public:
  /// @param budget  [bytes] of the reads
  explicit MemoryGuard(std::uint64_t budget);

  /// For a thread that has just freed much: gives it back if the process has grown beyond the limit, before
  /// another one takes as much. Thread-safe.
  void Look() const;

 private:
  const std::uint64_t limit_;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::jthread thread_;
};

}  // namespace quarry::server
