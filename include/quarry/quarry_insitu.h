/* In-situ writing for C and languages that call C: a running simulation writes its steps into a dataset.
 *
 *   quarry_insitu* run;
 *   quarry_insitu_open(comm, "run42.quarry", QUARRY_INSITU_CREATE, &run);
 *   quarry_insitu_set_grid(run, dims);
 *   quarry_insitu_add_field(run, "pressure", QUARRY_FLOAT64, QUARRY_TOLERANCE, 1e-3, "Pa");
 *   quarry_insitu_add_box(run, begin, end, array_begin, array_end, QUARRY_Z_FASTEST);
 *   int code = quarry_insitu_start(run);
 *   for each step:
 *     quarry_insitu_begin_step(run, step, time);
 *     quarry_insitu_put(run, "pressure", QUARRY_FLOAT64, 1, &pressure);
 *     quarry_insitu_end_step(run);
 *   quarry_insitu_close(run);
 *   quarry_insitu_free(run);
 *
 * Axes are x, y, z; boxes are half-open, [begin, end), in samples of the whole grid. Functions return 0 or an
 * error code; quarry_insitu_last_message says what is wrong, the value, where, and what to do. Nothing
 * aborts, exits or prints. Messages travel on a duplicate of the communicator, whose error handler and
 * attributes stay as they are.
 *
 * Marked "collective": every rank makes the same call and gets the same code. All others are local; an error
 * of one on any rank becomes the error of quarry_insitu_start on all, so their codes may be ignored. NULL
 * where it is not allowed gives QUARRY_INSITU_INVALID_ARGUMENT. One caller at a time for each object.
 */
#ifndef QUARRY_INSITU_H_
#define QUARRY_INSITU_H_

#include <mpi.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct quarry_insitu quarry_insitu;

/* Error codes. Up to FAILED_PRECONDITION the call has changed nothing; after the others the step is gone, and
 * the next one may be tried. Published steps always stay as they are. */
enum {
  QUARRY_INSITU_OK = 0,
  QUARRY_INSITU_UNKNOWN = 2, /* from end_step: the step is published, but may not survive a power cut */
  QUARRY_INSITU_INVALID_ARGUMENT = 3,
  QUARRY_INSITU_NOT_FOUND = 5,           /* no dataset to append to */
  QUARRY_INSITU_ALREADY_EXISTS = 6,      /* dataset or step */
  QUARRY_INSITU_FAILED_PRECONDITION = 9, /* calls in a wrong order, or not the same ones on every rank */
  QUARRY_INSITU_ABORTED = 10,      /* MPI failed while the ranks agreed: others may wait for this one, which
                                    * sends nothing more; end the program with MPI_Abort */
  QUARRY_INSITU_OUT_OF_RANGE = 11, /* samples that no relative tolerance fits */
  QUARRY_INSITU_INTERNAL = 13,     /* disk full, no memory, MPI */
  QUARRY_INSITU_UNAVAILABLE = 14,  /* another process is writing the dataset */
  QUARRY_INSITU_DATA_LOSS = 15     /* the existing dataset is damaged */
};

enum { QUARRY_INSITU_CREATE = 0, QUARRY_INSITU_APPEND = 1, QUARRY_INSITU_RESUME = 2 };

/* Type of a sample. */
enum {
  QUARRY_FLOAT32 = 1,
  QUARRY_FLOAT64 = 2,
  QUARRY_INT8 = 3,
  QUARRY_UINT8 = 4,
  QUARRY_INT16 = 5,
  QUARRY_UINT16 = 6,
  QUARRY_INT32 = 7,
  QUARRY_UINT32 = 8,
  QUARRY_INT64 = 9, /* without loss, as QUARRY_UINT64 */
  QUARRY_UINT64 = 10
};

/* Permitted loss. */
enum {
  QUARRY_LOSSLESS = 0,
  QUARRY_TOLERANCE = 1,         /* largest absolute error, in units of the field */
  QUARRY_RELATIVE = 2,          /* the same as a fraction of the value range of each step */
  QUARRY_POINTWISE_RELATIVE = 3 /* the same as a fraction of the magnitude of each sample */
};

/* Which axis lies densest in memory. */
enum {
  QUARRY_X_FASTEST = 0, /* Fortran's a(x,y,z), C's a[z][y][x] */
  QUARRY_Z_FASTEST = 1  /* C's a[x][y][z] */
};

/* Touches neither disk nor communicator yet: start does, and the communicator must live until then. *out is
 * NULL only when memory is out; free it in any case. mode: CREATE, the dataset must not exist; APPEND, it
 * must; RESUME, either, and fields of published steps are skipped. */
int quarry_insitu_open(MPI_Comm comm, const char* path, int mode, quarry_insitu** out);
/* The same for a Fortran communicator. */
int quarry_insitu_open_f(MPI_Fint comm, const char* path, int mode, quarry_insitu** out);

/* The whole grid, in samples. Required. */
int quarry_insitu_set_grid(quarry_insitu* run, const int64_t dims[3]);
/* Position of sample (0,0,0) and distance of samples; else 0 and 1. */
int quarry_insitu_set_axes(quarry_insitu* run, const double origin[3], const double spacing[3]);
/* Name and unit of axis 0, 1 or 2, which is x, y or z; NULL: x, y or z without a unit. */
int quarry_insitu_set_axis(quarry_insitu* run, int axis, const char* name, const char* units);
/* Positions of all samples along an axis that is not evenly spaced, ascending or descending. count: samples
 * of the grid along it. */
