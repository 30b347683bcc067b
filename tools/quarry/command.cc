#include "tools/quarry/command.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "quarry/base/file.h"
#include "quarry/base/units.h"

namespace quarry::tools {
namespace {

/// "4" for all axes, or "sx,sy,sz".
Result<Index3> ParseStride(const std::string& text) {
  const bool one = text.find(',') == std::string::npos;
  QUARRY_ASSIGN_OR_RETURN(std::vector<double> numbers, ParseNumbers(text, "--stride", one ? 1 : 3));
  if (one) numbers.resize(3, numbers[0]);
  Index3 stride{};
  for (std::size_t a = 0; a < 3; ++a) {
    if (!(numbers[a] >= 1 && numbers[a] <= static_cast<double>(query::kMaxStride)) ||
        std::floor(numbers[a]) != numbers[a]) {
      return InvalidArgument("--stride \"{}\" has a part that is no whole number from 1 on", text);
    }
    stride[a] = static_cast<std::int64_t>(numbers[a]);
  }
  return stride;
}

/// "BEGIN:END" or "BEGIN:END:STRIDE"; sides may be left out.
Result<query::StepRange> ParseSteps(const std::string& text) {
  const Status wrong = InvalidArgument(
      "--steps \"{}\" is no range of steps; write BEGIN:END or BEGIN:END:STRIDE, for example 0:1000:10", text);
  std::vector<std::optional<std::uint64_t>> numbers;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(':', begin), text.size());
    std::uint64_t number = 0;
    const auto [rest, error] = std::from_chars(text.data() + begin, text.data() + end, number);
    if (begin < end && (error != std::errc() || rest != text.data() + end)) return wrong;
    numbers.push_back(begin < end ? std::optional(number) : std::nullopt);
    begin = end + 1;
  }
  if (numbers.size() < 2 || numbers.size() > 3) return wrong;
  numbers.resize(3);
  return query::StepRange{numbers[0].value_or(0), numbers[1], numbers[2].value_or(1)};
}

}  // namespace

void ServerOptions::DeclareOn(CLI::App* app) {
  const std::string group = "Server";
  app->add_option("--timeout", timeout_seconds, "seconds that a server may take for an answer; 0: any time; default: 0")
      ->check(CLI::Range(0.0, 1e9).description(""))
      ->group(group);
  app->add_option(
         "--ca", security.ca_file,
         "for grpcs://: PEM file of the authorities that servers are trusted by; default: the system's")
      ->envname("QUARRY_CA")
      ->group(group);
  auto* certificate =
      app->add_option("--cert", security.certificate_file,
                      "for grpcs://: our own certificate, a PEM file, where the server wants one")
          ->envname("QUARRY_CERT")
          ->group(group);
  auto* key = app->add_option("--key", security.key_file, "the key of --cert, a PEM file")
                  ->envname("QUARRY_KEY")
                  ->needs(certificate)
                  ->group(group);
  certificate->needs(key);
  app->add_option("--token-file", token_file, "file that holds our token; default: the variable QUARRY_TOKEN")
      ->envname("QUARRY_TOKEN_FILE")
      ->group(group);
}

Result<client::Options> ServerOptions::Resolve() const {
  client::Options options;
  options.timeout_ms = static_cast<std::int64_t>(std::ceil(timeout_seconds * 1000));
  options.security = security;
  options.encoding = encoding;
  // Never an option of its own: command lines are for everybody on the machine to see.
  if (!token_file.empty()) {
    constexpr std::uint64_t kLargestFile = 64 << 10;
    QUARRY_ASSIGN_OR_RETURN(options.security.token, ReadTextFile(token_file, kLargestFile));
  } else if (const char* token = std::getenv("QUARRY_TOKEN")) {
    options.security.token = token;
  }
  std::string& token = options.security.token;
  while (!token.empty() && (token.back() == '\n' || token.back() == '\r' || token.back() == ' '))
    token.pop_back();
  return options;
}

void QuestionOptions::DeclarePlaceOn(CLI::App* app) {
  app->add_option("TARGET", target, "dataset directory, or grpc://HOST:PORT/NAME")->required();
  app->add_option("--field", field, "name of the field; may be left out when there is one");
  app->add_option("--step", step, "number of the step; default: the first that has the field")
      ->check(CLI::NonNegativeNumber);
  server.DeclareOn(app);
}

void QuestionOptions::DeclareOn(CLI::App* app) {
  DeclarePlaceOn(app);
  app->add_option("--box", box, "x0:x1,y0:y1,z0:z1, half-open, level-0 samples; default: the whole grid");
  app->add_option("--level", level, "0 is full resolution, l every 2^l-th sample; default: 0");
}

void QuestionOptions::DeclareTargetsOn(CLI::App* app) {
  app->add_option("--max-error", max_error,
                  "instead of --level: the coarsest level that shows every sample of the box within this "
                  "error, in the field's unit")
      ->excludes("--level");
  app->add_option("--max-bytes", max_bytes,
                  "instead of --level: the finest level of which no more than this is read or received, "
                  "for example 5MiB")
      ->excludes("--level")
      ->excludes("--max-error");
  app->add_option("--stride", stride,
                  "instead of --level: the samples whose position is a multiple of N, or of sx,sy,sz")
      ->excludes("--level")
      ->excludes("--max-error")
      ->excludes("--max-bytes");
}

