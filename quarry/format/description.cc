#include "quarry/description.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "quarry/base/missing.h"
#include "quarry/base/status.h"
#include "quarry/base/utf8.h"
#include "quarry/format/attribute_rules.h"
#include "quarry/format/description_rules.h"
#include "quarry/geometry/patch_grid.h"

namespace quarry {

std::optional<std::size_t> DatasetDescription::FindField(const std::string& name) const {
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].name == name) return i;
  }
  return std::nullopt;
}

const FieldStepDescription* StepDescription::FindField(const std::string& name) const {
  for (const FieldStepDescription& field : fields) {
    if (field.name == name) return &field;
  }
  return nullptr;
}

const FieldSummary* StepSummary::FindField(const std::string& name) const {
  const auto found = std::ranges::find(fields, name, &FieldSummary::name);
  return found != fields.end() ? &*found : nullptr;
}

FieldSummary SummaryOf(const FieldStepDescription& field) {
  FieldSummary summary;
  static_cast<FieldRecord&>(summary) = field;
  if (field.mask) summary.mask = {field.mask->name, field.mask->bytes()};
  return summary;
}

StepSummary SummaryOf(const StepDescription& step) {
  StepSummary summary;
  summary.step = step.step;
  summary.time = step.time;
  summary.fields.reserve(step.fields.size());
  for (const FieldStepDescription& field : step.fields) summary.fields.push_back(SummaryOf(field));
  return summary;
}

int ShownLayer(const FieldDescription& field, std::optional<int> layer) {
  const int last = field.layers() - 1;
  return std::min(layer.value_or(last), last);
}

Status CheckLayer(std::span<const FieldDescription* const> fields, std::optional<int> layer) {
  int most = 1;
  std::string names;
  for (const FieldDescription* field : fields) {
    most = std::max(most, field->layers());
    names += (names.empty() ? "" : ", ") + field->name;
  }
  if (!layer || (*layer >= 0 && *layer < most)) return Status::Ok();
  return InvalidArgument("there is no layer {}; {} {} layers of accuracy 0, the roughest, to {}", *layer,
                         fields.empty() ? "a dataset without fields" : names,
                         fields.size() > 1 ? "have" : "has", most - 1);
}

bool IsSameAxis(const GridDescription& a, std::size_t of_a, const GridDescription& b, std::size_t of_b) {
  return a.dims[of_a] == b.dims[of_b] && a.origin[of_a] == b.origin[of_b] &&
         (a.spacing[of_a] == b.spacing[of_b] || a.dims[of_a] == 1) &&
         a.axis_units[of_a] == b.axis_units[of_b] && a.coordinates[of_a] == b.coordinates[of_b];
}

Result<PatchGrid> PatchesOf(const GridDescription& grid) { return PatchGrid::Create(grid.dims, grid.patch); }

bool AreCoordinates(std::span<const double> positions) {
  if (!std::all_of(positions.begin(), positions.end(), [](double p) { return std::isfinite(p); }))
    return false;
  const auto follows = [&](auto before) {
    return std::adjacent_find(positions.begin(), positions.end(),
                              [&](double a, double b) { return !before(a, b); }) == positions.end();
  };
  return follows(std::less<>()) || follows(std::greater<>());
}

bool IsSpacing(double spacing) { return std::isfinite(spacing) && spacing != 0; }

double PositionOf(const GridDescription& grid, std::size_t axis, std::int64_t sample) {
  if (!grid.coordinates[axis].empty()) return grid.coordinates[axis][static_cast<std::size_t>(sample)];
  // Rounded twice, also on machines that could add and multiply at once.
  const volatile double from_origin = grid.spacing[axis] * static_cast<double>(sample);
  return grid.origin[axis] + from_origin;
}

Status CheckPlaces(const GridDescription& grid) {
  for (std::size_t a = 0; a < 3; ++a) {
    const double last = grid.origin[a] + grid.spacing[a] * static_cast<double>(grid.dims[a] - 1);
    if (!std::isfinite(grid.origin[a]) || !IsSpacing(grid.spacing[a]) || !std::isfinite(last)) {
      return InvalidArgument(
          "origin {} and spacing {} along {} place no samples; all positions must be finite, and the spacing "
          "not 0",
          grid.origin[a], grid.spacing[a], kAxisNames[a]);
    }
    const std::vector<double>& coordinates = grid.coordinates[a];
    if (coordinates.empty()) continue;
    if (static_cast<std::int64_t>(coordinates.size()) != grid.dims[a]) {
      return InvalidArgument("there are {} positions for the {} samples along {}; give one for each",
                             coordinates.size(), grid.dims[a], kAxisNames[a]);
    }
    if (!AreCoordinates(coordinates))
      return InvalidArgument("the positions along {} must be finite, and strictly ascend or descend",
                             kAxisNames[a]);
  }
  return Status::Ok();
}

