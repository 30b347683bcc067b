/* Consumers in transit through the C interface: a simulation that hands its steps over, and what arrives at
 * consumers; errors of either side, as codes and messages on all ranks. */
#define _XOPEN_SOURCE 700
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quarry/quarry_intransit.h"

static int failures = 0;
static int rank;
static int size;

static void CheckAt(int line, int good, const char* what, const char* message) {
  if (good) return;
  fprintf(stderr, "rank %d, line %d: %s: \"%s\"\n", rank, line, what, message);
  ++failures;
}
#define CHECK(condition) CheckAt(__LINE__, (condition), #condition, "")
#define CHECK_OK(object, call) CheckAt(__LINE__, (call) == QUARRY_INSITU_OK, #call, object)
#define CHECK_ERROR(message, code, text, call) \
  CheckAt(__LINE__, (call) == (code) && strstr(message, (text)) != NULL, #call, message)
#define JOB(job) quarry_intransit_last_message(job)
#define RUN(run) quarry_insitu_last_message(run)

enum { kX = 11, kY = 7, kZ = 3 };

static float SampleAt(int64_t x, int64_t y, int64_t z, int64_t step) {
  return (float)(x + 20 * y + 400 * z + 10000 * step);
}

/* Observations of a consumer, and its instructions. */
struct Seen {
  quarry_intransit* job;
  int steps[8];
  int count;
  int fail_in_step; /* -1: never */
  int fail_in_needs;
  const char* message; /* NULL: a code without one */
};

/* A column of x in the middle, everything, nothing; and only the first consumer needs field "n". */
static int Needs(quarry_intransit_dataset* dataset, void* user) {
  struct Seen* seen = user;
  const int64_t zero[3] = {0, 0, 0};
  const int64_t begin[3] = {5, 1, 0};
  const int64_t end[3] = {6, kY, 2};
  int64_t dims[3] = {0, 0, 0};
  quarry_intransit_grid(dataset, dims);
  CHECK(dims[0] == kX && dims[1] == kY && dims[2] == kZ);
  CHECK(strcmp(quarry_intransit_path(dataset), "c-run") == 0);
  CHECK(quarry_intransit_type(dataset, "p") == QUARRY_FLOAT32);
  CHECK(quarry_intransit_type(dataset, "n") == QUARRY_INT16);
  CHECK(quarry_intransit_type(dataset, "x") == 0);
  CHECK(quarry_intransit_type(dataset, NULL) == 0);
  CHECK(quarry_intransit_need(dataset, NULL, begin, end) == QUARRY_INSITU_INVALID_ARGUMENT);
  CHECK(quarry_intransit_need(dataset, "p", begin, end) == QUARRY_INSITU_OK);
  CHECK(quarry_intransit_need(dataset, "p", zero, zero) == QUARRY_INSITU_OK);
  CHECK(quarry_intransit_need(dataset, "p", zero, dims) == QUARRY_INSITU_OK);
  if (rank == size - 1) CHECK(quarry_intransit_need(dataset, "n", zero, end) == QUARRY_INSITU_OK);
  if (seen->fail_in_needs) return quarry_intransit_fail(seen->job, "this consumer has no memory");
  return 0;
}

static void CheckBox(const float* samples, const int64_t begin[3], const int64_t end[3], int64_t step) {
  CHECK(samples != NULL);
  if (samples == NULL) return;
  for (int64_t z = begin[2]; z < end[2]; ++z)
    for (int64_t y = begin[1]; y < end[1]; ++y)
      for (int64_t x = begin[0]; x < end[0]; ++x) CHECK(*samples++ == SampleAt(x, y, z, step));
}

static int Consume(const quarry_intransit_step* step, void* user) {
  struct Seen* seen = user;
  const int64_t number = quarry_intransit_step_number(step);
  const int64_t zero[3] = {0, 0, 0};
  const int64_t dims[3] = {kX, kY, kZ};
  const int64_t begin[3] = {5, 1, 0};
  const int64_t end[3] = {6, kY, 2};
  seen->steps[seen->count++] = (int)number;
  CHECK(strcmp(quarry_intransit_path(quarry_intransit_step_dataset(step)), "c-run") == 0);
  if (number == 2) {
    CHECK(isnan(quarry_intransit_step_time(step)));
  } else {
    CHECK(quarry_intransit_step_time(step) == 0.5 * (double)number);
  }
  CheckBox(quarry_intransit_samples(step, "p", 0), begin, end, number);
  CHECK(quarry_intransit_samples(step, "p", 1) == NULL);
  CheckBox(quarry_intransit_samples(step, "p", 2), zero, dims, number);
  CHECK(quarry_intransit_samples(step, "p", 3) == NULL);
  CHECK(quarry_intransit_samples(step, "p", -1) == NULL);
  CHECK(quarry_intransit_samples(step, NULL, 0) == NULL);
  /* The field is in no step. */
  CHECK(quarry_intransit_samples(step, "n", 0) == NULL);
  if (number != seen->fail_in_step) return 0;
  return seen->message != NULL ? quarry_intransit_fail(seen->job, seen->message) : 77;
}

static quarry_insitu* Declare(quarry_intransit* job, int64_t y_begin, int64_t y_end) {
  const int64_t dims[3] = {kX, kY, kZ};
  const int64_t begin[3] = {0, y_begin, 0};
  const int64_t end[3] = {kX, y_end, kZ};
  quarry_insitu* run = NULL;
  CHECK(quarry_intransit_open(job, quarry_intransit_comm(job), "c-run", QUARRY_INSITU_CREATE, &run) == 0);
  CHECK_OK(RUN(run), quarry_insitu_set_grid(run, dims));
  CHECK_OK(RUN(run), quarry_insitu_add_field(run, "p", QUARRY_FLOAT32, QUARRY_LOSSLESS, 0, "Pa"));
  CHECK_OK(RUN(run), quarry_insitu_add_field(run, "n", QUARRY_INT16, QUARRY_LOSSLESS, 0, NULL));
  CHECK_OK(RUN(run), quarry_insitu_add_box(run, begin, end, begin, end, QUARRY_X_FASTEST));
  return run;
}

/* Steps 1 to 4 in slices of y. Returns the first error, which is that of closing too. */
static int Simulate(quarry_intransit* job, char* message, size_t length) {
  int simulating, mine, code;
  quarry_insitu* run;
  MPI_Comm_size(quarry_intransit_comm(job), &simulating);
  MPI_Comm_rank(quarry_intransit_comm(job), &mine);
  const int64_t begin = kY * mine / simulating;
  const int64_t end = kY * (mine + 1) / simulating;
  float* samples = malloc((size_t)(kX * (end - begin) * kZ + 1) * sizeof(float));
  const void* address[1] = {samples};
  run = Declare(job, begin, end);
  code = quarry_insitu_start(run);
  for (int64_t step = 1; step < 5 && code == 0; ++step) {
    float* next = samples;
    for (int64_t z = 0; z < kZ; ++z)
      for (int64_t y = begin; y < end; ++y)
        for (int64_t x = 0; x < kX; ++x) *next++ = SampleAt(x, y, z, step);
    code = quarry_insitu_begin_step(run, step, step == 2 ? NAN : 0.5 * (double)step);
    if (code == 0) code = quarry_insitu_put(run, "p", QUARRY_FLOAT32, 1, address);
    if (code == 0) code = quarry_insitu_end_step(run);
  }
  if (code == 0) code = quarry_insitu_close(run);
  snprintf(message, length, "%s", RUN(run));
  quarry_insitu_free(run);
  free(samples);
  return code;
}

/* One job, the same code and message on all ranks. */
static void RunJob(int fail_in_step, int fail_in_needs, const char* says, int expected, const char* text) {
  struct Seen seen = {NULL, {0}, 0, -1, 0, says};
  const int consumers = size > 2 ? 2 : 1;
  quarry_intransit* job = NULL;
  char message[512] = "";
  char of_first[512];
  int code;
  CHECK_OK(JOB(job), quarry_intransit_split(MPI_COMM_WORLD, consumers, &job));
  seen.job = job;
  CHECK(quarry_intransit_writes(job) == (rank >= size - consumers));
  if (quarry_intransit_writes(job)) {
    const quarry_intransit_consumer consumer = {Needs, Consume, &seen};
    if (rank == size - 1) {
      seen.fail_in_step = fail_in_step;
      seen.fail_in_needs = fail_in_needs;
    }
    code = quarry_intransit_serve(job, 0, &consumer);
    snprintf(message, sizeof(message), "%s", JOB(job));
    if (expected == 0) CHECK(seen.count == 4 && seen.steps[0] == 1 && seen.steps[3] == 4);
    if (fail_in_step > 0) CHECK(seen.count == fail_in_step);
    if (fail_in_needs) CHECK(seen.count == 0);
  } else {
    CHECK_OK(JOB(job), quarry_intransit_set_steps_in_flight(job, 1));
    code = Simulate(job, message, sizeof(message));
  }
  quarry_intransit_free(job);
  CHECK_ERROR(message, expected, text, code);
  memcpy(of_first, message, sizeof(message));
  MPI_Bcast(of_first, sizeof(of_first), MPI_CHAR, 0, MPI_COMM_WORLD);
  CHECK(strcmp(of_first, message) == 0);
}

static void RefuseWhatIsMissing(void) {
  quarry_intransit* job = NULL;
  quarry_insitu* run = NULL;
  CHECK(quarry_intransit_split(MPI_COMM_WORLD, 1, NULL) == QUARRY_INSITU_INVALID_ARGUMENT);
  CHECK_ERROR(JOB(job), QUARRY_INSITU_INVALID_ARGUMENT, "leave no rank",
              quarry_intransit_split(MPI_COMM_WORLD, size, &job));
  CHECK(quarry_intransit_comm(job) == MPI_COMM_NULL);
  CHECK_ERROR(JOB(job), QUARRY_INSITU_FAILED_PRECONDITION, "failed before",
              quarry_intransit_serve(job, 1, NULL));
  CHECK_ERROR(JOB(job), QUARRY_INSITU_FAILED_PRECONDITION, "failed before",
              quarry_intransit_open(job, MPI_COMM_WORLD, "x", QUARRY_INSITU_CREATE, &run));
  CHECK(run == NULL);
  quarry_intransit_free(job);
  CHECK(quarry_intransit_serve(NULL, 1, NULL) == QUARRY_INSITU_INVALID_ARGUMENT);
  CHECK(quarry_intransit_open(NULL, MPI_COMM_WORLD, "x", 0, &run) == QUARRY_INSITU_INVALID_ARGUMENT);
  CHECK(quarry_intransit_writes(NULL) == 0);
  CHECK(strlen(quarry_intransit_last_message(NULL)) > 0);
  quarry_intransit_free(NULL);

  /* Each rank chooses; a simulation does not serve. */
  CHECK_OK(JOB(job), quarry_intransit_split_by_role(MPI_COMM_WORLD, rank == 0, &job));
  CHECK(quarry_intransit_writes(job) == (rank == 0));
  if (rank != 0) {
    CHECK_ERROR(JOB(job), QUARRY_INSITU_FAILED_PRECONDITION, "this rank simulates",
                quarry_intransit_serve(job, 1, NULL));
    quarry_intransit_free(job);
  } else {
    CHECK_OK(JOB(job), quarry_intransit_serve(job, 1, NULL));
    quarry_intransit_free(job);
  }
}

int main(int argc, char** argv) {
  int worst;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int last = size > 2 ? 1 : 0; /* number of the last consumer */
  char text[128];
  RefuseWhatIsMissing();
  RunJob(-1, 0, NULL, QUARRY_INSITU_OK, "");
  snprintf(text, sizeof(text), "consumer %d has failed in step 3 of \"c-run\": it has returned 77", last);
  RunJob(3, 0, NULL, QUARRY_INSITU_INTERNAL, text);
  snprintf(text, sizeof(text), "consumer %d has failed in step 2 of \"c-run\": the paper is used up", last);
  RunJob(2, 0, "the paper is used up", QUARRY_INSITU_INTERNAL, text);
  RunJob(-1, 1, NULL, QUARRY_INSITU_INTERNAL, "at the opening of \"c-run\": this consumer has no memory");
  MPI_Allreduce(&failures, &worst, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  MPI_Finalize();
  return worst == 0 ? 0 : 1;
}
