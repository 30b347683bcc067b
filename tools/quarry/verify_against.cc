#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "quarry/base/missing.h"
#include "quarry/base/output.h"
#include "quarry/base/utf8.h"
#include "quarry/base/value_range.h"
#include "quarry/base/wide_integer.h"
#include "quarry/codec/coder.h"
#include "quarry/format/description_rules.h"
#include "quarry/query/question_rules.h"
#include "tools/quarry/verify.h"

namespace quarry::tools {
namespace {

/// A field compared with its source file.
struct Comparison {
  double max_error = 0;  ///< over the valid samples of the source
  double squares = 0;
  double low = INFINITY;
  double high = -INFINITY;
  std::uint64_t valid = 0;
  std::uint64_t missing = 0;
  std::uint64_t different = 0;          ///< samples with other bits, missing ones included
  std::uint64_t different_missing = 0;  ///< samples that are missing in the source, with other bits
  std::vector<double> chosen;           ///< valid samples of the source, see SampleChoice
  std::optional<OutlyingSamples> outlying;
  bool kept = true;  ///< the coder's guarantees beside the largest error hold

  void AddMissing(bool same) {
    ++missing;
    different_missing += same ? 0 : 1;
  }
  /// @param is_chosen  see SampleChoice
  void AddValid(double value, double difference, bool is_chosen) {
    // A NaN is the worst error; as NaN, the next comparison would drop it.
    max_error = std::fmax(max_error, std::isnan(difference) ? INFINITY : difference);
    squares += difference * difference;
    low = std::fmin(low, value);
    high = std::fmax(high, value);
    if (is_chosen) chosen.push_back(value);
    ++valid;
  }
  double psnr() const {
    return valid == 0 ? Psnr(low, high, 0) : Psnr(low, high, std::sqrt(squares / static_cast<double>(valid)));
  }
};

template <typename T>
Comparison Compare(std::span<const T> source, std::span<const T> decoded, std::optional<std::uint64_t> fill) {
  Comparison result;
  const SampleChoice choice(decoded.size());
  for (std::size_t i = 0; i < decoded.size(); ++i) {
    const bool same = SampleBits(source[i]) == SampleBits(decoded[i]);
    result.different += same ? 0 : 1;
    if (IsMissing(source[i], fill)) {
      result.AddMissing(same);
      continue;
    }
    result.AddValid(static_cast<double>(source[i]), std::abs(Difference<double>(source[i], decoded[i])),
                    i % choice.stride() == 0);
  }
  return result;
}

/// Compares a field of float32 with a source of float64 that was rounded when it was stored. Missing samples
/// of the source are those that are not finite, have the file's fill value, or round to the field's and were
/// stored as missing.
Comparison CompareRounded(std::span<const double> source, std::span<const float> decoded,
                          const std::optional<SampleValue>& source_fill, std::optional<std::uint64_t> fill) {
  const std::optional<std::uint64_t> bits =
      source_fill ? std::optional(BitsOf(DataType::kFloat64, *source_fill)) : std::nullopt;
  Comparison result;
  const SampleChoice choice(decoded.size());
  for (std::size_t i = 0; i < decoded.size(); ++i) {
    const bool stored_missing = IsMissing(decoded[i], fill);
    const auto rounded = std::abs(source[i]) <= static_cast<double>(std::numeric_limits<float>::max())
                             ? static_cast<float>(source[i])
                             : std::numeric_limits<float>::infinity();
    if (IsMissing(source[i], bits) || (stored_missing && IsMissing(rounded, fill))) {
      result.AddMissing(stored_missing);
      result.different += stored_missing ? 0 : 1;
      continue;
    }
    const double difference = std::abs(source[i] - static_cast<double>(decoded[i]));
    result.different += difference == 0 ? 0 : 1;
    result.AddValid(source[i], difference, i % choice.stride() == 0);
  }
  return result;
}

template <typename T>
std::span<const T> SamplesIn(const Bytes& bytes) {
  return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
}

/// Whether the valid samples keep the coder's guarantees beside the largest error.
template <typename T>
bool Keeps(const FieldDescription& field, std::span<const T> source, std::span<const T> decoded) {
  std::vector<std::uint8_t> valid;
  for (const T sample : source) valid.push_back(IsMissing(sample, field.fill_bits()) ? 0 : 1);
  return FindCoder(field.coder)
      ->Keeps(field.type, std::as_bytes(source), valid, ToleranceAs<PointwiseBound>(field.bound).value_or(0),
              std::as_bytes(decoded));
}

/// The moment of a file with several from which a step was made: the steps from this file are its moments in
/// order.
Result<const input::Input*> ChooseMoment(const std::vector<std::unique_ptr<input::Input>>& moments,
                                         const std::vector<StepSummary>& steps, const std::string& field,
                                         std::uint64_t step) {
  std::size_t moment = 0;
  for (const StepSummary& other : steps) {
    const FieldSummary* record = other.FindField(field);
    if (other.step < step && record != nullptr && record->source == ToUtf8(moments.front()->info().source))
      ++moment;
  }
  if (moments.size() == 1) moment = 0;
  if (moment < moments.size()) return moments[moment].get();
  return InvalidArgument("\"{}\" has {} moments, too few for step {}; give the source of this step",
                         moments.front()->info().path, moments.size(), step);
}

const FieldSummary* FindRecord(const std::vector<StepSummary>& steps, std::uint64_t step,
                               const std::string& field) {
  for (const StepSummary& other : steps) {
    if (other.step == step) return other.FindField(field);
  }
  return nullptr;
}

/// Leaves the inputs from which a field was made, of a source with several fields.
void KeepSource(const FieldSummary& record, std::vector<std::unique_ptr<input::Input>>* inputs) {
  const auto is_other = [&](const std::unique_ptr<input::Input>& input) {
    return ToUtf8(input->info().source) != record.source;
  };
  if (!std::ranges::all_of(*inputs, is_other)) std::erase_if(*inputs, is_other);
}

/// Keeps the inputs with the same part of complex samples as a field; all, for a field that is not a part.
void KeepPart(const FieldDescription& field, std::vector<std::unique_ptr<input::Input>>* inputs) {
  const auto is_other = [&](const std::unique_ptr<input::Input>& input) {
    const std::optional<ComplexPart>& part = input->info().complex;
    return part.has_value() != field.complex.has_value() ||
           (part && part->imaginary != field.complex->imaginary);
  };
  if (!std::ranges::all_of(*inputs, is_other)) std::erase_if(*inputs, is_other);
}

}  // namespace

/// Valid samples must be within the tolerance; missing ones, and those of a lossless field, must be the same
/// bit by bit.
Result<int> VerifyAgainst(VerifyOptions options) {
  if (!options.dims.empty()) {
    QUARRY_ASSIGN_OR_RETURN(options.source.dims, ParseShape(options.dims, "--dims"));
  }
  if (!options.type.empty()) {
    QUARRY_ASSIGN_OR_RETURN(const NamedType named, ParseNamedType(options.type));
    options.source.type = named.type;
    options.source.given = named.given;
  }
  options.source.big_endian = options.byte_order == "big";
  options.source.fortran_records = options.records == "fortran";
  for (const std::string& text : options.index) {
    QUARRY_ASSIGN_OR_RETURN(input::IndexChoice choice, input::ParseIndexChoice(text));
    options.source.index.push_back(std::move(choice));
  }
  options.source.single = true;
  QUARRY_ASSIGN_OR_RETURN(auto inputs, input::OpenInputs(options.against, options.source));
  QUARRY_ASSIGN_OR_RETURN(const std::unique_ptr<client::Dataset> dataset, options.question.Open());
  QUARRY_ASSIGN_OR_RETURN(const query::ReadRequest request, options.question.Resolve(dataset->description()));
  QUARRY_ASSIGN_OR_RETURN(const query::AnswerHeader plan, dataset->PlanRead(request));
  QUARRY_ASSIGN_OR_RETURN(const std::vector<StepSummary> steps, dataset->Steps());
  if (const FieldSummary* record = FindRecord(steps, plan.step, request.field)) KeepSource(*record, &inputs);
  KeepPart(dataset->description().fields[*dataset->description().FindField(request.field)], &inputs);
  QUARRY_ASSIGN_OR_RETURN(const input::Input* input, ChooseMoment(inputs, steps, request.field, plan.step));
  const input::InputInfo& source = input->info();
  const DatasetDescription& description = dataset->description();
  const std::size_t number = *description.FindField(request.field);
  const Index3& dims = description.GridOf(number).dims;
  if (source.dims != dims) {
    return InvalidArgument("\"{}\" is {}, field \"{}\" {}; give the source of this field", options.against,
                           ToString(source.dims), request.field, ToString(dims));
  }
  if (query::NamedLevel(request.target) != 0)
    return InvalidArgument("only level 0 can be compared with the source; leave --level out");
  QUARRY_ASSIGN_OR_RETURN(const client::LevelSamples decoded, dataset->Read(request));
  const bool rounded = source.type == DataType::kFloat64 && decoded.type == DataType::kFloat32;
  if (source.type != decoded.type && !rounded)
    return InvalidArgument("\"{}\" holds {}, the field {}; give the source of this field", options.against,
                           Name(source.type), Name(decoded.type));
  QUARRY_ASSIGN_OR_RETURN(const Bytes original, input::ReadBox(*input, decoded.extent));

  const FieldDescription& field = description.fields[number];
  Comparison comparison =
      rounded
          ? CompareRounded(SamplesIn<double>(original), decoded.SamplesAs<float>(), source.fill,
                           field.fill_bits())
          : DispatchType(decoded.type, [&]<typename T>(T) {
              Comparison found = Compare(SamplesIn<T>(original), decoded.SamplesAs<T>(), field.fill_bits());
              found.kept = Keeps(field, SamplesIn<T>(original), decoded.SamplesAs<T>());
              return found;
            });

  comparison.outlying = FindOutlying(&comparison.chosen, comparison.low, comparison.high);

  double tolerance = 0;
  if (const FieldSummary* record = FindRecord(steps, plan.step, request.field)) tolerance = record->tolerance;
  const bool holds = comparison.max_error <= tolerance && comparison.kept &&
                     comparison.different_missing == 0 && (!field.lossless() || comparison.different == 0);
  if (options.json) {
    PrintOut("{}\n", nlohmann::ordered_json{{"max_error", comparison.max_error},
                                            {"tolerance", tolerance},
                                            {"lossless", field.lossless()},
                                            {"psnr", comparison.psnr()},
                                            {"valid", comparison.valid},
                                            {"missing", comparison.missing},
                                            {"different", comparison.different},
                                            {"different_missing", comparison.different_missing},
                                            {"kept", comparison.kept},
                                            {"outlying", comparison.outlying.has_value()},
                                            {"holds", holds}}
                         .dump());
    return holds ? 0 : kCheckFailed;
  }
  if (comparison.missing > 0 || comparison.different_missing > 0) {
    Print("{} samples are missing, {} of them differ\n", comparison.missing, comparison.different_missing);
  }
  if (FindCoder(field.coder)->traits().has_safeguards)
    Print("guarantees of {} for each sample: {}\n", Name(field.coder),
          comparison.kept ? "holds" : "DOES NOT HOLD");
  if (field.lossless()) {
    Print("lossless, {} samples differ: {}\n", comparison.different, holds ? "holds" : "DOES NOT HOLD");
  } else {
    Print("largest error {:.6g}, tolerance {:.6g}: {}{}\n", comparison.max_error, tolerance,
          holds ? "holds" : "DOES NOT HOLD",
          comparison.outlying ? "" : fmt::format("; PSNR {:.2f} dB", comparison.psnr()));
  }
  if (comparison.outlying) {
    WriteError(
        fmt::format("quarry verify: warning: the range of the source comes from a few outliers: {}; if they "
                    "are missing, convert it again with --fill {}\n",
                    ToString(*comparison.outlying), comparison.outlying->value));
  }
  return holds ? 0 : kCheckFailed;
}

}  // namespace quarry::tools
