#include "writer/convert/jobs.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <utility>

#include "quarry/base/missing.h"
#include "quarry/base/natural_order.h"
#include "quarry/base/utf8.h"
#include "quarry/base/version.h"
#include "quarry/format/invariants.h"
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

}  // namespace

Result<std::unique_ptr<input::Input>> Job::Open(const WriteOptions& run) const {
  QUARRY_ASSIGN_OR_RETURN(auto inputs, input::OpenInputs(info.path, OptionsIn(run).input));
  if (moment < inputs.size() && inputs[moment]->info().dims == info.dims) return std::move(inputs[moment]);
  return DataLoss("\"{}\" has changed since the run began; convert it when no process writes it", info.path);
}

namespace {

/// Two variables of one file at one moment are never two steps of a field. Names that differ in numbers alone
/// are moments.
Status CheckVariables(const Jobs& jobs) {
  std::map<std::pair<std::string, std::string>, std::vector<const input::InputInfo*>> of_file;
  for (const auto& [step, inputs] : jobs) {
    for (const Job& job : inputs) {
      std::vector<const input::InputInfo*>& others = of_file[{input::FileOf(job.info.path), job.info.field}];
      for (const input::InputInfo* other : others) {
        const bool other_time = other->time && job.info.time && *other->time != *job.info.time;
        if (other->source == job.info.source || other_time ||
            WithoutNumbers(other->source) == WithoutNumbers(job.info.source))
          continue;
        return InvalidArgument(
            "\"{}\" and \"{}\" are two variables at one time, and cannot be two steps of the field \"{}\"; "
            "leave --field out, or convert the second with --append and another --field",
            other->path, job.info.path, job.info.field);
      }
      // All moments of one variable have the same source.
      if (others.empty() || others.back()->source != job.info.source) others.push_back(&job.info);
    }
  }
  return Status::Ok();
}

/// Nothing of a coordinate is lost, and what is said of fields is not said of it.
WriteOptions CoordinateOptions(const WriteOptions& options) {
  WriteOptions own;
  own.input.format = options.input.format;
  own.input.single = true;
  own.spacing = options.spacing;
  own.origin = options.origin;
  own.order = options.order;
  own.reading = options.reading;
  own.pipeline = options.pipeline;
  own.lossless = true;
  return own;
}

/// The coordinates that the files name, each once.
class Coordinates {
 public:
  Coordinates(const WriteOptions& options, const Jobs& jobs)
      : own_(std::make_shared<WriteOptions>(CoordinateOptions(options))) {
    for (const auto& [step, inputs] : jobs)
      for (const Job& job : inputs) fields_.try_emplace(job.info.field, job.info.path);
  }

  /// Adds the attributes of a field that is converted. @param info  gets a warning for what is not kept
  /// @errors those of OpenInputs but kInvalidArgument: a variable that cannot be a field is none on any rank
  Status Add(input::InputInfo* info) {
    if (!info->words || !seen_.insert(info->words.get()).second) return Status::Ok();
    const std::string file = input::FileOf(info->path);
    for (const std::string& name : info->words->coordinates) {
      const auto [known, is_new] = files_.try_emplace(name, file);
      if (!is_new && known->second != file) repeated_.insert(name);
      if (is_new) QUARRY_RETURN_IF_ERROR(Open(fmt::format("{}:{}", file, name), name, info));
    }
    return Status::Ok();
  }

  std::vector<Job> Take(input::InputInfo* of_first) && {
    if (!repeated_.empty())
      of_first->warnings.push_back(fmt::format(
          "the coordinates {} are those of this file, and are not compared with those of the others",
          fmt::join(repeated_, ", ")));
    return std::move(found_);
  }

 private:
  Status Open(const std::string& path, const std::string& name, input::InputInfo* info) {
    Result<std::vector<std::unique_ptr<input::Input>>> inputs = input::OpenInputs(path, own_->input);
    if (!inputs.ok() && inputs.status().code() != StatusCode::kInvalidArgument)
      return std::move(inputs).status();
    const auto leave = [&](const std::string& why) {
      info->warnings.push_back(fmt::format("{}: its coordinate {} is not kept: {}", info->field, name, why));
      return Status::Ok();
    };
    if (!inputs.ok()) return leave(inputs.status().message());
    if (inputs->size() != 1) return leave("it changes with time, or is complex");
    input::InputInfo coordinate = inputs->front()->info();
    // A still field has no moment, whatever the file says of it.
    coordinate.time.reset();
    coordinate.time_unit = {};
    const auto [known, is_new] = fields_.try_emplace(coordinate.field, coordinate.path);
    if (!is_new && known->second == coordinate.path) return Status::Ok();  // it is converted as a field
    if (!is_new) return leave(fmt::format("\"{}\" is the field \"{}\" already", known->second, known->first));
    found_.push_back({std::move(coordinate), 0, false, own_});
    return Status::Ok();
  }

