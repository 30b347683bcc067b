#pragma once

#include <mpi.h>

namespace quarry::intransit::internal {

/// The communicators between and among the two kinds of ranks. When the last owner on a simulation rank is
/// gone, the writers learn that nothing more comes from it.
struct Link {
  Link() = default;
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  int first_writer() const { return simulation_ranks; }

  MPI_Comm all = MPI_COMM_NULL;   ///< simulation ranks, then writer ranks
  MPI_Comm same = MPI_COMM_NULL;  ///< ranks with the same role
  bool writes = false;
  int simulation_ranks = 0;
  int writer_ranks = 0;
};

}  // namespace quarry::intransit::internal
