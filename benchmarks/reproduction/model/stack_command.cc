#include <nlohmann/json.hpp>

#include "benchmarks/reproduction/model/command.h"
#include "benchmarks/reproduction/model/stack_model.h"
#include "benchmarks/reproduction/model/stack_traffic.h"
#include "quarry/base/checked_math.h"
#include "quarry/base/output.h"
#include "quarry/base/units.h"
#include "quarry/data_type.h"
#include "tools/plan/arguments.h"

namespace quarry::reproduction {
namespace {

struct StackOptions {
  std::string dims;
  std::string type = "float32";
  std::string ranks;
  std::string reading = "consecutive";
  std::vector<std::string> constants;
  bool json = false;
};

Result<distribution::ReadingOrder> ParseReading(const std::string& text) {
  if (text == "consecutive") return distribution::ReadingOrder::kConsecutive;
  if (text == "round-robin") return distribution::ReadingOrder::kRoundRobin;
  if (text == "direct") return distribution::ReadingOrder::kDirect;
  return InvalidArgument("--reading \"{}\" is not known; give consecutive, round-robin or direct", text);
}

Result<int> Run(const StackOptions& options) {
  QUARRY_ASSIGN_OR_RETURN(const Index3 dims, ParseShape(options.dims, "--dims"));
  QUARRY_ASSIGN_OR_RETURN(const DataType type, ParseDataType(options.type));
  QUARRY_ASSIGN_OR_RETURN(const Index3 process_grid, plan::ParseProcessGrid(options.ranks));
  QUARRY_ASSIGN_OR_RETURN(const auto order, ParseReading(options.reading));
  const auto sample_bytes = static_cast<std::int64_t>(SizeOf(type));
  std::int64_t bytes = sample_bytes;
  for (const std::int64_t samples : dims) {
    if (!CheckedMultiply(bytes, samples, &bytes))
      return InvalidArgument("--dims {} of {} have 2^63 bytes or more; plan a part of the stack",
                             options.dims, options.type);
  }
  constexpr std::int64_t kMostImages = 1 << 24;
  if (dims[2] > kMostImages) {
    return InvalidArgument("--dims {} has {} images; at most {} can be planned", options.dims, dims[2],
                           kMostImages);
  }
  const StackTraffic traffic =
      CountStackTraffic(dims, static_cast<std::size_t>(sample_bytes), process_grid, order);
  StackMachine machine;
  for (const std::string& constant : options.constants)
    QUARRY_RETURN_IF_ERROR(SetConstant(constant, &machine));
  constexpr double kMiB = 1 << 20;
  const double image_mib = static_cast<double>(bytes / dims[2]) / kMiB;
  const StackSeconds seconds =
      PredictStack(machine, {order, Volume(process_grid), traffic.images_per_rank, image_mib, traffic.rounds,
                             traffic.mib_per_rank_per_round});
  if (options.json) {
    nlohmann::ordered_json json;
    json["dims"] = dims;
    json["type"] = options.type;
    json["ranks"] = process_grid;
    json["reading"] = options.reading;
    json["rounds"] = traffic.rounds;
    json["mib_per_rank_per_round"] = traffic.mib_per_rank_per_round;
    json["messages"] = traffic.messages;
    json["bytes_moved"] = traffic.bytes_moved;
    json["bytes_kept"] = traffic.bytes_kept;
    json["images_read"] = traffic.images_read;
    json["images_per_rank"] = traffic.images_per_rank;
    json["seconds"] = {
        {"decode", seconds.decode}, {"exchange", seconds.exchange}, {"total", seconds.total()}};
    for (const StackConstant& constant : StackConstants())
      json["constants"][std::string(constant.name)] = machine.*constant.value;
    PrintOut("{}\n", json.dump());
    return 0;
  }
  PrintOut(
      "{} images of {}x{} {}, read {} by {} = {} ranks\n"
      "  decoded    {} images by the busiest rank, {} by all\n"
      "  rounds     {}\n"
      "  sent       {:.2f} MiB per rank and round\n"
      "  moved      {} in {} messages\n"
      "  kept       {}\n"
      "  seconds    {:.1f}: decode {:.1f}, exchange {:.1f}{}\n",
      dims[2], dims[0], dims[1], options.type, options.reading, ToString(process_grid), Volume(process_grid),
      traffic.images_per_rank, traffic.images_read, traffic.rounds, traffic.mib_per_rank_per_round,
      FormatBytes(static_cast<std::uint64_t>(traffic.bytes_moved)), traffic.messages,
      FormatBytes(static_cast<std::uint64_t>(traffic.bytes_kept)), seconds.total(), seconds.decode,
      seconds.exchange,
      options.constants.empty() ? "; constants fitted to the cluster of Marrinan et al., table II" : "");
  return 0;
}

}  // namespace

Command DeclareStack(command_line::Parser* app) {
  auto options = std::make_shared<StackOptions>();
  app->AddOption("--dims", &options->dims,
                 "samples of an image along x and y, and the number of images, XxYxZ")
      .Required();
  app->AddOption("--ranks", &options->ranks, "process grid that needs the volume in boxes, XxYxZ, x fastest")
      .Required();
  app->AddOption("--type", &options->type, "type of the samples; default: float32");
  app->AddOption(
      "--reading", &options->reading,
      "consecutive (default): each rank one run of images; round-robin: images in turn; direct: each "
      "rank all images that its box meets");
  app->AddOption("--set", &options->constants,
                 "name=value: a constant of the machine, such as decode_s_per_mib; may be repeated");
  app->AddFlag("--json", &options->json, "print one JSON object; sizes in bytes");
  app->SetFooter(
      "Example:\n  quarry-reproduce stack --dims 4096x2048x4096 --type float32 --ranks 3x3x3 --reading "
      "round-robin\n"
      "Seconds are those of the cluster of Marrinan et al., table II, unless --set gives other constants; "
      "benchmarks/reproduction/README.md has them.");
  return [options] { return Run(*options); };
}

}  // namespace quarry::reproduction
