#include <cmath>
#include <nlohmann/json.hpp>

#include "quarry/base/missing.h"
#include "quarry/base/progress.h"
#include "quarry/base/units.h"
#include "quarry/base/utf8.h"
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
  if (options.question.target.starts_with("grpc://") || options.question.target.starts_with("grpcs://")) {
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
    nlohmann::ordered_json json = {{"steps", report.steps}, {"subfiles", report.subfiles},
                                   {"masks", report.masks}, {"patches", report.patches},
                                   {"bytes", report.bytes}, {"damage", nlohmann::json::array()}};
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

/// A field against the file that it was made from.
struct Comparison {
  double max_error = 0;  ///< over the valid samples of the source
  double squares = 0;
  double low = INFINITY;
  double high = -INFINITY;
  std::uint64_t valid = 0;
  std::uint64_t missing = 0;
  std::uint64_t different = 0;          ///< samples with other bits, missing ones included
  std::uint64_t different_missing = 0;  ///< samples that are missing in the source, with other bits

  double psnr() const {
    return valid == 0 ? Psnr(low, high, 0) : Psnr(low, high, std::sqrt(squares / static_cast<double>(valid)));
  }
};

template <typename T>
Comparison Compare(std::span<const T> source, std::span<const T> decoded, std::optional<std::uint64_t> fill) {
  Comparison result;
  for (std::size_t i = 0; i < decoded.size(); ++i) {
    const bool same = SampleBits(source[i]) == SampleBits(decoded[i]);
    result.different += same ? 0 : 1;
    if (IsMissing(source[i], fill)) {
      ++result.missing;
      result.different_missing += same ? 0 : 1;
      continue;
    }
    const double value = static_cast<double>(source[i]);
    const double difference = std::abs(value - static_cast<double>(decoded[i]));
    // A NaN is as wrong as can be; left as it is, the next comparison would forget it.
    result.max_error = std::fmax(result.max_error, std::isnan(difference) ? INFINITY : difference);
    result.squares += difference * difference;
    result.low = std::fmin(result.low, value);
    result.high = std::fmax(result.high, value);
    ++result.valid;
  }
  return result;
}

/// The moment of a file with several that a step was made from: the steps that were made from this file are its
/// moments in order.
Result<const writer::Input*> ChooseMoment(const std::vector<std::unique_ptr<writer::Input>>& moments,
                                          const std::vector<StepDescription>& steps, const std::string& field,
                                          std::uint64_t step) {
  std::size_t moment = 0;
  for (const StepDescription& other : steps) {
    const FieldStepDescription* record = other.FindField(field);
    if (other.step < step && record != nullptr && record->source == ToUtf8(moments.front()->info().source)) ++moment;
  }
  if (moments.size() == 1) moment = 0;
  if (moment < moments.size()) return moments[moment].get();
  return InvalidArgument("\"{}\" has {} moments, too few for step {}; give the source of this step",
                         moments.front()->info().path, moments.size(), step);
}

/// Valid samples must be within the tolerance, missing ones and those of a lossless field the same bit by
/// bit.
Result<int> VerifyAgainst(VerifyOptions options) {
  if (!options.dims.empty()) {
    QUARRY_ASSIGN_OR_RETURN(options.source.dims, ParseShape(options.dims, "--dims"));
  }
  if (!options.type.empty()) {
    QUARRY_ASSIGN_OR_RETURN(options.source.type, ParseDataType(options.type));
  }
  options.source.big_endian = options.byte_order == "big";
  QUARRY_ASSIGN_OR_RETURN(const auto inputs, writer::OpenInputs(options.against, options.source));
  QUARRY_ASSIGN_OR_RETURN(const std::unique_ptr<client::Dataset> dataset, options.question.Open());
  QUARRY_ASSIGN_OR_RETURN(const query::ReadRequest request, options.question.Resolve(dataset->description()));
  QUARRY_ASSIGN_OR_RETURN(const query::AnswerHeader plan, dataset->PlanRead(request));
  QUARRY_ASSIGN_OR_RETURN(const std::vector<StepDescription> steps, dataset->Steps());
  QUARRY_ASSIGN_OR_RETURN(const writer::Input* input, ChooseMoment(inputs, steps, request.field, plan.step));
  const writer::InputInfo& source = input->info();
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
  QUARRY_ASSIGN_OR_RETURN(const Bytes original, writer::ReadBox(*input, decoded.extent));

  const FieldDescription& field =
      dataset->description().fields[*dataset->description().FindField(request.field)];
  const Comparison comparison = DispatchType(decoded.type, [&]<typename T>(T) {
    return Compare(std::span(reinterpret_cast<const T*>(original.data()), original.size() / sizeof(T)),
                   decoded.SamplesAs<T>(), field.fill_bits());
  });

  double tolerance = 0;
  for (const StepDescription& step : steps) {
    const FieldStepDescription* record = step.FindField(request.field);
    if (step.step == plan.step && record != nullptr) tolerance = record->tolerance;
  }
  const bool holds = comparison.max_error <= tolerance && comparison.different_missing == 0 &&
                     (!field.lossless || comparison.different == 0);
  if (options.json) {
    fmt::print("{}\n", nlohmann::ordered_json{{"max_error", comparison.max_error},
                                              {"tolerance", tolerance},
                                              {"lossless", field.lossless},
                                              {"psnr", comparison.psnr()},
                                              {"valid", comparison.valid},
                                              {"missing", comparison.missing},
                                              {"different", comparison.different},
                                              {"different_missing", comparison.different_missing},
                                              {"holds", holds}}
                           .dump());
    return holds ? 0 : kCheckFailed;
  }
  if (comparison.missing > 0 || comparison.different_missing > 0) {
    fmt::print("{} samples are missing, {} of them differ\n", comparison.missing,
               comparison.different_missing);
  }
  if (field.lossless) {
    fmt::print("lossless, {} samples differ: {}\n", comparison.different, holds ? "holds" : "DOES NOT HOLD");
  } else {
    fmt::print("largest error {:.6g}, tolerance {:.6g}: {}; PSNR {:.2f} dB\n", comparison.max_error,
               tolerance, holds ? "holds" : "DOES NOT HOLD", comparison.psnr());
  }
  return holds ? 0 : kCheckFailed;
}

}  // namespace

Command DeclareVerify(CLI::App* app) {
  auto options = std::make_shared<VerifyOptions>();
  options->question.DeclareOn(app);
  app->add_option("--against", options->against,
                  "the file that the field was made from: compares samples instead of checksums");
  app->add_option("--format", options->source.format, fmt::format("{} (of the source)", fmt::join(writer::KnownFormats(), ", ")));
  app->add_option("--dims", options->dims, "XxYxZ (of a raw source)");
  app->add_option("--type", options->type, "float32, uint8, ... (of a raw source)");
  app->add_option("--byte-order", options->byte_order, "little or big (of a raw source)")
      ->check(CLI::IsMember({"little", "big"}));
  app->add_option("--offset", options->source.offset, "bytes before the first sample (of a raw source)");
  app->add_flag("--json", options->json, "print one JSON object");
  app->footer(
      "Example:\n  quarry verify run42.quarry --against pressure.f32 --dims 512x512x512 --type float32");
  return [options] { return options->against.empty() ? VerifyChecksums(*options) : VerifyAgainst(*options); };
}

}  // namespace quarry::tools
