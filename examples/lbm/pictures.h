// Pictures of the flow, drawn by ranks that consume the steps of the others.

#pragma once

#include <mpi.h>

#include <memory>
#include <string>

#include "lattice.h"
#include "quarry/intransit_consumer.h"
#include "solver.h"

namespace lbm {

/// Draws the vorticity along z in the middle plane of z: one pixel per cell, x to
/// the right and y up, blue for clockwise and red for counterclockwise rotation,
/// grey for the barrier. The plane is cut into nearly square tiles, one per rank;
/// each rank computes and colours its own, and the first rank writes
///   DIRECTORY/vorticityNNNNNN.png
/// The colours end at a vorticity that depends on the options alone, so that all
/// pictures of a run have the same scale.
class Pictures {
 public:
  /// @param comm  of the ranks that draw; outlives this
  Pictures(MPI_Comm comm, std::string directory, const Int3& cells, const Flow& flow);
  ~Pictures();

  /// For intransit::Serve: needs the tile and one layer around it of two velocities.
  quarry::intransit::Consumer consumer();

  int drawn() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lbm
