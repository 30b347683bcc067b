#include "clients/python/write.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "clients/python/attributes.h"
#include "clients/python/translate.h"
#include "clients/python/write_run.h"
#include "quarry/calendar.h"
#include "quarry/description.h"
#include "quarry/format/dimension_names.h"
#include "quarry/format/manifest.h"
#include "quarry/input/input.h"
#include "writer/pipeline/dataset_writer.h"
#include "writer/pipeline/declare.h"
#include "writer/pipeline/replace.h"
#include "writer/pipeline/source_grid.h"
#include "writer/upkeep/edit.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace quarry::python {
namespace {

writer::OpenMode ToMode(const std::string& mode) {
  if (mode == "append") return writer::OpenMode::kAppend;
  return mode == "resume" ? writer::OpenMode::kResume : writer::OpenMode::kCreate;
}

writer::AttributeOwner::Kind ToOwner(const std::string& owner) {
  using Kind = writer::AttributeOwner::Kind;
  if (owner == "field") return Kind::kField;
  return owner == "axis" ? Kind::kAxis : Kind::kDataset;
}

/// Integers keep all their digits in fields of integers.
std::optional<SampleValue> ToFill(DataType type, const std::optional<nb::object>& fill) {
  if (!fill) return std::nullopt;
  if (!IsFloat(type) && nb::isinstance<nb::int_>(*fill)) {
    if (const auto exact = ParseInteger(nb::str(*fill).c_str())) return exact;
  }
  return SampleValue(nb::cast<double>(*fill));
}

}  // namespace

