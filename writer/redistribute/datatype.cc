#include "writer/redistribute/datatype.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "writer/redistribute/mpi_status.h"

namespace quarry::redistribute {
namespace {

/// Open MPI 4.1 packs wrong bytes for a vector with a negative stride of types that are contiguous. The same
/// layout with explicit offsets works.
Status RepeatBackwards(MPI_Datatype type, std::int64_t count, std::int64_t stride, MPI_Datatype* repeated) {
  std::vector<MPI_Aint> offsets;
  for (std::int64_t i = 0; i < count; ++i) offsets.push_back(i * stride);
  QUARRY_MPI(MPI_Type_create_hindexed_block, static_cast<int>(count), 1, offsets.data(), type, repeated);
  return Status::Ok();
}

/// `count` of `type`, `stride` bytes apart. MPI counts are ints: larger counts are built from blocks, and so
/// are types with many explicit offsets.
Status Repeat(MPI_Datatype type, std::int64_t count, std::int64_t stride, MPI_Datatype* repeated) {
  const std::int64_t block = std::int64_t{1} << (stride < 0 ? 12 : 30);
  if (stride < 0 && count <= block) return RepeatBackwards(type, count, stride, repeated);
  if (stride >= 0 && count <= std::numeric_limits<int>::max()) {
    QUARRY_MPI(MPI_Type_create_hvector, static_cast<int>(count), 1, stride, type, repeated);
    return Status::Ok();
  }
  const std::int64_t blocks = count / block;
  MPI_Datatype parts[3] = {MPI_DATATYPE_NULL, MPI_DATATYPE_NULL,
                           MPI_DATATYPE_NULL};  // block, all blocks, rest
  Status status = Repeat(type, block, stride, &parts[0]);
  if (status.ok()) status = Repeat(parts[0], blocks, stride * block, &parts[1]);
  const std::int64_t rest = count - blocks * block;
  if (status.ok() && rest > 0) status = Repeat(type, rest, stride, &parts[2]);
  const int lengths[2] = {1, 1};
  const MPI_Aint offsets[2] = {0, stride * block * blocks};
  if (status.ok())
    status = MpiStatus(MPI_Type_create_struct(rest > 0 ? 2 : 1, lengths, offsets, parts + 1, repeated),
                       "MPI_Type_create_struct");
  for (MPI_Datatype& part : parts) {
    if (part != MPI_DATATYPE_NULL) MPI_Type_free(&part);
  }
  return status;
}

struct Run {
  std::int64_t count;
  std::int64_t stride;
};

/// Axes as nested runs, innermost first. Leaves out axes of one sample and joins axes that are contiguous in
/// memory, so that MPI sees the longest runs.
std::vector<Run> Runs(const Index3& shape, const Index3& stride) {
  std::vector<Run> runs;
  for (std::size_t a = 0; a < 3; ++a) {
    if (shape[a] == 1) continue;
    if (!runs.empty() && stride[a] == runs.back().stride * runs.back().count) {
      runs.back().count *= shape[a];
    } else {
      runs.push_back({shape[a], stride[a]});
    }
  }
  return runs;
}

}  // namespace

Result<Datatype> Datatype::Sample(std::size_t bytes) {
  switch (bytes) {
    case 1:
      return Datatype(MPI_UINT8_T, false);
    case 2:
      return Datatype(MPI_UINT16_T, false);
    case 4:
      return Datatype(MPI_UINT32_T, false);
    case 8:
      return Datatype(MPI_UINT64_T, false);
    default:
      break;
  }
  if (bytes > static_cast<std::size_t>(std::numeric_limits<int>::max()))
    return InvalidArgument("a sample of {} bytes is larger than MPI can describe (2^31 - 1 bytes)", bytes);
  MPI_Datatype type;
  QUARRY_MPI(MPI_Type_contiguous, static_cast<int>(bytes), MPI_BYTE, &type);
  return Datatype(type, true);
}

Result<Datatype> Datatype::Strided(const Index3& shape, const Index3& stride, std::size_t sample_bytes,
                                   const Datatype& sample) {
  std::vector<Run> runs = Runs(shape, stride);
  if (runs.empty()) runs.push_back({1, static_cast<std::int64_t>(sample_bytes)});
  MPI_Datatype type = sample.get();
  for (std::size_t r = 0; r < runs.size(); ++r) {
    MPI_Datatype outer = MPI_DATATYPE_NULL;
    const Status status = Repeat(type, runs[r].count, runs[r].stride, &outer);
    if (r > 0) MPI_Type_free(&type);
    QUARRY_RETURN_IF_ERROR(status);
    type = outer;
  }
  return Datatype(type, true);
}

Result<Datatype> Datatype::AtAddresses(std::span<const Datatype> types, std::span<const MPI_Aint> addresses) {
  if (types.size() > static_cast<std::size_t>(std::numeric_limits<int>::max()))
    return InvalidArgument("{} parts in one message are more than MPI can describe; use smaller batches",
                           types.size());
  std::vector<MPI_Datatype> handles;
  for (const Datatype& type : types) handles.push_back(type.get());
  const std::vector<int> lengths(types.size(), 1);
  MPI_Datatype type = MPI_DATATYPE_NULL;
  QUARRY_MPI(MPI_Type_create_struct, static_cast<int>(types.size()), lengths.data(), addresses.data(),
             handles.data(), &type);
  Datatype result(type, true);
  QUARRY_MPI(MPI_Type_commit, &result.type_);
  return result;
}

Datatype::~Datatype() {
  if (owned_ && type_ != MPI_DATATYPE_NULL) MPI_Type_free(&type_);
}

}  // namespace quarry::redistribute
