#include "benchmarks/reproduction/model/patch_exchange.h"

#include "writer/redistribute/schedules.h"

namespace quarry::reproduction {

Result<PatchExchange> PatchExchange::Plan(MPI_Comm comm, const PatchGrid& grid, DataType type,
                                          const distribution::Ownership& owned,
                                          const distribution::Placement& placement,
                                          writer::ExchangeBatch batch) {
  using redistribute::Method;
  QUARRY_ASSIGN_OR_RETURN(auto redistribution,
                          redistribute::Redistribution::Describe(
                              comm, {grid.dims(), SizeOf(type), Method::kPointToPoint, batch}));
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  const redistribute::Layout layout{grid.dims(), owned,
                                    distribution::PatchesOfRanks(grid, placement, owned.size())};
  redistribute::Schedules::Use(redistribute::ScheduleForRank(layout, rank), &redistribution);
  std::vector<std::int64_t> patches;
  for (std::int64_t p = 0; p < grid.patch_count(); ++p) {
    if (placement[static_cast<std::size_t>(p)] == rank) patches.push_back(p);
  }
  return PatchExchange(std::move(redistribution), grid, SizeOf(type), std::move(patches));
}

std::vector<writer::PatchSamples> PatchExchange::Allocate() const {
  std::vector<writer::PatchSamples> patches;
  for (const std::int64_t p : patches_) {
    const auto volume = static_cast<std::size_t>(grid_.PatchBox(p).volume());
    patches.push_back({p, Bytes(volume * sample_bytes_), 0});
  }
  return patches;
}

Status PatchExchange::Run(const std::vector<writer::BoxView>& samples,
                          std::vector<writer::PatchSamples>* patches) {
  std::vector<redistribute::MutableBoxView> views;
  for (writer::PatchSamples& patch : *patches)
    views.push_back(redistribute::MutableBoxView::Dense(patch.samples.data(),
                                                        grid_.PatchBox(patch.patch_index), sample_bytes_));
  return redistribution_.Exchange(samples, views);
}

}  // namespace quarry::reproduction