void BindWriting(nb::module_& m) {
  nb::class_<Grid>(m, "Grid").def(
      "__init__",
      [](Grid* self, const Zyx<std::int64_t>& shape, const Zyx<double>& origin, const Zyx<double>& spacing,
         const Zyx<std::string>& names, const Zyx<std::string>& units,
         const Zyx<std::vector<double>>& coordinates, const Zyx<bool>& has_axis, bool placed,
         const Zyx<bool>& unplaced, const Zyx<std::string>& dtypes, const Zyx<GivenAttributes>& attributes,
         const std::optional<Zyx<std::int64_t>>& patch, std::optional<int> levels) {
        SourceGrid source;
        source.dims = ToXyz(shape);
        for (std::size_t a = 0; a < 3; ++a) {
          SourceAxis& axis = source.axes[a];
          axis.name = ToXyz(names)[a];
          axis.units = ToXyz(units)[a];
          axis.exists = ToXyz(has_axis)[a];
          axis.unplaced = ToXyz(unplaced)[a];
          axis.type = Take(ParseDataType(ToXyz(dtypes)[a]));
          axis.attributes = ToXyz(attributes)[a].kept;
          if (!placed) continue;
          axis.origin = ToXyz(origin)[a];
          axis.spacing = ToXyz(spacing)[a];
          axis.coordinates = ToXyz(coordinates)[a];
        }
        new (self) Grid{std::move(source), patch ? std::optional(ToXyz(*patch)) : std::nullopt, levels};
      },
      nb::kw_only(), "shape"_a, "origin"_a, "spacing"_a, "names"_a, "units"_a, "coordinates"_a, "has_axis"_a,
      "placed"_a, "unplaced"_a, "dtypes"_a, "attributes"_a, "patch"_a.none(), "levels"_a.none());
  nb::class_<TimeAxis>(m, "TimeAxis")
      .def(
          "__init__",
          [](TimeAxis* self, std::string units, std::string calendar, std::string name,
             const GivenAttributes& attributes) {
            Attributes kept = attributes.kept;
            std::erase_if(kept, [](const Attribute& one) { return one.name == "calendar"; });
            new (self) TimeAxis{{std::move(units), std::move(calendar)}, std::move(name), std::move(kept)};
          },
          nb::kw_only(), "units"_a, "calendar"_a, "name"_a, "attributes"_a);
  nb::class_<Text>(m, "Text").def(
      "__init__",
      [](Text* self, std::string name, std::optional<std::size_t> field, std::optional<std::size_t> axis,
         std::vector<std::string> texts, const GivenAttributes& attributes) {
        if (axis) axis = 2 - *axis;
        new (self) Text{{std::move(name), 0, axis, std::move(texts), attributes.kept}, field};
      },
      nb::kw_only(), "name"_a, "field"_a.none(), "axis"_a.none(), "texts"_a, "attributes"_a,
      "A coordinate of text along an axis, 0 to 2 for z, y, x, of the field at this place in the list; or "
      "one text.");
  nb::class_<WriteSettings>(m, "WriteSettings")
      .def(
          "__init__",
          [](WriteSettings* self, const std::string& mode, std::optional<std::uint64_t> memory,
             std::optional<int> files, const std::string& payload_order, bool break_lock, bool accept_range,
             bool goes_on, const GivenAttributes& attributes, std::vector<Text> texts) {
            std::optional<format::PayloadOrder> order;
            if (!payload_order.empty()) order = Take(format::ParsePayloadOrder(payload_order));
            new (self) WriteSettings{ToMode(mode), memory,  files,           order,           break_lock,
                                     accept_range, goes_on, attributes.kept, std::move(texts)};
          },
          nb::kw_only(), "mode"_a, "memory"_a.none(), "files"_a.none(), "payload_order"_a, "break_lock"_a,
          "accept_range"_a, "goes_on"_a, "attributes"_a, "texts"_a);
  nb::class_<Request>(m, "FieldRequest")
      .def(
          "__init__",
          [](Request* self, std::string name, const std::string& dtype, std::optional<double> tolerance,
             std::optional<double> relative, std::optional<double> pointwise_relative, bool lossless,
             std::vector<double> layers, bool relative_layers, std::string units,
             const std::optional<nb::object>& fill, const std::string& codec, std::optional<int> keyframe,
             const GivenAttributes& attributes, bool still, bool coordinate, bool moves,
             const std::optional<std::pair<std::string, bool>>& complex) {
            std::optional<CoderId> coder;
            if (!codec.empty()) coder = Take(ParseCoder(codec));
            const auto [type, given] = Take(ParseNamedType(dtype));
            writer::FieldRequest field{std::move(name),
                                       type,
                                       tolerance,
                                       relative,
                                       lossless,
                                       std::move(units),
                                       ToFill(type, fill),
                                       coder,
                                       std::move(layers),
                                       relative_layers,
                                       pointwise_relative,
                                       keyframe,
                                       given,
                                       attributes.kept,
                                       still,
                                       coordinate,
                                       {}};
            if (complex) field.complex = ComplexPart{complex->first, complex->second};
            new (self) Request{std::move(field), moves};
          },
          nb::kw_only(), "name"_a, "dtype"_a, "tolerance"_a.none(), "relative"_a.none(),
          "pointwise_relative"_a.none(), "lossless"_a, "layers"_a, "relative_layers"_a, "units"_a,
          "fill"_a.none(), "codec"_a, "keyframe"_a.none(), "attributes"_a, "still"_a, "coordinate"_a,
          "moves"_a, "complex"_a.none());
  nb::class_<writer::Replacement>(m, "Replacement")
      .def(nb::new_([](const std::string& path, bool break_lock) {
             auto begun = [&] {
               const nb::gil_scoped_release release;
               return writer::Replacement::Begin(path, {.break_lock = break_lock});
             }();
             return Take(std::move(begun));
           }),
           "path"_a, "break_lock"_a)
      .def_prop_ro("staged", [](const writer::Replacement& self) { return self.staged().string(); })
      .def("publish",
           [](writer::Replacement& self) {
             Status status;
             {
               const nb::gil_scoped_release release;
               status = self.Publish();
             }
             Check(std::move(status));
           })
      .def("abandon", &writer::Replacement::Abandon, nb::call_guard<nb::gil_scoped_release>());
  m.def(
      "edit_attributes",
      [](const std::string& path, const std::string& owner, const std::string& field, int axis,
         const GivenAttributes& set, const std::vector<std::string>& removed, bool break_lock) {
        const writer::AttributeOwner of{ToOwner(owner), field, static_cast<std::size_t>(2 - axis)};
        const auto edited = [&] {
          const nb::gil_scoped_release release;
          return writer::EditAttributes(path, of, set.kept, removed, {.break_lock = break_lock});
        }();
        Check(edited.status());
      },
      "path"_a, "owner"_a, "field"_a, "axis"_a, "set"_a, "removed"_a, "break_lock"_a,
      "Sets and removes attributes of a \"dataset\", a \"field\", an \"axis\" 0 to 2 (z, y, x) of a field.");
  m.def(
      "remove",
      [](const std::string& path, std::vector<std::uint64_t> steps, std::vector<std::string> fields,
         bool break_lock) {
        auto removed = [&] {
          const nb::gil_scoped_release release;
          return writer::Remove(path, {std::move(steps), std::move(fields)}, {.break_lock = break_lock});
        }();
        const writer::RemovalReport report = Take(std::move(removed));
        return std::pair(report.steps, report.bytes);
      },
      "path"_a, "steps"_a, "fields"_a, "break_lock"_a,
      "Removes steps and fields. Returns the numbers of the steps that are gone, and the bytes that nobody "
      "needs any more.");
  m.def(
      "is_field_name", [](const std::string& name) { return format::CheckFieldName(name).ok(); }, "name"_a,
      "Whether a field can have this name.");
  m.def("is_dimension_name", &IsDimensionName, "name"_a,
        "Whether NetCDF, HDF5 and Zarr can have a variable of this name.");
  m.def(
      "complex_field_name",
      [](const std::string& of, bool imaginary) {
        return ComplexFieldName({of, imaginary});
      },
      "of"_a, "imaginary"_a, "The name of the field with one part of complex samples.");
  m.def("is_no_axis", &input::IsNoAxis, "name"_a,
        "Whether a dimension of this name is never an axis of a grid: member, channel, mode, ...");
  m.def("brings_steps", &input::BringsSteps, "name"_a, "is_slowest"_a, "axis"_a, "units"_a,
        "Whether a dimension brings the steps by its name and the attributes of its coordinate.");
  m.def("counts_steps", &input::CountsSteps, "name"_a,
        "Whether the numbers along a dimension of this name count steps, and are no times: step, frame, ...");
  m.def("says_time", &input::SaysTime, "axis"_a, "standard_name"_a, "units"_a,
        "Whether a coordinate with these attributes is time.");
  m.def(
      "convert_time",
      [](double value, const std::string& units, const std::string& calendar, const std::string& to_units,
         const std::string& to_calendar) {
        return Take(ConvertTime(value, {units, calendar}, {to_units, to_calendar}));
      },
      "value"_a, "units"_a, "calendar"_a, "to_units"_a, "to_calendar"_a, "A time in another unit.");
  m.def("names_vertical", &input::NamesVertical, "name"_a,
        "Whether a slowest dimension without a coordinate has a name of what is vertical: level, depth, ...");
  m.def(
      "place_axis",
      [](const std::vector<double>& positions,
         bool is_float32) -> std::optional<std::tuple<double, double, bool>> {
        SourceAxis axis;
        input::PlaceAxis(positions, is_float32 ? DataType::kFloat32 : DataType::kFloat64, &axis);
        if (!axis.origin) return std::nullopt;
        return std::tuple(*axis.origin, axis.spacing.value_or(1), axis.coordinates.empty());
      },
      "positions"_a, "is_float32"_a,
      "Origin and spacing of an axis with samples at these positions, and whether that says all of them; "
      "None where samples cannot lie: not finite, or neither ascending nor descending.");
  m.def(
      "find_helpers",
      [](const std::vector<
          std::tuple<std::string, std::vector<std::string>, std::map<std::string, std::string>>>& variables) {
        std::vector<input::VariableWords> words;
        for (const auto& [name, dimensions, attributes] : variables)
          words.push_back({name, dimensions, attributes});
        return input::FindHelpers(words);
      },
      "variables"_a,
      "Which of these variables, (name, dimensions, texts of attributes), are never fields: bounds, grid "
      "mappings, and coordinates that others name.");
  nb::class_<WriteOutcome>(m, "WriteOutcome")
      .def_ro("written", &WriteOutcome::written)
      .def_ro("there", &WriteOutcome::there)
      .def_ro("others", &WriteOutcome::others)
      .def_ro("warnings", &WriteOutcome::warnings)
      .def_ro("other_texts", &WriteOutcome::other_texts);
  m.def("write", &Write, "path"_a, "settings"_a, "grids"_a, "fields"_a, "steps"_a, "time_axis"_a, "load"_a,
        "Writes the fields of steps, each on its grid; `load(step, field, box)` gives the samples [z, y, x] "
        "of a box, by their places in the lists.");
}

}  // namespace quarry::python
