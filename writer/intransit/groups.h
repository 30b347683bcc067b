#pragma once

#include <algorithm>

/// Which of N writer ranks serves which of M simulation ranks: groups of consecutive ranks, as even as
/// possible, the first M mod N of them with one rank more. With fewer simulation ranks than writers the last
/// groups are empty. Example: 10 ranks for 4 writers are groups of 3, 3, 2, 2.
/// @source Marrinan et al., Automated Dynamic Data Redistribution, figure 4
namespace quarry::intransit {

/// Ranks [begin, end).
struct RankRange {
  int begin = 0;
  int end = 0;

  friend bool operator==(const RankRange&, const RankRange&) = default;
};

inline RankRange SimulationRanksOf(int writer, int simulation_ranks, int writers) {
  const int least = simulation_ranks / writers;
  const int larger = simulation_ranks % writers;
  const int begin = writer * least + std::min(writer, larger);
  return {begin, begin + least + (writer < larger ? 1 : 0)};
}

inline int WriterOf(int simulation_rank, int simulation_ranks, int writers) {
  const int least = simulation_ranks / writers;
  const int larger = simulation_ranks % writers;
  const int in_larger = larger * (least + 1);
  if (simulation_rank < in_larger) return simulation_rank / (least + 1);
  return larger + (simulation_rank - in_larger) / least;
}

}  // namespace quarry::intransit
