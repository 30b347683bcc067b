#include "quarry/format/proto_values.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace quarry::format {
namespace {

/// The values of a list for x, y and z.
template <typename List, typename T>
Status TakeThree(const List& list, const char* what, std::array<T, 3>* out) {
  if (list.size() != 3) return DataLoss("{} has {} values instead of 3", what, list.size());
  std::transform(list.begin(), list.end(), out->begin(),
                 [](const auto& value) { return static_cast<T>(value); });
  return Status::Ok();
}

}  // namespace

pb::Box ToProto(const Box& box) {
  pb::Box out;
  for (const std::int64_t v : box.begin) out.add_begin(static_cast<std::uint32_t>(v));
  for (const std::int64_t v : box.end) out.add_end(static_cast<std::uint32_t>(v));
  return out;
}

Result<Box> FromProto(const pb::Box& box) {
  Box out;
  QUARRY_RETURN_IF_ERROR(TakeThree(box.begin(), "the begin of a box", &out.begin));
  QUARRY_RETURN_IF_ERROR(TakeThree(box.end(), "the end of a box", &out.end));
  return out;
}

pb::Attribute ToProto(const Attribute& attribute) {
  pb::Attribute out;
  out.set_name(attribute.name);
  if (const auto* text = std::get_if<std::string>(&attribute.value)) out.set_text(*text);
  if (const auto* json = std::get_if<JsonText>(&attribute.value)) out.set_json(json->text);
  if (const auto* texts = std::get_if<std::vector<std::string>>(&attribute.value)) {
    out.mutable_texts();
    for (const std::string& text : *texts) out.mutable_texts()->add_texts(text);
  }
  const auto* numbers = std::get_if<AttributeNumbers>(&attribute.value);
  if (numbers == nullptr) return out;
  pb::AttributeNumbers* const to = out.mutable_numbers();
  to->set_dtype(static_cast<pb::DataType>(numbers->type));
  to->set_is_list(numbers->is_list);
  for (const SampleValue& value : numbers->values) {
    if (IsFloat(numbers->type)) {
      to->add_floats(value.nearest());
    } else if (numbers->type == DataType::kUint64) {
      to->add_naturals(value.As<std::uint64_t>().value_or(0));
    } else {
      to->add_integers(value.As<std::int64_t>().value_or(0));
    }
  }
  return out;
}

Result<Attribute> FromProto(const pb::Attribute& attribute) {
  Attribute out;
  out.name = attribute.name();
  switch (attribute.value_case()) {
    case pb::Attribute::kText:
      out.value = attribute.text();
      return out;
    case pb::Attribute::kTexts:
      out.value =
          std::vector<std::string>(attribute.texts().texts().begin(), attribute.texts().texts().end());
      return out;
    case pb::Attribute::kJson:
      out.value = JsonText{attribute.json()};
      return out;
    case pb::Attribute::kNumbers:
      break;
    case pb::Attribute::VALUE_NOT_SET:
      return DataLoss("attribute \"{}\" has no value that is known; use a newer Quarry", out.name);
  }
  const pb::AttributeNumbers& from = attribute.numbers();
  AttributeNumbers numbers;
  numbers.type = static_cast<DataType>(from.dtype());
  numbers.is_list = from.is_list();
  const auto take = [&](const auto& list) { numbers.values.assign(list.begin(), list.end()); };
  if (IsFloat(numbers.type)) {
    take(from.floats());
  } else if (numbers.type == DataType::kUint64) {
    take(from.naturals());
  } else {
    take(from.integers());
  }
  out.value = std::move(numbers);
  return out;
}

pb::Grid ToProto(const GridDescription& grid) {
  pb::Grid out;
  for (std::size_t a = 0; a < 3; ++a) {
    out.add_dims(static_cast<std::uint32_t>(grid.dims[a]));
    out.add_origin(grid.origin[a]);
    out.add_spacing(grid.spacing[a]);
    out.add_axis_names(grid.axis_names[a]);
    out.add_axis_units(grid.axis_units[a]);
  }
  for (std::size_t a = 0; a < 3; ++a) {
    if (grid.coordinates[a].empty()) continue;
    pb::GridCoordinates* lists = out.mutable_coordinates();
    auto* list = a == 0 ? lists->mutable_x() : a == 1 ? lists->mutable_y() : lists->mutable_z();
    list->Assign(grid.coordinates[a].begin(), grid.coordinates[a].end());
  }
  for (const std::int64_t n : grid.patch) out.add_patch(static_cast<std::uint32_t>(n));
  out.set_levels(static_cast<std::uint32_t>(grid.levels));
  for (const bool has : grid.has_axis) out.add_has_axis(has);
  if (grid.unplaced != GridDescription().unplaced)
    for (const bool unplaced : grid.unplaced) out.add_unplaced(unplaced);
  if (grid.position_types != GridDescription().position_types)
    for (const DataType type : grid.position_types) out.add_position_types(static_cast<pb::DataType>(type));
  if (std::ranges::all_of(grid.axis_attributes, &Attributes::empty)) return out;
  for (const Attributes& attributes : grid.axis_attributes)
    AttributesToProto(attributes, out.add_axis_attributes()->mutable_attributes());
  return out;
}

Result<GridDescription> FromProto(const pb::Grid& grid) {
  GridDescription out;
  QUARRY_RETURN_IF_ERROR(TakeThree(grid.dims(), "grid.dims", &out.dims));
  QUARRY_RETURN_IF_ERROR(TakeThree(grid.origin(), "grid.origin", &out.origin));
  QUARRY_RETURN_IF_ERROR(TakeThree(grid.spacing(), "grid.spacing", &out.spacing));
  QUARRY_RETURN_IF_ERROR(TakeThree(grid.axis_names(), "grid.axis_names", &out.axis_names));
  QUARRY_RETURN_IF_ERROR(TakeThree(grid.axis_units(), "grid.axis_units", &out.axis_units));
  for (std::size_t a = 0; a < 3; ++a) {
    const auto& lists = grid.coordinates();
    const auto& list = a == 0 ? lists.x() : a == 1 ? lists.y() : lists.z();
    out.coordinates[a].assign(list.begin(), list.end());
  }
  QUARRY_RETURN_IF_ERROR(TakeThree(grid.patch(), "grid.patch", &out.patch));
  constexpr std::uint32_t kMost = std::numeric_limits<int>::max();
  out.levels = static_cast<int>(std::min(grid.levels(), kMost));
  if (grid.has_axis_size() > 0)
    QUARRY_RETURN_IF_ERROR(TakeThree(grid.has_axis(), "grid.has_axis", &out.has_axis));
  if (grid.unplaced_size() > 0)
    QUARRY_RETURN_IF_ERROR(TakeThree(grid.unplaced(), "grid.unplaced", &out.unplaced));
  if (grid.position_types_size() > 0)
    QUARRY_RETURN_IF_ERROR(TakeThree(grid.position_types(), "grid.position_types", &out.position_types));
  if (grid.axis_attributes_size() == 0) return out;
  if (grid.axis_attributes_size() != 3)
    return DataLoss("grid.axis_attributes has {} values instead of 3", grid.axis_attributes_size());
  for (int a = 0; a < 3; ++a) {
    QUARRY_ASSIGN_OR_RETURN(out.axis_attributes[static_cast<std::size_t>(a)],
                            AttributesFromProto(grid.axis_attributes(a).attributes()));
  }
  return out;
}

}  // namespace quarry::format
