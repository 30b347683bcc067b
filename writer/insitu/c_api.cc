#include <algorithm>
#include <cmath>
#include <new>

#include "writer/insitu/insitu.h"
#include "writer/insitu/quarry_insitu.h"
#include "writer/pipeline/comm.h"

namespace {

using quarry::Box;
using quarry::CoderId;
using quarry::DataType;
using quarry::Index3;
using quarry::InvalidArgument;
using quarry::Status;
using quarry::StatusCode;
namespace insitu = quarry::insitu;

static_assert(QUARRY_INSITU_INVALID_ARGUMENT == static_cast<int>(StatusCode::kInvalidArgument));
static_assert(QUARRY_INSITU_NOT_FOUND == static_cast<int>(StatusCode::kNotFound));
static_assert(QUARRY_INSITU_ALREADY_EXISTS == static_cast<int>(StatusCode::kAlreadyExists));
static_assert(QUARRY_INSITU_FAILED_PRECONDITION == static_cast<int>(StatusCode::kFailedPrecondition));
static_assert(QUARRY_INSITU_INTERNAL == static_cast<int>(StatusCode::kInternal));
static_assert(QUARRY_INSITU_UNAVAILABLE == static_cast<int>(StatusCode::kUnavailable));
static_assert(QUARRY_INSITU_DATA_LOSS == static_cast<int>(StatusCode::kDataLoss));
static_assert(QUARRY_FLOAT32 == static_cast<int>(DataType::kFloat32));
static_assert(QUARRY_UINT32 == static_cast<int>(DataType::kUint32));

Index3 ToIndex(const std::int64_t* numbers) { return {numbers[0], numbers[1], numbers[2]}; }

Status CheckType(int type) {
  if (type >= QUARRY_FLOAT32 && type <= QUARRY_UINT32) return Status::Ok();
  return InvalidArgument("{} is no type of samples; give QUARRY_FLOAT32 or another of the list", type);
}

}  // namespace

struct quarry_insitu {
  MPI_Comm comm = MPI_COMM_NULL;  ///< ours, until the dataset is started
  insitu::Setup setup;
  std::vector<insitu::OwnedBox> boxes;
  bool grid_is_set = false;
  Status declared;  ///< the first error of the local calls
  std::unique_ptr<insitu::Dataset> dataset;
  bool closed = false;
  std::string message;

  void FreeCommunicator() {
    if (comm != MPI_COMM_NULL) MPI_Comm_free(&comm);
  }

  int Report(const Status& status) {
    if (!status.ok()) message = status.message();
    return static_cast<int>(status.code());
  }

  /// A local call before the start.
  template <typename Work>
  int Declare(Work work) {
    const Status status = quarry::writer::Guarded([&]() -> Status {
      if (dataset || closed) {
        return {StatusCode::kFailedPrecondition, "declarations come before quarry_insitu_start; the dataset is started"};
      }
      return work();
    });
    if (declared.ok()) declared = status;
    return Report(status);
  }

  /// A call on the started dataset.
  template <typename Work>
  int Use(Work work) {
    return Report(quarry::writer::Guarded([&]() -> Status {
      if (!dataset) {
        return {StatusCode::kFailedPrecondition,
                closed ? "the dataset is closed" : "the dataset is not started; call quarry_insitu_start before"};
      }
      return work();
    }));
  }

  Status FindField(const char* name, insitu::Field** found) {
    for (insitu::Field& field : setup.declaration.fields) {
      if (name == nullptr || field.name != name) continue;
      *found = &field;
      return Status::Ok();
    }
    return InvalidArgument("there is no field \"{}\" yet; add it before", name == nullptr ? "" : name);
  }

  Status Start() {
    Status local = declared;
    if (local.ok() && (dataset || closed)) local = {StatusCode::kFailedPrecondition, "the dataset was started before"};
    if (comm == MPI_COMM_NULL) return local.ok() ? Status(StatusCode::kFailedPrecondition, "opening has failed") : local;
    if (local.ok() && !grid_is_set) local = InvalidArgument("no grid is declared; call quarry_insitu_set_grid");
    QUARRY_RETURN_IF_ERROR(quarry::writer::AgreeOnStatus(comm, local));
    QUARRY_ASSIGN_OR_RETURN(dataset, insitu::Dataset::Open(comm, setup, boxes));
    FreeCommunicator();
    return Status::Ok();
  }
};

