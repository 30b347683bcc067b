// The native part of the Python package: the C++ client, with samples as numpy arrays.
//
// It only translates.
// Python's lock is not held while anything is read, decoded or waited for; signals are looked at meanwhile,
// so that Ctrl-C ends a call. Names, defaults and indexing are in src/quarry.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <mutex>
#include <tuple>
#include <utility>

#include "clients/cpp/client.h"
#include "clients/cpp/grpc/client_grpc.h"
#include "clients/python/attributes.h"
#include "clients/python/background.h"
#include "clients/python/dataset.h"
#include "clients/python/translate.h"
#include "clients/python/write.h"
#include "clients/python/zarr.h"
#include "quarry/base/float16.h"
#include "quarry/base/version.h"
#include "quarry/codec/coder.h"
#include "quarry/format/dimension_names.h"
#include "quarry/query/coordinate_fields.h"
#include "quarry/query/region.h"
#include "quarry/query/series_choice.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace quarry::python {
namespace {

using client::CallOptions;
using client::LevelSamples;

void RaiseStatus(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const StatusError& error) {
    const nb::object type = nb::module_::import_("quarry._errors").attr("Error");
    const std::string& message = error.status.message();
    const nb::object said =
        nb::steal(PyUnicode_DecodeUTF8(message.data(), static_cast<Py_ssize_t>(message.size()), "replace"));
    const nb::object text = nb::module_::import_("quarry._words").attr("in_python")(said);
    const nb::object raised = type(static_cast<int>(error.status.code()), text);
    PyErr_SetObject(type.ptr(), raised.ptr());
  }
}

// ---- Processes

/// gRPC's threads and connections do not survive a fork.
void UseGrpc() {
  static std::atomic<pid_t> used_by{0};
  pid_t none = 0;
  if (used_by.compare_exchange_strong(none, getpid())) return client::EnableGrpc();
  if (used_by == getpid()) return;
  throw StatusError{
      {StatusCode::kFailedPrecondition,
       "this process was forked from one that had opened a server, and cannot open any; start processes with "
       "multiprocessing's \"spawn\" or \"forkserver\", or open servers after the fork only"}};
}

// ---- Samples

/// The dtype of the samples that Python gets.
nb::dlpack::dtype TypeOf(DataType type, GivenType given) {
  if (given == GivenType::kBool) return nb::dtype<bool>();
  if (given == GivenType::kFloat16) return {static_cast<std::uint8_t>(nb::dlpack::dtype_code::Float), 16, 1};
  return DispatchType(type, []<typename T>(T) { return nb::dtype<T>(); });
}

/// Stored samples as what they stand for, in the same place.
/// @returns their bytes, fewer for float16
std::size_t GiveBack(GivenType given, std::span<std::byte> bytes) {
  if (given == GivenType::kBool) {
    for (std::byte& sample : bytes) sample = sample == std::byte{0} ? std::byte{0} : std::byte{1};
  }
  if (given != GivenType::kFloat16) return bytes.size();
  const std::size_t count = bytes.size() / sizeof(float);
  for (std::size_t i = 0; i < count; ++i) {
    float wide = 0;
    std::memcpy(&wide, bytes.data() + i * sizeof(wide), sizeof(wide));
    const std::uint16_t half = HalfOfFloat(wide);
    std::memcpy(bytes.data() + i * sizeof(half), &half, sizeof(half));
  }
  return count * sizeof(std::uint16_t);
}

/// Makes missing samples of floating-point fields NaN, whatever they are in the files.
void MarkMissing(const LevelSamples& samples, std::optional<SampleValue> fill, std::span<std::byte> bytes) {
  if (!samples.may_miss && samples.left_out.empty()) return;
  DispatchType(samples.type, [&]<typename T>(T) {
    if constexpr (std::is_floating_point_v<T>) {
      const std::span typed(reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T));
      const T missing = fill.value_or(SampleValue(std::nan(""))).As<T>().value_or(T(0));
      for (T& sample : typed)
        if (!std::isfinite(sample) || sample == missing) sample = std::numeric_limits<T>::quiet_NaN();
    }
  });
}

/// The result of `read` and `stream`. The array owns the samples.
struct Answer {
  LevelSamples samples;  ///< without its data
  nb::any array;
};

