#include "writer/redistribute/one_mpi.h"

extern "C" {
extern const char QUARRY_MPI_IN_USE = 1;
extern const char quarry_links_with_and_without_mpi = 1;
}
