#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
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

/// Puts the parts into the order of RankSchedule.
void SortParts(RankSchedule* schedule);

/// The layout has passed CheckLayout, or is correct for other reasons.
/// @complexity O(n log m) for n boxes of all ranks and m of this one; memory for this rank's parts only
RankSchedule ScheduleForRank(const Layout& layout, int rank);

}  // namespace quarry::redistribute
