#include <map>
#include <nlohmann/json.hpp>

#include "quarry/base/missing.h"
#include "quarry/base/units.h"
#include "quarry/dataset/dataset.h"
#include "quarry/format/dimension_names.h"
#include "quarry/geometry/patch_grid.h"
#include "quarry/pack/packed_steps.h"
#include "quarry/remote/open_url.h"
#include "tools/quarry/command.h"

namespace quarry::tools {
namespace {

struct InfoOptions {
  ServerOptions server;
  std::string target;
  bool json = false;
};

/// One field over all its steps.
struct FieldOverSteps {
  const FieldDescription* field = nullptr;
  std::uint64_t steps = 0;
  std::uint64_t raw_bytes = 0;
  std::uint64_t bytes = 0;
  double min = 0;
  double max = 0;
  double tolerance = 0;  ///< the largest that any step promises
  double max_error = 0;
  double psnr = 0;  ///< the lowest of any step
  std::uint64_t samples = 0;
  std::uint64_t valid = 0;                       ///< valid samples among them
  std::map<std::uint64_t, std::uint64_t> masks;  ///< bytes of each, by name; shared ones counted once
  std::vector<LevelRecord> levels;
  std::vector<LayerRecord> rougher;  ///< the layers before the last

  std::uint64_t mask_bytes() const {
    std::uint64_t sum = 0;
    for (const auto& [name, mask] : masks) sum += mask;
    return sum;
  }
  double valid_fraction() const {
    return samples == 0 ? 1 : static_cast<double>(valid) / static_cast<double>(samples);
  }
  /// Masks included.
  double ratio() const {
    return bytes == 0 ? 0 : static_cast<double>(raw_bytes) / static_cast<double>(bytes + mask_bytes());
  }
};

/// The worst of both, and the sum of their bytes.
void Add(const std::vector<LevelRecord>& more, std::vector<LevelRecord>* levels) {
  levels->resize(more.size());
  for (std::size_t l = 0; l < more.size(); ++l) {
    LevelRecord& level = (*levels)[l];
    level.max_error = std::max(level.max_error, more[l].max_error);
    level.rmse = std::max(level.rmse, more[l].rmse);
    level.bytes += more[l].bytes;
    level.coverage = std::min(level.coverage, more[l].coverage);
  }
}

/// @param samples  of the grid
FieldOverSteps Summarise(const FieldDescription& field, const std::vector<StepSummary>& steps,
                         std::uint64_t samples) {
  FieldOverSteps summary;
  summary.field = &field;
  for (const StepSummary& step : steps) {
    const FieldSummary* record = step.FindField(field.name);
    if (record == nullptr) continue;
    summary.min = summary.steps == 0 ? record->min : std::min(summary.min, record->min);
    summary.max = summary.steps == 0 ? record->max : std::max(summary.max, record->max);
    summary.psnr = summary.steps == 0 ? record->psnr : std::min(summary.psnr, record->psnr);
    summary.tolerance = std::max(summary.tolerance, record->tolerance);
    summary.max_error = std::max(summary.max_error, record->max_error);
    summary.raw_bytes += record->raw_bytes;
    summary.bytes += record->stored_bytes;
    summary.samples += samples;
    summary.valid += record->valid;
    if (record->mask) summary.masks[record->mask->name] = record->mask->bytes;
    Add(record->levels, &summary.levels);
    summary.rougher.resize(record->rougher.size());
    for (std::size_t k = 0; k < record->rougher.size(); ++k) {
      summary.rougher[k].tolerance = std::max(summary.rougher[k].tolerance, record->rougher[k].tolerance);
      Add(record->rougher[k].levels, &summary.rougher[k].levels);
    }
    ++summary.steps;
  }
  return summary;
}

nlohmann::ordered_json ToJson(const std::vector<LevelRecord>& levels) {
  nlohmann::ordered_json json = nlohmann::json::array();
  for (std::size_t l = 0; l < levels.size(); ++l) {
    json.push_back({{"level", l},
                    {"max_error", levels[l].max_error},
                    {"rmse", levels[l].rmse},
                    {"coverage", levels[l].coverage},
                    {"bytes", levels[l].bytes}});
  }
  return json;
}

/// "bool as uint8" for samples that are stored as another type.
std::string TypeText(const FieldDescription& field) {
  if (field.given == GivenType::kStored) return std::string(Name(field.type));
  return fmt::format("{} as {}", Name(field.given), Name(field.type));
}

/// Integers with all their digits.
nlohmann::ordered_json FillToJson(const FieldDescription& field) {
  if (field.fill->is_double()) return field.fill->nearest();
  if (const auto integer = field.fill->As<std::int64_t>()) return *integer;
  return field.fill->As<std::uint64_t>().value_or(0);
}

nlohmann::ordered_json ToJson(const Attributes& attributes) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const Attribute& attribute : attributes)
    json[attribute.name] = nlohmann::ordered_json::parse(ValueJson(attribute));
  return json;
}

