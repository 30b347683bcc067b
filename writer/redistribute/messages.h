#pragma once

#include <span>
#include <vector>

#include "quarry/box_view.h"
#include "writer/redistribute/datatype.h"
#include "writer/redistribute/mapping.h"

namespace quarry::redistribute {

/// The parts that travel together: [first, last) of the sends or the receives of a schedule.
struct Message {
  int peer = 0;
  std::size_t round = 0;  ///< round of the first part
  std::size_t first = 0;
  std::size_t last = 0;
};

/// Parts of the same peer and round; the messages of MPI_Alltoallw. By round.
/// @param peer  &Part::target for sends, &Part::source for receives
std::vector<Message> GroupByRound(const std::vector<Part>& parts, int Part::*peer);

/// Parts of the same peer, at most `batch` in a message; all of them if that is 0. Both sides have the parts
/// in the same order, so that the n-th message from one rank to another is the same on both.
std::vector<Message> GroupByPeer(const std::vector<Part>& parts, int Part::*peer, std::int64_t batch);

/// The samples of a message, to be sent from or received at MPI_BOTTOM.
/// @param boxes   that the parts are cut from on this side
/// @param number  &Part::owned_box for sends, &Part::needed_box for receives
/// @param views   one for each of `boxes`
Result<Datatype> TypeOf(std::span<const Part> parts, const std::vector<Box>& boxes, std::size_t Part::*number,
                        std::span<const BoxView> views, std::size_t sample_bytes);

}  // namespace quarry::redistribute
