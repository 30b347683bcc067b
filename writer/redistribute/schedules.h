#pragma once

#include "quarry/redistribute.h"
#include "writer/redistribute/mapping.h"

namespace quarry::redistribute {

/// The schedules of redistributions, for code that knows the boxes of all ranks.
class Schedules {
 public:
  /// Instead of Redistribution::Map: no communication, and no checks. Method::kAutomatic is then
  /// kPointToPoint: no rank knows what the others send.
  /// @param schedule  from ScheduleForRank, with the same layout on every rank; one that CheckLayout accepts
  static void Use(RankSchedule schedule, Redistribution* redistribution);

  /// Schedule of this rank: boxes sent, received and kept; null before Map or Use.
  static const RankSchedule* Of(const Redistribution& redistribution);
};

}  // namespace quarry::redistribute
