#pragma once

#include <mpi.h>

#include <complex>
#include <memory>
#include <span>

#include "analysis/spectrum/pencils.h"
#include "quarry/base/status.h"

namespace quarry::spectrum {

/// Seconds of the steps of a transform, of this rank.
struct TransformSeconds {
  double lines = 0;       ///< one-dimensional transforms
  double transposes = 0;  ///< exchanges between ranks, and the copies of what stays
};

/// The Fourier transform of a real field in three dimensions that no rank holds whole: lines along x, a
/// transpose, lines along y, a transpose, lines along z. The two transposes are two Redistributions.
///
/// Memory of a rank: two arrays of its share of the transform, 16 bytes a sample: of nx ny nz real samples on
/// R ranks, about 2 * 16 * (nx / 2 + 1) ny nz / R bytes.
///
/// @threads one caller at a time
/// @source Czechowski et al., On the Communication Complexity of 3D FFTs, section 2.2: pencil decomposition
class PencilTransform {
 public:
  /// @param dims  real samples, x, y, z; at least 1 each
  /// @param grid  as many ranks as `comm`
  /// @errors kInvalidArgument: 2^63 bytes and more; kInternal: no memory. The same on every rank
  /// @collective over `comm`
  static Result<PencilTransform> Create(MPI_Comm comm, const Index3& dims, const PencilGrid& grid);
  ~PencilTransform();  ///< collective, before MPI_Finalize
  PencilTransform(PencilTransform&&) noexcept;
  PencilTransform& operator=(PencilTransform&&) noexcept;

  /// The real samples of this rank: whole lines along x; may be empty.
  const Box& input_box() const;
  /// Where they go before Run, dense, x fastest. Run destroys them.
  std::span<double> input();

  /// The forward transform, not divided by anything.
  /// @collective
  Status Run();

  /// The share of this rank in TransformDims(dims): whole lines along z; may be empty.
  const Box& output_box() const;
  /// Valid after Run until the next Run; dense, x fastest.
  std::span<const std::complex<double>> output() const;

  /// Sum over all runs so far.
  const TransformSeconds& seconds() const;

 private:
  struct State;
  explicit PencilTransform(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace quarry::spectrum
