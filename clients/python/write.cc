#include "clients/python/write.h"

#include <mpi.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>

#include "clients/python/background.h"
#include "clients/python/translate.h"
#include "quarry/base/version.h"
#include "quarry/format/description.h"
#include "quarry/format/dimension_names.h"
#include "quarry/input/input.h"
#include "writer/pipeline/dataset_writer.h"
#include "writer/pipeline/declare.h"
#include "writer/pipeline/replace.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace quarry::python {
namespace {

using writer::BoxView;
using writer::DatasetWriter;

/// What the samples say about their grid.
struct Grid {
  GridDescription description;
  bool placed;  ///< whether they say where they lie
  std::optional<Index3> patch;
  std::optional<int> levels;
};

/// How it is written.
struct WriteSettings {
  writer::OpenMode mode;
  std::optional<std::uint64_t> memory;
  std::optional<int> files;
  bool break_lock;
  bool accept_range;
  bool goes_on;  ///< nobody has chosen the numbers of the steps
};

using Step = std::pair<std::uint64_t, std::optional<double>>;  ///< number and time
/// load(step, field, box): the samples of a box as an array [z, y, x]; positions in the lists of both.
using Loader = nb::callable;
using Written =
    std::pair<std::uint64_t, FieldStepDescription>;  ///< number of the step, and what became of the field

/// What ends the writing from the side of Python.
struct Interruption {
  CancelToken cancel = CancelToken::Create();
  std::exception_ptr raised;  ///< by `load`
};

/// One field of one step, box by box from a callable. Its calls come from a thread that does not hold
/// Python's lock.
class ArraySource final : public writer::FieldSource {
 public:
  ArraySource(const Loader& load, std::size_t step, std::size_t field, DataType type,
              Interruption* interruption)
      : load_(load), step_(step), field_(field), type_(type), interruption_(*interruption) {}
  ~ArraySource() override { Drop(); }

  distribution::Ownership Owned(const Box& region) const override { return {{region}}; }

  Result<std::vector<BoxView>> Load(const std::vector<Box>& boxes) override {
    Drop();
    std::vector<BoxView> views;
    for (const Box& box : boxes) {
      if (interruption_.cancel.cancelled())
        return Status(StatusCode::kCancelled, "the writing was interrupted");
      QUARRY_ASSIGN_OR_RETURN(const BoxView view, LoadBox(box));
      views.push_back(view);
    }
    return views;
  }
  void Release() override { Drop(); }

 private:
  using Array = nb::ndarray<nb::ro, nb::ndim<3>, nb::device::cpu>;

  Result<BoxView> LoadBox(const Box& box) {
    const nb::gil_scoped_acquire lock;
    try {
      arrays_.push_back(nb::cast<Array>(load_(step_, field_, ToZyx(box))));
    } catch (...) {
      interruption_.raised = std::current_exception();
      return Status(StatusCode::kCancelled, "an exception was raised");
    }
    const Array& array = arrays_.back();
    const auto size = static_cast<std::int64_t>(SizeOf(type_));
    const Index3 shape = box.shape();
    for (std::size_t axis = 0; axis < 3; ++axis) {
      if (static_cast<std::int64_t>(array.shape(2 - axis)) == shape[axis]) continue;
      return InvalidArgument(
          "the samples of the box {} were asked for, and an array of {} x {} x {} (z, y, x) came",
          ToString(box), array.shape(0), array.shape(1), array.shape(2));
    }
    if (static_cast<std::int64_t>(array.itemsize()) != size)
      return InvalidArgument("{} was declared, and an array with {} bytes a sample came", Name(type_),
                             array.itemsize());
    return BoxView{static_cast<const std::byte*>(array.data()),
                   {array.stride(2) * size, array.stride(1) * size, array.stride(0) * size}};
  }

  void Drop() {
    if (arrays_.empty()) return;
    const nb::gil_scoped_acquire lock;
    arrays_.clear();
  }

