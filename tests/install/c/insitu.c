/* Every rank owns a part of the z axis of 13x7x6 samples, each x + 100 y + 10000 z:
 * tests/install/cpp/expected.h. */
#include <mpi.h>
#include <quarry/quarry_insitu.h>
#include <stdio.h>

enum { kX = 13, kY = 7, kZ = 6 };

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int64_t dims[3] = {kX, kY, kZ};
  const int64_t begin[3] = {0, 0, kZ * rank / ranks}, end[3] = {kX, kY, kZ * (rank + 1) / ranks};
  double samples[kZ * kY * kX];
  int n = 0;
  for (int64_t z = begin[2]; z < end[2]; ++z) {
    for (int y = 0; y < kY; ++y) {
      for (int x = 0; x < kX; ++x) samples[n++] = (double)(x + 100 * y + 10000 * z);
    }
  }
  const void* address[1] = {samples};
  quarry_insitu* run = NULL;
  quarry_insitu_open(MPI_COMM_WORLD, argv[1], QUARRY_INSITU_CREATE, &run);
  quarry_insitu_set_grid(run, dims);
  quarry_insitu_add_field(run, "height", QUARRY_FLOAT64, QUARRY_LOSSLESS, 0, "m");
  quarry_insitu_add_box(run, begin, end, begin, end, QUARRY_X_FASTEST);
  int code = quarry_insitu_start(run);
  if (code == 0) code = quarry_insitu_begin_step(run, 0, 0.0);
  if (code == 0) code = quarry_insitu_put(run, "height", QUARRY_FLOAT64, 1, address);
  if (code == 0) code = quarry_insitu_end_step(run);
  if (code == 0) code = quarry_insitu_close(run);
  if (code != 0) fprintf(stderr, "%s\n", quarry_insitu_last_message(run));
  quarry_insitu_free(run);
  MPI_Finalize();
  return code;
}
