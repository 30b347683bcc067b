#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace quarry {

/// Progress of long work on stderr: a bar on a terminal, otherwise a plain line every few seconds, so that
/// logs stay short. One caller at a time.
class Progress {
 public:
  /// @param enabled false: says nothing (ranks other than 0, --json)
  Progress(std::string label, std::uint64_t total, bool enabled);
  /// Removes the bar from the terminal.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void Update(std::uint64_t done);

 private:
  using Clock = std::chrono::steady_clock;

  void DrawBar(double fraction);

  const std::string label_;
  const std::uint64_t total_;
  const bool enabled_;
  const bool terminal_;
  bool drawn_ = false;
  Clock::time_point last_;
};

}  // namespace quarry
