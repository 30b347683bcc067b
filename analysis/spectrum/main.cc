// quarry-spectrum: the energy spectrum of fields of a dataset, on any number of ranks.
#include <fmt/ranges.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "analysis/spectrum/field_spectrum.h"
#include "quarry/base/output.h"
#include "quarry/query/question_rules.h"
#include "writer/pipeline/run_on_ranks.h"

namespace {

using quarry::InvalidArgument;
using quarry::Result;
using quarry::Status;
using quarry::spectrum::Spectrum;
using quarry::spectrum::SpectrumRequest;

struct CommandLine {
  SpectrumRequest request;
  std::string field;
  std::vector<std::string> vector;
  std::optional<std::int64_t> step;
  std::optional<int> level;
  std::optional<double> max_error;
  std::string grid;
  bool json = false;
};

void DeclareOptions(quarry::command_line::Parser* app, CommandLine* line) {
  app->AddOption("DATASET", &line->request.dataset, "a directory, NAME.quarry, that all ranks can read")
      .Path()
      .Required();
  app->AddOption("--field", &line->field, "the field");
  app->AddOption("--vector", &line->vector,
                 "instead of --field: the components of a vector, u,v,w; their energies add up")
      .SeparatedBy(',')
      .Excludes("--field");
  app->AddOption("--step", &line->step, "default: the first step that has the field").NonNegative();
  app->AddOption("--level", &line->level, "resolution, 0 is the finest; default: 0").NonNegative();
  app->AddOption("--layer", &line->request.layer,
                 "layer of accuracy, 0 is the roughest; default: the last, also for fields with fewer")
      .NonNegative();
  app->AddOption("--max-error", &line->max_error,
                 "instead of --level and --layer: the level and layers with the fewest bytes whose samples "
                 "are within "
                 "this error, in the unit of the field")
      .NonNegative()
      .Excludes("--layer");
  app->AddOption(
      "--grid", &line->grid,
      "ranks that share y and x, and z and y, as 2x4; default: the most even one that moves little");
  app->AddFlag("--json", &line->json, "prints one object, at least {\"k\": [...], \"energy\": [...]}");
  app->SetFooter(
      "Prints, for k = 0, 1, 2, ..., half the sum of |u(K)|^2 over all wave vectors K with |K| rounded to "
      "k.\n"
      "K counts the waves along each axis of the box; u is the transform divided by the number of samples.\n"
      "Example:\n"
      "  mpirun -n 8 quarry-spectrum run42.quarry --vector u,v,w --step 100 --json > spectrum.json\n"
      "Exit codes: 0 done, 2 bad usage, 3 not found, 4 damaged data, 6 other I/O error.");
}

Status Interpret(CommandLine* line) {
  SpectrumRequest* request = &line->request;
  request->fields = line->vector;
  if (!line->field.empty()) request->fields = {line->field};
  if (line->step) request->step = static_cast<std::uint64_t>(*line->step);
  QUARRY_ASSIGN_OR_RETURN(request->target, quarry::query::MakeTarget({line->level, line->max_error, {}, {}},
                                                                     {"--level", "--max-error", "", ""}));
  request->progress = !line->json;
  if (!line->grid.empty()) {
    QUARRY_ASSIGN_OR_RETURN(const quarry::Index3 grid, quarry::ParseShape(line->grid, "--grid"));
    const int ranks = quarry::writer::Size(MPI_COMM_WORLD);
    if (grid[0] > ranks || grid[1] > ranks || grid[0] * grid[1] != ranks || grid[2] != 1)
      return InvalidArgument("--grid {} does not fit the number of ranks, {}", line->grid, ranks);
    request->ranks = {static_cast<int>(grid[0]), static_cast<int>(grid[1])};
  }
  if (request->dataset.find("://") != std::string::npos)
    return InvalidArgument("\"{}\" is not a directory; quarry-spectrum reads datasets in directories",
                           request->dataset);
  return Status::Ok();
}

std::string ToJson(const SpectrumRequest& request, const Spectrum& spectrum) {
  std::vector<std::int64_t> shells(spectrum.energy.size());
  std::iota(shells.begin(), shells.end(), 0);
  const auto& s = spectrum.seconds;
  const nlohmann::ordered_json json = {
      {"fields", request.fields},
      {"step", spectrum.step},
      {"level", spectrum.level},
      {"layers", spectrum.layers},
      {"dims", spectrum.dims},
      {"max_error", std::isfinite(spectrum.max_error) ? nlohmann::ordered_json(spectrum.max_error)
                                                      : nlohmann::ordered_json()},
      {"last_whole_shell", spectrum.last_whole_shell},
      {"k", shells},
      {"energy", spectrum.energy},
      {"ranks", {spectrum.ranks.first, spectrum.ranks.second}},
      {"seconds",
       {{"read", s.read},
        {"lines", s.lines},
        {"transposes", s.transposes},
        {"energy", s.energy},
        {"total", s.total}}},
  };
  return json.dump() + "\n";
}

std::string ToTable(const SpectrumRequest& request, const Spectrum& spectrum) {
  std::string text =
      fmt::format("{} in step {}, level {}: {} samples, error <= {:.3g}\n", fmt::join(request.fields, ", "),
                  spectrum.step, spectrum.level, quarry::ToString(spectrum.dims), spectrum.max_error);
  text += fmt::format("{:>8}  {:>14}\n", "k", "energy");
  for (std::size_t k = 0; k < spectrum.energy.size(); ++k) {
    if (static_cast<std::int64_t>(k) == spectrum.last_whole_shell + 1)
      text += fmt::format("  from k = {} on, the grid holds only a part of each shell\n", k);
    text += fmt::format("{:8}  {:14.7g}\n", k, spectrum.energy[k]);
  }
  const auto& s = spectrum.seconds;
  text += fmt::format(
      "{} x {} ranks, {:.3g} s: reading {:.3g}, lines {:.3g}, transposes {:.3g}, shells {:.3g}\n",
      spectrum.ranks.first, spectrum.ranks.second, s.total, s.read, s.lines, s.transposes, s.energy);
  return text;
}

Result<int> Run(CommandLine* line) {
  QUARRY_RETURN_IF_ERROR(Interpret(line));
  QUARRY_ASSIGN_OR_RETURN(const Spectrum spectrum, ComputeSpectrum(MPI_COMM_WORLD, line->request));
  if (quarry::writer::Rank(MPI_COMM_WORLD) == 0)
    quarry::WriteOut(line->json ? ToJson(line->request, spectrum) : ToTable(line->request, spectrum));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CommandLine line;
  quarry::command_line::Parser app(
      "quarry-spectrum",
      "Computes the energy spectrum of fields of a Quarry dataset, on any number of ranks.");
  DeclareOptions(&app, &line);
  const auto run = [&line] { return Run(&line); };
  return quarry::writer::RunOnRanks(&app, argc, argv, run, "use more ranks or nodes");
}
