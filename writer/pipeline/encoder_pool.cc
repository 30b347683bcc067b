#include "writer/pipeline/encoder_pool.h"

#include <exception>
#include <utility>

#include "writer/pipeline/phases.h"

namespace quarry::writer {

EncoderPool::EncoderPool(int threads, std::uint64_t most_bytes, Work work, Report report)
    : most_bytes_(most_bytes), work_(std::move(work)), report_(std::move(report)) {
  threads_.reserve(static_cast<std::size_t>(threads));
  try {
    for (int t = 0; t < threads; ++t) threads_.emplace_back([this] { Run(); });
  } catch (const std::exception&) {  // no more threads, or no memory for one
    if (threads_.empty()) throw;
  }
}

EncoderPool::~EncoderPool() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  submitted_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

template <typename Condition>
void EncoderPool::WaitUntil(std::unique_lock<std::mutex>* lock, Condition condition) {
  if (condition()) return;
  const auto begin = std::chrono::steady_clock::now();
  encoded_.wait(*lock, condition);
  waited_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void EncoderPool::Reserve(std::uint64_t bytes) {
  std::unique_lock lock(mutex_);
  WaitUntil(&lock, [&] { return reserved_ + bytes <= most_bytes_ || (queue_.empty() && encoding_ == 0); });
  reserved_ += bytes;
}

void EncoderPool::Release(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  reserved_ -= bytes;
}

void EncoderPool::Submit(PatchSamples patch) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(patch));
  }
  submitted_.notify_one();
}

Status EncoderPool::Drain() {
  std::unique_lock lock(mutex_);
  WaitUntil(&lock, [&] { return queue_.empty() && encoding_ == 0; });
  return first_error_;
}

Status EncoderPool::status() const {
  const std::lock_guard lock(mutex_);
  return first_error_;
}

void EncoderPool::Run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    submitted_.wait(lock, [&] { return stop_ || !queue_.empty(); });
    if (stop_) return;
    EncodeNext(&lock);
    encoded_.notify_one();
  }
}

void EncoderPool::EncodeNext(std::unique_lock<std::mutex>* lock) {
  PatchSamples patch = std::move(queue_.front());
  queue_.pop_front();
  ++encoding_;
  const std::uint64_t bytes = patch.samples.size();
  Status status = first_error_;
  lock->unlock();
  if (status.ok()) status = Guarded([&] { return work_(patch); });
  patch = PatchSamples();
  lock->lock();
  --encoding_;
  reserved_ -= bytes;
  if (first_error_.ok()) first_error_ = std::move(status);
  report_(++done_);
}

}  // namespace quarry::writer
