#include "tests/mpi/failing_mpi.h"

#include <mpi.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace quarry::testing {
namespace {

/// Memory that will receive a message. Nothing if it is not one run of bytes.
struct Arriving {
  std::byte* data = nullptr;
  std::size_t size = 0;
  bool corrupt = false;
};

struct State {
  MpiFailure how = MpiFailure::kError;
  std::uint64_t countdown = 0;
  bool failed = false;
  std::vector<Arriving> arriving;             ///< since the last MPI_Waitall
  std::vector<MPI_Request> private_requests;  ///< requests of calls that returned an error but did their work
  std::vector<std::vector<std::byte>> scratch;
};

State& state() {
  static State state;
  return state;
}

/// Counts a call of this kind; true for the one that fails.
bool Strikes(MpiFailure kind) {
  State& s = state();
  if (s.how != kind || s.countdown == 0 || --s.countdown > 0) return false;
  s.failed = true;
  return true;
}

void Spoil(void* data, std::size_t size) { std::memset(data, 0xA5, size); }
void FlipByte(void* data, std::size_t size) { static_cast<unsigned char*>(data)[size / 2] ^= 0x10; }

std::size_t BytesOf(int count, MPI_Datatype type) {
  int size = 0;
  PMPI_Type_size(type, &size);
  return static_cast<std::size_t>(count) * static_cast<std::size_t>(size);
}

std::size_t BytesOf(const int* counts, MPI_Datatype type, MPI_Comm comm) {
  int ranks = 0;
  PMPI_Comm_size(comm, &ranks);
  std::size_t bytes = 0;
  for (int r = 0; r < ranks; ++r) bytes += BytesOf(counts[r], type);
  return bytes;
}

/// The end of a call that has received bytes.
int Finish(int code, void* data, std::size_t size) {
  if (size > 0 && Strikes(MpiFailure::kCorrupt)) FlipByte(data, size);
  if (!Strikes(MpiFailure::kError)) return code;
  Spoil(data, size);
  return MPI_ERR_OTHER;
}

int RankOf(MPI_Comm comm) {
  int rank = 0;
  PMPI_Comm_rank(comm, &rank);
  return rank;
}

}  // namespace

void FailMpiCall(std::uint64_t n, MpiFailure how) {
  state().how = how;
  state().countdown = n;
  state().failed = false;
}

bool MpiHasFailed() { return state().failed; }

}  // namespace quarry::testing

using namespace quarry::testing;

extern "C" {

/// For programs that do not know of this library: reads the settings from the environment.
int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  const int code = PMPI_Init_thread(argc, argv, required, provided);
  const char* rank = std::getenv("QUARRY_FAIL_RANK");
  const char* call = std::getenv("QUARRY_FAIL_CALL");
  const char* how = std::getenv("QUARRY_FAIL_HOW");
  if (rank == nullptr || call == nullptr || how == nullptr || std::atoi(rank) != RankOf(MPI_COMM_WORLD))
    return code;
  const std::string name = how;
  FailMpiCall(std::strtoull(call, nullptr, 10), name == "agreement" ? MpiFailure::kAgreement
                                                : name == "corrupt" ? MpiFailure::kCorrupt
                                                : name == "lost"    ? MpiFailure::kLost
                                                                    : MpiFailure::kError);
  return code;
}

int MPI_Isend(const void* data, int count, MPI_Datatype type, int target, int tag, MPI_Comm comm,
              MPI_Request* request) {
  const int code = PMPI_Isend(data, count, type, target, tag, comm, request);
  if (!Strikes(MpiFailure::kError)) return code;
  state().private_requests.push_back(*request);
  *request = MPI_REQUEST_NULL;
  return MPI_ERR_OTHER;
}

int MPI_Irecv(void* data, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
              MPI_Request* request) {
  State& s = state();
  *request = MPI_REQUEST_NULL;
  if (Strikes(MpiFailure::kLost)) return MPI_ERR_OTHER;
  const bool bytes = type == MPI_BYTE || type == MPI_UINT64_T;
  if (Strikes(MpiFailure::kError)) {
    // The message is still sent. Bytes go to scratch memory. Samples go to arrays, which stay unchanged only
    // if nobody waits for the message there: those are left to MPI.
    MPI_Request own = MPI_REQUEST_NULL;
    if (bytes) {
      s.scratch.emplace_back(BytesOf(count, type));
      data = s.scratch.back().data();
    }
    PMPI_Irecv(data, count, type, source, tag, comm, &own);
    s.private_requests.push_back(own);
    return MPI_ERR_OTHER;
  }
  const int code = PMPI_Irecv(data, count, type, source, tag, comm, request);
  if (bytes) {
    s.arriving.push_back(
        {static_cast<std::byte*>(data), BytesOf(count, type), Strikes(MpiFailure::kCorrupt)});
  }
  return code;
}

