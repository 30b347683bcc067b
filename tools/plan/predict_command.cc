#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "quarry/base/file.h"
#include "quarry/base/progress.h"
#include "quarry/base/units.h"
#include "tools/plan/command.h"
#include "writer/distribution/decomposition.h"
#include "writer/distribution/size_grid.h"
#include "writer/model/cost_model.h"

namespace quarry::plan {
namespace {

constexpr std::uint64_t kJsonLimit = std::uint64_t{1} << 30;

struct PredictOptions {
  std::string dims;
  std::string type = "float32";
  std::string ranks;
  std::string patch = "64";
  std::string files;
  std::string source;
  std::string placement = "balanced";
  std::string aggregation = "balanced";
  double ratio = 0;
  std::string sizes;
  std::string machine;
  std::vector<std::string> constants;
  bool json = false;
};

/// One of the combinations of a what-if.
struct Setting {
  std::string patch;
  std::string ranks;
  std::size_t files = 1;
  model::Prediction prediction;
};

/// What all combinations have in common.
struct Question {
  Index3 dims{};
  DataType type = DataType::kFloat32;
  distribution::PlacementStrategy placement{};
  distribution::AggregationStrategy aggregation{};
  model::Machine machine;
  double ratio = 0;
  std::optional<distribution::SizeGrid> sizes;
};

Result<model::Machine> LoadMachine(const PredictOptions& options) {
  model::Machine machine;
  if (!options.machine.empty()) {
    QUARRY_ASSIGN_OR_RETURN(const std::string json, ReadTextFile(options.machine, kJsonLimit));
    QUARRY_ASSIGN_OR_RETURN(machine, model::ParseMachine(json, options.machine));
  }
  for (const std::string& constant : options.constants)
    QUARRY_RETURN_IF_ERROR(model::SetConstant(constant, &machine));
  return machine;
}

/// The ratio in a report of quarry-write, or 0 where it has none.
double RatioOf(const std::string& report) {
  const auto json = nlohmann::json::parse(report, nullptr, false);
  const bool known = json.is_object() && json.contains("ratio") && json["ratio"].is_number();
  return known ? json["ratio"].get<double>() : 0;
}

Result<Question> Interpret(const PredictOptions& options) {
  Question question;
  QUARRY_ASSIGN_OR_RETURN(question.dims, ParseShape(options.dims, "--dims"));
  QUARRY_ASSIGN_OR_RETURN(question.type, ParseDataType(options.type));
  QUARRY_ASSIGN_OR_RETURN(question.placement, ParsePlacement(options.placement));
  QUARRY_ASSIGN_OR_RETURN(question.aggregation, ParseAggregation(options.aggregation));
  QUARRY_ASSIGN_OR_RETURN(question.machine, LoadMachine(options));
  if (options.ratio < 0 || !std::isfinite(options.ratio))
    return InvalidArgument("--ratio {} must be above 0", options.ratio);
  question.ratio = options.ratio;
  if (!options.sizes.empty()) {
    QUARRY_ASSIGN_OR_RETURN(const std::string report, ReadTextFile(options.sizes, kJsonLimit));
    QUARRY_ASSIGN_OR_RETURN(question.sizes, distribution::ParseSizeGrid(report, options.sizes));
    if (question.ratio == 0) question.ratio = RatioOf(report);
  }
  if (!options.source.empty() && options.source != "file" && options.source != "memory")
    return InvalidArgument("--source \"{}\" is not known; give file or memory", options.source);
  return question;
}

Result<std::size_t> ParseFiles(const std::string& text) {
  std::size_t files = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), files);
  if (error != std::errc() || end != text.data() + text.size() || files == 0)
    return InvalidArgument("--files \"{}\" is not a number of files; give for example 8, or 1,8,64", text);
  return files;
}

/// A process grid is a simulation with its data in memory; a plain number means ranks that read slabs of a
/// file.
bool ReadsFile(const PredictOptions& options, const std::string& ranks) {
  return options.source.empty() ? ranks.find('x') == std::string::npos : options.source == "file";
}

Result<model::Workload> MakeWorkload(const Question& question, const PredictOptions& options,
                                     const std::string& patch_text, const std::string& ranks_text) {
  QUARRY_ASSIGN_OR_RETURN(const Index3 patch, ParsePatch(patch_text, question.dims));
  QUARRY_ASSIGN_OR_RETURN(const Index3 process_grid, ParseProcessGrid(ranks_text));
  QUARRY_ASSIGN_OR_RETURN(PatchGrid grid, MakeGrid(question.dims, patch));
  model::Workload workload{.grid = std::move(grid), .owned = {}, .patch_weights = {}};
  workload.sample_bytes = SizeOf(question.type);
  workload.from_file = ReadsFile(options, ranks_text);
  workload.owned =
      workload.from_file
          ? distribution::ReadingOwnership(workload.grid.domain(), {1, 1, 1},
                                           static_cast<int>(Volume(process_grid)),
                                           distribution::ReadingOrder::kConsecutive)
          : distribution::OneBoxEach(distribution::ProcessGridBoxes(question.dims, process_grid));
  workload.placement = question.placement;
  workload.aggregation = question.aggregation;
  workload.ratio = question.ratio;
  if (question.sizes)
    workload.patch_weights = distribution::Extrapolate(*question.sizes, workload.grid.patches()).bytes;
  return workload;
}

