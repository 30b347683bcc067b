#include <cmath>
#include <nlohmann/json.hpp>

#include "quarry/base/progress.h"
#include "quarry/base/units.h"
#include "quarry/dataset/verify.h"
#include "tools/quarry/command.h"
#include "writer/input/input.h"

namespace quarry::tools {
namespace {

struct VerifyOptions {
  QuestionOptions question;
  std::string against;
  writer::InputOptions source;
  std::string dims;
  std::string type;
  std::string byte_order = "little";
  bool json = false;
};

/// Checks every checksum of a dataset directory.
Result<int> VerifyChecksums(const VerifyOptions& options) {
  if (options.question.target.starts_with("grpc://")) {
    return InvalidArgument(
        "checksums are checked where the files are; give the dataset directory, or --against SOURCE to "
        "compare samples through the server");
  }
  const QuestionOptions& question = options.question;
  if (!question.field.empty() || question.step || !question.box.empty() || question.level != 0) {
    return InvalidArgument(
        "checksums are checked over the whole dataset; --field, --step, --box and --level go with --against");
  }
  QUARRY_ASSIGN_OR_RETURN(const std::shared_ptr<const quarry::Dataset> dataset,
                          quarry::Dataset::Open(options.question.target));
  Progress progress("verify", 1000, !options.json);
  QUARRY_ASSIGN_OR_RETURN(const VerifyReport report,
                          VerifyDataset(*dataset, [&](std::uint64_t done, std::uint64_t total) {
                            progress.Update(total == 0 ? 1000 : 1000 * done / total);
                          }));
  if (options.json) {
    nlohmann::ordered_json json = {{"steps", report.steps},
                                   {"subfiles", report.subfiles},
                                   {"patches", report.patches},
                                   {"bytes", report.bytes},
                                   {"damage", nlohmann::json::array()}};
    for (const Status& damage : report.damage) json["damage"].push_back(damage.message());
    fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  } else {
    fmt::print("{} steps, {} subfiles, {} patches, {} of payload checked\n", report.steps, report.subfiles,
               report.patches, FormatBytes(report.bytes));
    for (std::size_t i = 1; i < report.damage.size(); ++i)
      fmt::print("damaged: {}\n", report.damage[i].message());
  }
  if (!report.damage.empty()) return report.damage.front();
  return 0;
}

/// Largest absolute difference and PSNR of a field against the file that it was made from.
Result<int> VerifyAgainst(VerifyOptions options) {
  if (!options.dims.empty()) {
    QUARRY_ASSIGN_OR_RETURN(options.source.dims, ParseShape(options.dims, "--dims"));
  }
  if (!options.type.empty()) {
    QUARRY_ASSIGN_OR_RETURN(options.source.type, ParseDataType(options.type));
  }
  options.source.big_endian = options.byte_order == "big";
  QUARRY_ASSIGN_OR_RETURN(const writer::Input source, writer::OpenInput(options.against, options.source));
  QUARRY_ASSIGN_OR_RETURN(const std::unique_ptr<client::Dataset> dataset, options.question.Open());
  QUARRY_ASSIGN_OR_RETURN(const query::ReadRequest request, options.question.Resolve(dataset->description()));
  if (source.dims != dataset->description().grid.dims) {
    return InvalidArgument("\"{}\" is {}, the dataset {}; give the source of this dataset", options.against,
                           ToString(source.dims), ToString(dataset->description().grid.dims));
  }
  if (request.level != 0)
    return InvalidArgument("only level 0 can be compared with the source; leave --level out");
  QUARRY_ASSIGN_OR_RETURN(const client::LevelSamples decoded, dataset->Read(request));
  if (source.type != decoded.type)
    return InvalidArgument("\"{}\" holds {}, the field {}; give the source of this field", options.against,
                           Name(source.type), Name(decoded.type));
  QUARRY_ASSIGN_OR_RETURN(const Bytes original, writer::ReadBox(source, decoded.extent));

  double max_error = 0;
  double squares = 0;
  double low = INFINITY;
  double high = -INFINITY;
  const auto compare = [&]<typename T>(T) {
    const auto* expected = reinterpret_cast<const T*>(original.data());
    const std::span<const T> samples = decoded.SamplesAs<T>();
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const double difference = std::abs(static_cast<double>(expected[i]) - static_cast<double>(samples[i]));
      // A NaN on either side is as wrong as can be; left as it is, the next comparison would forget it.
      max_error = std::fmax(max_error, std::isnan(difference) ? INFINITY : difference);
      squares += difference * difference;
      low = std::fmin(low, static_cast<double>(expected[i]));
      high = std::fmax(high, static_cast<double>(expected[i]));
    }
  };
  if (decoded.type == DataType::kFloat32) {
    compare(float{});
  } else {
    compare(double{});
  }
  const double psnr = Psnr(low, high, std::sqrt(squares / static_cast<double>(decoded.extent.volume())));

  double tolerance = 0;
  QUARRY_ASSIGN_OR_RETURN(const query::AnswerHeader plan, dataset->PlanRead(request));
  QUARRY_ASSIGN_OR_RETURN(const std::vector<StepDescription> steps, dataset->Steps());
  for (const StepDescription& step : steps) {
    const FieldStepDescription* field = step.FindField(request.field);
    if (step.step == plan.step && field != nullptr) tolerance = field->tolerance;
  }
  const bool holds = max_error <= tolerance;
  if (options.json) {
    fmt::print("{}\n",
               nlohmann::ordered_json{
                   {"max_error", max_error}, {"tolerance", tolerance}, {"psnr", psnr}, {"holds", holds}}
                   .dump());
  } else {
    fmt::print("largest error {:.6g}, tolerance {:.6g}: {}; PSNR {:.2f} dB\n", max_error, tolerance,
               holds ? "holds" : "DOES NOT HOLD", psnr);
  }
  return holds ? 0 : kCheckFailed;
}

}  // namespace

Command DeclareVerify(CLI::App* app) {
  auto options = std::make_shared<VerifyOptions>();
  options->question.DeclareOn(app);
  app->add_option("--against", options->against,
                  "the file that the field was made from: compares samples instead of checksums");
  app->add_option("--format", options->source.format, "raw or npy (of the source)");
  app->add_option("--dims", options->dims, "XxYxZ (of a raw source)");
  app->add_option("--type", options->type, "float32 or float64 (of a raw source)");
  app->add_option("--byte-order", options->byte_order, "little or big (of a raw source)")
      ->check(CLI::IsMember({"little", "big"}));
  app->add_option("--offset", options->source.offset, "bytes before the first sample (of a raw source)");
  app->add_flag("--json", options->json, "print one JSON object");
  app->footer(
      "Example:\n  quarry verify run42.quarry --against pressure.f32 --dims 512x512x512 --type float32");
  return [options] { return options->against.empty() ? VerifyChecksums(*options) : VerifyAgainst(*options); };
}

}  // namespace quarry::tools
