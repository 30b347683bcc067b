#include "options.h"

#include "quarry/base/numbers.h"
#include "quarry/base/output.h"
#include "quarry/base/split.h"
#include "quarry/command_line/command_line.h"

namespace lbm {
namespace {

constexpr int kMinCells = 16;  // except z = 1: the flow is periodic there
constexpr int kMaxCells = 8192;
constexpr int kMaxRanks = 1000000;
constexpr int kMaxSteps = 999999;  // the directory names have six digits

// The method needs speeds well below that of sound, 0.58, and the flow beside
// the barrier is about twice as fast as the inflow.
constexpr double kMaxInflow = 0.15;
constexpr double kMinInflow = 0.001;
constexpr double kMinReynolds = 10;
constexpr double kMaxReynolds = 1e5;

// Parses "128x64x64".
std::optional<Int3> ParseDims(const std::string& text) {
  const std::vector<std::string_view> parts = quarry::Split(text, 'x');
  if (parts.size() != 3) return {};
  Int3 dims;
  for (int axis = 0; axis < 3; ++axis) {
    const int least = axis == 2 ? 1 : kMinCells;
    if (!quarry::ReadNumber(parts[axis], &dims[axis]) || dims[axis] < least || dims[axis] > kMaxCells)
      return {};
  }
  return dims;
}

void AddOptions(quarry::command_line::Parser* parser, Options* options, std::string* dims) {
  parser->AddOption(
      "--dims", dims,
      "grid size in cells along x (the flow), y and z, XxYxZ; XxYx1 for a flow in two dimensions; "
      "default: 128x64x64");
  parser->AddOption("--steps", &options->steps, "time steps to run; default: 1800").Between(1, kMaxSteps);
  parser
      ->AddOption("--dump-every", &options->dump_every,
                  "steps between dumps; the last step is dumped too; default: 600")
      .Between(1, kMaxSteps);
  parser->AddOption("--output", &options->output, "directory for the dumps; default: lbm-dump").Path();
  parser
      ->AddOption(
          "--insitu", &options->insitu,
          "PATH.quarry: write the same steps into a new Quarry dataset too, without a dump in between")
      .Path();
  parser
      ->AddOption(
          "--relative", &options->relative,
          "largest error in that dataset, as a fraction of a field's value range in a step; default: 1e-3")
      .Between(1e-9, 1)
      .Needs("--insitu");
  parser
      ->AddOption(
          "--intransit", &options->intransit,
          "so many ranks of the run do nothing but write that dataset, while the others go on; default: 0")
      .Between(0, kMaxRanks)
      .Needs("--insitu");
  parser
      ->AddOption("--pictures", &options->pictures,
                  "directory for the pictures, vorticityNNNNNN.png: the plane in the middle of z")
      .Path();
  parser
      ->AddOption("--consumers", &options->consumers,
                  "so many ranks of the run draw a picture of the vorticity in the same steps, and write the "
                  "dataset of --insitu, while the others go on; default: 0")
      .Between(0, kMaxRanks)
      .Needs("--pictures")
      .Excludes("--intransit");
  parser->AddFlag("--no-dump", &options->no_dump, "write no raw files, only the dataset or the pictures");
  parser
      ->AddOption("--reynolds", &options->flow.reynolds,
                  "Reynolds number of the barrier's diameter; default: 250")
      .Between(kMinReynolds, kMaxReynolds);
  parser->AddOption("--inflow", &options->flow.inflow, "inflow speed in cells per step; default: 0.1")
      .Between(kMinInflow, kMaxInflow);
  parser->SetFooter(
      "Example:\n"
      "  mpirun -n 4 lbm --dims 128x64x64 --steps 1800 "
      "--dump-every 600 --output lbm-dump\n"
      "  mpirun -n 14 lbm --dims 512x256x1 --dump-every 100 --no-dump --consumers 4 --pictures wake");
}

// The text to print instead of a run, or nothing once `options` are read.
quarry::Result<std::optional<std::string>> Parse(int argc, char** argv, Options* options) {
  quarry::command_line::Parser parser(
      "lbm",
      "Simulates the flow past a cylinder by the lattice-Boltzmann method and "
      "dumps it as raw float32 fields.");
  std::string dims;
  AddOptions(&parser, options, &dims);
  QUARRY_ASSIGN_OR_RETURN(std::optional<std::string> answer, parser.Parse(argc, argv));
  if (!dims.empty()) {
    const std::optional<Int3> parsed = ParseDims(dims);
    if (!parsed) {
      return quarry::InvalidArgument(
          "--dims {} is not XxYxZ with {} to {} cells per axis, or 1 and more of z; run lbm --help", dims,
          kMinCells, kMaxCells);
    }
    options->dims = *parsed;
  }
  if (!answer && !options->pictures.empty() && options->consumers == 0)
    return quarry::InvalidArgument("--pictures has nobody who draws them; give --consumers, 1 or more");
  if (!answer && options->no_dump && options->insitu.empty() && options->consumers == 0)
    return quarry::InvalidArgument(
        "--no-dump leaves nothing to write; give --insitu, or --consumers and --pictures");
  return answer;
}

}  // namespace

std::optional<Options> ParseOptions(int argc, char** argv, bool report, int& exit_code) {
  Options options;
  const quarry::Result<std::optional<std::string>> answer = Parse(argc, argv, &options);
  if (answer.ok() && !*answer) return options;
  if (report && answer.ok()) quarry::WriteOut(**answer);
  exit_code = quarry::command_line::EndProgram(
      "lbm", answer.ok() ? quarry::Result<int>(0) : quarry::Result<int>(answer.status()), report);
  return {};
}

}  // namespace lbm