Result<std::vector<Setting>> PredictAll(const Question& question, const PredictOptions& options) {
  const std::vector<std::string> patches = SplitList(options.patch);
  const std::vector<std::string> ranks = SplitList(options.ranks);
  std::vector<std::size_t> files;
  if (!options.files.empty()) {
    for (const std::string& text : SplitList(options.files)) {
      QUARRY_ASSIGN_OR_RETURN(const std::size_t number, ParseFiles(text));
      files.push_back(number);
    }
  }
  std::vector<Setting> settings;
  Progress progress("predict", patches.size() * ranks.size() * std::max<std::size_t>(1, files.size()), true);
  for (const std::string& patch : patches) {
    for (const std::string& rank : ranks) {
      QUARRY_ASSIGN_OR_RETURN(model::Workload workload, MakeWorkload(question, options, patch, rank));
      // quarry-write's own default: one for every 8 ranks.
      const std::vector<std::size_t> usual = {std::max<std::size_t>(1, workload.owned.size() / 8)};
      for (const std::size_t number : files.empty() ? usual : files) {
        workload.files = number;
        settings.push_back({patch, rank, number, model::Predict(question.machine, workload)});
        progress.Update(settings.size());
      }
    }
  }
  return settings;
}

// --- output ---

nlohmann::ordered_json ToJson(const Setting& setting) {
  const model::Prediction& prediction = setting.prediction;
  nlohmann::ordered_json json;
  json["patch"] = setting.patch;
  json["ranks"] = prediction.ranks;
  json["process_grid"] = setting.ranks;
  json["nodes"] = prediction.nodes;
  json["files"] = prediction.files;
  json["patches"] = prediction.patches;
  json["most_patches_per_rank"] = prediction.most_patches_per_rank;
  json["bytes_in"] = prediction.bytes_in;
  json["bytes_out"] = prediction.bytes_out;
  json["largest_file_bytes"] = prediction.largest_file;
  json["exchange"] = {{"bytes_moved", prediction.exchange.bytes_moved},
                      {"messages", prediction.exchange.messages}};
  json["transfer"] = {{"bytes_moved", prediction.transfer.bytes_moved},
                      {"messages", prediction.transfer.messages}};
  for (std::size_t p = 0; p < model::kPhases; ++p) {
    const model::PhaseSeconds& phase = prediction.phases[p];
    const std::string name(model::kPhaseNames[p]);
    json["seconds"][name] = phase.total();
    json["terms"][name] = {{"cores_s", phase.cores},
                           {"memory_s", phase.memory},
                           {"network_s", phase.network},
                           {"file_system_s", phase.file_system}};
  }
  json["seconds"]["total"] = prediction.total_seconds();
  return json;
}

void PrintJson(const PredictOptions& options, const Question& question,
               const std::vector<Setting>& settings) {
  nlohmann::ordered_json json;
  json["dims"] = question.dims;
  json["type"] = options.type;
  json["machine"] = nlohmann::ordered_json::parse(model::ToJson(question.machine));
  // One combination is the object itself, so that scripts find its seconds at the top.
  if (settings.size() == 1) {
    json.update(ToJson(settings[0]));
  } else {
    for (const Setting& setting : settings) json["combinations"].push_back(ToJson(setting));
  }
  fmt::print("{}\n", json.dump());
}

/// What most of a phase is spent on.
std::string_view Limit(const model::PhaseSeconds& phase) {
  const double inside = std::max(phase.cores, phase.memory);
  if (phase.file_system > inside && phase.file_system > phase.network) return "file system";
  if (phase.network > inside) return "network";
  return phase.memory > phase.cores ? "memory" : "cores";
}

void PrintOne(const Question& question, const Setting& setting) {
  const model::Prediction& prediction = setting.prediction;
  fmt::print(
      "{} of {}: {} patches of {} on {} ranks, {} node{}, {} file{}; machine \"{}\"\n"
      "  payload    {} of {}, largest file {}\n"
      "  exchange   {} in {} messages\n"
      "  transfer   {} in {} messages\n"
      "  balance    at most {} patches per rank, {:.2f} on average\n\n"
      "{:<10} {:>10} {:>10} {:>10} {:>10} {:>12}  {}\n",
      ToString(question.dims), Name(question.type), prediction.patches, setting.patch, prediction.ranks,
      prediction.nodes, prediction.nodes == 1 ? "" : "s", prediction.files, prediction.files == 1 ? "" : "s",
      question.machine.name, FormatBytes(prediction.bytes_out), FormatBytes(prediction.bytes_in),
      FormatBytes(prediction.largest_file), FormatBytes(prediction.exchange.bytes_moved),
      prediction.exchange.messages, FormatBytes(prediction.transfer.bytes_moved),
      prediction.transfer.messages, prediction.most_patches_per_rank,
      static_cast<double>(prediction.patches) / static_cast<double>(prediction.ranks), "phase", "seconds",
      "cores", "memory", "network", "file system", "limited by");
  for (std::size_t p = 0; p < model::kPhases; ++p) {
    const model::PhaseSeconds& phase = prediction.phases[p];
    fmt::print("{:<10} {:>10.4f} {:>10.4f} {:>10.4f} {:>10.4f} {:>12.4f}  {}\n", model::kPhaseNames[p],
               phase.total(), phase.cores, phase.memory, phase.network, phase.file_system,
               phase.total() > 0 ? Limit(phase) : "");
  }
  fmt::print("{:<10} {:>10.4f}\n", "total", prediction.total_seconds());
}