Answer ToAnswer(LevelSamples samples, GivenType given, const std::optional<nb::object>& out) {
  if (out) return {std::move(samples), nb::borrow<nb::any>(*out)};
  auto* const data = new Bytes(std::move(samples.data));
  const nb::capsule owner(data, [](void* held) noexcept { delete static_cast<Bytes*>(held); });
  const Index3 shape = samples.extent.shape();
  const std::array<std::size_t, 3> zyx = {static_cast<std::size_t>(shape[2]),
                                          static_cast<std::size_t>(shape[1]),
                                          static_cast<std::size_t>(shape[0])};
  nb::ndarray<nb::numpy> array(data->data(), 3, zyx.data(), owner, nullptr, TypeOf(samples.type, given));
  return {std::move(samples), nb::borrow<nb::any>(nb::cast(std::move(array)))};
}

// ---- Datasets

bool IsServer(const std::string& target) {
  return target.starts_with("grpc://") || target.starts_with("grpcs://");
}

std::unique_ptr<Dataset> Open(const std::string& target, const client::Options& options) {
  const bool remote = IsServer(target);
  if (remote) UseGrpc();
  const CancelToken cancel = CancelToken::Create();
  auto opened =
      RunInBackground(cancel, !remote, [&] { return client::Dataset::Open(target, options, cancel); });
  return std::make_unique<Dataset>(Take(std::move(opened)), remote);
}

std::vector<client::DatasetSummary> List(const std::string& target, const client::Options& options) {
  if (IsServer(target)) UseGrpc();
  const CancelToken cancel = CancelToken::Create();
  return Take(RunInBackground(cancel, false, [&] { return client::ListDatasets(target, options, cancel); }));
}

/// Samples of at most so many bytes are read by the calling thread: another one would take longer to start.
constexpr std::uint64_t kBriefBytes = 1 << 20;

bool IsBrief(const query::ReadRequest& request, const DatasetDescription& dataset) {
  const std::optional<std::size_t> field = dataset.FindField(request.field);
  if (!field) return true;
  const Box box = request.box.value_or(dataset.GridOf(*field).domain());
  return static_cast<double>(Volume(box.shape())) * sizeof(double) <= kBriefBytes;
}

/// A number of Python's own, with all its digits.
std::optional<nb::object> FillToPython(const FieldDescription& field) {
  if (!field.fill) return std::nullopt;
  if (IsFloat(field.type)) return nb::cast(field.fill->nearest());
  if (const auto integer = field.fill->As<std::int64_t>()) return nb::cast(*integer);
  return nb::cast(field.fill->As<std::uint64_t>().value_or(0));
}

/// The field of this name; one without properties if there is none, of which reading says so.
FieldDescription FieldOf(const DatasetDescription& dataset, const std::string& field) {
  const auto number = dataset.FindField(field);
  return number ? dataset.fields[*number] : FieldDescription();
}

/// @param mark  missing samples of floats become NaN
/// @param out   memory for the samples; none: a new array
Answer Read(const Dataset& self, const query::ReadRequest& request, bool mark,
            std::optional<nb::ndarray<nb::c_contig, nb::device::cpu>> out) {
  const FieldDescription field = FieldOf(self.description(), request.field);
  const bool widened = field.given == GivenType::kFloat16;
  Result<LevelSamples> read = self.Run(
      IsBrief(request, self.description()),
      [&](const client::Dataset& dataset, CallOptions options) -> Result<LevelSamples> {
        if (out) {
          options.buffer = [&](const LevelSamples& level, std::size_t bytes) -> Result<std::span<std::byte>> {
            if (!level.last()) return std::span<std::byte>();
            const std::size_t needed = widened ? bytes / 2 : bytes;
            if (out->nbytes() != needed || out->dtype() != TypeOf(level.type, field.given))
              return InvalidArgument("the array for the samples has {} bytes; it needs {} of {}",
                                     out->nbytes(), needed, field.given_type());
            return widened ? std::span<std::byte>() : std::span(static_cast<std::byte*>(out->data()), bytes);
          };
        }
        Result<LevelSamples> samples = dataset.Read(request, options);
        if (!samples.ok()) return samples;
        const std::span<std::byte> bytes =
            samples->buffer.empty() ? std::span(samples->data) : samples->buffer;
        if (mark) MarkMissing(*samples, field.fill, bytes);
        const std::size_t given = GiveBack(field.given, bytes);
        if (samples->buffer.empty()) samples->data.resize(given);
        if (out && widened) std::ranges::copy(samples->data, static_cast<std::byte*>(out->data()));
        return samples;
      });
  return ToAnswer(Take(std::move(read)), field.given, out ? std::optional(nb::cast(*out)) : std::nullopt);
}

