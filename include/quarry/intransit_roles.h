#pragma once

#include <mpi.h>

#include <memory>

#include "quarry/result.h"

namespace quarry::intransit {

class Dataset;
struct ServeOptions;
struct Served;
namespace internal {
struct Link;
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

  bool writes() const;
  /// The ranks with the same role as this one: the simulation's replacement for MPI_COMM_WORLD.
  MPI_Comm comm() const;
  int simulation_ranks() const;
  int writer_ranks() const;

 private:
  friend class Dataset;
  friend Result<Served> Serve(const Roles& roles, const ServeOptions& options);

  explicit Roles(std::shared_ptr<internal::Link> link);

  std::shared_ptr<internal::Link> link_;
};

}  // namespace quarry::intransit
