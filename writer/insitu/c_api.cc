#include <cmath>
#include <deque>
#include <new>
#include <utility>

#include "quarry/format/attribute_rules.h"
#include "writer/insitu/c_object.h"
#include "writer/pipeline/phases.h"

namespace {

using quarry::DataType;
using quarry::FailedPrecondition;
using quarry::Index3;
using quarry::InvalidArgument;
using quarry::Result;
using quarry::Status;
using quarry::StatusCode;
namespace insitu = quarry::insitu;

static_assert(QUARRY_INSITU_UNKNOWN == static_cast<int>(StatusCode::kUnknown));
static_assert(QUARRY_INSITU_INVALID_ARGUMENT == static_cast<int>(StatusCode::kInvalidArgument));
static_assert(QUARRY_INSITU_NOT_FOUND == static_cast<int>(StatusCode::kNotFound));
static_assert(QUARRY_INSITU_ALREADY_EXISTS == static_cast<int>(StatusCode::kAlreadyExists));
static_assert(QUARRY_INSITU_FAILED_PRECONDITION == static_cast<int>(StatusCode::kFailedPrecondition));
static_assert(QUARRY_INSITU_ABORTED == static_cast<int>(StatusCode::kAborted));
static_assert(QUARRY_INSITU_OUT_OF_RANGE == static_cast<int>(StatusCode::kOutOfRange));
static_assert(QUARRY_INSITU_INTERNAL == static_cast<int>(StatusCode::kInternal));
static_assert(QUARRY_INSITU_UNAVAILABLE == static_cast<int>(StatusCode::kUnavailable));
static_assert(QUARRY_INSITU_DATA_LOSS == static_cast<int>(StatusCode::kDataLoss));
static_assert(QUARRY_FLOAT32 == static_cast<int>(DataType::kFloat32));
static_assert(QUARRY_UINT64 == static_cast<int>(DataType::kUint64));
static_assert(QUARRY_INSITU_RESUME == static_cast<int>(insitu::OpenMode::kResume));

std::string Text(const char* text) { return text == nullptr ? "" : text; }
Index3 ToIndex(const std::int64_t* numbers) { return {numbers[0], numbers[1], numbers[2]}; }

/// A number that stands for no type gives a type that no field has.
DataType ToType(int type) {
  return type >= QUARRY_FLOAT32 && type <= QUARRY_UINT64 ? static_cast<DataType>(type) : DataType{0};
}

Status CheckAxis(int axis) {
  if (axis >= 0 && axis <= 2) return Status::Ok();
  return InvalidArgument("{} is not an axis; give 0 for x, 1 for y or 2 for z", axis);
}

/// A number of values that arrays of C have.
Status CheckCount(std::int64_t count) {
  if (count >= 1) return Status::Ok();
  return InvalidArgument("{} is not a number of values; give 1 or more", count);
}

Status SetBound(int kind, double bound, insitu::Field* field) {
  if (kind == QUARRY_LOSSLESS) {
    field->lossless = true;
  } else if (kind == QUARRY_TOLERANCE) {
    field->tolerance = bound;
  } else if (kind == QUARRY_RELATIVE) {
    field->relative = bound;
  } else if (kind == QUARRY_POINTWISE_RELATIVE) {
    field->pointwise_relative = bound;
  } else {
    return InvalidArgument("{} is not a kind of bound; give QUARRY_TOLERANCE or another of the list", kind);
  }
  return Status::Ok();
}

}  // namespace

struct quarry_insitu {
  insitu::internal::Opener open;
  insitu::Setup setup;
  std::vector<insitu::OwnedBox> boxes;
  bool grid_is_set = false;
  Status declared;  ///< the first error of the local calls
  std::unique_ptr<insitu::AnyDataset> dataset;
  bool closed = false;
  std::string message;
  std::deque<std::string> warnings;
  std::string warning;  ///< the last one that was taken

  int Report(const Status& status) {
    if (!status.ok()) message = status.message();
    return static_cast<int>(status.code());
  }

  Status Start() {
    if (dataset || closed) return FailedPrecondition("the dataset was started before");
    if (declared.ok() && !grid_is_set)
      declared = InvalidArgument("no grid is declared; call quarry_insitu_set_grid");
    QUARRY_ASSIGN_OR_RETURN(dataset, open(setup, boxes, declared));
    return Status::Ok();
  }

  void KeepWarnings() {
    if (!dataset) return;
    for (std::string& text : dataset->TakeWarnings()) warnings.push_back(std::move(text));
  }

  const char* TakeWarning() {
    KeepWarnings();
    warning.clear();
    if (!warnings.empty()) {
      warning = std::move(warnings.front());
      warnings.pop_front();
    }
    return warning.c_str();
  }

