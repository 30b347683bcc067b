#include <nlohmann/json.hpp>

#include "quarry/base/units.h"
#include "tools/quarry/command.h"

namespace quarry::tools {
namespace {

struct WatchOptions {
  std::string target;
  std::optional<std::uint64_t> after;
  bool only_new = false;
  std::uint64_t count = 0;
  bool json = false;
};

std::uint64_t StoredBytes(const StepDescription& step) {
  std::uint64_t bytes = 0;
  for (const FieldStepDescription& field : step.fields) bytes += field.stored_bytes;
  return bytes;
}

/// One line, out at once: whoever reads it through a pipe acts on it.
void Print(const StepDescription& step, bool json) {
  if (json) {
    nlohmann::ordered_json line = {{"step", step.step}, {"time", nullptr}};
    if (step.time) line["time"] = *step.time;
    line["fields"] = nlohmann::ordered_json::array();
    for (const FieldStepDescription& field : step.fields) line["fields"].push_back(field.name);
    line["bytes"] = StoredBytes(step);
    fmt::print("{}\n", line.dump());
  } else {
    fmt::print("step {}{}: {} field{}, {}\n", step.step, step.time ? fmt::format(", time {}", *step.time) : "",
               step.fields.size(), step.fields.size() == 1 ? "" : "s", FormatBytes(StoredBytes(step)));
  }
  std::fflush(stdout);
}

Result<int> Watch(const WatchOptions& options) {
  QUARRY_ASSIGN_OR_RETURN(const auto dataset, client::Dataset::Open(options.target));
  std::optional<std::uint64_t> after = options.after;
  if (options.only_new) {
    QUARRY_ASSIGN_OR_RETURN(const std::vector<StepDescription> steps, dataset->Steps());
    if (!steps.empty()) after = std::max(after.value_or(0), steps.back().step);
  }
  std::uint64_t seen = 0;
  QUARRY_RETURN_IF_ERROR(dataset->WatchSteps(after, [&](const StepDescription& step) {
    Print(step, options.json);
    return ++seen != options.count;
  }));
  return 0;
}

}  // namespace

Command DeclareWatch(CLI::App* app) {
  auto options = std::make_shared<WatchOptions>();
  app->add_option("TARGET", options->target, "dataset directory, or grpc://HOST:PORT/NAME")->required();
  app->add_option("--after", options->after, "only steps with larger numbers");
  app->add_flag("--new", options->only_new, "only steps that are published from now on");
  app->add_option("--count", options->count, "end after so many steps; default: go on until interrupted");
  app->add_flag("--json", options->json, "one JSON object a line");
  app->footer(
      "Example, a picture of each step as the simulation goes:\n"
      "  quarry watch grpc://127.0.0.1:50051/run42 --json | while read -r line; do\n"
      "    step=$(echo \"$line\" | python3 -c 'import json, sys; print(json.load(sys.stdin)[\"step\"])')\n"
      "    quarry get grpc://127.0.0.1:50051/run42 --step $step --box :,:,32:33 --output $step.png; done");
  return [options] { return Watch(*options); };
}

}  // namespace quarry::tools