/// A level on its way to Python.
struct Streamed {
  LevelSamples samples;
  GivenType given = GivenType::kStored;
};

std::unique_ptr<Feed<Streamed>> Stream(const Dataset& self, const query::ReadRequest& request) {
  const FieldDescription field = FieldOf(self.description(), request.field);
  return std::make_unique<Feed<Streamed>>(
      [dataset = self.share(), request, field](const CancelToken& cancel, const auto& deliver) {
        CallOptions options;
        options.cancel = cancel;
        return dataset->ReadLevels(
            request,
            [&](LevelSamples* samples, const client::ReadCost&) -> Status {
              MarkMissing(*samples, field.fill, samples->data);
              samples->data.resize(GiveBack(field.given, samples->data));
              if (deliver(Streamed{std::move(*samples), field.given})) return Status::Ok();
              return {StatusCode::kCancelled, "nobody takes the samples any more"};
            },
            options);
      });
}

std::unique_ptr<Feed<StepDescription>> Watch(const Dataset& self, std::optional<std::uint64_t> after,
                                             double patience) {
  client::WatchRequest request;
  request.after = after;
  request.patience_ms = static_cast<std::int64_t>(patience * 1000);
  return std::make_unique<Feed<StepDescription>>(
      [dataset = self.share(), request](const CancelToken& cancel, const auto& deliver) {
        CallOptions options;
        options.cancel = cancel;
        return dataset->WatchSteps(
            request, [&](const StepDescription& step) { return deliver(StepDescription(step)); }, options);
      });
}

/// Name, error, and the records of the steps.
using BoundedField = std::tuple<std::string, double, std::vector<const FieldStepDescription*>>;

using NamedInterval = std::tuple<std::string, std::optional<double>, std::optional<double>>;

/// An array that owns its values.
nb::any ToArray(std::vector<double> values) {
  auto* const held = new std::vector<double>(std::move(values));
  const nb::capsule owner(held,
                          [](void* values) noexcept { delete static_cast<std::vector<double>*>(values); });
  const std::size_t count = held->size();
  return nb::borrow<nb::any>(nb::cast(nb::ndarray<nb::numpy, double>(held->data(), 1, &count, owner)));
}

/// A coordinate of text, with the name of its dimension.
struct NamedText {
  TextCoordinate text;
  std::string name;
  std::string dim;  ///< empty: it is one text
};

/// A grid of a dataset, and what its dimensions are called.
struct FieldGrid {
  GridDescription grid;
  std::array<std::string, 3> dim_names;  ///< x, y, z
};

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

query::ReadRequest MakeQuestion(std::string field, std::optional<std::uint64_t> step,
                                std::optional<ZyxBox> box, int level, std::optional<double> max_error,
                                std::optional<std::uint64_t> max_bytes,
                                std::optional<Zyx<std::int64_t>> stride, std::optional<int> first_level,
                                std::optional<Zyx<double>> focus,
                                std::optional<std::pair<double, double>> values, bool strict,
                                std::optional<int> layer, std::optional<int> first_layer) {
  query::ReadRequest question;
  question.layer = layer;
  question.first_layer = first_layer;
  question.field = std::move(field);
  question.step = step;
  if (box) question.box = ToXyz(*box);
  question.level = level;
  question.max_error = max_error;
  question.max_bytes = max_bytes;
  if (stride) question.stride = ToXyz(*stride);
  question.first_level = first_level;
  if (focus) question.focus = ToXyz(*focus);
  if (values) question.values = query::Bounds{values->first, values->second};
  question.allow_damage = !strict;
  return question;
}

