#include "writer/model/file_system.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "writer/model/traffic.h"

namespace quarry::model {
namespace {

double Sum(std::span<const std::uint64_t> values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

/// Bytes over a bandwidth that 0 says nothing limits.
double Over(double bytes, double bandwidth) { return bandwidth > 0 ? bytes / bandwidth : 0; }

/// Files are spread over the targets at random, each on one.
double FullestTarget(const Machine& machine, std::span<const std::uint64_t> bytes) {
  const double targets = machine.storage_targets;
  double squares = 0;
  for (const std::uint64_t b : bytes) squares += static_cast<double>(b) * static_cast<double>(b);
  const double mean = Sum(bytes) / targets;
  const auto largest = static_cast<double>(*std::max_element(bytes.begin(), bytes.end()));
  return std::max(mean + LargestOfNormals(targets) * std::sqrt(squares / targets), largest);
}

struct Busiest {
  double bytes_of_writer = 0;
  double bytes_of_node = 0;
  double files_of_writer = 0;
};

Busiest FindBusiest(const WrittenFiles& files, int ranks_per_node) {
  std::map<int, double> writers;
  std::map<int, double> nodes;
  std::map<int, double> counts;
  for (std::size_t f = 0; f < files.bytes.size(); ++f) {
    const auto bytes = static_cast<double>(files.bytes[f]);
    writers[files.writers[f]] += bytes;
    nodes[NodeOf(files.writers[f], ranks_per_node)] += bytes;
    counts[files.writers[f]] += 1;
  }
  const auto largest = [](const std::map<int, double>& of) {
    return std::max_element(of.begin(), of.end(),
                            [](const auto& a, const auto& b) { return a.second < b.second; })
        ->second;
  };
  return {largest(writers), largest(nodes), largest(counts)};
}

}  // namespace

double LargestOfNormals(double n) {
  if (n <= 1) return 0;
  const double below = (n - 0.375) / (n + 0.25);
  // Bisection of the normal distribution; it is ascending, and 40 standard deviations hold any n.
  double low = 0;
  double high = 40;
  for (int i = 0; i < 80; ++i) {
    const double middle = (low + high) / 2;
    (0.5 * std::erfc(-middle / std::sqrt(2.0)) < below ? low : high) = middle;
  }
  return low;
}

WriteSeconds SecondsOfFiles(const Machine& machine, const WrittenFiles& files, int ranks_per_node) {
  const Busiest busiest = FindBusiest(files, ranks_per_node);
  WriteSeconds seconds;
  seconds.creates = Over(static_cast<double>(files.bytes.size()), machine.file_creates_per_s) +
                    busiest.files_of_writer * machine.file_create_s;
  seconds.shared = std::max(FullestTarget(machine, files.bytes) / machine.target_write_bandwidth_bytes_per_s,
                            Over(busiest.bytes_of_node, machine.node_write_bandwidth_bytes_per_s));
  seconds.stream = Over(busiest.bytes_of_writer, machine.stream_write_bandwidth_bytes_per_s);
  return seconds;
}

WriteSeconds SecondsOfSharedFile(const Machine& machine, std::uint64_t bytes, int nodes) {
  const double writers = std::max(1.0, std::min<double>(machine.storage_targets, nodes));
  const double on_target = std::max(1.0, writers / machine.storage_targets);
  const double turns = 1 + machine.shared_file_lock * (on_target - 1);
  double rate = machine.target_write_bandwidth_bytes_per_s;
  if (machine.stream_write_bandwidth_bytes_per_s > 0)
    rate = std::min(rate, machine.stream_write_bandwidth_bytes_per_s * on_target / turns);
  WriteSeconds seconds;
  seconds.creates = Over(1, machine.file_creates_per_s) + machine.file_create_s;
  seconds.shared = static_cast<double>(bytes) / (writers / on_target * rate);
  return seconds;
}

double BestFiles(const Machine& machine, std::uint64_t bytes, std::int64_t patches) {
  return std::sqrt(machine.file_creates_per_s *
                   (Over(static_cast<double>(bytes), machine.stream_write_bandwidth_bytes_per_s) +
                    static_cast<double>(patches) * machine.part_s));
}

}  // namespace quarry::model
