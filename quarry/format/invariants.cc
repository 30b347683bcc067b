#include "quarry/format/invariants.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string_view>

#include "quarry/base/checked_math.h"
#include "quarry/base/missing.h"
#include "quarry/base/status.h"
#include "quarry/base/utf8.h"
#include "quarry/codec/coder.h"
#include "quarry/format/attribute_rules.h"
#include "quarry/format/description_rules.h"
#include "quarry/format/dimension_names.h"
#include "quarry/format/manifest.h"
#include "quarry/geometry/patch_grid.h"

namespace quarry::format {
namespace {

bool IsTolerance(double value) { return value > 0 && std::isfinite(value); }

/// A given type needs samples without loss: a bound of the stored type does not hold after the conversion
/// back.
Status CheckGiven(const FieldDescription& field) {
  if (field.given == GivenType::kStored) return Status::Ok();
  if (field.given != GivenType::kBool && field.given != GivenType::kFloat16)
    return InvalidArgument("field \"{}\" has samples of the unknown given type {}; use a newer Quarry",
                           field.name, static_cast<int>(field.given));
  if (field.given == GivenType::kBool && field.fill)
    return InvalidArgument("field \"{}\" is bool and has the fill value {}; bool has none", field.name,
                           *field.fill);
  if (field.type == StoredTypeOf(field.given) && field.lossless() && field.rougher.empty())
    return Status::Ok();
  return InvalidArgument("field \"{}\" gives {} back, which needs {} without loss, not {} {}", field.name,
                         Name(field.given), Name(StoredTypeOf(field.given)), Name(field.type),
                         field.lossless() ? "in layers" : "with a tolerance");
}

Status CheckBound(const FieldDescription& field) {
  if (!field.lossless() && !IsTolerance(ToleranceOf(field.bound)))
    return InvalidArgument("field \"{}\" has the tolerance {}, which is not a positive number", field.name,
                           ToleranceOf(field.bound));
  for (std::size_t k = 0; k < field.rougher.size(); ++k) {
    if (!IsTolerance(field.rougher[k]) || (k > 0 && !(field.rougher[k] < field.rougher[k - 1])))
      return InvalidArgument(
          "layer {} of field \"{}\" has the tolerance {}; layers have positive ones that descend", k,
          field.name, field.rougher[k]);
  }
  return Status::Ok();
}

template <typename Fields>
Status CheckNames(const Fields& fields) {
  if (fields.size() > kMaxFields)
    return InvalidArgument("there are {} fields; the maximum is {}", fields.size(), kMaxFields);
  std::set<std::string_view> names;
  for (const auto& field : fields) {
    if (!names.insert(field.name).second) return InvalidArgument("field \"{}\" appears twice", field.name);
  }
  return Status::Ok();
}

/// Every patch of the grid is in one of them, and their bytes have a sum.
/// @param owner  of the subfiles, for the message
Status CheckSubfiles(const std::vector<SubfileDescription>& subfiles, const PatchGrid& grid,
                     const std::string& owner) {
  std::uint64_t patches = 0;
  std::uint64_t bytes = 0;
  bool fits = true;
  for (const SubfileDescription& subfile : subfiles) {
    fits = fits && CheckedAdd(patches, subfile.patches, &patches) && CheckedAdd(bytes, subfile.bytes, &bytes);
    if (subfile.patches == 0 || (!subfile.bounds.empty() && grid.domain().Contains(subfile.bounds))) continue;
    return InvalidArgument("subfile \"{}\" of {} has the bounds {}, which are outside the grid", subfile.name,
                           owner, ToString(subfile.bounds));
  }
  if (fits && patches == static_cast<std::uint64_t>(grid.patch_count())) return Status::Ok();
  return InvalidArgument("the {} subfiles of {} have {} patches and {} bytes{}; the grid has {} patches",
                         subfiles.size(), owner, patches, bytes, fits ? "" : " and more", grid.patch_count());
}

Status CheckLevels(const std::vector<LevelRecord>& levels, const std::string& field, int expected) {
  if (levels.size() == static_cast<std::size_t>(expected)) return Status::Ok();
  return InvalidArgument("field \"{}\" has records of {} levels instead of {}", field, levels.size(),
                         expected);
}

/// A field of a step has the layers that were declared and the levels of its grid; without a mask every
/// sample is valid, with one at least one is missing.
template <typename Field>
Status CheckRecord(const Field& field, const FieldDescription& declared, const GridDescription& grid) {
  if (field.rougher.size() != declared.rougher.size())
    return InvalidArgument("field \"{}\" has records of {} layers instead of {}", field.name,
                           field.rougher.size() + 1, declared.layers());
  QUARRY_RETURN_IF_ERROR(CheckLevels(field.levels, field.name, grid.levels));
  for (const LayerRecord& layer : field.rougher)
    QUARRY_RETURN_IF_ERROR(CheckLevels(layer.levels, field.name, grid.levels));
  if (field.valid <= grid.samples() && (field.valid == grid.samples()) != field.mask.has_value())
    return Status::Ok();
  return InvalidArgument("field \"{}\" has {} valid samples of {} and {} mask", field.name, field.valid,
                         grid.samples(), field.mask ? "a" : "no");
}

Status CheckFiles(const FieldSummary& /*field*/, const GridDescription& /*grid*/) { return Status::Ok(); }

/// The files have all patches of the field.
Status CheckFiles(const FieldStepDescription& field, const GridDescription& grid) {
  QUARRY_ASSIGN_OR_RETURN(const PatchGrid patches, PatchesOf(grid));
  QUARRY_RETURN_IF_ERROR(CheckSubfiles(field.subfiles, patches, fmt::format("field \"{}\"", field.name)));
  if (!field.mask) return Status::Ok();
  return CheckSubfiles(field.mask->subfiles, patches, fmt::format("the mask of field \"{}\"", field.name));
}

/// A grid by itself: its samples have places, its patches and levels fit, and an axis that it lacks has one
/// sample.
Status CheckGrid(const GridDescription& grid) {
  QUARRY_RETURN_IF_ERROR(CheckPlaces(grid));
  QUARRY_RETURN_IF_ERROR(PatchesOf(grid).status());
  if (grid.levels < 1 || grid.levels > MaxLevels(grid.dims, grid.patch))
    return InvalidArgument("{} levels with patches of {}; there can be 1 to {}", grid.levels,
                           ToString(grid.patch), MaxLevels(grid.dims, grid.patch));
  for (std::size_t a = 0; a < 3; ++a) {
    if (SizeOf(grid.position_types[a]) == 0)
      return InvalidArgument("the positions along {} have the unknown type {}", kAxisNames[a],
                             static_cast<int>(grid.position_types[a]));
    QUARRY_RETURN_IF_ERROR(
        CheckAttributes(grid.axis_attributes[a]).Annotate(fmt::format("axis {}", kAxisNames[a])));
    if (grid.has_axis[a] || (grid.dims[a] == 1 && grid.coordinates[a].empty())) continue;
    return InvalidArgument("it has no axis {}, but {} samples along it", kAxisNames[a], grid.dims[a]);
  }
  return Status::Ok();
}

/// Fields have the numbers by which subfiles and index know them, and no two have one.
Status CheckNumbers(const DatasetDescription& dataset) {
  constexpr std::uint32_t kMost = std::numeric_limits<std::uint32_t>::max() - kMaxFields;
  if (!dataset.fields.empty() && dataset.NumberOf(dataset.fields.size() - 1) > kMost)
    return InvalidArgument("field \"{}\" has the number {}; the maximum is {}", dataset.fields.back().name,
                           dataset.NumberOf(dataset.fields.size() - 1), kMost);
  for (std::size_t f = 1; f < dataset.fields.size(); ++f) {
    if (dataset.NumberOf(f - 1) < dataset.NumberOf(f)) continue;
    return InvalidArgument("field \"{}\" has the number {} behind {}; numbers of fields ascend",
                           dataset.fields[f].name, dataset.NumberOf(f), dataset.NumberOf(f - 1));
  }
  return Status::Ok();
}

/// Complex samples have both parts, alike in all but their values.
Status CheckComplex(const DatasetDescription& dataset) {
  std::map<std::string_view, std::array<const FieldDescription*, 2>> parts;  // by name: real, imaginary
  std::set<std::string_view> names;
  for (const FieldDescription& field : dataset.fields) {
    names.insert(field.name);
    if (!field.complex) continue;
    QUARRY_RETURN_IF_ERROR(CheckFieldName(field.complex->of));
    const FieldDescription*& part = parts[field.complex->of][field.complex->imaginary ? 1 : 0];
    if (part != nullptr)
      return InvalidArgument("fields \"{}\" and \"{}\" are the same part of the complex \"{}\"", part->name,
                             field.name, field.complex->of);
    part = &field;
  }
  for (const auto& [name, both] : parts) {
    const auto& [real, imaginary] = both;
    if (real == nullptr || imaginary == nullptr || names.contains(name))
      return InvalidArgument("complex \"{}\" {}", name,
                             names.contains(name) ? "has the name of a field" : "has one of two parts");
    if (real->type == imaginary->type && IsFloat(real->type) && real->grid == imaginary->grid &&
        real->still == imaginary->still && real->coordinate == imaginary->coordinate &&
        real->given == GivenType::kStored && imaginary->given == GivenType::kStored)
      continue;
    return InvalidArgument(
        "fields \"{}\" and \"{}\" are no two parts of one complex \"{}\": type, grid or role differ",
        real->name, imaginary->name, name);
  }
  return Status::Ok();
}

Status CheckText(const TextCoordinate& text, const DatasetDescription& dataset) {
  const std::string subject = fmt::format("text \"{}\"", Printable(text.name));
  if (text.name.empty() || text.name.size() > kMaxAttributeName || !IsUtf8(text.name))
    return InvalidArgument("{} has a name of {} bytes; it must be UTF-8 of 1 to {}", subject,
                           text.name.size(), kMaxAttributeName);
  if (text.grid >= dataset.grids.size() || text.axis.value_or(0) > 2)
    return InvalidArgument("{} is on axis {} of grid {}; there are {} grids", subject, text.axis.value_or(0),
                           text.grid, dataset.grids.size());
  const GridDescription& grid = dataset.grids[text.grid];
  if (text.axis && !grid.has_axis[*text.axis])
    return InvalidArgument("{} is along {} of grid {}, which has no such axis", subject,
                           kAxisNames[*text.axis], text.grid);
  const bool is_of_axis = text.axis && grid.axis_names[*text.axis] == text.name;
  if (!is_of_axis && !IsDimensionName(text.name))
    return InvalidArgument(
        "{} has a name that NetCDF, HDF5 and Zarr cannot have; begin it with a letter, a digit or an "
        "underscore, without \"/\"",
        subject);
  const std::size_t expected = text.axis ? static_cast<std::size_t>(grid.dims[*text.axis]) : 1;
  if (text.texts.size() != expected)
    return InvalidArgument("{} has {} texts for {} samples", subject, text.texts.size(), expected);
  if (!std::ranges::all_of(text.texts, [](const std::string& one) { return IsUtf8(one); }))
    return InvalidArgument("{} has texts that are not UTF-8", subject);
  return CheckAttributes(text.attributes).Annotate(subject);
}

/// All attributes of a dataset together: every reader holds them.
Status CheckAllAttributes(const DatasetDescription& dataset) {
  QUARRY_RETURN_IF_ERROR(CheckAttributes(dataset.attributes));
  QUARRY_RETURN_IF_ERROR(CheckAttributes(dataset.time_attributes).Annotate("time"));
  const std::size_t bytes = SizeOfAttributes(dataset);
  if (bytes <= kMaxAllAttributeBytes) return Status::Ok();
  return InvalidArgument("all attributes have {} bytes; the maximum is {}", bytes, kMaxAllAttributeBytes);
}

}  // namespace

Status CheckGrids(const std::vector<GridDescription>& grids) {
  if (grids.empty() || grids.size() > kMaxGrids)
    return InvalidArgument("there are {} grids; there can be 1 to {}", grids.size(), kMaxGrids);
  std::map<std::string_view, std::pair<std::size_t, std::size_t>> axes;  // by name: grid and axis
  for (std::size_t g = 0; g < grids.size(); ++g) {
    if (Status status = CheckGrid(grids[g]); !status.ok())
      return std::move(status).Annotate(grids.size() == 1 ? std::string("grid") : fmt::format("grid {}", g));
    for (std::size_t a = 0; a < 3; ++a) {
      if (!grids[g].has_axis[a]) continue;
      const std::string& name = grids[g].axis_names[a];
      // An axis without a name belongs to its grid alone.
      if (name.empty() || name == std::string(1, kAxisNames[a])) continue;
      const auto [known, added] = axes.try_emplace(name, g, a);
      const auto [other, of_other] = known->second;
      if (added || other == g || IsSameAxis(grids[other], of_other, grids[g], a)) continue;
      return InvalidArgument(
          "axis \"{}\" of grid {} has {} samples from {} on, that of grid {} {} from {} on; axes of one name "
          "are one axis, so rename one of them",
          name, g, grids[g].dims[a], grids[g].origin[a], other, grids[other].dims[of_other],
          grids[other].origin[of_other]);
    }
  }
  return Status::Ok();
}

Status CheckField(const FieldDescription& field) {
  QUARRY_RETURN_IF_ERROR(CheckFieldName(field.name));
  if (SizeOf(field.type) == 0)
    return InvalidArgument("field \"{}\" has the unknown type {}", field.name, static_cast<int>(field.type));
  const PatchCoder* coder = FindCoder(field.coder);
  if (coder == nullptr || !coder->traits().codes_fields || !coder->Supports(field.type))
    return InvalidArgument("field \"{}\" is {}, which codec {} does not code", field.name, Name(field.type),
                           Name(field.coder));
  if (field.layers() > coder->traits().most_layers)
    return InvalidArgument("field \"{}\" has {} layers of accuracy; the maximum is {} with codec {}",
                           field.name, field.layers(), coder->traits().most_layers, coder->name());
  if (field.keyframe < 0 || field.keyframe > kMaxKeyframe ||
      (field.keyframe > 0 && !coder->traits().can_refer))
    return InvalidArgument("field \"{}\" has a keyframe every {} steps; codec {} allows up to {}", field.name,
                           field.keyframe, coder->name(), coder->traits().can_refer ? kMaxKeyframe : 0);
  if (field.fill && !CanHold(field.type, *field.fill))
    return InvalidArgument("field \"{}\": {} cannot be the fill value of {}", field.name, *field.fill,
                           Name(field.type));
  QUARRY_RETURN_IF_ERROR(CheckGiven(field));
  QUARRY_RETURN_IF_ERROR(CheckAttributes(field.attributes).Annotate(fmt::format("field \"{}\"", field.name)));
  return CheckBound(field);
}

Status CheckTexts(const DatasetDescription& dataset) {
  std::size_t count = 0;
  std::size_t bytes = 0;
  std::set<std::string_view> names;
  for (const FieldDescription& field : dataset.fields) {
    names.insert(field.name);
    if (field.complex) names.insert(field.complex->of);
  }
  if (dataset.texts.size() > kMaxTextCoordinates)
    return InvalidArgument("there are {} coordinates of text; the maximum is {}", dataset.texts.size(),
                           kMaxTextCoordinates);
  for (const TextCoordinate& text : dataset.texts) {
    QUARRY_RETURN_IF_ERROR(CheckText(text, dataset));
    if (!names.insert(text.name).second)
      return InvalidArgument("text \"{}\" has the name of a field or another text", Printable(text.name));
    count += text.texts.size();
    for (const std::string& one : text.texts) bytes += one.size();
  }
  if (count <= kMaxTexts && bytes <= kMaxTextBytes) return Status::Ok();
  return InvalidArgument("there are {} texts of {} bytes as coordinates; the maximum is {} and {}", count,
                         bytes, kMaxTexts, kMaxTextBytes);
}

Status CheckChosenFields(const DatasetDescription& dataset, const std::set<std::string_view>& chosen) {
  std::map<std::string_view, std::string_view> part_of;  // a chosen part, by the name of the complex field
  for (const FieldDescription& field : dataset.fields) {
    if (field.complex && chosen.contains(field.name)) part_of.emplace(field.complex->of, field.name);
  }
  for (const FieldDescription& field : dataset.fields) {
    if (!field.complex || chosen.contains(field.name)) continue;
    const auto part = part_of.find(field.complex->of);
    if (part != part_of.end())
      return InvalidArgument("field \"{}\" is a part of complex \"{}\", as is \"{}\"; copy both",
                             part->second, part->first, field.name);
  }
  return Status::Ok();
}

Status CheckDataset(const DatasetDescription& dataset) {
  QUARRY_RETURN_IF_ERROR(CheckGrids(dataset.grids));
  if (dataset.fields.empty()) return InvalidArgument("there are no fields; a dataset has at least one");
  for (const FieldDescription& field : dataset.fields) {
    if (field.grid >= dataset.grids.size())
      return InvalidArgument("field \"{}\" is on grid {}; there are {}", field.name, field.grid,
                             dataset.grids.size());
  }
  QUARRY_RETURN_IF_ERROR(CheckTimeUnit(dataset.time_unit));
  QUARRY_RETURN_IF_ERROR(CheckTimeName(dataset.time_name));
  QUARRY_RETURN_IF_ERROR(CheckAllAttributes(dataset));
  QUARRY_RETURN_IF_ERROR(CheckNames(dataset.fields));
  QUARRY_RETURN_IF_ERROR(CheckNumbers(dataset));
  QUARRY_RETURN_IF_ERROR(CheckComplex(dataset));
  return CheckTexts(dataset);
}

namespace {

template <typename Step>
Status CheckEachField(const Step& step, const DatasetDescription& dataset) {
  QUARRY_RETURN_IF_ERROR(CheckTime(step.time).Annotate(fmt::format("step {}", step.step)));
  QUARRY_RETURN_IF_ERROR(CheckNames(step.fields));
  std::map<std::string_view, const FieldDescription*> known;
  for (const FieldDescription& field : dataset.fields) known.emplace(field.name, &field);
  for (const auto& field : step.fields) {
    const auto declared = known.find(field.name);
    if (declared == known.end()) continue;
    const GridDescription& grid = dataset.GridOf(*declared->second);
    QUARRY_RETURN_IF_ERROR(CheckRecord(field, *declared->second, grid));
    QUARRY_RETURN_IF_ERROR(CheckFiles(field, grid));
  }
  return Status::Ok();
}

}  // namespace

Status CheckStep(const StepDescription& step, const DatasetDescription& dataset) {
  return CheckEachField(step, dataset);
}

Status CheckStep(const StepSummary& step, const DatasetDescription& dataset) {
  return CheckEachField(step, dataset);
}

}  // namespace quarry::format
