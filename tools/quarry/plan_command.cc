#include <nlohmann/json.hpp>

#include "quarry/base/units.h"
#include "quarry/query/question_rules.h"
#include "tools/quarry/command.h"

namespace quarry::tools {
namespace {

struct PlanOptions {
  QuestionOptions question;
  bool json = false;
  bool verbose = false;
};

nlohmann::ordered_json ToJson(const query::Cost& cost) {
  nlohmann::ordered_json json;
  json["patches"] = cost.patches;
  json["bytes"] = cost.bytes;
  json["bytes_read"] = cost.bytes_read;
  json["reads"] = cost.reads;
  json["reply_bytes"] = cost.reply_bytes;
  json["coded_bytes"] = cost.coded_bytes;
  return json;
}

/// Samples of the finest level that are left out.
std::int64_t LeftOut(const query::AnswerHeader& plan) {
  std::int64_t samples = 0;
  for (const Box& box : query::LeftOutAt(plan.left_out, plan.levels.back().spacing)) samples += box.volume();
  return samples;
}

/// ", layer 0 of 3"; empty for a field of one layer.
std::string LayerText(const DatasetDescription& dataset, const query::AnswerHeader& plan) {
  const std::optional<std::size_t> field = dataset.FindField(plan.field);
  const int layers = field ? dataset.fields[*field].layers() : 1;
  return layers > 1 ? fmt::format(", layer {} of {}", plan.layer, layers) : "";
}

nlohmann::ordered_json ToJson(const query::AnswerHeader& plan, bool verbose) {
  const query::LevelExtent& level = plan.levels.back();
  nlohmann::ordered_json json;
  json["field"] = plan.field;
  json["step"] = plan.step;
  json["level"] = level.level;
  json["layer"] = plan.layer;
  json["begin"] = level.extent.begin;
  json["shape"] = level.extent.shape();
  json["spacing"] = level.spacing;
  json["dtype"] = Name(plan.type);
  json["max_error"] = level.max_error;
  json["coverage"] = level.coverage;
  json["samples_left_out"] = LeftOut(plan);
  json.update(ToJson(plan.cost));
  if (verbose && plan.choice) {
    json["encoding"] = EncodingName(plan.choice->encoding);
    for (const query::EncodingPrice& price : plan.choice->prices)
      json["seconds"][std::string(EncodingName(price.encoding))] = price.seconds;
  }
  return json;
}

void PrintCost(const query::Cost& cost) {
  Print("  patches    {}\n  bytes      {} of payload; {} in {} read{} with a cold cache\n  reply      {}{}\n",
        cost.patches, FormatBytes(cost.bytes), FormatBytes(cost.bytes_read), cost.reads,
        cost.reads == 1 ? "" : "s", FormatBytes(cost.reply_bytes),
        cost.coded_bytes > 0 ? "; coded about " + FormatBytes(cost.coded_bytes) : "");
}

/// Prints the total cost of the answers.
void PrintSum(const std::vector<query::AnswerHeader>& plans, const query::Cost& sum,
              const PlanOptions& options) {
  if (!options.json) {
    Print("{} answers together\n", plans.size());
    return PrintCost(sum);
  }
  nlohmann::ordered_json json = ToJson(sum);
  json["answers"] = nlohmann::json::array();
  for (const query::AnswerHeader& plan : plans) json["answers"].push_back(ToJson(plan, options.verbose));
  PrintOut("{}\n", json.dump());
}

Result<int> Plan(const PlanOptions& options) {
  QUARRY_ASSIGN_OR_RETURN(const std::unique_ptr<client::Dataset> dataset, options.question.Open());
  QUARRY_ASSIGN_OR_RETURN(const query::SeriesRequest request,
                          options.question.ResolveSeries(dataset->description()));
  QUARRY_ASSIGN_OR_RETURN(const std::vector<query::AnswerHeader> plans, dataset->PlanSeries(request));
  if (request.single() && options.json) {
    PrintOut("{}\n", ToJson(plans.front(), options.verbose).dump());
    return 0;
  }
  query::Cost sum;
  for (const query::AnswerHeader& plan : plans) {
    sum += plan.cost;
    if (options.json) continue;
    const query::LevelExtent& level = plan.levels.back();
    Print("{}: level {}, {} samples of {} from {}, step {}{}{}\n", plan.field, level.level,
          ToString(level.extent.shape()), Name(plan.type), ToString(level.extent.begin), plan.step,
          LayerText(dataset->description(), plan), LeftOutText(LeftOut(plan)));
    PrintCost(plan.cost);
    if (options.verbose && plan.choice)
      Print("  encoding   {}; {}\n", EncodingName(plan.choice->encoding),
            PricesText(plan.cost, *plan.choice));
    Print("  max error  {:.5g}{}\n", level.max_error, CoverageText(level.coverage));
  }
  if (!request.single()) PrintSum(plans, sum, options);
  return 0;
}

}  // namespace

Command DeclarePlan(command_line::Parser* app) {
  auto options = std::make_shared<PlanOptions>();
  options->question.DeclareOn(app);
  options->question.DeclareTargetsOn(app);
  options->question.DeclareSeriesOn(app);
  app->AddFlag("--json", &options->json, "print one JSON object");
  app->AddFlag("--verbose", &options->verbose,
               "of a server: also the encoding that it would choose, and the estimated seconds of each");
  app->SetFooter("Example:\n  quarry plan run42.quarry --field speed --box 0:64,0:64,0:64 --level 1");
  return [options] { return Plan(*options); };
}

}  // namespace quarry::tools