  const std::shared_ptr<const WriteOptions> own_;
  std::map<std::string, std::string> fields_;  ///< by name: from which input
  std::set<const input::FileWords*> seen_;
  std::map<std::string, std::string> files_;  ///< by coordinate: where it was found first
  std::set<std::string> repeated_;
  std::vector<Job> found_;
};

Status AddCoordinates(const WriteOptions& options, Jobs* jobs) {
  if (jobs->empty()) return Status::Ok();
  Coordinates coordinates(options, *jobs);
  for (auto& [step, inputs] : *jobs)
    for (Job& job : inputs) QUARRY_RETURN_IF_ERROR(coordinates.Add(&job.info));
  std::vector<Job>& first = jobs->begin()->second;
  std::vector<Job> found = std::move(coordinates).Take(&first.front().info);
  std::ranges::move(found, std::back_inserter(first));
  return Status::Ok();
}

}  // namespace

std::set<std::string> FieldsOf(const Jobs& jobs, bool coordinates) {
  std::set<std::string> fields;
  for (const auto& [step, inputs] : jobs) {
    for (const Job& job : inputs) {
      if (job.is_coordinate() == coordinates) fields.insert(job.info.field);
    }
  }
  return fields;
}

std::set<std::string> LeaveOutCoordinates(const std::set<std::string>& known, Jobs* jobs) {
  std::set<std::string> left;
  for (auto& [step, inputs] : *jobs) {
    std::erase_if(inputs, [&](const Job& job) {
      const bool is_known = job.is_coordinate() && known.contains(job.info.field);
      if (is_known) left.insert(job.info.field);
      return is_known;
    });
  }
  return left;
}

Result<Jobs> ListJobs(const WriteOptions& options) {
  if (Status status = CheckTime(options.time); !status.ok()) return std::move(status).Annotate("--time");
  if (!IsUtf8(options.units)) return InvalidArgument("--units is not UTF-8 text; encode it as UTF-8");
  if (options.pipeline.files && *options.pipeline.files < 1)
    return InvalidArgument("--files {} is not possible; give at least 1", *options.pipeline.files);
  Jobs jobs;
  std::map<std::string, std::uint64_t> next_step;
  for (const std::string& path : options.inputs) {
    QUARRY_ASSIGN_OR_RETURN(const auto inputs, input::OpenInputs(path, options.input));
    for (std::size_t moment = 0; moment < inputs.size(); ++moment) {
      const input::InputInfo& info = inputs[moment]->info();
      const auto [it, added] = next_step.try_emplace(info.field, options.first_step.value_or(0));
      // Behind the largest number comes 0.
      if (!added && it->second < options.first_step.value_or(0))
        return InvalidArgument(
            "--step {} leaves no numbers for the steps after the first; give a smaller one",
            *options.first_step);
      jobs[it->second++].push_back({info, moment, false, nullptr});
    }
  }
  QUARRY_RETURN_IF_ERROR(CheckVariables(jobs));
  QUARRY_RETURN_IF_ERROR(AddCoordinates(options, &jobs));
  if (options.time && jobs.size() > 1)
    return InvalidArgument(
        "--time gives one time, but there are {} steps; convert them one by one with --append", jobs.size());
  return jobs;
}

Result<Jobs> Renumber(Jobs jobs, const FirstSteps& first) {
  Jobs renumbered;
  std::vector<Job> coordinates;
  for (auto& [step, inputs] : jobs) {
    for (Job& job : inputs) {
      if (job.is_coordinate()) {
        coordinates.push_back(std::move(job));
        continue;
      }
      const auto found = first.find(job.info.field);
      std::uint64_t number = step;
      if (found != first.end() && __builtin_add_overflow(step, found->second, &number))
        return InvalidArgument("field \"{}\" has no step numbers left after {}", job.info.field,
                               found->second);
      renumbered[number].push_back(std::move(job));
    }
  }
  if (!renumbered.empty()) std::ranges::move(coordinates, std::back_inserter(renumbered.begin()->second));
  return renumbered;
}

std::vector<std::string> ListWarnings(const WriteOptions& options, const Jobs& jobs) {
  std::vector<std::string> warnings;
  const auto add = [&](std::string warning) {
    if (std::ranges::find(warnings, warning) == warnings.end()) warnings.push_back(std::move(warning));
  };
  std::map<std::string, const input::InputInfo*> last;
  std::set<std::string> unordered;
  for (const auto& [step, inputs] : jobs) {
    for (const Job& job : inputs) {
      for (const std::string& warning : job.info.warnings)
        add(fmt::format("\"{}\": {}", input::FileOf(job.info.path), warning));
      const input::InputInfo*& before = last[job.info.field];
      const bool timed = before != nullptr && before->time && job.info.time && !options.time;
      const Result<double> time =
          timed ? ConvertTime(*job.info.time, job.info.time_unit, before->time_unit) : Result<double>(0.0);
      if (timed && time.ok() && *time <= *before->time && unordered.insert(job.info.field).second) {
        add(*time == *before->time
                ? fmt::format(
                      "\"{}\" has the time {}, as the step before has; if it is another part or member at "
                      "the same time, write it to a separate field or dataset (--field, --output)",
                      job.info.path, *job.info.time)
                : fmt::format("\"{}\" has the time {}, which is not after {} of the step before; steps have "
                              "the order "
                              "of the inputs, and of the times in a file",
                              job.info.path, *job.info.time, *before->time));
      } else if (before != nullptr && !timed && NaturalLess(job.info.path, before->path) &&
                 unordered.insert(job.info.field).second) {
        add(
            fmt::format("\"{}\" follows \"{}\", though its name sorts before; steps have the order of the "
                        "inputs, and \"ls -v\" sorts by number",
                        job.info.path, before->path));
      }
      before = &job.info;
    }
  }
  return warnings;
}

