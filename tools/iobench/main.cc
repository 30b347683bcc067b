// quarry-iobench: measures how fast the ways of writing an uneven load are, here, at this scale. Parses the
// command line, runs the pipelines, prints the table.
#include <cmath>
#include <csignal>

#include "quarry/base/numbers.h"
#include "quarry/base/output.h"
#include "tools/iobench/ranks.h"
#include "tools/iobench/report.h"
#include "writer/pipeline/run_on_ranks.h"

namespace {

using namespace quarry;
using namespace quarry::iobench;

/// Options as text, as the user wrote them.
struct CommandLine {
  std::string sizes = "4";
  std::vector<std::string> pipelines = {"all"};
  std::string directory;
  std::optional<std::int64_t> files;
  std::string process_grid;
  std::int64_t units_per_rank = 8;
  double scale = 1;
  int repeat = 10;
  bool verify = true;
  bool keep = false;
  bool json = false;
};

void DeclareOptions(command_line::Parser* app, CommandLine* line) {
  app->SetHeading("What is written");
  app->AddOption("--sizes", &line->sizes,
                 "a report of quarry-write: its sizes, interpolated to the units of all ranks; or MiB per "
                 "rank, the same on all; default: 4");
  app->AddOption("--units-per-rank", &line->units_per_rank,
                 "parts of a rank that can go to different files, as patches do; default: 8")
      .Between(std::int64_t{1}, std::int64_t{1} << 20);
  app->AddOption("--scale", &line->scale,
                 "factor for every size, such as the number of variables; default: 1")
      .Positive();
  app->SetHeading("How");
  app->AddOption("--pipeline", &line->pipelines,
                 "fpp (a file per rank), collective (one file, MPI-IO), group-collective (F files, MPI-IO), "
                 "equal (F aggregators, equally many units), balanced (F aggregators, nearly equal bytes); "
                 "one or several; default: all")
      .SeparatedBy(',');
  app->AddOption("--files", &line->files, "F; default: one for every 8 ranks")
      .Between(std::int64_t{1}, std::int64_t{1} << 31);
  app->AddOption("--dir", &line->directory, "existing directory on the file system to measure").Path();
  app->AddFlag("--verify,!--no-verify", &line->verify, "read everything back once and compare; default: yes");
  app->AddFlag("--keep", &line->keep, "leave the files of the last run in DIR/quarry-iobench-*");
  app->SetHeading("");
  app->AddOption("--ranks", &line->process_grid, "ranks along x, y, z, as 4x2x2; default: nearly a cube");
  app->AddOption("--repeat", &line->repeat, "timed runs, after an untimed one; default: 10")
      .Between(1, 1000000);
  app->AddFlag("--json", &line->json, "print one JSON object instead of the table");
  app->SetFooter(
      "Examples:\n"
      "  quarry-write run42.f32 --dims 512x512x512 --type float32 --relative 1e-4 --output run42.quarry "
      "--report run42.json\n"
      "  mpirun -n 64 quarry-iobench --sizes run42.json --scale 16 --dir /scratch\n"
      "Times are seconds of the slowest rank, medians over the timed runs, from a barrier until all is "
      "durable.\n"
      "Exit codes: 0 done, 2 bad usage, 3 not found, 4 read back other bytes than were written, 6 out of "
      "space or other I/O error.");
}

/// [bytes] Of what goes to one file.
constexpr double kLargestUnit = 1e15;

/// Sizes of the units, by their place.
Result<distribution::SizeGrid> SizesOfUnits(const CommandLine& line, const Index3& unit_grid) {
  distribution::SizeGrid sizes;
  if (const Result<double> mib = ParseNumber<double>(line.sizes); mib.ok()) {
    const double unit = *mib * (1 << 20) / static_cast<double>(line.units_per_rank);
    if (!(unit > 0) || unit > kLargestUnit)
      return InvalidArgument("--sizes {} is no number of MiB that a rank could have", line.sizes);
    sizes = {{1, 1, 1}, {static_cast<std::uint64_t>(std::llround(unit))}};
  } else {
    QUARRY_ASSIGN_OR_RETURN(const std::string report, ReadOnRoot(line.sizes));
    QUARRY_ASSIGN_OR_RETURN(sizes, distribution::ParseSizeGrid(report, line.sizes));
  }
  sizes = distribution::Extrapolate(sizes, unit_grid);
  for (std::uint64_t& size : sizes.bytes) {
    const double scaled = static_cast<double>(size) * line.scale;
    if (scaled > kLargestUnit)
      return InvalidArgument("--scale {} makes parts of {:.3g} bytes, more than a rank could have",
                             line.scale, scaled);
    size = static_cast<std::uint64_t>(std::llround(scaled));
  }
  return sizes;
}

Result<std::vector<Pipeline>> ParsePipelines(const std::vector<std::string>& names) {
  std::vector<Pipeline> pipelines;
  for (const std::string& name : names) {
    if (name == "all") return std::vector<Pipeline>(std::begin(kPipelines), std::end(kPipelines));
    const std::optional<Pipeline> pipeline = FindPipeline(name);
    if (!pipeline) {
      return InvalidArgument(
          "--pipeline \"{}\" is not known; give fpp, collective, group-collective, equal, balanced or all",
          name);
    }
    if (std::find(pipelines.begin(), pipelines.end(), *pipeline) == pipelines.end())
      pipelines.push_back(*pipeline);
  }
  return pipelines;
}

Result<int> Run(const CommandLine& line) {
  const int ranks = writer::Size(MPI_COMM_WORLD);
  QUARRY_ASSIGN_OR_RETURN(const Index3 process_grid, ProcessGridOf(line.process_grid, ranks));
  if (line.directory.empty()) return InvalidArgument("--dir is required: the directory to write to");
  BenchOptions options;
  QUARRY_ASSIGN_OR_RETURN(options.pipelines, ParsePipelines(line.pipelines));
  options.files = static_cast<std::size_t>(line.files.value_or(std::max(1, ranks / 8)));
  options.repeat = line.repeat;
  options.directory = line.directory;
  options.verify = line.verify;
  options.keep = line.keep;
  options.progress = !line.json;
  const Index3 split = NearCube(line.units_per_rank);
  const Index3 unit_grid = {process_grid[0] * split[0], process_grid[1] * split[1],
                            process_grid[2] * split[2]};
  QUARRY_ASSIGN_OR_RETURN(const distribution::SizeGrid sizes, SizesOfUnits(line, unit_grid));
  QUARRY_ASSIGN_OR_RETURN(const Load load, MakeLoad(sizes, process_grid));
  QUARRY_ASSIGN_OR_RETURN(const BenchResult result, RunBench(MPI_COMM_WORLD, load, options));
  if (writer::Rank(MPI_COMM_WORLD) == 0)
    WriteOut(line.json ? ToJson(load, options, result) : ToTable(load, options, result));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  // A full disk or quota must come back as an error of write(), not as a signal that leaves the other ranks
  // waiting.
  std::signal(SIGXFSZ, SIG_IGN);
  CommandLine line;
  command_line::Parser app("quarry-iobench", "Times five ways of writing an uneven load in parallel.");
  DeclareOptions(&app, &line);
  const auto run = [&line] { return Run(line); };
  return writer::RunOnRanks(&app, argc, argv, run, "give smaller --sizes, or use more nodes");
}
