#pragma once

#include <mpi.h>

#include <span>

#include "quarry/base/status.h"
#include "writer/redistribute/one_mpi.h"

/// Errors of MPI as Status, and one Status for all ranks.
namespace quarry::redistribute {

/// @param call  name of the function that returned `code`
/// @errors kInternal with MPI's own text
Status MpiStatus(int code, const char* call);

/// Whether MPI failed while the ranks agreed. This rank then does not know what the others know, and they may
/// wait for it forever: it sends and receives nothing more, and the program has to end (MPI_Abort).
inline bool CannotAgree(const Status& status) { return status.code() == StatusCode::kAborted; }

/// Success if every rank brings success; else the error of the lowest failing rank, the same on all ranks.
/// @errors kAborted, on the ranks where the agreement itself fails: see CannotAgree. A rank that brings such
/// an error
///         gets it back without communication.
/// @collective over `comm`
Status AgreeOnStatus(MPI_Comm comm, const Status& local);

/// Waits until all requests are done, and returns the first error. Even then no request is left behind, so
/// that the memory of all of them may be freed.
Status WaitForAll(std::span<MPI_Request> requests);

/// A duplicate of `comm` that returns errors, whatever the error handler of `comm` does.
/// @errors the same on every rank
/// @collective over `comm`
Result<MPI_Comm> DuplicateQuietly(MPI_Comm comm);

}  // namespace quarry::redistribute

/// Leaves the function with the error, if the call of MPI fails: QUARRY_MPI(MPI_Barrier, comm);
#define QUARRY_MPI(function, ...) \
  QUARRY_RETURN_IF_ERROR(::quarry::redistribute::MpiStatus(function(__VA_ARGS__), #function))
