#pragma once

#include <mpi.h>

#include "quarry/base/status.h"

/// Errors of MPI as Status, and one Status for all ranks.
namespace quarry::redistribute {

/// @param call  name of the function that returned `code`
/// @errors kInternal with MPI's own text
Status MpiStatus(int code, const char* call);

/// Success if every rank brings success; else the error of the lowest failing rank, the same on all ranks. Where
/// the agreement itself fails, its error.
/// @collective over `comm`
Status AgreeOnStatus(MPI_Comm comm, const Status& local);

}  // namespace quarry::redistribute

/// Leaves the function with the error, if the call of MPI fails: QUARRY_MPI(MPI_Barrier, comm);
#define QUARRY_MPI(function, ...) \
  QUARRY_RETURN_IF_ERROR(::quarry::redistribute::MpiStatus(function(__VA_ARGS__), #function))
