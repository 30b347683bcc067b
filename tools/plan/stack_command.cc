#include <nlohmann/json.hpp>

#include "quarry/base/checked_math.h"
#include "quarry/base/units.h"
#include "tools/plan/command.h"
#include "writer/redistribute/stack.h"

namespace quarry::plan {
namespace {

struct StackOptions {
  std::string dims;
  std::string type = "float32";
  std::string ranks;
  std::string reading = "consecutive";
  bool json = false;
};

Result<distribution::ReadingOrder> ParseReading(const std::string& text) {
  if (text == "consecutive") return distribution::ReadingOrder::kConsecutive;
  if (text == "round-robin") return distribution::ReadingOrder::kRoundRobin;
  return InvalidArgument("--reading \"{}\" is not known; give consecutive or round-robin", text);
}

Status Run(const StackOptions& options) {
  QUARRY_ASSIGN_OR_RETURN(const Index3 dims, ParseShape(options.dims, "--dims"));
  QUARRY_ASSIGN_OR_RETURN(const DataType type, ParseDataType(options.type));
  QUARRY_ASSIGN_OR_RETURN(const Index3 process_grid, ParseProcessGrid(options.ranks));
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
  const redistribute::StackTraffic traffic =
      redistribute::CountStackTraffic(dims, static_cast<std::size_t>(sample_bytes), process_grid, order);
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
    fmt::print("{}\n", json.dump());
    return Status::Ok();
  }
  fmt::print(
      "{} images of {}x{} {}, read {} by {} = {} ranks\n"
      "  rounds     {}\n"
      "  sent       {:.2f} MiB per rank and round\n"
      "  moved      {} in {} messages\n"
      "  kept       {}\n",
      dims[2], dims[0], dims[1], options.type, options.reading, ToString(process_grid), Volume(process_grid),
      traffic.rounds, traffic.mib_per_rank_per_round,
      FormatBytes(static_cast<std::uint64_t>(traffic.bytes_moved)), traffic.messages,
      FormatBytes(static_cast<std::uint64_t>(traffic.bytes_kept)));
  return Status::Ok();
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
  app->AddOption("--reading", &options->reading,
                 "consecutive (default): each rank one run of images; round-robin: images in turn");
  app->AddFlag("--json", &options->json, "print one JSON object; sizes in bytes");
  app->SetFooter(
      "Example:\n  quarry-plan stack --dims 4096x2048x4096 --type float32 --ranks 3x3x3 --reading "
      "round-robin");
  return [options] { return Run(*options); };
}

}  // namespace quarry::plan
