#include "quarry/codec/interpolate/predictor.h"

namespace quarry::interpolate {
namespace {

template <typename T>
Line<T> Weighted(int first, std::initializer_list<double> weights, bool extrapolated) {
  Line<T> line;
  line.kind = weights.size() == 2   ? LineKind::kWeighted2
              : weights.size() == 3 ? LineKind::kWeighted3
                                    : LineKind::kWeighted4;
  line.first = first;
  line.extrapolated = extrapolated;
  std::size_t i = 0;
  for (const double weight : weights) line.weights[i++] = static_cast<T>(weight);
  return line;
}

/// Every weight is a small multiple of a power of two, so exact in T.
template <typename T>
Line<T> Interpolating(Order order, std::int64_t j, std::int64_t even) {
  const bool quintic = order == Order::kQuintic;
  if (quintic && j >= 2 && j + 3 < even) return {LineKind::kSix, -2, {}, false};
  if (order != Order::kLinear) {
    if (j >= 1 && j + 2 < even) return {LineKind::kFour, -1, {}, false};
    if (quintic && j == 0 && even >= 4)
      return Weighted<T>(0, {5.0 / 16, 15.0 / 16, -5.0 / 16, 1.0 / 16}, false);
    if (quintic && j >= 2) return Weighted<T>(-2, {1.0 / 16, -5.0 / 16, 15.0 / 16, 5.0 / 16}, false);
    if (j == 0 && even >= 3) return Weighted<T>(0, {3.0 / 8, 6.0 / 8, -1.0 / 8}, false);
    if (j >= 1) return Weighted<T>(-1, {-1.0 / 8, 6.0 / 8, 3.0 / 8}, false);
  }
  return {LineKind::kTwo, 0, {}, false};
}

template <typename T>
Line<T> Extrapolating(Extrapolation extrapolation, std::int64_t j) {
  if (extrapolation == Extrapolation::kCubic && j >= 3)
    return Weighted<T>(-3, {-5.0 / 16, 21.0 / 16, -35.0 / 16, 35.0 / 16}, true);
  if (extrapolation != Extrapolation::kLinear && j >= 2)
    return Weighted<T>(-2, {3.0 / 8, -10.0 / 8, 15.0 / 8}, true);
  if (j >= 1) return Weighted<T>(-1, {-0.5, 1.5}, true);
  return {LineKind::kCopy, 0, {}, true};
}

constexpr std::uint8_t kEqual = 8;

/// Calls use(weight) for the nine weights that a payload may have: of the bands xy, xz, yz, xyz, their odd
/// axes in the order x, y, z.
template <typename Weights, typename Use>
void ForEachWeight(Weights& weights, Use use) {
  for (int band = 1; band < kBands; ++band) {
    for (int axis = 0; axis < 3; ++axis) {
      if (OddAxes(band) > 1 && IsOdd(band, axis))
        use(weights[static_cast<std::size_t>(band)][static_cast<std::size_t>(axis)]);
    }
  }
}

}  // namespace

PredictorSpec PredictorSpec::Default() {
  PredictorSpec spec;
  ForEachWeight(spec.weights, [](std::uint8_t& weight) { weight = kEqual; });
  return spec;
}

bool PredictorSpec::HasEqualWeights() const { return weights == Default().weights; }

void PredictorSpec::EncodeTo(Bytes* out) const {
  std::uint16_t orders = 0;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    orders = static_cast<std::uint16_t>(orders | static_cast<unsigned>(order[axis]) << (2 * axis) |
                                        static_cast<unsigned>(extrapolation[axis]) << (6 + 2 * axis));
  }
  PutLittleEndian(out, orders);
  if (HasEqualWeights()) return;
  std::uint64_t packed = 0;  // four bits each
  int shift = 0;
  ForEachWeight(weights, [&](std::uint8_t weight) {
    packed |= std::uint64_t{weight} << shift;
    shift += 4;
  });
  for (int i = 0; i < 5; ++i) out->push_back(static_cast<std::byte>(packed >> (8 * i)));
}

Result<PredictorSpec> PredictorSpec::DecodeFrom(ByteSpan* bytes, bool equal_weights) {
  const std::size_t size = equal_weights ? 2 : 7;
  if (bytes->size() < size)
    return DataLoss("the predictor of a level needs {} bytes, {} are left", size, bytes->size());
  PredictorSpec spec = Default();
  const auto orders = GetLittleEndian<std::uint16_t>(bytes->data());
  if (orders >> 12 != 0) return DataLoss("unknown bits in the orders {:#x} of a predictor", orders);
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const unsigned order = orders >> (2 * axis) & 3;
    const unsigned extrapolation = orders >> (6 + 2 * axis) & 3;
    if (order > 2 || extrapolation > 2) return DataLoss("unknown order of interpolation in {:#x}", orders);
    spec.order[axis] = static_cast<Order>(order);
    spec.extrapolation[axis] = static_cast<Extrapolation>(extrapolation);
  }
  if (!equal_weights) {
    std::uint64_t packed = 0;
    for (std::size_t i = 0; i < 5; ++i) packed |= std::to_integer<std::uint64_t>((*bytes)[2 + i]) << (8 * i);
    ForEachWeight(spec.weights, [&](std::uint8_t& weight) {
      weight = static_cast<std::uint8_t>(packed & 15);
      packed >>= 4;
    });
    if (packed != 0) return DataLoss("unknown bits behind the weights of a predictor");
  }
  *bytes = bytes->subspan(size);
  return spec;
}

template <typename T>
std::vector<Segment<T>> MakeSegments(Order order, Extrapolation extrapolation, std::int64_t even,
                                     std::int64_t odd) {
  std::vector<Segment<T>> segments;
  for (std::int64_t j = 0; j < odd; ++j) {
    const Line<T> line = j + 1 < even ? Interpolating<T>(order, j, even) : Extrapolating<T>(extrapolation, j);
    if (!segments.empty() && segments.back().line == line) {
      ++segments.back().count;
    } else {
      segments.push_back({j, 1, line});
    }
  }
  return segments;
}

template <typename T>
std::array<T, 3> AxisWeights(const PredictorSpec& spec, int band, int available) {
  int axes = band & available;
  if (axes == 0) axes = band;
  const auto& weights = spec.weights[static_cast<std::size_t>(band)];
  unsigned sum = 0;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    if (IsOdd(axes, static_cast<int>(axis))) sum += weights[axis];
  }
  std::array<T, 3> normalised{};
  for (std::size_t axis = 0; axis < 3; ++axis) {
    if (!IsOdd(axes, static_cast<int>(axis))) continue;
    normalised[axis] =
        sum > 0 ? static_cast<T>(weights[axis]) / static_cast<T>(sum) : T(1) / static_cast<T>(OddAxes(axes));
  }
  return normalised;
}

template std::vector<Segment<float>> MakeSegments<float>(Order, Extrapolation, std::int64_t, std::int64_t);
template std::vector<Segment<double>> MakeSegments<double>(Order, Extrapolation, std::int64_t, std::int64_t);
template std::array<float, 3> AxisWeights<float>(const PredictorSpec&, int, int);
template std::array<double, 3> AxisWeights<double>(const PredictorSpec&, int, int);

}  // namespace quarry::interpolate
