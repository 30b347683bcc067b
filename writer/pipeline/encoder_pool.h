#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "quarry/base/status.h"
#include "writer/pipeline/encode.h"

namespace quarry::writer {

/// Threads that encode whole patches while their caller reads and exchanges the next ones. They never call
/// MPI. All methods are for one thread, the caller's.
class EncoderPool {
 public:
  /// Encodes a patch and stores the result; runs on several threads at a time.
  using Work = std::function<Status(const PatchSamples&)>;
  /// Gets the number of patches that are done, from one thread at a time.
  using Report = std::function<void(std::size_t)>;

  /// @param most_bytes  of samples that are reserved at a time
  /// @errors throws where the system gives no thread at all; fewer encode as well, only slower
  EncoderPool(int threads, std::uint64_t most_bytes, Work work, Report report);
  /// Waits for patches that are being encoded, and drops the others.
  ~EncoderPool();
  EncoderPool(const EncoderPool&) = delete;
  EncoderPool& operator=(const EncoderPool&) = delete;

  /// Makes room for the samples of a patch, which Submit or Release gives back. Waits for room as long as
  /// patches are being encoded; after that the caller alone holds the samples, and gets more than its share
  /// rather than wait forever.
  void Reserve(std::uint64_t bytes);
  void Release(std::uint64_t bytes);
  /// Encodes a patch whose samples are reserved. After an error, patches are dropped.
  void Submit(PatchSamples patch);
  /// Waits until nothing is left to encode. @returns the first error
  Status Drain();
  /// The first error so far.
  Status status() const;

  /// Seconds that the caller has spent in Reserve and Drain.
  double waited() const { return waited_; }

 private:
  void Run();
  /// Encodes the first patch of the queue, without the lock.
  void EncodeNext(std::unique_lock<std::mutex>* lock);
  template <typename Condition>
  void WaitUntil(std::unique_lock<std::mutex>* lock, Condition condition);

  const std::uint64_t most_bytes_;
  const Work work_;
  const Report report_;
  double waited_ = 0;
  mutable std::mutex mutex_;  ///< guards everything below
  std::condition_variable submitted_;
  std::condition_variable encoded_;
  std::deque<PatchSamples> queue_;
  std::size_t encoding_ = 0;  ///< patches that threads are working on
  std::size_t done_ = 0;
  std::uint64_t reserved_ = 0;
  bool stop_ = false;
  Status first_error_;
  std::vector<std::thread> threads_;
};

}  // namespace quarry::writer
