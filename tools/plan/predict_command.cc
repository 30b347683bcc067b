#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "quarry/base/file.h"
#include "quarry/base/numbers.h"
#include "quarry/base/progress.h"
#include "quarry/base/split.h"
#include "quarry/base/units.h"
#include "tools/plan/command.h"
#include "writer/distribution/decomposition.h"
#include "writer/distribution/size_grid.h"
#include "writer/model/cost_model.h"
#include "writer/model/file_system.h"

namespace quarry::plan {
namespace {

constexpr std::uint64_t kJsonLimit = std::uint64_t{1} << 30;

struct PredictOptions {
  std::string dims;
  std::string type = "float32";
  std::string ranks;
  std::string patch;  ///< empty: the default of the grid
  std::string files;
  std::string source;
  std::string placement = "balanced";
  std::string exchange = "patch";
  std::string pipeline = "balanced";
  bool best = false;
  double ratio = 0;
  std::string sizes;
  std::string machine;
  std::vector<std::string> constants;
  bool json = false;
};

/// One of the combinations of a what-if, in the words of the options.
struct Setting {
  std::string patch;
  std::string ranks;
  std::string placement;
  std::string exchange;
  std::string pipeline;
  model::Prediction prediction;
  std::string files_note;  ///< why --files auto has chosen this number
};

/// Settings that all combinations share.
struct Question {
  Index3 dims{};
  DataType type = DataType::kFloat32;
  model::Machine machine;
  double ratio = 0;
  std::optional<distribution::SizeGrid> sizes;
};

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
  QUARRY_ASSIGN_OR_RETURN(question.machine, LoadMachine(options.machine, options.constants));
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

Result<std::size_t> ParseFiles(std::string_view text) {
  std::size_t files = 0;
  if (!ReadNumber(text, &files) || files == 0)
    return InvalidArgument("--files \"{}\" is not a number of files; give for example 8, or 1,8,64", text);
  return files;
}

/// The ways from encoded patches to files, by their names in quarry-iobench.
Status SetPipeline(const std::string& name, model::Workload* workload) {
  using model::Pipeline;
  if (name == "fpp") {
    workload->pipeline = Pipeline::kFilePerRank;
  } else if (name == "collective") {
    workload->pipeline = Pipeline::kCollective;
  } else if (name == "group-collective") {
    workload->pipeline = Pipeline::kGroupCollective;
  } else if (name == "equal" || name == "balanced") {
    workload->pipeline = Pipeline::kAggregated;
    QUARRY_ASSIGN_OR_RETURN(workload->aggregation, distribution::ParseAggregation(name));
  } else {
    return InvalidArgument(
        "--pipeline \"{}\" is not known; give fpp, collective, group-collective, equal or balanced", name);
  }
  return Status::Ok();
}

/// Whether the number of files is part of the question.
bool HasFiles(const model::Workload& workload) {
  return workload.pipeline == model::Pipeline::kAggregated ||
         workload.pipeline == model::Pipeline::kGroupCollective;
}

/// A process grid is a simulation with its data in memory; a plain number means ranks that read slabs of a
/// file.
bool ReadsFile(const PredictOptions& options, const std::string& ranks) {
  return options.source.empty() ? ranks.find('x') == std::string::npos : options.source == "file";
}

Result<model::Workload> MakeWorkload(const Question& question, const PredictOptions& options,
                                     const Setting& setting) {
  QUARRY_ASSIGN_OR_RETURN(const Index3 patch, ParsePatch(setting.patch, question.dims));
  QUARRY_ASSIGN_OR_RETURN(const Index3 process_grid, ParseProcessGrid(setting.ranks));
  QUARRY_ASSIGN_OR_RETURN(PatchGrid grid, MakeGrid(question.dims, patch));
  model::Workload workload{.grid = std::move(grid), .owned = {}, .patch_weights = {}};
  workload.sample_bytes = SizeOf(question.type);
  workload.from_file = ReadsFile(options, setting.ranks);
  workload.owned =
      workload.from_file
          ? distribution::ReadingOwnership(workload.grid.domain(), {1, 1, 1},
                                           static_cast<int>(Volume(process_grid)),
                                           distribution::ReadingOrder::kConsecutive)
          : distribution::OneBoxEach(distribution::ProcessGridBoxes(question.dims, process_grid));
  QUARRY_ASSIGN_OR_RETURN(workload.placement, distribution::ParsePlacement(setting.placement));
  QUARRY_ASSIGN_OR_RETURN(workload.exchange_batch, distribution::ParseExchange(setting.exchange));
  QUARRY_RETURN_IF_ERROR(SetPipeline(setting.pipeline, &workload));
  workload.ratio = question.ratio;
  if (question.sizes)
    workload.patch_weights = distribution::Extrapolate(*question.sizes, workload.grid.patches()).bytes;
  return workload;
}

/// Powers of two around the model's first guess, or all of them where it has none; as many as files can be.
std::vector<std::size_t> CandidateFiles(const model::Machine& machine, const model::Workload& workload) {
  const auto patches = static_cast<double>(workload.grid.patch_count());
  const double bytes = static_cast<double>(Volume(workload.grid.domain().shape())) *
                       static_cast<double>(workload.sample_bytes) /
                       (workload.ratio > 0 ? workload.ratio : machine.compression_ratio);
  const double guess =
      model::BestFiles(machine, static_cast<std::uint64_t>(bytes), workload.grid.patch_count());
  const double most = std::min(patches, static_cast<double>(workload.owned.size()));
  std::vector<std::size_t> files;
  for (double n = 1; n <= most; n *= 2) {
    if (guess == 0 || (n >= guess / 16 && n <= guess * 16)) files.push_back(static_cast<std::size_t>(n));
  }
  if (files.empty()) files.push_back(static_cast<std::size_t>(most));
  return files;
}

/// The fewest files that are within 3 % of the best: fewer files are easier to keep.
Setting ChooseFiles(const model::Machine& machine, const Setting& setting, model::Workload workload) {
  std::vector<Setting> tried;
  double best = std::numeric_limits<double>::infinity();
  for (const std::size_t files : CandidateFiles(machine, workload)) {
    workload.files = files;
    tried.push_back(setting);
    tried.back().prediction = model::Predict(machine, workload);
    best = std::min(best, tried.back().prediction.total_seconds());
  }
  const std::size_t first = tried.front().prediction.files;
  const std::size_t last = tried.back().prediction.files;
  const auto chosen = std::find_if(tried.begin(), tried.end(), [&](const Setting& s) {
    return s.prediction.total_seconds() <= 1.03 * best;
  });
  chosen->files_note =
      fmt::format("the fewest of {} to {} files within 3 % of the best, {:.4g} s", first, last, best);
  return *chosen;
}

/// The combinations of all requested values, without the number of files.
std::vector<Setting> Combine(const PredictOptions& options) {
  const auto choices = [&](std::string_view asked, std::string_view all) {
    return Split(options.best ? all : asked, ',');
  };
  std::vector<Setting> settings;
  for (const std::string_view patch : Split(options.patch, ',')) {
    for (const std::string_view ranks : Split(options.ranks, ',')) {
      for (const std::string_view placement : choices(options.placement, "balanced,greedy")) {
        for (const std::string_view exchange : choices(options.exchange, "patch,rank")) {
          for (const std::string_view pipeline :
               choices(options.pipeline, "balanced,equal,group-collective,collective,fpp"))
            settings.push_back({std::string(patch),
                                std::string(ranks),
                                std::string(placement),
                                std::string(exchange),
                                std::string(pipeline),
                                {},
                                {}});
        }
      }
    }
  }
  return settings;
}

Result<std::vector<Setting>> PredictAll(const Question& question, const PredictOptions& options) {
  const bool automatic = options.best || options.files == "auto";
  std::vector<std::size_t> files;
  if (!automatic && !options.files.empty()) {
    for (const std::string_view text : Split(options.files, ',')) {
      QUARRY_ASSIGN_OR_RETURN(const std::size_t number, ParseFiles(text));
      files.push_back(number);
    }
  }
  const std::vector<Setting> combinations = Combine(options);
  std::vector<Setting> settings;
  Progress progress("predict", combinations.size(), true);
  for (std::size_t c = 0; c < combinations.size(); ++c) {
    Setting setting = combinations[c];
    if (setting.patch.empty()) setting.patch = ToString(DefaultPatch(question.dims));
    QUARRY_ASSIGN_OR_RETURN(model::Workload workload, MakeWorkload(question, options, setting));
    if (automatic && HasFiles(workload)) {
      settings.push_back(ChooseFiles(question.machine, setting, std::move(workload)));
    } else {
      // quarry-write's own default: one for every 8 ranks.
      const std::vector<std::size_t> usual = {std::max<std::size_t>(1, workload.owned.size() / 8)};
      for (const std::size_t number : files.empty() || !HasFiles(workload) ? usual : files) {
        workload.files = number;
        setting.prediction = model::Predict(question.machine, workload);
        settings.push_back(setting);
      }
    }
    progress.Update(c + 1);
  }
  if (options.best) {
    std::stable_sort(settings.begin(), settings.end(), [](const Setting& a, const Setting& b) {
      return a.prediction.total_seconds() < b.prediction.total_seconds();
    });
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
  json["placement"] = setting.placement;
  json["exchange_batch"] = setting.exchange;
  json["pipeline"] = setting.pipeline;
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
  json["tables"] = {{"most_bytes", prediction.tables.bytes},
                    {"most_messages", prediction.tables.messages},
                    {"most_message_bytes", prediction.tables.message_bytes}};
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

/// The best of the settings that quarry-write has, as its options.
std::string Advice(const std::vector<Setting>& settings) {
  for (const Setting& setting : settings) {
    if (setting.pipeline != "balanced" && setting.pipeline != "equal") continue;
    return fmt::format("quarry-write --patch {} --placement {} --exchange {} --aggregation {} --files {}",
                       setting.patch, setting.placement, setting.exchange, setting.pipeline,
                       setting.prediction.files);
  }
  return "";
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
  if (options.best) json["advice"] = Advice(settings);
  PrintOut("{}\n", json.dump());
}

/// The resource that limits a phase.
std::string_view Limit(const model::PhaseSeconds& phase) {
  const double inside = std::max(phase.cores, phase.memory);
  if (phase.file_system > inside && phase.file_system > phase.network) return "file system";
  if (phase.network > inside) return "network";
  return phase.memory > phase.cores ? "memory" : "cores";
}

void PrintOne(const Question& question, const Setting& setting) {
  const model::Prediction& prediction = setting.prediction;
  PrintOut(
      "{} of {}: {} patches of {} on {} ranks, {} node{}, {} file{}; machine \"{}\"\n"
      "  payload    {} of {}, largest file {}\n"
      "  exchange   {} in {} messages\n"
      "  transfer   {} in {} messages\n"
      "  tables     at most {} on a rank, {} in {} messages\n"
      "  balance    at most {} patches per rank, {:.2f} on average\n\n"
      "{:<10} {:>10} {:>10} {:>10} {:>10} {:>12}  {}\n",
      ToString(question.dims), Name(question.type), prediction.patches, setting.patch, prediction.ranks,
      prediction.nodes, prediction.nodes == 1 ? "" : "s", prediction.files, prediction.files == 1 ? "" : "s",
      question.machine.name, FormatBytes(prediction.bytes_out), FormatBytes(prediction.bytes_in),
      FormatBytes(prediction.largest_file), FormatBytes(prediction.exchange.bytes_moved),
      prediction.exchange.messages, FormatBytes(prediction.transfer.bytes_moved),
      prediction.transfer.messages, FormatBytes(prediction.tables.bytes),
      FormatBytes(prediction.tables.message_bytes), prediction.tables.messages,
      prediction.most_patches_per_rank,
      static_cast<double>(prediction.patches) / static_cast<double>(prediction.ranks), "phase", "seconds",
      "cores", "memory", "network", "file system", "limited by");
  for (std::size_t p = 0; p < model::kPhases; ++p) {
    const model::PhaseSeconds& phase = prediction.phases[p];
    PrintOut("{:<10} {:>10.4f} {:>10.4f} {:>10.4f} {:>10.4f} {:>12.4f}  {}\n", model::kPhaseNames[p],
             phase.total(), phase.cores, phase.memory, phase.network, phase.file_system,
             phase.total() > 0 ? Limit(phase) : "");
  }
  PrintOut("{:<10} {:>10.4f}\n", "total", prediction.total_seconds());
  if (!setting.files_note.empty()) PrintOut("files: {}\n", setting.files_note);
}

void PrintTable(const std::vector<Setting>& settings) {
  PrintOut("{:>12} {:>12} {:>9} {:>8} {:>16} {:>7} {:>10} {:>11} |", "patch", "ranks", "placement",
           "exchange", "pipeline", "files", "moved", "largest file");
  for (const std::string_view phase : model::kPhaseNames) PrintOut(" {:>9}", phase);
  PrintOut(" {:>9}\n", "total s");
  for (const Setting& setting : settings) {
    const model::Prediction& prediction = setting.prediction;
    PrintOut("{:>12} {:>12} {:>9} {:>8} {:>16} {:>7} {:>10} {:>12} |", setting.patch, setting.ranks,
             setting.placement, setting.exchange, setting.pipeline, prediction.files,
             FormatBytes(prediction.exchange.bytes_moved), FormatBytes(prediction.largest_file));
    for (const model::PhaseSeconds& phase : prediction.phases) PrintOut(" {:>9.4f}", phase.total());
    PrintOut(" {:>9.4f}\n", prediction.total_seconds());
  }
}

/// The default machine puts all ranks on one small node, which users of many ranks rarely mean.
void PrintNoteOnMachine(const PredictOptions& options, const Question& question,
                        const std::vector<Setting>& settings) {
  int most = 0;
  for (const Setting& setting : settings) most = std::max(most, static_cast<int>(setting.prediction.ranks));
  if (!options.machine.empty() || question.machine.ranks_per_node > 0 ||
      most <= question.machine.cores_per_node)
    return;
  PrintOut(
      "\nwithout --machine: assuming {} ranks on one node of {} cores; give --machine FILE (quarry-plan "
      "calibrate), or --set cores_per_node=64 ranks_per_node=64\n",
      most, question.machine.cores_per_node);
}

Result<int> Run(const PredictOptions& options) {
  QUARRY_ASSIGN_OR_RETURN(const Question question, Interpret(options));
  QUARRY_ASSIGN_OR_RETURN(const std::vector<Setting> settings, PredictAll(question, options));
  if (options.json) {
    PrintJson(options, question, settings);
    return 0;
  }
  if (settings.size() == 1) {
    PrintOne(question, settings[0]);
  } else {
    PrintTable(settings);
  }
  if (options.best) PrintOut("\nthe best that quarry-write has: {} INPUT...\n", Advice(settings));
  PrintNoteOnMachine(options, question, settings);
  return 0;
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
  app->AddOption("--patch", &options->patch,
                 "samples of a patch, N or XxYxZ, or several; default: that of quarry-write");
  app->AddOption(
      "--files", &options->files,
      "subfiles, or several numbers; auto: the fewest within 3 % of the best; default: one for every 8 "
      "ranks");
  app->AddOption("--placement", &options->placement, "balanced (default), greedy, or both");
  app->AddOption("--exchange", &options->exchange,
                 "messages between two ranks: one for each patch (patch, default), one for all (rank), or N "
                 "patches in each (a number)");
  app->AddOption(
      "--pipeline", &options->pipeline,
      "how files are written: balanced (default) or equal (aggregators, as quarry-write does), fpp (a file "
      "for each rank), collective (one file, MPI-IO), group-collective; or several");
  app->AddFlag(
      "--best", &options->best,
      "tries both placements, two exchanges, all pipelines and numbers of files; best first, with the "
      "options of quarry-write");
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
