#pragma once

/// The writer's libraries exist twice: with MPI, and with writer/single's MPI for one process. Both define
/// the same functions, so a program may link only one kind. Every object that includes this needs the symbol
/// of its own MPI. Both objects that define one also define a common symbol, so the linker refuses a
/// program that needs both.
#ifdef QUARRY_ONE_RANK
#define QUARRY_MPI_IN_USE quarry_needs_one_rank_mpi
#else
#define QUARRY_MPI_IN_USE quarry_needs_mpi
#endif

extern "C" const char QUARRY_MPI_IN_USE;

namespace quarry::redistribute {
[[gnu::used]] static const char* const kMpiInUse = &QUARRY_MPI_IN_USE;
}  // namespace quarry::redistribute
