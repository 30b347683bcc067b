// quarry-iobench: measures how fast the ways of writing an uneven load are, here, at this scale. Parses the
// command line, runs pipelines or a study, prints the table.
#include <cmath>
#include <csignal>

#include "quarry/base/file.h"
#include "quarry/base/numbers.h"
#include "quarry/base/output.h"
#include "quarry/command_line/command_line.h"
#include "tools/iobench/report.h"
#include "writer/pipeline/comm.h"

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
  bool exchange = false;
  bool placement = false;
  std::string dims;
  std::string type;
  std::vector<std::string> patches = {"32", "64"};
  std::int64_t batch = 8;
  double relative = 1e-4;
  std::string machine;
  bool json = false;
};

void DeclareOptions(command_line::Parser* app, CommandLine* line) {
  const char* load = "What is written";
  app->AddOption("--sizes", &line->sizes,
                 "a report of quarry-write: its sizes, interpolated to the units of all ranks; or MiB per "
                 "rank, the same on all; default: 4")
      .Group(load);
  app->AddOption("--units-per-rank", &line->units_per_rank,
                 "parts of a rank that can go to different files, as patches do; default: 8")
      .Between(std::int64_t{1}, std::int64_t{1} << 20)
      .Group(load);
  app->AddOption("--scale", &line->scale,
                 "factor for every size, such as the number of variables; default: 1")
      .Positive()
      .Group(load);
  const char* how = "How";
  app->AddOption("--pipeline", &line->pipelines,
                 "fpp (a file per rank), collective (one file, MPI-IO), group-collective (F files, MPI-IO), "
                 "equal (F aggregators, equally many units), balanced (F aggregators, nearly equal bytes); "
                 "one or several; default: all")
      .SeparatedBy(',')
      .Group(how);
  app->AddOption("--files", &line->files, "F; default: one for every 8 ranks")
      .Between(std::int64_t{1}, std::int64_t{1} << 31)
      .Group(how);
  app->AddOption("--dir", &line->directory, "existing directory on the file system to measure")
      .Path()
      .Group(how);
  app->AddFlag("--verify,!--no-verify", &line->verify, "read everything back once and compare; default: yes")
      .Group(how);
  app->AddFlag("--keep", &line->keep, "leave the files of the last run in DIR/quarry-iobench-*").Group(how);
  const char* study = "Studies of exchange and placement, instead of files";
  app->AddFlag("--exchange", &line->exchange,
               "time the exchange of samples between ranks: both placements; messages per patch, per --batch "
               "parts and per rank, and buffers packed by hand")
      .Group(study);
  app->AddFlag("--placement", &line->placement,
               "time exchange and encoding in both placements, next to what quarry-plan predict says")
      .Group(study);
  app->AddOption("--dims", &line->dims, "samples, XxYxZ").Group(study);
  app->AddOption("--type", &line->type, "type of a sample; default: float64; with --placement float32")
      .Group(study);
  app->AddOption("--patch", &line->patches, "samples of a patch, N or XxYxZ, one or several; default: 32,64")
      .SeparatedBy(',')
      .Group(study);
  app->AddOption("--batch", &line->batch, "parts of patches in a message; default: 8")
      .Between(std::int64_t{2}, std::int64_t{1} << 30)
      .Group(study);
  app->AddOption("--relative", &line->relative,
                 "tolerance of the encoding with --placement, as a fraction of the range; default: 1e-4")
      .Positive()
      .Group(study);
  app->AddOption("--machine", &line->machine,
                 "constants of quarry-plan calibrate, for the prediction of --placement; default: a small "
                 "server")
      .Path()
      .Group(study);
  app->AddOption("--ranks", &line->process_grid, "ranks along x, y, z, as 4x2x2; default: nearly a cube");
  app->AddOption("--repeat", &line->repeat, "timed runs, after an untimed one; default: 10")
      .Between(1, 1000000);
  app->AddFlag("--json", &line->json, "print one JSON object instead of the table");
  app->SetFooter(
      "Examples:\n"
      "  quarry-write run42.f32 --dims 512x512x512 --type float32 --relative 1e-4 --output run42.quarry "
      "--report run42.json\n"
      "  mpirun -n 64 quarry-iobench --sizes run42.json --scale 16 --dir /scratch\n"
      "  mpirun -n 8 quarry-iobench --exchange --dims 256x256x256 --patch 32,64\n"
      "  mpirun -n 8 quarry-iobench --placement --dims 200x200x200 --patch 32 --ranks 2x2x2 --machine "
      "here.json\n"
      "Times are seconds of the slowest rank, medians over the timed runs, from a barrier until all is "
      "durable.\n"
      "Exit codes: 0 done, 2 bad usage, 3 not found, 4 read back other bytes than were written, 6 out of "
      "space or other I/O error.");
}

