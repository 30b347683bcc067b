#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

namespace quarry::server {

/// Keeps the memory of the process near its budget. Freed buffers stay with the threads that had them, for the
/// next read (KeepFreedMemory); after minutes under many clients, what lies free between buffers in use, thread
/// by thread, was more than half of the budget. It is given back when the process has grown beyond a limit.
class MemoryGuard {
 public:
  /// @param budget  [bytes] of the reads
  explicit MemoryGuard(std::uint64_t budget);

 private:
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::jthread thread_;
};

}  // namespace quarry::server