Status CheckTime(const std::optional<double>& time) {
  if (!time || std::isfinite(*time)) return Status::Ok();
  return InvalidArgument("the time {} is not a finite number; a step without a time has none", *time);
}

Status CheckTimeUnit(const TimeUnit& unit) {
  for (const std::string& text : {unit.units, unit.calendar}) {
    if (text.size() > kMaxTimeUnit)
      return InvalidArgument("the unit of times has {} bytes; the maximum is {}", text.size(), kMaxTimeUnit);
    if (!IsUtf8(text)) return InvalidArgument("the unit of times is not UTF-8 text; encode it as UTF-8");
  }
  return Status::Ok();
}

Status CheckTimeName(const std::string& name) {
  if (name.size() <= kMaxAttributeName && IsUtf8(name)) return Status::Ok();
  return InvalidArgument("the name of time has {} bytes; it must be UTF-8 of at most {}", name.size(),
                         kMaxAttributeName);
}

std::string ComplexFieldName(const ComplexPart& part) {
  return part.of + (part.imaginary ? ".imag" : ".real");
}

std::size_t SizeOfAttributes(const DatasetDescription& dataset) {
  std::size_t bytes = SizeOf(dataset.attributes) + SizeOf(dataset.time_attributes);
  for (const TextCoordinate& text : dataset.texts) bytes += SizeOf(text.attributes);
  for (const FieldDescription& field : dataset.fields) bytes += SizeOf(field.attributes);
  for (const GridDescription& grid : dataset.grids) {
    for (const Attributes& attributes : grid.axis_attributes) bytes += SizeOf(attributes);
  }
  return bytes;
}

Attributes TimeAttributesOf(const DatasetDescription& dataset) {
  const TimeUnit& unit = dataset.time_unit;
  Attributes attributes = dataset.time_attributes;
  if (attributes.empty() && dataset.time_name.empty()) {
    for (auto& [name, text] : TimeAttributes(unit)) attributes.push_back({name, text});
    return attributes;
  }
  if (!unit.units.empty()) attributes.push_back({"units", unit.units});
  if (!unit.calendar.empty()) attributes.push_back({"calendar", unit.calendar});
  return attributes;
}

std::string_view Name(GivenType given) {
  switch (given) {
    case GivenType::kStored:
      return "";
    case GivenType::kBool:
      return "bool";
    case GivenType::kFloat16:
      break;
  }
  return "float16";
}

DataType StoredTypeOf(GivenType given) {
  return given == GivenType::kBool ? DataType::kUint8 : DataType::kFloat32;
}

Result<NamedType> ParseNamedType(std::string_view name) {
  for (const GivenType given : {GivenType::kBool, GivenType::kFloat16}) {
    if (name == Name(given)) return NamedType{StoredTypeOf(given), given};
  }
  const Result<DataType> type = ParseDataType(name);
  if (type.ok()) return NamedType{*type};
  return InvalidArgument("{}, {}, {}", type.status().message(), Name(GivenType::kBool),
                         Name(GivenType::kFloat16));
}

std::optional<std::uint64_t> FieldDescription::fill_bits() const {
  return fill ? std::optional(BitsOf(type, *fill)) : std::nullopt;
}

std::uint64_t FieldDescription::no_sample_bits() const {
  if (const auto bits = fill_bits()) return *bits;
  return IsFloat(type) ? BitsOf(type, std::numeric_limits<double>::quiet_NaN()) : 0;
}

std::uint64_t MaskDescription::bytes() const {
  std::uint64_t bytes = 0;
  for (const SubfileDescription& subfile : subfiles) bytes += subfile.bytes;
  return bytes;
}

double Psnr(double min, double max, double rmse) {
  if (rmse == 0) return std::numeric_limits<double>::infinity();
  return 20 * std::log10((max - min) / rmse);
}

}  // namespace quarry
