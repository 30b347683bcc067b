#pragma once

#include <mpi.h>

#include <chrono>
#include <span>

#include "writer/redistribute/one_mpi.h"

namespace quarry::redistribute {

/// A wait in MPI that leaves the processor to others: MPI itself polls, and takes time from the threads that
/// encode beside the rank, and from ranks on the same processors. Asks without a pause first, then sleeps for
/// a quarter of the time it has waited, at most 1 ms: no wait takes a quarter longer than it would.
class QuietWait {
 public:
  /// Between two questions to MPI whether it is done.
  void Pause() const;

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

/// Waits until all requests are done, and completes none: MPI_Waitall then returns at once, with what has
/// gone wrong.
void WaitQuietly(std::span<const MPI_Request> requests);

/// Waits until there is a message for MPI_Probe. A failure of MPI is left to that.
void WaitForMessage(int source, int tag, MPI_Comm comm);

}  // namespace quarry::redistribute