  const Loader& load_;
  const std::size_t step_;
  const std::size_t field_;
  const DataType type_;
  Interruption& interruption_;
  std::vector<Array> arrays_;  ///< behind the views
};

/// Refuses another grid than that of a field of the dataset, and positions elsewhere.
Status CheckPlace(const Grid& grid, const GridDescription& there) {
  const GridDescription& here = grid.description;
  for (std::size_t axis = 0; axis < 3 && grid.placed; ++axis) {
    if (here.origin[axis] == there.origin[axis] && here.spacing[axis] == there.spacing[axis] &&
        here.coordinates[axis] == there.coordinates[axis])
      continue;
    const Status elsewhere = InvalidArgument(
        "the samples lie elsewhere along {} (origin {}, spacing {}) than in the dataset (origin {}, spacing "
        "{}); write "
        "another dataset, or leave the positions out to continue this one",
        kAxisNames[axis], here.origin[axis], here.spacing[axis], there.origin[axis], there.spacing[axis]);
    return WithAxes(elsewhere, there);
  }
  return Status::Ok();
}

/// Whether samples lie on a grid of the dataset: those that say where they lie do, by name and place. Arrays
/// without names seem to have all axes.
bool IsOn(const Grid& grid, const GridDescription& there) {
  const GridDescription& here = grid.description;
  if (here.dims != there.dims) return false;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    if (!here.has_axis[axis] && there.has_axis[axis]) return false;
    const std::string& name = here.axis_names[axis];
    const bool is_named = here.has_axis[axis] && !name.empty() && name != std::string(1, kAxisNames[axis]);
    if (is_named && name != there.axis_names[axis]) return false;
  }
  if (!grid.placed) return true;
  return CheckPlace(grid, there).ok() && here.axis_names == there.axis_names &&
         here.axis_units == there.axis_units;
}

/// The grid of a field in the dataset, which gets a new one if none is the same.
Result<std::size_t> ChooseGrid(const Grid& grid, const std::string& field, DatasetDescription* dataset) {
  QUARRY_RETURN_IF_ERROR(CheckPlaces(grid.description));
  const writer::LayoutRequest layout{{}, {}, grid.patch, grid.levels, {}};
  const Index3& dims = grid.description.dims;
  if (const std::optional<std::size_t> known = dataset->FindField(field)) {
    const std::size_t g = dataset->fields[*known].grid;
    QUARRY_RETURN_IF_ERROR(writer::CheckSameLayout(dims, layout, *dataset, g));
    QUARRY_RETURN_IF_ERROR(CheckPlace(grid, dataset->grids[g]));
    return g;
  }
  for (std::size_t g = 0; g < dataset->grids.size(); ++g) {
    if (!IsOn(grid, dataset->grids[g])) continue;
    QUARRY_RETURN_IF_ERROR(writer::CheckSameLayout(dims, layout, *dataset, g));
    return g;
  }
  return writer::AddGrid(grid.description, layout, dataset);
}

/// The description of a dataset after this writing.
/// @param grids  of the fields
Result<DatasetDescription> Describe(const std::vector<Grid>& grids, std::vector<writer::FieldRequest> fields,
                                    const std::optional<DatasetDescription>& existing) {
  DatasetDescription dataset = existing ? *existing : writer::DescribeDataset({});
  if (!existing) dataset.created_by = fmt::format("quarry-python {}", kVersion);
  for (std::size_t f = 0; f < fields.size(); ++f) {
    Result<std::size_t> grid = ChooseGrid(grids[f], fields[f].name, &dataset);
    if (!grid.ok()) return std::move(grid).status().Annotate(fmt::format("field \"{}\"", fields[f].name));
    const std::optional<std::size_t> known = dataset.FindField(fields[f].name);
    if (known) fields[f] = writer::ContinueField(std::move(fields[f]), dataset.fields[*known]);
    QUARRY_ASSIGN_OR_RETURN(FieldDescription wanted, writer::DescribeField(fields[f]));
    wanted.grid = *grid;
    if (known) {
      QUARRY_RETURN_IF_ERROR(writer::CheckSameField(wanted, dataset.fields[*known]));
    } else {
      dataset.fields.push_back(std::move(wanted));
    }
  }
  return dataset;
}

/// One call of `quarry.write`, on a thread without Python's lock.
class Run {
 public:
  Run(const std::vector<writer::FieldRequest>& fields, std::vector<Step> steps, const Loader& load,
      Interruption* interruption)
      : fields_(fields), steps_(std::move(steps)), load_(load), interruption_(*interruption) {}

  Result<std::vector<Written>> Execute(const std::string& path, const WriteSettings& settings,
                                       const std::vector<Grid>& grids, const TimeUnit& unit) {
    writer::PipelineOptions options;
    options.memory_per_rank = settings.memory;
    options.files = settings.files;
    options.break_lock = settings.break_lock;
    options.accept_range = settings.accept_range;
    options.range_words = {"fill=", "tolerance=", "accept_range=True"};
    goes_on_ = settings.goes_on && settings.mode == writer::OpenMode::kAppend;
    mode_ = settings.mode;
    QUARRY_ASSIGN_OR_RETURN(writer_, DatasetWriter::Open(MPI_COMM_WORLD, path, settings.mode, options));
    Status status = Write(path, grids, unit);
    if (!status.ok()) writer_->Abandon();
    if (!status.ok()) return status;
    return std::move(written_);
  }