nlohmann::ordered_json ToJson(const FieldOverSteps& s) {
  nlohmann::ordered_json json;
  json["name"] = s.field->name;
  json["grid"] = s.field->grid;
  json["dtype"] = s.field->given_type();
  if (s.field->given != GivenType::kStored) json["stored_dtype"] = Name(s.field->type);
  json["units"] = s.field->units;
  json["attributes"] = ToJson(s.field->attributes);
  json["still"] = s.field->still;
  json["coordinate"] = s.field->coordinate;
  if (s.field->complex)
    json["complex"] = {{"of", s.field->complex->of},
                       {"part", s.field->complex->imaginary ? "imaginary" : "real"}};
  json["codec"] = Name(s.field->coder);
  json["lossless"] = s.field->lossless();
  json["tolerance"] = s.tolerance;
  if (const auto relative = ToleranceAs<RelativeBound>(s.field->bound))
    json["relative_tolerance"] = *relative;
  if (const auto pointwise = ToleranceAs<PointwiseBound>(s.field->bound))
    json["pointwise_relative_tolerance"] = *pointwise;
  if (s.field->keyframe > 0) json["keyframe"] = s.field->keyframe;
  // JSON has no NaN and no infinity: null stands for them.
  if (s.field->fill) json["fill"] = FillToJson(*s.field);
  json["valid_fraction"] = s.valid_fraction();
  json["masks"] = s.masks.size();
  json["mask_bytes"] = s.mask_bytes();
  json["max_error"] = s.max_error;
  json["psnr"] = s.psnr;  // null when nothing was lost: JSON has no infinity
  json["min"] = s.min;
  json["max"] = s.max;
  json["steps"] = s.steps;
  json["raw_bytes"] = s.raw_bytes;
  json["bytes"] = s.bytes;
  json["ratio"] = s.ratio();
  json["levels"] = ToJson(s.levels);
  for (const LayerRecord& layer : s.rougher)
    json["rougher_layers"].push_back({{"tolerance", layer.tolerance}, {"levels", ToJson(layer.levels)}});
  return json;
}

nlohmann::ordered_json ToJson(const GridDescription& grid) {
  nlohmann::ordered_json json;
  json["dims"] = grid.dims;
  json["patch"] = grid.patch;
  json["levels"] = grid.levels;
  json["spacing"] = grid.spacing;
  json["origin"] = grid.origin;
  json["has_axis"] = grid.has_axis;
  json["axis_names"] = grid.axis_names;
  json["axis_units"] = grid.axis_units;
  json["axis_attributes"] = nlohmann::ordered_json::array();
  for (const Attributes& attributes : grid.axis_attributes)
    json["axis_attributes"].push_back(ToJson(attributes));
  json["unplaced"] = grid.unplaced;
  // Null for an evenly spaced axis.
  json["coordinates"] = nlohmann::ordered_json::array();
  for (const std::vector<double>& axis : grid.coordinates)
    json["coordinates"].push_back(axis.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(axis));
  return json;
}

/// Coordinates of text; the dimension is null of one that is one text.
nlohmann::ordered_json ToJson(const DatasetDescription& dataset, const DimensionNames& names) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const TextCoordinate& text : dataset.texts) {
    const auto dimension =
        text.axis ? nlohmann::ordered_json(names.axes[text.grid][*text.axis]) : nlohmann::ordered_json();
    json.push_back({{"name", text.name},
                    {"dimension", dimension},
                    {"texts", text.texts},
                    {"attributes", ToJson(text.attributes)}});
  }
  return json;
}