int quarry_insitu_set_positions(quarry_insitu* run, int axis, int64_t count, const double* positions);
/* Unit of the times of begin_step: "s", or "days since 2001-01-01" in a calendar of the CF conventions, as
 * "noleap"; NULL: the standard one. Else they are numbers. */
int quarry_insitu_set_time_unit(quarry_insitu* run, const char* units, const char* calendar);
/* Samples of a patch, powers of two, and resolution levels; else those of quarry-write. levels 0: those.
 */
int quarry_insitu_set_patch(quarry_insitu* run, const int64_t patch[3], int levels);
/* Subfiles per field and step; else one for every 8 ranks. */
int quarry_insitu_set_files(quarry_insitu* run, int files);
/* Order of the payload in a subfile: "patch" for boxes, "level" for overviews of everything, "coarse" for
 * both, as object stores need it; else "patch". */
int quarry_insitu_set_payload_order(quarry_insitu* run, const char* order);
/* Bytes that a rank may take for copies; a larger field is processed in parts. Else as much as it takes. */
int quarry_insitu_set_memory(quarry_insitu* run, int64_t bytes);

/* units may be NULL. bound is ignored for QUARRY_LOSSLESS. */
int quarry_insitu_add_field(quarry_insitu* run, const char* name, int type, int bound_kind, double bound,
                            const char* units);
/* Samples with this value are missing, besides NaN and infinity. */
int quarry_insitu_set_fill(quarry_insitu* run, const char* field, double fill);
/* "interpolate", "interpolate-zeros" (zero stays zero), "interpolate-signs" (and no sign changes),
 * "wavelet-zfp" or "lossless"; else from type and bound. */
int quarry_insitu_set_codec(quarry_insitu* run, const char* field, const char* codec);
/* Steps may refer to the one before, which takes fewer bytes where a field changes slowly; at least one in so
 * many refers to none. Else none does. */
int quarry_insitu_set_keyframe(quarry_insitu* run, const char* field, int steps);

/* Two fields with the parts of complex samples, NAME.real and NAME.imag, that readers get as one array. type
 * and bound are those of each part. */
int quarry_insitu_add_complex_field(quarry_insitu* run, const char* name, int type, int bound_kind,
                                    double bound, const char* units);

/* Attributes: kept as they are, UTF-8. field: NULL for the dataset, or the name of a field. A continued
 * dataset keeps its own, and its fields theirs. Units, fill values and types are no attributes: they have
 * parameters of their own. */
int quarry_insitu_set_attribute(quarry_insitu* run, const char* field, const char* name, const char* text);
/* The same with numbers: count 1 is one number, others are a list. */
int quarry_insitu_set_numbers(quarry_insitu* run, const char* field, const char* name, int64_t count,
                              const double* numbers);
/* The same for axis 0, 1 or 2, as "positive", "down". */
int quarry_insitu_set_axis_attribute(quarry_insitu* run, int axis, const char* name, const char* text);
/* A coordinate of text: the names of stations along an axis, one for each sample; or, with axis -1 and count
 * 1, a text for the whole. */
int quarry_insitu_set_texts(quarry_insitu* run, const char* name, int axis, int64_t count,
                            const char* const* texts);

/* A box that this rank owns, in an array that spans [array_begin, array_end): the box and its ghost layers,
 * which may reach out of the grid. The address in put is that of the array's first element. Any number of
 * boxes; none is fine. Together those of all ranks cover the grid once. */
int quarry_insitu_add_box(quarry_insitu* run, const int64_t begin[3], const int64_t end[3],
                          const int64_t array_begin[3], const int64_t array_end[3], int order);
/* The same in any other arrangement: bytes from one sample to the next along x, y, z. The address in put is
 * that of the first sample of the box. */
int quarry_insitu_add_strided_box(quarry_insitu* run, const int64_t begin[3], const int64_t end[3],
                                  const int64_t stride[3]);

/* Collective. Checks the declarations, and creates or opens the dataset. */
int quarry_insitu_start(quarry_insitu* run);

/* Collective. A NaN as time means no time. */
int quarry_insitu_begin_step(quarry_insitu* run, int64_t step, double time);
/* Collective. type as declared; one address for each box, in the order in which they were added. The samples
 * have been read when this returns. */
int quarry_insitu_put(quarry_insitu* run, const char* field, int type, int boxes, const void* const* address);
/* Collective. Makes the step visible to readers. No step is open afterwards, even after an error. */
int quarry_insitu_end_step(quarry_insitu* run);
/* Collective. Removes a step that is still open, which is an error; the dataset is closed all the same. */
int quarry_insitu_close(quarry_insitu* run);
/* Collective, as close, if the dataset is started and not closed; else local. NULL is fine. */
void quarry_insitu_free(quarry_insitu* run);

/* The message of the last failed call; "" if none failed. Valid until the next call. */
const char* quarry_insitu_last_message(const quarry_insitu* run);

/* A warning about published steps, for the user of the program; "" if there is no further one. One rank has
 * them, the others none. Local, also after close. Valid until the next call. */
const char* quarry_insitu_take_warning(quarry_insitu* run);

#ifdef __cplusplus
}
#endif

#endif /* QUARRY_INSITU_H_ */