/// `count` as three factors that are as close to each other as possible, the largest along x.
Index3 NearCube(std::int64_t count) {
  int factors[3] = {0, 0, 0};
  MPI_Dims_create(static_cast<int>(count), 3, factors);
  return {factors[0], factors[1], factors[2]};
}

Result<Index3> ProcessGridOf(const CommandLine& line, int ranks) {
  if (line.process_grid.empty()) return NearCube(ranks);
  QUARRY_ASSIGN_OR_RETURN(const Index3 grid, ParseShape(line.process_grid, "--ranks"));
  if (Volume(grid) != ranks) {
    return InvalidArgument("--ranks {} is {} ranks, but {} are running; start as many, or leave it out",
                           line.process_grid, Volume(grid), ranks);
  }
  return grid;
}

/// "64" is a cube, "64x64x32" a box.
Result<Index3> ParsePatch(const std::string& text) {
  QUARRY_ASSIGN_OR_RETURN(const Index3 patch, ParseShape(text, "--patch"));
  if (text.find('x') != std::string::npos) return patch;
  return Index3{patch[0], patch[0], patch[0]};
}

/// [bytes] Of what goes to one file.
constexpr double kLargestUnit = 1e15;

/// The number of MiB, if the text is one.
std::optional<double> AsNumber(const std::string& text) {
  const Result<double> value = ParseNumber<double>(text);
  return value.ok() ? std::optional(*value) : std::nullopt;
}

/// What rank 0 reads, on every rank. @collective
Result<std::string> ReadOnRoot(const std::string& path) {
  constexpr std::uint64_t kLargestReport = std::uint64_t{1} << 30;
  std::string text;
  Status status;
  if (writer::Rank(MPI_COMM_WORLD) == 0) {
    Result<std::string> read = ReadTextFile(path, kLargestReport);
    if (read.ok()) {
      text = *std::move(read);
    } else {
      status = read.status();
    }
  }
  QUARRY_RETURN_IF_ERROR(writer::BroadcastStatus(MPI_COMM_WORLD, status));
  return writer::BroadcastText(MPI_COMM_WORLD, text);
}

