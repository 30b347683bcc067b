#pragma once

#include <mpi.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/spectrum/pencils.h"
#include "quarry/base/status.h"
#include "quarry/question.h"

/// Energy spectra of the fields of a dataset.
namespace quarry::spectrum {

/// Input and bounds of a transform.
struct SpectrumRequest {
  std::string dataset;                ///< a directory, which every rank can read
  std::vector<std::string> fields;    ///< components: their energies add up. At least one, none twice
  std::optional<std::uint64_t> step;  ///< left out: the first that has the first field
  /// a level, or an error [unit of the fields] for the level and layers with the least payload within it
  query::Target target;
  std::optional<int> layer;         ///< layer of accuracy of a level, 0 the roughest; left out: the last
  std::optional<PencilGrid> ranks;  ///< left out: ChoosePencilGrid
  bool progress = false;            ///< on stderr of rank 0
};

/// Seconds of the slowest rank.
struct SpectrumSeconds {
  double read = 0;        ///< reading, decoding, conversion to double
  double lines = 0;       ///< one-dimensional transforms
  double transposes = 0;  ///< exchanges between ranks
  double energy = 0;      ///< sums by shell
  double total = 0;
};

struct Spectrum {
  /// By shell k = 0, 1, 2, ... [square of the unit of the fields]: half of the sum of |u(K)|^2 over all wave
  /// vectors K with |K| rounded to k, where K counts the waves along each axis of the box and u is the
  /// transform divided by the number of samples. They add up to half the mean square of the field.
  std::vector<double> energy;
  std::int64_t last_whole_shell = 0;  ///< see LastWholeShell
  std::uint64_t step = 0;
  int level = 0;
  std::vector<int> layers;  ///< layer of accuracy of each component
  Index3 dims{};            ///< samples of the level
  double max_error = 0;     ///< [unit of the fields] recorded for the level: the largest of the components
  PencilGrid ranks;
  SpectrumSeconds seconds;
};

/// Computes the spectrum on all ranks of `comm`: each reads its pencils of the level from the dataset, a few
/// patches at a time.
/// @returns on every rank; the same up to rounding for any number of ranks
/// @errors the same on every rank: kNotFound: no such dataset, field or step, or no level within max_error;
/// kInvalidArgument: no such level; another target; no field, or one twice; a field with missing samples,
/// which has no spectrum; kDataLoss: damage
/// @collective
Result<Spectrum> ComputeSpectrum(MPI_Comm comm, const SpectrumRequest& request);

}  // namespace quarry::spectrum