nlohmann::ordered_json ToJson(const DatasetDescription& dataset, const std::vector<StepSummary>& steps,
                              const std::vector<FieldOverSteps>& fields) {
  // The keys of the first grid stand at the top as well: most datasets have no other.
  nlohmann::ordered_json json = ToJson(dataset.grids.front());
  json["grids"] = nlohmann::ordered_json::array();
  for (const GridDescription& grid : dataset.grids) json["grids"].push_back(ToJson(grid));
  json["order"] = format::NameOf(dataset.order);
  json["steps"] = nlohmann::ordered_json::array();
  for (const StepSummary& step : steps) json["steps"].push_back(step.step);
  json["times"] = nlohmann::ordered_json::array();
  for (const StepSummary& step : steps)
    json["times"].push_back(step.time ? nlohmann::ordered_json(*step.time) : nlohmann::ordered_json());
  // Null where the times have no unit.
  const auto text = [](const std::string& known) {
    return known.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(known);
  };
  json["time_units"] = text(dataset.time_unit.units);
  json["calendar"] = text(dataset.time_unit.calendar);
  json["time_name"] = text(dataset.time_name);
  json["time_attributes"] = ToJson(dataset.time_attributes);
  json["attributes"] = ToJson(dataset.attributes);
  json["texts"] = ToJson(dataset, NamesOfDimensions(dataset));
  json["fields"] = nlohmann::ordered_json::array();
  for (const FieldOverSteps& field : fields) json["fields"].push_back(ToJson(field));
  return json;
}

/// "depth in m: 0 to 5000, unevenly spaced"; empty if only x, y, z and sample counts are known.
std::string DescribeAxis(const GridDescription& grid, std::size_t a) {
  const std::string letter(1, kAxisNames[a]);
  const bool named = grid.axis_names[a] != letter && !grid.axis_names[a].empty();
  const std::vector<double>& coordinates = grid.coordinates[a];
  if (!named && grid.axis_units[a].empty() && coordinates.empty()) return "";
  const double first = grid.origin[a];
  const double last = first + grid.spacing[a] * static_cast<double>(grid.dims[a] - 1);
  return fmt::format("{}{}{}: {:g} to {:g}, {}", letter, named ? " " + grid.axis_names[a] : "",
                     grid.axis_units[a].empty() ? "" : " in " + grid.axis_units[a],
                     coordinates.empty() ? first : coordinates.front(),
                     coordinates.empty() ? last : coordinates.back(),
                     coordinates.empty() ? fmt::format("spacing {:g}", grid.spacing[a]) : "unevenly spaced");
}

/// A line for each attribute; long ones are cut.
void PrintAttributes(const char* indent, const Attributes& attributes) {
  constexpr std::size_t kLongest = 100;
  for (const Attribute& attribute : attributes) {
    const std::string text = ValueText(attribute);
    const std::string_view shown = Beginning(text, kLongest);
    Print("{}{}: {}{}\n", indent, Printable(attribute.name), shown, shown.size() < text.size() ? "..." : "");
  }
}

/// "0 to 3 days since 2001-01-01 (noleap), 2001-01-01 00:00:00 to 2001-01-04 00:00:00"; empty without times.
std::string DescribeTimes(const TimeUnit& unit, const std::vector<StepSummary>& steps) {
  std::vector<double> times;
  for (const StepSummary& step : steps) {
    if (step.time) times.push_back(*step.time);
  }
  if (times.empty()) return "";
  const auto range = [&](const std::string& first, const std::string& last) {
    return times.size() == 1 ? first : fmt::format("{} to {}", first, last);
  };
  std::string text = range(fmt::format("{}", times.front()), fmt::format("{}", times.back()));
  text += unit.units.empty() ? ", in no unit" : " " + ToString(unit);
  const auto first = DateOfTime(times.front(), unit);
  const auto last = DateOfTime(times.back(), unit);
  if (first && last) text += ", " + range(*first, *last);
  return text;
}

void PrintLevels(const GridDescription& grid, const std::vector<LevelRecord>& levels) {
  Print("           {:>5} {:>18} {:>12} {:>12} {:>9} {:>12}\n", "level", "samples", "max error", "rmse",
        "coverage", "bytes");
  for (std::size_t l = 0; l < levels.size(); ++l) {
    Print("           {:>5} {:>18} {:>12.5g} {:>12.5g} {:>8.4g}% {:>12}\n", l,
          ToString(LevelShape(grid.dims, static_cast<int>(l))), levels[l].max_error, levels[l].rmse,
          100 * levels[l].coverage, FormatBytes(levels[l].bytes));
  }
}

/// ", the real parts of complex psi"; empty for other fields.
std::string DescribePart(const FieldDescription& field) {
  if (!field.complex) return "";
  return fmt::format(", the {} parts of complex {}", field.complex->imaginary ? "imaginary" : "real",
                     field.complex->of);
}

