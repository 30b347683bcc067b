// The transform over real ranks, against sums over all samples: every rank checks its own wave numbers.
#include "analysis/spectrum/pencil_transform.h"

#include <cmath>
#include <cstdio>
#include <numbers>

#include "writer/pipeline/comm.h"

namespace quarry::spectrum {
namespace {

/// Without any symmetry, and different at each sample.
double SampleAt(std::int64_t x, std::int64_t y, std::int64_t z) {
  const auto scattered = static_cast<std::uint32_t>(x * 73856093 + y * 19349663 + z * 83492791) * 2654435761u;
  return static_cast<double>(scattered >> 8) / (1 << 24) - 0.3;
}

template <typename Visit>
void ForEachSample(const Box& box, Visit visit) {
  for (auto z = box.begin[2]; z < box.end[2]; ++z) {
    for (auto y = box.begin[1]; y < box.end[1]; ++y) {
      for (auto x = box.begin[0]; x < box.end[0]; ++x) visit(x, y, z);
    }
  }
}

/// The definition: the sum over all samples times exp(-2 pi i (kx x / nx + ky y / ny + kz z / nz)).
std::complex<double> Expected(const Index3& dims, std::int64_t kx, std::int64_t ky, std::int64_t kz) {
  std::complex<double> sum = 0;
  ForEachSample({{0, 0, 0}, dims}, [&](auto x, auto y, auto z) {
    const double turns = static_cast<double>(kx * x % dims[0]) / static_cast<double>(dims[0]) +
                         static_cast<double>(ky * y % dims[1]) / static_cast<double>(dims[1]) +
                         static_cast<double>(kz * z % dims[2]) / static_cast<double>(dims[2]);
    sum += std::polar(SampleAt(x, y, z), -2 * std::numbers::pi * turns);
  });
  return sum;
}

Status CheckTransform(const Index3& dims, const PencilGrid& grid) {
  auto transform = PencilTransform::Create(MPI_COMM_WORLD, dims, grid);
  if (!transform.ok()) return transform.status();
  // Twice: the second must not depend on what the first left behind.
  for (int run = 0; run < 2; ++run) {
    std::size_t next = 0;
    ForEachSample(transform->input_box(),
                  [&](auto x, auto y, auto z) { transform->input()[next++] = SampleAt(x, y, z); });
    QUARRY_RETURN_IF_ERROR(transform->Run());
    const Box& box = transform->output_box();
    if (!box.empty() && (box.begin[2] != 0 || box.end[2] != dims[2]))
      return InternalError("lines along z of {} are cut: {}", ToString(dims), ToString(box));
    double worst = 0;
    next = 0;
    ForEachSample(box, [&](auto kx, auto ky, auto kz) {
      worst = std::max(worst, std::abs(transform->output()[next++] - Expected(dims, kx, ky, kz)));
    });
    if (!(worst < 1e-11))
      return InternalError("{} on {} x {}: off by {}", ToString(dims), grid.first, grid.second, worst);
  }
  return Status::Ok();
}

/// Each way to divide the ranks by two axes.
Status CheckAllGrids(const Index3& dims) {
  const int ranks = writer::Size(MPI_COMM_WORLD);
  for (int first = 1; first <= ranks; ++first) {
    if (ranks % first != 0) continue;
    const Status checked = CheckTransform(dims, {first, ranks / first});
    QUARRY_RETURN_IF_ERROR(writer::AgreeOnStatus(MPI_COMM_WORLD, checked));
  }
  return Status::Ok();
}

Status CheckRefusals() {
  const int ranks = writer::Size(MPI_COMM_WORLD);
  for (const auto& [dims, grid] : {std::pair<Index3, PencilGrid>{{8, 8, 8}, {ranks + 1, 1}},
                                   {{8, 0, 8}, {ranks, 1}},
                                   {{std::int64_t{1} << 31, std::int64_t{1} << 31, 1}, {ranks, 1}}}) {
    const auto transform = PencilTransform::Create(MPI_COMM_WORLD, dims, grid);
    if (transform.ok() || transform.status().code() != StatusCode::kInvalidArgument)
      return InternalError("{} on {} x {} is not refused", ToString(dims), grid.first, grid.second);
  }
  return Status::Ok();
}

Status CheckAll() {
  // Even, odd, prime, one sample along an axis, fewer lines than ranks.
  for (const Index3& dims :
       {Index3{8, 6, 4}, Index3{7, 5, 3}, Index3{9, 5, 6}, Index3{5, 3, 2}, Index3{12, 7, 1}, Index3{1, 9, 4},
        Index3{6, 1, 5}, Index3{1, 1, 1}, Index3{2, 1, 1}}) {
    QUARRY_RETURN_IF_ERROR(CheckAllGrids(dims));
  }
  return CheckRefusals();
}

}  // namespace
}  // namespace quarry::spectrum

int main(int argc, char** argv) {
  const quarry::writer::MpiSession mpi(&argc, &argv);
  const quarry::Status status = quarry::spectrum::CheckAll();
  if (!status.ok()) fmt::print(stderr, "{}\n", status.message());
  return status.ok() ? 0 : 1;
}
