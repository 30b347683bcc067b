#include "benchmarks/reproduction/model/timing.h"

#include <bit>

#include "writer/pipeline/comm.h"

namespace quarry::reproduction {

Result<Timing> GatherTiming(MPI_Comm comm, const std::vector<double>& mine) {
  std::vector<std::uint64_t> bits;
  for (const double seconds : mine) bits.push_back(std::bit_cast<std::uint64_t>(seconds));
  QUARRY_ASSIGN_OR_RETURN(const std::vector<std::uint64_t> all, writer::GatherEverywhere(comm, bits));
  Timing timing;
  std::vector<double> slowest(mine.size(), 0);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::size_t run = i % mine.size();
    if (run == 0) timing.of_ranks.emplace_back();
    timing.of_ranks.back().push_back(std::bit_cast<double>(all[i]));
    slowest[run] = std::max(slowest[run], timing.of_ranks.back().back());
  }
  timing.slowest = iobench::Spread::Of(slowest);
  return timing;
}

}  // namespace quarry::reproduction
