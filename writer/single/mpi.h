#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

/// MPI for a job of one process: the functions that the writer's libraries call, and no others. The targets
/// quarry_*_single find this file as <mpi.h>; no other target may (docs/decisions/build-and-ci.md).
///
/// With one rank a collective call copies what the rank brings, and no message is ever sent. The calls that
/// would send one return MPI_ERR_OTHER, so that a mistake is an error and never a wrong byte.
///
/// The types lie in a namespace of their own: a function that takes one has another symbol than in the MPI
/// build. Together with writer/redistribute/one_mpi.h that makes a program that links both builds an error of
/// the linker.
inline namespace quarry_one_rank {

enum class MPI_Comm : int { kNull, kWorld, kOther };
inline constexpr MPI_Comm MPI_COMM_NULL = MPI_Comm::kNull;
inline constexpr MPI_Comm MPI_COMM_WORLD = MPI_Comm::kWorld;

enum class MPI_Info : int { kNull };
inline constexpr MPI_Info MPI_INFO_NULL = MPI_Info::kNull;

enum class MPI_Errhandler : int { kReturn };
inline constexpr MPI_Errhandler MPI_ERRORS_RETURN = MPI_Errhandler::kReturn;

enum class MPI_Request : int { kNull };
inline constexpr MPI_Request MPI_REQUEST_NULL = MPI_Request::kNull;

enum class MPI_Op : int { kMin, kMax, kSum };
inline constexpr MPI_Op MPI_MIN = MPI_Op::kMin;
inline constexpr MPI_Op MPI_MAX = MPI_Op::kMax;
inline constexpr MPI_Op MPI_SUM = MPI_Op::kSum;

using MPI_Aint = std::intptr_t;

/// Only the size of an element counts, as nothing is sent.
struct MPI_Datatype {
  std::int64_t bytes = 0;
  friend constexpr bool operator==(const MPI_Datatype&, const MPI_Datatype&) = default;
};
inline constexpr MPI_Datatype MPI_DATATYPE_NULL{0};
inline constexpr MPI_Datatype MPI_BYTE{1};
inline constexpr MPI_Datatype MPI_CHAR{1};
inline constexpr MPI_Datatype MPI_INT{sizeof(int)};
inline constexpr MPI_Datatype MPI_INT64_T{8};
inline constexpr MPI_Datatype MPI_UINT8_T{1};
inline constexpr MPI_Datatype MPI_UINT16_T{2};
inline constexpr MPI_Datatype MPI_UINT32_T{4};
inline constexpr MPI_Datatype MPI_UINT64_T{8};
inline constexpr MPI_Datatype MPI_DOUBLE{8};

struct MPI_Status {
  int MPI_ERROR = 0;
  int MPI_SOURCE = 0;
};
inline constexpr MPI_Status* MPI_STATUS_IGNORE = nullptr;
inline constexpr MPI_Status* MPI_STATUSES_IGNORE = nullptr;
inline constexpr void* MPI_BOTTOM = nullptr;
inline constexpr int MPI_ANY_SOURCE = -1;

inline constexpr int MPI_SUCCESS = 0;
inline constexpr int MPI_ERR_OTHER = 16;
inline constexpr int MPI_ERR_IN_STATUS = 18;
inline constexpr int MPI_ERR_PENDING = 19;
inline constexpr int MPI_MAX_ERROR_STRING = 128;
inline constexpr int MPI_COMM_TYPE_SHARED = 0;
inline constexpr int MPI_THREAD_SINGLE = 0;
inline constexpr int MPI_THREAD_FUNNELED = 1;

/// Ends the program if a launcher started several processes, each of which would write the whole dataset. If
/// the program NAME-mpi lies beside this one, NAME, it takes over with the same arguments.
int MPI_Init_thread(int* argc, char*** argv, int required, int* provided);

inline int MPI_Finalize() { return MPI_SUCCESS; }
/// Ready from the beginning: a library has nothing to wait for.
inline int MPI_Initialized(int* flag) {
  *flag = 1;
  return MPI_SUCCESS;
}
inline int MPI_Finalized(int* flag) {
  *flag = 0;
  return MPI_SUCCESS;
}
[[noreturn]] inline int MPI_Abort(MPI_Comm, int code) {
  std::fflush(nullptr);
  std::_Exit(code);
}
inline double MPI_Wtime() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
inline int MPI_Error_string(int code, char* text, int* length) {
  *length = std::snprintf(text, MPI_MAX_ERROR_STRING, "code %d: a message in a job of one process", code);
  return MPI_SUCCESS;
}

inline int MPI_Comm_rank(MPI_Comm, int* rank) {
  *rank = 0;
  return MPI_SUCCESS;
}
inline int MPI_Comm_size(MPI_Comm, int* size) {
  *size = 1;
  return MPI_SUCCESS;
}
inline int MPI_Comm_test_inter(MPI_Comm, int* flag) {
  *flag = 0;
  return MPI_SUCCESS;
}
inline int MPI_Comm_dup(MPI_Comm, MPI_Comm* copy) {
  *copy = MPI_Comm::kOther;
  return MPI_SUCCESS;
}
inline int MPI_Comm_split_type(MPI_Comm, int, int, MPI_Info, MPI_Comm* part) {
  *part = MPI_Comm::kOther;
  return MPI_SUCCESS;
}
inline int MPI_Comm_free(MPI_Comm* comm) {
  *comm = MPI_COMM_NULL;
  return MPI_SUCCESS;
}
inline int MPI_Comm_set_errhandler(MPI_Comm, MPI_Errhandler) { return MPI_SUCCESS; }

namespace internal {
inline int Copy(const void* from, int count, MPI_Datatype type, void* to, std::int64_t offset = 0) {
  if (count > 0)
    std::memcpy(static_cast<char*>(to) + offset * type.bytes, from,
                static_cast<std::size_t>(count * type.bytes));
  return MPI_SUCCESS;
}
}  // namespace internal

inline int MPI_Barrier(MPI_Comm) { return MPI_SUCCESS; }
inline int MPI_Bcast(void*, int, MPI_Datatype, int, MPI_Comm) { return MPI_SUCCESS; }
inline int MPI_Allreduce(const void* mine, void* all, int count, MPI_Datatype type, MPI_Op, MPI_Comm) {
  return internal::Copy(mine, count, type, all);
}
inline int MPI_Iallreduce(const void* mine, void* all, int count, MPI_Datatype type, MPI_Op, MPI_Comm,
                          MPI_Request*) {
  return internal::Copy(mine, count, type, all);
}
inline int MPI_Request_get_status(MPI_Request, int* done, MPI_Status*) {
  *done = 1;
  return MPI_SUCCESS;
}
inline int MPI_Wait(MPI_Request*, MPI_Status*) { return MPI_SUCCESS; }
inline int MPI_Reduce_scatter_block(const void* mine, void* own, int count, MPI_Datatype type, MPI_Op,
                                    MPI_Comm) {
  return internal::Copy(mine, count, type, own);
}
inline int MPI_Gather(const void* mine, int count, MPI_Datatype type, void* all, int, MPI_Datatype, int,
                      MPI_Comm) {
  return internal::Copy(mine, count, type, all);
}
inline int MPI_Allgather(const void* mine, int count, MPI_Datatype type, void* all, int, MPI_Datatype,
                         MPI_Comm) {
  return internal::Copy(mine, count, type, all);
}
inline int MPI_Gatherv(const void* mine, int count, MPI_Datatype type, void* all, const int*,
                       const int* offsets, MPI_Datatype, int, MPI_Comm) {
  return internal::Copy(mine, count, type, all, offsets[0]);
}
inline int MPI_Allgatherv(const void* mine, int count, MPI_Datatype type, void* all, const int*,
                          const int* offsets, MPI_Datatype, MPI_Comm) {
  return internal::Copy(mine, count, type, all, offsets[0]);
}
/// The writer's exchange sends nothing to its own rank.
inline int MPI_Alltoallw(const void*, const int* sent, const int*, const MPI_Datatype*, void*,
                         const int* received, const int*, const MPI_Datatype*, MPI_Comm) {
  return sent[0] == 0 && received[0] == 0 ? MPI_SUCCESS : MPI_ERR_OTHER;
}
inline int MPI_Waitall(int requests, MPI_Request*, MPI_Status*) {
  return requests == 0 ? MPI_SUCCESS : MPI_ERR_OTHER;
}

// Functions that only messages to another rank need.
inline int MPI_Isend(const void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request*) {
  return MPI_ERR_OTHER;
}
inline int MPI_Irecv(void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request*) { return MPI_ERR_OTHER; }
inline int MPI_Iprobe(int, int, MPI_Comm, int*, MPI_Status*) { return MPI_ERR_OTHER; }
inline int MPI_Probe(int, int, MPI_Comm, MPI_Status*) { return MPI_ERR_OTHER; }
inline int MPI_Get_count(const MPI_Status*, MPI_Datatype, int*) { return MPI_ERR_OTHER; }
inline int MPI_Type_create_struct(int, const int*, const MPI_Aint*, const MPI_Datatype*, MPI_Datatype*) {
  return MPI_ERR_OTHER;
}
inline int MPI_Type_create_hvector(int, int, MPI_Aint, MPI_Datatype, MPI_Datatype*) { return MPI_ERR_OTHER; }
inline int MPI_Type_create_hindexed_block(int, int, const MPI_Aint*, MPI_Datatype, MPI_Datatype*) {
  return MPI_ERR_OTHER;
}
inline int MPI_Type_contiguous(int count, MPI_Datatype type, MPI_Datatype* result) {
  result->bytes = count * type.bytes;
  return MPI_SUCCESS;
}
inline int MPI_Type_commit(MPI_Datatype*) { return MPI_SUCCESS; }
inline int MPI_Type_free(MPI_Datatype* type) {
  *type = MPI_DATATYPE_NULL;
  return MPI_SUCCESS;
}
inline int MPI_Get_address(const void* location, MPI_Aint* address) {
  *address = reinterpret_cast<MPI_Aint>(location);
  return MPI_SUCCESS;
}

}  // namespace quarry_one_rank
