#include "writer/model/traffic.h"

#include <algorithm>

namespace quarry::model {
namespace {

/// Adds up moves.
class Counter {
 public:
  Counter(std::size_t ranks, int ranks_per_node) : ranks_per_node_(ranks_per_node) {
    traffic_.ranks.resize(ranks);
  }

  void Move(int from, int to, std::uint64_t bytes) {
    RankTraffic& sender = traffic_.ranks[static_cast<std::size_t>(from)];
    if (from == to) {
      sender.kept_bytes += bytes;
      return;
    }
    RankTraffic& receiver = traffic_.ranks[static_cast<std::size_t>(to)];
    sender.sent_bytes += bytes;
    receiver.received_bytes += bytes;
    ++sender.messages;
    ++receiver.messages;
    if (NodeOf(from, ranks_per_node_) != NodeOf(to, ranks_per_node_)) {
      sender.sent_off_node_bytes += bytes;
      receiver.received_off_node_bytes += bytes;
    }
    traffic_.bytes_moved += bytes;
    ++traffic_.messages;
    AddPair(static_cast<std::uint64_t>(from) << 32 | static_cast<std::uint64_t>(to));
  }

  Traffic Finish() && {
    CompactPairs();
    traffic_.rank_pairs = pairs_.size();
    return std::move(traffic_);
  }

 private:
  void AddPair(std::uint64_t pair) {
    pairs_.push_back(pair);
    if (pairs_.size() < compact_at_) return;
    CompactPairs();
    compact_at_ = std::max(kSmallest, 2 * pairs_.size());
  }

  void CompactPairs() {
    std::sort(pairs_.begin(), pairs_.end());
    pairs_.erase(std::unique(pairs_.begin(), pairs_.end()), pairs_.end());
  }

  static constexpr std::size_t kSmallest = std::size_t{1} << 20;
  const int ranks_per_node_;
  Traffic traffic_;
  std::vector<std::uint64_t> pairs_;  // with repetitions until compacted
  std::size_t compact_at_ = kSmallest;
};

}  // namespace

int NodeOf(int rank, int ranks_per_node) { return ranks_per_node > 0 ? rank / ranks_per_node : 0; }

Traffic ExchangeTraffic(const PatchGrid& grid, const distribution::Ownership& owned,
                        const distribution::Sharers& sharers, const distribution::Placement& placement,
                        std::size_t sample_bytes, int ranks_per_node) {
  Counter counter(owned.size(), ranks_per_node);
  for (std::int64_t p = 0; p < grid.patch_count(); ++p) {
    const Box patch = grid.PatchBox(p);
    for (const int rank : sharers.Of(p)) {
      std::int64_t samples = 0;
      for (const Box& box : owned[static_cast<std::size_t>(rank)]) samples += Intersect(patch, box).volume();
      counter.Move(rank, placement[static_cast<std::size_t>(p)],
                   static_cast<std::uint64_t>(samples) * sample_bytes);
    }
  }
  return std::move(counter).Finish();
}

Traffic TransferTraffic(std::span<const std::int64_t> morton_order, std::span<const std::uint64_t> sizes,
                        const distribution::Placement& placement, const distribution::Assignment& assignment,
                        int ranks, int ranks_per_node) {
  Counter counter(static_cast<std::size_t>(ranks), ranks_per_node);
  const std::size_t files = assignment.size() - 1;
  for (std::size_t f = 0; f < files; ++f) {
    const int aggregator = distribution::AggregatorRank(f, files, ranks);
    for (std::size_t i = assignment[f]; i < assignment[f + 1]; ++i)
      counter.Move(placement[static_cast<std::size_t>(morton_order[i])], aggregator, sizes[i]);
  }
  return std::move(counter).Finish();
}

}  // namespace quarry::model