int MPI_Waitall(int count, MPI_Request* requests, MPI_Status* statuses) {
  State& s = state();
  const int code = PMPI_Waitall(count, requests, statuses);
  PMPI_Waitall(static_cast<int>(s.private_requests.size()), s.private_requests.data(), MPI_STATUSES_IGNORE);
  s.private_requests.clear();
  s.scratch.clear();
  std::vector<Arriving> arrived;
  arrived.swap(s.arriving);
  for (const Arriving& a : arrived) {
    if (a.corrupt) FlipByte(a.data, a.size);
  }
  if (!Strikes(MpiFailure::kError)) return code;
  for (const Arriving& a : arrived) Spoil(a.data, a.size);
  return MPI_ERR_OTHER;
}

/// Only agreements begin one.
int MPI_Iallreduce(const void* mine, void* all, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                   MPI_Request* request) {
  *request = MPI_REQUEST_NULL;
  const int code = PMPI_Allreduce(mine, all, count, type, op, comm);
  if (!Strikes(MpiFailure::kAgreement)) return code;
  Spoil(all, BytesOf(count, type));
  return MPI_ERR_OTHER;
}

int MPI_Allreduce(const void* mine, void* all, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  const int code = PMPI_Allreduce(mine, all, count, type, op, comm);
  if (!Strikes(MpiFailure::kError)) return code;
  Spoil(all, BytesOf(count, type));
  return MPI_ERR_OTHER;
}

int MPI_Reduce_scatter_block(const void* mine, void* own, int count, MPI_Datatype type, MPI_Op op,
                             MPI_Comm comm) {
  const int code = PMPI_Reduce_scatter_block(mine, own, count, type, op, comm);
  if (!Strikes(MpiFailure::kError)) return code;
  Spoil(own, BytesOf(count, type));
  return MPI_ERR_OTHER;
}

int MPI_Probe(int source, int tag, MPI_Comm comm, MPI_Status* status) {
  const int code = PMPI_Probe(source, tag, comm, status);
  return Strikes(MpiFailure::kError) ? MPI_ERR_OTHER : code;
}

int MPI_Bcast(void* data, int count, MPI_Datatype type, int root, MPI_Comm comm) {
  const int code = PMPI_Bcast(data, count, type, root, comm);
  if (count > 0 && type == MPI_CHAR && RankOf(comm) != root && Strikes(MpiFailure::kCorrupt))
    FlipByte(data, BytesOf(count, type));
  if (!Strikes(MpiFailure::kError)) return code;
  Spoil(data, BytesOf(count, type));
  return MPI_ERR_OTHER;
}

int MPI_Allgather(const void* mine, int count, MPI_Datatype type, void* all, int all_count,
                  MPI_Datatype all_type, MPI_Comm comm) {
  const int code = PMPI_Allgather(mine, count, type, all, all_count, all_type, comm);
  if (!Strikes(MpiFailure::kError)) return code;
  int ranks = 0;
  PMPI_Comm_size(comm, &ranks);
  Spoil(all, BytesOf(ranks * all_count, all_type));
  return MPI_ERR_OTHER;
}

int MPI_Allgatherv(const void* mine, int count, MPI_Datatype type, void* all, const int* counts,
                   const int* offsets, MPI_Datatype all_type, MPI_Comm comm) {
  const int code = PMPI_Allgatherv(mine, count, type, all, counts, offsets, all_type, comm);
  return Finish(code, all, BytesOf(counts, all_type, comm));
}

int MPI_Gather(const void* mine, int count, MPI_Datatype type, void* all, int all_count,
               MPI_Datatype all_type, int root, MPI_Comm comm) {
  const int code = PMPI_Gather(mine, count, type, all, all_count, all_type, root, comm);
  if (!Strikes(MpiFailure::kError)) return code;
  int ranks = 0;
  PMPI_Comm_size(comm, &ranks);
  if (RankOf(comm) == root) Spoil(all, BytesOf(ranks * all_count, all_type));
  return MPI_ERR_OTHER;
}

int MPI_Gatherv(const void* mine, int count, MPI_Datatype type, void* all, const int* counts,
                const int* offsets, MPI_Datatype all_type, int root, MPI_Comm comm) {
  const int code = PMPI_Gatherv(mine, count, type, all, counts, offsets, all_type, root, comm);
  if (RankOf(comm) == root) return Finish(code, all, BytesOf(counts, all_type, comm));
  return Strikes(MpiFailure::kError) ? MPI_ERR_OTHER : code;
}

int MPI_Comm_dup(MPI_Comm comm, MPI_Comm* own) {
  const int code = PMPI_Comm_dup(comm, own);
  if (!Strikes(MpiFailure::kError)) return code;
  *own = MPI_COMM_NULL;
  return MPI_ERR_OTHER;
}

int MPI_Comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm* part) {
  const int code = PMPI_Comm_split_type(comm, type, key, info, part);
  return Strikes(MpiFailure::kError) ? MPI_ERR_OTHER : code;
}

int MPI_Type_commit(MPI_Datatype* type) {
  const int code = PMPI_Type_commit(type);
  return Strikes(MpiFailure::kError) ? MPI_ERR_OTHER : code;
}

}  // extern "C"
