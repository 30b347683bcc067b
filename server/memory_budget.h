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
  explicit MemoryBudget(std::uint64_t bytes) : total_(bytes) {}

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
  /// @errors kResourceExhausted: more than the whole budget; kCancelled
  Result<Reservation> Reserve(std::uint64_t bytes, const std::function<bool()>& cancelled);

 private:
  void Release(std::uint64_t bytes);

  const std::uint64_t total_;
  std::mutex mutex_;
  std::condition_variable freed_;
  std::uint64_t reserved_ = 0;
};

}  // namespace quarry::server