/// A line for each coordinate of text.
void PrintTexts(const DatasetDescription& dataset) {
  constexpr std::size_t kLongest = 60;
  const DimensionNames names = NamesOfDimensions(dataset);
  for (const TextCoordinate& text : dataset.texts) {
    std::string values;
    for (std::size_t i = 0; i < text.texts.size() && values.size() <= kLongest; ++i)
      values += (i == 0 ? "" : ", ") + Printable(text.texts[i]);
    const std::string_view shown = Beginning(values, kLongest);
    Print("  text     {}{}: {}{}\n", Printable(text.name),
          text.axis ? fmt::format(" along {}", names.axes[text.grid][*text.axis]) : "", shown,
          shown.size() < values.size() ? "..." : "");
    PrintAttributes("           ", text.attributes);
  }
}

void PrintText(const std::string& target, const DatasetDescription& dataset,
               const std::vector<StepSummary>& steps, const std::vector<FieldOverSteps>& fields) {
  const auto triple = [](const std::array<double, 3>& v) {
    return fmt::format("{:g}, {:g}, {:g}", v[0], v[1], v[2]);
  };
  Print("{}\n", target);
  PrintAttributes("           ", dataset.attributes);
  const char* order = format::NameOf(dataset.order);
  for (std::size_t g = 0; g < dataset.grids.size(); ++g) {
    const GridDescription& grid = dataset.grids[g];
    Print("  {:<8} {} samples (x, y, z), spacing {}, origin {}\n",
          dataset.grids.size() == 1 ? std::string("grid") : fmt::format("grid {}", g), ToString(grid.dims),
          triple(grid.spacing), triple(grid.origin));
    for (std::size_t a = 0; a < 3; ++a) {
      if (const std::string axis = DescribeAxis(grid, a); !axis.empty()) Print("  axis     {}\n", axis);
      PrintAttributes("           ", grid.axis_attributes[a]);
    }
    Print("  patches  {}, {} levels, {} order\n", ToString(grid.patch), grid.levels, order);
  }
  if (steps.empty()) {
    Print("  steps    none yet\n");
  } else {
    Print("  steps    {} ({} to {})\n", steps.size(), steps.front().step, steps.back().step);
  }
  if (const std::string times = DescribeTimes(dataset.time_unit, steps); !times.empty())
    Print("  times    {}\n", times);
  PrintAttributes("           ", dataset.time_attributes);
  PrintTexts(dataset);
  for (const FieldOverSteps& s : fields) {
    Print("  field    {} ({}, {}){}{}\n", s.field->name, TypeText(*s.field), Name(s.field->coder),
          s.field->units.empty() ? "" : " in " + s.field->units,
          (dataset.grids.size() == 1 ? "" : fmt::format(" on grid {}", s.field->grid)) +
              (s.field->still ? ", the same in all steps" : "") +
              (s.field->coordinate ? ", a coordinate of others" : "") + DescribePart(*s.field));
    PrintAttributes("           ", s.field->attributes);
    Print("           range {:.5g} to {:.5g}, {} -> {} ({:.2f}x)\n", s.min, s.max, FormatBytes(s.raw_bytes),
          FormatBytes(s.bytes + s.mask_bytes()), s.ratio());
    if (s.field->fill || !s.masks.empty()) {
      Print("           {:.4g}% valid, {} mask{} of {}{}\n", 100 * s.valid_fraction(), s.masks.size(),
            s.masks.size() == 1 ? "" : "s", FormatBytes(s.mask_bytes()),
            s.field->fill ? fmt::format(", fill {}", *s.field->fill) : "");
    }
    if (s.field->lossless()) {
      Print("           lossless\n");
    } else {
      const std::optional<double> relative = ToleranceAs<PointwiseBound>(s.field->bound);
      Print("           max error {:.5g}, promised {:.5g}{}, PSNR {:.2f} dB\n", s.max_error, s.tolerance,
            relative ? fmt::format(" ({:.5g} of each sample)", *relative) : "", s.psnr);
    }
    if (s.field->keyframe > 0)
      Print("           a keyframe at least every {} steps; the others may refer to the one before\n",
            s.field->keyframe);
    PrintLevels(dataset.GridOf(*s.field), s.levels);
    for (std::size_t k = s.rougher.size(); k-- > 0;) {
      Print("           layer {} of {}, promised {:.5g}\n", k, s.rougher.size() + 1, s.rougher[k].tolerance);
      PrintLevels(dataset.GridOf(*s.field), s.rougher[k].levels);
    }
  }
}

/// A dataset and its steps.
struct Described {
  DatasetDescription dataset;
  std::vector<StepSummary> steps;
  std::shared_ptr<const quarry::Dataset> local;  ///< a directory, with its catalogue; null: a server has it
};

