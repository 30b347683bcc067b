#include <algorithm>

#include "quarry/format/invariants.h"
#include "quarry/format/manifest.h"
#include "writer/copy/destination.h"

namespace quarry::writer {
namespace {

/// dataset.json with grids, and one field at most, without what users may edit.
std::string Essence(const DatasetDescription& dataset, const FieldDescription* field) {
  DatasetDescription plain;
  plain.grids = dataset.grids;
  for (GridDescription& grid : plain.grids) {
    grid.axis_attributes = {};
    grid.axis_units = {"", "", ""};
  }
  plain.order = dataset.order;
  if (field != nullptr) {
    FieldDescription essence = *field;
    essence.attributes.clear();
    essence.units.clear();
    essence.still = false;  // it ends with the second step
    plain.fields = {essence};
  }
  return format::EncodeManifest(plain);
}

Status Another(const std::string& what) {
  return FailedPrecondition("it is another dataset: {}; copy to another name", what);
}

DatasetDescription WithNumbers(DatasetDescription dataset) {
  for (std::size_t f = 0; f < dataset.fields.size(); ++f) dataset.fields[f].number = dataset.NumberOf(f);
  return dataset;
}

}  // namespace

Result<DatasetDescription> Joined(const DatasetDescription& known, const DatasetDescription& wishes) {
  DatasetDescription joined = WithNumbers(known);
  const DatasetDescription wanted = WithNumbers(wishes);
  if (Essence(joined, nullptr) != Essence(wanted, nullptr)) return Another("its grids differ");
  for (const FieldDescription& field : wanted.fields) {
    const std::optional<std::size_t> there = joined.FindField(field.name);
    if (there) {
      FieldDescription& same = joined.fields[*there];
      if (Essence(joined, &same) != Essence(wanted, &field))
        return Another(fmt::format("its field \"{}\" differs", field.name));
      same.still = same.still && field.still;
      continue;
    }
    const auto number = [](const FieldDescription& one) { return *one.number; };
    const auto place = std::ranges::lower_bound(joined.fields, *field.number, {}, number);
    if (place != joined.fields.end() && place->number == field.number)
      return Another(fmt::format("its field \"{}\" has the number of \"{}\"", place->name, field.name));
    joined.fields.insert(place, field);
  }
  if (joined.time_unit.units.empty()) joined.time_unit = wanted.time_unit;
  if (!wanted.time_unit.units.empty() && !(joined.time_unit == wanted.time_unit))
    return Another("its times have another unit or calendar");
  joined.has_packs = known.has_packs || wishes.has_packs;
  joined.has_coarse_objects = known.has_coarse_objects || wishes.has_coarse_objects;
  QUARRY_RETURN_IF_ERROR(format::CheckDataset(joined));
  // As it stands where nothing has changed.
  if (format::EncodeManifest(joined) == format::EncodeManifest(WithNumbers(known))) return known;
  return joined;
}

}  // namespace quarry::writer
