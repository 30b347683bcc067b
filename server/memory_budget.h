#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>

#include "quarry/base/status.h"

namespace quarry::server {

/// The memory that all reads together may take. A read asks for what it will need at most before it begins,
/// and waits until that is free; one that could never fit is refused at once. Thread-safe.
class MemoryBudget {
 public:
  /// @param queue  most reads that may wait for memory at a time
  explicit MemoryBudget(std::uint64_t bytes, std::size_t queue = SIZE_MAX) : total_(bytes), queue_(queue) {}

  /// How things are at this moment.
  struct State {
    std::uint64_t total = 0;
    std::uint64_t reserved = 0;
    std::size_t waiting = 0;  ///< reads
  };
  State state() const;

  /// Gives its bytes back when it goes.
  class Reservation {
   public:
    Reservation(MemoryBudget* budget, std::uint64_t bytes) : budget_(budget), bytes_(bytes) {}
    ~Reservation();
    Reservation(Reservation&& other) noexcept : budget_(other.budget_), bytes_(other.bytes_) {
      other.budget_ = nullptr;
    }
    Reservation(const Reservation&) = delete;
    Reservation& operator=(const Reservation&) = delete;

   private:
    MemoryBudget* budget_;
    std::uint64_t bytes_;
  };

  /// @param cancelled  asked while waiting
  /// @errors kResourceExhausted: more than the whole budget, or too many wait already; kCancelled
  Result<Reservation> Reserve(std::uint64_t bytes, const std::function<bool()>& cancelled);

 private:
  Status Wait(std::unique_lock<std::mutex>* lock, const std::function<bool()>& fits,
              const std::function<bool()>& cancelled);
  void Release(std::uint64_t bytes);

  const std::uint64_t total_;
  const std::size_t queue_;
  mutable std::mutex mutex_;
  std::condition_variable freed_;
  std::uint64_t reserved_ = 0;
  std::size_t waiting_ = 0;
};

}  // namespace quarry::server
