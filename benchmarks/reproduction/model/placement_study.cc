#include "benchmarks/reproduction/model/placement_study.h"

#include <algorithm>
#include <ctime>

#include "benchmarks/reproduction/model/exchange_study.h"
#include "benchmarks/reproduction/model/patch_exchange.h"
#include "quarry/base/progress.h"
#include "tools/field/generated_field.h"
#include "writer/distribution/decomposition.h"
#include "writer/pipeline/comm.h"
#include "writer/pipeline/encode.h"
#include "writer/redistribute/schedules.h"

namespace quarry::reproduction {
namespace {

using distribution::PlacementStrategy;

/// Processor time of all threads of this process.
double CoreSeconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// One placement of patches of one shape.
struct TimedPlacement {
  PatchGrid grid;
  PlacementStrategy strategy;
  distribution::Placement placement;
  PatchExchange exchange;
  std::vector<writer::PatchSamples> patches;

  // Seconds of this rank, by run.
  std::vector<double> exchange_seconds;
  std::vector<double> encode_seconds;
  std::vector<double> encode_core_seconds;
};

/// Inputs that all placements share.
class Study {
 public:
  Study(MPI_Comm comm, const PlacementOptions& options)
      : comm_(comm),
        options_(options),
        boxes_(distribution::ProcessGridBoxes(options.dims, options.process_grid)),
        owned_(distribution::OneBoxEach(boxes_)) {}

  /// Makes this rank's samples, and finds the tolerance.
  Status Prepare() {
    const Box& mine = boxes_[static_cast<std::size_t>(writer::Rank(comm_))];
    QUARRY_RETURN_IF_ERROR(writer::AgreeOnStatus(comm_, writer::Guarded([&] {
                                                   samples_ = tools::GenerateField(mine, options_.type);
                                                   return Status::Ok();
                                                 })));
    const writer::SampleScan scan = writer::ScanSamples(options_.type, samples_, std::nullopt);
    QUARRY_ASSIGN_OR_RETURN(const double min, writer::MinOverRanks(comm_, scan.min));
    QUARRY_ASSIGN_OR_RETURN(const double max, writer::MaxOverRanks(comm_, scan.max));
    tolerance_ = options_.relative * (max - min);
    if (!mine.empty()) views_.push_back(writer::BoxView::Dense(samples_.data(), mine, SizeOf(options_.type)));
    return Status::Ok();
  }

  Result<TimedPlacement> Plan(const Index3& patch, PlacementStrategy strategy) const {
    QUARRY_ASSIGN_OR_RETURN(PatchGrid grid, PatchGrid::Create(options_.dims, patch));
    distribution::Placement placement = distribution::PlacePatches(grid, boxes_, strategy);
    QUARRY_ASSIGN_OR_RETURN(
        PatchExchange exchange,
        PatchExchange::Plan(comm_, grid, options_.type, owned_, placement, writer::kExchangePerPatch));
    TimedPlacement p{std::move(grid), strategy, std::move(placement), std::move(exchange), {}, {}, {}, {}};
    QUARRY_RETURN_IF_ERROR(writer::AgreeOnStatus(comm_, writer::Guarded([&] {
                                                   p.patches = p.exchange.Allocate();
                                                   return Status::Ok();
                                                 })));
    return p;
  }

  Status RunOnce(TimedPlacement* p, bool timed) const {
    MPI_Barrier(comm_);
    QUARRY_RETURN_IF_ERROR(p->exchange.Run(views_, &p->patches));
    const int levels = MaxLevels(options_.dims, p->grid.patch());
    const writer::EncodeSettings settings{
        CoderId::kInterpolate, options_.type, levels, {tolerance_}, std::nullopt};
    MPI_Barrier(comm_);
    const double start = MPI_Wtime();
    const double core_start = CoreSeconds();
    const Status encoded = writer::Guarded([&]() -> Status {
      std::vector<writer::EncodedPatchOfGrid> kept;
      kept.reserve(p->patches.size());
      for (const writer::PatchSamples& patch : p->patches) {
        QUARRY_ASSIGN_OR_RETURN(writer::EncodedPatchOfGrid one,
                                writer::EncodePatchOfGrid(p->grid, settings, patch));
        kept.push_back(std::move(one));
      }
      return Status::Ok();
    });
    const double core_seconds = CoreSeconds() - core_start;
    const double seconds = MPI_Wtime() - start;
    QUARRY_RETURN_IF_ERROR(writer::AgreeOnStatus(comm_, encoded));
    if (!timed) return Status::Ok();
    p->exchange_seconds.push_back(p->exchange.redistribution().seconds());
    p->encode_seconds.push_back(seconds);
    p->encode_core_seconds.push_back(core_seconds);
    return Status::Ok();
  }

