#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "quarry/base/status.h"
#include "writer/distribution/ownership.h"

/// From what each rank owns and needs to who sends what to whom. Pure functions for any number of ranks, with
/// MPI or without.
/// @source Marrinan et al., Automated Dynamic Data Redistribution, section III
namespace quarry::redistribute {

using distribution::Ownership;

/// Both sides of a redistribution. Axes are x, y, z; a domain of fewer axes has 1 along the others.
struct Layout {
  Index3 dims{};     ///< samples of the domain
  Ownership owned;   ///< by rank; together they cover the domain once
  Ownership needed;  ///< by rank, as many as in `owned`; may overlap and leave gaps
};

/// Samples that go from a box of one rank to a box of another rank, or of the same.
struct Part {
  int source = 0;
  int target = 0;
  std::size_t owned_box = 0;   ///< number of the box among those that `source` owns: the round of the part
  std::size_t needed_box = 0;  ///< number of the box among those that `target` needs
  Box box;                     ///< in samples of the domain; not empty

  friend bool operator==(const Part&, const Part&) = default;
};

/// @errors kInvalidArgument: a dimension below 1, no bytes in a sample, or 2^63 bytes and more in the domain
Status CheckDomain(const Index3& dims, std::size_t sample_bytes);

/// Checks the boxes of one rank: owned and needed boxes lie inside the domain, and owned boxes overlap no
/// other owned box.
/// @errors kInvalidArgument with the ranks and the box
/// @complexity O(n log m) for n boxes of all ranks and m of this one
Status CheckBoxesOfRank(const Layout& layout, int rank);

/// Checks that every sample has an owner, given that CheckBoxesOfRank accepts every rank.
/// @errors kInvalidArgument with a box that no rank owns
/// @complexity O(n) if every sample has one
Status CheckComplete(const Layout& layout);

/// Both checks for all ranks; the error of the lowest rank comes first.
Status CheckLayout(const Layout& layout);

/// The largest number of boxes that a rank owns, without empty ones at the end of a list: round i moves the
/// i-th owned box of every rank.
std::size_t CountRounds(const Ownership& owned);

/// Everything that moves or stays, round by round; in a round by source, target and needed box.
/// @complexity O(n log m + parts) for n owned and m needed boxes
void ForEachPart(const Layout& layout, const std::function<void(const Part&)>& visit);

/// All parts at once.
struct Mapping {
  std::vector<Part> parts;         ///< in the order of ForEachPart
  std::vector<std::size_t> first;  ///< round i: parts first[i] up to first[i + 1]

  std::size_t rounds() const { return first.size() - 1; }
  std::span<const Part> Round(std::size_t round) const {
    return std::span(parts).subspan(first[round], first[round + 1] - first[round]);
  }
};

/// @errors kInvalidArgument as CheckLayout
Result<Mapping> MapLayout(const Layout& layout);

/// Traffic of one rank with others in one round.
struct Traffic {
  std::int64_t messages_sent = 0;  ///< ranks that get something: one message each
  std::int64_t bytes_sent = 0;
  std::int64_t messages_received = 0;
  std::int64_t bytes_received = 0;
  std::int64_t bytes_kept = 0;  ///< stay on this rank
};

struct TrafficTable {
  std::size_t rounds = 0;
  std::size_t ranks = 0;
  std::vector<Traffic> rows;  ///< rounds x ranks, ranks fastest

  const Traffic& At(std::size_t round, int rank) const {
    return rows[round * ranks + static_cast<std::size_t>(rank)];
  }
};

/// Counts without storing the parts. The layout has passed CheckLayout.
TrafficTable CountTraffic(const Layout& layout, std::size_t sample_bytes);

/// One rank's share of a mapping. Parts between two ranks are in the same order on both: by owned box, then
/// by needed box.
struct RankSchedule {
  int rank = 0;
  std::size_t rounds = 0;      ///< rounds of the whole mapping, the same on every rank
  std::vector<Box> owned;      ///< boxes of this rank
  std::vector<Box> needed;     ///< boxes of this rank
  std::vector<Part> sends;     ///< to other ranks, by target
  std::vector<Part> receives;  ///< from other ranks, by source
  std::vector<Part> copies;    ///< stay on this rank
};

/// The layout has passed CheckLayout, or is correct for other reasons.
/// @complexity O(n log m) for n boxes of all ranks and m of this one; memory for this rank's parts only
RankSchedule ScheduleForRank(const Layout& layout, int rank);

}  // namespace quarry::redistribute
