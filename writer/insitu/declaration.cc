#include "writer/insitu/declaration.h"

#include <algorithm>
#include <cmath>

#include "quarry/base/missing.h"
#include "quarry/base/utf8.h"
#include "quarry/base/version.h"
#include "quarry/format/manifest.h"
#include "writer/pipeline/defaults.h"

namespace quarry::insitu {
namespace {

Status CheckBound(const Field& field) {
  const int bounds = (field.tolerance ? 1 : 0) + (field.relative ? 1 : 0) + (field.lossless ? 1 : 0);
  if (bounds > 1) {
    return InvalidArgument(
        "field \"{}\" has several error bounds; declare one of absolute tolerance, relative tolerance and "
        "lossless",
        field.name);
  }
  for (const auto& bound : {field.tolerance, field.relative}) {
    if (bound && !(*bound > 0 && std::isfinite(*bound))) {
      return InvalidArgument(
          "the tolerance {} of field \"{}\" is not a positive number; give the largest error that "
          "you accept",
          *bound, field.name);
    }
  }
  return Status::Ok();
}

Result<CoderId> ChooseCoder(const Field& field, bool lossless) {
  const CoderId coder = field.coder.value_or(writer::DefaultCoder(field.type, lossless));
  if ((coder == CoderId::kLossless) != lossless) {
    return InvalidArgument(
        "field \"{}\" is declared {}, which does not go with coder {}; leave the coder out", field.name,
        lossless ? "without loss" : "with a tolerance", Name(coder));
  }
  const PatchCoder* found = FindCoder(coder);
  if (found == nullptr || coder == CoderId::kValidity || !found->Supports(field.type)) {
    return InvalidArgument("field \"{}\" is {}, which coder {} does not code; leave the coder out",
                           field.name, Name(field.type), Name(coder));
  }
  return coder;
}

Result<FieldDescription> DescribeNewField(const Field& field) {
  QUARRY_RETURN_IF_ERROR(format::CheckFieldName(field.name));
  if (!IsUtf8(field.units)) {
    return InvalidArgument("the units of field \"{}\" are not UTF-8 text; write them in another way",
                           field.name);
  }
  const bool bounded = field.tolerance || field.relative;
  const bool lossless = field.lossless || (!bounded && !IsFloat(field.type));
  if (!bounded && !lossless) {
    return InvalidArgument(
        "field \"{}\" has no error bound; declare an absolute tolerance, a relative one, or that it "
        "is lossless",
        field.name);
  }
  QUARRY_ASSIGN_OR_RETURN(const CoderId coder, ChooseCoder(field, lossless));
  if (field.fill && !CanHold(field.type, *field.fill)) {
    return InvalidArgument(
        "the fill value {} of field \"{}\" is no value of {}; give one that a sample can have", *field.fill,
        field.name, Name(field.type));
  }
  return FieldDescription{field.name,      field.type,     field.units, coder,
                          field.tolerance, field.relative, lossless,    field.fill};
}

std::string BoundText(const FieldDescription& field) {
  if (field.lossless) return "no loss";
  if (field.tolerance) return fmt::format("tolerance {}", *field.tolerance);
  return fmt::format("relative tolerance {}", field.relative_tolerance.value_or(0));
}

/// A declaration that continues a field says the same of it as the dataset.
Status CheckSameField(const FieldDescription& wanted, const FieldDescription& existing) {
  const auto text = [](const FieldDescription& f) {
    return fmt::format("{} by {} with {} and {}", Name(f.type), Name(f.coder), BoundText(f),
                       f.fill ? fmt::format("fill value {}", *f.fill) : "no fill value");
  };
  if (wanted.type == existing.type && wanted.coder == existing.coder &&
      wanted.tolerance == existing.tolerance && wanted.relative_tolerance == existing.relative_tolerance &&
      wanted.lossless == existing.lossless && wanted.fill_bits() == existing.fill_bits()) {
    return Status::Ok();
  }
  return InvalidArgument(
      "field \"{}\" is {} in the dataset, but {} here; declare it as it is, or choose another name",
      existing.name, text(existing), text(wanted));
}

Result<DatasetDescription> DescribeNewDataset(const Declaration& declaration) {
  DatasetDescription dataset;
  dataset.created_by = fmt::format("quarry-insitu {}", kVersion);
  dataset.grid.dims = declaration.dims;
  if (declaration.origin) dataset.grid.origin = *declaration.origin;
  if (declaration.spacing) dataset.grid.spacing = *declaration.spacing;
  dataset.patch = writer::PatchFor(declaration.patch, declaration.dims);
  QUARRY_RETURN_IF_ERROR(quarry::internal::ToStatus(PatchGrid::Create(declaration.dims, dataset.patch)));
  const int most = MaxLevels(declaration.dims, dataset.patch);
  dataset.levels = declaration.levels.value_or(most);
  if (dataset.levels < 1 || dataset.levels > most) {
    return InvalidArgument("{} levels do not fit patches of {}; declare 1 to {}", dataset.levels,
                           ToString(dataset.patch), most);
  }
  dataset.order = declaration.order.value_or(format::PayloadOrder::kPatch);
  return dataset;
}

Status CheckSameLayout(const Declaration& declaration, const DatasetDescription& existing) {
  if (declaration.dims != existing.grid.dims) {
    return InvalidArgument("the grid is declared {}, but the dataset's is {}; one dataset has one grid",
                           ToString(declaration.dims), ToString(existing.grid.dims));
  }
  const char* different = nullptr;
  if (declaration.patch && writer::PatchFor(declaration.patch, declaration.dims) != existing.patch)
    different = "patch";
  if (declaration.levels && *declaration.levels != existing.levels) different = "number of levels";
  if (declaration.order && *declaration.order != existing.order) different = "payload order";
  if (declaration.spacing && *declaration.spacing != existing.grid.spacing) different = "spacing";
  if (declaration.origin && *declaration.origin != existing.grid.origin) different = "origin";
  if (different == nullptr) return Status::Ok();
  return InvalidArgument(
      "the declared {} differs from that of the dataset; leave it out to continue the dataset", different);
}

}  // namespace

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
  DatasetDescription dataset;
  if (existing) {
    QUARRY_RETURN_IF_ERROR(CheckSameLayout(declaration, *existing));
    dataset = *existing;
  } else {
    QUARRY_ASSIGN_OR_RETURN(dataset, DescribeNewDataset(declaration));
  }
  if (declaration.fields.empty()) return InvalidArgument("no field is declared; declare at least one");
  std::vector<std::string> names;
  for (const Field& field : declaration.fields) {
    if (std::find(names.begin(), names.end(), field.name) != names.end())
      return InvalidArgument("field \"{}\" is declared twice; give each field a name of its own", field.name);
    names.push_back(field.name);
    QUARRY_RETURN_IF_ERROR(CheckBound(field));
    QUARRY_ASSIGN_OR_RETURN(FieldDescription wanted, DescribeNewField(field));
    const std::optional<std::size_t> known = dataset.FindField(field.name);
    if (known) {
      QUARRY_RETURN_IF_ERROR(CheckSameField(wanted, dataset.fields[*known]));
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
