#include "tools/iobench/bench.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "quarry/base/progress.h"
#include "tools/iobench/scratch.h"
#include "writer/pipeline/comm.h"

namespace quarry::iobench {
namespace {

struct Contestant {
  Pipeline pipeline;
  std::vector<FileLayout> layouts;
  std::vector<double> seconds;
};

std::vector<Contestant> MakeContestants(const Load& load, const BenchOptions& options) {
  std::vector<Contestant> contestants;
  for (const Pipeline pipeline : options.pipelines)
    contestants.push_back({pipeline, LayOutFiles(pipeline, load, options.files), {}});
  return contestants;
}

PipelineResult Summarize(const Contestant& contestant) {
  std::vector<std::uint64_t> bytes;
  for (const FileLayout& layout : contestant.layouts) bytes.push_back(layout.bytes);
  return {contestant.pipeline, Spread::Of(contestant.seconds), Spread::Of(bytes), contestant.layouts.size()};
}

}  // namespace

Result<BenchResult> RunBench(MPI_Comm comm, const Load& load, const BenchOptions& options) {
  QUARRY_ASSIGN_OR_RETURN(Scratch scratch, Scratch::Create(comm, options.directory, options.keep));
  QUARRY_ASSIGN_OR_RETURN(const RankData data, MakeRankData(comm, load));
  std::vector<Contestant> contestants = MakeContestants(load, options);
  const auto runs = static_cast<std::uint64_t>(options.repeat + 1) * contestants.size();
  Progress progress("writing", runs, options.progress && writer::Rank(comm) == 0);
  std::uint64_t done = 0;
  std::vector<std::size_t> order(contestants.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::mt19937 random;  // the same on every rank
  for (int run = 0; run <= options.repeat; ++run) {
    const bool warm_up = run == 0;
    // Work that a pipeline leaves to the file system must not always fall on the same next one.
    std::shuffle(order.begin(), order.end(), random);
    for (const std::size_t next : order) {
      Contestant& c = contestants[next];
      const auto annotated = [&](Status status) {
        return std::move(status).Annotate(fmt::format("pipeline {}", Name(c.pipeline)));
      };
      Result<double> seconds = TimePipeline(comm, scratch.path(), c.pipeline, c.layouts, data);
      if (!seconds.ok()) return annotated(seconds.status());
      if (!warm_up) c.seconds.push_back(*seconds);
      if (warm_up && options.verify)
        QUARRY_RETURN_IF_ERROR(annotated(VerifyFiles(comm, scratch.path(), c.pipeline, c.layouts, data)));
      if (!options.keep || run < options.repeat)
        QUARRY_RETURN_IF_ERROR(annotated(RemoveFiles(comm, scratch.path(), c.pipeline, c.layouts.size())));
      progress.Update(++done);
    }
  }
  BenchResult result;
  if (options.keep) result.kept = scratch.path();
  for (const Contestant& contestant : contestants) result.pipelines.push_back(Summarize(contestant));
  return result;
}

}  // namespace quarry::iobench
