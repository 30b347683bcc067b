#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "writer/distribution/aggregation.h"
#include "writer/distribution/placement.h"

/// Predicts the cost of a writer step: exact traffic between ranks, and seconds estimated from the constants
/// of a machine. Pure functions; no MPI.
namespace quarry::model {

/// Bytes that one rank keeps and moves.
struct RankTraffic {
  std::uint64_t kept_bytes = 0;  ///< stay on the rank: copied, not sent
  std::uint64_t sent_bytes = 0;
  std::uint64_t received_bytes = 0;
  std::uint64_t sent_off_node_bytes = 0;  ///< the part of sent_bytes that leaves the node
  std::uint64_t received_off_node_bytes = 0;
  std::uint64_t messages = 0;  ///< sent and received
};

/// Bytes that all ranks move in one phase.
struct Traffic {
  std::vector<RankTraffic> ranks;
  std::uint64_t bytes_moved = 0;  ///< between different ranks
  std::uint64_t messages = 0;
  std::uint64_t rank_pairs = 0;  ///< distinct pairs of sender and receiver: messages, with one per pair
};

/// Ranks per node, in rank order; 0: one node holds all ranks.
int NodeOf(int rank, int ranks_per_node);

/// Traffic of patch parts from the ranks that own them to those that encode them: a part for each patch and
/// each rank that owns some of it but does not encode it.
/// @param sharers  FindSharers(grid, owned)
/// @param batch    parts in a message between two ranks; 0: all of them
/// @complexity O(patches and their sharers)
/// @source Robinson et al., Investigating Data Movement Strategies, section 3.2, per-patch and per-rank
Traffic ExchangeTraffic(const PatchGrid& grid, const distribution::Ownership& owned,
                        const distribution::Sharers& sharers, const distribution::Placement& placement,
                        std::size_t sample_bytes, int ranks_per_node, std::int64_t batch = 1);

/// Traffic of encoded patches from the ranks that encode them to those that write them, a message each.
/// @param morton_order  all patch indices
/// @param sizes         encoded bytes of each patch, in Morton order
Traffic TransferTraffic(std::span<const std::int64_t> morton_order, std::span<const std::uint64_t> sizes,
                        const distribution::Placement& placement, const distribution::Assignment& assignment,
                        int ranks, int ranks_per_node);

/// Traffic of everything that neighbouring ranks have encoded, to the first rank of their group: one message
/// each.
/// @param bytes   of each rank
/// @param firsts  the first rank of each group, ascending, the first is 0
Traffic GroupTraffic(std::span<const std::uint64_t> bytes, std::span<const int> firsts, int ranks_per_node);

}  // namespace quarry::model
