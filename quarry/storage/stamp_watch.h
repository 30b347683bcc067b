#pragma once

#include <optional>

#include "quarry/storage/storage.h"

namespace quarry {

/// Knows from stamps whether data that were read are still current. A stamp settles when we have known it for
/// longer than a tick: the clock of the storage may be wrong by any amount. Until then a stamp that is old by
/// that clock counts as settled after one look, so that not each of the first questions lists the steps; if
/// the clock is wrong, a change is seen a tick late. One caller at a time.
class StampWatch {
 public:
  /// To be called before each look, with the stamp as it is now.
  /// @returns whether the last complete look still holds; if not, look again
  bool Holds(const Stamp& now, std::chrono::milliseconds tick) {
    const Clock::time_point time = Clock::now();
    if (stamp_ != now) {
      stamp_ = now;
      first_seen_ = time;
      settled_ = presumed_ = false;
    }
    settling_ = time - first_seen_ >= tick;
    return settled_ || (presumed_ && !settling_);
  }
  /// The look that began after the last call of Holds is complete.
  void Looked() {
    settled_ = settling_;
    presumed_ = stamp_->old;
  }
  /// Whether this is another stamp than that of the last call of Holds.
  bool Differs(const Stamp& now) const { return stamp_ != now; }

 private:
  using Clock = std::chrono::steady_clock;

  std::optional<Stamp> stamp_;
  Clock::time_point first_seen_;
  bool settling_ = false;  ///< a look now sees every change that leaves this stamp
  bool settled_ = false;   ///< and so did the last complete look
  bool presumed_ = false;  ///< the last complete look probably did
};

}  // namespace quarry
