#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "quarry/base/units.h"
#include "quarry/disk_cache/disk_cache.h"
#include "tools/quarry/command.h"
#include "tools/quarry/output_file.h"

namespace quarry::tools {
namespace {

struct GetOptions {
  QuestionOptions question;
  std::string output;
  bool progressive = false;
  bool json = false;
  bool verbose = false;
  ImageOptions image;
  std::string range;
};

std::string ToJson(const client::LevelSamples& samples, const client::ReadCost& cost, double seconds) {
  nlohmann::ordered_json json;
  json["field"] = samples.field;
  json["step"] = samples.step;
  json["level"] = samples.level;
  json["layer"] = samples.layer;
  json["begin"] = samples.extent.begin;
  json["shape"] = samples.extent.shape();
  json["spacing"] = samples.spacing;
  json["dtype"] = Name(samples.type);
  json["max_error"] = nullptr;
  if (std::isfinite(samples.max_error)) json["max_error"] = samples.max_error;
  json["coverage"] = samples.coverage;
  json["damaged"] = nlohmann::json::array();
  for (const client::DamagedBox& box : samples.damaged) {
    json["damaged"].push_back({{"begin", box.extent.begin},
                               {"shape", box.extent.shape()},
                               {"shown_level", box.shown_level},
                               {"shown_layer", box.shown_layer}});
  }
  json["left_out"] = nlohmann::json::array();
  for (const Box& box : samples.left_out)
    json["left_out"].push_back({{"begin", box.begin}, {"shape", box.shape()}});
  json["bytes_received"] = cost.bytes_received;
  if (const disk_cache::Usage usage = disk_cache::UsageOfProcess(); usage.bytes() > 0)
    json["bytes_from_cache"] = usage.from_cache;  // by all answers up to now
  if (cost.choice) json["encoding"] = EncodingName(cost.choice->encoding);
  json["patches"] = cost.planned.patches;
  json["seconds"] = seconds;
  return json.dump();
}

void WarnOfDamage(const client::LevelSamples& samples) {
  if (samples.damaged.empty()) return;
  std::int64_t damaged = 0;
  for (const client::DamagedBox& box : samples.damaged) damaged += box.extent.volume();
  WriteError(
      fmt::format("warning: {} of {} samples are damaged and come from coarser levels or rougher layers "
                  "(first in {}); no "
                  "error bound holds; run \"quarry verify\" where the dataset is\n",
                  damaged, samples.extent.volume(), ToString(samples.damaged.front().extent)));
}

/// "0.25 m/s", or "unknown" if damaged samples are shown.
std::string ErrorText(const client::LevelSamples& samples, const std::string& units) {
  if (!std::isfinite(samples.max_error)) return "unknown";
  return fmt::format("{:.5g}{}{}", samples.max_error, units.empty() ? "" : " ", units);
}

/// Why an answer came in its encoding.
std::string WhyText(const client::LevelSamples& samples, const client::ReadCost& cost) {
  const std::string answer = fmt::format("{}, step {}", samples.field, samples.step);
  if (!cost.choice) return fmt::format("{}: no server has chosen the encoding", answer);
  return fmt::format("{}: {}, {} received; expected: {}", answer, EncodingName(cost.choice->encoding),
                     FormatBytes(cost.bytes_received), PricesText(cost.planned, *cost.choice));
}

/// The output file of an answer: replaces "{field}" and "{step}".
std::string OutputFor(const std::string& output, const client::LevelSamples& samples) {
  const auto replace = [](std::string text, const std::string& name, const std::string& value) {
    for (std::size_t at = 0; (at = text.find(name, at)) != std::string::npos; at += value.size())
      text.replace(at, name.size(), value);
    return text;
  };
  return replace(replace(output, "{step}", std::to_string(samples.step)), "{field}", samples.field);
}

/// Answers must not overwrite each other.
Status CheckOutput(const GetOptions& options, const query::SeriesRequest& request) {
  for (const auto& [several, name] :
       {std::pair(request.fields.size() > 1, "{field}"), std::pair(request.steps.has_value(), "{step}")}) {
    if (several && options.output.find(name) == std::string::npos) {
      return InvalidArgument(
          "each answer needs its own file; write {} into --output \"{}\", for example "
          "\"out-{{field}}-{{step}}.npy\"",
          name, options.output);
    }
  }
  return Status::Ok();
}

/// Writes one level of an answer, and reports it.
class Output {
 public:
  /// @param begin    of the command
  /// @param dataset  null: it is not open
  Output(GetOptions options, std::chrono::steady_clock::time_point begin, const DatasetDescription* dataset)
      : options_(std::move(options)), begin_(begin), dataset_(dataset) {}