// ---- What Python sees

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
  nb::class_<FieldStepDescription>(m, "FieldStep",
                                   "A field in one step, as it was recorded when it was written. Errors and "
                                   "levels are those of the last layer.")
      .def_ro("name", &FieldStepDescription::name, "Name of the field.")
      .def_ro("source", &FieldStepDescription::source, "What it was converted from.")
      .def_ro("tolerance", &FieldStepDescription::tolerance,
              "Largest error that was allowed, in the field's unit; 0: without loss.")
      .def_ro("min", &FieldStepDescription::min, "Of the valid original samples; infinity if there is none.")
      .def_ro("max", &FieldStepDescription::max,
              "Of the valid original samples; minus infinity if there is none.")
      .def_ro("max_error", &FieldStepDescription::max_error,
              "Largest error of a sample, in the field's unit.")
      .def_ro("rmse", &FieldStepDescription::rmse, "The root of the mean of the squares of the errors.")
      .def_ro("psnr", &FieldStepDescription::psnr,
              "Peak signal-to-noise ratio [dB]; infinite if nothing was lost.")
      .def_ro("raw_bytes", &FieldStepDescription::raw_bytes, "Bytes of the samples.")
      .def_ro("stored_bytes", &FieldStepDescription::stored_bytes, "Bytes of the compressed data.")
      .def_ro("valid", &FieldStepDescription::valid, "Number of samples that are not missing.")
      .def_ro("levels", &FieldStepDescription::levels, "Levels of resolution, the finest first.")
      .def_ro("rougher", &FieldStepDescription::rougher,
              "The layers of accuracy before the last, the roughest first.")
      .def(
          "levels_of",
          [](const FieldStepDescription& field, int layer) { return field.LevelsOf(std::max(layer, 0)); },
          "layer"_a, "Levels in a layer of accuracy, 0 the roughest.")
      .def(
          "tolerance_of",
          [](const FieldStepDescription& field, int layer) { return field.ToleranceOf(std::max(layer, 0)); },
          "layer"_a, "Largest error that was allowed in a layer of accuracy, in the field's unit.")
      .def_prop_ro(
          "has_missing", [](const FieldStepDescription& field) { return field.mask.has_value(); },
          "Whether a sample is missing.");
  nb::class_<StepDescription>(m, "Step", "A step of a dataset.")
      .def_ro("step", &StepDescription::step, "Its number.")
      .def_ro("time", &StepDescription::time,
              "Time of the simulation, in the unit of the dataset; None if nobody gave it.")
      .def_ro("fields", &StepDescription::fields, "The fields that it holds.");
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
      .def_ro("tolerance", &FieldDescription::tolerance,
              "Largest error, in the field's unit; None if it was given otherwise.")
      .def_ro("relative_tolerance", &FieldDescription::relative_tolerance,
              "Largest error as a fraction of the range of each step; None if it was given otherwise.")
      .def_ro("pointwise_relative_tolerance", &FieldDescription::pointwise_relative_tolerance,
              "Largest error of a sample as a fraction of its magnitude; None if it was given otherwise.")
      .def_ro("lossless", &FieldDescription::lossless, "Whether samples are stored bit by bit.")
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
  nb::class_<client::DatasetSummary>(m, "DatasetSummary", "What `list` says about a dataset.")
      .def_ro("name", &client::DatasetSummary::name,
              "Its name, as `open` takes it behind the address of the server.")
      .def_prop_ro(
          "shape",
          [](const client::DatasetSummary& dataset) {
            return dataset.grids.empty() ? std::nullopt : std::optional(ToZyx(dataset.grids.front().dims));
          },
          "Of the first grid: samples along z, y, x; None of a damaged dataset.")
      .def_prop_ro(
          "shapes",
          [](const client::DatasetSummary& dataset) {
            std::vector<Zyx<std::int64_t>> shapes;
            for (const GridDescription& grid : dataset.grids) shapes.push_back(ToZyx(grid.dims));
            return shapes;
          },
          "Of each grid: samples along z, y, x.")
      .def_ro("steps", &client::DatasetSummary::steps, "Number of steps.")
      .def_ro("fields", &client::DatasetSummary::fields, "Number of fields.");
}