TimeUnit TimeUnitOf(const WriteOptions& options, const Jobs& jobs) {
  for (const auto& [step, inputs] : jobs) {
    for (const Job& job : inputs) {
      if (job.info.time && !job.info.time_unit.units.empty() && !options.time) return job.info.time_unit;
    }
  }
  return {};
}

namespace {

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
  std::map<std::string, std::set<std::string>> others;  // by what they are about
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
      Result<std::size_t> grid = ChooseGrid(
          GridOf(input), LayoutOf(own), input.field,
          "give --origin {origin} --spacing {spacing} to place them there anyway, or another --output",
          &dataset);
      if (!grid.ok()) {
        const std::string into = existing ? fmt::format(" into \"{}\"", options.output) : "";
        return std::move(grid).status().Annotate(fmt::format("\"{}\"{}", input.path, into));
      }
      QUARRY_ASSIGN_OR_RETURN(const FieldRequest request,
                              RequestField(own, input, job.is_coordinate(), continued));
      Result<FieldDescription> field = DescribeField(request, kOptions);
      Status status = field.status();
      if (status.ok() && input.type != field->type && FindCoder(field->coder)->HasSafeguards()) {
        status = InvalidArgument(
            "--store-as rounds samples before {} sees them, which may lose a sign or a zero; leave it out, "
            "or "
            "give --tolerance alone",
            Name(field->coder));
      }
      if (status.ok()) field->grid = *grid;
      if (status.ok()) status = TakeField(*std::move(field), &dataset, kOptions);
      if (!status.ok()) return std::move(status).Annotate(fmt::format("\"{}\"", input.path));
      for (const TextCoordinate& text : TextsOf(input, *grid)) {
        if (ObstacleOf(text, dataset).empty()) TakeText(text, &dataset);
      }
    }
  }
  return dataset;
}

distribution::PlacementStrategy PlacementOf(const WriteOptions& options) {
  // No patch is then on two ranks, and greedy leaves each where it is, so that nothing moves.
  return options.reading == distribution::ReadingOrder::kDirect ? distribution::PlacementStrategy::kGreedy
                                                                : options.pipeline.placement;
}

Result<std::optional<FieldSource::Wider>> FindWider(const WriteOptions& options,
                                                    const input::InputInfo& input,
                                                    const FieldDescription& field) {
  if (input.type == field.type) return std::optional<FieldSource::Wider>();
  QUARRY_ASSIGN_OR_RETURN(std::optional<SampleValue> fill, SourceFill(options, input));
  if (!fill) fill = field.fill;
  return std::optional(FieldSource::Wider{fill ? std::optional(BitsOf(input.type, *fill)) : std::nullopt});
}

Result<std::optional<double>> TimeOf(const WriteOptions& options, const std::vector<Job>& step,
                                     const TimeUnit& unit) {
  if (options.time) return options.time;
  std::optional<double> time;
  const input::InputInfo* from = nullptr;
  for (const Job& job : step) {
    const input::InputInfo& info = job.info;
    if (!info.time) continue;
    const Result<std::optional<double>> converted = TimeInUnit(info.time, info.time_unit, unit);
    if (!converted.ok()) {
      return Status(converted.status())
          .Annotate(
              fmt::format("\"{}\" has a time in other units than the dataset (--time gives one)", info.path));
    }
    constexpr double kRounding = 1e-9;
    if (time && std::abs(*time - **converted) > kRounding * std::abs(*time)) {
      return InvalidArgument(
          "\"{}\" is at time {}, but \"{}\", for the same step, at {}; convert them separately, with a "
          "--step for each, or give --time",
          from->path, *time, info.path, **converted);
    }
    if (!time) from = &info;
    if (!time) time = *converted;
  }
  return time;
}

Result<SampleValue> ParseFill(const std::string& text, DataType type) {
  return DispatchType(type, [&](auto sample) -> Result<SampleValue> {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), sample);
    if (error == std::errc() && end == text.data() + text.size()) return SampleValue(sample);
    return InvalidArgument("--fill {} is not a value of {}; give {}", text, Name(type),
                           IsFloat(type) ? "a number or nan" : "an integer in its range");
  });
}

}  // namespace quarry::writer
