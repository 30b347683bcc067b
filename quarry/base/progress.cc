#include "quarry/base/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace quarry {

namespace {
constexpr auto kRedrawEvery = std::chrono::milliseconds(100);
constexpr auto kLineEvery = std::chrono::seconds(5);
constexpr int kBarWidth = 30;
}  // namespace

Progress::Progress(std::string label, std::uint64_t total, bool enabled)
    : label_(std::move(label)),
      total_(std::max<std::uint64_t>(total, 1)),
      enabled_(enabled),
      terminal_(::isatty(STDERR_FILENO) == 1),
      last_(Clock::now()) {}

Progress::~Progress() {
  if (drawn_) std::fputs("\r\033[K", stderr);
}

void Progress::Update(std::uint64_t done) {
  if (!enabled_) return;
  const Clock::time_point now = Clock::now();
  if (now - last_ < (terminal_ ? Clock::duration(kRedrawEvery) : Clock::duration(kLineEvery))) return;
  last_ = now;
  const double fraction = std::min(1.0, static_cast<double>(done) / static_cast<double>(total_));
  if (terminal_) {
    DrawBar(fraction);
  } else {
    std::fputs(fmt::format("{}: {:.0f} %\n", label_, 100 * fraction).c_str(), stderr);
  }
}

void Progress::DrawBar(double fraction) {
  const int filled = static_cast<int>(fraction * kBarWidth);
  std::fputs(fmt::format("\r{} [{}{}] {:3.0f} %", label_, std::string(static_cast<std::size_t>(filled), '#'),
                         std::string(static_cast<std::size_t>(kBarWidth - filled), ' '), 100 * fraction)
                 .c_str(),
             stderr);
  std::fflush(stderr);
  drawn_ = true;
}

}  // namespace quarry
