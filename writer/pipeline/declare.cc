#include "writer/pipeline/declare.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "quarry/base/missing.h"
#include "quarry/base/status.h"
#include "quarry/base/utf8.h"
#include "quarry/codec/coder.h"
#include "quarry/format/description_rules.h"
#include "quarry/format/invariants.h"
#include "quarry/format/manifest.h"
#include "quarry/geometry/patch_grid.h"

namespace quarry::writer {
namespace {

Status CheckBound(const FieldRequest& field, const FieldWords& words) {
  std::vector<const char*> given;
  if (field.tolerance) given.push_back(words.tolerance);
  if (field.relative) given.push_back(words.relative);
  if (field.lossless) given.push_back(words.lossless);
  if (!field.layers.empty()) given.push_back(words.layers);
  if (field.pointwise_relative) given.push_back(words.pointwise_relative);
  if (given.size() > 1) {
    return InvalidArgument("field \"{}\" has several error bounds, {}; give one of them", field.name,
                           fmt::join(given, " and "));
  }
  const std::optional<double> ratio = field.pointwise_relative;
  if (ratio && !(*ratio > 0 && *ratio < 1)) {
    return InvalidArgument(
        "{} {} of field \"{}\" is not between 0 and 1; give the largest error as a fraction of a sample",
        words.pointwise_relative, *ratio, field.name);
  }
  const auto& bound = field.tolerance ? field.tolerance : field.relative;
  if (!bound || (*bound > 0 && std::isfinite(*bound))) return Status::Ok();
  return InvalidArgument(
      "{} {} of field \"{}\" is not a positive number; give the largest error that you accept", given.front(),
      *bound, field.name);
}

/// Descending, and above 0 but for the last.
Status CheckLayers(const FieldRequest& field, const FieldWords& words) {
  const std::vector<double>& layers = field.layers;
  if (layers.size() > static_cast<std::size_t>(kMaxLayers))
    return InvalidArgument("field \"{}\" has {} {}; the maximum is {}", field.name, layers.size(),
                           words.layers, kMaxLayers);
  for (std::size_t k = 0; k < layers.size(); ++k) {
    const bool exact = layers[k] == 0 && k + 1 == layers.size();
    if (!exact && !(layers[k] > 0 && std::isfinite(layers[k])))
      return InvalidArgument(
          "{} of field \"{}\": {} is not a positive number; give tolerances, the largest first, and "
          "\"exact\" at the end for lossless",
          words.layers, field.name, layers[k]);
    if (k > 0 && !(layers[k] < layers[k - 1]))
      return InvalidArgument("{} of field \"{}\": {} comes after {}; give the largest tolerance first",
                             words.layers, field.name, layers[k], layers[k - 1]);
  }
  return Status::Ok();
}

/// The bound of the last layer takes the place of the layers; those before it go to `rougher`.
FieldRequest TakeLayers(FieldRequest field, std::vector<double>* rougher) {
  if (field.layers.empty()) return field;
  const double last = field.layers.back();
  field.lossless = last == 0;
  if (last > 0) (field.relative_layers ? field.relative : field.tolerance) = last;
  field.layers.pop_back();
  *rougher = std::move(field.layers);
  field.layers.clear();
  return field;
}

CoderId DefaultCoder(const FieldRequest& field, bool lossless) {
  if (lossless) return CoderId::kLossless;
  if (field.pointwise_relative) return CoderId::kInterpolateRelative;
  return IsFloat(field.type) ? kDefaultFloatCoder : kDefaultIntegerCoder;
}

bool IsLossless(std::optional<CoderId> coder) {
  const PatchCoder* found = coder ? FindCoder(*coder) : nullptr;
  return found != nullptr && found->traits().is_lossless;
}

Result<CoderId> ChooseLayeredCoder(const FieldRequest& field, const FieldWords& words) {
  const CoderId coder = field.coder.value_or(CoderId::kInterpolate);
  const PatchCoder* found = FindCoder(coder);
  if (found != nullptr && found->Supports(field.type) &&
      field.layers.size() <= static_cast<std::size_t>(found->traits().most_layers))
    return coder;
  return InvalidArgument("field \"{}\" has {}, which {} {} does not code; leave {} out", field.name,
                         words.layers, words.codec, Name(coder), words.codec);
}

/// @param lossless  whether nothing may be lost
Result<CoderId> ChooseCoder(const FieldRequest& field, bool lossless, const FieldWords& words) {
  const CoderId coder = field.coder.value_or(DefaultCoder(field, lossless));
  const PatchCoder* found = FindCoder(coder);
  const bool relative = field.pointwise_relative.has_value();
  if (found != nullptr &&
      (found->traits().is_lossless != lossless || found->traits().bound_is_relative != relative)) {
    const char* bound = field.tolerance  ? words.tolerance
                        : field.relative ? words.relative
                        : relative       ? words.pointwise_relative
                                         : words.lossless;
    return InvalidArgument("field \"{}\" cannot be stored {} ({}) together with {} {}; leave one of them out",
                           field.name, lossless ? "without loss" : "with a tolerance", bound, words.codec,
                           Name(coder));
  }
  if (found == nullptr || !found->traits().codes_fields || !found->Supports(field.type)) {
    return InvalidArgument("field \"{}\" is {}, which {} {} does not code; leave {} out", field.name,
                           Name(field.type), words.codec, Name(coder), words.codec);
  }
  return coder;
}

/// Checks fields that are stored without loss or not at all.
Status CheckExact(const FieldRequest& field, bool bounded, const FieldWords& words) {
  if (field.given != GivenType::kStored && field.type != StoredTypeOf(field.given))
    return InvalidArgument("field \"{}\" is {}, which is stored as {}, not as {}", field.name,
                           Name(field.given), Name(StoredTypeOf(field.given)), Name(field.type));
  if (!bounded || !(IsWideInteger(field.type) || field.given == GivenType::kBool)) return Status::Ok();
  const char* bound = field.tolerance            ? words.tolerance
                      : field.relative           ? words.relative
                      : field.pointwise_relative ? words.pointwise_relative
                                                 : words.layers;
  if (field.given == GivenType::kBool)
    return InvalidArgument("field \"{}\" is bool, which is stored without loss; leave {} out", field.name,
                           bound);
  return InvalidArgument(
      "field \"{}\" is {}, which is stored without loss; leave {} out, or convert the samples to float64 "
      "first",
      field.name, Name(field.type), bound);
}

/// The type that readers get back: with a bound, float16 becomes float32, for which the bound holds, and bool
/// becomes uint8 where a third value means missing.
GivenType GivenTypeOf(const FieldRequest& field, bool lossless) {
  const bool is_two_values = field.given != GivenType::kBool || !field.fill;
  return lossless && is_two_values ? field.given : GivenType::kStored;
}

Status CheckKeyframe(const FieldRequest& field, CoderId coder, const FieldWords& words) {
  const int keyframe = field.keyframe.value_or(0);
  if (keyframe < 0 || keyframe > kMaxKeyframe)
    return InvalidArgument("{} {} of field \"{}\" is not from 0 to {}", words.keyframe, keyframe, field.name,
                           kMaxKeyframe);
  if (keyframe <= 1 || FindCoder(coder)->traits().can_refer) return Status::Ok();
  return InvalidArgument(
      "steps of field \"{}\" cannot refer to others ({} {}) with {} {}; leave one of them out", field.name,
      words.keyframe, keyframe, words.codec, Name(coder));
}

/// An axis of one sample has patches of one, even for a cube like 64x64x64.
Index3 PatchFor(const std::optional<Index3>& wanted, const Index3& dims) {
  Index3 patch = wanted.value_or(DefaultPatch(dims));
  for (std::size_t a = 0; a < 3; ++a) {
    if (dims[a] == 1) patch[a] = 1;
  }
  return patch;
}

/// The bound of a request without layers; lossless if it gives none.
Bound BoundOf(const FieldRequest& field) {
  if (field.tolerance) return AbsoluteBound{*field.tolerance};
  if (field.relative) return RelativeBound{*field.relative};
  if (field.pointwise_relative) return PointwiseBound{*field.pointwise_relative};
  return Lossless{};
}

}  // namespace

std::string BoundText(const FieldDescription& field) {
  const double tolerance = ToleranceOf(field.bound);
  if (!field.rougher.empty()) {
    return fmt::format("in layers {}, {}{}", fmt::join(field.rougher, ", "),
                       field.lossless() ? "exact" : fmt::format("{}", tolerance),
                       field.rougher_relative ? " of the range" : "");
  }
  if (field.lossless()) return "without loss";
  if (std::holds_alternative<AbsoluteBound>(field.bound)) return fmt::format("with tolerance {}", tolerance);
  if (std::holds_alternative<PointwiseBound>(field.bound))
    return fmt::format("with tolerance {} of each sample", tolerance);
  return fmt::format("with relative tolerance {}", tolerance);
}

Result<FieldDescription> DescribeField(const FieldRequest& field, const FieldWords& words) {
  QUARRY_RETURN_IF_ERROR(CheckBound(field, words));
  QUARRY_RETURN_IF_ERROR(CheckLayers(field, words));
  QUARRY_RETURN_IF_ERROR(format::CheckFieldName(field.name));
  if (!IsUtf8(field.units)) {
    return InvalidArgument("the units of field \"{}\" are not UTF-8 text; encode them as UTF-8", field.name);
  }
  const bool bounded = field.tolerance || field.relative || field.pointwise_relative || !field.layers.empty();
  const bool lossless = field.lossless || (!bounded && (!IsFloat(field.type) || IsLossless(field.coder)));
  if (!bounded && !lossless) {
    return InvalidArgument(
        "field \"{}\" has no error bound; give one of {} (absolute), {} (of the value range), {} (of each "
        "sample) and {}",
        field.name, words.tolerance, words.relative, words.pointwise_relative, words.lossless);
  }
  QUARRY_RETURN_IF_ERROR(CheckExact(field, bounded, words));
  const bool layered = field.layers.size() > 1;
  std::vector<double> rougher;
  const FieldRequest last = TakeLayers(field, &rougher);
  QUARRY_ASSIGN_OR_RETURN(const CoderId coder, layered ? ChooseLayeredCoder(field, words)
                                                       : ChooseCoder(last, lossless || last.lossless, words));
  QUARRY_RETURN_IF_ERROR(CheckKeyframe(field, coder, words));
  if (field.fill && !CanHold(field.type, *field.fill)) {
    return InvalidArgument(
        "the fill value {} of field \"{}\" is not a value of {}; give one that a sample can have",
        *field.fill, field.name, Name(field.type));
  }
  return FieldDescription{field.name,
                          field.type,
                          field.units,
                          coder,
                          BoundOf(last),
                          field.fill,
                          std::move(rougher),
                          layered && field.relative_layers,
                          field.keyframe.value_or(0) > 1 ? *field.keyframe : 0,
                          GivenTypeOf(field, lossless && !layered),
                          0,
                          field.attributes,
                          field.still,
                          field.coordinate,
                          field.complex,
                          {}};
}

FieldRequest ContinueField(FieldRequest field, const FieldDescription& existing) {
  const bool no_bound = !field.tolerance && !field.relative && !field.pointwise_relative && !field.lossless &&
                        field.layers.empty();
  if (no_bound && !existing.rougher.empty()) {
    field.layers = existing.rougher;
    field.layers.push_back(ToleranceOf(existing.bound));
    field.relative_layers = existing.rougher_relative;
  } else if (no_bound) {
    field.tolerance = ToleranceAs<AbsoluteBound>(existing.bound);
    field.relative = ToleranceAs<RelativeBound>(existing.bound);
    field.pointwise_relative = ToleranceAs<PointwiseBound>(existing.bound);
    field.lossless = existing.lossless();
  }
  const bool same_bound = BoundOf(field) == existing.bound && existing.rougher.empty();
  if (!field.coder && (same_bound || !field.layers.empty())) field.coder = existing.coder;
  if (!field.keyframe) field.keyframe = existing.keyframe;
  // Samples that declare no fill value may still contain that of the field.
  if (!field.fill) field.fill = existing.fill;
  return field;
}

Status CheckSameField(const FieldDescription& wanted, const FieldDescription& existing,
                      const FieldWords& words) {
  // Samples of two units are not one field. A source that says nothing of its unit is taken at its word.
  if (wanted.units != existing.units && !wanted.units.empty() && !existing.units.empty())
    return InvalidArgument(
        "the samples of field \"{}\" are in {} here, but in {} in the dataset; convert them first, or give "
        "{} "
        "{} if the unit is the same, or choose another name",
        existing.name, wanted.units, existing.units, words.units, existing.units);
  const auto text = [](const FieldDescription& f) {
    return fmt::format(
        "{}{} by {} {}, {} and {}", f.given_type(),
        f.complex ? fmt::format(", a part of complex \"{}\",", f.complex->of) : "", Name(f.coder),
        BoundText(f), f.keyframe > 0 ? fmt::format("a keyframe every {} steps", f.keyframe) : "all keyframes",
        f.fill ? fmt::format("fill value {}", *f.fill) : "no fill value");
  };
  if (wanted.type == existing.type && wanted.given == existing.given && wanted.coder == existing.coder &&
      wanted.bound == existing.bound && wanted.fill_bits() == existing.fill_bits() &&
      wanted.rougher == existing.rougher && wanted.rougher_relative == existing.rougher_relative &&
      wanted.keyframe == existing.keyframe && wanted.complex == existing.complex) {
    if (wanted.grid == existing.grid) return Status::Ok();
    return InvalidArgument(
        "field \"{}\" is on grid {} in the dataset, but on grid {} here; a field has one grid", existing.name,
        existing.grid, wanted.grid);
  }
  return InvalidArgument(
      "field \"{}\" is {} in the dataset, but {} here; give it as it is there, or choose another name",
      existing.name, text(existing), text(wanted));
}

Status TakeField(FieldDescription wanted, DatasetDescription* dataset, const FieldWords& words) {
  const std::optional<std::size_t> known = dataset->FindField(wanted.name);
  if (!known) {
    wanted.number = dataset->NextNumber();
    dataset->fields.push_back(std::move(wanted));
    return Status::Ok();
  }
  QUARRY_RETURN_IF_ERROR(CheckSameField(wanted, dataset->fields[*known], words));
  if (!wanted.still) dataset->fields[*known].still = false;
  return Status::Ok();
}

bool TakeText(const TextCoordinate& text, DatasetDescription* dataset) {
  const auto known = std::ranges::find(dataset->texts, text.name, &TextCoordinate::name);
  if (known != dataset->texts.end()) {
    if (known->axis.has_value() != text.axis.has_value() || known->texts != text.texts) return false;
    if (!text.axis) return true;
    const GridDescription& here = dataset->grids[text.grid];
    const GridDescription& there = dataset->grids[known->grid];
    return here.axis_names[*text.axis] == there.axis_names[*known->axis] &&
           IsSameAxis(here, *text.axis, there, *known->axis);
  }
  dataset->texts.push_back(text);
  return true;
}

DatasetDescription DescribeDataset(const LayoutRequest& layout) {
  DatasetDescription dataset;
  dataset.grids.clear();
  dataset.order = layout.order.value_or(format::PayloadOrder::kPatch);
  return dataset;
}

Result<std::size_t> AddGrid(GridDescription grid, const LayoutRequest& layout, DatasetDescription* dataset) {
  QUARRY_RETURN_IF_ERROR(CheckPlaces(grid));
  grid.patch = PatchFor(layout.patch, grid.dims);
  QUARRY_RETURN_IF_ERROR(internal::ToStatus(PatchesOf(grid)));
  const int most = MaxLevels(grid.dims, grid.patch);
  grid.levels = layout.levels.value_or(DefaultLevels(grid.dims, grid.patch));
  if (grid.levels < 1 || grid.levels > most) {
    return InvalidArgument("{} levels do not fit patches of {}; give 1 to {}", grid.levels,
                           ToString(grid.patch), most);
  }
  // A single sample is that of every level.
  const auto first =
      std::ranges::find_if(dataset->grids, [](const GridDescription& other) { return other.samples() > 1; });
  if (!layout.levels && first != dataset->grids.end()) grid.levels = std::min(grid.levels, first->levels);
  dataset->grids.push_back(std::move(grid));
  QUARRY_RETURN_IF_ERROR(format::CheckGrids(dataset->grids));
  return dataset->grids.size() - 1;
}

Status CheckSameLayout(const Index3& dims, const LayoutRequest& layout, const DatasetDescription& existing,
                       std::size_t number) {
  const GridDescription& grid = existing.grids[number];
  if (dims != grid.dims) {
    return InvalidArgument("the grid is {} here, but {} in the dataset; a field has one grid", ToString(dims),
                           ToString(grid.dims));
  }
  std::string here;
  std::string there;
  if (layout.patch && PatchFor(layout.patch, dims) != grid.patch) {
    here = "patch " + ToString(*layout.patch);
    there = ToString(grid.patch);
  } else if (layout.levels && *layout.levels != grid.levels) {
    here = fmt::format("number of levels {}", *layout.levels);
    there = fmt::format("{}", grid.levels);
  } else if (layout.order && *layout.order != existing.order) {
    here = fmt::format("payload order {}", format::NameOf(*layout.order));
    there = format::NameOf(existing.order);
  } else if (layout.spacing && *layout.spacing != grid.spacing) {
    here = fmt::format("spacing {}", fmt::join(*layout.spacing, ","));
    there = fmt::format("{}", fmt::join(grid.spacing, ","));
  } else if (layout.origin && *layout.origin != grid.origin) {
    here = fmt::format("origin {}", fmt::join(*layout.origin, ","));
    there = fmt::format("{}", fmt::join(grid.origin, ","));
  } else {
    return Status::Ok();
  }
  return InvalidArgument("the {} differs from the dataset's, {}; leave it out to continue the dataset", here,
                         there);
}

Result<TimeUnit> ContinueTimeUnit(const TimeUnit& here, const TimeUnit& there, bool has_times) {
  if (here.units.empty() || !there.units.empty()) return there;
  if (!has_times) return here;
  return InvalidArgument(
      "the times are in \"{}\" here, and those of the dataset have no unit; give numbers without a unit to "
      "continue it, or "
      "write another dataset",
      ToString(here));
}

Result<std::optional<double>> TimeInUnit(std::optional<double> time, const TimeUnit& here,
                                         const TimeUnit& there) {
  if (!time || here.units.empty()) return time;
  QUARRY_ASSIGN_OR_RETURN(const double converted, ConvertTime(*time, here, there));
  return std::optional(converted);
}

}  // namespace quarry::writer
