/* Example E1 of the redistribution paper through the C interface, in a program that links nothing else of
 * Quarry. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#include "quarry/quarry_redistribute.h"

static int failures = 0;

static void Check(int good, const char* what, const quarry_redistribution* r) {
  if (good) return;
  fprintf(stderr, "%s: \"%s\"\n", what, quarry_redistribute_last_message(r));
  ++failures;
}

/* Rank r owns rows r and r + 4 of 8x8 samples and needs a quadrant; ranks beyond four take no part. */
static void ExchangeE1(int rank, int method, int64_t batch) {
  const int64_t domain[2] = {8, 8};
  const int64_t row_sizes[4] = {8, 1, 8, 1};
  const int64_t row_offsets[4] = {0, rank, 0, rank + 4};
  const int64_t quadrant_size[2] = {4, 4};
  const int64_t quadrant_offset[2] = {4 * (rank % 2), 4 * (rank / 2)};
  const int chunks = rank < 4 ? 2 : 0;
  float rows[2][8];
  float quadrant[4][4];
  const void* owned[2] = {rows[0], rows[1]};
  void* needed[1] = {quadrant};
  quarry_redistribution* r = NULL;
  int code = quarry_redistribute_create_with(MPI_COMM_WORLD, 2, domain, sizeof(float), method, batch, &r);
  Check(code == QUARRY_REDISTRIBUTE_OK, "create", r);
  Check(quarry_redistribute_exchange(r, owned, needed) == QUARRY_REDISTRIBUTE_FAILED_PRECONDITION,
        "an exchange before the mapping is not refused", r);
  code =
      quarry_redistribute_map(r, chunks, row_sizes, row_offsets, chunks / 2, quadrant_size, quadrant_offset);
  Check(code == QUARRY_REDISTRIBUTE_OK, "map", r);
  for (int step = 0; step < 3; ++step) {
    for (int c = 0; c < 2; ++c) {
      for (int x = 0; x < 8; ++x) rows[c][x] = (float)(1000 * step + 8 * (rank + 4 * c) + x);
    }
    memset(quadrant, 0, sizeof(quadrant));
    Check(quarry_redistribute_exchange(r, owned, needed) == QUARRY_REDISTRIBUTE_OK, "exchange", r);
    for (int y = 0; rank < 4 && y < 4; ++y) {
      for (int x = 0; x < 4; ++x) {
        const float expected = (float)(1000 * step + 8 * (y + 4 * (rank / 2)) + x + 4 * (rank % 2));
        Check(quadrant[y][x] == expected, "wrong sample", r);
      }
    }
  }
  quarry_redistribute_free(r);
}

/* An array of structs in C order to a dense array: rank 0 owns all of a 3x2 domain, every rank needs it. */
static void ExchangeStrided(int rank) {
  struct Cell {
    float pressure;
    double speed;
  } cells[3][2]; /* [x][y]: y is the fastest */
  double speed[2][3];
  const int64_t domain[2] = {3, 2};
  const int64_t offset[2] = {0, 0};
  const int64_t cell_strides[2] = {sizeof(cells[0]), sizeof(struct Cell)};
  const int64_t dense_strides[2] = {sizeof(double), 3 * sizeof(double)};
  const void* owned[1] = {&cells[0][0].speed};
  void* needed[1] = {speed};
  quarry_redistribution* r = NULL;
  for (int x = 0; x < 3; ++x) {
    for (int y = 0; y < 2; ++y) cells[x][y].speed = 10 * x + y;
  }
  Check(quarry_redistribute_create(MPI_COMM_WORLD, 2, domain, sizeof(double), &r) == QUARRY_REDISTRIBUTE_OK,
        "create", r);
  Check(quarry_redistribute_map(r, rank == 0, domain, offset, 1, domain, offset) == QUARRY_REDISTRIBUTE_OK,
        "map", r);
  Check(quarry_redistribute_exchange_strided(r, owned, cell_strides, needed, dense_strides) ==
            QUARRY_REDISTRIBUTE_OK,
        "exchange_strided", r);
  for (int y = 0; y < 2; ++y) {
    for (int x = 0; x < 3; ++x) Check(speed[y][x] == 10 * x + y, "wrong speed", r);
  }
  quarry_redistribute_free(r);
}

static void ReportErrors(int rank, int size) {
  const int64_t domain[1] = {10};
  const int64_t offset[1] = {0};
  const int64_t negative[1] = {-1};
  quarry_redistribution* r = NULL;
  Check(quarry_redistribute_create(MPI_COMM_WORLD, 4, domain, 4, &r) == QUARRY_REDISTRIBUTE_INVALID_ARGUMENT,
        "four axes are not refused", r);
  Check(quarry_redistribute_map(r, 0, NULL, NULL, 0, NULL, NULL) == QUARRY_REDISTRIBUTE_FAILED_PRECONDITION,
        "a mapping without description is not refused", r);
  quarry_redistribute_free(r);
  Check(quarry_redistribute_create(MPI_COMM_WORLD, 1, domain, 4, &r) == QUARRY_REDISTRIBUTE_OK, "create", r);
  Check(quarry_redistribute_map(r, 0, NULL, NULL, 0, NULL, NULL) == QUARRY_REDISTRIBUTE_INVALID_ARGUMENT,
        "a domain without owner is not refused", r);
  Check(strstr(quarry_redistribute_last_message(r), "[0:10,0:1,0:1)") != NULL, "the hole is not named", r);
  /* Only the last rank is wrong, and all ranks get the error. */
  Check(quarry_redistribute_map(r, 1, rank == size - 1 ? negative : domain, offset, 0, NULL, NULL) ==
            QUARRY_REDISTRIBUTE_INVALID_ARGUMENT,
        "a negative size is not refused", r);
  Check(strstr(quarry_redistribute_last_message(r), "size -1 at offset 0 along x") != NULL,
        "no size in the message", r);
  quarry_redistribute_free(r);
  quarry_redistribute_free(NULL);
}

int main(int argc, char** argv) {
  int rank;
  int size;
  int worst;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size >= 4) {
    ExchangeE1(rank, QUARRY_REDISTRIBUTE_AUTOMATIC, 1);
    ExchangeE1(rank, QUARRY_REDISTRIBUTE_POINT_TO_POINT, 0);
    ExchangeE1(rank, QUARRY_REDISTRIBUTE_ALLTOALLW, 1);
  }
  ExchangeStrided(rank);
  ReportErrors(rank, size);
  MPI_Allreduce(&failures, &worst, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  MPI_Finalize();
  return worst == 0 ? 0 : 1;
}