  /// Whether an answer has come.
  bool begun() const { return begun_; }

  /// Memory for the samples of a level, in the file where they belong.
  Result<std::span<std::byte>> Open(const client::LevelSamples& samples, std::size_t bytes) {
    begun_ = true;
    return file_.Open(OutputFor(options_.output, samples), samples, samples.description->given, bytes);
  }

  Status Write(const client::LevelSamples& samples, const client::ReadCost& cost) {
    begun_ = true;
    const FieldDescription& field = *samples.description;
    const std::string path = OutputFor(options_.output, samples);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
    // A coarse level of a thin plane may hold no sample: it gives no picture, but the next level may.
    const bool last = samples.last();
    if (last || !samples.extent.empty())
      QUARRY_RETURN_IF_ERROR(file_.Write(path, samples, field.given, ImageFor(samples, field), dataset_));
    if (options_.progressive && !options_.json) {
      const std::string layer = field.layers() > 1 ? fmt::format("layer {}  ", samples.layer) : "";
      Print("level {}  {}{:.3f} s  {} received  max error {}{}\n", samples.level, layer, seconds,
            FormatBytes(cost.bytes_received), ErrorText(samples, field.units),
            CoverageText(samples.coverage));
    }
    if (!last) return Status::Ok();
    WarnOfDamage(samples);
    if (options_.verbose) WriteError(Printable(WhyText(samples, cost)) + "\n");
    if (const std::string cache = CacheText(); options_.verbose && !cache.empty()) WriteError(cache + "\n");
    if (options_.json) {
      PrintOut("{}\n", ToJson(samples, cost, seconds));
      return Status::Ok();
    }
    std::int64_t left_out = 0;
    for (const Box& box : samples.left_out) left_out += box.volume();
    Print("{}: level {}, {} samples of {} from {}, max error {}{}{}, {} patches, {:.3f} s\n", path,
          samples.level, ToString(samples.extent.shape()), field.given_type(), ToString(samples.extent.begin),
          ErrorText(samples, field.units), CoverageText(samples.coverage), LeftOutText(left_out),
          cost.planned.patches, seconds);
    return Status::Ok();
  }

 private:
  /// A zoom that shows each level in the size of the finest, so that the picture keeps its size as it
  /// improves.
  ImageOptions ImageFor(const client::LevelSamples& samples, const FieldDescription& field) const {
    ImageOptions image = options_.image;
    image.zoom <<= samples.level - samples.finest_level;
    image.fill = field.fill_bits();
    return image;
  }

