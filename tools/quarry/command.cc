#include "tools/quarry/command.h"

#include <cmath>
#include <cstdlib>
#include <limits>

#include "quarry/base/file.h"
#include "quarry/base/numbers.h"
#include "quarry/base/split.h"
#include "quarry/base/units.h"
#include "quarry/disk_cache/disk_cache.h"
#include "quarry/format/dimension_names.h"
#include "quarry/query/question_rules.h"
#include "quarry/query/region.h"

namespace quarry::tools {
namespace {

std::string_view WithoutSpaces(std::string_view text) {
  while (text.starts_with(' ') || text.starts_with('\t')) text.remove_prefix(1);
  while (text.ends_with(' ') || text.ends_with('\t')) text.remove_suffix(1);
  return text;
}

/// A side of a range, which may be without end: "-inf:0".
Result<double> ParseSide(std::string_view text) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (text == "inf" || text == "+inf") return kInfinity;
  if (text == "-inf") return -kInfinity;
  return ParseNumber<double>(WithoutSpaces(text));
}

/// "4" for all axes, or "sx,sy,sz".
Result<Index3> ParseStride(const std::string& text) {
  const bool one = text.find(',') == std::string::npos;
  QUARRY_ASSIGN_OR_RETURN(std::vector<double> numbers, ParseNumbers(text, "--stride", one ? 1 : 3));
  if (one) numbers.resize(3, numbers[0]);
  Index3 stride{};
  for (std::size_t a = 0; a < 3; ++a) {
    if (!(numbers[a] >= 1 && numbers[a] <= static_cast<double>(query::kMaxStride)) ||
        std::floor(numbers[a]) != numbers[a]) {
      return InvalidArgument("--stride \"{}\" has an entry that is not a whole number of at least 1", text);
    }
    stride[a] = static_cast<std::int64_t>(numbers[a]);
  }
  return stride;
}

}  // namespace

/// Sides may be left out.
Result<query::StepRange> ParseSteps(const std::string& text) {
  const Status wrong = InvalidArgument(
      "--steps \"{}\" is not a range of steps; write BEGIN:END or BEGIN:END:STRIDE, for example 0:1000:10",
      text);
  std::vector<std::optional<std::uint64_t>> numbers;
  for (const std::string_view part : Split(text, ':')) {
    std::uint64_t number = 0;
    if (!part.empty() && !ReadNumber(part, &number)) return wrong;
    numbers.push_back(part.empty() ? std::nullopt : std::optional(number));
  }
  if (numbers.size() < 2 || numbers.size() > 3) return wrong;
  numbers.resize(3);
  return query::StepRange{numbers[0].value_or(0), numbers[1], numbers[2].value_or(1)};
}

void ServerOptions::DeclareConnectionOn(command_line::Parser* app) {
  app->SetHeading("Server");
  app->AddOption("--timeout", &timeout_seconds,
                 "timeout for an answer of the server, in seconds; default: 0, no limit")
      .Between(0, 1e9);
  app->AddOption("--ca", &security.ca_file,
                 "for grpcs://: PEM file of the authorities to trust; default: the system's")
      .Path()
      .Environment("QUARRY_CA");
  command_line::Option certificate =
      app->AddOption("--cert", &security.certificate_file,
                     "for grpcs://: PEM file of the client's certificate, if the server requires one")
          .Path()
          .Environment("QUARRY_CERT");
  app->AddOption("--key", &security.key_file, "private key of --cert, a PEM file")
      .Path()
      .Environment("QUARRY_KEY")
      .Needs("--cert");
  certificate.Needs("--key");
  app->AddFlag("--allow-http", &allow_http,
               "for http:// beyond this machine: plain text, which anybody on the way can read and change");
  app->AddOption("--token-file", &token_file, "file with the token; default: the variable QUARRY_TOKEN")
      .Path()
      .Environment("QUARRY_TOKEN_FILE");
  app->SetHeading("");
}

