#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

namespace quarry::server {

/// Calls back at a given time, on its own thread: for handlers that block in a write to a client that does
/// not read, and cannot check the clock themselves. Thread-safe.
class DeadlineWatch {
 public:
  using Clock = std::chrono::steady_clock;
  using Key = std::pair<Clock::time_point, std::uint64_t>;

  DeadlineWatch();
  ~DeadlineWatch();

  /// After its destruction the callback neither starts nor runs.
  class Entry {
   public:
    Entry() = default;
    Entry(DeadlineWatch* watch, Key key) : watch_(watch), key_(key) {}
    ~Entry() { Reset(); }
    Entry(Entry&& other) noexcept
        : watch_(std::exchange(other.watch_, nullptr)), key_(std::move(other.key_)) {}
    Entry& operator=(Entry&& other) noexcept {
      Reset();
      watch_ = std::exchange(other.watch_, nullptr);
      key_ = other.key_;
      return *this;
    }

   private:
    void Reset();

    DeadlineWatch* watch_ = nullptr;
    Key key_;
  };

  /// @param expired  called once, soon after `time`; must not block, nor use this object
  [[nodiscard]] Entry Add(Clock::time_point time, std::function<void()> expired);

 private:
  void Run();
  void Remove(const Key& key);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Key, std::function<void()>> entries_;
  std::uint64_t next_ = 0;
  Clock::time_point wakes_;  ///< when the thread looks next
  bool stopping_ = false;
  std::thread thread_;  ///< last: it uses the others
};

}  // namespace quarry::server