 private:
  Status Write(const std::string& path, const std::vector<Grid>& grids, const TimeUnit& unit) {
    QUARRY_ASSIGN_OR_RETURN(DatasetDescription dataset, Describe(grids, fields_, writer_->existing()));
    QUARRY_ASSIGN_OR_RETURN(dataset.time_unit, writer_->ChooseTimeUnit(unit));
    for (auto& [step, time] : steps_) {
      QUARRY_RETURN_IF_ERROR(CheckTime(time).Annotate(fmt::format("step {}", step)));
      QUARRY_ASSIGN_OR_RETURN(time, writer::TimeInUnit(time, unit, dataset.time_unit));
    }
    QUARRY_RETURN_IF_ERROR(writer_->Declare(dataset));
    if (goes_on_) QUARRY_RETURN_IF_ERROR(GoOn());
    std::vector<writer::PublishedStep> published(steps_.size());
    for (std::size_t s = 0; s < steps_.size(); ++s) {
      if (!writer_->existing()) break;
      QUARRY_ASSIGN_OR_RETURN(published[s], writer_->Published(steps_[s].first));
      QUARRY_RETURN_IF_ERROR(CheckNew(path, steps_[s], published[s]));
    }
    for (std::size_t s = 0; s < steps_.size(); ++s) QUARRY_RETURN_IF_ERROR(WriteStep(s, published[s]));
    return Status::Ok();
  }

  /// The steps come after the last one that has any of the fields.
  Status GoOn() {
    std::uint64_t first = 0;
    for (const writer::FieldRequest& field : fields_) {
      QUARRY_ASSIGN_OR_RETURN(const std::optional<std::uint64_t> last, writer_->LastStep(field.name));
      if (last) first = std::max(first, *last + 1);
    }
    for (auto& [step, time] : steps_) step += first;
    return Status::Ok();
  }

  /// Before anything is written.
  Status CheckNew(const std::string& path, const Step& step, const writer::PublishedStep& published) const {
    for (const writer::FieldRequest& field : fields_) {
      if (!published.has(field.name)) continue;
      if (mode_ == writer::OpenMode::kResume) {
        QUARRY_RETURN_IF_ERROR(
            CheckSameInput(path, step.first, published, field.name, kSourceName, step.second));
        continue;
      }
      return {
          StatusCode::kAlreadyExists,
          fmt::format("step {} of \"{}\" has the field \"{}\" already; leave the step out to go on after the "
                      "last one, or choose another field",
                      step.first, path, field.name)};
    }
    return Status::Ok();
  }

  Status WriteStep(std::size_t number, const writer::PublishedStep& published) {
    const auto& [step, time] = steps_[number];
    std::vector<Written> written;
    for (std::size_t f = 0; f < fields_.size(); ++f) {
      if (published.has(fields_[f].name)) continue;
      ArraySource source(load_, number, f, fields_[f].type, &interruption_);
      QUARRY_ASSIGN_OR_RETURN(
          writer::FieldOutcome outcome,
          writer_->WriteField(step, *writer_->dataset().FindField(fields_[f].name), kSourceName, &source));
      outcome.description.stored_bytes += outcome.new_mask_bytes;
      written.emplace_back(step, std::move(outcome.description));
    }
    if (written.empty()) return Status::Ok();
    QUARRY_RETURN_IF_ERROR(writer_->PublishStep(step, time));
    written_.insert(written_.end(), written.begin(), written.end());
    return Status::Ok();
  }

  const std::vector<writer::FieldRequest>& fields_;
  std::vector<Step> steps_;
  const Loader& load_;
  Interruption& interruption_;
  static constexpr const char* kSourceName = "array";
  writer::OpenMode mode_ = writer::OpenMode::kCreate;
  bool goes_on_ = false;
  std::unique_ptr<DatasetWriter> writer_;
  std::vector<Written> written_;
};

std::vector<Written> Write(const std::string& path, const WriteSettings& settings,
                           const std::vector<Grid>& grids, const std::vector<writer::FieldRequest>& fields,
                           const std::vector<Step>& steps,
                           const std::pair<std::string, std::string>& time_unit, const Loader& load) {
  Interruption interruption;
  auto written = RunInBackground(interruption.cancel, false, [&]() -> Result<std::vector<Written>> {
    return Run(fields, steps, load, &interruption)
        .Execute(path, settings, grids, {time_unit.first, time_unit.second});
  });
  if (interruption.raised) std::rethrow_exception(interruption.raised);
  return Take(std::move(written));
}

