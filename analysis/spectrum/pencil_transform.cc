#include "analysis/spectrum/pencil_transform.h"

#include <fftw3.h>

#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "quarry/redistribute.h"
#include "writer/pipeline/phases.h"
#include "writer/redistribute/mpi_status.h"
#include "writer/redistribute/schedules.h"

namespace quarry::spectrum {
namespace {

using redistribute::MutableBoxView;
using redistribute::Redistribution;

constexpr std::int64_t kSampleBytes = sizeof(fftw_complex);

/// Memory of FFTW, which is aligned for its SIMD kernels.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::int64_t samples)
      : data_(fftw_alloc_complex(static_cast<std::size_t>(std::max<std::int64_t>(samples, 1)))) {}

  fftw_complex* get() const { return data_.get(); }
  explicit operator bool() const { return data_ != nullptr; }

 private:
  struct Free {
    void operator()(fftw_complex* data) const { fftw_free(data); }
  };
  std::unique_ptr<fftw_complex, Free> data_;
};

class Plan {
 public:
  Plan() = default;
  explicit Plan(fftw_plan plan) : plan_(plan) {}

  /// Nothing where the rank has no lines.
  void Execute() const {
    if (plan_ != nullptr) fftw_execute(plan_.get());
  }

 private:
  struct Destroy {
    void operator()(fftw_plan plan) const { fftw_destroy_plan(plan); }
  };
  std::unique_ptr<std::remove_pointer_t<fftw_plan>, Destroy> plan_;
};

/// The lines of a dense box along an axis, transformed in place; nothing to do for lines of a single sample.
Plan PlanLines(const Box& box, std::size_t axis, fftw_complex* data) {
  const Index3 shape = box.shape();
  if (box.empty() || shape[axis] == 1) return Plan();
  const Index3 stride = {1, shape[0], shape[0] * shape[1]};
  const auto along = [&](std::size_t a) { return fftw_iodim64{shape[a], stride[a], stride[a]}; };
  const fftw_iodim64 line = along(axis);
  std::array<fftw_iodim64, 2> lines{};
  std::size_t next = 0;
  for (std::size_t a = 0; a < 3; ++a) {
    if (a != axis) lines[next++] = along(a);
  }
  return Plan(fftw_plan_guru64_dft(1, &line, 2, lines.data(), data, data, FFTW_FORWARD, FFTW_ESTIMATE));
}

/// Dense real lines along x to the dense first half of their transforms.
Plan PlanRealLines(const Box& real, double* from, fftw_complex* to) {
  if (real.empty()) return Plan();
  const std::int64_t n = real.shape()[0];
  const fftw_iodim64 line{n, 1, 1};
  const fftw_iodim64 lines{real.volume() / n, n, HalfOf(n)};
  return Plan(fftw_plan_guru64_dft_r2c(1, &line, 1, &lines, from, to, FFTW_ESTIMATE | FFTW_DESTROY_INPUT));
}

/// Samples from whole lines along one axis to whole lines along the next.
Result<Redistribution> Transpose(MPI_Comm comm, const Index3& dims, const PencilGrid& grid, int from_axis) {
  QUARRY_ASSIGN_OR_RETURN(
      Redistribution transpose,
      Redistribution::Describe(comm, {.dims = dims, .sample_bytes = static_cast<std::size_t>(kSampleBytes)}));
  int rank = 0;
  QUARRY_MPI(MPI_Comm_rank, comm, &rank);
  const redistribute::Layout layout{dims, distribution::OneBoxEach(Pencils(dims, grid, from_axis)),
                                    distribution::OneBoxEach(Pencils(dims, grid, from_axis + 1))};
  redistribute::Schedules::Use(ScheduleForRank(layout, rank), &transpose);
  return transpose;
}

}  // namespace

struct PencilTransform::State {
  Box real;
  std::array<Box, 3> pencils;  ///< boxes of this rank during the transform, by the axis of whole lines
  // The transform moves from one to the other with each transpose; the real samples begin in the second.
  Buffer first;
  Buffer second;
  std::optional<Redistribution> to_y;
  std::optional<Redistribution> to_z;
  std::array<Plan, 3> lines;
  TransformSeconds seconds;

