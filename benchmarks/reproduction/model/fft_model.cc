#include "benchmarks/reproduction/model/fft_model.h"

#include <algorithm>
#include <cmath>

namespace quarry::reproduction {
namespace {

/// More nodes than any machine has.
constexpr double kMostNodes = 1e12;

double Samples(const FftDims& dims) { return dims[0] * dims[1] * dims[2]; }

double TransformedAxes(const FftDims& dims) {
  return static_cast<double>(std::count_if(dims.begin(), dims.end(), [](double n) { return n > 1; }));
}

/// Passes over the memory for each word of one 1D transform over A: log_Z n, at least one.
double CachePasses(double n, double cache_words) {
  return cache_words > 1 ? std::max(std::log(n) / std::log(cache_words), 1.0) : 1.0;
}

}  // namespace

double FftFlops(const FftDims& dims) {
  double logarithms = 0;
  for (const double n : dims) logarithms += std::log2(n);
  return 5 * Samples(dims) * logarithms;
}

FftSeconds PredictFft(const FftSystem& system, const FftDims& dims, double memory_constant) {
  const FftNode& node = system.node;
  const double node_words = Samples(dims) / system.nodes;
  const double memory_words_per_s = node.dram_bandwidth_bytes_per_s / kFftWordBytes;
  const double transforms = TransformedAxes(dims);
  const double exchanges = std::max(0.0, transforms - 1);

  FftSeconds seconds;
  seconds.flops = FftFlops(dims) / system.peak_flops_per_s();
  for (const double n : dims) {
    if (n <= 1) continue;
    seconds.memory +=
        memory_constant * node_words * CachePasses(n, node.cache_bytes / kFftWordBytes) / memory_words_per_s;
  }
  const double node_bytes = node_words * kFftWordBytes;
  seconds.network = exchanges * model::NetworkSeconds(system.network, system.nodes, node_bytes, node_bytes);
  // Every word is loaded and stored, before each exchange.
  seconds.shuffle = exchanges * 2 * node_words / memory_words_per_s;
  // Every word goes there and back, in each phase.
  if (node.bus_bandwidth_bytes_per_s > 0)
    seconds.bus = transforms * 2 * node_bytes / node.bus_bandwidth_bytes_per_s;
  return seconds;
}

Result<double> NodesFor(FftSystem system, const FftDims& dims, double memory_constant, double seconds,
                        bool overlapped) {
  const auto fast_enough = [&](double nodes) {
    system.nodes = nodes;
    const FftSeconds needed = PredictFft(system, dims, memory_constant);
    return (overlapped ? needed.overlapped() : needed.total()) <= seconds;
  };
  if (fast_enough(1)) return 1.0;
  if (!fast_enough(kMostNodes)) {
    return InvalidArgument("no number of nodes transforms {}x{}x{} samples in {} s; allow more time", dims[0],
                           dims[1], dims[2], seconds);
  }
  // From two nodes on, every term falls with the nodes. Halves the interval of the logarithm.
  double low = 2;
  double high = kMostNodes;
  for (int step = 0; step < 100; ++step) {
    const double middle = std::sqrt(low * high);
    (fast_enough(middle) ? high : low) = middle;
  }
  return high;
}

FftBalance BalanceOf(const FftNode& node) {
  return {node.flops_per_s / node.dram_bandwidth_bytes_per_s,
          std::log2(node.cache_bytes / kFftWordBytes / node.cores)};
}

}  // namespace quarry::reproduction
