#include <memory>

#include "benchmarks/reproduction/model/command.h"
#include "benchmarks/reproduction/model/study_report.h"
#include "quarry/base/output.h"
#include "tools/iobench/ranks.h"
#include "writer/pipeline/comm.h"

namespace quarry::reproduction {
namespace {

/// Options of both studies, as the user wrote them.
struct StudyOptions {
  std::string dims;
  std::string type;
  std::vector<std::string> patches = {"32", "64"};
  std::string process_grid;
  int repeat = 10;
  bool json = false;

  // Options of the exchange study.
  std::int64_t batch = 8;
  // Options of the placement study.
  double relative = 1e-4;
  std::string machine;
};

/// "64" is a cube, "64x64x32" a box.
Result<Index3> ParsePatch(const std::string& text) {
  QUARRY_ASSIGN_OR_RETURN(const Index3 patch, ParseShape(text, "--patch"));
  if (text.find('x') != std::string::npos) return patch;
  return Index3{patch[0], patch[0], patch[0]};
}

/// The options that both studies have.
template <typename Options>
Status ReadStudyOptions(const StudyOptions& texts, Options* options) {
  QUARRY_ASSIGN_OR_RETURN(options->dims, ParseShape(texts.dims, "--dims"));
  QUARRY_ASSIGN_OR_RETURN(options->type, ParseDataType(texts.type));
  QUARRY_ASSIGN_OR_RETURN(options->process_grid,
                          iobench::ProcessGridOf(texts.process_grid, writer::Size(MPI_COMM_WORLD)));
  for (const std::string& text : texts.patches) {
    QUARRY_ASSIGN_OR_RETURN(const Index3 patch, ParsePatch(text));
    options->patches.push_back(patch);
  }
  options->repeat = texts.repeat;
  options->progress = !texts.json;
  return Status::Ok();
}

template <typename Options, typename Results>
void Print(const StudyOptions& texts, const Options& options, const Results& results) {
  if (writer::Rank(MPI_COMM_WORLD) == 0)
    WriteOut(texts.json ? ToJson(options, results) : ToTable(options, results));
}

Result<int> StudyExchange(const StudyOptions& texts) {
  ExchangeOptions options;
  QUARRY_RETURN_IF_ERROR(ReadStudyOptions(texts, &options));
  options.batches = {writer::kExchangePerPatch, texts.batch, writer::kExchangePerRank};
  QUARRY_ASSIGN_OR_RETURN(const std::vector<ExchangeResult> results,
                          RunExchangeStudy(MPI_COMM_WORLD, options));
  Print(texts, options, results);
  return 0;
}

Result<int> StudyPlacement(const StudyOptions& texts) {
  PlacementOptions options;
  QUARRY_RETURN_IF_ERROR(ReadStudyOptions(texts, &options));
  options.relative = texts.relative;
  if (!texts.machine.empty()) {
    QUARRY_ASSIGN_OR_RETURN(const std::string machine, iobench::ReadOnRoot(texts.machine));
    QUARRY_ASSIGN_OR_RETURN(options.machine, model::ParseMachine(machine, texts.machine));
  }
  QUARRY_ASSIGN_OR_RETURN(const std::vector<PlacementResult> results,
                          RunPlacementStudy(MPI_COMM_WORLD, options));
  Print(texts, options, results);
  return 0;
}

/// @param type  the default
std::shared_ptr<StudyOptions> DeclareStudy(command_line::Parser* app, const std::string& type) {
  auto texts = std::make_shared<StudyOptions>();
  texts->type = type;
  app->AddOption("--dims", &texts->dims, "samples, XxYxZ").Required();
  app->AddOption("--type", &texts->type, "type of a sample; default: " + type);
  app->AddOption("--patch", &texts->patches, "samples of a patch, N or XxYxZ, one or several; default: 32,64")
      .SeparatedBy(',');
  app->AddOption("--ranks", &texts->process_grid, "ranks along x, y, z, as 4x2x2; default: nearly a cube");
  app->AddOption("--repeat", &texts->repeat, "timed runs, after an untimed one; default: 10")
      .Between(1, 1000000);
  app->AddFlag("--json", &texts->json, "print one JSON object instead of the table");
  return texts;
}

}  // namespace

Command DeclareExchange(command_line::Parser* app) {
  const auto texts = DeclareStudy(app, "float64");
  app->AddOption("--batch", &texts->batch, "parts of patches in a message; default: 8")
      .Between(std::int64_t{2}, std::int64_t{1} << 30);
  app->SetFooter("Example:\n  mpirun -n 8 quarry-reproduce exchange --dims 256x256x256 --patch 32,64");
  return [texts] { return StudyExchange(*texts); };
}

Command DeclarePlacement(command_line::Parser* app) {
  const auto texts = DeclareStudy(app, "float32");
  app->AddOption("--relative", &texts->relative,
                 "tolerance of the encoding, as a fraction of the range; default: 1e-4")
      .Positive();
  app->AddOption("--machine", &texts->machine,
                 "constants of quarry-plan calibrate, for the prediction; default: a small server")
      .Path();
  app->SetFooter(
      "Example:\n"
      "  mpirun -n 8 quarry-reproduce placement --dims 200x200x200 --patch 32 --ranks 2x2x2 --machine "
      "here.json");
  return [texts] { return StudyPlacement(*texts); };
}

}  // namespace quarry::reproduction
