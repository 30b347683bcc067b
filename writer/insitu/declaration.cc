#include "writer/insitu/declaration.h"

#include <algorithm>
#include <set>

#include "quarry/base/version.h"
#include "writer/pipeline/source_grid.h"

namespace quarry::insitu {
BoxView OwnedBox::At(const void* address, std::size_t sample_bytes) const {
  const auto* data = static_cast<const std::byte*>(address);
  if (stride) return {data, *stride};
  const Index3 shape = storage.shape();
  const auto size = static_cast<std::int64_t>(sample_bytes);
  BoxView view;
  if (array_order == ArrayOrder::kXFastest) {
    view.stride = {size, size * shape[0], size * shape[0] * shape[1]};
  } else {
    view.stride = {size * shape[2] * shape[1], size * shape[2], size};
  }
  std::int64_t ghosts = 0;
  for (std::size_t a = 0; a < 3; ++a) ghosts += (box.begin[a] - storage.begin[a]) * view.stride[a];
  view.data = data + ghosts;
  return view;
}

namespace {

/// The grid of the declared fields: that of the first which the dataset has, or of none.
Result<std::size_t> ChooseGrid(const Declaration& declaration, const writer::LayoutRequest& layout,
                               DatasetDescription* dataset) {
  SourceGrid source;
  source.dims = declaration.dims;
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
  if (declaration.fields.empty()) return InvalidArgument("no field is declared; declare at least one");
  std::set<std::string> names;
  for (const Field& field : declaration.fields) {
    if (!names.insert(field.name).second)
      return InvalidArgument("field \"{}\" is declared twice; give each field a name of its own", field.name);
    QUARRY_ASSIGN_OR_RETURN(FieldDescription wanted, writer::DescribeField(field));
    wanted.grid = grid;
    QUARRY_RETURN_IF_ERROR(writer::TakeField(std::move(wanted), &dataset));
  }
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
