#include "writer/model/cost_model.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "writer/model/file_system.h"

namespace quarry::model {
namespace {

int RanksPerNode(const Machine& machine, int ranks) {
  if (machine.ranks_per_node < 1) return ranks;
  return static_cast<int>(std::min(machine.ranks_per_node, static_cast<double>(ranks)));
}

/// Sums of `value` over the ranks of each node.
template <typename Value>
std::vector<double> SumPerNode(std::size_t ranks, int ranks_per_node, Value value) {
  std::vector<double> sums;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const auto node = static_cast<std::size_t>(NodeOf(static_cast<int>(rank), ranks_per_node));
    if (node == sums.size()) sums.push_back(0);
    sums[node] += value(rank);
  }
  return sums;
}

double Largest(const std::vector<double>& values) { return *std::max_element(values.begin(), values.end()); }

/// The calculation of one prediction, phase by phase.
class Calculation {
 public:
  Calculation(const Machine& machine, const Workload& workload)
      : machine_(machine),
        workload_(workload),
        grid_(workload.grid),
        ranks_(workload.owned.size()),
        ranks_per_node_(RanksPerNode(machine, static_cast<int>(ranks_))) {}

  Prediction Run() {
    Plan();
    Start();
    if (workload_.from_file) Read();
    Exchange();
    Encode();
    Assign();
    Transfer();
    Write();
    return std::move(prediction_);
  }

 private:
  PhaseSeconds& At(Phase phase) { return prediction_.phases[static_cast<std::size_t>(phase)]; }

  /// Coder threads: the node's cores divided among its ranks, limited to what a rank may use.
  double Threads() const {
    const double share = std::max(1.0, std::floor(machine_.cores_per_node / ranks_per_node_));
    return machine_.cores_per_rank > 0 ? std::min(share, machine_.cores_per_rank) : share;
  }

  distribution::CurvePieces Pieces() const {
    return {static_cast<std::uint64_t>(grid_.patch_count()), static_cast<int>(ranks_)};
  }

  double Latency() const { return prediction_.nodes > 1 ? machine_.network_latency_s : 0; }

  /// A reduction or broadcast over all ranks: a message up and down a tree. Where ranks share cores, each
  /// level waits for its turn.
  double CollectiveSeconds() const {
    const double depth = std::bit_width(ranks_ - 1);
    const double turns = std::max(1.0, ranks_per_node_ / machine_.cores_per_node);
    return 2 * depth * (Latency() + turns * machine_.message_overhead_s);
  }

  double SampleBytes(const Box& box) const {
    return static_cast<double>(box.volume()) * static_cast<double>(workload_.sample_bytes);
  }

  double OwnedBytes(std::size_t rank) const {
    double bytes = 0;
    for (const Box& box : workload_.owned[rank]) bytes += SampleBytes(box);
    return bytes;
  }

  /// Counts what moves: exactly what the writer does, on numbers instead of samples.
  void Plan() {
    const auto ranks = static_cast<int>(ranks_);
    const distribution::Sharers sharers = distribution::FindSharers(grid_, workload_.owned);
    placement_ = distribution::PlacePatches(grid_, workload_.owned, workload_.placement,
                                            distribution::TargetCounts(grid_.patch_count(), ranks));
    morton_order_ = grid_.MortonOrder();
    prediction_.ranks = ranks;
    prediction_.nodes = NodeOf(ranks - 1, ranks_per_node_) + 1;
    prediction_.patches = grid_.patch_count();
    prediction_.bytes_in = static_cast<std::uint64_t>(SampleBytes(grid_.domain()));
    const auto counts = distribution::CountPerRank(placement_, ranks);
    prediction_.most_patches_per_rank = *std::max_element(counts.begin(), counts.end());
    prediction_.exchange = ExchangeTraffic(grid_, workload_.owned, sharers, placement_,
                                           workload_.sample_bytes, ranks_per_node_, workload_.exchange_batch);
    PlanSizes();
    if (workload_.pipeline == Pipeline::kAggregated) {
      PlanAggregation();
    } else {
      PlanGroups();
    }
    prediction_.files = files_.bytes.size();
    prediction_.largest_file = *std::max_element(files_.bytes.begin(), files_.bytes.end());
    prediction_.bytes_out = std::accumulate(files_.bytes.begin(), files_.bytes.end(), std::uint64_t{0});
  }

