#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "quarry/base/endian.h"
#include "quarry/base/status.h"
#include "quarry/codec/interpolate/bands.h"

/// How the samples of a level are predicted from those already decoded: along every odd axis of a band by
/// one-dimensional interpolation, the axes averaged with weights. Chosen by the encoder for each level.
namespace quarry::interpolate {

/// Order of the interpolation between samples.
enum class Order : std::uint8_t { kLinear = 0, kCubic = 1, kQuintic = 2 };
/// Order of the extrapolation after the last sample of an axis of even length.
enum class Extrapolation : std::uint8_t { kLinear = 0, kQuadratic = 1, kCubic = 2 };

struct PredictorSpec {
  std::array<Order, 3> order{};                  ///< x, y, z
  std::array<Extrapolation, 3> extrapolation{};  ///< x, y, z
  /// Weights of the odd axes of a band, 0 to 15, relative to their sum, [band][axis]; bands with one odd axis
  /// need none.
  std::array<std::array<std::uint8_t, 3>, kBands> weights{};

  static PredictorSpec Default();
  bool HasEqualWeights() const;

  friend bool operator==(const PredictorSpec&, const PredictorSpec&) = default;

  /// Two bytes of orders, and five of weights unless they are equal.
  void EncodeTo(Bytes* out) const;
  /// @errors kDataLoss
  static Result<PredictorSpec> DecodeFrom(ByteSpan* bytes, bool equal_weights);
};

/// Form of a one-dimensional prediction. The sums are written out in kernels.inl, in an order that never
/// changes: decoded values depend on it.
enum class LineKind : std::uint8_t { kCopy, kTwo, kFour, kSix, kWeighted2, kWeighted3, kWeighted4 };

/// Prediction of odd sample j from the even samples j + first, j + first + 1, ...
template <typename T>
struct Line {
  LineKind kind = LineKind::kCopy;
  int first = 0;
  std::array<T, 4> weights{};  ///< weights of kWeightedN
  bool extrapolated = false;   ///< there is no even sample to the right

  friend bool operator==(const Line&, const Line&) = default;
};

/// Consecutive odd samples with the same line.
template <typename T>
struct Segment {
  std::int64_t begin = 0;
  std::int64_t count = 0;
  Line<T> line;
};

/// The lines of all odd samples along an axis with `even` even and `odd` odd samples.
template <typename T>
std::vector<Segment<T>> MakeSegments(Order order, Extrapolation extrapolation, std::int64_t even,
                                     std::int64_t odd);

/// Weights of the three axes in a band, normalised over the axes that need no extrapolation (over all odd
/// axes when every one does). @param available  bit d: axis d needs none
template <typename T>
std::array<T, 3> AxisWeights(const PredictorSpec& spec, int band, int available);

}  // namespace quarry::interpolate