void QuestionOptions::DeclareFocusOn(CLI::App* app) {
  app->add_option("--focus", focus,
                  "x,y,z in level-0 samples: inside each level, what is nearest comes first");
}

void QuestionOptions::DeclareSeriesOn(CLI::App* app) {
  app->add_option("--fields", fields, "several fields instead of --field, with commas in between")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->excludes("--field");
  app->add_option("--steps", steps,
                  "several steps instead of --step: BEGIN:END or BEGIN:END:STRIDE, numbers of steps, half-open, "
                  "those that have the field")
      ->excludes("--step");
  app->add_option("--values", values,
                  "LOW:HIGH, in the field's unit: patches that hold no such value are neither read nor sent");
}

void QuestionOptions::DeclareSamplesOn(CLI::App* app) {
  app->add_flag("--strict", strict,
                "damaged data are an error; otherwise a coarser level is shown in their place, with a warning");
  const std::map<std::string, client::Encoding> encodings = {{"auto", client::Encoding::kAuto},
                                                             {"samples", client::Encoding::kSamples},
                                                             {"patches", client::Encoding::kPatches}};
  app->add_option("--encoding", server.encoding,
                  "what a server sends: samples, or patches as they are stored, which are fewer bytes and are "
                  "decoded here; default: auto, samples from this machine and patches from others")
      ->transform(CLI::CheckedTransformer(encodings))
      ->group("Server");
}

Result<std::unique_ptr<client::Dataset>> QuestionOptions::Open() const {
  QUARRY_ASSIGN_OR_RETURN(const client::Options options, server.Resolve());
  return client::Dataset::Open(target, options);
}

Result<query::ReadRequest> QuestionOptions::Resolve(const DatasetDescription& dataset) const {
  query::ReadRequest request;
  request.field = field;
  if (field.empty() && fields.empty()) {
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
  request.strict = strict;
  if (!max_bytes.empty()) {
    QUARRY_ASSIGN_OR_RETURN(request.max_bytes, ParseBytes(max_bytes));
  }
  if (!stride.empty()) {
    QUARRY_ASSIGN_OR_RETURN(request.stride, ParseStride(stride));
  }
  if (!focus.empty()) {
    QUARRY_ASSIGN_OR_RETURN(const std::vector<double> point, ParseNumbers(focus, "--focus", 3));
    request.focus = {point[0], point[1], point[2]};
  }
  if (!box.empty()) {
    QUARRY_ASSIGN_OR_RETURN(request.box, ParseBox(box, dataset.grid.dims));
  }
  return request;
}

Result<query::SeriesRequest> QuestionOptions::ResolveSeries(const DatasetDescription& dataset) const {
  query::SeriesRequest series;
  QUARRY_ASSIGN_OR_RETURN(series.read, Resolve(dataset));
  if (!values.empty()) {
    QUARRY_ASSIGN_OR_RETURN(const auto range, ParseRange(values, "--values"));
    series.read.values = {range.first, range.second};
  }
  series.fields = fields;
  if (!steps.empty()) {
    QUARRY_ASSIGN_OR_RETURN(series.steps, ParseSteps(steps));
  }
  return series;
}

Result<std::vector<double>> ParseNumbers(const std::string& text, const std::string& name,
                                         std::size_t count) {
  std::vector<double> numbers;
  const char* next = text.c_str();
  while (true) {
    char* end = nullptr;
    numbers.push_back(std::strtod(next, &end));
    if (end == next || (*end != '\0' && *end != ',')) break;
    if (*end == '\0') {
      if (count == 0 || numbers.size() == count) return numbers;
      break;
    }
    next = end + 1;
  }
  if (count == 0)
    return InvalidArgument("{} \"{}\" is no list of numbers; write for example 5,50,95", name, text);
  return InvalidArgument("{} \"{}\" is not {} numbers with commas between them", name, text, count);
}

Result<std::pair<double, double>> ParseRange(const std::string& text, const std::string& name) {
  double low = 0;
  double high = 0;
  char rest = 0;
  if (std::sscanf(text.c_str(), "%lf:%lf%c", &low, &high, &rest) != 2)
    return InvalidArgument("{} \"{}\" is not LOW:HIGH, for example 0:1.5", name, text);
  return std::pair(low, high);
}

std::string WithUnits(double value, const std::string& units) {
  return units.empty() ? fmt::format("{:.5g}", value) : fmt::format("{:.5g} {}", value, units);
}

std::string LeftOutText(std::int64_t samples) {
  return samples > 0 ? fmt::format(", {} samples left out", samples) : "";
}

std::string CoverageText(double coverage) {
  return coverage < 1 ? fmt::format(", covers {:.4g}%", 100 * coverage) : "";
}

}  // namespace quarry::tools
