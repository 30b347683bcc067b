#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace quarry::server {

/// Connects to the server's own port from time to time, as any client does, and tells systemd that the server
/// lives. A server that nobody can reach any more is restarted by systemd, and says so in its log.
/// @source sd_notify(3): READY, WATCHDOG and STOPPING; WatchdogSec of systemd.service(5)
class Watchdog {
 public:
  /// Begins to watch, and reports the server as ready.
  /// @param address  HOST:PORT where it listens
  explicit Watchdog(std::string address);
  /// Reports that the server is stopping.
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  void Run();

  const std::string address_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::thread thread_;  ///< last: it uses the others
};

/// Whether a server at HOST:PORT takes a connection and does anything with it: says something, or closes it.
bool Answers(const std::string& address, std::chrono::milliseconds patience);

}  // namespace quarry::server
