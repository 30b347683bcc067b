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
  const auto fits = [&] { return reserved_ + bytes <= total_; };
  if (!fits() && waiting_ >= queue_) {
    return Status(
        StatusCode::kResourceExhausted,
        fmt::format("this read needs {} of memory in the server; {} of {} are in use, and {} reads wait "
                    "already, the most that may; ask again later, or for less",
                    FormatBytes(bytes), FormatBytes(reserved_), FormatBytes(total_), waiting_));
  }
  ++waiting_;
  const Status waited = Wait(&lock, fits, cancelled);
  --waiting_;
  QUARRY_RETURN_IF_ERROR(waited);
  reserved_ += bytes;
  return Reservation(this, bytes);
}

Status MemoryBudget::Wait(std::unique_lock<std::mutex>* lock, const std::function<bool()>& fits,
                          const std::function<bool()>& cancelled) {
  // Nobody signals a cancellation, so the wait looks up from time to time.
  constexpr auto kLookUp = std::chrono::milliseconds(50);
  while (!freed_.wait_for(*lock, kLookUp, fits)) {
    if (cancelled()) return {StatusCode::kCancelled, "the read was cancelled while it waited for memory"};
  }
  return Status::Ok();
}

MemoryBudget::State MemoryBudget::state() const {
  const std::lock_guard lock(mutex_);
  return {total_, reserved_, waiting_};
}

void MemoryBudget::Release(std::uint64_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    reserved_ -= bytes;
  }
  freed_.notify_all();
}

}  // namespace quarry::server
