#pragma once

#include <mpi.h>

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "quarry/base/status.h"
#include "writer/distribution/ownership.h"
#include "writer/insitu/setup.h"

/// Shared by the calls of a simulation, whether its ranks write themselves or hand over to others.
namespace quarry::insitu {

/// Local.
/// @errors kFailedPrecondition: MPI is not running; kInvalidArgument: no intra-communicator
Status CheckCommunicator(MPI_Comm comm);

/// The boxes of all ranks, which together cover the grid once.
/// @errors kInvalidArgument: they overlap, leave gaps, or reach out of the grid
/// @collective
Result<distribution::Ownership> ShareBoxes(MPI_Comm comm, const Index3& dims,
                                           const std::vector<OwnedBox>& boxes);

/// Checks what a rank opens a dataset with, without looking at the disk or other ranks. Local.
/// @errors kInvalidArgument
Status CheckSetup(const Setup& setup, const std::vector<OwnedBox>& boxes);

/// A step that is open: begun and not ended.
struct OpenStep {
  std::uint64_t number = 0;
  std::optional<double> time;
  std::vector<std::size_t> put;  ///< fields, by their place in the declaration, in the order of Put

  bool Has(std::size_t field) const;
};

/// Place of a field in the declaration; the number of fields if none has this name.
std::size_t FieldNumber(const Declaration& declaration, const std::string& field);

/// Views for the addresses of one Put; of no memory where an address is null or has no box.
std::vector<BoxView> ViewsOf(const std::vector<OwnedBox>& boxes, DataType type,
                             std::span<const void* const> address);

/// Checks the order of calls; `open` is the open step, or null. Local.
/// @errors kFailedPrecondition: the call is out of order; kInvalidArgument: a negative step, a time that
/// is not finite
Status CheckBegin(std::int64_t step, std::optional<double> time, const OpenStep* open);
Status CheckEnd(const OpenStep* open);
Status CheckAbandon(const OpenStep* open);
Status CheckClose(const OpenStep* open, const std::string& path);
/// @errors kFailedPrecondition: no step; kInvalidArgument: put before, unknown field, other type than
/// declared, not an array for each box
Status CheckPut(const Declaration& declaration, const std::vector<OwnedBox>& boxes, const OpenStep* open,
                const std::string& field, DataType type, std::span<const BoxView> views);

/// The arguments of BeginStep as CallAgreement compares them.
std::string BeginArguments(std::int64_t step, std::optional<double> time);

/// The calls on which all ranks agree before they do anything.
enum class Call { kOpen, kBeginStep, kPut, kEndStep, kAbandonStep, kClose };

/// The start of every collective call.
class CallAgreement {
 public:
  /// @param comm  owned by the caller
  /// @param path  for messages
  CallAgreement(MPI_Comm comm, std::string path) : comm_(comm), path_(std::move(path)) {}

  /// Success if all ranks make this call, with the same arguments, and accept it.
  /// @param local      this rank's check of its arguments
  /// @param arguments  those that are the same on every rank
  /// @errors the error of the lowest rank that brings one; kInvalidArgument if the arguments differ. For this
  /// and all later calls: kFailedPrecondition if the calls differ, kAborted if MPI fails in an agreement
  /// (redistribute::CannotAgree).
  Status Reach(Call call, const Status& local, const std::string& arguments = "");

  /// Records and returns an error of another part of a call after which the ranks cannot agree.
  Status Keep(Status status);

  /// The error after which the ranks cannot work together any more: different calls, or MPI failed in an
  /// agreement.
  const Status& broken() const { return broken_; }

  /// Frees the communicator, if the ranks can still do so together.
  void Free(MPI_Comm* comm) const;

 private:
  MPI_Comm comm_;
  std::string path_;
  Status broken_;
};

}  // namespace quarry::insitu
