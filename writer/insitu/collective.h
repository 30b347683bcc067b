#pragma once

#include <mpi.h>

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "writer/distribution/ownership.h"
#include "writer/insitu/declaration.h"
#include "writer/pipeline/phases.h"

/// What the calls of a simulation have in common, whether its ranks write themselves or hand over to others.
namespace quarry::insitu {

/// What nobody guards below comes back as an error too: no exception reaches the host.
template <typename Work>
Status Contained(Work work) {
  return writer::Guarded([&]() -> Status { return work(); });
}

/// Local.
/// @errors kFailedPrecondition: MPI is not running; kInvalidArgument: no intra-communicator
Status CheckCommunicator(MPI_Comm comm);

/// A duplicate of `comm` whose errors come back, whatever the host has chosen for its own. @collective
Result<MPI_Comm> DuplicateQuietly(MPI_Comm comm);

/// The boxes of all ranks, which together cover the grid once.
/// @errors kInvalidArgument: they overlap, leave gaps, or reach out of the grid
/// @collective
Result<distribution::Ownership> ShareBoxes(MPI_Comm comm, const Index3& dims, const std::vector<OwnedBox>& boxes);

/// What is wrong with a field that is put, whatever the step has already. Local.
/// @errors kInvalidArgument: unknown field, other type than declared, not an array for each box
Status CheckSamples(const Declaration& declaration, const std::vector<OwnedBox>& boxes, const std::string& field,
                    DataType type, std::span<const BoxView> views);

/// The beginning of every collective call.
class CallAgreement {
 public:
  /// @param comm  stays the caller's
  /// @param path  for messages
  CallAgreement(MPI_Comm comm, std::string path) : comm_(comm), path_(std::move(path)) {}

  /// Success where all ranks make the same call and accept it.
  /// @param call   the call with those of its arguments that are the same on every rank
  /// @param local  what this rank thinks of its arguments
  /// @errors the error of the lowest rank that brings one; kFailedPrecondition where the calls differ: from then on
  ///         the ranks cannot work together any more
  Status Reach(const std::string& call, const Status& local);

  /// The error after calls that differ.
  const Status& broken() const { return broken_; }

 private:
  MPI_Comm comm_;
  std::string path_;
  Status broken_;
};

}  // namespace quarry::insitu