void BindAnswers(nb::module_& m) {
  nb::class_<query::ReadRequest>(m, "Question")
      .def(nb::new_(&MakeQuestion), "field"_a, nb::kw_only(), "step"_a = nb::none(), "box"_a = nb::none(),
           "level"_a = 0, "max_error"_a = nb::none(), "max_bytes"_a = nb::none(), "stride"_a = nb::none(),
           "first_level"_a = nb::none(), "focus"_a = nb::none(), "values"_a = nb::none(), "strict"_a = true,
           "layer"_a = nb::none(), "first_layer"_a = nb::none());
  nb::class_<Answer>(m, "Answer")
      .def_ro("array", &Answer::array)
      .def_prop_ro("field", [](const Answer& answer) { return answer.samples.field; })
      .def_prop_ro("step", [](const Answer& answer) { return answer.samples.step; })
      .def_prop_ro("level", [](const Answer& answer) { return answer.samples.level; })
      .def_prop_ro("layer", [](const Answer& answer) { return answer.samples.layer; })
      .def_prop_ro("last", [](const Answer& answer) { return answer.samples.last(); })
      .def_prop_ro("max_error", [](const Answer& answer) { return answer.samples.max_error; })
      .def_prop_ro("coverage", [](const Answer& answer) { return answer.samples.coverage; })
      .def_prop_ro("extent", [](const Answer& answer) { return ToZyx(answer.samples.extent); })
      .def_prop_ro("spacing", [](const Answer& answer) { return ToZyx(answer.samples.spacing); })
      .def_prop_ro("damaged",
                   [](const Answer& answer) {
                     std::vector<std::pair<ZyxBox, int>> damaged;
                     for (const client::DamagedBox& box : answer.samples.damaged)
                       damaged.emplace_back(ToZyx(box.extent), box.shown_level);
                     return damaged;
                   })
      .def_prop_ro("rougher",
                   [](const Answer& answer) {
                     std::vector<std::pair<ZyxBox, int>> rougher;
                     for (const client::DamagedBox& box : answer.samples.damaged) {
                       if (box.shown_layer < answer.samples.layer)
                         rougher.emplace_back(ToZyx(box.extent), box.shown_layer);
                     }
                     return rougher;
                   })
      .def_prop_ro("may_miss", [](const Answer& answer) { return answer.samples.may_miss; })
      .def_prop_ro("left_out", [](const Answer& answer) {
        std::vector<ZyxBox> left_out;
        for (const Box& box : answer.samples.left_out) left_out.push_back(ToZyx(box));
        return left_out;
      });
  nb::class_<query::Price>(m, "Price", "What an answer costs.")
      .def_ro("patches", &query::Price::patches, "Number of patches that are decoded.")
      .def_ro("bytes", &query::Price::bytes, "Bytes of the compressed data that are needed.")
      .def_ro("bytes_read", &query::Price::bytes_read,
              "Bytes read from disk if nothing is in memory yet, with the gaps between ranges that are read "
              "together.")
      .def_ro("reads", &query::Price::reads, "Number of reads from disk, if nothing is in memory yet.")
      .def_ro("reply_bytes", &query::Price::reply_bytes, "Bytes of the samples of all levels of the answer.");
  nb::class_<query::LevelExtent>(m, "PlannedLevel", "A level of an answer.")
      .def_ro("level", &query::LevelExtent::level, "0 is full resolution.")
      .def_ro("layer", &query::LevelExtent::layer, "Of accuracy, 0 the roughest.")
      .def_prop_ro(
          "extent", [](const query::LevelExtent& level) { return ToZyx(level.extent); },
          "Samples of this level along z, y, x, half-open: sample i of an axis lies at i * spacing of full "
          "resolution.")
      .def_prop_ro(
          "spacing", [](const query::LevelExtent& level) { return ToZyx(level.spacing); },
          "Samples of full resolution between neighbours along z, y, x.")
      .def_ro("max_error", &query::LevelExtent::max_error,
              "What the original field differs by at most from what this level shows, in the field's unit.")
      .def_ro("bytes", &query::LevelExtent::bytes,
              "Bytes of compressed data that it adds to those of the levels before it.")
      .def_ro("coverage", &query::LevelExtent::coverage,
              "Share of the valid samples of full resolution that it can show, 0 to 1.");
  nb::class_<query::AnswerHeader>(m, "Plan", "What a request would be answered with.")
      .def_ro("field", &query::AnswerHeader::field, "Name of the field.")
      .def_ro("step", &query::AnswerHeader::step, "Number of the step.")
      .def_ro("layer", &query::AnswerHeader::layer, "Layer of accuracy, 0 is the roughest.")
      .def_ro("levels", &query::AnswerHeader::levels, "In the order of delivery, the coarsest first.")
      .def_ro("price", &query::AnswerHeader::price, "Price of the whole answer.");
}

