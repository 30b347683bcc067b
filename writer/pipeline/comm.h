#pragma once

#include <mpi.h>

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "quarry/base/endian.h"
#include "quarry/base/status.h"
#include "writer/pipeline/phases.h"

/// The few MPI patterns that the writer needs. Standard calls only. Each ends in an agreement: if MPI fails
/// on one rank, all ranks get the same error, unless the agreement itself fails (redistribute::CannotAgree).
namespace quarry::writer {

/// MPI_Init_thread and MPI_Finalize by scope. Threads that never call MPI may run beside the caller's
/// (MPI_THREAD_FUNNELED); an MPI that does not allow that ends the program.
class MpiSession {
 public:
  MpiSession(int* argc, char*** argv);
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;
};

int Rank(MPI_Comm comm);
int Size(MPI_Comm comm);

/// Threads that this rank may keep busy: an even share of the processors of its machine among the ranks of
/// `comm` there, within UsableProcessors, as mpirun may have bound the rank to fewer. At least 1. @collective
Result<int> ThreadsOfRank(MPI_Comm comm);

/// Success if every rank brings success; else the error of the lowest failing rank, the same on all ranks and
/// naming it. No rank leaves a phase before this, so that a failure anywhere ends all ranks within seconds.
/// @errors kAborted where the agreement itself fails, see redistribute::CannotAgree
/// @collective
Status AgreeOnStatus(MPI_Comm comm, const Status& local);

/// Runs a local part of a phase on every rank, and agrees on its error. @returns the Status or Result of the
/// work
/// @collective
template <typename Work>
std::invoke_result_t<Work> OnEveryRank(MPI_Comm comm, Work work) {
  auto outcome = Guarded(work);
  if constexpr (std::is_same_v<decltype(outcome), Status>) {
    return AgreeOnStatus(comm, outcome);
  } else {
    QUARRY_RETURN_IF_ERROR(AgreeOnStatus(comm, outcome.status()));
    return outcome;
  }
}

/// Status of rank 0, on every rank. @collective
Status BroadcastStatus(MPI_Comm comm, const Status& status);

/// Runs work on rank 0 alone, and returns its Status on every rank. @collective
template <typename Work>
Status OnRoot(MPI_Comm comm, Work work) {
  return BroadcastStatus(comm, Rank(comm) == 0 ? Guarded(work) : Status::Ok());
}

/// `text` of rank 0, on every rank. @collective
Result<std::string> BroadcastText(MPI_Comm comm, const std::string& text);

/// The text that rank 0 alone finds, on every rank.
/// @param work  returns a Result of it
/// @collective
template <typename Work>
Result<std::string> TextOfRoot(MPI_Comm comm, Work work) {
  std::string text;
  QUARRY_RETURN_IF_ERROR(OnRoot(comm, [&]() -> Status {
    QUARRY_ASSIGN_OR_RETURN(text, work());
    return Status::Ok();
  }));
  return BroadcastText(comm, text);
}

/// The numbers of all ranks, in rank order, on every rank. Checksums travel along: numbers that change on the
/// way are an error.
/// @errors kResourceExhausted: more than MPI can gather
/// @collective
Result<std::vector<std::uint64_t>> GatherEverywhere(MPI_Comm comm, std::span<const std::uint64_t> mine);

/// The most elements that the ranks may gather together.
inline constexpr std::uint64_t kMostGathered = std::numeric_limits<int>::max();

/// The same for bytes, on rank 0; empty elsewhere. @collective
Result<Bytes> GatherBytes(MPI_Comm comm, ByteSpan mine);

Result<double> MaxOverRanks(MPI_Comm comm, double value);
Result<double> MinOverRanks(MPI_Comm comm, double value);
/// The largest of each number; every rank brings equally many.
Status MaxOverRanks(MPI_Comm comm, std::span<double> values);

}  // namespace quarry::writer
