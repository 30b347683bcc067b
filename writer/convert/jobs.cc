#include "writer/convert/jobs.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "quarry/base/missing.h"
#include "quarry/base/utf8.h"
#include "quarry/base/version.h"
#include "writer/pipeline/declare.h"
#include "writer/pipeline/rounding.h"

namespace quarry::writer {
namespace {

/// The fill value that the file declares, unless NaN, which needs no declaration.
std::optional<double> DeclaredFill(const input::InputInfo& input) {
  return input.fill && !std::isnan(*input.fill) ? input.fill : std::nullopt;
}

/// The fill value of a file, in the file's type: given by the user, or declared by the file.
Result<std::optional<double>> SourceFill(const WriteOptions& options, const input::InputInfo& input) {
  if (options.fill.empty()) return DeclaredFill(input);
  QUARRY_ASSIGN_OR_RETURN(const double fill, ParseFill(options.fill, input.type));
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
                                  const FieldDescription* existing) {
  FieldRequest field;
  field.name = input.field;
  QUARRY_ASSIGN_OR_RETURN(field.type, StoredType(options, input));
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
  QUARRY_ASSIGN_OR_RETURN(const std::optional<double> fill, SourceFill(options, input));
  field.fill = StoredFill(field.type, fill);
  QUARRY_ASSIGN_OR_RETURN(field.coder, CoderOf(options));
  if (existing == nullptr) return field;
  const std::optional<double> stored = field.fill;
  field = ContinueField(std::move(field), *existing);
  if (fill) field.fill = stored;
  return field;
}

LayoutRequest LayoutOf(const WriteOptions& options) {
  return {options.origin, options.spacing, options.patch, options.levels, options.order};
}

/// The grid of a file, as far as the file tells. An option for even spacing applies to every axis.
GridDescription GridOf(const WriteOptions& options, const input::InputInfo& input) {
  GridDescription grid;
  grid.dims = input.dims;
  for (std::size_t a = 0; a < 3; ++a) {
    const input::InputAxis& axis = input.axes[a];
    if (!axis.name.empty()) grid.axis_names[a] = ToUtf8(axis.name);
    grid.axis_units[a] = ToUtf8(axis.units);
    grid.origin[a] = axis.origin.value_or(grid.origin[a]);
    grid.spacing[a] = axis.spacing.value_or(grid.spacing[a]);
    if (!options.spacing && !options.origin) grid.coordinates[a] = axis.coordinates;
  }
  return grid;
}

/// Whether a file's sample positions, if it has any, match the grid: within a millionth of the spacing.
bool LiesOnAxis(const input::InputAxis& axis, const GridDescription& grid, std::size_t a) {
  const auto near = [&](double file, double known) {
    // Positions stored as float32 have no more digits.
    const double rounding = 1e-6 * std::abs(grid.spacing[a]) + 1e-7 * std::abs(known);
    return std::abs(file - known) <= rounding;
  };
  const std::vector<double>& coordinates = grid.coordinates[a];
  if (!axis.coordinates.empty()) {
    return std::equal(axis.coordinates.begin(), axis.coordinates.end(), coordinates.begin(),
                      coordinates.end(), near);
  }
  if (axis.spacing && !(coordinates.empty() && near(*axis.spacing, grid.spacing[a]))) return false;
  return !axis.origin || near(*axis.origin, grid.origin[a]);
}

/// One dataset has one grid: a file that says otherwise is refused, unless --spacing or --origin overrule it.
Status CheckSameGrid(const WriteOptions& options, const input::InputInfo& input,
                     const GridDescription& grid) {
  for (std::size_t a = 0; a < 3; ++a) {
    input::InputAxis axis = input.axes[a];
    if (options.spacing || options.origin) axis.coordinates.clear();
    if (options.spacing || (options.origin && !grid.coordinates[a].empty())) axis.spacing.reset();
    if (options.origin) axis.origin.reset();
    if (LiesOnAxis(axis, grid, a)) continue;
    return InvalidArgument(
        "\"{}\" has other positions along {} ({}) than the dataset (origin {}, spacing {}); give --origin {} "
        "--spacing {} to place it there all the same, or another --output",
        input.path, kAxisNames[a],
        axis.coordinates.empty() ? fmt::format("origin {}, spacing {}", axis.origin.value_or(grid.origin[a]),
                                               axis.spacing.value_or(grid.spacing[a]))
                                 : fmt::format("uneven, from {}", axis.coordinates.front()),
        grid.origin[a], grid.spacing[a], fmt::join(grid.origin, ","), fmt::join(grid.spacing, ","));
  }
  return Status::Ok();
}

}  // namespace

Result<std::unique_ptr<input::Input>> Job::Open(const input::InputOptions& options) const {
  QUARRY_ASSIGN_OR_RETURN(auto inputs, input::OpenInputs(info.path, options));
  if (moment < inputs.size() && inputs[moment]->info().dims == info.dims) return std::move(inputs[moment]);
  return DataLoss("\"{}\" has changed since the run began; convert it when no process writes it", info.path);
}

/// What a file says, without a spacing of 0 along an axis of one sample: there it says that there is none.
input::InputInfo WithoutEmptySpacing(input::InputInfo info) {
  for (std::size_t a = 0; a < 3; ++a) {
    std::optional<double>& spacing = info.axes[a].spacing;
    if (info.dims[a] == 1 && spacing && !IsSpacing(*spacing)) spacing.reset();
  }
  return info;
}

Result<Jobs> ListJobs(const WriteOptions& options) {
  if (Status status = CheckTime(options.time); !status.ok()) return std::move(status).Annotate("--time");
  if (!IsUtf8(options.units)) return InvalidArgument("--units is not UTF-8 text; write it in another way");
  if (options.pipeline.files && *options.pipeline.files < 1)
    return InvalidArgument("--files {} makes no sense; give at least 1", *options.pipeline.files);
  Jobs jobs;
  std::map<std::string, std::uint64_t> next_step;
  for (const std::string& path : options.inputs) {
    QUARRY_ASSIGN_OR_RETURN(const auto inputs, input::OpenInputs(path, options.input));
    for (std::size_t moment = 0; moment < inputs.size(); ++moment) {
      const input::InputInfo info = WithoutEmptySpacing(inputs[moment]->info());
      const auto [it, added] = next_step.try_emplace(info.field, options.first_step);
      // Behind the largest number comes 0.
      if (!added && it->second < options.first_step)
        return InvalidArgument(
            "--step {} leaves no numbers for the steps behind the first; give a smaller one",
            options.first_step);
      jobs[it->second++].push_back({info, moment, false});
      const input::InputInfo& first = jobs.begin()->second.front().info;
      if (info.dims != first.dims) {
        return InvalidArgument("\"{}\" is {}, but \"{}\" is {}; one dataset has one grid", path,
                               ToString(info.dims), first.path, ToString(first.dims));
      }
    }
  }
  if (options.time && jobs.size() > 1)
    return InvalidArgument(
        "--time names one moment, but there are {} steps; convert them one by one with --append",
        jobs.size());
  return jobs;
}

Result<DatasetDescription> DescribeResult(const WriteOptions& options, const Jobs& jobs,
                                          const std::optional<DatasetDescription>& existing) {
  const input::InputInfo& first = jobs.begin()->second.front().info;
  DatasetDescription dataset;
  if (existing) {
    Status same = CheckSameLayout(first.dims, LayoutOf(options), *existing);
    if (!same.ok())
      return std::move(same).Annotate(fmt::format("\"{}\" into \"{}\"", first.path, options.output));
    dataset = *existing;
  } else {
    Result<DatasetDescription> described = DescribeDataset(GridOf(options, first), LayoutOf(options));
    if (!described.ok()) return std::move(described).status().Annotate(fmt::format("\"{}\"", first.path));
    dataset = *std::move(described);
    dataset.created_by = fmt::format("quarry-write {}", kVersion);
  }
  for (const auto& [step, inputs] : jobs) {
    for (const auto& [input, moment, done] : inputs) {
      QUARRY_RETURN_IF_ERROR(CheckSameGrid(options, input, dataset.grid));
      const std::optional<std::size_t> known = dataset.FindField(input.field);
      const FieldDescription* continued = known ? &dataset.fields[*known] : nullptr;
      QUARRY_ASSIGN_OR_RETURN(const FieldRequest request, RequestField(options, input, continued));
      Result<FieldDescription> field =
          DescribeField(request, {"--tolerance", "--relative", "--lossless", "--codec", "--layers",
                                  "--pointwise-relative", "--keyframe"});
      Status status = field.status();
      if (status.ok() && input.type != field->type && FindCoder(field->coder)->HasSafeguards()) {
        status = InvalidArgument(
            "--store-as rounds samples before {} sees them, which may lose a sign or a zero; leave it out, "
            "or "
            "give --tolerance alone",
            Name(field->coder));
      }
      if (status.ok() && known) status = CheckSameField(*field, *continued);
      if (!status.ok()) return std::move(status).Annotate(fmt::format("\"{}\"", input.path));
      if (!known) dataset.fields.push_back(*std::move(field));
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
  QUARRY_ASSIGN_OR_RETURN(std::optional<double> fill, SourceFill(options, input));
  if (!fill) fill = field.fill;
  return std::optional(FieldSource::Wider{fill ? std::optional(BitsOf(input.type, *fill)) : std::nullopt});
}

std::optional<double> TimeOf(const WriteOptions& options, const std::vector<Job>& step) {
  if (options.time) return options.time;
  for (const Job& job : step) {
    if (job.info.time) return job.info.time;
  }
  return std::nullopt;
}

Result<double> ParseFill(const std::string& text, DataType type) {
  return DispatchType(type, [&](auto sample) -> Result<double> {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), sample);
    if (error == std::errc() && end == text.data() + text.size()) return static_cast<double>(sample);
    return InvalidArgument("--fill {} is no value of {}; give {}", text, Name(type),
                           IsFloat(type) ? "a number or nan" : "an integer in its range");
  });
}

}  // namespace quarry::writer
