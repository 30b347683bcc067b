#include "writer/insitu/declaration.h"

#include <set>

#include "quarry/base/version.h"

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

/// The grid of the declared fields: that of one which the dataset has, otherwise one with these samples, or a
/// new one.
Result<std::size_t> ChooseGrid(const Declaration& declaration, const writer::LayoutRequest& layout,
                               DatasetDescription* dataset) {
  std::optional<std::size_t> grid;
  for (const Field& field : declaration.fields) {
    const std::optional<std::size_t> known = dataset->FindField(field.name);
    if (known && !grid) grid = dataset->fields[*known].grid;
  }
  for (std::size_t g = 0; g < dataset->grids.size() && !grid; ++g) {
    const GridDescription& there = dataset->grids[g];
    if (there.dims == declaration.dims && layout.origin.value_or(there.origin) == there.origin &&
        layout.spacing.value_or(there.spacing) == there.spacing)
      grid = g;
  }
  if (!grid) {
    GridDescription described;
    described.dims = declaration.dims;
    return writer::AddGrid(described, layout, dataset);
  }
  QUARRY_RETURN_IF_ERROR(writer::CheckSameLayout(declaration.dims, layout, *dataset, *grid));
  return *grid;
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
    const std::optional<std::size_t> known = dataset.FindField(field.name);
    if (known) {
      QUARRY_RETURN_IF_ERROR(writer::CheckSameField(wanted, dataset.fields[*known]));
    } else {
      dataset.fields.push_back(std::move(wanted));
    }
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