  /// The payload of each patch.
  void PlanSizes() {
    const double ratio = workload_.ratio > 0 ? workload_.ratio : machine_.compression_ratio;
    const auto weight = [&](std::int64_t patch) {
      return workload_.patch_weights.empty()
                 ? static_cast<double>(grid_.PatchBox(patch).volume())
                 : static_cast<double>(workload_.patch_weights[static_cast<std::size_t>(patch)]);
    };
    double weights = 0;
    for (const std::int64_t patch : morton_order_) weights += weight(patch);
    const double bytes_per_weight =
        static_cast<double>(prediction_.bytes_in) / ratio / std::max(weights, 1.0);
    for (const std::int64_t patch : morton_order_)
      sizes_.push_back(static_cast<std::uint64_t>(std::llround(weight(patch) * bytes_per_weight)));
  }

  void PlanAggregation() {
    const std::size_t files = distribution::UsableFiles(sizes_.size(), workload_.files);
    const distribution::Assignment assignment =
        distribution::AssignPatches(sizes_, files, workload_.aggregation);
    for (std::size_t f = 0; f < files; ++f) {
      const auto first = sizes_.begin();
      files_.bytes.push_back(std::accumulate(first + static_cast<std::ptrdiff_t>(assignment[f]),
                                             first + static_cast<std::ptrdiff_t>(assignment[f + 1]),
                                             std::uint64_t{0}));
      files_.writers.push_back(distribution::AggregatorRank(f, files, prediction_.ranks));
      most_parts_ = std::max(most_parts_, assignment[f + 1] - assignment[f]);
    }
    prediction_.transfer =
        TransferTraffic(morton_order_, sizes_, placement_, assignment, prediction_.ranks, ranks_per_node_);
    std::vector<int> encoders;
    encoders.reserve(morton_order_.size());
    for (const std::int64_t patch : morton_order_)
      encoders.push_back(placement_[static_cast<std::size_t>(patch)]);
    tables_ = CountTables({encoders, sizes_}, Pieces(), files, workload_.aggregation, prediction_.ranks);
    prediction_.tables = MostOf(tables_);
  }

  /// Ranks keep their patches, or give all of them to the first rank of their group.
  void PlanGroups() {
    std::vector<std::uint64_t> of_rank(ranks_, 0);
    for (std::size_t i = 0; i < morton_order_.size(); ++i)
      of_rank[static_cast<std::size_t>(placement_[static_cast<std::size_t>(morton_order_[i])])] += sizes_[i];
    const std::size_t groups = workload_.pipeline == Pipeline::kFilePerRank ? ranks_
                               : workload_.pipeline == Pipeline::kCollective
                                   ? 1
                                   : std::min(workload_.files, ranks_);
    for (std::size_t g = 0; g < groups; ++g) {
      const std::size_t first = g * ranks_ / groups;
      const std::size_t last = (g + 1) * ranks_ / groups;
      files_.writers.push_back(static_cast<int>(first));
      files_.bytes.push_back(0);
      for (std::size_t rank = first; rank < last; ++rank) files_.bytes[g] += of_rank[rank];
    }
    prediction_.transfer = workload_.pipeline == Pipeline::kGroupCollective
                               ? GroupTraffic(of_rank, files_.writers, ranks_per_node_)
                               : Traffic{.ranks = std::vector<RankTraffic>(ranks_)};
  }

  /// Every rank computes the whole placement.
  void Start() {
    const double placing = machine_.place_s_per_patch * static_cast<double>(grid_.patch_count());
    At(Phase::kStart).cores = machine_.startup_s + machine_.startup_s_per_rank * ranks_per_node_ +
                              CoreSeconds(machine_, std::vector<double>(ranks_, placing), 1);
  }