Result<Described> DescribeServed(const std::string& target, const client::Options& access) {
  Described described;
  QUARRY_ASSIGN_OR_RETURN(const auto dataset, client::Dataset::Open(target, access));
  described.dataset = dataset->description();
  QUARRY_ASSIGN_OR_RETURN(described.steps, dataset->Steps());
  return described;
}

/// A directory, or a dataset on a web server or in a store, is opened once.
Result<Described> DescribeDirectory(const std::string& target, const client::Options& access) {
  Described described;
  QUARRY_ASSIGN_OR_RETURN(const Location location,
                          remote::LocationOf(target, {access.allow_http, {access.cache, access.cache_size}}));
  QUARRY_ASSIGN_OR_RETURN(described.local, quarry::Dataset::Open(location));
  described.dataset = described.local->description();
  Catalogue::Hold hold;
  described.steps.reserve(described.local->steps().size());
  for (const std::uint64_t step : described.local->steps()) {
    QUARRY_ASSIGN_OR_RETURN(described.steps.emplace_back(), described.local->Summary(step, &hold));
  }
  return described;
}

/// Packs of the steps, and the steps in them.
struct PackCount {
  std::size_t packs = 0;
  std::uint64_t steps = 0;
};

PackCount CountPacks(const quarry::Dataset& dataset) {
  PackCount count;
  for (const PackRef& pack : PacksOf(dataset.root())) {
    ++count.packs;
    count.steps += pack.steps();
  }
  return count;
}

void PrintPacks(const PackCount& count) {
  if (count.packs == 0) return;
  Print("  packs    {} with the files of {} steps\n", count.packs, count.steps);
}

void PrintCoarse(const DatasetDescription& dataset) {
  if (dataset.has_coarse_objects)
    Print("  coarse   steps may have a coarse object, with which a store shows them sooner\n");
}

void PrintCatalogue(const Catalogue& catalogue, std::uint64_t steps) {
  const std::string advice = "; \"quarry upgrade\" makes it anew";
  if (!catalogue.is_there()) {
    Print("  records  there is no catalogue of the steps{}\n", advice);
  } else if (!catalogue.is_current()) {
    Print("  records  {} in the catalogue, which are compared with step.json before use{}\n",
          catalogue.head().steps, advice);
  } else {
    Print("  records  {} in the catalogue{}\n", catalogue.head().steps,
          catalogue.head().steps == steps ? "" : advice);
  }
}

nlohmann::ordered_json ToJson(const Catalogue& catalogue) {
  return {{"records", catalogue.head().steps},
          {"pages", catalogue.head().pages.size()},
          {"current", catalogue.is_current()}};
}

Result<int> Info(const InfoOptions& options) {
  QUARRY_ASSIGN_OR_RETURN(const client::Options access, options.server.Resolve());
  const bool served = options.target.starts_with("grpc://") || options.target.starts_with("grpcs://");
  QUARRY_ASSIGN_OR_RETURN(const Described described, served ? DescribeServed(options.target, access)
                                                            : DescribeDirectory(options.target, access));
  const auto& [dataset, steps, local] = described;
  std::vector<FieldOverSteps> fields;
  for (const FieldDescription& field : dataset.fields)
    fields.push_back(Summarise(field, steps, dataset.GridOf(field).samples()));
  if (options.json) {
    nlohmann::ordered_json json = ToJson(dataset, steps, fields);
    json["catalogue"] = local ? ToJson(local->catalogue()) : nlohmann::ordered_json();
    const PackCount packed = local ? CountPacks(*local) : PackCount();
    if (packed.packs > 0) json["packs"] = {{"packs", packed.packs}, {"steps", packed.steps}};
    if (dataset.has_coarse_objects) json["coarse_objects"] = true;
    PrintOut("{}\n", json.dump(2));
  } else {
    // A URL may hold a signature; the location has none.
    PrintText(described.local ? described.local->root().path : options.target, dataset, steps, fields);
    if (local) {
      PrintCatalogue(local->catalogue(), steps.size());
      PrintPacks(CountPacks(*local));
      PrintCoarse(dataset);
    }
  }
  return 0;
}

}  // namespace

Command DeclareInfo(command_line::Parser* app) {
  auto options = std::make_shared<InfoOptions>();
  app->AddOption("TARGET", &options->target,
                 "dataset directory, or its URL: https://, s3://, or grpc://HOST:PORT/NAME of a server")
      .Path()
      .Required();
  app->AddFlag("--json", &options->json, "print one JSON object");
  options->server.DeclareOn(app);
  app->SetFooter("Example:\n  quarry info run42.quarry");
  return [options] { return Info(*options); };
}

}  // namespace quarry::tools
