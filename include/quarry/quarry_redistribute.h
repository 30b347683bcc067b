/* Redistribution of arrays between the ranks of a communicator, for C and languages that call C.
 *
 * Three calls, as in Marrinan et al., Automated Dynamic Data Redistribution: create describes the elements,
 * map says what each rank owns and needs, exchange moves the samples; exchange again whenever there is new
 * data.
 *
 *   quarry_redistribution* r;
 *   int64_t domain[2] = {8, 8}, row[4] = {8, 1, 8, 1}, at[4] = {0, rank, 0, rank + 4};
 *   int64_t quadrant[2] = {4, 4}, corner[2] = {4 * (rank % 2), 4 * (rank / 2)};
 *   quarry_redistribute_create(MPI_COMM_WORLD, 2, domain, sizeof(float), &r);
 *   quarry_redistribute_map(r, 2, row, at, 1, quadrant, corner);
 *   quarry_redistribute_exchange(r, owned_arrays, needed_arrays);
 *   quarry_redistribute_free(r);
 *
 * Sizes and offsets have one number for each axis, x first: the first axis is the fastest in memory of a
 * dense array. All functions except last_message are collective over the communicator. They return 0, or an
 * error code that is the same on every rank; quarry_redistribute_last_message then says what is wrong. None
 * of them aborts. One caller at a time for each object.
 */
#ifndef QUARRY_REDISTRIBUTE_H_
#define QUARRY_REDISTRIBUTE_H_

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct quarry_redistribution quarry_redistribution;

enum {
  QUARRY_REDISTRIBUTE_OK = 0,
  QUARRY_REDISTRIBUTE_INVALID_ARGUMENT =
      3, /* boxes that overlap, leave a hole, or lie outside; null arrays */
  QUARRY_REDISTRIBUTE_RESOURCE_EXHAUSTED = 8,  /* memory, or more boxes than MPI can gather */
  QUARRY_REDISTRIBUTE_FAILED_PRECONDITION = 9, /* exchange before map */
  QUARRY_REDISTRIBUTE_ABORTED = 10, /* MPI failed while the ranks agreed: others may wait for this one; end
                                     * the program with MPI_Abort */
  QUARRY_REDISTRIBUTE_INTERNAL = 13 /* MPI failed */
};

enum {
  QUARRY_REDISTRIBUTE_AUTOMATIC = 0,      /* from the density of the mapping */
  QUARRY_REDISTRIBUTE_POINT_TO_POINT = 1, /* non-blocking messages */
  QUARRY_REDISTRIBUTE_ALLTOALLW = 2       /* one MPI_Alltoallw for each round */
};

/* Describes a domain of 1 to 3 axes with elements of a fixed size.
 * *out is always set, so that last_message works; NULL only when memory is out. Free it in any case. */
int quarry_redistribute_create(MPI_Comm comm, int axes, const int64_t* domain, size_t element_bytes,
                               quarry_redistribution** out);

/* The same with a choice of method, and of how many parts one point-to-point message holds: 1 as in create, 0
 * for all parts of a pair of ranks. */
int quarry_redistribute_create_with(MPI_Comm comm, int axes, const int64_t* domain, size_t element_bytes,
                                    int method, int64_t batch, quarry_redistribution** out);

/* Boxes that this rank owns and needs: sizes and offsets of its boxes, one after the other. Owned boxes of
 * all ranks cover the domain once; needed boxes may overlap and leave gaps. Arrays may be NULL where a count
 * is 0. */
int quarry_redistribute_map(quarry_redistribution* r, int owned_count, const int64_t* owned_sizes,
                            const int64_t* owned_offsets, int needed_count, const int64_t* needed_sizes,
                            const int64_t* needed_offsets);

/* Fills the needed arrays; all arrays are dense, first axis fastest. One array for each box, in the order of
 * map. */
int quarry_redistribute_exchange(quarry_redistribution* r, const void* const* owned, void* const* needed);

/* The same for arrays of any layout: for each box the address of its first element, and the bytes from one
 * element to the next along each axis (for each box one number per axis). */
int quarry_redistribute_exchange_strided(quarry_redistribution* r, const void* const* owned,
                                         const int64_t* owned_strides, void* const* needed,
                                         const int64_t* needed_strides);

/* The message of the last call that failed, "" if none did; valid until the next call. */
const char* quarry_redistribute_last_message(const quarry_redistribution* r);

/* Before MPI_Finalize. NULL is allowed. */
void quarry_redistribute_free(quarry_redistribution* r);

#ifdef __cplusplus
}
#endif

#endif /* QUARRY_REDISTRIBUTE_H_ */