writer::OpenMode ToMode(const std::string& mode) {
  if (mode == "append") return writer::OpenMode::kAppend;
  return mode == "resume" ? writer::OpenMode::kResume : writer::OpenMode::kCreate;
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
         const std::optional<Zyx<std::int64_t>>& patch, std::optional<int> levels) {
        GridDescription description{ToXyz(shape), ToXyz(origin), ToXyz(spacing),
                                    ToXyz(names), ToXyz(units),  ToXyz(coordinates)};
        description.has_axis = ToXyz(has_axis);
        new (self)
            Grid{std::move(description), placed, patch ? std::optional(ToXyz(*patch)) : std::nullopt, levels};
      },
      nb::kw_only(), "shape"_a, "origin"_a, "spacing"_a, "names"_a, "units"_a, "coordinates"_a, "has_axis"_a,
      "placed"_a, "patch"_a.none(), "levels"_a.none());
  nb::class_<WriteSettings>(m, "WriteSettings")
      .def(
          "__init__",
          [](WriteSettings* self, const std::string& mode, std::optional<std::uint64_t> memory,
             std::optional<int> files, bool break_lock, bool accept_range, bool goes_on) {
            new (self) WriteSettings{ToMode(mode), memory, files, break_lock, accept_range, goes_on};
          },
          nb::kw_only(), "mode"_a, "memory"_a.none(), "files"_a.none(), "break_lock"_a, "accept_range"_a,
          "goes_on"_a);
  nb::class_<writer::FieldRequest>(m, "FieldRequest")
      .def(
          "__init__",
          [](writer::FieldRequest* self, std::string name, const std::string& dtype,
             std::optional<double> tolerance, std::optional<double> relative,
             std::optional<double> pointwise_relative, bool lossless, std::vector<double> layers,
             bool relative_layers, std::string units, const std::optional<nb::object>& fill,
             const std::string& codec, std::optional<int> keyframe) {
            std::optional<CoderId> coder;
            if (!codec.empty()) coder = Take(ParseCoder(codec));
            const auto [type, given] = Take(ParseNamedType(dtype));
            new (self) writer::FieldRequest{std::move(name),
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
                                            given};
          },
          nb::kw_only(), "name"_a, "dtype"_a, "tolerance"_a.none(), "relative"_a.none(),
          "pointwise_relative"_a.none(), "lossless"_a, "layers"_a, "relative_layers"_a, "units"_a,
          "fill"_a.none(), "codec"_a, "keyframe"_a.none());
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
  m.def("is_no_axis", &input::IsNoAxis, "name"_a,
        "Whether a dimension of this name is never an axis of a grid: member, channel, mode, ...");
  m.def("brings_steps", &input::BringsSteps, "name"_a, "is_slowest"_a, "axis"_a, "units"_a,
        "Whether a dimension brings the steps by its name and the attributes of its coordinate.");
  m.def("counts_steps", &input::CountsSteps, "name"_a,
        "Whether the numbers along a dimension of this name count steps, and are no times: step, frame, ...");
  m.def("says_time", &input::SaysTime, "axis"_a, "standard_name"_a, "units"_a,
        "Whether a coordinate with these attributes is time.");
  m.def("names_vertical", &input::NamesVertical, "name"_a,
        "Whether a slowest dimension without a coordinate has a name of what is vertical: level, depth, ...");
  m.def(
      "place_axis",
      [](const std::vector<double>& positions,
         bool is_float32) -> std::optional<std::tuple<double, double, bool>> {
        input::InputAxis axis;
        input::PlaceAxis(positions, is_float32 ? DataType::kFloat32 : DataType::kFloat64, &axis);
        if (!axis.origin) return std::nullopt;
        return std::tuple(*axis.origin, axis.spacing.value_or(1), axis.coordinates.empty());
      },
      "positions"_a, "is_float32"_a,
      "Origin and spacing of an axis with samples at these positions, and whether that says all of them; "
      "None where "
      "samples cannot lie: not finite, or neither ascending nor descending.");
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
  m.def("write", &Write, "path"_a, "settings"_a, "grids"_a, "fields"_a, "steps"_a, "time_unit"_a, "load"_a,
        "Writes the fields of steps, each on its grid; `load(step, field, box)` gives the samples [z, y, x] "
        "of a box, by their "
        "places in "
        "the lists.");
}

}  // namespace quarry::python
