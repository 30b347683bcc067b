#include "benchmarks/reproduction/model/exchange_study.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <optional>

#include "benchmarks/reproduction/model/packed_exchange.h"
#include "benchmarks/reproduction/model/patch_exchange.h"
#include "quarry/base/progress.h"
#include "writer/distribution/decomposition.h"
#include "writer/pipeline/comm.h"
#include "writer/redistribute/schedules.h"

namespace quarry::reproduction {
namespace {

using distribution::PlacementStrategy;

/// A placement, and memory for its patches, which all ways to exchange share.
struct Target {
  PatchGrid grid;
  PlacementStrategy strategy;
  distribution::Placement placement;
  std::vector<writer::PatchSamples> patches;

  std::vector<redistribute::MutableBoxView> Views(DataType type) {
    std::vector<redistribute::MutableBoxView> views;
    for (writer::PatchSamples& patch : patches)
      views.push_back(redistribute::MutableBoxView::Dense(patch.samples.data(),
                                                          grid.PatchBox(patch.patch_index), SizeOf(type)));
    return views;
  }
};

/// One way to exchange.
struct TimedExchange {
  Target* target;
  writer::ExchangeBatch batch;
  PatchExchange exchange;
  std::optional<PackedExchange> packed;  ///< runs the schedule of `exchange` in its place
  double setup_seconds = 0;              ///< values of this rank
  std::vector<double> seconds;           ///< values of this rank
};

/// The ways to exchange patches of one shape, in turns.
class ShapeStudy {
 public:
  ShapeStudy(MPI_Comm comm, const ExchangeOptions& options, const std::vector<Box>& boxes)
      : comm_(comm),
        rank_(writer::Rank(comm)),
        options_(options),
        boxes_(boxes),
        owned_(distribution::OneBoxEach(boxes)) {}

  Status Plan(const Index3& patch) {
    QUARRY_ASSIGN_OR_RETURN(const PatchGrid grid, PatchGrid::Create(options_.dims, patch));
    targets_.reserve(2);
    for (const PlacementStrategy strategy : {PlacementStrategy::kBalanced, PlacementStrategy::kGreedy}) {
      Target& target = targets_.emplace_back(
          Target{grid, strategy, distribution::PlacePatches(grid, boxes_, strategy), {}});
      for (const writer::ExchangeBatch batch : options_.batches)
        QUARRY_RETURN_IF_ERROR(AddExchange(&target, batch, false));
      QUARRY_RETURN_IF_ERROR(AddExchange(&target, writer::kExchangePerRank, true));
    }
    return Status::Ok();
  }

  /// @param warm_up  not timed; checks the samples
  Status RunAll(const std::vector<writer::BoxView>& samples, bool warm_up) {
    for (TimedExchange& e : exchanges_) {
      for (writer::PatchSamples& patch : e.target->patches) {
        if (warm_up) std::fill(patch.samples.begin(), patch.samples.end(), std::byte{0});
      }
      MPI_Barrier(comm_);
      const double start = MPI_Wtime();
      QUARRY_ASSIGN_OR_RETURN(const double seconds, RunOne(&e, samples));
      if (warm_up) {
        e.setup_seconds += MPI_Wtime() - start - seconds;
        QUARRY_RETURN_IF_ERROR(writer::AgreeOnStatus(comm_, CheckPatches(*e.target)));
      } else {
        e.seconds.push_back(seconds);
      }
    }
    return Status::Ok();
  }

  Result<std::vector<ExchangeResult>> Summarize() const {
    std::vector<ExchangeResult> results;
    for (const TimedExchange& e : exchanges_) {
      ExchangeResult& result = results.emplace_back();
      result.patch = e.target->grid.patch();
      result.placement = e.target->strategy;
      result.batch = e.batch;
      result.packed = e.packed.has_value();
      QUARRY_ASSIGN_OR_RETURN(result.setup_seconds, writer::MaxOverRanks(comm_, e.setup_seconds));
      QUARRY_ASSIGN_OR_RETURN(result.seconds, GatherTiming(comm_, e.seconds));
      QUARRY_ASSIGN_OR_RETURN(const MovedTraffic moved,
                              CountMoved(comm_, *redistribute::Schedules::Of(e.exchange.redistribution()),
                                         options_.type, e.batch));
      result.bytes_moved = moved.bytes;
      result.messages = moved.messages;
      result.patches_per_rank = iobench::Spread::Of(
          distribution::CountPerRank(e.target->placement, static_cast<int>(boxes_.size())));
    }
    return results;
  }

