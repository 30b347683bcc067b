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

Result<DatasetDescription> Describe(const Declaration& declaration,
                                    const std::optional<DatasetDescription>& existing) {
  const writer::LayoutRequest layout{declaration.origin, declaration.spacing, declaration.patch,
                                     declaration.levels, declaration.order};
  DatasetDescription dataset;
  if (existing) {
    QUARRY_RETURN_IF_ERROR(writer::CheckSameLayout(declaration.dims, layout, *existing));
    dataset = *existing;
  } else {
    GridDescription grid;
    grid.dims = declaration.dims;
    QUARRY_ASSIGN_OR_RETURN(dataset, writer::DescribeDataset(grid, layout));
    dataset.created_by = fmt::format("quarry-insitu {}", kVersion);
    dataset.time_unit = declaration.time_unit;
  }
  QUARRY_RETURN_IF_ERROR(CheckTimeUnit(declaration.time_unit));
  if (declaration.fields.empty()) return InvalidArgument("no field is declared; declare at least one");
  std::set<std::string> names;
  for (const Field& field : declaration.fields) {
    if (!names.insert(field.name).second)
      return InvalidArgument("field \"{}\" is declared twice; give each field a name of its own", field.name);
    QUARRY_ASSIGN_OR_RETURN(FieldDescription wanted, writer::DescribeField(field));
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
