/* Four ranks own rows of 8x8 samples, and each gets a quadrant. */
#include <mpi.h>
#include <quarry/quarry_redistribute.h>
#include <stdio.h>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const int64_t domain[2] = {8, 8}, row_sizes[4] = {8, 1, 8, 1}, row_offsets[4] = {0, rank, 0, rank + 4};
  const int64_t size[2] = {4, 4}, corner[2] = {4 * (rank % 2), 4 * (rank / 2)};
  float rows[2][8], quadrant[4][4] = {{0}};
  for (int r = 0; r < 2; ++r) {
    for (int x = 0; x < 8; ++x) rows[r][x] = (float)(8 * (rank + 4 * r) + x);
  }
  const void* owned[2] = {rows[0], rows[1]};
  void* needed[1] = {quadrant};
  quarry_redistribution* r = NULL;
  int code = quarry_redistribute_create(MPI_COMM_WORLD, 2, domain, sizeof(float), &r);
  if (code == 0) code = quarry_redistribute_map(r, 2, row_sizes, row_offsets, 1, size, corner);
  if (code == 0) code = quarry_redistribute_exchange(r, owned, needed);
  if (code != 0) fprintf(stderr, "%s\n", quarry_redistribute_last_message(r));
  for (int y = 0; y < 4; ++y) {
    for (int x = 0; x < 4; ++x) {
      if (quadrant[y][x] != (float)(8 * (corner[1] + y) + corner[0] + x)) code = 1;
    }
  }
  quarry_redistribute_free(r);
  MPI_Finalize();
  return code;
}