  void Read() {
    std::vector<double> scanning(ranks_);
    double most = 0;
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      const double bytes = OwnedBytes(rank);
      scanning[rank] = bytes / machine_.scan_bandwidth_bytes_per_s;
      most = std::max(most, bytes);
    }
    PhaseSeconds& seconds = At(Phase::kRead);
    seconds.cores = CoreSeconds(machine_, scanning, 1) + 3 * CollectiveSeconds();
    seconds.file_system =
        std::max(most / machine_.read_bandwidth_rank_bytes_per_s,
                 static_cast<double>(prediction_.bytes_in) / machine_.read_bandwidth_total_bytes_per_s);
  }

  /// Seconds of moving bytes between ranks.
  /// @param gather_s_per_byte  seconds of each end to pack or unpack a byte of a message
  void Move(const Traffic& traffic, double gather_s_per_byte, double kept_s_per_byte, PhaseSeconds* seconds) {
    std::vector<double> work(ranks_);
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      const RankTraffic& moved = traffic.ranks[rank];
      const auto sent = static_cast<double>(moved.sent_bytes);
      const auto received = static_cast<double>(moved.received_bytes);
      work[rank] = static_cast<double>(moved.kept_bytes) * kept_s_per_byte +
                   (sent + received) * gather_s_per_byte + sent / machine_.send_bandwidth_bytes_per_s +
                   received / machine_.receive_bandwidth_bytes_per_s +
                   static_cast<double>(moved.messages) * machine_.message_overhead_s;
    }
    seconds->cores = CoreSeconds(machine_, work, 1);

    // Equation 2: bytes between the cores of a node and its memory, over its bandwidth. Each end of a message
    // copies twice: from or to the message, and between message and samples.
    const double kept_copies = kept_s_per_byte > 0 ? 1 : 0;
    const auto copied = SumPerNode(ranks_, ranks_per_node_, [&](std::size_t rank) {
      const RankTraffic& moved = traffic.ranks[rank];
      return kept_copies * static_cast<double>(moved.kept_bytes) +
             static_cast<double>(moved.sent_bytes + moved.received_bytes) * (gather_s_per_byte > 0 ? 2 : 1);
    });
    seconds->memory = Largest(copied) / machine_.memory_bandwidth_bytes_per_s;

