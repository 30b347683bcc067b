#pragma once

#include <mpi.h>

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "writer/distribution/ownership.h"
#include "writer/insitu/setup.h"

/// What the calls of a simulation have in common, whether its ranks write themselves or hand over to others.
namespace quarry::insitu {

/// Local.
/// @errors kFailedPrecondition: MPI is not running; kInvalidArgument: no intra-communicator
Status CheckCommunicator(MPI_Comm comm);

/// A duplicate of `comm` whose errors come back, whatever the host has chosen for its own. @collective
Result<MPI_Comm> DuplicateQuietly(MPI_Comm comm);

/// The boxes of all ranks, which together cover the grid once.
/// @errors kInvalidArgument: they overlap, leave gaps, or reach out of the grid
/// @collective
Result<distribution::Ownership> ShareBoxes(MPI_Comm comm, const Index3& dims,
                                           const std::vector<OwnedBox>& boxes);

/// What is wrong with what a rank opens a dataset with, without a look at the disk and at other ranks. Local.
/// @errors kInvalidArgument
Status CheckSetup(const Setup& setup, const std::vector<OwnedBox>& boxes);

/// What is wrong with a field that is put, whatever the step has already. Local.
/// @errors kInvalidArgument: unknown field, other type than declared, not an array for each box
Status CheckSamples(const Declaration& declaration, const std::vector<OwnedBox>& boxes,
                    const std::string& field, DataType type, std::span<const BoxView> views);

/// The beginning of every collective call.
class CallAgreement {
 public:
  /// @param comm  stays the caller's
  /// @param path  for messages
  CallAgreement(MPI_Comm comm, std::string path) : comm_(comm), path_(std::move(path)) {}

  /// Success where all ranks make this call, with the same arguments, and accept it.
  /// @param call       a number for each kind of call
  /// @param local      what this rank thinks of its arguments
  /// @param arguments  those that are the same on every rank
  /// @errors the error of the lowest rank that brings one; kInvalidArgument where the arguments differ;
  ///         kFailedPrecondition where the calls differ: then and from then on
  Status Reach(int call, const Status& local, const std::string& arguments = "");

  /// The error after different calls: the ranks cannot work together any more.
  const Status& broken() const { return broken_; }

 private:
  MPI_Comm comm_;
  std::string path_;
  Status broken_;
};

}  // namespace quarry::insitu
