#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "quarry/base/wide_integer.h"
#include "quarry/codec/instruction_sets.h"

/// Shared by both comparisons of an error record: lanes of sums and maxima, in an order that depends neither
/// on the instruction set nor on the number of ranks.
namespace quarry::error_record {

using std::size_t;

// Patches are compared in columns of kTile x kTile samples, from the first z to the last. A row of kTile
// samples is also kTile lanes of sums and maxima, so results do not depend on the vector width; a lane adds
// at most kTile squares before its sum continues in float64.
inline constexpr size_t kTile = 64;
inline constexpr int kTileLog = 6;

template <typename Real>
using Row = std::array<Real, kTile>;

/// float32 holds every sample of the small types, and their differences to six digits.
template <typename T>
using CompareAs = std::conditional_t<(sizeof(T) <= 2) || std::is_same_v<T, float>, float, double>;

/// `value` or 0, without a branch, which would prevent vectorisation.
template <typename Real>
QUARRY_INLINE Real KeepIf(bool keep, Real value) {
  using Bits = std::conditional_t<sizeof(Real) == 4, std::uint32_t, std::uint64_t>;
  return std::bit_cast<Real>(std::bit_cast<Bits>(value) & (Bits{0} - static_cast<Bits>(keep)));
}

/// Sums and maxima of differences, lane by lane.
template <typename Real>
struct Lanes {
  Row<Real> largest{};  // difference at level 0, square of one at coarser levels
  Row<double> squares{};
  Row<double> covered{};  // samples; only kept if some are missing

  double Largest() const { return static_cast<double>(*std::max_element(largest.begin(), largest.end())); }
};

inline double Sum(const Row<double>& lanes) {
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

template <typename Real>
QUARRY_INLINE void AddTo(const Row<Real>& lanes, Row<double>* sums) {
  for (size_t x = 0; x < kTile; ++x) (*sums)[x] += static_cast<double>(lanes[x]);
}

}  // namespace quarry::error_record