void BindStatistics(nb::module_& m) {
  nb::class_<query::Bounded>(
      m, "Bounded", "A number of the decoded samples, and an interval that holds that of the original ones.")
      .def_ro("value", &query::Bounded::value, "The number of the decoded samples; `float()` gives it.")
      .def_ro("low", &query::Bounded::low, "The original's is at least this.")
      .def_ro("high", &query::Bounded::high, "The original's is at most this.")
      .def_ro(
          "resolved", &query::Bounded::resolved,
          "Of a percentile: False if more than a twentieth of the samples lie in the interval, without those "
          "that may be equal to the value.")
      .def("__float__", [](const query::Bounded& self) { return self.value; })
      .def("__repr__", [](const query::Bounded& self) {
        return fmt::format("Bounded(value={}, low={}, high={})", self.value, self.low, self.high);
      });
  nb::class_<query::Histogram>(m, "Histogram", "Counts in bins.")
      .def_ro("begin", &query::Histogram::begin, "Left edge of the first bin.")
      .def_ro("end", &query::Histogram::end, "Right edge of the last bin.")
      .def_prop_ro(
          "edges",
          [](const query::Histogram& self) {
            std::vector<double> edges(self.counts.empty() ? 0 : self.counts.size() + 1);
            for (std::size_t i = 0; i < edges.size(); ++i) edges[i] = self.Edge(i);
            return edges;
          },
          "All edges, one more than bins, as `numpy.histogram` returns them.")
      .def_ro("counts", &query::Histogram::counts, "Decoded samples in each bin.")
      .def_ro("low", &query::Histogram::low, "At least so many original samples are in each bin.")
      .def_ro("high", &query::Histogram::high, "At most so many original samples are in each bin.")
      .def_ro("below", &query::Histogram::below, "Samples before the first bin.")
      .def_ro("above", &query::Histogram::above, "Samples behind the last bin.");
  nb::class_<query::StatisticsAnswer>(
      m, "Statistics",
      "Statistics of the valid samples of a box at one level. Without any, the values are NaN.")
      .def_prop_ro(
          "valid", [](const query::StatisticsAnswer& self) { return self.statistics.valid; },
          "Number of samples.")
      .def_prop_ro(
          "missing", [](const query::StatisticsAnswer& self) { return self.statistics.missing; },
          "Number of missing samples.")
      .def_prop_ro(
          "min", [](const query::StatisticsAnswer& self) { return self.statistics.min; }, "The smallest.")
      .def_prop_ro(
          "max", [](const query::StatisticsAnswer& self) { return self.statistics.max; }, "The largest.")
      .def_prop_ro(
          "mean", [](const query::StatisticsAnswer& self) { return self.statistics.mean; },
          "Sum over number.")
      .def_prop_ro(
          "stddev", [](const query::StatisticsAnswer& self) { return self.statistics.stddev; },
          "The root of the mean of the squares of the differences from the mean.")
      .def_prop_ro(
          "percentiles",
          [](const query::StatisticsAnswer& self) {
            std::vector<std::pair<double, query::Bounded>> percentiles;
            for (const query::Percentile& one : self.statistics.percentiles)
              percentiles.emplace_back(one.percent, one.at);
            return percentiles;
          },
          "(percent, value) for each that was asked for: the smallest value that this share does not exceed.")
      .def_prop_ro(
          "histogram", [](const query::StatisticsAnswer& self) { return self.statistics.histogram; },
          "Histogram with as many bins as were asked for.")
      .def_prop_ro(
          "level", [](const query::StatisticsAnswer& self) { return self.header.levels.back().level; },
          "The level that was looked at; 0 is full resolution.")
      .def_prop_ro(
          "step", [](const query::StatisticsAnswer& self) { return self.header.step; }, "Number of the step.")
      .def_prop_ro(
          "price", [](const query::StatisticsAnswer& self) { return self.header.price; },
          "Price of reading the samples; none of them is delivered.");
}

