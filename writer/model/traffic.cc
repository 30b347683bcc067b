#include "writer/model/traffic.h"

#include <algorithm>

namespace quarry::model {
namespace {

/// Adds up moves.
class Counter {
 public:
  /// @param batch  moves in a message between two ranks; 0: all of them
  Counter(std::size_t ranks, int ranks_per_node, std::int64_t batch)
      : ranks_per_node_(ranks_per_node), batch_(static_cast<std::uint64_t>(batch)) {
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
    if (NodeOf(from, ranks_per_node_) != NodeOf(to, ranks_per_node_)) {
      sender.sent_off_node_bytes += bytes;
      receiver.received_off_node_bytes += bytes;
    }
    traffic_.bytes_moved += bytes;
    AddPair(static_cast<std::uint64_t>(from) << 32 | static_cast<std::uint64_t>(to));
  }

  Traffic Finish() && {
    CompactPairs();
    traffic_.rank_pairs = pairs_.size();
    for (const Pair& pair : pairs_) {
      const std::uint64_t messages = batch_ == 0 ? 1 : (pair.moves + batch_ - 1) / batch_;
      traffic_.messages += messages;
      traffic_.ranks[pair.ranks >> 32].messages += messages;
      traffic_.ranks[pair.ranks & 0xFFFFFFFFU].messages += messages;
    }
    return std::move(traffic_);
  }

 private:
  struct Pair {
    std::uint64_t ranks = 0;  ///< sender << 32 | receiver
    std::uint64_t moves = 0;
  };

  void AddPair(std::uint64_t ranks) {
    pairs_.push_back({ranks, 1});
    if (pairs_.size() < compact_at_) return;
    CompactPairs();
    compact_at_ = std::max(kSmallest, 2 * pairs_.size());
  }

  void CompactPairs() {
    std::sort(pairs_.begin(), pairs_.end(), [](const Pair& a, const Pair& b) { return a.ranks < b.ranks; });
    std::size_t last = 0;
    for (std::size_t i = 1; i < pairs_.size(); ++i) {
      if (pairs_[i].ranks == pairs_[last].ranks) {
        pairs_[last].moves += pairs_[i].moves;
      } else {
        pairs_[++last] = pairs_[i];
      }
    }
    pairs_.resize(std::min(pairs_.size(), last + 1));
  }

  static constexpr std::size_t kSmallest = std::size_t{1} << 20;
  const int ranks_per_node_;
  const std::uint64_t batch_;
  Traffic traffic_;
  std::vector<Pair> pairs_;  // with repetitions until compacted
  std::size_t compact_at_ = kSmallest;
};

}  // namespace

int NodeOf(int rank, int ranks_per_node) { return ranks_per_node > 0 ? rank / ranks_per_node : 0; }

Traffic ExchangeTraffic(const PatchGrid& grid, const distribution::Ownership& owned,
                        const distribution::Sharers& sharers, const distribution::Placement& placement,
                        std::size_t sample_bytes, int ranks_per_node, std::int64_t batch) {
  Counter counter(owned.size(), ranks_per_node, batch);
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
  Counter counter(static_cast<std::size_t>(ranks), ranks_per_node, 1);
  const std::size_t files = assignment.size() - 1;
  for (std::size_t f = 0; f < files; ++f) {
    const int aggregator = distribution::AggregatorRank(f, files, ranks);
    for (std::size_t i = assignment[f]; i < assignment[f + 1]; ++i)
      counter.Move(placement[static_cast<std::size_t>(morton_order[i])], aggregator, sizes[i]);
  }
  return std::move(counter).Finish();
}

Traffic GroupTraffic(std::span<const std::uint64_t> bytes, std::span<const int> firsts, int ranks_per_node) {
  Counter counter(bytes.size(), ranks_per_node, 1);
  std::size_t group = 0;
  for (std::size_t rank = 0; rank < bytes.size(); ++rank) {
    if (group + 1 < firsts.size() && firsts[group + 1] <= static_cast<int>(rank)) ++group;
    counter.Move(static_cast<int>(rank), firsts[group], bytes[rank]);
  }
  return std::move(counter).Finish();
}

}  // namespace quarry::model