void ServerOptions::DeclareOn(command_line::Parser* app) {
  DeclareConnectionOn(app);
  app->SetHeading("Server");
  app->AddOption(
         "--cache", &cache,
         "for https:// and s3://: folder that keeps what is read, for the next time; default: none, as "
         "with \"\"")
      .Path()
      .Environment("QUARRY_CACHE");
  app->AddOption("--cache-size", &cache_size,
                 "bytes of the disk that --cache may take, for example 50GiB; default: 10GiB")
      .Environment("QUARRY_CACHE_SIZE");
  app->SetHeading("");
}

Result<client::Options> ServerOptions::Resolve() const {
  client::Options options;
  options.timeout_ms = static_cast<std::int64_t>(std::ceil(timeout_seconds * 1000));
  options.security = security;
  options.allow_http = allow_http;
  options.cache = cache;
  QUARRY_ASSIGN_OR_RETURN(options.cache_size, disk_cache::DiskCache::ParseSize(cache_size));
  QUARRY_ASSIGN_OR_RETURN(const client::Transfer transfer, client::ParseTransfer(encoding, recode));
  options.encoding = transfer.encoding;
  options.recode = transfer.recode;
  // Never an option itself: everybody on the machine can see command lines.
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

void QuestionOptions::DeclarePlaceOn(command_line::Parser* app) {
  app->AddOption("TARGET", &target,
                 "dataset directory, or its URL: https://, s3://, or grpc://HOST:PORT/NAME of a server")
      .Path()
      .Required();
  app->AddOption("--field", &field, "name of the field; default: the only one");
  app->AddOption("--step", &step, "number of the step; default: the first with the field").NonNegative();
  server.DeclareOn(app);
}

void QuestionOptions::DeclareOn(command_line::Parser* app) {
  DeclarePlaceOn(app);
  app->AddOption("--box", &box, "x0:x1,y0:y1,z0:z1, half-open, level-0 samples; default: the whole grid");
  app->AddOption("--region", &region,
                 "instead of --box: AXIS=LOW:HIGH, in the units of the axes, both ends included, for example "
                 "lat=40:50,z=0:100; default for each axis: the whole axis")
      .Excludes("--box");
  app->AddOption("--level", &level, "0 is full resolution, l every 2^l-th sample; default: 0");
  DeclareLayerOn(app);
}

void QuestionOptions::DeclareLayerOn(command_line::Parser* app) {
  app->AddOption("--layer", &layer,
                 "layer of accuracy, 0 the roughest; default: the last, or the best for --max-error and "
                 "--max-bytes")
      .NonNegative();
}

void QuestionOptions::DeclareTargetsOn(command_line::Parser* app) {
  app->AddOption(
      "--max-error", &max_error,
      "instead of --level: the cheapest level and layer that show every sample of the box within this error, "
      "in the field's unit");
  app->AddOption(
      "--max-bytes", &max_bytes,
      "instead of --level: the finest level whose payload and samples are at most this, for example 5MiB");
  app->AddOption("--stride", &stride,
                 "instead of --level: the samples whose position is a multiple of N, or of sx,sy,sz");
}

void QuestionOptions::DeclareSeriesOn(command_line::Parser* app) {
  app->AddOption("--fields", &fields, "several fields instead of --field, separated by commas")
      .SeparatedBy(',')
      .Excludes("--field");
  app->AddOption(
         "--steps", &steps,
         "several steps instead of --step: BEGIN:END or BEGIN:END:STRIDE, half-open; selects published steps "
         "with the field")
      .Excludes("--step");
  app->AddOption("--values", &values, "LOW:HIGH, in the field's unit: skips patches without such values");
  app->AddOption("--focus", &focus,
                 "x,y,z in level-0 samples: within each level, the nearest patches come first");
}

void QuestionOptions::DeclareSamplesOn(command_line::Parser* app) {
  app->AddFlag("--allow-damage", &allow_damage,
               "replace damaged data with a rougher layer or a coarser level, list it, and promise no error "
               "bound; default: damage ends the command with exit code 4");
  app->SetHeading("Server");
  app->AddOption("--encoding", &server.encoding,
                 "encoding of the answer: samples, or compressed patches, which are smaller and are decoded "
                 "here, or coded, samples that the server compresses for the answer; default: auto, the one "
                 "that is complete first over the path to the server")
      .OneOf({"auto", "samples", "patches", "coded"});
  app->AddOption(
      "--recode", &server.recode,
      "with --encoding coded: error that may be added to that of the stored samples: 2x makes it at "
      "most twice as large, a number adds at most so much, in the field's unit; default: none, or "
      "what --max-error leaves");
  app->SetHeading("");
}

Result<std::unique_ptr<client::Dataset>> QuestionOptions::Open() const {
  QUARRY_ASSIGN_OR_RETURN(const client::Options options, server.Resolve());
  return client::Dataset::Open(target, options);
}

Result<std::unique_ptr<client::Reader>> QuestionOptions::Reach() const {
  QUARRY_ASSIGN_OR_RETURN(const client::Options options, server.Resolve());
  return client::Reader::At(target, options);
}

Result<std::size_t> QuestionOptions::GridFor(const DatasetDescription& dataset,
                                             const std::string& chosen) const {
  std::optional<std::size_t> grid;
  std::string first;
  for (const std::string& name : fields.empty() ? std::vector{chosen} : fields) {
    const std::optional<std::size_t> number = dataset.FindField(name);
    if (!number) continue;  // the dataset says that it is not there
    const std::size_t here = dataset.fields[*number].grid;
    if (grid && here != *grid)
      return InvalidArgument(
          "one --box or --region cannot select from two grids, those of \"{}\" and \"{}\"; ask for these "
          "fields one by one",
          first, name);
    grid = here;
    first = name;
  }
  return grid.value_or(0);
}

Result<query::Target> QuestionOptions::ResolveTarget() const {
  query::GivenTargets given{.level = level, .max_error = max_error};
  if (!max_bytes.empty()) {
    QUARRY_ASSIGN_OR_RETURN(given.max_bytes, ParseBytes(max_bytes));
  }
  if (!stride.empty()) {
    QUARRY_ASSIGN_OR_RETURN(given.stride, ParseStride(stride));
  }
  return query::MakeTarget(given, {"--level", "--max-error", "--max-bytes", "--stride"});
}

Result<query::ReadRequest> QuestionOptions::WithoutBox() const {
  query::ReadRequest request;
  request.field = field;
  request.step = step;
  QUARRY_ASSIGN_OR_RETURN(request.target, ResolveTarget());
  request.layer = layer;
  request.allow_damage = allow_damage;
  if (!focus.empty()) {
    QUARRY_ASSIGN_OR_RETURN(const std::vector<double> point, ParseNumbers(focus, "--focus", 3));
    request.focus = {point[0], point[1], point[2]};
  }
  return request;
}

Result<query::ReadRequest> QuestionOptions::Resolve(const DatasetDescription& dataset) const {
  QUARRY_ASSIGN_OR_RETURN(query::ReadRequest request, WithoutBox());
  if (field.empty() && fields.empty()) {
    if (dataset.fields.size() != 1) {
      std::string names;
      for (const FieldDescription& known : dataset.fields) names += (names.empty() ? "" : ", ") + known.name;
      return InvalidArgument("\"{}\" has {} fields; choose one with --field: {}", target,
                             dataset.fields.size(), names);
    }
    request.field = dataset.fields[0].name;
  }
  if (!box.empty()) {
    QUARRY_ASSIGN_OR_RETURN(const std::size_t grid, GridFor(dataset, request.field));
    QUARRY_ASSIGN_OR_RETURN(request.box, ParseBox(box, dataset.grids[grid].dims));
  }
  if (!region.empty()) {
    QUARRY_ASSIGN_OR_RETURN(const std::vector<query::AxisInterval> intervals, query::ParseRegion(region));
    QUARRY_ASSIGN_OR_RETURN(const std::size_t grid, GridFor(dataset, request.field));
    QUARRY_ASSIGN_OR_RETURN(
        request.box,
        query::BoxOfRegion(dataset.grids[grid], NamesOfDimensions(dataset).axes[grid], intervals));
  }
  return request;
}

Result<query::SeriesRequest> QuestionOptions::UnopenedSeries() const {
  QUARRY_ASSIGN_OR_RETURN(query::ReadRequest request, WithoutBox());
  if (!box.empty()) {
    QUARRY_ASSIGN_OR_RETURN(request.box, ParseBox(box, {query::kGridEnd, query::kGridEnd, query::kGridEnd}));
  }
  return SeriesOf(std::move(request));
}

Result<query::SeriesRequest> QuestionOptions::ResolveSeries(const DatasetDescription& dataset) const {
  QUARRY_ASSIGN_OR_RETURN(query::ReadRequest request, Resolve(dataset));
  return SeriesOf(std::move(request));
}

Result<query::SeriesRequest> QuestionOptions::SeriesOf(query::ReadRequest read) const {
  query::SeriesRequest series;
  series.read = std::move(read);
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
  for (const std::string_view part : Split(text, ',')) {
    const Result<double> number = ParseNumber<double>(WithoutSpaces(part));
    if (!number.ok() && count == 0)
      return InvalidArgument("{} \"{}\" is not a list of numbers: {}; write for example 5,50,95", name, text,
                             number.status().message());
    if (!number.ok())
      return InvalidArgument("{} \"{}\" is not {} numbers separated by commas: {}", name, text, count,
                             number.status().message());
    numbers.push_back(*number);
  }
  if (count == 0 || numbers.size() == count) return numbers;
  return InvalidArgument("{} \"{}\" is not {} numbers separated by commas", name, text, count);
}

Result<std::pair<double, double>> ParseRange(const std::string& text, const std::string& name) {
  const std::size_t colon = std::min(text.find(':'), text.size());
  const Result<double> low = ParseSide(std::string_view(text).substr(0, colon));
  const Result<double> high = ParseSide(std::string_view(text).substr(std::min(colon + 1, text.size())));
  const Status& wrong = low.ok() ? high.status() : low.status();
  if (wrong.ok()) return std::pair(*low, *high);
  return InvalidArgument("{} \"{}\" is not LOW:HIGH, for example 0:1.5: {}", name, text, wrong.message());
}

std::string_view EncodingName(query::AnswerEncoding encoding) {
  if (encoding == query::AnswerEncoding::kPatches) return "patches";
  return encoding == query::AnswerEncoding::kCoded ? "coded" : "samples";
}

std::string PricesText(const query::Cost& cost, const query::EncodingChoice& choice) {
  std::string text;
  for (const query::EncodingPrice& price : choice.prices) {
    const std::uint64_t bytes = price.encoding == query::AnswerEncoding::kPatches ? cost.bytes
                                : price.encoding == query::AnswerEncoding::kCoded ? cost.coded_bytes
                                                                                  : cost.reply_bytes;
    text += fmt::format("{} {:.1f} ms ({}), ", EncodingName(price.encoding), 1e3 * price.seconds,
                        FormatBytes(bytes));
  }
  return fmt::format("{}over {:.1f} ms and {}/s", text, 1e3 * choice.path.round_trip,
                     FormatBytes(static_cast<std::uint64_t>(std::min(choice.path.rate, 1e18))));
}

std::string CacheText() {
  const disk_cache::Usage usage = disk_cache::UsageOfProcess();
  if (usage.bytes() == 0) return "";
  return fmt::format("{} from the cache{}, {} from the store", FormatBytes(usage.from_cache),
                     usage.damaged == 0 ? "" : fmt::format(" ({} damaged blocks)", usage.damaged),
                     FormatBytes(usage.fetched));
}

std::string LeftOutText(std::int64_t samples) {
  return samples > 0 ? fmt::format(", {} samples left out", samples) : "";
}

std::string CoverageText(double coverage) {
  return coverage < 1 ? fmt::format(", covers {:.4g}%", 100 * coverage) : "";
}

}  // namespace quarry::tools