  Status Close() {
    Status status = dataset->Close();
    KeepWarnings();
    dataset.reset();
    closed = true;
    return status;
  }

  Result<insitu::Field*> FindField(const char* name) {
    for (insitu::Field& field : setup.declaration.fields) {
      if (name != nullptr && field.name == name) return &field;
    }
    return InvalidArgument("there is no field \"{}\" yet; add it first", Text(name));
  }

  /// @param field  null: those of the dataset
  Result<quarry::Attributes*> FindAttributes(const char* field) {
    if (field == nullptr) return &setup.declaration.attributes;
    QUARRY_ASSIGN_OR_RETURN(insitu::Field* const of, FindField(field));
    return &of->attributes;
  }
};

namespace {

/// A local call before the start. The first error is kept, and all ranks get it at the start.
/// @param given  arguments that must not be null
template <typename Work>
int Declare(quarry_insitu* run, std::initializer_list<const void*> given, Work work) {
  if (run == nullptr) return QUARRY_INSITU_INVALID_ARGUMENT;
  const Status status = quarry::writer::Guarded([&]() -> Status {
    if (run->dataset || run->closed) {
      return FailedPrecondition("declarations come before quarry_insitu_start; the dataset is started");
    }
    for (const void* argument : given) {
      if (argument == nullptr)
        return InvalidArgument(
            "a required argument is NULL; units, names of axes and the field of an attribute may be");
    }
    return work();
  });
  if (run->declared.ok()) run->declared = status;
  return run->Report(status);
}

/// A call on the started dataset.
template <typename Work>
int Use(quarry_insitu* run, Work work) {
  if (run == nullptr) return QUARRY_INSITU_INVALID_ARGUMENT;
  return run->Report(quarry::writer::Guarded([&]() -> Status {
    if (run->closed) return FailedPrecondition("the dataset is closed");
    if (!run->dataset)
      return FailedPrecondition("the dataset is not started; call quarry_insitu_start first");
    return work();
  }));
}

}  // namespace

int insitu::internal::MakeObject(Opener open, const char* path, int mode, quarry_insitu** out) {
  if (out == nullptr) return QUARRY_INSITU_INVALID_ARGUMENT;
  *out = new (std::nothrow) quarry_insitu;
  if (*out == nullptr) return QUARRY_INSITU_INTERNAL;
  quarry_insitu* run = *out;
  run->open = std::move(open);
  return Declare(run, {}, [&]() -> Status {
    run->setup.path = Text(path);
    if (run->setup.path.empty())
      return InvalidArgument("the path is empty; give the path of the dataset, NAME.quarry");
    if (mode < QUARRY_INSITU_CREATE || mode > QUARRY_INSITU_RESUME)
      return InvalidArgument("{} is not a mode; give QUARRY_INSITU_CREATE, _APPEND or _RESUME", mode);
    run->setup.mode = static_cast<insitu::OpenMode>(mode);
    return Status::Ok();
  });
}

