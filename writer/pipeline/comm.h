#pragma once

#include <mpi.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "quarry/base/endian.h"
#include "quarry/base/status.h"
#include "quarry/geometry/box.h"

/// The few MPI patterns that the writer needs. Standard calls only.
namespace quarry::writer {

/// MPI_Init and MPI_Finalize by scope.
class MpiSession {
 public:
  MpiSession(int* argc, char*** argv);
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;
};

int Rank(MPI_Comm comm);
int Size(MPI_Comm comm);

/// Number of ranks of `comm` on this machine. @collective
int RanksOnThisNode(MPI_Comm comm);

/// Success if every rank brings success; else the error of the lowest failing rank, the same on all ranks and
/// naming it. No rank may leave a phase before this: that is how a failure anywhere ends all within seconds.
/// Where the agreement itself fails, kInternal.
/// @collective
Status AgreeOnStatus(MPI_Comm comm, const Status& local);

/// Status of rank `root`, on every rank. @collective
Status BroadcastStatus(MPI_Comm comm, const Status& status, int root = 0);

/// `text` of rank 0, on every rank. @collective
std::string BroadcastText(MPI_Comm comm, const std::string& text);

/// Everything that the ranks bring, in rank order, on every rank. @collective
std::vector<std::uint64_t> GatherEverywhere(MPI_Comm comm, std::span<const std::uint64_t> mine);

/// Everything that the ranks bring, in rank order, on rank 0; empty elsewhere. @collective
Bytes GatherBytes(MPI_Comm comm, ByteSpan mine);

double MaxOverRanks(MPI_Comm comm, double value);
double MinOverRanks(MPI_Comm comm, double value);
std::int64_t MinOverRanks(MPI_Comm comm, std::int64_t value);

}  // namespace quarry::writer