  const GetOptions options_;
  const std::chrono::steady_clock::time_point begin_;
  const DatasetDescription* const dataset_;
  bool begun_ = false;
  OutputFile file_;
};

/// Reads, and writes each level.
/// @param from  client::Dataset or client::Reader
template <typename From>
Status ReadTo(Output* output, const GetOptions& options, const From& from, query::SeriesRequest request) {
  QUARRY_RETURN_IF_ERROR(CheckOutput(options, request));
  if (options.progressive && std::holds_alternative<query::AtStride>(request.read.target))
    return InvalidArgument("--stride has only one level; leave out --progressive");
  if (options.progressive) {
    request.read.first_level = query::kCoarsestLevel;
    request.read.first_layer = 0;
  }
  client::CallOptions call;
  call.buffer = [output](const client::LevelSamples& samples, std::size_t bytes) {
    return output->Open(samples, bytes);
  };
  const auto write = [output](client::LevelSamples* samples, const client::ReadCost& cost) {
    return output->Write(*samples, cost);
  };
  return from.ReadSeries(request, write, call);
}

/// Asks without the description of the dataset, which saves a call to a server.
Status GetUnopened(const GetOptions& options, const client::Reader& reader, Output* output) {
  QUARRY_ASSIGN_OR_RETURN(query::SeriesRequest request, options.question.UnopenedSeries());
  return ReadTo(output, options, reader, std::move(request));
}

/// Whether a refusal may be different with the description of the dataset: an error about sizes is then in
/// the words of the options, and older servers neither complete questions nor choose samples for fields that
/// cannot be sent as patches.
bool NeedsDescription(const GetOptions& options, const Status& refusal) {
  const bool named = !options.question.field.empty() || !options.question.fields.empty();
  return refusal.code() == StatusCode::kInvalidArgument || refusal.code() == StatusCode::kUnimplemented ||
         (refusal.code() == StatusCode::kNotFound && !named);
}

Status GetOpened(const GetOptions& options, const client::Dataset& dataset, Output* output) {
  QUARRY_ASSIGN_OR_RETURN(query::SeriesRequest request,
                          options.question.ResolveSeries(dataset.description()));
  return ReadTo(output, options, dataset, std::move(request));
}

Result<int> Get(GetOptions options) {
  const auto begin = std::chrono::steady_clock::now();
  if (!options.range.empty()) {
    QUARRY_ASSIGN_OR_RETURN(options.image.range, ParseRange(options.range, "--range"));
  }
  QUARRY_ASSIGN_OR_RETURN(const OutputFormat format, FormatOf(options.output));
  QUARRY_ASSIGN_OR_RETURN(const std::unique_ptr<client::Reader> reader, options.question.Reach());
  // Positions along axes, and sizes of several grids, are in the description alone.
  if (format != OutputFormat::kCsv && !options.question.needs_description()) {
    Output output(options, begin, nullptr);
    const Status status = GetUnopened(options, *reader, &output);
    if (status.ok()) return 0;
    if (output.begun() || !NeedsDescription(options, status)) return status;
  }
  QUARRY_ASSIGN_OR_RETURN(const std::shared_ptr<const client::Dataset> dataset, reader->Open());
  Output output(options, begin, &dataset->description());
  QUARRY_RETURN_IF_ERROR(GetOpened(options, *dataset, &output));
  return 0;
}

}  // namespace

Command DeclareGet(command_line::Parser* app) {
  auto options = std::make_shared<GetOptions>();
  options->question.DeclareOn(app);
  options->question.DeclareTargetsOn(app);
  options->question.DeclareSeriesOn(app);
  options->question.DeclareSamplesOn(app);
  app->AddOption("-o,--output", &options->output,
                 "file to write: .raw, .npy, .png (box one sample thick; missing samples are transparent), "
                 "or .csv (line of samples); {field} and {step} in its name are replaced")
      .Path()
      .Required();
  app->AddFlag("--progressive", &options->progressive,
               "write the coarsest level first and again at each finer one");
  app->AddFlag("--json", &options->json, "print one JSON object when done, one line per answer");
  app->AddFlag("--verbose", &options->verbose,
               "say on stderr why a server has chosen the encoding of an answer, and what came from --cache");
  app->AddOption("--colormap", &options->image.colormap, "viridis, magma, cividis, coolwarm or gray (.png)");
  app->AddOption("--range", &options->range, "LOW:HIGH, values of the first and last colour (.png)");
  app->AddOption("--zoom", &options->image.zoom, "pixels along each side of a sample (.png)");
  app->SetFooter(
      "Example:\n  quarry get grpc://127.0.0.1:50051/run42 --field speed --box :,:,32:33 --level 1 --output "
      "plane.png\n  quarry get grpc://127.0.0.1:50051/run42 --fields speed,pressure --steps 0:1000:10 "
      "--box 0:64,0:64,0:64 --output \"{field}-{step}.npy\"");
  return [options] { return Get(*options); };
}

}  // namespace quarry::tools