void BindTotals(nb::module_& m) {
  nb::class_<query::Totals>(m, "Totals", "Statistics of several steps together.")
      .def_ro("valid", &query::Totals::valid, "Number of samples.")
      .def_ro("min", &query::Totals::min, "The smallest.")
      .def_ro("max", &query::Totals::max, "The largest.")
      .def_ro("mean", &query::Totals::mean, "Sum over number.");
  m.def(
      "together",
      [](const std::vector<query::StatisticsAnswer>& answers) {
        std::vector<query::Statistics> parts;
        for (const query::StatisticsAnswer& answer : answers) parts.push_back(answer.statistics);
        return query::Together(parts);
      },
      "answers"_a);
}

std::tuple<std::string, std::string, std::string> Triple(const StepNames& names) {
  return {names.dimension, names.numbers, names.times};
}

void BindDataset(nb::module_& m) {
  nb::class_<Feed<Streamed>>(m, "Stream", nb::is_weak_referenceable())
      .def("next",
           [](Feed<Streamed>& self) -> std::optional<Answer> {
             std::optional<Streamed> samples = self.Next(&Check);
             if (!samples) return std::nullopt;
             return ToAnswer(std::move(samples->samples), samples->given, std::nullopt);
           })
      .def("close", &Feed<Streamed>::Close);
  nb::class_<Feed<StepDescription>>(m, "Watch", nb::is_weak_referenceable())
      .def("next", [](Feed<StepDescription>& self) { return self.Next(&Check); })
      .def("close", &Feed<StepDescription>::Close);
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
          "The box of the samples at these positions: (axis, low, high), both ends included; None: without "
          "end.");
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
          [](const Dataset& self) { return Triple(NamesOfDimensions(self.description()).steps); },
          "Of the dimension of the steps, of the variable with their numbers, and of that with their times.")
      .def(
          "own_step_names",
          [](const Dataset& self, const std::string& field) {
            return Triple(NamesOfSteps(self.description(), field));
          },
          "field"_a, "The same of a field that has steps of its own.")
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
          "step",
          [](const Dataset& self, std::uint64_t number) {
            return Take(self.Run(true, [&](const client::Dataset& dataset, const CallOptions& options) {
              return dataset.Step(number, options);
            }));
          },
          "number"_a)
      .def("steps",
           [](const Dataset& self) {
             return Take(self.Run(false, [](const client::Dataset& dataset, const CallOptions& options) {
               return dataset.Steps(options);
             }));
           })
      .def(
          "choose",
          [](const Dataset& self, const std::vector<BoundedField>& bounds) {
            std::vector<query::BoundedField> fields;
            for (const auto& [name, error, steps] : bounds) fields.push_back({name, error, steps});
            query::SeriesChoice choice = Take(query::ChooseForSeries(self.description(), fields));
            return std::pair(choice.level, std::move(choice.layers));
          },
          "fields"_a)
      .def("plan",
           [](const Dataset& self, const query::ReadRequest& question) {
             return Take(self.Run(false, [&](const client::Dataset& dataset, const CallOptions& options) {
               return dataset.PlanRead(question, options);
             }));
           })
      .def("read", &Read, "question"_a, "mark"_a = true, "out"_a.none() = nb::none())
      .def("stream", &Stream, "question"_a)
      .def("watch", &Watch, "after"_a.none(), "patience"_a)
      .def(
          "statistics",
          [](const Dataset& self, const query::ReadRequest& question, std::vector<double> percentiles,
             int bins, std::optional<std::pair<double, double>> range, const std::string& scale) {
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

/// "[1, 2, 3, ..., 9]" of a list that is long; otherwise what Python shows.
std::string ShowValue(const nb::object& value) {
  constexpr std::size_t kLongest = 8;
  if (!nb::isinstance<nb::list>(value) || nb::len(value) <= kLongest) return nb::repr(value).c_str();
  std::string text = "[";
  for (std::size_t i = 0; i < 3; ++i) text += nb::repr(value[i]).c_str() + std::string(", ");
  return text + "..., " + nb::repr(value[nb::len(value) - 1]).c_str() + "]";
}

/// Objects of a type show as "Step(step=3, time=0.5, fields=['p'])".
/// @param attributes  "fields.name": of a list, this attribute of each
template <typename T>
void Show(const char* name, std::vector<std::string> attributes) {
  nb::borrow<nb::class_<T>>(nb::type<T>()).def("__repr__", [=](nb::handle self) {
    std::string text;
    for (const std::string& attribute : attributes) {
      const std::size_t dot = std::min(attribute.find('.'), attribute.size());
      const std::string first = attribute.substr(0, dot);
      nb::object value = self.attr(first.c_str());
      if (dot < attribute.size()) {
        nb::list of_each;
        for (const nb::handle one : value) of_each.append(one.attr(attribute.c_str() + dot + 1));
        value = of_each;
      }
      text += fmt::format("{}{}={}", text.empty() ? "" : ", ", first, ShowValue(value));
    }
    return fmt::format("{}({})", name, text);
  });
}

void BindTexts() {
  Show<LevelRecord>("LevelRecord", {"max_error", "rmse", "bytes", "coverage"});
  Show<LayerRecord>("LayerRecord", {"tolerance"});
  Show<FieldStepDescription>("FieldStep", {"name", "source", "tolerance", "min", "max", "max_error",
                                           "raw_bytes", "stored_bytes", "valid"});
  Show<StepDescription>("Step", {"step", "time", "fields.name"});
  Show<FieldDescription>("FieldDescription", {"name", "dtype", "units", "coder", "lossless", "fill"});
  Show<client::DatasetSummary>("DatasetSummary", {"name", "shape", "steps", "fields"});
  Show<Answer>("Answer", {"field", "step", "level", "layer", "extent", "spacing", "max_error"});
  Show<query::Price>("Price", {"patches", "bytes", "bytes_read", "reads", "reply_bytes"});
  Show<query::LevelExtent>("PlannedLevel",
                           {"level", "layer", "extent", "spacing", "max_error", "bytes", "coverage"});
  Show<query::AnswerHeader>("Plan", {"field", "step", "layer", "levels.level", "price"});
  Show<query::Histogram>("Histogram", {"begin", "end", "counts", "below", "above"});
  Show<query::StatisticsAnswer>("Statistics", {"step", "level", "valid", "missing", "min", "max", "mean",
                                               "stddev", "percentiles", "histogram"});
  Show<query::Totals>("Totals", {"valid", "min", "max", "mean"});
  Show<FieldGrid>("FieldGrid", {"shape", "patch", "levels", "dim_names"});
  Show<Dataset>("Dataset", {"grids.shape", "fields.name"});
}

void BindOptions(nb::module_& m) {
  nb::class_<client::Options>(m, "Options")
      .def(
          "__init__",
          [](client::Options* self, int threads, const std::string& encoding, int retries, double timeout,
             std::string ca, std::string certificate, std::string key, std::string token,
             std::uint64_t memory) {
            client::Encoding chosen = client::Encoding::kAuto;
            if (encoding == "samples") chosen = client::Encoding::kSamples;
            if (encoding == "patches") chosen = client::Encoding::kPatches;
            new (self)
                client::Options{threads,
                                chosen,
                                retries,
                                static_cast<std::int64_t>(std::ceil(timeout * 1000)),
                                {std::move(ca), std::move(certificate), std::move(key), std::move(token)},
                                memory};
          },
          nb::kw_only(), "threads"_a, "encoding"_a, "retries"_a, "timeout"_a, "ca"_a, "certificate"_a,
          "key"_a, "token"_a, "memory"_a = 0);
}

}  // namespace
}  // namespace quarry::python

NB_MODULE(_quarry, m) {
  using namespace quarry::python;
  m.doc() = "The C++ client of Quarry; use the package quarry.";
  m.attr("version") = quarry::kVersion;
  // Objects may outlive the interpreter in caches of other packages; that is no leak of ours.
  nb::set_leak_warnings(false);
  nb::register_exception_translator(&RaiseStatus);
  BindAttributes(m);
  BindDescriptions(m);
  BindAnswers(m);
  BindStatistics(m);
  BindTotals(m);
  BindOptions(m);
  BindDataset(m);
  BindWriting(m);
  BindZarr(m);
  BindTexts();
  m.def(
      "parse_region",
      [](const std::string& text) {
        std::vector<NamedInterval> intervals;
        for (const quarry::query::AxisInterval& one : Take(quarry::query::ParseRegion(text)))
          intervals.emplace_back(one.axis, one.low, one.high);
        return intervals;
      },
      "text"_a, "\"lat=40:50,z=0:\": (axis, low, high) of each, as Dataset.box_of takes them.");
  m.def("open_dataset", &Open, "target"_a, "options"_a);
  m.def("list_datasets", &List, "target"_a, "options"_a);
}
