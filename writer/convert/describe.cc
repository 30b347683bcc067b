#include "writer/convert/describe.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "quarry/base/missing.h"
#include "quarry/base/numbers.h"
#include "quarry/base/utf8.h"
#include "quarry/format/attribute_rules.h"
#include "quarry/format/invariants.h"
#include "quarry/version.h"
#include "writer/pipeline/declare.h"
#include "writer/pipeline/rounding.h"
#include "writer/pipeline/source_grid.h"

namespace quarry::writer {
namespace {

constexpr FieldWords kOptions = {"--tolerance", "--relative",           "--lossless", "--codec",
                                 "--layers",    "--pointwise-relative", "--keyframe", "--units"};

/// The fill value that the file declares, unless NaN, which needs no declaration.
std::optional<SampleValue> DeclaredFill(const input::InputInfo& input) {
  return input.fill && !std::isnan(input.fill->nearest()) ? input.fill : std::nullopt;
}

/// Parses a user's fill value: a number that a sample of this type can have, or "nan" for floats.
/// @errors kInvalidArgument
Result<SampleValue> ParseFill(const std::string& text, DataType type) {
  return DispatchType(type, [&](auto sample) -> Result<SampleValue> {
    if (ReadNumber(text, &sample)) return SampleValue(sample);
    return InvalidArgument("--fill {} is not a value of {}; give {}", text, Name(type),
                           IsFloat(type) ? "a number or nan" : "an integer in its range");
  });
}

/// The fill value of a file, in the file's type: given by the user, or declared by the file.
Result<std::optional<SampleValue>> SourceFill(const WriteOptions& options, const input::InputInfo& input) {
  if (options.fill.empty()) return DeclaredFill(input);
  QUARRY_ASSIGN_OR_RETURN(const SampleValue fill, ParseFill(options.fill, input.type));
  return std::optional(fill);
}

/// The type of the field that stores a file.
Result<DataType> StoredType(const WriteOptions& options, const input::InputInfo& input) {
  if (!options.store_as || *options.store_as == input.type) return input.type;
  if (*options.store_as == DataType::kFloat32 && input.type == DataType::kFloat64) return DataType::kFloat32;
  return InvalidArgument("\"{}\" holds {}, which --store-as {} does not take; it stores float64 as float32",
                         input.path, Name(input.type), Name(*options.store_as));
}

/// The coder that options name; nothing leaves it to type and bound, of which some keep zeros and signs
/// anyway.
Result<std::optional<CoderId>> CoderOf(const WriteOptions& options) {
  const bool keeps = options.keep_zeros || options.keep_sign;
  const char* option = options.keep_sign ? "--keep-sign" : "--keep-zeros";
  if (keeps && !options.codec.empty())
    return InvalidArgument("{} chooses the coder; leave --codec {} out", option, options.codec);
  if (keeps && !options.layers.empty())
    return InvalidArgument("{} does not go with layers of accuracy; leave one of them out", option);
  if (keeps && (options.lossless || options.pointwise_relative_tolerance)) return std::optional<CoderId>();
  if (options.keep_sign) return std::optional(CoderId::kInterpolateSigns);
  if (options.keep_zeros) return std::optional(CoderId::kInterpolateZeros);
  if (options.codec.empty()) return std::optional<CoderId>();
  QUARRY_ASSIGN_OR_RETURN(const CoderId coder, ParseCoder(options.codec));
  return std::optional(coder);
}

/// Describes the field from options and file; for the rest, a continued field keeps its declaration.
Result<FieldRequest> RequestField(const WriteOptions& options, const input::InputInfo& input,
                                  bool is_coordinate, const FieldDescription* existing) {
  FieldRequest field;
  field.name = input.field;
  QUARRY_ASSIGN_OR_RETURN(field.type, StoredType(options, input));
  field.given = input.given;
  field.complex = input.complex;
  if (existing != nullptr && existing->type == DataType::kFloat32 && field.type == DataType::kFloat64) {
    return InvalidArgument(
        "\"{}\" holds float64, but field \"{}\" float32; give --store-as float32, or choose another "
        "--field",
        input.path, input.field);
  }
  field.tolerance = options.tolerance;
  field.relative = options.relative_tolerance;
  field.pointwise_relative = options.pointwise_relative_tolerance;
  field.keyframe = options.keyframe;
  field.lossless = options.lossless;
  field.layers = options.layers;
  field.relative_layers = options.relative_layers;
  field.units = options.units.empty() ? ToUtf8(input.units) : options.units;
  if (input.words) field.attributes = input.words->field;
  QUARRY_ASSIGN_OR_RETURN(const std::optional<SampleValue> fill, SourceFill(options, input));
  field.fill = StoredFill(field.type, fill);
  QUARRY_ASSIGN_OR_RETURN(field.coder, CoderOf(options));
  field.still = field.coordinate = is_coordinate;
  if (existing == nullptr) return field;
  const std::optional<SampleValue> stored = field.fill;
  field = ContinueField(std::move(field), *existing);
  if (fill) field.fill = stored;
  return field;
}

LayoutRequest LayoutOf(const WriteOptions& options) {
  return {options.origin, options.spacing, options.patch, options.levels, options.order};
}

/// Where the samples of a file lie, with texts that are UTF-8.
SourceGrid GridOf(const input::InputInfo& input) {
  SourceGrid grid{input.dims, input.axes};
  for (SourceAxis& axis : grid.axes) {
    axis.name = ToUtf8(axis.name);
    axis.units = ToUtf8(axis.units);
  }
  return grid;
}

/// Takes the metadata of the first file that has any: of the dataset, and of the time.
void TakeWords(const WriteOptions& options, const Jobs& jobs, DatasetDescription* dataset) {
  bool has_time = options.time.has_value();
  for (const auto& [step, inputs] : jobs) {
    for (const Job& job : inputs) {
      if (!job.info.words) continue;
      if (dataset->attributes.empty()) dataset->attributes = job.info.words->dataset;
      if (!job.info.time || std::exchange(has_time, true)) continue;
      dataset->time_name = job.info.words->time_name;
      dataset->time_attributes = job.info.words->time;
    }
  }
}

/// Why a dataset cannot have a coordinate of text as well; empty: it can, or has one of this name.
std::string ObstacleOf(const TextCoordinate& text, const DatasetDescription& dataset) {
  if (std::ranges::find(dataset.texts, text.name, &TextCoordinate::name) != dataset.texts.end()) return "";
  DatasetDescription with_it = dataset;
  with_it.texts.push_back(text);
  return format::CheckTexts(with_it).message();
}

/// A coordinate of text on the grid of a job's field.
TextCoordinate OnGridOf(const Job& job, TextCoordinate text, const DatasetDescription& dataset) {
  text.grid = dataset.fields[*dataset.FindField(job.info.field)].grid;
  return text;
}

/// Coordinates of text on the grid of the input.
std::vector<TextCoordinate> TextsOf(const input::InputInfo& input, std::size_t grid) {
  std::vector<TextCoordinate> texts = input.words ? input.words->texts : std::vector<TextCoordinate>();
  for (TextCoordinate& text : texts) text.grid = grid;
  return texts;
}

}  // namespace

std::vector<std::string> ListOtherWords(const Jobs& jobs, const DatasetDescription& dataset) {
  std::map<std::string, std::set<std::string>> others;  // by their owner
  std::set<const input::FileWords*> seen;
  std::set<std::string> texts;
  std::set<std::string> left;
  for (const auto& [step, inputs] : jobs) {
    for (const Job& job : inputs) {
      const input::FileWords* words = job.info.words.get();
      if (words == nullptr || !seen.insert(words).second) continue;
      const auto add = [&](const std::string& owner, const Attributes& said, const Attributes& kept) {
        const std::vector<std::string> names = OtherAttributes(said, kept);
        others[owner].insert(names.begin(), names.end());
      };
      add("the files", words->dataset, dataset.attributes);
      for (const TextCoordinate& text : words->texts) {
        const auto kept = std::ranges::find(dataset.texts, text.name, &TextCoordinate::name);
        if (kept == dataset.texts.end()) {
          left.insert(fmt::format("{} ({})", text.name, ObstacleOf(OnGridOf(job, text, dataset), dataset)));
          continue;
        }
        if (kept->texts != text.texts) texts.insert(text.name);
        add(fmt::format("coordinate {}", text.name), text.attributes, kept->attributes);
      }
      if (const auto field = dataset.FindField(job.info.field))
        add(fmt::format("field {}", job.info.field), words->field, dataset.fields[*field].attributes);
    }
  }
  std::vector<std::string> sentences;
  if (!left.empty())
    sentences.push_back(fmt::format("coordinates of text are not kept: {}", fmt::join(left, ", ")));
  if (!texts.empty())
    sentences.push_back(
        fmt::format("the texts of {} differ; the dataset keeps the first", fmt::join(texts, ", ")));
  for (const auto& [owner, names] : others) {
    if (!names.empty())
      sentences.push_back(fmt::format("attributes of {} differ; the dataset keeps the first: {}", owner,
                                      fmt::join(names, ", ")));
  }
  return sentences;
}

Result<DatasetDescription> DescribeResult(const WriteOptions& options, const Jobs& jobs,
                                          const std::optional<DatasetDescription>& existing,
                                          const TimeUnit& unit) {
  DatasetDescription dataset = existing ? *existing : DescribeDataset(LayoutOf(options));
  if (!existing) {
    dataset.created_by = fmt::format("quarry-write {}", kVersion);
    TakeWords(options, jobs, &dataset);
  }
  dataset.time_unit = unit;
  for (const auto& [step, inputs] : jobs) {
    QUARRY_RETURN_IF_ERROR(internal::ToStatus(TimeOf(options, inputs, dataset.time_unit)));
    for (const Job& job : inputs) {
      const input::InputInfo& input = job.info;
      const WriteOptions& own = job.OptionsIn(options);
      const std::optional<std::size_t> known = dataset.FindField(input.field);
      const FieldDescription* continued = known ? &dataset.fields[*known] : nullptr;
      const std::string into = existing ? fmt::format(" into \"{}\"", options.output) : "";
      QUARRY_ASSIGN_OR_RETURN(
          const std::size_t grid,
          ChooseGrid(
              GridOf(input), LayoutOf(own), input.field,
              "give --origin {origin} --spacing {spacing} to place them there anyway, or another --output",
              &dataset)
              .Annotate(fmt::format("\"{}\"{}", input.path, into)));
      QUARRY_ASSIGN_OR_RETURN(const FieldRequest request,
                              RequestField(own, input, job.is_coordinate(), continued));
      Result<FieldDescription> field = DescribeField(request, kOptions);
      Status status = field.status();
      if (status.ok() && input.type != field->type && FindCoder(field->coder)->traits().has_safeguards) {
        status = InvalidArgument(
            "--store-as rounds samples before {} sees them, which may lose a sign or a zero; leave it out, "
            "or "
            "give --tolerance alone",
            Name(field->coder));
      }
      if (status.ok()) field->grid = grid;
      if (status.ok()) status = TakeField(*std::move(field), &dataset, kOptions);
      if (!status.ok()) return std::move(status).Annotate(fmt::format("\"{}\"", input.path));
      for (const TextCoordinate& text : TextsOf(input, grid)) {
        if (ObstacleOf(text, dataset).empty()) TakeText(text, &dataset);
      }
    }
  }
  return dataset;
}

Result<std::optional<FieldSource::Wider>> FindWider(const WriteOptions& options,
                                                    const input::InputInfo& input,
                                                    const FieldDescription& field) {
  if (input.type == field.type) return std::optional<FieldSource::Wider>();
  QUARRY_ASSIGN_OR_RETURN(std::optional<SampleValue> fill, SourceFill(options, input));
  if (!fill) fill = field.fill;
  return std::optional(FieldSource::Wider{fill ? std::optional(BitsOf(input.type, *fill)) : std::nullopt});
}

}  // namespace quarry::writer
