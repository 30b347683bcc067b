#include "writer/pipeline/exchange.h"

#include <cstring>

#include "writer/pipeline/comm.h"

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

/// The part of a box that is seen through a view.
struct PartView {
  const std::byte* data;
  Index3 shape;
  Index3 stride;
};

PartView ViewPart(const BoxView& view, const Box& box, const Box& part) {
  const std::byte* data = view.data;
  for (std::size_t a = 0; a < 3; ++a) data += (part.begin[a] - box.begin[a]) * view.stride[a];
  return {data, part.shape(), view.stride};
}

Datatype TypeOf(const PartView& part, MPI_Datatype element) {
  return Datatype::Strided(part.shape, part.stride, element);
}

void CopyPart(const PartView& from, const PartView& to, std::size_t size) {
  const bool rows = from.stride[0] == static_cast<std::int64_t>(size) && to.stride[0] == from.stride[0];
  for (std::int64_t z = 0; z < from.shape[2]; ++z) {
    for (std::int64_t y = 0; y < from.shape[1]; ++y) {
      const std::byte* source = from.data + y * from.stride[1] + z * from.stride[2];
      auto* target = const_cast<std::byte*>(to.data) + y * to.stride[1] + z * to.stride[2];
      if (rows) {
        std::memcpy(target, source, static_cast<std::size_t>(from.shape[0]) * size);
        continue;
      }
      for (std::int64_t x = 0; x < from.shape[0]; ++x)
        std::memcpy(target + x * to.stride[0], source + x * from.stride[0], size);
    }
  }
}

}  // namespace

BoxView BoxView::Dense(const std::byte* data, const Box& box, std::size_t sample_bytes) {
  const Index3 shape = box.shape();
  const auto size = static_cast<std::int64_t>(sample_bytes);
  return {data, {size, size * shape[0], size * shape[0] * shape[1]}};
}

std::vector<PatchSamples> ExchangePatches(MPI_Comm comm, const PatchGrid& grid, DataType type,
                                          const distribution::Ownership& owned,
                                          const distribution::Placement& placement,
                                          const std::vector<BoxView>& samples, ExchangeBatch) {
  const int rank = Rank(comm);
  const std::vector<Box>& mine = owned[static_cast<std::size_t>(rank)];
  const MPI_Datatype element = ElementType(type);
  const distribution::Sharers sharers = distribution::FindSharers(grid, owned);
  std::vector<PatchSamples> patches;
  std::vector<MPI_Request> requests;
  std::vector<Datatype> types;  // kept until the messages are complete

  // Both sides walk the patches in index order, and the sender's boxes in theirs, so that messages between two
  // ranks match in the order of posting.
  constexpr int kTag = 0;
  for (std::int64_t p = 0; p < grid.patch_count(); ++p) {
    const bool receives = placement[static_cast<std::size_t>(p)] == rank;
    const Box box = grid.PatchBox(p);
    if (receives) {
      patches.push_back({p, Bytes(static_cast<std::size_t>(box.volume()) * SizeOf(type))});
    }
    for (const int source : sharers.Of(p)) {
      if (!receives && source != rank) continue;
      const std::vector<Box>& boxes = owned[static_cast<std::size_t>(source)];
      for (std::size_t b = 0; b < boxes.size(); ++b) {
        const Box part = Intersect(box, boxes[b]);
        if (part.empty()) continue;
        if (!receives) {
          const PartView from = ViewPart(samples[b], boxes[b], part);
          types.push_back(TypeOf(from, element));
          requests.emplace_back();
          MPI_Isend(from.data, 1, types.back().get(), placement[static_cast<std::size_t>(p)], kTag, comm,
                    &requests.back());
          continue;
        }
        const BoxView whole = BoxView::Dense(patches.back().samples.data(), box, SizeOf(type));
        const PartView to = ViewPart(whole, box, part);
        if (source == rank) {
          CopyPart(ViewPart(samples[b], mine[b], part), to, SizeOf(type));
          continue;
        }
        types.push_back(TypeOf(to, element));
        requests.emplace_back();
        MPI_Irecv(const_cast<std::byte*>(to.data), 1, types.back().get(), source, kTag, comm,
                  &requests.back());
      }
    }
  }
  MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
  return patches;
}

}  // namespace quarry::writer
