#include "tools/quarry/command.h"

namespace quarry::tools {

void QuestionOptions::DeclareOn(CLI::App* app) {
  app->add_option("TARGET", target, "dataset directory, or grpc://HOST:PORT/NAME")->required();
  app->add_option("--field", field, "name of the field; may be left out when there is one");
  app->add_option("--step", step, "number of the step; default: the first that has the field")
      ->check(CLI::NonNegativeNumber);
  app->add_option("--box", box, "x0:x1,y0:y1,z0:z1, half-open, level-0 samples; default: the whole grid");
  app->add_option("--level", level, "0 is full resolution, l every 2^l-th sample; default: 0");
  app->add_option("--timeout", timeout_seconds, "seconds that a server may take; default: no limit");
}

void QuestionOptions::DeclareMaxErrorOn(CLI::App* app) {
  app->add_option("--max-error", max_error,
                  "instead of --level: the coarsest level that shows every sample of the box within this "
                  "error, in the field's unit")
      ->excludes("--level");
}

Result<std::unique_ptr<client::Dataset>> QuestionOptions::Open() const {
  client::Options options;
  options.timeout_ms = static_cast<std::int64_t>(timeout_seconds * 1000);
  return client::Dataset::Open(target, options);
}

Result<query::ReadRequest> QuestionOptions::Resolve(const DatasetDescription& dataset) const {
  query::ReadRequest request;
  request.field = field;
  if (field.empty()) {
    if (dataset.fields.size() != 1) {
      std::string names;
      for (const FieldDescription& known : dataset.fields) names += (names.empty() ? "" : ", ") + known.name;
      return InvalidArgument("\"{}\" has {} fields; choose one with --field: {}", target,
                             dataset.fields.size(), names);
    }
    request.field = dataset.fields[0].name;
  }
  request.step = step;
  request.level = level;
  request.max_error = max_error;
  if (!box.empty()) {
    QUARRY_ASSIGN_OR_RETURN(request.box, ParseBox(box, dataset.grid.dims));
  }
  return request;
}

std::string WithUnits(double value, const std::string& units) {
  return units.empty() ? fmt::format("{:.5g}", value) : fmt::format("{:.5g} {}", value, units);
}

std::string CoverageText(double coverage) {
  return coverage < 1 ? fmt::format(", covers {:.4g}%", 100 * coverage) : "";
}

}  // namespace quarry::tools