extern "C" {

int quarry_insitu_open(MPI_Comm comm, const char* path, int mode, quarry_insitu** out) {
  if (out == nullptr) return QUARRY_INSITU_INVALID_ARGUMENT;
  *out = new (std::nothrow) quarry_insitu;
  if (*out == nullptr) return QUARRY_INSITU_INTERNAL;
  quarry_insitu& run = **out;
  return run.Declare([&]() -> Status {
    int initialized = 0;
    int finalized = 0;
    MPI_Initialized(&initialized);
    MPI_Finalized(&finalized);
    if (initialized == 0 || finalized != 0)
      return {StatusCode::kFailedPrecondition, "MPI is not running; call this between MPI_Init and MPI_Finalize"};
    if (comm == MPI_COMM_NULL)
      return InvalidArgument("the communicator is MPI_COMM_NULL; give that of the ranks that own data");
    if (MPI_Comm_dup(comm, &run.comm) != MPI_SUCCESS)
      return {StatusCode::kInternal, "MPI cannot duplicate the communicator; free communicators that are not used"};
    MPI_Comm_set_errhandler(run.comm, MPI_ERRORS_RETURN);
    Status local;
    if (path == nullptr || *path == '\0') local = InvalidArgument("there is no path; give that of the dataset");
    if (mode < QUARRY_INSITU_CREATE || mode > QUARRY_INSITU_RESUME)
      local = InvalidArgument("{} is no mode; give QUARRY_INSITU_CREATE, _APPEND or _RESUME", mode);
    QUARRY_RETURN_IF_ERROR(quarry::writer::AgreeOnStatus(run.comm, local));
    run.setup.path = path;
    run.setup.mode = static_cast<insitu::OpenMode>(mode);
    return Status::Ok();
  });
}

int quarry_insitu_open_f(MPI_Fint comm, const char* path, int mode, quarry_insitu** out) {
  return quarry_insitu_open(MPI_Comm_f2c(comm), path, mode, out);
}

int quarry_insitu_set_grid(quarry_insitu* run, const int64_t dims[3]) {
  return run->Declare([&]() -> Status {
    run->setup.declaration.dims = ToIndex(dims);
    run->grid_is_set = true;
    return Status::Ok();
  });
}

int quarry_insitu_set_axes(quarry_insitu* run, const double origin[3], const double spacing[3]) {
  return run->Declare([&]() -> Status {
    run->setup.declaration.origin = {origin[0], origin[1], origin[2]};
    run->setup.declaration.spacing = {spacing[0], spacing[1], spacing[2]};
    return Status::Ok();
  });
}

int quarry_insitu_set_patch(quarry_insitu* run, const int64_t patch[3], int levels) {
  return run->Declare([&]() -> Status {
    run->setup.declaration.patch = ToIndex(patch);
    if (levels != 0) run->setup.declaration.levels = levels;
    return Status::Ok();
  });
}

int quarry_insitu_set_files(quarry_insitu* run, int files) {
  return run->Declare([&]() -> Status {
    run->setup.pipeline.files = files;
    return Status::Ok();
  });
}

int quarry_insitu_set_memory(quarry_insitu* run, int64_t bytes) {
  return run->Declare([&]() -> Status {
    if (bytes < 1) return InvalidArgument("{} bytes of memory are not enough for anything; give more", bytes);
    run->setup.pipeline.memory_per_rank = static_cast<std::uint64_t>(bytes);
    return Status::Ok();
  });
}

int quarry_insitu_add_field(quarry_insitu* run, const char* name, int type, int bound_kind, double bound,
                            const char* units) {
  return run->Declare([&]() -> Status {
    insitu::Field field;
    field.name = name == nullptr ? "" : name;
    field.units = units == nullptr ? "" : units;
    QUARRY_RETURN_IF_ERROR(CheckType(type));
    field.type = static_cast<DataType>(type);
    if (bound_kind == QUARRY_LOSSLESS) {
      field.lossless = true;
    } else if (bound_kind == QUARRY_TOLERANCE) {
      field.tolerance = bound;
    } else if (bound_kind == QUARRY_RELATIVE) {
      field.relative = bound;
    } else {
      return InvalidArgument("{} is no kind of bound; give QUARRY_LOSSLESS, QUARRY_TOLERANCE or QUARRY_RELATIVE",
                             bound_kind);
    }
    run->setup.declaration.fields.push_back(std::move(field));
    return Status::Ok();
  });
}

int quarry_insitu_set_fill(quarry_insitu* run, const char* field, double fill) {
  return run->Declare([&]() -> Status {
    insitu::Field* found = nullptr;
    QUARRY_RETURN_IF_ERROR(run->FindField(field, &found));
    found->fill = fill;
    return Status::Ok();
  });
}

int quarry_insitu_set_codec(quarry_insitu* run, const char* field, const char* codec) {
  return run->Declare([&]() -> Status {
    insitu::Field* found = nullptr;
    QUARRY_RETURN_IF_ERROR(run->FindField(field, &found));
    QUARRY_ASSIGN_OR_RETURN(found->coder, quarry::ParseCoder(codec == nullptr ? "" : codec));
    return Status::Ok();
  });
}

int quarry_insitu_add_box(quarry_insitu* run, const int64_t begin[3], const int64_t end[3],
                          const int64_t array_begin[3], const int64_t array_end[3], int order) {
  return run->Declare([&]() -> Status {
    if (order != QUARRY_X_FASTEST && order != QUARRY_Z_FASTEST)
      return InvalidArgument("{} is no order of axes; give QUARRY_X_FASTEST or QUARRY_Z_FASTEST", order);
    run->boxes.push_back(insitu::OwnedBox::InArray(
        {ToIndex(begin), ToIndex(end)}, {ToIndex(array_begin), ToIndex(array_end)},
        order == QUARRY_X_FASTEST ? insitu::ArrayOrder::kXFastest : insitu::ArrayOrder::kZFastest));
    return Status::Ok();
  });
}

int quarry_insitu_add_strided_box(quarry_insitu* run, const int64_t begin[3], const int64_t end[3],
                                  const int64_t stride[3]) {
  return run->Declare([&]() -> Status {
    run->boxes.push_back(insitu::OwnedBox::Strided({ToIndex(begin), ToIndex(end)}, ToIndex(stride)));
    return Status::Ok();
  });
}

int quarry_insitu_start(quarry_insitu* run) {
  return run->Report(quarry::writer::Guarded([&] { return run->Start(); }));
}

int quarry_insitu_begin_step(quarry_insitu* run, int64_t step, double time) {
  return run->Use([&]() -> Status {
    if (step < 0) {
      return run->dataset->Refuse(InvalidArgument("step {} makes no sense; steps are numbered from 0", step));
    }
    return run->dataset->BeginStep(static_cast<std::uint64_t>(step),
                                   std::isnan(time) ? std::optional<double>() : time);
  });
}

int quarry_insitu_put(quarry_insitu* run, const char* field, int type, int boxes, const void* const* address) {
  return run->Use([&]() -> Status {
    const std::size_t count = boxes > 0 && address != nullptr ? static_cast<std::size_t>(boxes) : 0;
    if (const Status known = CheckType(type); !known.ok()) return run->dataset->Refuse(known);
    return run->dataset->Put(field == nullptr ? "" : field, static_cast<DataType>(type), {address, count});
  });
}

int quarry_insitu_end_step(quarry_insitu* run) {
  return run->Use([&] { return run->dataset->EndStep(); });
}

int quarry_insitu_close(quarry_insitu* run) {
  const int code = run->Use([&] { return run->dataset->Close(); });
  run->dataset.reset();
  run->closed = true;
  return code;
}

void quarry_insitu_free(quarry_insitu* run) {
  if (run == nullptr) return;
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized == 0) run->FreeCommunicator();
  delete run;
}

const char* quarry_insitu_last_message(const quarry_insitu* run) { return run == nullptr ? "" : run->message.c_str(); }

}  // extern "C"
