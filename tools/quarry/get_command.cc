#include <chrono>
#include <nlohmann/json.hpp>

#include "quarry/base/units.h"
#include "tools/quarry/command.h"
#include "tools/quarry/output_file.h"

namespace quarry::tools {
namespace {

struct GetOptions {
  QuestionOptions question;
  std::string output;
  bool progressive = false;
  bool json = false;
  ImageOptions image;
  std::string range;
};

std::string ToJson(const client::LevelSamples& samples, const client::ReadCost& cost, double seconds) {
  nlohmann::ordered_json json;
  json["level"] = samples.level;
  json["begin"] = samples.extent.begin;
  json["shape"] = samples.extent.shape();
  json["spacing"] = samples.spacing;
  json["dtype"] = Name(samples.type);
  json["max_error"] = samples.max_error;
  json["coverage"] = samples.coverage;
  json["damaged"] = nlohmann::json::array();
  for (const client::DamagedBox& box : samples.damaged) {
    json["damaged"].push_back({{"begin", box.extent.begin},
                               {"shape", box.extent.shape()},
                               {"shown_level", box.shown_level}});
  }
  json["bytes_received"] = cost.bytes_received;
  json["patches"] = cost.price.patches;
  json["seconds"] = seconds;
  return json.dump();
}

void WarnOfDamage(const client::LevelSamples& samples) {
  if (samples.damaged.empty()) return;
  std::int64_t damaged = 0;
  for (const client::DamagedBox& box : samples.damaged) damaged += box.extent.volume();
  fmt::print(stderr,
             "warning: {} of {} samples are damaged and repeat those of coarser levels (first in {}); run "
             "\"quarry verify\" where the dataset is, or ask with --strict for an error instead\n",
             damaged, samples.extent.volume(), ToString(samples.damaged.front().extent));
}

/// A zoom that shows each level in the size of the finest, so that a picture does not jump as it gets better.
ImageOptions ImageForLevel(const GetOptions& options, const client::LevelSamples& samples) {
  ImageOptions image = options.image;
  image.zoom <<= samples.level - samples.finest_level;
  return image;
}

Result<int> Get(GetOptions options) {
  const auto begin = std::chrono::steady_clock::now();
  QUARRY_RETURN_IF_ERROR(internal::ToStatus(FormatOf(options.output)));
  if (!options.range.empty()) {
    QUARRY_ASSIGN_OR_RETURN(options.image.range, ParseRange(options.range, "--range"));
  }
  QUARRY_ASSIGN_OR_RETURN(const std::unique_ptr<client::Dataset> dataset, options.question.Open());
  QUARRY_ASSIGN_OR_RETURN(query::ReadRequest request, options.question.Resolve(dataset->description()));
  if (options.progressive && request.stride)
    return InvalidArgument("--stride is answered at once; leave --progressive out");
  if (options.progressive && request.level < dataset->description().levels)
    request.first_level = dataset->description().levels - 1;
  std::string units;
  if (const auto number = dataset->description().FindField(request.field)) {
    units = dataset->description().fields[*number].units;
    options.image.fill = dataset->description().fields[*number].fill_bits();
  }

  QUARRY_RETURN_IF_ERROR(dataset->ReadLevels(
      request, [&](client::LevelSamples* samples, const client::ReadCost& cost) -> Status {
        const double seconds =
            std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        // A coarse level of a thin plane may hold no sample: there is no picture of it yet, and the next
        // level may have one.
        const bool last = samples->level == samples->finest_level;
        if (last || !samples->extent.empty())
          QUARRY_RETURN_IF_ERROR(WriteSamples(options.output, *samples, ImageForLevel(options, *samples)));
        if (options.progressive && !options.json) {
          fmt::print("level {}  {:.3f} s  {} received  max error {}{}\n", samples->level, seconds,
                     FormatBytes(cost.bytes_received), WithUnits(samples->max_error, units),
                     CoverageText(samples->coverage));
        }
        if (!last) return Status::Ok();
        WarnOfDamage(*samples);
        if (options.json) {
          fmt::print("{}\n", ToJson(*samples, cost, seconds));
        } else {
          fmt::print("{}: level {}, {} samples of {} from {}, max error {}{}, {} patches, {:.3f} s\n",
                     options.output, samples->level, ToString(samples->extent.shape()), Name(samples->type),
                     ToString(samples->extent.begin), WithUnits(samples->max_error, units),
                     CoverageText(samples->coverage), cost.price.patches, seconds);
        }
        return Status::Ok();
      }));
  return 0;
}

}  // namespace

Command DeclareGet(CLI::App* app) {
  auto options = std::make_shared<GetOptions>();
  options->question.DeclareOn(app);
  options->question.DeclareTargetsOn(app);
  options->question.DeclareFocusOn(app);
  options->question.DeclareSamplesOn(app);
  app->add_option(
         "-o,--output", options->output,
         "file to write; .raw, .npy or (one sample thick) .png, in which missing samples are transparent")
      ->required();
  app->add_flag("--progressive", options->progressive,
                "write the coarsest level first and again at each finer one");
  app->add_flag("--json", options->json, "print one JSON object when done");
  app->add_option("--colormap", options->image.colormap, "viridis, magma, cividis, coolwarm or gray (.png)");
  app->add_option("--range", options->range, "LOW:HIGH, values of the first and last colour (.png)");
  app->add_option("--zoom", options->image.zoom, "pixels along each side of a sample (.png)");
  app->footer(
      "Example:\n  quarry get grpc://127.0.0.1:50051/run42 --field speed --box :,:,32:33 --level 1 --output "
      "plane.png");
  return [options] { return Get(*options); };
}

}  // namespace quarry::tools