  Status Allocate();
  void TransformLines(std::size_t axis);
  Status Move(std::size_t axis, Redistribution* transpose, const Buffer& from, const Buffer& to);
};

Status PencilTransform::State::Allocate() {
  std::int64_t samples = 0;
  for (const Box& pencil : pencils) samples = std::max(samples, pencil.volume());
  first = Buffer(samples);
  second = Buffer(samples);
  if (!first || !second)
    return InternalError("no memory for two arrays of {} bytes; use more ranks or nodes",
                         samples * kSampleBytes);
  lines[0] = PlanRealLines(real, reinterpret_cast<double*>(second.get()), first.get());
  lines[1] = PlanLines(pencils[1], 1, second.get());
  lines[2] = PlanLines(pencils[2], 2, first.get());
  return Status::Ok();
}

void PencilTransform::State::TransformLines(std::size_t axis) {
  const writer::Timer timer(&seconds.lines);
  lines[axis].Execute();
}

Status PencilTransform::State::Move(std::size_t axis, Redistribution* transpose, const Buffer& from,
                                    const Buffer& to) {
  const writer::Timer timer(&seconds.transposes);
  const redistribute::BoxView owned = MutableBoxView::Dense(from.get(), pencils[axis], kSampleBytes);
  const MutableBoxView needed = MutableBoxView::Dense(to.get(), pencils[axis + 1], kSampleBytes);
  // A rank without lines has no box, so no view either.
  return transpose->Exchange(std::span(&owned, pencils[axis].empty() ? 0 : 1),
                             std::span(&needed, pencils[axis + 1].empty() ? 0 : 1));
}

Result<PencilTransform> PencilTransform::Create(MPI_Comm comm, const Index3& dims, const PencilGrid& grid) {
  QUARRY_RETURN_IF_ERROR(redistribute::CheckDomain(dims, static_cast<std::size_t>(kSampleBytes)));
  int rank = 0;
  int ranks = 0;
  QUARRY_MPI(MPI_Comm_rank, comm, &rank);
  QUARRY_MPI(MPI_Comm_size, comm, &ranks);
  if (grid.ranks() != ranks)
    return InvalidArgument("a grid of {} x {} ranks does not fit {} ranks", grid.first, grid.second, ranks);
  auto state = std::make_unique<State>();
  const std::size_t own = static_cast<std::size_t>(rank);
  state->real = Pencils(dims, grid, 0)[own];
  for (int axis = 0; axis < 3; ++axis)
    state->pencils[static_cast<std::size_t>(axis)] = Pencils(TransformDims(dims), grid, axis)[own];
  QUARRY_RETURN_IF_ERROR(redistribute::AgreeOnStatus(comm, state->Allocate()));
  QUARRY_ASSIGN_OR_RETURN(state->to_y, Transpose(comm, TransformDims(dims), grid, 0));
  QUARRY_ASSIGN_OR_RETURN(state->to_z, Transpose(comm, TransformDims(dims), grid, 1));
  return PencilTransform(std::move(state));
}

PencilTransform::PencilTransform(std::unique_ptr<State> state) : state_(std::move(state)) {}
PencilTransform::~PencilTransform() = default;
PencilTransform::PencilTransform(PencilTransform&&) noexcept = default;
PencilTransform& PencilTransform::operator=(PencilTransform&&) noexcept = default;

const Box& PencilTransform::input_box() const { return state_->real; }

std::span<double> PencilTransform::input() {
  return {reinterpret_cast<double*>(state_->second.get()), static_cast<std::size_t>(state_->real.volume())};
}

Status PencilTransform::Run() {
  state_->TransformLines(0);
  QUARRY_RETURN_IF_ERROR(state_->Move(0, &*state_->to_y, state_->first, state_->second));
  state_->TransformLines(1);
  QUARRY_RETURN_IF_ERROR(state_->Move(1, &*state_->to_z, state_->second, state_->first));
  state_->TransformLines(2);
  return Status::Ok();
}

const Box& PencilTransform::output_box() const { return state_->pencils[2]; }

std::span<const std::complex<double>> PencilTransform::output() const {
  return {reinterpret_cast<const std::complex<double>*>(state_->first.get()),
          static_cast<std::size_t>(output_box().volume())};
}

const TransformSeconds& PencilTransform::seconds() const { return state_->seconds; }

}  // namespace quarry::spectrum