 private:
  Status AddExchange(Target* target, writer::ExchangeBatch batch, bool packed) {
    const double start = MPI_Wtime();
    QUARRY_ASSIGN_OR_RETURN(PatchExchange exchange, PatchExchange::Plan(comm_, target->grid, options_.type,
                                                                        owned_, target->placement, batch));
    TimedExchange& e = exchanges_.emplace_back(TimedExchange{target, batch, std::move(exchange), {}, 0, {}});
    QUARRY_RETURN_IF_ERROR(writer::AgreeOnStatus(
        comm_, writer::Guarded([&]() -> Status {
          if (target->patches.empty()) target->patches = e.exchange.Allocate();
          if (!packed) return Status::Ok();
          QUARRY_ASSIGN_OR_RETURN(
              e.packed, PackedExchange::Plan(comm_, *redistribute::Schedules::Of(e.exchange.redistribution()),
                                             SizeOf(options_.type)));
          return Status::Ok();
        })));
    e.setup_seconds = MPI_Wtime() - start;
    return Status::Ok();
  }

  /// Seconds of this rank.
  Result<double> RunOne(TimedExchange* e, const std::vector<writer::BoxView>& samples) {
    if (!e->packed) {
      QUARRY_RETURN_IF_ERROR(e->exchange.Run(samples, &e->target->patches));
      return e->exchange.redistribution().seconds();
    }
    QUARRY_RETURN_IF_ERROR(
        writer::AgreeOnStatus(comm_, e->packed->Run(samples, e->target->Views(options_.type))));
    return e->packed->seconds();
  }

  Status CheckPatches(const Target& target) const {
    const auto expected =
        static_cast<std::size_t>(std::count(target.placement.begin(), target.placement.end(), rank_));
    if (target.patches.size() != expected)
      return InternalError("the exchange brought {} patches instead of {}", target.patches.size(), expected);
    for (const writer::PatchSamples& patch : target.patches) {
      const Box box = target.grid.PatchBox(patch.patch_index);
      if (patch.samples != PositionSamples(box, options_.dims, options_.type))
        return InternalError("the exchange brought wrong samples of patch {}", ToString(box));
    }
    return Status::Ok();
  }

  MPI_Comm comm_;
  int rank_;
  const ExchangeOptions& options_;
  const std::vector<Box>& boxes_;
  distribution::Ownership owned_;
  std::vector<Target> targets_;
  std::deque<TimedExchange> exchanges_;
};

}  // namespace

Bytes PositionSamples(const Box& box, const Index3& dims, DataType type) {
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

Status CheckVolume(const Index3& dims, DataType type) {
  std::uint64_t bytes = SizeOf(type);
  for (const std::int64_t n : dims) {
    if (static_cast<std::uint64_t>(n) > (std::uint64_t{1} << 60) / bytes)
      return InvalidArgument("--dims {} of {} is too large", ToString(dims), Name(type));
    bytes *= static_cast<std::uint64_t>(n);
  }
  return Status::Ok();
}

Result<MovedTraffic> CountMoved(MPI_Comm comm, const redistribute::RankSchedule& schedule, DataType type,
                                writer::ExchangeBatch batch) {
  std::uint64_t mine[2] = {0, 0};
  for (const redistribute::Part& part : schedule.sends)
    mine[0] += static_cast<std::uint64_t>(part.box.volume()) * SizeOf(type);
  mine[1] = redistribute::GroupByPeer(schedule.sends, &redistribute::Part::target, batch).size();
  QUARRY_ASSIGN_OR_RETURN(const std::vector<std::uint64_t> all, writer::GatherEverywhere(comm, mine));
  MovedTraffic moved;
  for (std::size_t r = 0; r < all.size(); r += 2) {
    moved.bytes += all[r];
    moved.messages += all[r + 1];
  }
  return moved;
}

Result<std::vector<ExchangeResult>> RunExchangeStudy(MPI_Comm comm, const ExchangeOptions& options) {
  const int rank = writer::Rank(comm);
  QUARRY_RETURN_IF_ERROR(CheckVolume(options.dims, options.type));
  for (const Index3& patch : options.patches)  // before anything is timed
    QUARRY_RETURN_IF_ERROR(PatchGrid::Create(options.dims, patch).status());
  const std::vector<Box> boxes = distribution::ProcessGridBoxes(options.dims, options.process_grid);
  const Box& mine = boxes[static_cast<std::size_t>(rank)];
  const Bytes samples = PositionSamples(mine, options.dims, options.type);
  std::vector<writer::BoxView> views;
  if (!mine.empty()) views.push_back(writer::BoxView::Dense(samples.data(), mine, SizeOf(options.type)));

  const auto runs = static_cast<std::uint64_t>(options.repeat + 1);
  Progress progress("exchanging", runs * options.patches.size(), options.progress && rank == 0);
  std::uint64_t done = 0;
  std::vector<ExchangeResult> results;
  for (const Index3& patch : options.patches) {
    ShapeStudy study(comm, options, boxes);
    QUARRY_RETURN_IF_ERROR(study.Plan(patch));
    for (int run = 0; run <= options.repeat; ++run) {
      QUARRY_RETURN_IF_ERROR(study.RunAll(views, run == 0));
      progress.Update(++done);
    }
    QUARRY_ASSIGN_OR_RETURN(std::vector<ExchangeResult> of_shape, study.Summarize());
    for (ExchangeResult& result : of_shape) results.push_back(std::move(result));
  }
  return results;
}

}  // namespace quarry::reproduction
