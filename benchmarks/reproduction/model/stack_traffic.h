#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "writer/distribution/decomposition.h"
#include "writer/redistribute/mapping.h"

namespace quarry::reproduction {

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
TrafficTable CountTraffic(const redistribute::Layout& layout, std::size_t sample_bytes);

/// Cost of reading a stack of images and redistributing it to boxes.
struct StackTraffic {
  std::int64_t rounds = 0;            ///< the largest number of chunks that a rank reads
  double mib_per_rank_per_round = 0;  ///< sent to other ranks; mean over the ranks that read in a round
  std::int64_t messages = 0;     ///< all ranks and rounds; one for each pair of different ranks in a round
  std::int64_t bytes_moved = 0;  ///< from a rank to another
  std::int64_t bytes_kept = 0;   ///< read where they are needed
  std::int64_t images_read = 0;  ///< by all ranks, each time that one decodes an image
  std::int64_t images_per_rank = 0;  ///< by the rank that decodes the most
};

/// Volume(process_grid) ranks read whole images of dims[0] x dims[1] samples, one for each z: one run of
/// images each, or in turn. Then they redistribute them to the even boxes of the process grid. With kDirect
/// each rank decodes every image that its box meets, and nothing moves. Needs no MPI, and no memory for the
/// samples.
///
/// @param dims          samples x, y, images; each at least 1
/// @param sample_bytes  at least 1; the bytes of the whole stack below 2^63
/// @param process_grid  ranks along x, y, z, each at least 1; x fastest in the rank number
/// @source Marrinan et al., Automated Dynamic Data Redistribution, section IV.A and Table III
/// Example: 4096 images of 4096x2048 float32 for 3x3x3 ranks, in turn -> 152 rounds of 30.81 MiB.
StackTraffic CountStackTraffic(const Index3& dims, std::size_t sample_bytes, const Index3& process_grid,
                               distribution::ReadingOrder order);

}  // namespace quarry::reproduction
