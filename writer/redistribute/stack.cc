#include "writer/redistribute/stack.h"

#include "writer/redistribute/mapping.h"

namespace quarry::redistribute {

StackTraffic CountStackTraffic(const Index3& dims, std::size_t sample_bytes, const Index3& process_grid,
                               distribution::ReadingOrder order) {
  const auto ranks = static_cast<int>(Volume(process_grid));
  const Index3 image = {dims[0], dims[1], 1};
  const Layout layout{dims, distribution::ReadingOwnership({{0, 0, 0}, dims}, image, ranks, order),
                      distribution::OneBoxEach(distribution::ProcessGridBoxes(dims, process_grid))};
  const TrafficTable table = CountTraffic(layout, sample_bytes);
  StackTraffic sum;
  sum.rounds = static_cast<std::int64_t>(table.rounds);
  for (const Traffic& traffic : table.rows) {
    sum.messages += traffic.messages_sent;
    sum.bytes_moved += traffic.bytes_sent;
    sum.bytes_kept += traffic.bytes_kept;
  }
  // A chunk is what one rank reads in one round, and every rank that has one counts.
  std::size_t chunks = 0;
  for (const std::vector<Box>& boxes : layout.owned) chunks += boxes.size();
  constexpr double kMiB = 1 << 20;
  sum.mib_per_rank_per_round = static_cast<double>(sum.bytes_moved) / static_cast<double>(chunks) / kMiB;
  return sum;
}

}  // namespace quarry::redistribute
