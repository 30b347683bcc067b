#include "quarry/base/file.h"
#include "quarry/base/units.h"
#include "tools/plan/command.h"
#include "tools/plan/measure.h"

namespace quarry::plan {
namespace {

struct CalibrateOptions {
  std::string output;
  std::string directory = ".";
  std::string file_size = "64MiB";
  bool cold = false;
  std::string sample;
  std::string dims;
  std::string type = "float32";
  double relative = 1e-4;
};

Result<int> Run(const CalibrateOptions& options) {
  CalibrationOptions calibration;
  calibration.directory = options.directory;
  calibration.cold_reads = options.cold;
  QUARRY_ASSIGN_OR_RETURN(calibration.file_bytes, ParseBytes(options.file_size));
  constexpr std::uint64_t kSmallest = 1 << 20;
  if (calibration.file_bytes < kSmallest) {
    return InvalidArgument("--file-size {} is too small to measure anything; give at least 1MiB",
                           options.file_size);
  }
  if (options.sample.empty() != options.dims.empty())
    return InvalidArgument("--sample and --dims go together: a raw file needs its samples XxYxZ");
  if (!(options.relative > 0)) return InvalidArgument("--relative {} must be above 0", options.relative);
  Sample& sample = calibration.sample;
  sample.path = options.sample;
  sample.relative_tolerance = options.relative;
  if (!options.sample.empty()) {
    QUARRY_ASSIGN_OR_RETURN(sample.dims, ParseShape(options.dims, "--dims"));
    QUARRY_ASSIGN_OR_RETURN(sample.type, ParseDataType(options.type));
  }
  const auto say = [](const std::string& line) { WriteError(line + "\n"); };
  QUARRY_ASSIGN_OR_RETURN(const model::Machine machine, Calibrate(calibration, say));
  const std::string json = model::ToJson(machine);
  QUARRY_RETURN_IF_ERROR(ReplaceFile(options.output, std::as_bytes(std::span(json))));
  return 0;
}

}  // namespace

Command DeclareCalibrate(command_line::Parser* app) {
  auto options = std::make_shared<CalibrateOptions>();
  app->AddOption("-o,--output", &options->output, "JSON file of the constants, for predict --machine")
      .Path()
      .Required();
  app->AddOption("--dir", &options->directory,
                 "directory on the file system that datasets are written to; default: the current one");
  app->AddOption("--file-size", &options->file_size,
                 "size of the largest file written there; default: 64MiB");
  app->AddFlag("--cold", &options->cold, "measure reading from the disk, not from the system's cache");
  app->AddOption("--sample", &options->sample,
                 "raw dump whose patches are encoded; default: a generated field");
  app->AddOption("--dims", &options->dims, "samples of --sample, XxYxZ, x fastest");
  app->AddOption("--type", &options->type, "type of --sample; default: float32");
  app->AddOption("--relative", &options->relative,
                 "tolerance as a fraction of the value range; default: 1e-4");
  app->SetFooter(
      "Example:\n"
      "  quarry-plan calibrate --output here.json --dir /scratch\n"
      "  quarry-plan predict --dims 512x512x512 --ranks 4 --machine here.json\n"
      "Takes a few seconds. One machine cannot measure its network: network_bandwidth_bytes_per_s,\n"
      "network_latency_s and ranks_per_node keep defaults; edit the file, or use predict --set.");
  return [options] { return Run(*options); };
}

}  // namespace quarry::plan
