#pragma once

#include <mpi.h>

#include <memory>

#include "quarry/base/status.h"

namespace quarry::intransit {

namespace internal {

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

}  // namespace internal

/// The ranks of a job, divided into those that simulate and those that write.
///
///   auto roles = intransit::Roles::Split(MPI_COMM_WORLD, 2);
///   if (roles->writes()) {
///     intransit::Serve(*roles);
///   } else {
///     Simulate(*roles);  // on roles->comm(); opens intransit::Dataset
///   }
///
/// Destroy before MPI_Finalize: Serve returns when every simulation rank has destroyed its roles and
/// datasets.
class Roles {
 public:
  /// The last `writers` ranks of `world` write, the others simulate, both in the order of `world`.
  /// @param writers  1 to one less than there are ranks; may be more than half of them
  /// @errors kInvalidArgument: another number, or not the same one on every rank
  /// @collective over `world`
  static Result<Roles> Split(MPI_Comm world, int writers);

  /// The same where each rank gives its own role, for instance for a writer on every node.
  /// @errors kInvalidArgument: no rank writes, or none simulates
  /// @collective over `world`
  static Result<Roles> SplitByRole(MPI_Comm world, bool writes);

  bool writes() const { return link_->writes; }
  /// The ranks with the same role as this one: the simulation's replacement for MPI_COMM_WORLD.
  MPI_Comm comm() const { return link_->same; }
  int simulation_ranks() const { return link_->simulation_ranks; }
  int writer_ranks() const { return link_->writer_ranks; }

  const std::shared_ptr<internal::Link>& link() const { return link_; }

 private:
  explicit Roles(std::shared_ptr<internal::Link> link) : link_(std::move(link)) {}

  std::shared_ptr<internal::Link> link_;
};

}  // namespace quarry::intransit
