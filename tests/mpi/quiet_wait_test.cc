// A rank that waits for a slower one leaves the processor to others.
#include "writer/redistribute/quiet_wait.h"

#include <mpi.h>
#include <sys/resource.h>

#include <cstdio>
#include <ctime>
#include <functional>

#include "writer/redistribute/mpi_status.h"

namespace quarry::redistribute {
namespace {

double ProcessorSeconds(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// Takes a fifth of a second of the processor, however busy the machine is.
void Work() {
  const double end = ProcessorSeconds(CLOCK_THREAD_CPUTIME_ID) + 0.2;
  while (ProcessorSeconds(CLOCK_THREAD_CPUTIME_ID) < end) continue;
}

/// How often this thread has gone to sleep by itself.
long Sleeps() {
  rusage used{};
  getrusage(RUSAGE_THREAD, &used);
  return used.ru_nvcsw;
}

/// Rank 0 waits while rank 1 works. @returns how often rank 0 slept
long SleepsOf(int rank, const std::function<Status()>& wait, const std::function<Status()>& answer,
              Status* status) {
  MPI_Barrier(MPI_COMM_WORLD);
  const long before = Sleeps();
  if (rank == 1) Work();
  *status = rank == 0 ? wait() : answer();
  return Sleeps() - before;
}

/// Rank 1 answers; there may be more ranks.
Status Send(int rank) {
  int word = 1;
  if (rank == 1) QUARRY_MPI(MPI_Send, &word, 1, MPI_INT, 0, 7, MPI_COMM_WORLD);
  return Status::Ok();
}

Status Receive() {
  int word = 0;
  QUARRY_MPI(MPI_Recv, &word, 1, MPI_INT, 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  return word == 1 ? Status::Ok() : InternalError("another word arrived");
}

bool Check(int rank, const char* what, const std::function<Status()>& wait,
           const std::function<Status()>& answer) {
  Status status;
  // A fifth of a second has hundreds; a busy machine wakes the rank late.
  constexpr long kLeast = 10;
  const long sleeps = SleepsOf(rank, wait, answer, &status);
  const bool good = status.ok() && (rank != 0 || sleeps >= kLeast);
  if (!good)
    std::fprintf(stderr, "rank %d, %s: slept %ld times; %s\n", rank, what, sleeps, status.message().c_str());
  return good;
}

bool RunAll(int rank) {
  const auto agree = [] { return AgreeOnStatus(MPI_COMM_WORLD, Status::Ok()); };
  bool good = Check(rank, "an agreement", agree, agree);
  const auto send = [rank] { return Send(rank); };
  int word = 0;
  MPI_Request request = MPI_REQUEST_NULL;
  if (rank == 0) MPI_Irecv(&word, 1, MPI_INT, 1, 7, MPI_COMM_WORLD, &request);
  good = Check(
             rank, "a request", [&] { return WaitForAll(std::span(&request, 1)); }, send) &&
         good;
  const auto probe = [] {
    WaitForMessage(1, 7, MPI_COMM_WORLD);
    return Receive();
  };
  return Check(rank, "a message", probe, send) && good;
}

}  // namespace
}  // namespace quarry::redistribute

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const bool good = quarry::redistribute::RunAll(rank);
  MPI_Finalize();
  return good ? 0 : 1;
}