void PrintTable(const std::vector<Setting>& settings) {
  fmt::print("{:>12} {:>12} {:>7} {:>7} {:>10} {:>11} |", "patch", "ranks", "nodes", "files", "moved",
             "largest file");
  for (const std::string_view phase : model::kPhaseNames) fmt::print(" {:>9}", phase);
  fmt::print(" {:>9}\n", "total s");
  for (const Setting& setting : settings) {
    const model::Prediction& prediction = setting.prediction;
    fmt::print("{:>12} {:>12} {:>7} {:>7} {:>10} {:>12} |", setting.patch, setting.ranks, prediction.nodes,
               prediction.files, FormatBytes(prediction.exchange.bytes_moved),
               FormatBytes(prediction.largest_file));
    for (const model::PhaseSeconds& phase : prediction.phases) fmt::print(" {:>9.4f}", phase.total());
    fmt::print(" {:>9.4f}\n", prediction.total_seconds());
  }
}

/// The default machine puts all ranks on one small node, which is hardly what a user of many ranks means.
void PrintNoteOnMachine(const PredictOptions& options, const Question& question,
                        const std::vector<Setting>& settings) {
  int most = 0;
  for (const Setting& setting : settings) most = std::max(most, static_cast<int>(setting.prediction.ranks));
  if (!options.machine.empty() || question.machine.ranks_per_node > 0 ||
      most <= question.machine.cores_per_node)
    return;
  fmt::print(
      "\nno machine is given: assuming {} ranks on one node of {} cores; give --machine FILE (quarry-plan "
      "calibrate), or --set cores_per_node=64 ranks_per_node=64\n",
      most, question.machine.cores_per_node);
}

Status Run(const PredictOptions& options) {
  QUARRY_ASSIGN_OR_RETURN(const Question question, Interpret(options));
  QUARRY_ASSIGN_OR_RETURN(const std::vector<Setting> settings, PredictAll(question, options));
  if (options.json) {
    PrintJson(options, question, settings);
    return Status::Ok();
  }
  if (settings.size() == 1) {
    PrintOne(question, settings[0]);
  } else {
    PrintTable(settings);
  }
  PrintNoteOnMachine(options, question, settings);
  return Status::Ok();
}

}  // namespace

Command DeclarePredict(command_line::Parser* app) {
  auto options = std::make_shared<PredictOptions>();
  app->AddOption("--dims", &options->dims, "samples, XxYxZ, x fastest").Required();
  app->AddOption("--type", &options->type, "type of the samples; default: float32");
  app->AddOption(
         "--ranks", &options->ranks,
         "N: ranks of quarry-write, which read slabs of a file; XxYxZ: process grid of a simulation that "
         "has its samples in memory. Several, separated by commas, make a table")
      .Required();
  app->AddOption("--source", &options->source, "file or memory; default: from the form of --ranks");
  app->AddOption("--patch", &options->patch, "samples of a patch, N or XxYxZ, or several; default: 64");
  app->AddOption("--files", &options->files, "subfiles, or several numbers; default: one for every 8 ranks");
  app->AddOption("--placement", &options->placement, "balanced (default) or greedy");
  app->AddOption("--aggregation", &options->aggregation, "balanced (default) or equal");
  app->AddOption("--ratio", &options->ratio,
                 "bytes of samples over bytes of payload; default: from --sizes or the machine");
  app->AddOption("--sizes", &options->sizes,
                 "report of quarry-write: gives the spread of the payload over the domain");
  app->AddOption("--machine", &options->machine, "JSON of quarry-plan calibrate; default: a small server")
      .Path();
  app->AddOption("--set", &options->constants, "name=value: a constant of the machine; may be repeated");
  app->AddFlag("--json", &options->json, "print one JSON object");
  app->SetFooter(
      "Example:\n"
      "  quarry-plan predict --dims 4096x4096x4096 --ranks 8x8x8,16x16x16 --patch 32,64,128 --files 8,64 \\\n"
      "      --machine cluster.json --set ranks_per_node=64\n"
      "docs/planning.md has the equations, and what they leave out.");
  return [options] { return Run(*options); };
}

}  // namespace quarry::plan
