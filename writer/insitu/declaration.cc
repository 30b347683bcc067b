#include "writer/insitu/declaration.h"

#include <algorithm>
#include <set>

#include "quarry/format/attribute_rules.h"
#include "quarry/format/dimension_names.h"
#include "quarry/format/invariants.h"
#include "quarry/version.h"
#include "writer/pipeline/source_grid.h"
#include "writer/redistribute/copy_part.h"

namespace quarry::insitu {

BoxView OwnedBox::At(const void* address, std::size_t sample_bytes) const {
  if (stride) return {static_cast<const std::byte*>(address), *stride};
  BoxView view = BoxView::Dense(address, storage, sample_bytes);
  if (array_order == ArrayOrder::kZFastest) {
    const Index3 shape = storage.shape();
    const auto size = static_cast<std::int64_t>(sample_bytes);
    view.stride = {size * shape[2] * shape[1], size * shape[2], size};
  }
  view.data = redistribute::FirstSample(view, storage, box);
  return view;
}

namespace {

/// Refuses positions of another number than the samples along their axis.
Status CheckPositions(const SourceGrid& source) {
  for (std::size_t a = 0; a < 3; ++a) {
    const std::size_t given = source.axes[a].coordinates.size();
    if (given == 0 || given == static_cast<std::size_t>(source.dims[a])) continue;
    return InvalidArgument(
        "axis {} has {} positions, but the grid has {} samples along it; give one for each", kAxisNames[a],
        given, source.dims[a]);
  }
  return Status::Ok();
}

/// Refuses attributes for which the declaration has members of its own.
Status CheckNames(const Attributes& attributes, const std::string& of) {
  for (const Attribute& attribute : attributes) {
    if (IsSaidElsewhere(attribute.name))
      return InvalidArgument(
          "\"{}\" of {} cannot be an attribute; units, fill value and type have declarations of their own",
          attribute.name, of);
  }
  return CheckAttributes(attributes);
}

Status CheckAttributesOf(const Declaration& declaration) {
  QUARRY_RETURN_IF_ERROR(CheckNames(declaration.attributes, "the dataset"));
  for (std::size_t a = 0; a < 3; ++a)
    QUARRY_RETURN_IF_ERROR(CheckNames(declaration.axes[a].attributes, fmt::format("axis {}", kAxisNames[a])));
  for (const Field& field : declaration.fields)
    QUARRY_RETURN_IF_ERROR(CheckNames(field.attributes, fmt::format("field \"{}\"", field.name)));
  return Status::Ok();
}

/// The grid of the declared fields: that of the first one that the dataset has, if any.
Result<std::size_t> ChooseGrid(const Declaration& declaration, const writer::LayoutRequest& layout,
                               DatasetDescription* dataset) {
  const SourceGrid source{declaration.dims, declaration.axes};
  QUARRY_RETURN_IF_ERROR(CheckPositions(source));
  const auto known = std::ranges::find_if(
      declaration.fields, [&](const Field& field) { return dataset->FindField(field.name).has_value(); });
  return writer::ChooseGrid(source, layout, known == declaration.fields.end() ? "" : known->name,
                            "declare another origin and spacing", dataset);
}

}  // namespace

Result<DatasetDescription> Describe(const Declaration& declaration,
                                    const std::optional<DatasetDescription>& existing) {
  const writer::LayoutRequest layout{declaration.origin, declaration.spacing, declaration.patch,
                                     declaration.levels, declaration.order};
  DatasetDescription dataset = existing ? *existing : writer::DescribeDataset(layout);
  if (!existing) {
    dataset.created_by = fmt::format("quarry-insitu {}", kVersion);
    dataset.time_unit = declaration.time_unit;
    dataset.attributes = declaration.attributes;
  }
  QUARRY_ASSIGN_OR_RETURN(const std::size_t grid, ChooseGrid(declaration, layout, &dataset));
  QUARRY_RETURN_IF_ERROR(CheckTimeUnit(declaration.time_unit));
  QUARRY_RETURN_IF_ERROR(CheckAttributesOf(declaration));
  if (declaration.fields.empty()) return InvalidArgument("no field is declared; declare at least one");
  std::set<std::string> names;
  for (const Field& field : declaration.fields) {
    if (!names.insert(field.name).second)
      return InvalidArgument("field \"{}\" is declared twice; give each field a different name", field.name);
    QUARRY_ASSIGN_OR_RETURN(FieldDescription wanted, writer::DescribeField(field));
    wanted.grid = grid;
    QUARRY_RETURN_IF_ERROR(writer::TakeField(std::move(wanted), &dataset));
  }
  for (TextCoordinate text : declaration.texts) {
    text.grid = grid;
    if (writer::TakeText(text, &dataset)) continue;
    return InvalidArgument("the texts of \"{}\" are others in the dataset; declare the same, or another name",
                           text.name);
  }
  QUARRY_RETURN_IF_ERROR(format::CheckDataset(dataset));
  return dataset;
}

Status CheckStorage(const std::vector<OwnedBox>& boxes) {
  for (std::size_t b = 0; b < boxes.size(); ++b) {
    if (boxes[b].stride || boxes[b].box.empty() || boxes[b].storage.Contains(boxes[b].box)) continue;
    return InvalidArgument(
        "owned box {} is {}, but its array holds {}; declare the array with the box and its ghosts", b,
        ToString(boxes[b].box), ToString(boxes[b].storage));
  }
  return Status::Ok();
}

}  // namespace quarry::insitu
