#include <algorithm>
#include <cmath>
#include <utility>

#include "clients/python/answer.h"
#include "clients/python/attributes.h"
#include "clients/python/background.h"
#include "clients/python/bind.h"
#include "clients/python/dataset.h"
#include "clients/python/translate.h"
#include "quarry/format/description_rules.h"
#include "quarry/format/dimension_names.h"
#include "quarry/query/coordinate_fields.h"
#include "quarry/query/region.h"
#include "quarry/query/series_choice.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace quarry::python {
namespace {

using client::CallOptions;

std::unique_ptr<Feed<StepSummary>> Watch(const Dataset& self, std::optional<std::uint64_t> after,
                                         double patience) {
  client::WatchRequest request;
  request.after = after;
  request.patience_ms = static_cast<std::int64_t>(patience * 1000);
  return std::make_unique<Feed<StepSummary>>(
      [dataset = self.share(), request](const CancelToken& cancel, const auto& deliver) {
        CallOptions options;
        options.cancel = cancel;
        return dataset->WatchSteps(
            request, [&](const StepSummary& step) { return deliver(StepSummary(step)); }, options);
      });
}

/// Name, error, and the records of the steps.
using BoundedField = std::tuple<std::string, double, std::vector<const FieldSummary*>>;

/// An array that owns its values.
nb::any ToArray(std::vector<double> values) {
  auto* const held = new std::vector<double>(std::move(values));
  const nb::capsule owner(held,
                          [](void* values) noexcept { delete static_cast<std::vector<double>*>(values); });
  const std::size_t count = held->size();
  return nb::borrow<nb::any>(nb::cast(nb::ndarray<nb::numpy, double>(held->data(), 1, &count, owner)));
}

nb::any Positions(const FieldGrid& self, std::size_t axis) {
  const GridDescription& grid = self.grid;
  std::vector<double> positions(static_cast<std::size_t>(grid.dims[2 - axis]));
  for (std::size_t i = 0; i < positions.size(); ++i)
    positions[i] = PositionOf(grid, 2 - axis, static_cast<std::int64_t>(i));
  return ToArray(std::move(positions));
}

using PointArray = nb::ndarray<const double, nb::shape<-1, 3>, nb::c_contig, nb::device::cpu>;

/// Values as an array, and the error bound.
std::pair<nb::any, double> Points(const Dataset& self, const std::string& field,
                                  std::optional<std::uint64_t> step, const PointArray& positions,
                                  bool physical, std::optional<int> layer) {
  query::PointsRequest request{field, step, {}, false, layer};
  request.points.reserve(positions.shape(0));
  for (std::size_t p = 0; p < positions.shape(0); ++p)
    request.points.push_back({positions(p, 2), positions(p, 1), positions(p, 0)});
  query::PointsAnswer answer = Take(self.Run(
      false, [&](const client::Dataset& dataset, const CallOptions& options) -> Result<query::PointsAnswer> {
        if (physical) {
          QUARRY_ASSIGN_OR_RETURN(const client::Places places, self.PlacesOf(field, step, options));
          QUARRY_ASSIGN_OR_RETURN(request.points, places.SampleCoordinatesOf(request.points, options.cancel));
        }
        return dataset.ReadPoints(request, options);
      }));
  return {ToArray(std::move(answer.values)), answer.max_error};
}

}  // namespace