extern "C" {

int quarry_insitu_open(MPI_Comm comm, const char* path, int mode, quarry_insitu** out) {
  const auto open = [comm](const insitu::Setup& setup, const std::vector<insitu::OwnedBox>& boxes,
                           const Status& declared) -> Result<std::unique_ptr<insitu::AnyDataset>> {
    QUARRY_ASSIGN_OR_RETURN(std::unique_ptr<insitu::AnyDataset> dataset,
                            insitu::Dataset::Open(comm, setup, boxes, declared));
    return dataset;
  };
  return insitu::internal::MakeObject(open, path, mode, out);
}

int quarry_insitu_open_f(MPI_Fint comm, const char* path, int mode, quarry_insitu** out) {
  return quarry_insitu_open(MPI_Comm_f2c(comm), path, mode, out);
}

int quarry_insitu_set_grid(quarry_insitu* run, const int64_t dims[3]) {
  return Declare(run, {dims}, [&] {
    run->setup.declaration.dims = ToIndex(dims);
    run->grid_is_set = true;
    return Status::Ok();
  });
}

int quarry_insitu_set_axes(quarry_insitu* run, const double origin[3], const double spacing[3]) {
  return Declare(run, {origin, spacing}, [&] {
    run->setup.declaration.origin = {origin[0], origin[1], origin[2]};
    run->setup.declaration.spacing = {spacing[0], spacing[1], spacing[2]};
    return Status::Ok();
  });
}

int quarry_insitu_set_axis(quarry_insitu* run, int axis, const char* name, const char* units) {
  return Declare(run, {}, [&]() -> Status {
    QUARRY_RETURN_IF_ERROR(CheckAxis(axis));
    quarry::SourceAxis& declared = run->setup.declaration.axes[static_cast<std::size_t>(axis)];
    declared.name = Text(name);
    declared.units = Text(units);
    return Status::Ok();
  });
}

int quarry_insitu_set_positions(quarry_insitu* run, int axis, int64_t count, const double* positions) {
  return Declare(run, {positions}, [&]() -> Status {
    QUARRY_RETURN_IF_ERROR(CheckAxis(axis));
    QUARRY_RETURN_IF_ERROR(CheckCount(count));
    run->setup.declaration.axes[static_cast<std::size_t>(axis)].coordinates.assign(positions,
                                                                                   positions + count);
    return Status::Ok();
  });
}

int quarry_insitu_set_time_unit(quarry_insitu* run, const char* units, const char* calendar) {
  return Declare(run, {units}, [&] {
    run->setup.declaration.time_unit = {units, Text(calendar)};
    return Status::Ok();
  });
}

int quarry_insitu_set_patch(quarry_insitu* run, const int64_t patch[3], int levels) {
  return Declare(run, {patch}, [&] {
    run->setup.declaration.patch = ToIndex(patch);
    if (levels != 0) run->setup.declaration.levels = levels;
    return Status::Ok();
  });
}

int quarry_insitu_set_files(quarry_insitu* run, int files) {
  return Declare(run, {}, [&] {
    run->setup.pipeline.files = files;
    return Status::Ok();
  });
}

int quarry_insitu_set_payload_order(quarry_insitu* run, const char* order) {
  return Declare(run, {order}, [&]() -> Status {
    QUARRY_ASSIGN_OR_RETURN(run->setup.declaration.order, quarry::format::ParsePayloadOrder(order));
    return Status::Ok();
  });
}

int quarry_insitu_set_memory(quarry_insitu* run, int64_t bytes) {
  return Declare(run, {}, [&]() -> Status {
    if (bytes < 1) return InvalidArgument("{} bytes of memory are not enough; give more", bytes);
    run->setup.pipeline.memory_per_rank = static_cast<std::uint64_t>(bytes);
    return Status::Ok();
  });
}

int quarry_insitu_add_field(quarry_insitu* run, const char* name, int type, int bound_kind, double bound,
                            const char* units) {
  return Declare(run, {name}, [&]() -> Status {
    insitu::Field field;
    field.name = name;
    field.units = Text(units);
    field.type = ToType(type);
    if (field.type == DataType{0}) {
      return InvalidArgument("{} is not a type of samples; give QUARRY_FLOAT32 or another of the list", type);
    }
    QUARRY_RETURN_IF_ERROR(SetBound(bound_kind, bound, &field));
    run->setup.declaration.fields.push_back(std::move(field));
    return Status::Ok();
  });
}

int quarry_insitu_set_fill(quarry_insitu* run, const char* field, double fill) {
  return Declare(run, {field}, [&]() -> Status {
    QUARRY_ASSIGN_OR_RETURN(insitu::Field* const found, run->FindField(field));
    found->fill = fill;
    return Status::Ok();
  });
}

int quarry_insitu_set_codec(quarry_insitu* run, const char* field, const char* codec) {
  return Declare(run, {field, codec}, [&]() -> Status {
    QUARRY_ASSIGN_OR_RETURN(insitu::Field* const found, run->FindField(field));
    QUARRY_ASSIGN_OR_RETURN(found->coder, quarry::ParseCoder(codec));
    return Status::Ok();
  });
}

int quarry_insitu_set_keyframe(quarry_insitu* run, const char* field, int steps) {
  return Declare(run, {field}, [&]() -> Status {
    QUARRY_ASSIGN_OR_RETURN(insitu::Field* const found, run->FindField(field));
    found->keyframe = steps;
    return Status::Ok();
  });
}

int quarry_insitu_add_complex_field(quarry_insitu* run, const char* name, int type, int bound_kind,
                                    double bound, const char* units) {
  return Declare(run, {name}, [&]() -> Status {
    for (const bool imaginary : {false, true}) {
      insitu::Field field;
      field.complex = quarry::ComplexPart{name, imaginary};
      field.name = quarry::ComplexFieldName(*field.complex);
      field.type = ToType(type);
      field.units = Text(units);
      if (!quarry::IsFloat(field.type))
        return InvalidArgument("parts of complex samples are floats, but {} has type {}", field.name, type);
      QUARRY_RETURN_IF_ERROR(SetBound(bound_kind, bound, &field));
      run->setup.declaration.fields.push_back(std::move(field));
    }
    return Status::Ok();
  });
}

int quarry_insitu_set_attribute(quarry_insitu* run, const char* field, const char* name, const char* text) {
  return Declare(run, {name, text}, [&]() -> Status {
    QUARRY_ASSIGN_OR_RETURN(quarry::Attributes* const attributes, run->FindAttributes(field));
    return quarry::AddAttribute({name, std::string(text)}, attributes);
  });
}

int quarry_insitu_set_numbers(quarry_insitu* run, const char* field, const char* name, int64_t count,
                              const double* numbers) {
  return Declare(run, {name, numbers}, [&]() -> Status {
    QUARRY_RETURN_IF_ERROR(CheckCount(count));
    QUARRY_ASSIGN_OR_RETURN(quarry::Attributes* const attributes, run->FindAttributes(field));
    quarry::AttributeNumbers list{DataType::kFloat64, count > 1, {}};
    list.values.assign(numbers, numbers + count);
    return quarry::AddAttribute({name, std::move(list)}, attributes);
  });
}

int quarry_insitu_set_axis_attribute(quarry_insitu* run, int axis, const char* name, const char* text) {
  return Declare(run, {name, text}, [&]() -> Status {
    QUARRY_RETURN_IF_ERROR(CheckAxis(axis));
    return quarry::AddAttribute({name, std::string(text)},
                                &run->setup.declaration.axes[static_cast<std::size_t>(axis)].attributes);
  });
}

int quarry_insitu_set_texts(quarry_insitu* run, const char* name, int axis, int64_t count,
                            const char* const* texts) {
  return Declare(run, {name, texts}, [&]() -> Status {
    if (axis != -1) QUARRY_RETURN_IF_ERROR(CheckAxis(axis));
    QUARRY_RETURN_IF_ERROR(CheckCount(count));
    quarry::TextCoordinate coordinate;
    coordinate.name = name;
    if (axis != -1) coordinate.axis = static_cast<std::size_t>(axis);
    for (std::int64_t i = 0; i < count; ++i) {
      if (texts[i] == nullptr) return InvalidArgument("text {} of \"{}\" is NULL", i, name);
      coordinate.texts.emplace_back(texts[i]);
    }
    run->setup.declaration.texts.push_back(std::move(coordinate));
    return Status::Ok();
  });
}

int quarry_insitu_add_box(quarry_insitu* run, const int64_t begin[3], const int64_t end[3],
                          const int64_t array_begin[3], const int64_t array_end[3], int order) {
  return Declare(run, {begin, end, array_begin, array_end}, [&]() -> Status {
    if (order != QUARRY_X_FASTEST && order != QUARRY_Z_FASTEST)
      return InvalidArgument("{} is not an order of axes; give QUARRY_X_FASTEST or QUARRY_Z_FASTEST", order);
    run->boxes.push_back(insitu::OwnedBox::InArray(
        {ToIndex(begin), ToIndex(end)}, {ToIndex(array_begin), ToIndex(array_end)},
        order == QUARRY_X_FASTEST ? insitu::ArrayOrder::kXFastest : insitu::ArrayOrder::kZFastest));
    return Status::Ok();
  });
}

int quarry_insitu_add_strided_box(quarry_insitu* run, const int64_t begin[3], const int64_t end[3],
                                  const int64_t stride[3]) {
  return Declare(run, {begin, end, stride}, [&] {
    run->boxes.push_back(insitu::OwnedBox::Strided({ToIndex(begin), ToIndex(end)}, ToIndex(stride)));
    return Status::Ok();
  });
}

int quarry_insitu_start(quarry_insitu* run) {
  if (run == nullptr) return QUARRY_INSITU_INVALID_ARGUMENT;
  return run->Report(quarry::writer::Guarded([&] { return run->Start(); }));
}

int quarry_insitu_begin_step(quarry_insitu* run, int64_t step, double time) {
  return Use(
      run, [&] { return run->dataset->BeginStep(step, std::isnan(time) ? std::optional<double>() : time); });
}

int quarry_insitu_put(quarry_insitu* run, const char* field, int type, int boxes,
                      const void* const* address) {
  return Use(run, [&] {
    const std::size_t count = boxes > 0 && address != nullptr ? static_cast<std::size_t>(boxes) : 0;
    return run->dataset->Put(Text(field), ToType(type), {address, count});
  });
}

int quarry_insitu_end_step(quarry_insitu* run) {
  return Use(run, [&] { return run->dataset->EndStep(); });
}

int quarry_insitu_close(quarry_insitu* run) {
  return Use(run, [&] { return run->Close(); });
}

void quarry_insitu_free(quarry_insitu* run) { delete run; }

const char* quarry_insitu_last_message(const quarry_insitu* run) {
  return run == nullptr ? "there is no dataset object; quarry_insitu_open makes one" : run->message.c_str();
}

const char* quarry_insitu_take_warning(quarry_insitu* run) {
  if (run == nullptr) return "";
  const char* warning = "";
  const Status status = quarry::writer::Guarded([&] {
    warning = run->TakeWarning();
    return Status::Ok();
  });
  (void)status;  // without memory for the text there is none
  return warning;
}

}  // extern "C"
