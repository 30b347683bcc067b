#include <cmath>
#include <nlohmann/json.hpp>

#include "benchmarks/reproduction/model/command.h"
#include "benchmarks/reproduction/model/fft_paper.h"
#include "benchmarks/reproduction/model/fft_tables.h"
#include "quarry/base/checked_math.h"
#include "quarry/base/output.h"
#include "quarry/base/units.h"
#include "tools/plan/arguments.h"

namespace quarry::reproduction {
namespace {

struct FftOptions {
  std::string dims;
  std::optional<std::int64_t> ranks;
  std::optional<double> seconds;
  std::string topology;
  std::string core;
  std::optional<double> year;
  double memory_constant = kPrintedMemoryConstant;
  std::string machine;
  std::vector<std::string> constants;
  bool overlap = false;
  bool predictions = false;
  bool json = false;
};

struct FftQuestion {
  Index3 dims{};
  std::int64_t bytes = 0;
  std::int64_t ranks_per_node = 1;
  std::string description;  ///< description of the system
  FftSystem system;
};

FftDims Samples(const Index3& dims) {
  return {static_cast<double>(dims[0]), static_cast<double>(dims[1]), static_cast<double>(dims[2])};
}

/// "512" is a cube.
Result<Index3> ParseCube(const std::string& text) {
  QUARRY_ASSIGN_OR_RETURN(const Index3 dims, ParseShape(text, "--dims"));
  return text.find('x') == std::string::npos ? Index3{dims[0], dims[0], dims[0]} : dims;
}

Result<std::int64_t> BytesOf(const Index3& dims) {
  auto bytes = static_cast<std::int64_t>(kFftWordBytes);
  for (const std::int64_t samples : dims) {
    if (!CheckedMultiply(bytes, samples, &bytes)) {
      return InvalidArgument("--dims {} have 2^63 bytes or more, {} for a sample; give fewer samples",
                             ToString(dims), kFftWordBytes);
    }
  }
  if (bytes == static_cast<std::int64_t>(kFftWordBytes))
    return InvalidArgument("--dims {} is one sample, which has no transform; give an axis of at least 2",
                           ToString(dims));
  return bytes;
}

struct Constant {
  std::string_view name;
  double* value;
  bool zero_allowed;
};

std::vector<Constant> ConstantsOf(FftSystem* system) {
  FftNode& node = system->node;
  return {{"flops_per_s", &node.flops_per_s, false},
          {"dram_bandwidth_bytes_per_s", &node.dram_bandwidth_bytes_per_s, false},
          {"cache_bytes", &node.cache_bytes, false},
          {"bus_bandwidth_bytes_per_s", &node.bus_bandwidth_bytes_per_s, true},
          {"network_bandwidth_bytes_per_s", &system->network.bandwidth_bytes_per_s, false},
          {"network_latency_s", &system->network.latency_s, true}};
}

Status SetFftConstant(const std::string& text, FftSystem* system) {
  QUARRY_ASSIGN_OR_RETURN(const model::Assignment assignment, model::ParseAssignment(text));
  std::string known;
  for (const Constant& constant : ConstantsOf(system)) {
    known += fmt::format("{}{}", known.empty() ? "" : ", ", constant.name);
    if (constant.name != assignment.name) continue;
    QUARRY_ASSIGN_OR_RETURN(const double value, model::ParseNumber(assignment));
    constexpr double kMost = 1e30;
    if (!(value >= 0 && value <= kMost) || (value == 0 && !constant.zero_allowed)) {
      return InvalidArgument("--set {} is {}; it must be a number {} and at most {:g}", constant.name,
                             assignment.value, constant.zero_allowed ? "of at least 0" : "above 0", kMost);
    }
    *constant.value = value;
    return Status::Ok();
  }
  return InvalidArgument("--set: \"{}\" is no constant of a transform; known are {}", assignment.name, known);
}

/// A file of `quarry-plan calibrate`. It has no operations per second and no cache: --set gives them.
Status UseMachine(const FftOptions& options, FftQuestion* question) {
  QUARRY_ASSIGN_OR_RETURN(const model::Machine machine, plan::LoadMachine(options.machine, {}));
  question->description = fmt::format("machine \"{}\"", machine.name);
  // Its bandwidth counts each byte that is copied once; equations 2 and 8 count the load and the store.
  question->system.node.dram_bandwidth_bytes_per_s = 2 * machine.memory_bandwidth_bytes_per_s;
  question->system.node.cores = machine.cores_per_node;
  question->system.network = NetworkOf(machine);
  question->ranks_per_node = static_cast<std::int64_t>(machine.ranks_per_node);
  return Status::Ok();
}

Status UseTableOne(const FftOptions& options, FftQuestion* question) {
  const std::string core = options.core.empty() ? "cpu" : options.core;
  const double year = options.year.value_or(2010);
  question->description = fmt::format("{} of {}", core, year);
  question->system =
      SystemOfYear(core == "cpu" ? FftCore::kCpu : FftCore::kGpu, year, model::Topology::kTorus3d);
  return Status::Ok();
}

Status CheckComplete(FftSystem* system) {
  for (const Constant& constant : ConstantsOf(system)) {
    if (*constant.value == 0 && !constant.zero_allowed) {
      return InvalidArgument(
          "--machine has no {0}, which quarry-plan calibrate does not measure; give --set {0}=...",
          constant.name);
    }
  }
  return Status::Ok();
}

/// --ranks, --seconds, or the nodes that give the peak of the year.
Status ChooseNodes(const FftOptions& options, FftQuestion* question) {
  FftSystem& system = question->system;
  if (options.seconds) {
    QUARRY_ASSIGN_OR_RETURN(const double nodes,
                            NodesFor(system, Samples(question->dims), options.memory_constant,
                                     *options.seconds, options.overlap));
    system.nodes = std::ceil(nodes);
  } else if (options.ranks) {
    // As in a machine's file: 0 puts all ranks on one node.
    const std::int64_t per_node = question->ranks_per_node > 0 ? question->ranks_per_node : *options.ranks;
    system.nodes = std::ceil(static_cast<double>(*options.ranks) / static_cast<double>(per_node));
  } else if (!options.machine.empty()) {
    return InvalidArgument("fft --machine needs --ranks or --seconds; write for example --ranks 64");
  } else {
    system.nodes = std::round(system.nodes);
  }
  return Status::Ok();
}

Result<FftQuestion> Interpret(const FftOptions& options) {
  FftQuestion question;
  if (options.dims.empty())
    return InvalidArgument("fft needs --dims; write for example --dims 4096, or --predictions");
  QUARRY_ASSIGN_OR_RETURN(question.dims, ParseCube(options.dims));
  QUARRY_ASSIGN_OR_RETURN(question.bytes, BytesOf(question.dims));
  QUARRY_RETURN_IF_ERROR(options.machine.empty() ? UseTableOne(options, &question)
                                                 : UseMachine(options, &question));
  for (const std::string& constant : options.constants)
    QUARRY_RETURN_IF_ERROR(SetFftConstant(constant, &question.system));
  QUARRY_RETURN_IF_ERROR(CheckComplete(&question.system));
  if (!options.topology.empty()) {
    QUARRY_ASSIGN_OR_RETURN(question.system.network.topology,
                            model::ParseTopology(options.topology, "--topology"));
  }
  QUARRY_RETURN_IF_ERROR(ChooseNodes(options, &question));
  return question;
}

// --- output ---

std::string_view Limit(const FftSeconds& seconds) {
  if (seconds.network > seconds.computation()) return "network";
  return seconds.memory > seconds.flops ? "memory" : "flops";
}

void PrintJson(const FftOptions& options, FftQuestion question, const FftSeconds& seconds) {
  const double total = options.overlap ? seconds.overlapped() : seconds.total();
  nlohmann::ordered_json json;
  json["dims"] = question.dims;
  json["bytes"] = question.bytes;
  json["nodes"] = question.system.nodes;
  json["topology"] = Name(question.system.network.topology);
  json["memory_constant"] = options.memory_constant;
  for (const Constant& constant : ConstantsOf(&question.system))
    json["constants"][std::string(constant.name)] = *constant.value;
  json["constants"]["cores"] = question.system.node.cores;
  json["seconds"] = {{"flops", seconds.flops},
                     {"memory", seconds.memory},
                     {"network", seconds.network},
                     {"shuffle", seconds.shuffle},
                     {"bus", seconds.bus},
                     {"total", seconds.total()},
                     {"overlapped", seconds.overlapped()},
                     {"with_shuffle_and_bus", seconds.with_shuffle_and_bus()}};
  json["limited_by"] = Limit(seconds);
  json["network_over_memory"] = seconds.network / seconds.memory;
  json["flops_per_s"] = FftFlops(Samples(question.dims)) / total;
  json["fraction_of_peak"] = FftFlops(Samples(question.dims)) / total / question.system.peak_flops_per_s();
  const FftBalance balance = BalanceOf(question.system.node);
  json["balance"] = {{"flops_per_byte", balance.flops_per_byte},
                     {"log2_cache_words_per_core", balance.log2_cache_words_per_core}};
  PrintOut("{}\n", json.dump());
}

/// "3.69 PF/s"
std::string FormatFlops(double flops_per_s) {
  std::string_view units = "GTPEZ";
  double value = flops_per_s / 1e9;
  while (value >= 1000 && units.size() > 1) {
    value /= 1000;
    units.remove_prefix(1);
  }
  return fmt::format("{:.3g} {}F/s", value, units[0]);
}

void Print(const FftOptions& options, const FftQuestion& question, const FftSeconds& seconds) {
  const FftSystem& system = question.system;
  const double total = options.overlap ? seconds.overlapped() : seconds.total();
  const double rate = FftFlops(Samples(question.dims)) / total;
  const FftBalance balance = BalanceOf(system.node);
  PrintOut(
      "{} samples of {} B ({}) on {} node{}, {}; {}; A = {}\n"
      "{:<9} {:>12}\n",
      ToString(question.dims), kFftWordBytes, FormatBytes(static_cast<std::uint64_t>(question.bytes)),
      system.nodes, system.nodes == 1 ? "" : "s", Name(system.network.topology), question.description,
      options.memory_constant, "term", "seconds");
  const auto line = [](const char* name, double value, const char* note) {
    PrintOut("{:<9} {:>12.6g}  {}\n", name, value, note);
  };
  line("flops", seconds.flops, "equation 1");
  line("memory", seconds.memory, "equation 2");
  line("network", seconds.network, "equations 3 to 5");
  line("shuffle", seconds.shuffle, "equation 8; not in the total, as in the paper");
  line("bus", seconds.bus, "equation 9; likewise");
  line("total", total,
       options.overlap ? "the longest of flops, memory and network"
                       : "the longer of flops and memory, and network");
  PrintOut(
      "\n"
      "limited by {}; network over memory time {:.3g}\n"
      "{}, {:.3g} % of the peak of {}\n"
      "balance {:.3g} flop/B, log2 of the cache in words per core {:.3g} (equation 11)\n",
      Limit(seconds), seconds.network / seconds.memory, FormatFlops(rate),
      100 * rate / system.peak_flops_per_s(), FormatFlops(system.peak_flops_per_s()), balance.flops_per_byte,
      balance.log2_cache_words_per_core);
}

Result<int> Run(const FftOptions& options) {
  if (options.predictions) {
    QUARRY_RETURN_IF_ERROR(PrintPaper(options.memory_constant, options.json));
    return 0;
  }
  QUARRY_ASSIGN_OR_RETURN(const FftQuestion question, Interpret(options));
  const FftSeconds seconds = PredictFft(question.system, Samples(question.dims), options.memory_constant);
  if (options.json) {
    PrintJson(options, question, seconds);
  } else {
    Print(options, question, seconds);
  }
  return 0;
}

}  // namespace

Command DeclareFft(command_line::Parser* app) {
  auto options = std::make_shared<FftOptions>();
  app->AddOption("--dims", &options->dims, "samples, N (a cube) or XxYxZ; 16 bytes each");
  app->AddOption("--ranks", &options->ranks,
                 "ranks, one per node unless the machine has another number; default: nodes for the peak "
                 "performance of the year")
      .Between(1, 1e12);
  app->AddOption("--seconds", &options->seconds, "time limit of a transform: prints the necessary nodes")
      .Positive()
      .Excludes("--ranks");
  app->AddOption("--topology", &options->topology,
                 "full, torus3d, torus3d-ideal, torus4d or torus5d; default: torus3d, or the machine's");
  app->AddOption("--core", &options->core, "a node as in table 1 of the paper: cpu (default) or gpu")
      .OneOf({"cpu", "gpu"});
  app->AddOption("--year", &options->year, "extrapolates table 1 to this year; default: 2010")
      .Between(2010, 2040);
  app->AddOption(
         "--machine", &options->machine,
         "JSON of quarry-plan calibrate instead of table 1; needs --set for flops_per_s and cache_bytes")
      .Path()
      .Excludes("--core")
      .Excludes("--year");
  app->AddOption("--set", &options->constants, "name=value: a constant of a node or link; may be repeated");
  app->AddOption("--memory-constant", &options->memory_constant,
                 "A: passes of a 1D transform over the memory; default: 6.3, as printed")
      .Between(1e-3, 1e5);
  app->AddFlag("--overlap", &options->overlap, "computation and network at the same time");
  app->AddFlag("--predictions", &options->predictions,
               "the numbers of the paper beside the model's, and figures 5 and 6");
  app->AddFlag("--json", &options->json, "print one JSON object");
  app->SetFooter(
      "Example:\n"
      "  quarry-reproduce fft --dims 21000 --core gpu --year 2020 --topology torus4d\n"
      "  quarry-reproduce fft --predictions\n"
      "benchmarks/reproduction/README.md has the equations, and which numbers of the paper they give.");
  return [options] { return Run(*options); };
}

}  // namespace quarry::reproduction
