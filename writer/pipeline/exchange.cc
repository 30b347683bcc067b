#include "writer/pipeline/exchange.h"

#include <utility>

#include "writer/pipeline/comm.h"
#include "writer/pipeline/phases.h"

namespace quarry::writer {
namespace {

/// A rank needs whole patches, in ascending order.
distribution::Ownership PatchesOfRanks(const PatchGrid& grid, const distribution::Placement& placement,
                                       std::size_t ranks) {
  distribution::Ownership needed(ranks);
  for (std::int64_t p = 0; p < grid.patch_count(); ++p)
    needed[static_cast<std::size_t>(placement[static_cast<std::size_t>(p)])].push_back(grid.PatchBox(p));
  return needed;
}

std::vector<PatchSamples> AllocatePatches(const PatchGrid& grid, DataType type,
                                          const distribution::Placement& placement, int rank) {
  std::vector<PatchSamples> patches;
  for (std::int64_t p = 0; p < grid.patch_count(); ++p) {
    if (placement[static_cast<std::size_t>(p)] != rank) continue;
    const auto volume = static_cast<std::size_t>(grid.PatchBox(p).volume());
    patches.push_back({p, Bytes(volume * SizeOf(type)), 0});
  }
  return patches;
}

}  // namespace

Result<std::vector<PatchSamples>> TryExchangePatches(MPI_Comm comm, const PatchGrid& grid, DataType type,
                                                     const distribution::Ownership& owned,
                                                     const distribution::Placement& placement,
                                                     const std::vector<BoxView>& samples,
                                                     ExchangeBatch batch) {
  using redistribute::Method;
  QUARRY_ASSIGN_OR_RETURN(auto redistribution,
                          redistribute::Redistribution::Describe(
                              comm, {grid.dims(), SizeOf(type), Method::kPointToPoint, batch}));
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  const redistribute::Layout layout{grid.dims(), owned, PatchesOfRanks(grid, placement, owned.size())};
  redistribution.Use(redistribute::ScheduleForRank(layout, rank));
  std::vector<PatchSamples> patches;
  QUARRY_RETURN_IF_ERROR(AgreeOnStatus(comm, Guarded([&] {
                                         patches = AllocatePatches(grid, type, placement, rank);
                                         return Status::Ok();
                                       })));
  std::vector<redistribute::MutableBoxView> views;
  for (PatchSamples& patch : patches)
    views.push_back(redistribute::MutableBoxView::Dense(patch.samples.data(),
                                                        grid.PatchBox(patch.patch_index), SizeOf(type)));
  QUARRY_RETURN_IF_ERROR(redistribution.Exchange(samples, views));
  return patches;
}

std::vector<PatchSamples> ExchangePatches(MPI_Comm comm, const PatchGrid& grid, DataType type,
                                          const distribution::Ownership& owned,
                                          const distribution::Placement& placement,
                                          const std::vector<BoxView>& samples, ExchangeBatch batch) {
  auto patches = TryExchangePatches(comm, grid, type, owned, placement, samples, batch);
  if (patches.ok()) return *std::move(patches);
  MPI_Comm_call_errhandler(comm, MPI_ERR_OTHER);
  return {};
}

}  // namespace quarry::writer
