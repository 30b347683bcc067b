#include "benchmarks/reproduction/model/stack_traffic.h"

#include <algorithm>
#include <tuple>

namespace quarry::reproduction {
namespace {

/// Images that each rank decodes: whole ones, whatever part of them it needs.
void CountImages(const distribution::Ownership& owned, StackTraffic* sum) {
  for (const std::vector<Box>& boxes : owned) {
    std::int64_t images = 0;
    for (const Box& box : boxes) images += box.empty() ? 0 : box.shape()[2];
    sum->images_read += images;
    sum->images_per_rank = std::max(sum->images_per_rank, images);
  }
}

}  // namespace

TrafficTable CountTraffic(const redistribute::Layout& layout, std::size_t sample_bytes) {
  TrafficTable table{redistribute::CountRounds(layout.owned), layout.owned.size(), {}};
  table.rows.resize(table.rounds * table.ranks);
  std::tuple<std::size_t, int, int> message;  // message of the previous part
  bool any = false;
  ForEachPart(layout, [&](const redistribute::Part& part) {
    const std::int64_t bytes = part.box.volume() * static_cast<std::int64_t>(sample_bytes);
    Traffic& source = table.rows[part.owned_box * table.ranks + static_cast<std::size_t>(part.source)];
    Traffic& target = table.rows[part.owned_box * table.ranks + static_cast<std::size_t>(part.target)];
    if (part.source == part.target) {
      source.bytes_kept += bytes;
      return;
    }
    source.bytes_sent += bytes;
    target.bytes_received += bytes;
    const std::tuple next(part.owned_box, part.source, part.target);
    if (any && next == message) return;
    any = true;
    message = next;
    ++source.messages_sent;
    ++target.messages_received;
  });
  return table;
}

StackTraffic CountStackTraffic(const Index3& dims, std::size_t sample_bytes, const Index3& process_grid,
                               distribution::ReadingOrder order) {
  const auto ranks = static_cast<int>(Volume(process_grid));
  const Index3 image = {dims[0], dims[1], 1};
  const distribution::Ownership needed =
      distribution::OneBoxEach(distribution::ProcessGridBoxes(dims, process_grid));
  StackTraffic sum;
  if (order == distribution::ReadingOrder::kDirect) {
    CountImages(needed, &sum);
    sum.bytes_kept = Volume(dims) * static_cast<std::int64_t>(sample_bytes);
    return sum;
  }
  const redistribute::Layout layout{
      dims, distribution::ReadingOwnership({{0, 0, 0}, dims}, image, ranks, order), needed};
  CountImages(layout.owned, &sum);
  const TrafficTable table = CountTraffic(layout, sample_bytes);
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

}  // namespace quarry::reproduction
