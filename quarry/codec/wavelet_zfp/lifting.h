#pragma once

#include <array>
#include <cstddef>

#include "quarry/box.h"

namespace quarry::wavelet_zfp {

/// The samples of a box that are not on the next coarser grid, in three slabs one after the other:
///   [0] odd z                    shape (nx, ny, nz/2), along x and y evens before odds
///   [1] even z, odd y            shape (nx, ny/2, ceil(nz/2)), along x evens before odds
///   [2] even z, even y, odd x    shape (nx/2, ceil(ny/2), ceil(nz/2))
/// Each slab is a dense array, x fastest. Together they hold the seven detail subbands of one level in as few
/// arrays as possible, which costs a block coder less at odd sizes than seven small arrays do. A slab may be
/// empty.
using DetailShapes = std::array<Index3, 3>;
DetailShapes DetailSlabs(const Index3& fine_shape);

/// Samples in the three slabs: volume of the box less that of the coarser one.
std::int64_t DetailVolume(const Index3& fine_shape);

/// One level of the multilinear B-spline wavelet (CDF 5/3 by lifting), along z, then y, then x:
///   predict  d[i] = odd[i]  - (even[i] + even[i+1]) / 2    beyond the end: linear extrapolation of two evens
///   update   s[i] = even[i] + (d[i-1] + d[i]) / 4          beyond an end: the detail that exists, twice
/// Linear extrapolation keeps smooth fields cheap at patch faces (symmetric extension doubled their bytes).
/// Any shape, 1 included; an axis of one sample is left alone. Low-pass samples keep the unit and mean of the
/// field.
///
/// @param[in,out] fine     shape `fine_shape`, x fastest; used as scratch
/// @param[out]    coarse   shape ceil(fine_shape / 2)
/// @param[out]    details  DetailVolume(fine_shape) samples, see DetailShapes
/// @threads safe on distinct arrays
/// @source Cohen, Daubechies, Feauveau 1992; Sweldens 1996 (lifting)
template <typename T>
void Forward(T* fine, const Index3& fine_shape, T* coarse, T* details);

/// Inverse of Forward up to rounding. With `details` null it is the multilinear interpolation of the coarse
/// samples, as a viewer of the coarser level sees them.
template <typename T>
void Inverse(const T* coarse, const T* details, const Index3& fine_shape, T* fine);

/// The same arrangement of samples without arithmetic: coarse = every second sample, details = the others
/// verbatim.
template <typename T>
void Split(const T* fine, const Index3& fine_shape, T* coarse, T* details);

/// Exact inverse of Split.
template <typename T>
void Merge(const T* coarse, const T* details, const Index3& fine_shape, T* fine);

}  // namespace quarry::wavelet_zfp
