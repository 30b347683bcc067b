#include "server/memory_budget.h"

#include <chrono>

#include "quarry/base/units.h"

namespace quarry::server {

MemoryBudget::Reservation::~Reservation() {
  if (budget_ != nullptr) budget_->Release(bytes_);
}

Result<MemoryBudget::Reservation> MemoryBudget::Reserve(std::uint64_t bytes,
                                                        const std::function<bool()>& cancelled) {
  if (bytes > total_) {
    return Status(StatusCode::kResourceExhausted,
                  fmt::format("this read needs {} of memory in the server, which has {} for all; ask for a "
                              "smaller box, a coarser level, or without coarse levels first",
                              FormatBytes(bytes), FormatBytes(total_)));
  }
  std::unique_lock lock(mutex_);
  // Nobody signals a cancellation, so the wait looks up from time to time.
  constexpr auto kLookUp = std::chrono::milliseconds(50);
  while (!freed_.wait_for(lock, kLookUp, [&] { return reserved_ + bytes <= total_; })) {
    if (cancelled())
      return Status(StatusCode::kCancelled, "the read was cancelled while it waited for memory");
  }
  reserved_ += bytes;
  return Reservation(this, bytes);
}

void MemoryBudget::Release(std::uint64_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    reserved_ -= bytes;
  }
  freed_.notify_all();
}

}  // namespace quarry::server
