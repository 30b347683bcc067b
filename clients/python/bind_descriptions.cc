#include "clients/python/attributes.h"
#include "clients/python/bind.h"
#include "clients/python/dataset.h"
#include "clients/python/translate.h"
#include "quarry/codec/coder.h"
#include "quarry/format/description_rules.h"
#include "quarry/format/dimension_names.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace quarry::python {
namespace {

/// A number of Python's own, with all its digits.
std::optional<nb::object> FillToPython(const FieldDescription& field) {
  if (!field.fill) return std::nullopt;
  if (IsFloat(field.type)) return nb::cast(field.fill->nearest());
  if (const auto integer = field.fill->As<std::int64_t>()) return nb::cast(*integer);
  return nb::cast(field.fill->As<std::uint64_t>().value_or(0));
}

}  // namespace

void BindDescriptions(nb::module_& m) {
  nb::class_<LevelRecord>(m, "LevelRecord", "What was recorded when a level was written, over all patches.")
      .def_ro("max_error", &LevelRecord::max_error,
              "What the original differs by at most from what the level shows by linear interpolation, in "
              "the field's unit.")
      .def_ro("rmse", &LevelRecord::rmse, "The root of the mean of the squares of these differences.")
      .def_ro("bytes", &LevelRecord::bytes, "Stored bytes of this level alone, without masks.")
      .def_ro("coverage", &LevelRecord::coverage,
              "Share of the valid samples of full resolution that the level can show, 0 to 1.");
  nb::class_<LayerRecord>(m, "LayerRecord", "A layer of accuracy before the last one.")
      .def_ro("tolerance", &LayerRecord::tolerance, "Largest error that was allowed, in the field's unit.")
      .def_ro("levels", &LayerRecord::levels,
              "Its levels, the finest first; bytes are those of this layer alone.");
  nb::class_<FieldSummary>(m, "FieldStep",
                           "A field in one step, as it was recorded when it was written. Errors and "
                           "levels are those of the last layer.")
      .def_ro("name", &FieldSummary::name, "Name of the field.")
      .def_ro("source", &FieldSummary::source, "What it was converted from.")
      .def_ro("tolerance", &FieldSummary::tolerance,
              "Largest error that was allowed, in the field's unit; 0: without loss.")
      .def_ro("min", &FieldSummary::min, "Of the valid original samples; infinity if there is none.")
      .def_ro("max", &FieldSummary::max, "Of the valid original samples; minus infinity if there is none.")
      .def_ro("max_error", &FieldSummary::max_error, "Largest error of a sample, in the field's unit.")
      .def_ro("rmse", &FieldSummary::rmse, "The root of the mean of the squares of the errors.")
      .def_ro("psnr", &FieldSummary::psnr, "Peak signal-to-noise ratio [dB]; infinite if nothing was lost.")
      .def_ro("raw_bytes", &FieldSummary::raw_bytes, "Bytes of the samples.")
      .def_ro("stored_bytes", &FieldSummary::stored_bytes, "Bytes of the compressed data.")
      .def_ro("valid", &FieldSummary::valid, "Number of samples that are not missing.")
      .def_ro("levels", &FieldSummary::levels, "Levels of resolution, the finest first.")
      .def_ro("rougher", &FieldSummary::rougher,
              "The layers of accuracy before the last, the roughest first.")
      .def(
          "levels_of",
          [](const FieldSummary& field, int layer) { return field.LevelsOf(std::max(layer, 0)); }, "layer"_a,
          "Levels in a layer of accuracy, 0 the roughest.")
      .def(
          "tolerance_of",
          [](const FieldSummary& field, int layer) { return field.ToleranceOf(std::max(layer, 0)); },
          "layer"_a, "Largest error that was allowed in a layer of accuracy, in the field's unit.")
      .def_prop_ro(
          "has_missing", [](const FieldSummary& field) { return field.mask.has_value(); },
          "Whether a sample is missing.");
  nb::class_<StepSummary>(m, "Step", "A step of a dataset.")
      .def_ro("step", &StepSummary::step, "Its number.")
      .def_ro("time", &StepSummary::time,
              "Time of the simulation, in the unit of the dataset; None if nobody gave it.")
      .def_ro("fields", &StepSummary::fields, "The fields that it holds.")
      .def(
          "field", [](const StepSummary& step, const std::string& name) { return step.FindField(name); },
          nb::rv_policy::reference_internal, "name"_a, "A field that it holds; None if it does not.");
  m.def(
      "worst_levels",
      [](const std::vector<const FieldSummary*>& records, int layer) {
        std::vector<std::pair<double, double>> worst;
        for (const FieldSummary* record : records) {
          const std::vector<LevelRecord>& levels = record->LevelsOf(std::max(layer, 0));
          if (worst.empty()) worst.assign(levels.size(), {0, 1});
          for (std::size_t l = 0; l < std::min(worst.size(), levels.size()); ++l) {
            worst[l].first = std::max(worst[l].first, levels[l].max_error);
            worst[l].second = std::min(worst[l].second, levels[l].coverage);
          }
        }
        return worst;
      },
      "records"_a, "layer"_a,
      "The largest error and the least coverage in records of a field, of each level of a layer, the finest "
      "first.");
  nb::class_<FieldDescription>(m, "FieldDescription", "What all steps of a field have in common.")
      .def_ro("name", &FieldDescription::name, "Name, unique in the dataset.")
      .def_prop_ro(
          "dtype", [](const FieldDescription& field) { return std::string(field.given_type()); },
          "Name of the type of its samples, as numpy has it.")
      .def_prop_ro(
          "stored_dtype", [](const FieldDescription& field) { return std::string(Name(field.type)); },
          "Name of the type in which they are stored: another for bool and float16.")
      .def_ro("units", &FieldDescription::units, "Unit of its values; empty if nobody gave it.")
      .def_prop_ro(
          "coder", [](const FieldDescription& field) { return std::string(Name(field.coder)); },
          "Name of what compresses its patches.")
      .def_prop_ro(
          "tolerance", [](const FieldDescription& field) { return ToleranceAs<AbsoluteBound>(field.bound); },
          "Largest error, in the field's unit; None if it was given otherwise.")
      .def_prop_ro(
          "relative_tolerance",
          [](const FieldDescription& field) { return ToleranceAs<RelativeBound>(field.bound); },
          "Largest error as a fraction of the range of each step; None if it was given otherwise.")
      .def_prop_ro(
          "pointwise_relative_tolerance",
          [](const FieldDescription& field) { return ToleranceAs<PointwiseBound>(field.bound); },
          "Largest error of a sample as a fraction of its magnitude; None if it was given otherwise.")
      .def_prop_ro(
          "lossless", [](const FieldDescription& field) { return field.lossless(); },
          "Whether samples are stored bit by bit.")
      .def_prop_ro(
          "attributes", [](const FieldDescription& field) { return ToPython(field.attributes); },
          nb::for_getter(nb::sig("def attributes(self, /) -> dict[str, typing.Any]")),
          "What its source says of it besides.")
      .def_ro("still", &FieldDescription::still,
              "Whether it does not change with time: one step has it, and stands for all.")
      .def_ro("coordinate", &FieldDescription::coordinate,
              "Whether it says where, when or under which conditions the samples of others are.")
      .def_prop_ro(
          "complex_of",
          [](const FieldDescription& field) { return field.complex ? field.complex->of : std::string(); },
          "The name of the complex samples of which it holds a part; empty: it is no part.")
      .def_prop_ro(
          "is_imaginary",
          [](const FieldDescription& field) { return field.complex && field.complex->imaginary; },
          "Whether it holds imaginary parts.")
      .def_ro("grid", &FieldDescription::grid, "On which its samples lie: position in the list of grids.")
      .def_ro("keyframe", &FieldDescription::keyframe,
              "At least one in so many steps refers to no other; 0 if none ever does.")
      .def_prop_ro(
          "layers", [](const FieldDescription& field) { return field.layers(); },
          "Number of layers of accuracy; 1 for most fields.")
      .def_prop_ro("fill", &FillToPython, nb::for_getter(nb::sig("def fill(self, /) -> int | float | None")),
                   "Samples with this value are missing; None: only those that are NaN or infinite.");
  m.def(
      "check_layer",
      [](const std::vector<const FieldDescription*>& fields, std::optional<int> layer) {
        const Status status = CheckLayer(fields, layer);
        if (!status.ok()) throw nb::value_error(status.message().c_str());
      },
      "fields"_a, "layer"_a.none(), "Raises ValueError for a layer of accuracy that none of the fields has.");
  nb::class_<client::DatasetSummary>(m, "DatasetSummary", "What `list` says about a dataset.")
      .def_ro("name", &client::DatasetSummary::name,
              "Its name, as `open` takes it behind the address of the server.")
      .def_prop_ro(
          "shape",
          [](const client::DatasetSummary& dataset) {
            return dataset.grids.empty() ? std::nullopt : std::optional(ToZyx(dataset.grids.front().dims));
          },
          "Of the first grid: samples along z, y, x; None of a damaged dataset, and of a late one.")
      .def_prop_ro(
          "shapes",
          [](const client::DatasetSummary& dataset) {
            std::vector<Zyx<std::int64_t>> shapes;
            for (const GridDescription& grid : dataset.grids) shapes.push_back(ToZyx(grid.dims));
            return shapes;
          },
          "Of each grid: samples along z, y, x.")
      .def_ro("steps", &client::DatasetSummary::steps, "Number of steps.")
      .def_ro("fields", &client::DatasetSummary::fields, "Number of fields.")
      .def_ro("late", &client::DatasetSummary::late,
              "Whether its storage did not answer in time: then only its name is known.");
}

}  // namespace quarry::python
