#include "quarry/storage/threaded_reading.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "quarry/storage/helper_threads.h"

namespace quarry {
namespace {

class ThreadedReading final : public Reading {
 public:
  ThreadedReading(std::vector<ReadRange> ranges, RangeDone done)
      : ranges_(std::move(ranges)), done_(std::move(done)) {}
  ~ThreadedReading() override {
    stopped_ = true;
    Work();
    helpers_.clear();
  }

  void Start(std::size_t most) {
    helpers_ = StartHelpers(std::min(most, ranges_.size()), [this] { Work(); });
    if (helpers_.empty()) Work();
  }

  Status Wait(const std::function<bool()>& cancelled) override {
    constexpr auto kLookUp = std::chrono::milliseconds(20);
    std::unique_lock lock(mutex_);
    while (true) {
      lock.unlock();
      if (cancelled()) stopped_ = true;
      lock.lock();
      if (ended_ == ranges_.size()) break;
      all_ended_.wait_for(lock, kLookUp);
    }
    return stopped_ ? Status(StatusCode::kCancelled, "the read was cancelled") : Status::Ok();
  }

 private:
  void Work() {
    for (std::size_t next = next_++; next < ranges_.size(); next = next_++) {
      const ReadRange& range = ranges_[next];
      done_(next, stopped_ ? Status(StatusCode::kCancelled, "the read was cancelled") : Read(range));
      const std::lock_guard lock(mutex_);
      if (++ended_ == ranges_.size()) all_ended_.notify_all();
    }
  }

  /// An exception would end the process.
  static Status Read(const ReadRange& range) {
    try {
      return range.object->ReadAt(range.offset, range.out);
    } catch (const std::exception&) {
      return {StatusCode::kResourceExhausted, "there is no memory to read with"};
    }
  }

  const std::vector<ReadRange> ranges_;
  const RangeDone done_;
  std::atomic<std::size_t> next_ = 0;
  std::atomic<bool> stopped_ = false;
  std::mutex mutex_;
  std::condition_variable all_ended_;
  std::size_t ended_ = 0;              ///< ranges that were reported; guarded by the mutex
  std::vector<std::jthread> helpers_;  ///< destroyed first
};

}  // namespace

std::unique_ptr<Reading> BeginOnThreads(std::vector<ReadRange> ranges, RangeDone done, std::size_t most) {
  auto reading = std::make_unique<ThreadedReading>(std::move(ranges), std::move(done));
  reading->Start(most);
  return reading;
}

}  // namespace quarry