void BindDataset(nb::module_& m) {
  nb::class_<Feed<Streamed>>(m, "Stream", nb::is_weak_referenceable())
      .def("next",
           [](Feed<Streamed>& self) -> std::optional<Answer> {
             std::optional<Streamed> samples = self.Next(&Check);
             if (!samples) return std::nullopt;
             return ToAnswer(std::move(samples->samples), samples->given, std::nullopt);
           })
      .def("close", &Feed<Streamed>::Close);
  nb::class_<Feed<StepSummary>>(m, "Watch", nb::is_weak_referenceable())
      .def("next", [](Feed<StepSummary>& self) { return self.Next(&Check); })
      .def("close", &Feed<StepSummary>::Close);
  nb::class_<FieldGrid>(m, "FieldGrid", "A grid, with the names of its dimensions. Everything is z, y, x.")
      .def_prop_ro("shape", [](const FieldGrid& self) { return ToZyx(self.grid.dims); })
      .def_prop_ro("patch", [](const FieldGrid& self) { return ToZyx(self.grid.patch); })
      .def_prop_ro("levels", [](const FieldGrid& self) { return self.grid.levels; })
      .def_prop_ro("origin", [](const FieldGrid& self) { return ToZyx(self.grid.origin); })
      .def_prop_ro("spacing", [](const FieldGrid& self) { return ToZyx(self.grid.spacing); })
      .def_prop_ro("has_axis", [](const FieldGrid& self) { return ToZyx(self.grid.has_axis); })
      .def_prop_ro("axis_names", [](const FieldGrid& self) { return ToZyx(self.grid.axis_names); })
      .def_prop_ro("axis_units", [](const FieldGrid& self) { return ToZyx(self.grid.axis_units); })
      .def_prop_ro("coordinates", [](const FieldGrid& self) { return ToZyx(self.grid.coordinates); })
      .def_prop_ro(
          "axis_attributes",
          [](const FieldGrid& self) {
            const auto& [x, y, z] = self.grid.axis_attributes;
            return std::tuple(ToPython(z), ToPython(y), ToPython(x));
          },
          nb::for_getter(nb::sig("def axis_attributes(self, /) -> tuple[dict[str, typing.Any], dict[str, "
                                 "typing.Any], dict[str, typing.Any]]")))
      .def_prop_ro("unplaced", [](const FieldGrid& self) { return ToZyx(self.grid.unplaced); })
      .def_prop_ro("position_dtypes",
                   [](const FieldGrid& self) {
                     const auto& [x, y, z] = self.grid.position_types;
                     return std::tuple(std::string(Name(z)), std::string(Name(y)), std::string(Name(x)));
                   })
      .def_prop_ro("dim_names", [](const FieldGrid& self) { return ToZyx(self.dim_names); })
      .def(
          "find_axis",
          [](const FieldGrid& self, const std::string& name) -> std::optional<int> {
            const auto axis = FindAxis(self.grid, self.dim_names, name);
            return axis ? std::optional(2 - static_cast<int>(*axis)) : std::nullopt;
          },
          "name"_a, "The place of an axis, 0 (z) to 2 (x), by its name or its letter; None if there is none.")
      .def("positions", &Positions, "axis"_a, "Of all samples along axis 0 (z), 1 (y) or 2 (x).")
      .def(
          "box_of",
          [](const FieldGrid& self, const std::vector<NamedInterval>& intervals) {
            std::vector<query::AxisInterval> named;
            for (const auto& [axis, low, high] : intervals) named.push_back({axis, low, high});
            return ToZyx(Take(query::BoxOfRegion(self.grid, self.dim_names, named)));
          },
          "intervals"_a,
          "The box of the samples at these positions: (axis, low, high), both ends included; None: no end.");
  nb::class_<NamedText>(m, "TextCoordinate", "A coordinate of text.")
      .def_ro("name", &NamedText::name, "That of its dimension, if it is the coordinate of that.")
      .def_ro("dim", &NamedText::dim, "The dimension along which it lies; empty: it is one text.")
      .def_prop_ro("grid", [](const NamedText& self) { return self.text.grid; })
      .def_prop_ro(
          "axis",
          [](const NamedText& self) {
            return self.text.axis ? std::optional(2 - static_cast<int>(*self.text.axis)) : std::nullopt;
          },
          "0, 1, 2 for z, y, x of its grid; None: it is one text.")
      .def_prop_ro("texts", [](const NamedText& self) { return self.text.texts; })
      .def_prop_ro(
          "attributes", [](const NamedText& self) { return ToPython(self.text.attributes); },
          nb::for_getter(nb::sig("def attributes(self, /) -> dict[str, typing.Any]")));
  nb::class_<Dataset>(m, "Dataset")
      .def_prop_ro("grids",
                   [](const Dataset& self) {
                     std::vector<FieldGrid> grids;
                     const auto names = NamesOfDimensions(self.description()).axes;
                     for (std::size_t g = 0; g < names.size(); ++g)
                       grids.push_back({self.description().grids[g], names[g]});
                     return grids;
                   })
      .def_prop_ro("texts",
                   [](const Dataset& self) {
                     const DatasetDescription& dataset = self.description();
                     const auto names = NamesOfDimensions(dataset).axes;
                     std::vector<NamedText> texts;
                     for (const TextCoordinate& text : dataset.texts) {
                       const std::string dim = text.axis ? names[text.grid][*text.axis] : "";
                       const bool is_of_axis =
                           text.axis && dataset.grids[text.grid].axis_names[*text.axis] == text.name;
                       texts.push_back({text, is_of_axis ? dim : text.name, dim});
                     }
                     return texts;
                   })
      .def_prop_ro(
          "step_names",
          [](const Dataset& self) {
            const StepNames names = NamesOfDimensions(self.description()).steps;
            return std::tuple(names.dimension, names.numbers, names.times);
          },
          "Of the dimension of the steps, of the variable with their numbers, and of that with their times.")
      .def_prop_ro(
          "attributes", [](const Dataset& self) { return ToPython(self.description().attributes); },
          nb::for_getter(nb::sig("def attributes(self, /) -> dict[str, typing.Any]")),
          "What its source says of the whole.")
      .def_prop_ro(
          "time_name", [](const Dataset& self) { return self.description().time_name; },
          "Of the dimension whose coordinate the times are; empty: the steps lie along their numbers.")
      .def_prop_ro("time_units", [](const Dataset& self) { return self.description().time_unit.units; })
      .def_prop_ro("calendar", [](const Dataset& self) { return self.description().time_unit.calendar; })
      .def_prop_ro(
          "time_attributes",
          [](const Dataset& self) { return ToPython(TimeAttributesOf(self.description())); },
          nb::for_getter(nb::sig("def time_attributes(self, /) -> dict[str, typing.Any]")),
          "Attributes of a variable with the times of the steps, as CF has them.")
      .def_prop_ro(
          "kept_time_attributes",
          [](const Dataset& self) { return ToPython(self.description().time_attributes); },
          nb::for_getter(nb::sig("def kept_time_attributes(self, /) -> dict[str, typing.Any]")),
          "What the source says of the time besides, without unit and calendar.")
      .def(
          "date_of",
          [](const Dataset& self, double time) { return DateOfTime(time, self.description().time_unit); },
          "time"_a, "The date of a time; None if the unit has no reference date.")
      .def(
          "time_text",
          [](const Dataset& self, double time) { return TimeText(time, self.description().time_unit); },
          "time"_a, "For people: the date of a time, or the number with its unit.")
      .def_prop_ro("created_by", [](const Dataset& self) { return self.description().created_by; })
      .def_prop_ro("fields", [](const Dataset& self) { return self.description().fields; })
      .def("step_numbers",
           [](const Dataset& self) {
             return Take(self.Run(true, [](const client::Dataset& dataset, const CallOptions& options) {
               return dataset.StepNumbers(options);
             }));
           })
      .def(
          "has_field",
          [](const Dataset& self, std::uint64_t number, const std::string& field) {
            return Take(self.Run(true, [&](const client::Dataset& dataset, const CallOptions& options) {
              return dataset.HasField(number, field, options);
            }));
          },
          "number"_a, "field"_a)
      .def("steps",
           [](const Dataset& self) {
             return Take(self.Run(false, [](const client::Dataset& dataset, const CallOptions& options) {
               return dataset.Steps(options);
             }));
           })
      .def(
          "moves",
          [](const Dataset& self, const StepSummary& step) {
            return std::ranges::any_of(step.fields, [&](const FieldSummary& held) {
              const auto number = self.description().FindField(held.name);
              return !number || !self.description().fields[*number].still;
            });
          },
          "step"_a, "Whether a step has a field that changes with time.")
      .def(
          "choose",
          [](const Dataset& self, const std::vector<BoundedField>& bounds) {
            std::vector<query::BoundedField> fields;
            for (const auto& [name, error, steps] : bounds)
              fields.push_back({name, error, {steps.begin(), steps.end()}});
            query::SeriesChoice choice = Take(query::ChooseForSeries(self.description(), fields));
            return std::pair(choice.level, std::move(choice.layers));
          },
          "fields"_a)
      .def("plan",
           [](const Dataset& self, const Question& question) {
             return Take(self.Run(false, [&](const client::Dataset& dataset, const CallOptions& options) {
               return dataset.PlanRead(question, options);
             }));
           })
      .def("read", &Read, "question"_a, "mark"_a = true, "out"_a.none() = nb::none())
      .def("stream", &Stream, "question"_a)
      .def("watch", &Watch, "after"_a.none(), "patience"_a)
      .def(
          "statistics",
          [](const Dataset& self, const Question& question, std::vector<double> percentiles, int bins,
             std::optional<std::pair<double, double>> range, const std::string& scale) {
            const query::StatisticsRequest request{question, std::move(percentiles), bins, range,
                                                   Take(query::ParseHistogramScale(scale))};
            return Take(self.Run(false, [&](const client::Dataset& dataset, const CallOptions& options) {
              return dataset.Statistics(request, options);
            }));
          },
          "question"_a, "percentiles"_a, "bins"_a, "range"_a.none(), "scale"_a)
      .def("points", &Points, "field"_a, "step"_a.none(), "positions"_a, "physical"_a, "layer"_a.none())
      .def(
          "position_titles",
          [](const Dataset& self, const std::string& field, bool physical) {
            query::PositionTitles titles;
            if (const auto number = self.description().FindField(field))
              titles = query::TitlesOfPositions(self.description(), *number, physical);
            return std::pair(ToZyx(titles.names), ToZyx(titles.units));
          },
          "field"_a, "physical"_a, "Names and units of the three numbers of a position, z, y, x.");
}

}  // namespace quarry::python