  Result<PlacementResult> Summarize(const TimedPlacement& p) const {
    PlacementResult result;
    result.patch = p.grid.patch();
    result.placement = p.strategy;
    result.patches_of_ranks = distribution::CountPerRank(p.placement, static_cast<int>(boxes_.size()));
    result.contained_of_ranks = CountContained(p);
    QUARRY_ASSIGN_OR_RETURN(const MovedTraffic moved,
                            CountMoved(comm_, *redistribute::Schedules::Of(p.exchange.redistribution()),
                                       options_.type, writer::kExchangePerPatch));
    result.bytes_moved = moved.bytes;
    result.messages = moved.messages;
    QUARRY_ASSIGN_OR_RETURN(result.exchange, GatherTiming(comm_, p.exchange_seconds));
    QUARRY_ASSIGN_OR_RETURN(result.encode, GatherTiming(comm_, p.encode_seconds));
    QUARRY_ASSIGN_OR_RETURN(result.encode_core, GatherTiming(comm_, p.encode_core_seconds));
    std::vector<double> both;
    for (std::size_t run = 0; run < p.exchange_seconds.size(); ++run)
      both.push_back(p.exchange_seconds[run] + p.encode_seconds[run]);
    QUARRY_ASSIGN_OR_RETURN(result.both, GatherTiming(comm_, both));
    result.both_early_start = EarlyStart(result);
    result.predicted = Predict(p);
    return result;
  }

 private:
  /// By rank: patches that it encodes and of which nobody else has a sample.
  std::vector<std::int64_t> CountContained(const TimedPlacement& p) const {
    const distribution::Sharers sharers = distribution::FindSharers(p.grid, owned_);
    std::vector<std::int64_t> contained(boxes_.size(), 0);
    for (std::int64_t patch = 0; patch < p.grid.patch_count(); ++patch) {
      const int rank = p.placement[static_cast<std::size_t>(patch)];
      const std::span<const int> ranks = sharers.Of(patch);
      if (ranks.size() == 1 && ranks[0] == rank) ++contained[static_cast<std::size_t>(rank)];
    }
    return contained;
  }

  /// A rank hides its exchange behind its contained patches, as far as they last.
  static iobench::Spread EarlyStart(const PlacementResult& result) {
    std::vector<double> slowest(result.exchange.of_ranks[0].size(), 0);
    for (std::size_t rank = 0; rank < result.patches_of_ranks.size(); ++rank) {
      const auto patches = static_cast<double>(std::max<std::int64_t>(1, result.patches_of_ranks[rank]));
      const double contained = static_cast<double>(result.contained_of_ranks[rank]) / patches;
      for (std::size_t run = 0; run < slowest.size(); ++run) {
        const double exchange = result.exchange.of_ranks[rank][run];
        const double encode = result.encode.of_ranks[rank][run];
        slowest[run] = std::max(slowest[run], exchange + encode - std::min(exchange, contained * encode));
      }
    }
    return iobench::Spread::Of(slowest);
  }

  PredictedPlacement Predict(const TimedPlacement& p) const {
    model::Workload workload{.grid = p.grid, .owned = owned_, .patch_weights = {}};
    workload.sample_bytes = SizeOf(options_.type);
    workload.from_file = false;
    workload.placement = p.strategy;
    const model::Prediction here = model::Predict(options_.machine, workload);
    model::Machine core_each = options_.machine;
    core_each.cores_per_node = 1;
    core_each.ranks_per_node = 1;
    core_each.cores_per_rank = 1;
    const model::Prediction alone = model::Predict(core_each, workload);
    return {here.of(model::Phase::kExchange).total(), here.of(model::Phase::kEncode).total(),
            alone.of(model::Phase::kEncode).cores};
  }

  MPI_Comm comm_;
  const PlacementOptions& options_;
  std::vector<Box> boxes_;
  distribution::Ownership owned_;
  Bytes samples_;
  std::vector<writer::BoxView> views_;
  double tolerance_ = 0;
};

}  // namespace

Result<std::vector<PlacementResult>> RunPlacementStudy(MPI_Comm comm, const PlacementOptions& options) {
  QUARRY_RETURN_IF_ERROR(CheckVolume(options.dims, options.type));
  if (options.type != DataType::kFloat32 && options.type != DataType::kFloat64)
    return InvalidArgument("placement encodes floats, not {}; give --type float32 or float64",
                           Name(options.type));
  Study study(comm, options);
  QUARRY_RETURN_IF_ERROR(study.Prepare());
  const auto runs = static_cast<std::uint64_t>(options.repeat + 1);
  Progress progress("placing", runs * options.patches.size(), options.progress && writer::Rank(comm) == 0);
  std::uint64_t done = 0;
  std::vector<PlacementResult> results;
  for (const Index3& patch : options.patches) {
    QUARRY_ASSIGN_OR_RETURN(TimedPlacement balanced, study.Plan(patch, PlacementStrategy::kBalanced));
    QUARRY_ASSIGN_OR_RETURN(TimedPlacement greedy, study.Plan(patch, PlacementStrategy::kGreedy));
    for (int run = 0; run <= options.repeat; ++run) {
      for (TimedPlacement* placement : {&balanced, &greedy})
        QUARRY_RETURN_IF_ERROR(study.RunOnce(placement, run > 0));
      progress.Update(++done);
    }
    for (const TimedPlacement* placement : {&balanced, &greedy}) {
      QUARRY_ASSIGN_OR_RETURN(PlacementResult result, study.Summarize(*placement));
      results.push_back(std::move(result));
    }
  }
  return results;
}

}  // namespace quarry::reproduction
