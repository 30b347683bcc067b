/* The in-situ writer through the C interface: the whole life of a dataset, codes and messages, null
 * arguments. What is in the datasets is checked where the C++ interface is tested, and by the Fortran
 * example, which comes through here. */
#define _XOPEN_SOURCE 700
#include <ftw.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "quarry/quarry_insitu.h"

static int failures = 0;
static int rank;
static int size;
static char folder[64];

static void CheckAt(int line, int good, const char* what, const char* message) {
  if (good) return;
  fprintf(stderr, "rank %d, line %d: %s: \"%s\"\n", rank, line, what, message);
  ++failures;
}
#define CHECK(condition) CheckAt(__LINE__, (condition), #condition, "")
#define CHECK_OK(run, call) \
  CheckAt(__LINE__, (call) == QUARRY_INSITU_OK, #call, quarry_insitu_last_message(run))
/* The call fails with this code, and the message says this. */
#define CHECK_ERROR(run, code, text, call)                                                              \
  CheckAt(__LINE__, (call) == (code) && strstr(quarry_insitu_last_message(run), (text)) != NULL, #call, \
          quarry_insitu_last_message(run))

static const int64_t kDims[3] = {20, 10, 6};

/* Slabs of x; the array has a ghost on both sides of x, [x][y][z]. */
struct Slab {
  int64_t begin[3], end[3], array_begin[3], array_end[3];
  float* samples;
};

static struct Slab MakeSlab(void) {
  struct Slab s = {{20 * rank / size, 0, 0}, {20 * (rank + 1) / size, 10, 6}, {0, 0, 0}, {0, 10, 6}, NULL};
  s.array_begin[0] = s.begin[0] - 1;
  s.array_end[0] = s.end[0] + 1;
  s.samples = malloc((size_t)(s.array_end[0] - s.array_begin[0]) * 60 * sizeof(float));
  for (int64_t i = 0; i < (s.array_end[0] - s.array_begin[0]) * 60; ++i)
    s.samples[i] = (float)(s.begin[0] * 60 + i);
  return s;
}

static quarry_insitu* Declare(const char* path, int mode, const struct Slab* s) {
  const int64_t patch[3] = {8, 8, 8};
  const double origin[3] = {0, 0, 1};
  const double spacing[3] = {1, 1, 0.5};
  const char* ship = "Meteor";
  quarry_insitu* run = NULL;
  CHECK_OK(run, quarry_insitu_open(MPI_COMM_WORLD, path, mode, &run));
  CHECK_OK(run, quarry_insitu_set_grid(run, kDims));
  CHECK_OK(run, quarry_insitu_set_axes(run, origin, spacing));
  CHECK_OK(run, quarry_insitu_set_time_unit(run, "hours since 2001-01-01", "noleap"));
  CHECK_OK(run, quarry_insitu_set_patch(run, patch, 2));
  CHECK_OK(run, quarry_insitu_set_files(run, 1));
  CHECK_OK(run, quarry_insitu_set_payload_order(run, "coarse"));
  CHECK_OK(run, quarry_insitu_set_memory(run, 1 << 20));
  CHECK_OK(run, quarry_insitu_add_field(run, "p", QUARRY_FLOAT32, QUARRY_TOLERANCE, 1e-3, "Pa"));
  CHECK_OK(run, quarry_insitu_set_fill(run, "p", -1));
  CHECK_OK(run, quarry_insitu_set_codec(run, "p", "wavelet-zfp"));
  CHECK_OK(run, quarry_insitu_set_attribute(run, NULL, "title", "a run"));
  CHECK_OK(run, quarry_insitu_set_attribute(run, "p", "standard_name", "air_pressure"));
  CHECK_OK(run, quarry_insitu_set_numbers(run, "p", "valid_range", 2, spacing));
  CHECK_OK(run, quarry_insitu_set_axis(run, 2, "depth", NULL));
  CHECK_OK(run, quarry_insitu_set_axis_attribute(run, 2, "positive", "down"));
  CHECK_OK(run, quarry_insitu_set_texts(run, "ship", -1, 1, &ship));
  CHECK_OK(run, quarry_insitu_add_field(run, "n", QUARRY_UINT32, QUARRY_LOSSLESS, 0, NULL));
  CHECK_OK(run, quarry_insitu_add_box(run, s->begin, s->end, s->array_begin, s->array_end, QUARRY_Z_FASTEST));
  return run;
}

static int Exists(const char* path, const char* below) {
  char name[256];
  snprintf(name, sizeof(name), "%s/%s", path, below);
  return access(name, F_OK) == 0;
}

static void WriteAndContinue(void) {
  struct Slab slab = MakeSlab();
  const void* address[1] = {slab.samples};
  char path[128];
  snprintf(path, sizeof(path), "%s/c.quarry", folder);
  quarry_insitu* run = Declare(path, QUARRY_INSITU_CREATE, &slab);
  CHECK_ERROR(run, QUARRY_INSITU_FAILED_PRECONDITION, "call quarry_insitu_start",
              quarry_insitu_begin_step(run, 0, NAN));
  CHECK_ERROR(run, QUARRY_INSITU_FAILED_PRECONDITION, "not started", quarry_insitu_close(run));
  CHECK_OK(run, quarry_insitu_start(run));
  CHECK_ERROR(run, QUARRY_INSITU_FAILED_PRECONDITION, "started before", quarry_insitu_start(run));
  CHECK_ERROR(run, QUARRY_INSITU_FAILED_PRECONDITION, "before quarry_insitu_start",
              quarry_insitu_set_grid(run, kDims));
  CHECK_ERROR(run, QUARRY_INSITU_INVALID_ARGUMENT, "step -3", quarry_insitu_begin_step(run, -3, NAN));
  CHECK_ERROR(run, QUARRY_INSITU_INVALID_ARGUMENT, "time inf", quarry_insitu_begin_step(run, 0, INFINITY));
  CHECK_OK(run, quarry_insitu_begin_step(run, 0, NAN));
  CHECK_ERROR(run, QUARRY_INSITU_INVALID_ARGUMENT, "no field \"\"",
              quarry_insitu_put(run, NULL, QUARRY_FLOAT32, 1, address));
  CHECK_ERROR(run, QUARRY_INSITU_INVALID_ARGUMENT, "float32", quarry_insitu_put(run, "p", 257, 1, address));
  CHECK_ERROR(run, QUARRY_INSITU_INVALID_ARGUMENT, "float64",
              quarry_insitu_put(run, "p", QUARRY_FLOAT64, 1, address));
  CHECK_ERROR(run, QUARRY_INSITU_INVALID_ARGUMENT, "0 arrays",
              quarry_insitu_put(run, "p", QUARRY_FLOAT32, 1, NULL));
  CHECK_ERROR(run, QUARRY_INSITU_INVALID_ARGUMENT, "0 arrays",
              quarry_insitu_put(run, "p", QUARRY_FLOAT32, -1, address));
  address[0] = rank == size - 1 ? NULL : slab.samples;
  CHECK_ERROR(run, QUARRY_INSITU_INVALID_ARGUMENT, "no array for owned box 0",
              quarry_insitu_put(run, "p", QUARRY_FLOAT32, 1, address));
  address[0] = slab.samples;
  CHECK_OK(run, quarry_insitu_put(run, "p", QUARRY_FLOAT32, 1, address));
  CHECK_OK(run, quarry_insitu_end_step(run));
  CHECK(Exists(path, "steps/000000/step.json"));
  CHECK_OK(run, quarry_insitu_begin_step(run, 1, 0.25));
  CHECK_ERROR(run, QUARRY_INSITU_FAILED_PRECONDITION, "step 1 was begun", quarry_insitu_close(run));
  CHECK_ERROR(run, QUARRY_INSITU_FAILED_PRECONDITION, "closed", quarry_insitu_begin_step(run, 2, NAN));
  CHECK_ERROR(run, QUARRY_INSITU_FAILED_PRECONDITION, "closed", quarry_insitu_close(run));
  CHECK_ERROR(run, QUARRY_INSITU_FAILED_PRECONDITION, "started before", quarry_insitu_start(run));
  quarry_insitu_free(run);

  run = Declare(path, QUARRY_INSITU_CREATE, &slab);
  CHECK_ERROR(run, QUARRY_INSITU_ALREADY_EXISTS, "exists already", quarry_insitu_start(run));
  quarry_insitu_free(run);
  run = Declare(path, QUARRY_INSITU_RESUME, &slab);
  CHECK_OK(run, quarry_insitu_start(run));
  CHECK_OK(run, quarry_insitu_begin_step(run, 1, 0.25));
  CHECK_OK(run, quarry_insitu_put(run, "p", QUARRY_FLOAT32, 1, address));
  CHECK_OK(run, quarry_insitu_end_step(run));
  quarry_insitu_free(run); /* closes */
  MPI_Barrier(MPI_COMM_WORLD);
  CHECK(Exists(path, "steps/000001/step.json"));
  CHECK(!Exists(path, "steps/000002"));
  free(slab.samples);
}

/* A wrong declaration on one rank makes the start fail on all. */
static void ReportOneWrongDeclaration(void) {
  struct Slab slab = MakeSlab();
  const int64_t stride[3] = {240, 24, 4};
  const double number = 0;
  char path[128];
  snprintf(path, sizeof(path), "%s/wrong.quarry", folder);
  for (int wrong = 0; wrong < 15; ++wrong) {
    const char* text = NULL;
    quarry_insitu* run = Declare(path, QUARRY_INSITU_CREATE, &slab);
    const int mine = rank == size - 1;
    switch (wrong) {
      case 0:
        text = "is not a type of samples";
        if (mine) CHECK_ERROR(run, 3, text, quarry_insitu_add_field(run, "x", 99, QUARRY_LOSSLESS, 0, ""));
        break;
      case 1:
        text = "is not a kind of bound";
        if (mine) CHECK_ERROR(run, 3, text, quarry_insitu_add_field(run, "x", QUARRY_INT8, 5, 0, ""));
        break;
      case 2:
        text = "no field \"y\" yet";
        if (mine) CHECK_ERROR(run, 3, text, quarry_insitu_set_fill(run, "y", 0));
        break;
      case 3:
        text = "\"gzip\"";
        if (mine) CHECK_ERROR(run, 3, text, quarry_insitu_set_codec(run, "p", "gzip"));
        break;
      case 4:
        text = "is not an order of axes";
        if (mine)
          CHECK_ERROR(run, 3, text,
                      quarry_insitu_add_box(run, slab.begin, slab.end, slab.begin, slab.end, 2));
        break;
      case 5:
        text = "argument is NULL";
        if (mine) CHECK_ERROR(run, 3, text, quarry_insitu_add_strided_box(run, slab.begin, NULL, stride));
        break;
      case 6: /* said by no local call */
        text = "which is not inside the domain";
        slab.end[0] += 1;
        if (mine) CHECK_OK(run, quarry_insitu_add_strided_box(run, slab.begin, slab.end, stride));
        slab.end[0] -= 1;
        break;
      case 7:
        text = "3 is not an axis";
        if (mine) CHECK_ERROR(run, 3, text, quarry_insitu_set_axis(run, 3, "t", "s"));
        break;
      case 8:
        text = "0 is not a number of values";
        if (mine) CHECK_ERROR(run, 3, text, quarry_insitu_set_positions(run, 0, 0, &number));
        break;
      case 9: /* said by no local call */
        text = "axis x has 1 positions, but the grid has 20 samples along it";
        if (mine) CHECK_OK(run, quarry_insitu_set_positions(run, 0, 1, &number));
        break;
      case 10:
        text = "no field \"y\" yet";
        if (mine) CHECK_ERROR(run, 3, text, quarry_insitu_set_attribute(run, "y", "a", "b"));
        break;
      case 11:
        text = "argument is NULL";
        if (mine) CHECK_ERROR(run, 3, text, quarry_insitu_set_attribute(run, NULL, "a", NULL));
        break;
      case 12:
        text = "parts of complex samples are floats";
        if (mine)
          CHECK_ERROR(run, 3, text,
                      quarry_insitu_add_complex_field(run, "psi", QUARRY_INT8, QUARRY_LOSSLESS, 0, ""));
        break;
      case 13:
        text = "\"rows\" is no payload order";
        if (mine) CHECK_ERROR(run, 3, text, quarry_insitu_set_payload_order(run, "rows"));
        break;
      default:
        text = "bytes of memory";
        if (mine) CHECK_ERROR(run, 3, text, quarry_insitu_set_memory(run, 0));
    }
    CHECK_ERROR(run, QUARRY_INSITU_INVALID_ARGUMENT, text, quarry_insitu_start(run));
    quarry_insitu_free(run);
  }
  CHECK(!Exists(path, "."));
  free(slab.samples);
}

static void RefuseWhatIsMissing(void) {
  quarry_insitu* run = NULL;
  const void* address[1] = {NULL};
  CHECK(quarry_insitu_open(MPI_COMM_WORLD, "x.quarry", QUARRY_INSITU_CREATE, NULL) ==
        QUARRY_INSITU_INVALID_ARGUMENT);
  CHECK_ERROR(run, QUARRY_INSITU_INVALID_ARGUMENT, "the path is empty",
              quarry_insitu_open(MPI_COMM_WORLD, NULL, QUARRY_INSITU_CREATE, &run));
  CHECK_ERROR(run, QUARRY_INSITU_INVALID_ARGUMENT, "the path is empty", quarry_insitu_start(run));
  quarry_insitu_free(run);
  CHECK_ERROR(run, QUARRY_INSITU_INVALID_ARGUMENT, "not a mode",
              quarry_insitu_open(MPI_COMM_WORLD, "x.quarry", 3, &run));
  quarry_insitu_free(run);
  CHECK_OK(run, quarry_insitu_open(MPI_COMM_NULL, "x.quarry", QUARRY_INSITU_CREATE, &run));
  CHECK(strcmp(quarry_insitu_last_message(run), "") == 0);
  CHECK_OK(run, quarry_insitu_set_grid(run, kDims));
  CHECK_ERROR(run, QUARRY_INSITU_INVALID_ARGUMENT, "MPI_COMM_NULL", quarry_insitu_start(run));
  quarry_insitu_free(run);
  CHECK_OK(run, quarry_insitu_open(MPI_COMM_WORLD, "x.quarry", QUARRY_INSITU_CREATE, &run));
  CHECK_ERROR(run, QUARRY_INSITU_INVALID_ARGUMENT, "no grid", quarry_insitu_start(run));
  quarry_insitu_free(run);
  CHECK(quarry_insitu_set_grid(NULL, kDims) == QUARRY_INSITU_INVALID_ARGUMENT);
  CHECK(quarry_insitu_start(NULL) == QUARRY_INSITU_INVALID_ARGUMENT);
  CHECK(quarry_insitu_begin_step(NULL, 0, 0) == QUARRY_INSITU_INVALID_ARGUMENT);
  CHECK(quarry_insitu_put(NULL, "p", QUARRY_FLOAT32, 1, address) == QUARRY_INSITU_INVALID_ARGUMENT);
  CHECK(quarry_insitu_end_step(NULL) == QUARRY_INSITU_INVALID_ARGUMENT);
  CHECK(quarry_insitu_close(NULL) == QUARRY_INSITU_INVALID_ARGUMENT);
  CHECK(strlen(quarry_insitu_last_message(NULL)) > 0);
  CHECK(strcmp(quarry_insitu_take_warning(NULL), "") == 0);
  quarry_insitu_free(NULL);
}

static int Remove(const char* path, const struct stat* info, int type, struct FTW* walk) {
  (void)info, (void)type, (void)walk;
  return remove(path);
}

int main(int argc, char** argv) {
  int worst;
  quarry_insitu* run = NULL;
  /* Before MPI runs, every call is refused and none aborts. */
  CHECK_OK(run, quarry_insitu_open(MPI_COMM_WORLD, "x.quarry", QUARRY_INSITU_CREATE, &run));
  CHECK_OK(run, quarry_insitu_set_grid(run, kDims));
  CHECK_ERROR(run, QUARRY_INSITU_FAILED_PRECONDITION, "MPI is not running", quarry_insitu_start(run));
  quarry_insitu_free(run);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (rank == 0) {
    strcpy(folder, "/tmp/quarry-test-XXXXXX");
    CHECK(mkdtemp(folder) != NULL);
  }
  MPI_Bcast(folder, sizeof(folder), MPI_CHAR, 0, MPI_COMM_WORLD);
  RefuseWhatIsMissing();
  ReportOneWrongDeclaration();
  WriteAndContinue();
  MPI_Allreduce(&failures, &worst, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  if (rank == 0) nftw(folder, Remove, 16, FTW_DEPTH | FTW_PHYS);
  MPI_Finalize();
  return worst == 0 ? 0 : 1;
}