/// Sizes of the units, by their place.
Result<distribution::SizeGrid> SizesOfUnits(const CommandLine& line, const Index3& unit_grid) {
  distribution::SizeGrid sizes;
  if (const std::optional<double> mib = AsNumber(line.sizes)) {
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

Result<std::string> Bench(const CommandLine& line, const Index3& process_grid, int ranks) {
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
  return line.json ? ToJson(load, options, result) : ToTable(load, options, result);
}

/// Dims, type and patches of a study.
template <typename Options>
Status ReadStudyOptions(const CommandLine& line, const Index3& process_grid, const char* name,
                        DataType usual_type, Options* options) {
  if (line.dims.empty()) return InvalidArgument("{} needs --dims, as 256x256x256", name);
  QUARRY_ASSIGN_OR_RETURN(options->dims, ParseShape(line.dims, "--dims"));
  options->type = usual_type;
  if (!line.type.empty()) {
    QUARRY_ASSIGN_OR_RETURN(options->type, ParseDataType(line.type));
  }
  options->process_grid = process_grid;
  for (const std::string& text : line.patches) {
    QUARRY_ASSIGN_OR_RETURN(const Index3 patch, ParsePatch(text));
    options->patches.push_back(patch);
  }
  options->repeat = line.repeat;
  options->progress = !line.json;
  return Status::Ok();
}

Result<std::string> StudyExchange(const CommandLine& line, const Index3& process_grid) {
  ExchangeOptions options;
  QUARRY_RETURN_IF_ERROR(ReadStudyOptions(line, process_grid, "--exchange", DataType::kFloat64, &options));
  options.batches = {writer::kExchangePerPatch, line.batch, writer::kExchangePerRank};
  QUARRY_ASSIGN_OR_RETURN(const std::vector<ExchangeResult> results,
                          RunExchangeStudy(MPI_COMM_WORLD, options));
  return line.json ? ToJson(options, results) : ToTable(options, results);
}

Result<std::string> StudyPlacement(const CommandLine& line, const Index3& process_grid) {
  PlacementOptions options;
  QUARRY_RETURN_IF_ERROR(ReadStudyOptions(line, process_grid, "--placement", DataType::kFloat32, &options));
  options.relative = line.relative;
  if (!line.machine.empty()) {
    QUARRY_ASSIGN_OR_RETURN(const std::string machine, ReadOnRoot(line.machine));
    QUARRY_ASSIGN_OR_RETURN(options.machine, model::ParseMachine(machine, line.machine));
  }
  QUARRY_ASSIGN_OR_RETURN(const std::vector<PlacementResult> results,
                          RunPlacementStudy(MPI_COMM_WORLD, options));
  return line.json ? ToJson(options, results) : ToTable(options, results);
}

Result<std::string> Run(const CommandLine& line) {
  const int ranks = writer::Size(MPI_COMM_WORLD);
  QUARRY_ASSIGN_OR_RETURN(const Index3 process_grid, ProcessGridOf(line, ranks));
  if (line.exchange && line.placement)
    return InvalidArgument("--exchange and --placement are two studies; give one");
  if (line.exchange) return StudyExchange(line, process_grid);
  return line.placement ? StudyPlacement(line, process_grid) : Bench(line, process_grid, ranks);
}

/// The end of the program on this rank.
/// @param speaks  whether this rank prints an error
int End(const Result<int>& outcome, bool speaks) {
  return command_line::EndProgram("quarry-iobench", outcome, speaks);
}

}  // namespace

int main(int argc, char** argv) {
  // A full disk or quota must come back as an error of write(), not as a signal that leaves the other ranks
  // waiting.
  std::signal(SIGXFSZ, SIG_IGN);
  const writer::MpiSession mpi(&argc, &argv);
  const bool root = writer::Rank(MPI_COMM_WORLD) == 0;

  CommandLine line;
  command_line::Parser app(
      "quarry-iobench",
      "Times five ways of writing an uneven load in parallel, or the exchange and encoding before it.");
  DeclareOptions(&app, &line);
  const Result<std::optional<std::string>> answer = app.Parse(argc, argv);
  if (!answer.ok()) return End(answer.status(), root);
  if (*answer) {
    if (root) WriteOut(**answer);
    return End(0, root);
  }
  try {
    const Result<std::string> output = Run(line);
    if (!output.ok()) return End(output.status(), root);
    if (root) WriteOut(*output);
  } catch (const std::bad_alloc&) {
    // Between two agreements the other ranks cannot be told: end them all instead of letting them wait.
    const Status memory = InternalError("rank {} is out of memory; give smaller --sizes, or use more nodes",
                                        writer::Rank(MPI_COMM_WORLD));
    MPI_Abort(MPI_COMM_WORLD, End(memory, true));
  }
  return End(0, root);
}
