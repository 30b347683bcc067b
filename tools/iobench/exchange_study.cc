#include "tools/iobench/exchange_study.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "quarry/base/progress.h"
#include "writer/distribution/decomposition.h"
#include "writer/pipeline/comm.h"

namespace quarry::iobench {
namespace {

using distribution::PlacementStrategy;

/// Samples of a box: each holds its own position in the domain, as far as its type can, so that a misplaced
/// one shows.
Bytes SamplesOf(const Box& box, const Index3& dims, DataType type) {
  const std::size_t size = SizeOf(type);
  Bytes samples(static_cast<std::size_t>(box.volume()) * size);
  std::byte* next = samples.data();
  for (std::int64_t z = box.begin[2]; z < box.end[2]; ++z) {
    for (std::int64_t y = box.begin[1]; y < box.end[1]; ++y) {
      for (std::int64_t x = box.begin[0]; x < box.end[0]; ++x, next += size) {
        const std::int64_t position = x + dims[0] * (y + dims[1] * z);
        std::memcpy(next, &position, size);
      }
    }
  }
  return samples;
}

/// Rejects sizes that no machine can hold or that overflow.
Status CheckVolume(const ExchangeOptions& options) {
  std::uint64_t bytes = SizeOf(options.type);
  for (const std::int64_t n : options.dims) {
    if (static_cast<std::uint64_t>(n) > (std::uint64_t{1} << 60) / bytes)
      return InvalidArgument("--dims {} of {} is too large", ToString(options.dims), Name(options.type));
    bytes *= static_cast<std::uint64_t>(n);
  }
  return Status::Ok();
}

/// One way to exchange.
struct TimedExchange {
  PatchGrid grid;
  PlacementStrategy strategy;
  distribution::Placement placement;
  writer::ExchangeBatch batch;
  std::vector<double> seconds;
};

Result<std::vector<TimedExchange>> MakeExchanges(const ExchangeOptions& options,
                                                 const std::vector<Box>& boxes) {
  std::vector<TimedExchange> exchanges;
  for (const Index3& patch : options.patches) {
    QUARRY_ASSIGN_OR_RETURN(const PatchGrid grid, PatchGrid::Create(options.dims, patch));
    for (const PlacementStrategy strategy : {PlacementStrategy::kBalanced, PlacementStrategy::kGreedy}) {
      const distribution::Placement placement = distribution::PlacePatches(grid, boxes, strategy);
      for (const writer::ExchangeBatch batch : options.batches)
        exchanges.push_back({grid, strategy, placement, batch, {}});
    }
  }
  return exchanges;
}

/// Bytes and messages between different ranks, which share each patch in one part each.
void CountTraffic(const TimedExchange& c, const distribution::Ownership& owned, DataType type,
                  ExchangeResult* result) {
  const distribution::Sharers sharers = distribution::FindSharers(c.grid, owned);
  std::map<std::pair<int, int>, std::int64_t> parts;  // of sender and receiver
  for (std::int64_t p = 0; p < c.grid.patch_count(); ++p) {
    const int target = c.placement[static_cast<std::size_t>(p)];
    for (const int source : sharers.Of(p)) {
      if (source == target) continue;
      const Box part = Intersect(c.grid.PatchBox(p), owned[static_cast<std::size_t>(source)].front());
      result->bytes_moved += static_cast<std::uint64_t>(part.volume()) * SizeOf(type);
      ++parts[{source, target}];
    }
  }
  for (const auto& [pair, count] : parts) {
    const std::int64_t batch = c.batch == writer::kExchangePerRank ? count : c.batch;
    result->messages += static_cast<std::uint64_t>((count + batch - 1) / batch);
  }
}

Status CheckPatches(const TimedExchange& c, const ExchangeOptions& options, int rank,
                    const std::vector<writer::PatchSamples>& patches) {
  const auto expected = static_cast<std::size_t>(std::count(c.placement.begin(), c.placement.end(), rank));
  if (patches.size() != expected)
    return InternalError("the exchange brought {} patches instead of {}", patches.size(), expected);
  for (const writer::PatchSamples& patch : patches) {
    const Box box = c.grid.PatchBox(patch.patch_index);
    if (patch.samples != SamplesOf(box, options.dims, options.type))
      return InternalError("the exchange brought wrong samples of patch {}", ToString(box));
  }
  return Status::Ok();
}

ExchangeResult Summarize(const TimedExchange& c, const distribution::Ownership& owned, DataType type) {
  ExchangeResult result;
  result.patch = c.grid.patch();
  result.placement = c.strategy;
  result.batch = c.batch;
  result.seconds = Spread::Of(c.seconds);
  result.patches_per_rank =
      Spread::Of(distribution::CountPerRank(c.placement, static_cast<int>(owned.size())));
  CountTraffic(c, owned, type, &result);
  return result;
}

}  // namespace

Result<std::vector<ExchangeResult>> RunExchangeStudy(MPI_Comm comm, const ExchangeOptions& options) {
  const int rank = writer::Rank(comm);
  QUARRY_RETURN_IF_ERROR(CheckVolume(options));
  const std::vector<Box> boxes = distribution::ProcessGridBoxes(options.dims, options.process_grid);
  const distribution::Ownership owned = distribution::OneBoxEach(boxes);
  QUARRY_ASSIGN_OR_RETURN(std::vector<TimedExchange> exchanges, MakeExchanges(options, boxes));
  const Box& mine = boxes[static_cast<std::size_t>(rank)];
  const Bytes samples = SamplesOf(mine, options.dims, options.type);
  std::vector<writer::BoxView> views;
  if (!mine.empty()) views.push_back(writer::BoxView::Dense(samples.data(), mine, SizeOf(options.type)));

  const auto runs = static_cast<std::uint64_t>(options.repeat + 1) * exchanges.size();
  Progress progress("exchanging", runs, options.progress && rank == 0);
  std::uint64_t done = 0;
  for (int run = 0; run <= options.repeat; ++run) {
    for (TimedExchange& c : exchanges) {
      MPI_Barrier(comm);
      const double start = MPI_Wtime();
      const std::vector<writer::PatchSamples> patches =
          writer::ExchangePatches(comm, c.grid, options.type, owned, c.placement, views, c.batch);
      QUARRY_ASSIGN_OR_RETURN(const double seconds, writer::MaxOverRanks(comm, MPI_Wtime() - start));
      if (run > 0) c.seconds.push_back(seconds);
      if (run == 0)
        QUARRY_RETURN_IF_ERROR(writer::AgreeOnStatus(comm, CheckPatches(c, options, rank, patches)));
      progress.Update(++done);
    }
  }
  std::vector<ExchangeResult> results;
  for (const TimedExchange& c : exchanges) results.push_back(Summarize(c, owned, options.type));
  return results;
}

}  // namespace quarry::iobench
