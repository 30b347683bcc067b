#pragma once

#include <mpi.h>

#include <utility>
#include <vector>

#include "quarry/data_type.h"
#include "quarry/geometry/patch_grid.h"
#include "quarry/redistribute.h"
#include "writer/distribution/placement.h"
#include "writer/pipeline/exchange.h"

namespace quarry::reproduction {

/// An exchange between arrays that are all in memory, planned once and run as often as there is new data.
/// Every rank plans for itself from boxes and placement, without communication. The writer's own exchange
/// (writer::PatchGathering) runs once, and takes samples piece by piece.
class PatchExchange {
 public:
  /// @param owned      boxes of every rank, see distribution::PlacePatches; together they cover the grid
  /// @param batch      the same on every rank
  /// @collective over `comm`
  static Result<PatchExchange> Plan(MPI_Comm comm, const PatchGrid& grid, DataType type,
                                    const distribution::Ownership& owned,
                                    const distribution::Placement& placement, writer::ExchangeBatch batch);

  /// Memory for this rank's patches, by ascending patch index.
  std::vector<writer::PatchSamples> Allocate() const;

  /// Fills `patches`, which Allocate has made. Datatypes are reused while samples and patches stay in place.
  /// @param samples  one view for each of this rank's boxes
  /// @errors the same on every rank: kInvalidArgument where a rank has no samples for a box; kInternal: MPI,
  /// memory
  /// @collective
  Status Run(const std::vector<writer::BoxView>& samples, std::vector<writer::PatchSamples>* patches);

  /// The redistribution that moves the samples: its schedule, its messages, and the seconds of the last run.
  const redistribute::Redistribution& redistribution() const { return redistribution_; }

 private:
  PatchExchange(redistribute::Redistribution redistribution, const PatchGrid& grid, std::size_t sample_bytes,
                std::vector<std::int64_t> patches)
      : redistribution_(std::move(redistribution)),
        grid_(grid),
        sample_bytes_(sample_bytes),
        patches_(std::move(patches)) {}

  redistribute::Redistribution redistribution_;
  PatchGrid grid_;
  std::size_t sample_bytes_;
  std::vector<std::int64_t> patches_;  ///< patches of this rank
};

}  // namespace quarry::reproduction
