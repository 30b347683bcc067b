#include "writer/convert/plan.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "quarry/base/missing.h"
#include "quarry/base/utf8.h"
#include "quarry/base/version.h"

namespace quarry::writer {
namespace {

Status CheckBound(const WriteOptions& options) {
  if (options.tolerance && options.relative_tolerance)
    return InvalidArgument("--tolerance and --relative exclude each other; give one of them");
  if (options.lossless && (options.tolerance || options.relative_tolerance)) {
    return InvalidArgument("--lossless and {} exclude each other; give one of them",
                           options.tolerance ? "--tolerance" : "--relative");
  }
  const auto check = [](const std::optional<double>& bound, const char* name) {
    if (!bound || (*bound > 0 && std::isfinite(*bound))) return Status::Ok();
    return InvalidArgument("{} {} is not a positive number; give the largest error that you accept", name,
                           *bound);
  };
  QUARRY_RETURN_IF_ERROR(check(options.tolerance, "--tolerance"));
  return check(options.relative_tolerance, "--relative");
}

/// How the bound of a field is called on the command line.
std::string BoundText(const FieldDescription& field) {
  if (field.lossless) return "--lossless";
  if (field.tolerance) return fmt::format("--tolerance {}", *field.tolerance);
  return fmt::format("--relative {}", field.relative_tolerance.value_or(0));
}

/// The bits of the fill value that the file declares, unless NaN, which needs no declaration.
std::optional<double> DeclaredFill(const InputInfo& input) {
  return input.fill && !std::isnan(*input.fill) ? input.fill : std::nullopt;
}

/// A file with another fill value than its field would have missing samples taken for valid ones.
Status CheckSameFill(const InputInfo& input, const FieldDescription& existing) {
  const std::optional<double> fill = DeclaredFill(input);
  if (!fill || existing.fill_bits() == BitsOf(existing.type, *fill)) return Status::Ok();
  if (!existing.fill) {
    return InvalidArgument(
        "\"{}\" has the fill value {}, but field \"{}\" was declared without one; choose another --field",
        input.path, *fill, existing.name);
  }
  return InvalidArgument(
      "\"{}\" has the fill value {}, but field \"{}\" was declared with {}; give --fill {} if that is right, or "
      "choose another --field",
      input.path, *fill, existing.name, *existing.fill, *existing.fill);
}

/// Continues a field: whatever the options say of it must be what it was declared with.
Status CheckSameField(const WriteOptions& options, const InputInfo& input, const FieldDescription& existing) {
  const std::string codec = options.codec.empty() ? std::string(Name(existing.coder)) : options.codec;
  QUARRY_ASSIGN_OR_RETURN(const CoderId coder, ParseCoder(codec));
  if (existing.type != input.type || existing.coder != coder) {
    return InvalidArgument(
        "field \"{}\" is {} by {} in the dataset, but {} by {} here; choose another --field", existing.name,
        Name(existing.type), Name(existing.coder), Name(input.type), codec);
  }
  if ((options.tolerance && options.tolerance != existing.tolerance) ||
      (options.relative_tolerance && options.relative_tolerance != existing.relative_tolerance) ||
      (options.lossless && !existing.lossless)) {
    return InvalidArgument("field \"{}\" was declared with {}; leave the bound out to use it again",
                           existing.name, BoundText(existing));
  }
  if (options.fill.empty()) return CheckSameFill(input, existing);
  QUARRY_ASSIGN_OR_RETURN(const double fill, ParseFill(options.fill, existing.type));
  if (existing.fill_bits() == BitsOf(existing.type, fill)) return Status::Ok();
  return InvalidArgument(
      "field \"{}\" was declared {}, not with --fill {}; leave --fill out to use it again", existing.name,
      existing.fill ? fmt::format("with --fill {}", *existing.fill) : "without --fill", options.fill);
}

/// The coder of a new field.
/// @param lossless  whether anything may be lost
Result<CoderId> ChooseCoder(const WriteOptions& options, const InputInfo& input, bool lossless) {
  CoderId coder = DefaultCoder(input.type, lossless);
  if (!options.codec.empty()) {
    QUARRY_ASSIGN_OR_RETURN(coder, ParseCoder(options.codec));
  }
  if (lossless && coder != CoderId::kLossless) {
    return InvalidArgument(
        "\"{}\" is to be coded {}, which --codec {} cannot; leave --codec out, or give --tolerance or "
        "--relative",
        input.path,
        options.lossless ? "with --lossless" : "without loss, as integers are without a tolerance",
        options.codec);
  }
  const PatchCoder* found = FindCoder(coder);
  if (found == nullptr || coder == CoderId::kValidity) {
    return InvalidArgument("\"{}\" holds {}: this version has no coder for it with that bound", input.path,
                           Name(input.type));
  }
  if (!found->Supports(input.type)) {
    return InvalidArgument(
        "\"{}\" holds {}, which coder {} does not code; choose another --codec, or leave it out", input.path,
        Name(input.type), Name(coder));
  }
  return coder;
}

/// A field that this run adds, or the existing one that it continues.
Result<FieldDescription> DescribeField(const WriteOptions& options, const InputInfo& input,
                                       const FieldDescription* existing) {
  if (existing != nullptr) {
    QUARRY_RETURN_IF_ERROR(CheckSameField(options, input, *existing));
    return *existing;
  }
  const bool bounded = options.tolerance || options.relative_tolerance;
  const bool lossless_codec = options.codec == Name(CoderId::kLossless);
  if (bounded && lossless_codec) {
    return InvalidArgument("--codec {} loses nothing, so that {} means nothing; leave one of them out",
                           options.codec, options.tolerance ? "--tolerance" : "--relative");
  }
  const bool lossless = options.lossless || (!bounded && (lossless_codec || !IsFloat(input.type)));
  QUARRY_ASSIGN_OR_RETURN(const CoderId coder, ChooseCoder(options, input, lossless));
  if (!lossless && !bounded) {
    return InvalidArgument(
        "no error bound given; add --tolerance E (absolute), --relative R (of the value range) or "
        "--lossless");
  }
  FieldDescription field{
      input.field, input.type, options.units.empty() ? ToUtf8(input.units) : options.units,
      coder,       options.tolerance, options.relative_tolerance, lossless, DeclaredFill(input)};
  if (!options.fill.empty()) {
    QUARRY_ASSIGN_OR_RETURN(field.fill, ParseFill(options.fill, input.type));
  }
  return field;
}

Index3 WantedPatch(const WriteOptions& options, const Index3& dims) { return PatchFor(options.patch, dims); }

/// The grid of a file, as far as the file tells and the options do not overrule it. An option that places samples
/// evenly does so along every axis.
GridDescription PlanGrid(const WriteOptions& options, const InputInfo& input) {
  GridDescription grid;
  grid.dims = input.dims;
  for (std::size_t a = 0; a < 3; ++a) {
    const InputAxis& axis = input.axes[a];
    if (!axis.name.empty()) grid.axis_names[a] = ToUtf8(axis.name);
    grid.axis_units[a] = ToUtf8(axis.units);
    grid.origin[a] = axis.origin.value_or(grid.origin[a]);
    grid.spacing[a] = axis.spacing.value_or(grid.spacing[a]);
    if (!options.spacing && !options.origin) grid.coordinates[a] = axis.coordinates;
  }
  if (options.origin) grid.origin = *options.origin;
  if (options.spacing) grid.spacing = *options.spacing;
  return grid;
}

/// Whether a file's samples lie where the grid says, as far as the file tells: within a millionth of the spacing.
bool LiesOnAxis(const InputAxis& axis, const GridDescription& grid, std::size_t a) {
  const auto near = [&](double file, double known) {
    // Files that keep positions as float32 have no more digits.
    const double rounding = 1e-6 * std::abs(grid.spacing[a]) + 1e-7 * std::abs(known);
    return std::abs(file - known) <= rounding;
  };
  const std::vector<double>& coordinates = grid.coordinates[a];
  if (!axis.coordinates.empty()) {
    return std::equal(axis.coordinates.begin(), axis.coordinates.end(), coordinates.begin(), coordinates.end(), near);
  }
  if (axis.spacing && !(coordinates.empty() && near(*axis.spacing, grid.spacing[a]))) return false;
  return !axis.origin || near(*axis.origin, grid.origin[a]);
}

/// One dataset has one grid: a file that says otherwise is refused, unless --spacing or --origin overrule it.
Status CheckSameGrid(const WriteOptions& options, const InputInfo& input, const GridDescription& grid) {
  for (std::size_t a = 0; a < 3; ++a) {
    InputAxis axis = input.axes[a];
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

Result<DatasetDescription> DescribeNewDataset(const WriteOptions& options, const InputInfo& input) {
  DatasetDescription dataset;
  dataset.created_by = fmt::format("quarry-write {}", kVersion);
  dataset.grid = PlanGrid(options, input);
  dataset.patch = WantedPatch(options, input.dims);
  QUARRY_RETURN_IF_ERROR(internal::ToStatus(PatchGrid::Create(input.dims, dataset.patch)));
  const int max_levels = MaxLevels(input.dims, dataset.patch);
  dataset.levels = options.levels.value_or(max_levels);
  if (dataset.levels < 1 || dataset.levels > max_levels) {
    return InvalidArgument("--levels {} does not fit patches of {}; give 1 to {}", dataset.levels,
                           ToString(dataset.patch), max_levels);
  }
  dataset.order = options.order.value_or(format::PayloadOrder::kPatch);
  return dataset;
}

Status CheckSameLayout(const WriteOptions& options, const DatasetDescription& existing) {
  if (options.patch && WantedPatch(options, existing.grid.dims) != existing.patch) {
    return InvalidArgument("--patch {} differs from the dataset's {}; leave it out when appending",
                           ToString(*options.patch), ToString(existing.patch));
  }
  if (options.levels && *options.levels != existing.levels) {
    return InvalidArgument("--levels {} differs from the dataset's {}; leave it out when appending",
                           *options.levels, existing.levels);
  }
  if (options.order && *options.order != existing.order) {
    return InvalidArgument("--order differs from the dataset's; leave it out when appending");
  }
  if ((options.spacing && *options.spacing != existing.grid.spacing) ||
      (options.origin && *options.origin != existing.grid.origin)) {
    return InvalidArgument("--spacing or --origin differ from the dataset's; leave them out when appending");
  }
  return Status::Ok();
}

}  // namespace

Result<std::unique_ptr<Input>> Job::Open(const InputOptions& options) const {
  QUARRY_ASSIGN_OR_RETURN(auto inputs, OpenInputs(info.path, options));
  if (moment < inputs.size() && inputs[moment]->info().dims == info.dims) return std::move(inputs[moment]);
  return DataLoss("\"{}\" has changed since the run began; convert it when nobody writes it", info.path);
}

Result<Jobs> PlanJobs(const WriteOptions& options) {
  QUARRY_RETURN_IF_ERROR(CheckBound(options));
  for (const auto& triple : {options.spacing, options.origin}) {
    if (triple && !std::all_of(triple->begin(), triple->end(), [](double v) { return std::isfinite(v); }))
      return InvalidArgument("--spacing and --origin need finite numbers, not {}", fmt::join(*triple, ","));
  }
  if (!IsUtf8(options.units)) return InvalidArgument("--units is not UTF-8 text; write it in another way");
  if (options.pipeline.files && *options.pipeline.files < 1)
    return InvalidArgument("--files {} makes no sense; give at least 1", *options.pipeline.files);
  Jobs jobs;
  std::map<std::string, std::uint64_t> next_step;
  for (const std::string& path : options.inputs) {
    QUARRY_ASSIGN_OR_RETURN(const auto inputs, OpenInputs(path, options.input));
    for (std::size_t moment = 0; moment < inputs.size(); ++moment) {
      const InputInfo& info = inputs[moment]->info();
      const auto [it, added] = next_step.try_emplace(info.field, options.first_step);
      jobs[it->second++].push_back({info, moment, false});
      const InputInfo& first = jobs.begin()->second.front().info;
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

Result<DatasetDescription> PlanDescription(const WriteOptions& options, const Jobs& jobs,
                                           const std::optional<DatasetDescription>& existing) {
  const InputInfo& first = jobs.begin()->second.front().info;
  DatasetDescription dataset;
  if (existing) {
    if (existing->grid.dims != first.dims) {
      return InvalidArgument("\"{}\" is {}, but the dataset \"{}\" is {}; one dataset has one grid",
                             first.path, ToString(first.dims), options.output, ToString(existing->grid.dims));
    }
    QUARRY_RETURN_IF_ERROR(CheckSameLayout(options, *existing));
    dataset = *existing;
  } else {
    QUARRY_ASSIGN_OR_RETURN(dataset, DescribeNewDataset(options, first));
  }
  for (const auto& [step, inputs] : jobs) {
    for (const auto& [input, moment, done] : inputs) {
      QUARRY_RETURN_IF_ERROR(CheckSameGrid(options, input, dataset.grid));
      const std::optional<std::size_t> known = dataset.FindField(input.field);
      QUARRY_ASSIGN_OR_RETURN(FieldDescription field,
                              DescribeField(options, input, known ? &dataset.fields[*known] : nullptr));
      if (!known) dataset.fields.push_back(std::move(field));
    }
  }
  return dataset;
}

std::optional<double> PlanTime(const WriteOptions& options, const std::vector<Job>& step) {
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
