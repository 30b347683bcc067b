#include "writer/exchange.h"

#include <cstring>

#include "writer/comm.h"

namespace quarry::writer {
namespace {

MPI_Datatype ElementType(DataType type) {
  switch (SizeOf(type)) {
    case 1:
      return MPI_UINT8_T;
    case 2:
      return MPI_UINT16_T;
    case 4:
      return MPI_UINT32_T;
    default:
      return MPI_UINT64_T;
  }
}

Index3 Difference(const Index3& a, const Index3& b) { return {a[0] - b[0], a[1] - b[1], a[2] - b[2]}; }

Datatype PartOf(const Box& whole, const Box& part, MPI_Datatype element) {
  return Datatype::Subarray(whole.shape(), part.shape(), Difference(part.begin, whole.begin), element);
}

/// Copies `part` from one dense box to another.
void CopyPart(const Box& part, const Box& from_box, ByteSpan from, const Box& to_box, std::span<std::byte> to,
              std::size_t size) {
  const auto offset = [&](const Box& box, std::int64_t y, std::int64_t z) {
    const Index3 shape = box.shape();
    const std::int64_t sample =
        part.begin[0] - box.begin[0] + shape[0] * (y - box.begin[1] + shape[1] * (z - box.begin[2]));
    return static_cast<std::size_t>(sample) * size;
  };
  const auto row_bytes = static_cast<std::size_t>(part.shape()[0]) * size;
  for (std::int64_t z = part.begin[2]; z < part.end[2]; ++z) {
    for (std::int64_t y = part.begin[1]; y < part.end[1]; ++y) {
      std::memcpy(to.data() + offset(to_box, y, z), from.data() + offset(from_box, y, z), row_bytes);
    }
  }
}

}  // namespace

std::vector<PatchSamples> ExchangePatches(MPI_Comm comm, const PatchGrid& grid, DataType type,
                                          const std::vector<Box>& owned,
                                          const distribution::Placement& placement, ByteSpan samples) {
  const int rank = Rank(comm);
  const Box& mine = owned[static_cast<std::size_t>(rank)];
  const MPI_Datatype element = ElementType(type);
  const distribution::Sharers sharers = distribution::FindSharers(grid, owned);
  std::vector<PatchSamples> patches;
  std::vector<MPI_Request> requests;
  std::vector<Datatype> types;  // kept until the messages are complete

  // Both sides walk the patches in index order, so that messages between two ranks match in the order of
  // posting.
  constexpr int kTag = 0;
  for (std::int64_t p = 0; p < grid.patch_count(); ++p) {
    if (placement[static_cast<std::size_t>(p)] != rank) continue;
    const Box box = grid.PatchBox(p);
    patches.push_back({p, Bytes(static_cast<std::size_t>(box.volume()) * SizeOf(type))});
    for (const int source : sharers.Of(p)) {
      const Box part = Intersect(box, owned[static_cast<std::size_t>(source)]);
      if (source == rank) {
        CopyPart(part, mine, samples, box, patches.back().samples, SizeOf(type));
        continue;
      }
      types.push_back(PartOf(box, part, element));
      requests.emplace_back();
      MPI_Irecv(patches.back().samples.data(), 1, types.back().get(), source, kTag, comm, &requests.back());
    }
  }
  const Box meeting = grid.PatchesMeeting(mine);
  for (std::int64_t z = meeting.begin[2]; z < meeting.end[2]; ++z) {
    for (std::int64_t y = meeting.begin[1]; y < meeting.end[1]; ++y) {
      for (std::int64_t x = meeting.begin[0]; x < meeting.end[0]; ++x) {
        const std::int64_t p = grid.PatchIndex({x, y, z});
        const int target = placement[static_cast<std::size_t>(p)];
        if (target == rank) continue;
        types.push_back(PartOf(mine, Intersect(mine, grid.PatchBox(p)), element));
        requests.emplace_back();
        MPI_Isend(samples.data(), 1, types.back().get(), target, kTag, comm, &requests.back());
      }
    }
  }
  MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
  return patches;
}

}  // namespace quarry::writer
