/* In-transit writing and consumers for C: some ranks of a job write or analyse the steps of the others.
 *
 *   quarry_intransit* job;
 *   quarry_intransit_split(MPI_COMM_WORLD, 4, &job);              the last 4 ranks write or consume
 *   if (quarry_intransit_writes(job)) {
 *     quarry_intransit_consumer consumer = {needs, consume, &pictures};
 *     code = quarry_intransit_serve(job, 1, &consumer);           until the simulation has ended
 *   } else {
 *     quarry_intransit_open(job, quarry_intransit_comm(job), "run42.quarry", QUARRY_INSITU_CREATE, &run);
 *     ...                                                         from here on as in quarry_insitu.h
 *   }
 *   quarry_intransit_free(job);
 *
 * A consumer names the boxes that it needs, and gets them of every step:
 *
 *   int needs(quarry_intransit_dataset* dataset, void* user) {
 *     return quarry_intransit_need(dataset, "pressure", begin, end);
 *   }
 *   int consume(const quarry_intransit_step* step, void* user) {
 *     const double* p = quarry_intransit_samples(step, "pressure", 0);
 *     ...
 *     return 0;
 *   }
 *
 * Axes, boxes, types, codes and messages are those of quarry_insitu.h. One caller at a time for each object.
 */
#ifndef QUARRY_INTRANSIT_H_
#define QUARRY_INTRANSIT_H_

#include <mpi.h>
#include <stdint.h>

#include "quarry/quarry_insitu.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The ranks of a job, divided into those that simulate and those that write or consume. */
typedef struct quarry_intransit quarry_intransit;
/* A dataset that the simulation opens, as a consumer sees it. */
typedef struct quarry_intransit_dataset quarry_intransit_dataset;
/* A step, as it arrives at one rank. */
typedef struct quarry_intransit_step quarry_intransit_step;

/* Collective over world. The last ranks of world write, the others simulate. *out is NULL only when memory is
 * out; free it in any case, before MPI_Finalize: the end of all objects of the simulation ends the writers.
 */
int quarry_intransit_split(MPI_Comm world, int writers, quarry_intransit** out);
/* The same where each rank gives its own role. */
int quarry_intransit_split_by_role(MPI_Comm world, int writes, quarry_intransit** out);
/* 1 on a rank that calls serve, 0 on one that simulates. */
int quarry_intransit_writes(const quarry_intransit* job);
/* The ranks with the same role, in place of MPI_COMM_WORLD; MPI_COMM_NULL after an error of split. */
MPI_Comm quarry_intransit_comm(const quarry_intransit* job);
/* Steps handed over and not yet published and consumed, at most, of datasets that are opened later; else 2.
 */
int quarry_intransit_set_steps_in_flight(quarry_intransit* job, int steps);

/* On ranks that simulate: quarry_insitu_open for ranks that hand over their steps. comm: that of the job, or
 * a part of it. All further calls are those of quarry_insitu.h; an error of an earlier step comes with
 * begin_step or close. Free the object before the job. */
int quarry_intransit_open(quarry_intransit* job, MPI_Comm comm, const char* path, int mode,
                          quarry_insitu** out);

/* Functions of a consumer, which return 0 or end everything: every rank of the job gets the same error, that
 * of the lowest failing rank. They may talk to each other over the job's communicator. user: for the caller.
 */
typedef struct {
  /* When the simulation opens a dataset: calls quarry_intransit_need for every box. */
  int (*needs)(quarry_intransit_dataset* dataset, void* user);
  /* Every step once, in the order in which the simulation has ended them. */
  int (*consume)(const quarry_intransit_step* step, void* user);
  void* user;
} quarry_intransit_consumer;

/* On ranks that write or consume: works until every rank of the simulation has freed its job. Collective over
 * these ranks. writes: 0, the steps are only consumed; else they are written too. consumer: NULL for none. */
int quarry_intransit_serve(quarry_intransit* job, int writes, const quarry_intransit_consumer* consumer);

/* In needs: the path that the dataset has or would have, the grid, and the type of a field, 0 for an unknown
 * one. */
const char* quarry_intransit_path(const quarry_intransit_dataset* dataset);
void quarry_intransit_grid(const quarry_intransit_dataset* dataset, int64_t dims[3]);
int quarry_intransit_type(const quarry_intransit_dataset* dataset, const char* field);
/* In needs: a box of a field that this rank needs in every step; inside the grid, may overlap others, or be
 * empty. The boxes of a field are numbered from 0 in the order of these calls. */
int quarry_intransit_need(quarry_intransit_dataset* dataset, const char* field, const int64_t begin[3],
                          const int64_t end[3]);

/* In consume. The dataset is the one of needs; the time is NaN if the step has none. */
const quarry_intransit_dataset* quarry_intransit_step_dataset(const quarry_intransit_step* step);
int64_t quarry_intransit_step_number(const quarry_intransit_step* step);
double quarry_intransit_step_time(const quarry_intransit_step* step);
/* In consume: the samples of a box, dense, x fastest, until consume returns. NULL if the box is empty or was
 * not named, or the simulation has left the field out of this step. */
const void* quarry_intransit_samples(const quarry_intransit_step* step, const char* field, int box);

/* In needs and consume: what is wrong, for the message that every rank gets; returns QUARRY_INSITU_INTERNAL,
 * to be returned: return quarry_intransit_fail(job, "the disk of the pictures is full"); */
int quarry_intransit_fail(quarry_intransit* job, const char* message);

/* The message of the last failed call; "" if none failed. Valid until the next call. */
const char* quarry_intransit_last_message(const quarry_intransit* job);
/* On ranks that simulate: the last of them lets the writers end. NULL is fine. */
void quarry_intransit_free(quarry_intransit* job);

#ifdef __cplusplus
}
#endif

#endif /* QUARRY_INTRANSIT_H_ */
