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

#include "clients/python/attributes.h"
#include "clients/python/background.h"
#include "clients/python/translate.h"
#include "quarry/base/calendar.h"
#include "quarry/base/version.h"
#include "quarry/format/description.h"
#include "quarry/format/dimension_names.h"
#include "quarry/format/manifest.h"
#include "quarry/input/input.h"
#include "writer/pipeline/dataset_writer.h"
#include "writer/pipeline/declare.h"
#include "writer/pipeline/edit.h"
#include "writer/pipeline/replace.h"
#include "writer/pipeline/source_grid.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace quarry::python {
namespace {

using writer::BoxView;
using writer::DatasetWriter;

/// The grid of samples as far as they say, and how it is to be cut.
struct Grid {
  SourceGrid source;
  std::optional<Index3> patch;
  std::optional<int> levels;
};

/// A field that is to be written.
struct Request {
  writer::FieldRequest field;
  bool moves;  ///< it is another one at another moment, as all are that do not describe others
};

/// A coordinate of text.
struct Text {
  TextCoordinate said;               ///< without its grid
  std::optional<std::size_t> field;  ///< along one of whose axes it lies: position in the list of fields
};

/// How it is written.
struct WriteSettings {
  writer::OpenMode mode;
  std::optional<std::uint64_t> memory;
  std::optional<int> files;
  bool break_lock;
  bool accept_range;
  bool goes_on;           ///< the caller has not chosen the numbers of the steps
  Attributes attributes;  ///< attributes of the dataset
  std::vector<Text> texts;
};

/// Unit, calendar, name and attributes of the times of the steps.
struct TimeAxis {
  TimeUnit unit;
  std::string name;  ///< see DatasetDescription::time_name
  Attributes attributes;
};

using Step = std::pair<std::uint64_t, std::optional<double>>;  ///< number and time
/// load(step, field, box): the samples of a box as an array [z, y, x]; positions in the lists of both.
using Loader = nb::callable;
using Written =
    std::pair<std::uint64_t, FieldStepDescription>;  ///< number of the step, and what became of the field

/// Ends the writing from the side of Python.
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
      return InvalidArgument("the callback returned an array of {1} x {2} x {3} (z, y, x) for the box {0}",
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

/// The description of a dataset after this writing.
/// @param grids  of the fields
/// @param other_texts  gets the names of coordinates of text that the dataset has otherwise, and keeps so
Result<DatasetDescription> Describe(const std::vector<Grid>& grids, std::vector<writer::FieldRequest> fields,
                                    const WriteSettings& settings, const TimeAxis& time,
                                    const std::optional<DatasetDescription>& existing,
                                    std::vector<std::string>* other_texts) {
  DatasetDescription dataset = existing ? *existing : writer::DescribeDataset({});
  if (!existing) {
    dataset.created_by = fmt::format("quarry-python {}", kVersion);
    dataset.attributes = settings.attributes;
    dataset.time_name = time.name;
    dataset.time_attributes = time.attributes;
  }
  std::vector<std::size_t> numbers;  // numbers of the fields' grids
  for (std::size_t f = 0; f < fields.size(); ++f) {
    const writer::LayoutRequest layout{{}, {}, grids[f].patch, grids[f].levels, {}};
    Result<std::size_t> grid = writer::ChooseGrid(
        grids[f].source, layout, fields[f].name,
        "write another dataset, or leave the positions out to continue this one", &dataset);
    if (!grid.ok()) return std::move(grid).status().Annotate(fmt::format("field \"{}\"", fields[f].name));
    const std::optional<std::size_t> known = dataset.FindField(fields[f].name);
    if (known) fields[f] = writer::ContinueField(std::move(fields[f]), dataset.fields[*known]);
    QUARRY_ASSIGN_OR_RETURN(FieldDescription wanted, writer::DescribeField(fields[f]));
    wanted.grid = *grid;
    numbers.push_back(*grid);
    QUARRY_RETURN_IF_ERROR(writer::TakeField(std::move(wanted), &dataset));
  }
  for (Text text : settings.texts) {
    if (text.field) text.said.grid = numbers.at(*text.field);
    if (!writer::TakeText(text.said, &dataset)) other_texts->push_back(text.said.name);
  }
  return dataset;
}

/// Which fields are to stand still and are in the dataset already. Where nothing changes that is appended,
/// and it is there, the caller goes on with the next step.
/// @errors kInvalidArgument: one changes in the dataset
Result<std::vector<bool>> FindWritten(writer::OpenMode mode,
                                      const std::optional<DatasetDescription>& existing,
                                      std::vector<Request>* requests) {
  const auto changes = [](const Request& request) { return !request.field.still; };
  const bool goes_on = mode == writer::OpenMode::kAppend && std::ranges::none_of(*requests, changes);
  std::vector<bool> written;
  for (Request& request : *requests) {
    writer::FieldRequest& field = request.field;
    const auto known = existing ? existing->FindField(field.name) : std::nullopt;
    if (known && goes_on && request.moves) field.still = false;
    if (known && field.still && !existing->fields[*known].still)
      return InvalidArgument(
          "field \"{}\" has no steps here, and changes with time in the dataset; write it by itself, which "
          "adds a "
          "step, or leave it out",
          field.name);
    written.push_back(known && field.still);
  }
  return written;
}

/// Result of a call.
struct Outcome {
  std::vector<Written> written;
  std::vector<std::string> there;  ///< fields that stand still, and that the dataset had already
  /// Attributes that the dataset has otherwise, or not, and keeps so: of a field, or of the whole, "".
  std::vector<std::pair<std::string, std::vector<std::string>>> others;
  std::vector<std::string> other_texts;  ///< coordinates of text that the dataset has otherwise, and keeps so
};

/// One call of `quarry.write`, on a thread without Python's lock.
class Run {
 public:
  Run(std::vector<Request> requests, std::vector<Step> steps, const Loader& load, Interruption* interruption)
      : requests_(std::move(requests)), steps_(std::move(steps)), load_(load), interruption_(*interruption) {}

  Result<Outcome> Execute(const std::string& path, const WriteSettings& settings,
                          const std::vector<Grid>& grids, const TimeAxis& time) {
    writer::PipelineOptions options;
    options.memory_per_rank = settings.memory;
    options.files = settings.files;
    options.break_lock = settings.break_lock;
    options.accept_range = settings.accept_range;
    options.range_words = {"fill=", "tolerance=", "accept_range=True"};
    goes_on_ = settings.goes_on && settings.mode == writer::OpenMode::kAppend;
    mode_ = settings.mode;
    QUARRY_ASSIGN_OR_RETURN(writer_, DatasetWriter::Open(MPI_COMM_WORLD, path, settings.mode, options));
    Status status = Write(path, grids, settings, time);
    if (!status.ok()) writer_->Abandon();
    if (!status.ok()) return status;
    return std::move(outcome_);
  }

 private:
  Status Write(const std::string& path, const std::vector<Grid>& grids, const WriteSettings& settings,
               const TimeAxis& axis) {
    const TimeUnit& unit = axis.unit;
    QUARRY_ASSIGN_OR_RETURN(there_, FindWritten(mode_, writer_->existing(), &requests_));
    for (std::size_t f = 0; f < requests_.size(); ++f) {
      fields_.push_back(requests_[f].field);
      if (there_[f] && mode_ == writer::OpenMode::kAppend) outcome_.there.push_back(fields_[f].name);
    }
    QUARRY_ASSIGN_OR_RETURN(DatasetDescription dataset, Describe(grids, fields_, settings, axis,
                                                                 writer_->existing(), &outcome_.other_texts));
    QUARRY_ASSIGN_OR_RETURN(dataset.time_unit, writer_->ChooseTimeUnit(unit));
    for (auto& [step, time] : steps_) {
      QUARRY_RETURN_IF_ERROR(CheckTime(time).Annotate(fmt::format("step {}", step)));
      QUARRY_ASSIGN_OR_RETURN(time, writer::TimeInUnit(time, unit, dataset.time_unit));
    }
    QUARRY_RETURN_IF_ERROR(writer_->Declare(dataset));
    ListOthers(settings);
    if (goes_on_) QUARRY_RETURN_IF_ERROR(GoOn());
    std::vector<writer::PublishedStep> published(steps_.size());
    for (std::size_t s = 0; s < steps_.size(); ++s) {
      if (!writer_->existing()) break;
      QUARRY_ASSIGN_OR_RETURN(published[s], writer_->Published(steps_[s].first));
      QUARRY_RETURN_IF_ERROR(CheckNew(path, s, published[s]));
    }
    for (std::size_t s = 0; s < steps_.size(); ++s) QUARRY_RETURN_IF_ERROR(WriteStep(s, published[s]));
    return Status::Ok();
  }

  void ListOthers(const WriteSettings& settings) {
    const DatasetDescription& dataset = writer_->dataset();
    const auto add = [&](const std::string& owner, const Attributes& said, const Attributes& kept) {
      std::vector<std::string> names = OtherAttributes(said, kept);
      if (!names.empty()) outcome_.others.emplace_back(owner, std::move(names));
    };
    add("", settings.attributes, dataset.attributes);
    for (const Text& text : settings.texts) {
      const auto kept = std::ranges::find(dataset.texts, text.said.name, &TextCoordinate::name);
      if (kept != dataset.texts.end()) add(text.said.name, text.said.attributes, kept->attributes);
    }
    for (const writer::FieldRequest& field : fields_)
      add(field.name, field.attributes, dataset.fields[*dataset.FindField(field.name)].attributes);
  }

  /// The steps come after the last one that has any of the fields.
  Status GoOn() {
    std::uint64_t first = 0;
    for (std::size_t f = 0; f < fields_.size(); ++f) {
      if (there_[f]) continue;
      QUARRY_ASSIGN_OR_RETURN(const std::optional<std::uint64_t> last, writer_->LastStep(fields_[f].name));
      if (last) first = std::max(first, *last + 1);
    }
    for (auto& [step, time] : steps_) step += first;
    return Status::Ok();
  }

  /// Before anything is written.
  Status CheckNew(const std::string& path, std::size_t number, const writer::PublishedStep& published) const {
    const Step& step = steps_[number];
    for (std::size_t f = 0; f < fields_.size(); ++f) {
      const writer::FieldRequest& field = fields_[f];
      if (!IsWritten(number, f) || !published.has(field.name)) continue;
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

  /// Whether a step gets a field: the first one gets those that stand still.
  bool IsWritten(std::size_t number, std::size_t field) const {
    return !there_[field] && (number == 0 || !fields_[field].still);
  }

  Status WriteStep(std::size_t number, const writer::PublishedStep& published) {
    const auto& [step, time] = steps_[number];
    std::vector<Written> written;
    for (std::size_t f = 0; f < fields_.size(); ++f) {
      if (!IsWritten(number, f) || published.has(fields_[f].name)) continue;
      ArraySource source(load_, number, f, fields_[f].type, &interruption_);
      QUARRY_ASSIGN_OR_RETURN(
          writer::FieldOutcome outcome,
          writer_->WriteField(step, *writer_->dataset().FindField(fields_[f].name), kSourceName, &source));
      outcome.description.stored_bytes += outcome.new_mask_bytes;
      written.emplace_back(step, std::move(outcome.description));
    }
    if (written.empty()) return Status::Ok();
    QUARRY_RETURN_IF_ERROR(writer_->PublishStep(step, time));
    outcome_.written.insert(outcome_.written.end(), written.begin(), written.end());
    return Status::Ok();
  }

  std::vector<Request> requests_;
  std::vector<writer::FieldRequest> fields_;  ///< requests as they are written
  std::vector<Step> steps_;
  std::vector<bool> there_;  ///< for each field, whether it is still and in the dataset already
  const Loader& load_;
  Interruption& interruption_;
  static constexpr const char* kSourceName = "array";
  writer::OpenMode mode_ = writer::OpenMode::kCreate;
  bool goes_on_ = false;
  std::unique_ptr<DatasetWriter> writer_;
  Outcome outcome_;
};

/// @returns  see Outcome
std::tuple<std::vector<Written>, std::vector<std::string>,
           std::vector<std::pair<std::string, std::vector<std::string>>>, std::vector<std::string>>
Write(const std::string& path, const WriteSettings& settings, const std::vector<Grid>& grids,
      const std::vector<Request>& requests, const std::vector<Step>& steps, const TimeAxis& time,
      const Loader& load) {
  Interruption interruption;
  auto outcome = RunInBackground(interruption.cancel, false, [&]() -> Result<Outcome> {
    return Run(requests, steps, load, &interruption).Execute(path, settings, grids, time);
  });
  if (interruption.raised) std::rethrow_exception(interruption.raised);
  Outcome taken = Take(std::move(outcome));
  return {std::move(taken.written), std::move(taken.there), std::move(taken.others),
          std::move(taken.other_texts)};
}

writer::OpenMode ToMode(const std::string& mode) {
  if (mode == "append") return writer::OpenMode::kAppend;
  return mode == "resume" ? writer::OpenMode::kResume : writer::OpenMode::kCreate;
}

writer::AttributeOwner::Kind ToOwner(const std::string& owner) {
  using Kind = writer::AttributeOwner::Kind;
  if (owner == "field") return Kind::kField;
  if (owner == "axis") return Kind::kAxis;
  return owner == "time" ? Kind::kTime : Kind::kDataset;
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
             std::optional<int> files, bool break_lock, bool accept_range, bool goes_on,
             const GivenAttributes& attributes, std::vector<Text> texts) {
            new (self) WriteSettings{ToMode(mode), memory,  files,           break_lock,
                                     accept_range, goes_on, attributes.kept, std::move(texts)};
          },
          nb::kw_only(), "mode"_a, "memory"_a.none(), "files"_a.none(), "break_lock"_a, "accept_range"_a,
          "goes_on"_a, "attributes"_a, "texts"_a);
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
      "Sets and removes attributes of a \"dataset\", a \"field\", an \"axis\" 0 to 2 (z, y, x) of a field, "
      "or the "
      "\"time\".");
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
      "needs "
      "any more.");
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
  m.def("write", &Write, "path"_a, "settings"_a, "grids"_a, "fields"_a, "steps"_a, "time_axis"_a, "load"_a,
        "Writes the fields of steps, each on its grid; `load(step, field, box)` gives the samples [z, y, x] "
        "of a box, by their "
        "places in "
        "the lists.");
}

}  // namespace quarry::python
