#include "options.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <iostream>
#include <sstream>

namespace lbm {
namespace {

constexpr int kMinCells = 16;
constexpr int kMaxCells = 8192;
constexpr int kMaxRanks = 1000000;
constexpr int kMaxSteps = 999999;  // the directory names have six digits

// The method needs speeds well below that of sound, 0.58, and the flow beside
// the barrier is about twice as fast as the inflow.
constexpr float kMaxInflow = 0.15f;
constexpr float kMinInflow = 0.001f;
constexpr float kMinReynolds = 10.0f;
constexpr float kMaxReynolds = 1e5f;

// Parses "128x64x64".
std::optional<Int3> ParseDims(const std::string& text) {
  Int3 dims;
  const char* position = text.data();
  const char* const end = position + text.size();
  for (int axis = 0; axis < 3; ++axis) {
    if (axis > 0 && (position == end || *position++ != 'x')) return {};
    const auto [rest, error] = std::from_chars(position, end, dims[axis]);
    if (error != std::errc() || dims[axis] < kMinCells || dims[axis] > kMaxCells) {
      return {};
    }
    position = rest;
  }
  if (position != end) return {};
  return dims;
}

std::string DimsText(const Int3& dims) {
  return std::to_string(dims[0]) + "x" + std::to_string(dims[1]) + "x" + std::to_string(dims[2]);
}

// Limits a number and shows the limits in the help. CLI::Range would let NaN
// pass, which compares neither less nor greater.
template <typename Number>
void Limit(CLI::Option* option, Number min, Number max) {
  std::ostringstream limits;
  limits << min << ".." << max;
  option->type_name(limits.str());
  option->check([=, text = limits.str()](const std::string& input) {
    Number value{};
    const bool valid = CLI::detail::lexical_cast(input, value) && value >= min && value <= max;
    return valid ? "" : "'" + input + "' is not in " + text;
  });
}

void AddOptions(CLI::App& app, Options& options) {
  app.option_defaults()->always_capture_default();
  app.add_option_function<std::string>(
         "--dims",
         [&](const std::string& text) {
           const std::optional<Int3> dims = ParseDims(text);
           if (!dims) {
             throw CLI::ValidationError("--dims", "'" + text + "' is not XxYxZ with " +
                                                      std::to_string(kMinCells) + " to " +
                                                      std::to_string(kMaxCells) + " cells per axis");
           }
           options.dims = *dims;
         },
         "Grid size in cells along x (the flow), y and z")
      ->type_name("XxYxZ")
      ->default_str(DimsText(options.dims));
  Limit(app.add_option("--steps", options.steps, "Time steps to run"), 1, kMaxSteps);
  Limit(
      app.add_option("--dump-every", options.dump_every, "Steps between dumps; the last step is dumped too"),
      1, kMaxSteps);
  app.add_option("--output", options.output, "Directory for the dumps")->type_name("DIR");
  CLI::Option* insitu =
      app.add_option("--insitu", options.insitu,
                     "Write the same steps into a new Quarry dataset too, without a dump in between")
          ->type_name("PATH.quarry");
  Limit(app.add_option("--relative", options.relative,
                       "Largest error in that dataset, as a fraction of a field's value range in a step")
            ->needs(insitu),
        1e-9, 1.0);
  Limit(app.add_option("--intransit", options.intransit,
                       "So many ranks of the run do nothing but write that dataset, while the others go on")
            ->needs(insitu),
        0, kMaxRanks);
  app.add_flag_callback(
         "--no-dump", [&options] { options.dump = false; }, "Write no raw files, only the dataset")
      ->needs(insitu);
  Limit(app.add_option("--reynolds", options.flow.reynolds, "Reynolds number of the barrier's diameter"),
        kMinReynolds, kMaxReynolds);
  Limit(app.add_option("--inflow", options.flow.inflow, "Inflow speed in cells per step"), kMinInflow,
        kMaxInflow);
}

}  // namespace

std::optional<Options> ParseOptions(int argc, char** argv, bool report, int& exit_code) {
  CLI::App app(
      "Simulates the flow past a cylinder by the lattice-Boltzmann "
      "method and dumps it as raw float32 fields.",
      "lbm");
  app.footer(
      "Example:\n"
      "  mpirun -n 4 lbm --dims 128x64x64 --steps 1800 "
      "--dump-every 600 --output lbm-dump");
  app.failure_message([](const CLI::App*, const CLI::Error& error) {
    return "lbm: " + std::string(error.what()) + " (see lbm --help)\n";
  });
  Options options;
  AddOptions(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::ostringstream unused;
    const int code = app.exit(error, report ? std::cout : unused, report ? std::cerr : unused);
    exit_code = code == 0 ? kExitOk : kExitUsage;
    return {};
  }
  return options;
}

}  // namespace lbm
