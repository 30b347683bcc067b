#include <cmath>
#include <nlohmann/json.hpp>

#include "quarry/base/units.h"
#include "quarry/query/question_rules.h"
#include "tools/quarry/command.h"

namespace quarry::tools {
namespace {

struct StatsOptions {
  QuestionOptions question;
  std::string percentiles = "1,5,25,50,75,95,99";
  int bins = 32;
  std::string scale = "linear";
  std::string range;
  bool json = false;
};

/// JSON knows neither NaN nor infinity.
nlohmann::ordered_json Number(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
}

nlohmann::ordered_json ToJson(const query::Bounded& bounded) {
  return {{"value", Number(bounded.value)}, {"interval", {Number(bounded.low), Number(bounded.high)}}};
}

std::string ToJson(const query::StatisticsAnswer& answer) {
  const query::Statistics& s = answer.statistics;
  const query::LevelExtent& level = answer.header.levels.back();
  const query::Cost& cost = answer.header.cost;
  nlohmann::ordered_json json;
  json["step"] = answer.header.step;
  json["level"] = level.level;
  json["begin"] = level.extent.begin;
  json["shape"] = level.extent.shape();
  json["spacing"] = level.spacing;
  json["max_error"] = Number(level.max_error);
  json["valid"] = s.valid;
  json["missing"] = s.missing;
  json["min"] = ToJson(s.min);
  json["max"] = ToJson(s.max);
  json["mean"] = ToJson(s.mean);
  json["stddev"] = ToJson(s.stddev);
  json["box_min"] = {Number(s.box_min.low), Number(s.box_min.high)};
  json["box_max"] = {Number(s.box_max.low), Number(s.box_max.high)};
  json["percentiles"] = nlohmann::ordered_json::array();
  for (const query::Percentile& percentile : s.percentiles) {
    nlohmann::ordered_json entry{{"percent", percentile.percent}};
    entry.update(ToJson(percentile.at));
    entry["resolved"] = percentile.at.resolved;
    json["percentiles"].push_back(std::move(entry));
  }
  if (!s.histogram.counts.empty()) {
    json["histogram"] = {{"begin", s.histogram.begin},   {"end", s.histogram.end},
                         {"counts", s.histogram.counts}, {"low", s.histogram.low},
                         {"high", s.histogram.high},     {"below", s.histogram.below},
                         {"above", s.histogram.above}};
    for (std::size_t i = 0; i <= s.histogram.counts.size(); ++i)
      json["histogram"]["edges"].push_back(s.histogram.Edge(i));
  }
  json["patches"] = cost.patches;
  json["bytes"] = cost.bytes;
  json["bytes_read"] = cost.bytes_read;
  json["reads"] = cost.reads;
  return json.dump();
}

void PrintBounded(const std::string& name, const query::Bounded& bounded) {
  const std::string value = bounded.resolved ? fmt::format("{:.6g}", bounded.value) : "not resolved";
  Print("  {:<10} {:<14} original in [{:.6g}, {:.6g}]\n", name, value, bounded.low, bounded.high);
}

void PrintHistogram(const query::Histogram& histogram) {
  if (histogram.counts.empty()) return;
  const std::uint64_t most =
      std::max<std::uint64_t>(1, *std::max_element(histogram.counts.begin(), histogram.counts.end()));
  if (histogram.below > 0) Print("  {} below {:.6g}\n", histogram.below, histogram.begin);
  for (std::size_t b = 0; b < histogram.counts.size(); ++b) {
    constexpr double kWidth = 40;
    const auto length = static_cast<std::size_t>(
        std::ceil(kWidth * static_cast<double>(histogram.counts[b]) / static_cast<double>(most)));
    Print("  {:>13.6g} {:>12} {}\n", histogram.Edge(b), histogram.counts[b], std::string(length, '#'));
  }
  if (histogram.above > 0) Print("  {} above {:.6g}\n", histogram.above, histogram.end);
}

void PrintStatistics(const query::StatisticsAnswer& answer, const std::string& field,
                     const std::string& units) {
  const query::Statistics& s = answer.statistics;
  const query::LevelExtent& level = answer.header.levels.back();
  Print("{}{}, step {}, level {}: {} samples from {}, {} valid, {} missing\n", field,
        units.empty() ? "" : " in " + units, answer.header.step, level.level, ToString(level.extent.shape()),
        ToString(level.extent.begin), s.valid, s.missing);
  if (s.valid == 0) return;
  PrintBounded("min", s.min);
  PrintBounded("max", s.max);
  PrintBounded("mean", s.mean);
  PrintBounded("stddev", s.stddev);
  for (const query::Percentile& percentile : s.percentiles)
    PrintBounded(fmt::format("{}%", percentile.percent), percentile.at);
  Print("  all originals of the box: min in [{:.6g}, {:.6g}], max in [{:.6g}, {:.6g}]\n", s.box_min.low,
        s.box_min.high, s.box_max.low, s.box_max.high);
  PrintHistogram(s.histogram);
  const query::Cost& cost = answer.header.cost;
  Print("  {} patches, {} of payload\n", cost.patches, FormatBytes(cost.bytes));
  if (const std::string cache = CacheText(); !cache.empty()) Print("  {}\n", cache);
}

Result<int> Stats(const StatsOptions& options) {
  query::StatisticsRequest request;
  request.bins = options.bins;
  QUARRY_ASSIGN_OR_RETURN(request.scale, query::ParseHistogramScale(options.scale));
  if (!options.percentiles.empty()) {
    QUARRY_ASSIGN_OR_RETURN(request.percentiles, ParseNumbers(options.percentiles, "--percentiles", 0));
  }
  if (!options.range.empty()) {
    QUARRY_ASSIGN_OR_RETURN(request.range, ParseRange(options.range, "--range"));
  }
  QUARRY_RETURN_IF_ERROR(query::CheckStatistics(request));
  QUARRY_ASSIGN_OR_RETURN(const std::unique_ptr<client::Dataset> dataset, options.question.Open());
  QUARRY_ASSIGN_OR_RETURN(request.read, options.question.Resolve(dataset->description()));
  QUARRY_ASSIGN_OR_RETURN(const query::StatisticsAnswer answer, dataset->Statistics(request));
  if (options.json) {
    PrintOut("{}\n", ToJson(answer));
    return 0;
  }
  std::string units;
  if (const auto number = dataset->description().FindField(request.read.field))
    units = dataset->description().fields[*number].units;
  PrintStatistics(answer, request.read.field, units);
  return 0;
}

}  // namespace

Command DeclareStats(command_line::Parser* app) {
  auto options = std::make_shared<StatsOptions>();
  options->question.DeclareOn(app);
  options->question.DeclareTargetsOn(app);
  app->AddOption("--percentiles", &options->percentiles,
                 "percentiles, separated by commas; \"\" for none; default: 1,5,25,50,75,95,99");
  app->AddOption("--bins", &options->bins, "bins of the histogram; 0 for none; default: 32");
  app->AddOption("--bin-scale", &options->scale,
                 "linear: bins of equal width; log: of equal ratio; quantile: with about as many samples in "
                 "each; default: linear");
  app->AddOption(
      "--range", &options->range,
      "LOW:HIGH of the histogram, in the field's unit; default: the recorded range of the patches");
  app->AddFlag("--json", &options->json, "print one JSON object");
  app->SetFooter(
      "Example:\n  quarry stats run42.quarry --field speed --box 0:64,0:64,0:64 --level 2\n"
      "The interval beside each value holds the same statistic of the original samples at the same places.\n"
      "A percentile is not resolved if more than a twentieth of the samples lie in its interval.");
  return [options] { return Stats(*options); };
}

}  // namespace quarry::tools