    const auto sent = SumPerNode(ranks_, ranks_per_node_, [&](std::size_t rank) {
      return static_cast<double>(traffic.ranks[rank].sent_off_node_bytes);
    });
    const auto received = SumPerNode(ranks_, ranks_per_node_, [&](std::size_t rank) {
      return static_cast<double>(traffic.ranks[rank].received_off_node_bytes);
    });
    const double mean = std::accumulate(sent.begin(), sent.end(), 0.0) / static_cast<double>(sent.size());
    seconds->network = NetworkSeconds(NetworkOf(machine_), prediction_.nodes,
                                      std::max(Largest(sent), Largest(received)), mean);
  }

  void Exchange() {
    const double gather = 1 / machine_.gather_bandwidth_bytes_per_s;
    Move(prediction_.exchange, gather, gather, &At(Phase::kExchange));
  }

  /// Equation 1: the largest load over the speed of its cores, both in bytes of samples. The
  /// constant, measured with all cores busy, includes the memory term.
  void Encode() {
    std::vector<double> work(ranks_, 0);
    double largest_patch = 0;
    for (std::int64_t patch = 0; patch < grid_.patch_count(); ++patch) {
      const double seconds = SampleBytes(grid_.PatchBox(patch)) * machine_.encode_s_per_byte;
      work[static_cast<std::size_t>(placement_[static_cast<std::size_t>(patch)])] += seconds;
      largest_patch = std::max(largest_patch, seconds);
    }
    // A patch is encoded by one thread.
    At(Phase::kEncode).cores =
        std::max(CoreSeconds(machine_, work, Threads()), largest_patch) + CollectiveSeconds();
  }

  void Assign() {
    if (workload_.pipeline != Pipeline::kAggregated) return;
    if (machine_.gathered_bytes_per_patch > 0) {
      AssignEverywhere();
    } else {
      AssignInPieces();
    }
  }

  /// Every rank gathers all sizes and cuts the whole curve.
  void AssignEverywhere() {
    const auto patches = static_cast<double>(grid_.patch_count());
    const std::vector<double> cutting(ranks_, machine_.assign_s_per_patch * patches);
    PhaseSeconds& seconds = At(Phase::kAssign);
    seconds.cores = CoreSeconds(machine_, cutting, 1) + 2 * CollectiveSeconds();
    if (prediction_.nodes > 1) {
      seconds.network = machine_.gathered_bytes_per_patch * patches / machine_.network_bandwidth_bytes_per_s;
    }
  }

  /// Ranks with pieces of the curve get the sizes there and cut it, one after the other; numbers about
  /// patches go to the ranks that need them.
  void AssignInPieces() {
    const distribution::CurvePieces pieces = Pieces();
    std::vector<double> work(ranks_, 0);
    for (std::size_t rank = 0; rank < ranks_; ++rank)
      work[rank] = static_cast<double>(tables_[rank].messages) * machine_.message_overhead_s;
    for (std::size_t p = 0; p < pieces.count(); ++p) {
      const auto patches = static_cast<double>(pieces.begin(p + 1) - pieces.begin(p));
      work[static_cast<std::size_t>(pieces.RankOf(p))] += machine_.assign_s_per_patch * patches;
    }
    PhaseSeconds& seconds = At(Phase::kAssign);
    // A search of the bound, and two passes more.
    constexpr double kPasses = 8;
    seconds.cores =
        CoreSeconds(machine_, work, 1) + kPasses * CollectiveSeconds() +
        kPasses * static_cast<double>(pieces.count() - 1) * (Latency() + machine_.message_overhead_s);
    if (prediction_.nodes > 1) {
      seconds.network =
          static_cast<double>(prediction_.tables.message_bytes) / machine_.network_bandwidth_bytes_per_s;
    }
  }

  void Transfer() {
    Move(prediction_.transfer, 0, 0, &At(Phase::kTransfer));
    At(Phase::kTransfer).cores += static_cast<double>(most_parts_) * machine_.part_s;
  }

  void Write() {
    PhaseSeconds& seconds = At(Phase::kWrite);
    const WriteSeconds writing = workload_.pipeline == Pipeline::kCollective
                                     ? SecondsOfSharedFile(machine_, prediction_.bytes_out, prediction_.nodes)
                                     : SecondsOfFiles(machine_, files_, ranks_per_node_);
    seconds.file_system = writing.total() + machine_.publish_s;
    seconds.cores = 4 * CollectiveSeconds();
  }

  const Machine& machine_;
  const Workload& workload_;
  const PatchGrid& grid_;
  const std::size_t ranks_;
  const int ranks_per_node_;

  Prediction prediction_;
  distribution::Placement placement_;
  std::vector<std::int64_t> morton_order_;
  std::vector<std::uint64_t> sizes_;  // in Morton order
  std::vector<RankTables> tables_;
  WrittenFiles files_;
  std::size_t most_parts_ = 0;  ///< patches of the aggregator with the most
};

}  // namespace

double Prediction::total_seconds() const {
  return std::accumulate(phases.begin(), phases.end(), 0.0,
                         [](double sum, const PhaseSeconds& phase) { return sum + phase.total(); });
}

double CoreSeconds(const Machine& machine, std::span<const double> work, double threads) {
  const int ranks_per_node = RanksPerNode(machine, static_cast<int>(work.size()));
  double longest = 0;
  for (std::size_t first = 0; first < work.size(); first += static_cast<std::size_t>(ranks_per_node)) {
    const auto node =
        work.subspan(first, std::min(static_cast<std::size_t>(ranks_per_node), work.size() - first));
    const double cores = std::min(machine.cores_per_node, threads * static_cast<double>(node.size()));
    longest = std::max(longest, std::accumulate(node.begin(), node.end(), 0.0) / cores);
    for (const double seconds : node) longest = std::max(longest, seconds / threads);
  }
  return longest;
}

Prediction Predict(const Machine& machine, const Workload& workload) {
  return Calculation(machine, workload).Run();
}

}  // namespace quarry::model
