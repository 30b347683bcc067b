#include <nlohmann/json.hpp>

#include "quarry/base/units.h"
#include "tools/quarry/command.h"

namespace quarry::tools {
namespace {

struct PlanOptions {
  QuestionOptions question;
  bool json = false;
};

Result<int> Plan(const PlanOptions& options) {
  QUARRY_ASSIGN_OR_RETURN(const std::unique_ptr<client::Dataset> dataset, options.question.Open());
  QUARRY_ASSIGN_OR_RETURN(const query::ReadRequest request, options.question.Resolve(dataset->description()));
  QUARRY_ASSIGN_OR_RETURN(const query::AnswerHeader plan, dataset->PlanRead(request));
  const query::LevelExtent& level = plan.levels.back();
  const query::Price& price = plan.price;
  if (options.json) {
    nlohmann::ordered_json json;
    json["step"] = plan.step;
    json["level"] = level.level;
    json["begin"] = level.extent.begin;
    json["shape"] = level.extent.shape();
    json["spacing"] = level.spacing;
    json["dtype"] = Name(plan.type);
    json["max_error"] = level.max_error;
    json["coverage"] = level.coverage;
    json["patches"] = price.patches;
    json["bytes"] = price.bytes;
    json["bytes_read"] = price.bytes_read;
    json["reads"] = price.reads;
    json["reply_bytes"] = price.reply_bytes;
    fmt::print("{}\n", json.dump());
    return 0;
  }
  fmt::print(
      "level {}, {} samples of {} from {}, step {}\n"
      "  patches    {}\n"
      "  bytes      {} of payload, {} read in {} read{}\n"
      "  reply      {}\n"
      "  max error  {:.5g}{}\n",
      level.level, ToString(level.extent.shape()), Name(plan.type), ToString(level.extent.begin), plan.step,
      price.patches, FormatBytes(price.bytes), FormatBytes(price.bytes_read), price.reads,
      price.reads == 1 ? "" : "s", FormatBytes(price.reply_bytes), level.max_error,
      CoverageText(level.coverage));
  return 0;
}

}  // namespace

Command DeclarePlan(CLI::App* app) {
  auto options = std::make_shared<PlanOptions>();
  options->question.DeclareOn(app);
  options->question.DeclareTargetsOn(app);
  options->question.DeclareFocusOn(app);
  app->add_flag("--json", options->json, "print one JSON object");
  app->footer("Example:\n  quarry plan run42.quarry --field speed --box 0:64,0:64,0:64 --level 1");
  return [options] { return Plan(*options); };
}

}  // namespace quarry::tools
