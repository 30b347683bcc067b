#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "quarry/base/units.h"
#include "tools/quarry/command.h"

namespace quarry::tools {
namespace {

struct WatchOptions {
  std::string target;
  std::optional<std::uint64_t> after;
  bool only_new = false;
  bool wait = false;
  double patience_seconds = 60;
  std::uint64_t count = 0;
  bool json = false;
  ServerOptions server;
};

std::uint64_t StoredBytes(const StepSummary& step) {
  std::uint64_t bytes = 0;
  for (const FieldSummary& field : step.fields) bytes += field.stored_bytes;
  return bytes;
}

/// Prints one line and flushes it: a reader of the pipe acts on it.
/// @return false: the line was lost, and so would be the next ones; the end of the program says why
bool PrintStep(const StepSummary& step, const TimeUnit& unit, bool json) {
  if (json) {
    nlohmann::ordered_json line = {{"step", step.step}, {"time", nullptr}};
    if (step.time) line["time"] = *step.time;
    if (!unit.units.empty()) line["time_units"] = unit.units;
    if (!unit.calendar.empty()) line["calendar"] = unit.calendar;
    line["fields"] = nlohmann::ordered_json::array();
    for (const FieldSummary& field : step.fields) line["fields"].push_back(field.name);
    line["bytes"] = StoredBytes(step);
    PrintOut("{}\n", line.dump());
  } else {
    Print("step {}{}: {} field{}, {}\n", step.step, step.time ? ", time " + TimeText(*step.time, unit) : "",
          step.fields.size(), step.fields.size() == 1 ? "" : "s", FormatBytes(StoredBytes(step)));
  }
  return FlushOutput().ok();
}

/// Looks for the dataset until it exists.
Result<std::unique_ptr<client::Dataset>> OpenWhenThere(const std::string& target,
                                                       const client::Options& options, bool* waited) {
  constexpr auto kLookEvery = std::chrono::milliseconds(1000);
  while (true) {
    auto dataset = client::Dataset::Open(target, options);
    const StatusCode code = dataset.status().code();
    if (code != StatusCode::kNotFound && code != StatusCode::kUnavailable) return dataset;
    *waited = true;
    std::this_thread::sleep_for(kLookEvery);
  }
}

Result<int> Watch(const WatchOptions& options) {
  QUARRY_ASSIGN_OR_RETURN(const client::Options server, options.server.Resolve());
  bool waited = false;
  QUARRY_ASSIGN_OR_RETURN(const auto dataset, options.wait ? OpenWhenThere(options.target, server, &waited)
                                                           : client::Dataset::Open(options.target, server));
  client::WatchRequest request{.after = options.after,
                               .patience_ms = static_cast<std::int64_t>(options.patience_seconds * 1000)};
  // All steps of a dataset that did not exist are new.
  if (options.only_new && !waited) {
    QUARRY_ASSIGN_OR_RETURN(const std::vector<std::uint64_t> steps, dataset->StepNumbers());
    if (!steps.empty()) request.after = std::max(request.after.value_or(0), steps.back());
  }
  std::uint64_t seen = 0;
  QUARRY_RETURN_IF_ERROR(dataset->WatchSteps(request, [&](const StepSummary& step) {
    return PrintStep(step, dataset->description().time_unit, options.json) && ++seen != options.count;
  }));
  return 0;
}

}  // namespace

Command DeclareWatch(command_line::Parser* app) {
  auto options = std::make_shared<WatchOptions>();
  app->AddOption("TARGET", &options->target,
                 "dataset directory, or its URL: https://, s3://, or grpc://HOST:PORT/NAME of a server")
      .Path()
      .Required();
  app->AddOption("--after", &options->after, "only steps with larger numbers; default: all, from the first")
      .NonNegative();
  app->AddFlag("--new", &options->only_new, "only steps published from now on");
  app->AddFlag("--wait", &options->wait, "wait for a dataset or server that does not exist yet");
  app->AddOption("--patience", &options->patience_seconds,
                 "seconds to look for a lost server before giving up; default: 60")
      .Between(0.0, 1e7);
  app->AddOption("--count", &options->count, "end after this many steps; default: run until interrupted")
      .Positive();
  app->AddFlag("--json", &options->json, "print one JSON object per line");
  options->server.DeclareOn(app);
  app->SetFooter(
      "Example, a picture of each step as the simulation goes:\n"
      "  quarry watch grpc://127.0.0.1:50051/run42 --json | while read -r line; do\n"
      "    step=$(echo \"$line\" | python3 -c 'import json, sys; print(json.load(sys.stdin)[\"step\"])')\n"
      "    quarry get grpc://127.0.0.1:50051/run42 --step $step --box :,:,32:33 --output $step.png; done");
  return [options] { return Watch(*options); };
}

}  // namespace quarry::tools
