#include "quarry/codec/interpolate/choose_predictor.h"

#include <algorithm>
#include <cmath>

#include "quarry/codec/interpolate/fixed_log.h"

namespace quarry::interpolate {
namespace {

/// Samples looked at in each band.
constexpr std::int64_t kSampled = 4096;
/// An index costs about 1/2 log2(1 + (kCostScale * residual / tolerance)^2) bits.
constexpr float kCostScale = 0.7f;

/// A sum of logarithms over some samples.
struct Cost {
  double sum = 0;
  std::int64_t count = 0;

  double mean() const { return count > 0 ? sum / static_cast<double>(count) : 0; }
};

template <typename T>
float SampleCost(T original, T predicted, T scale) {
  const T t = (original - predicted) * scale;
  const T square = t * t;
  // Written so that a NaN gets the highest cost.
  const float capped = square < T(1e30) ? static_cast<float>(square) : 1e30f;
  return FixedLog2(1.0f + capped);
}

template <typename T>
class Chooser {
 public:
  Chooser(const PredictionSample<T>& sample, LevelBands<T>* bands)
      : shape_(sample.shape),
        originals_(sample.originals),
        valid_(sample.valid),
        scale_(static_cast<T>(2 * static_cast<double>(kCostScale) / sample.step)),
        bands_(bands) {}

  double MeasureCost() {
    Cost cost;
    for (int axis = 0; axis < 3; ++axis) AddSomePlanes(1 << axis, -1, &cost);
    return cost.sum;
  }

  PredictorSpec Choose(const PredictorSpec& inherited) {
    PredictorSpec best = inherited;
    std::array<double, 3> best_cost{};
    double gain = 0;
    MeasureOrders();
    for (std::size_t axis = 0; axis < 3; ++axis) {
      const auto& costs = order_costs_[axis];
      const auto least =
          static_cast<std::size_t>(std::ranges::min_element(costs, {}, &Cost::mean) - costs.begin());
      best.order[axis] = static_cast<Order>(least);
      best_cost[axis] = costs[least].mean();
      gain += costs[static_cast<std::size_t>(inherited.order[axis])].mean() - best_cost[axis];
    }
    ChooseExtrapolations(&best);
    ChooseWeights(best_cost, &best);
    // Half a logarithm is a bit; the three axes share the samples of the level.
    const double samples = static_cast<double>(Volume(shape_)) * 7 / 8;
    const double saved = gain / 2 * samples / 3 + WeightGain(best_cost, inherited, best) * samples / 2;
    const double paid = 8.0 * (best.HasEqualWeights() ? 2 : 7);
    return saved > paid ? best : inherited;
  }

 private:
  /// @param last_of  see AddPlane
  void AddSomePlanes(int band, int last_of, Cost* cost) {
    if (bands_->Size(band) == 0) return;
    const Index3 extent = bands_->Shape(band);
    const std::int64_t plane = extent[0] * extent[1];
    const std::int64_t count = std::clamp<std::int64_t>(kSampled / plane, 1, extent[2]);
    for (std::int64_t i = 0; i < count; ++i)
      AddPlane(band, (2 * i + 1) * extent[2] / (2 * count), last_of, cost);
  }

  void MeasureOrders() {
    for (std::size_t o = 0; o < 3; ++o) {
      PredictorSpec spec = PredictorSpec::Default();
      spec.order.fill(static_cast<Order>(o));
      bands_->SetPredictor(spec);
      for (std::size_t axis = 0; axis < 3; ++axis) AddSomePlanes(1 << axis, -1, &order_costs_[axis][o]);
    }
  }

  /// Only the last sample of an axis of even length is extrapolated.
  void ChooseExtrapolations(PredictorSpec* best) {
    std::array<std::array<Cost, 3>, 3> costs;
    for (std::size_t e = 0; e < 3; ++e) {
      PredictorSpec spec = *best;
      spec.extrapolation.fill(static_cast<Extrapolation>(e));
      bands_->SetPredictor(spec);
      for (std::size_t axis = 0; axis < 3; ++axis) {
        const int band = 1 << axis;
        if (shape_[axis] % 2 != 0 || bands_->Size(band) == 0) continue;
        if (axis == 2) {
          AddPlane(band, bands_->Shape(band)[2] - 1, -1, &costs[axis][e]);
        } else {
          AddSomePlanes(band, static_cast<int>(axis), &costs[axis][e]);
        }
      }
    }
    for (std::size_t axis = 0; axis < 3; ++axis) {
      const auto& of_axis = costs[axis];
      best->extrapolation[axis] =
          static_cast<Extrapolation>(std::ranges::min_element(of_axis, {}, &Cost::sum) - of_axis.begin());
    }
  }

  /// @param last_of  -1: the whole plane; else only the last samples along this axis
  void AddPlane(int band, std::int64_t z, int last_of, Cost* cost) {
    const Index3 extent = bands_->Shape(band);
    const T* predicted = bands_->Predict(band, z);
    const auto b = static_cast<std::size_t>(band);
    const std::int64_t first = z * extent[0] * extent[1];
    const T* original = originals_[b] + first;
    const std::uint8_t* valid = valid_[b] == nullptr ? nullptr : valid_[b] + first;
    const std::int64_t y0 = last_of == 1 ? extent[1] - 1 : 0;
    const std::int64_t x0 = last_of == 0 ? extent[0] - 1 : 0;
    for (std::int64_t y = y0; y < extent[1]; ++y) {
      float row = 0;
      for (std::int64_t x = x0; x < extent[0]; ++x) {
        const std::int64_t i = y * extent[0] + x;
        if (valid != nullptr && valid[i] == 0) continue;
        row += SampleCost(original[i], predicted[i], scale_);
        ++cost->count;
      }
      cost->sum += static_cast<double>(row);
    }
  }

  /// Mean square of the residual for a cost, in squares of the tolerance.
  static double Square(double cost) {
    return std::max(static_cast<double>(FixedExp2(static_cast<float>(cost))) - 1, 1e-3);
  }

  static void ChooseWeights(const std::array<double, 3>& cost, PredictorSpec* spec) {
    for (int band = 1; band < kBands; ++band) {
      if (OddAxes(band) < 2) continue;
      auto& weights = spec->weights[static_cast<std::size_t>(band)];
      double sum = 0;
      double least = 1e300;
      double most = 0;
      for (int axis = 0; axis < 3; ++axis) {
        if (!IsOdd(band, axis)) continue;
        const double quality = 1 / Square(cost[static_cast<std::size_t>(axis)]);
        sum += quality;
        least = std::min(least, quality);
        most = std::max(most, quality);
      }
      for (int axis = 0; axis < 3; ++axis) {
        if (!IsOdd(band, axis)) continue;
        const double share = 16 / Square(cost[static_cast<std::size_t>(axis)]) / sum;
        const auto rounded = static_cast<std::uint8_t>(std::min(share + 0.5, 15.0));
        // Nearly equal weights become equal, so that they need not be stored.
        weights[static_cast<std::size_t>(axis)] = most < 1.7 * least ? std::uint8_t{8}
                                                  : rounded < 2      ? std::uint8_t{0}
                                                                     : rounded;
      }
    }
  }

  /// How much the logarithm of the expected square of an averaged residual falls, averaged over the bands.
  static double WeightGain(const std::array<double, 3>& cost, const PredictorSpec& from,
                           const PredictorSpec& to) {
    double gain = 0;
    for (int band = 1; band < kBands; ++band) {
      if (OddAxes(band) < 2) continue;
      gain += ExpectedLog(cost, from, band) - ExpectedLog(cost, to, band);
    }
    return gain / 7;
  }

  /// Assumes that the residuals of the axes are independent.
  static double ExpectedLog(const std::array<double, 3>& cost, const PredictorSpec& spec, int band) {
    const std::array<double, 3> weights = AxisWeights<double>(spec, band, 7);
    double square = 0;
    for (int axis = 0; axis < 3; ++axis) {
      const auto a = static_cast<std::size_t>(axis);
      if (IsOdd(band, axis)) square += weights[a] * weights[a] * Square(cost[a]);
    }
    return static_cast<double>(FixedLog2(static_cast<float>(1 + square)));
  }

  const Index3& shape_;
  const std::array<const T*, kBands>& originals_;
  const std::array<const std::uint8_t*, kBands>& valid_;
  const T scale_;
  LevelBands<T>* bands_;
  std::array<std::array<Cost, 3>, 3> order_costs_{};  ///< [axis][order]
};

}  // namespace

template <typename T>
PredictorSpec ChoosePredictor(const PredictionSample<T>& sample, const PredictorSpec& inherited,
                              LevelBands<T>* bands) {
  return Chooser<T>(sample, bands).Choose(inherited);
}

template <typename T>
double PredictionCost(const PredictionSample<T>& sample, LevelBands<T>* bands) {
  return Chooser<T>(sample, bands).MeasureCost();
}

template <typename T>
bool ReferencePays(const Index3& shape, const T* samples, Validity validity, const T* reference,
                   double step) {
  // A reference has to be read and decoded, too; and of few samples, one is a little better by chance.
  constexpr double kWorthwhile = 0.03;
  constexpr double kChance = 0.5;
  LevelGrid<T> coarse;
  coarse.values.Resize(BandSize(shape, 0));
  coarse.magnitudes.Resize(coarse.values.size());
  ExtractBand(samples, shape, 0, coarse.values.data());
  LevelBands<T> bands(shape, &coarse, &LevelScratch<T>::OfThread());
  bands.SetReference(reference, static_cast<T>(1 / step));
  bands.SetPredictor(PredictorSpec::Default());
  PredictionSample<T> sample;
  sample.shape = shape;
  sample.step = step;
  std::array<std::vector<T>, kBands> originals;
  std::array<std::vector<std::uint8_t>, kBands> valid;
  for (const std::size_t band : {1u, 2u, 4u}) {
    const int number = static_cast<int>(band);
    originals[band].resize(bands.Size(number));
    ExtractBand(samples, shape, number, originals[band].data());
    sample.originals[band] = originals[band].data();
    if (validity.empty()) continue;
    valid[band].resize(bands.Size(number));
    ExtractBand(validity.data(), shape, number, valid[band].data());
    sample.valid[band] = valid[band].data();
  }
  const double alone = PredictionCost(sample, &bands);
  const double worthwhile = kWorthwhile * alone + kChance * std::sqrt(static_cast<double>(Volume(shape)));
  for (int share = 1; share <= kWholeShare; ++share) {
    bands.SetShare(share);
    if (alone - PredictionCost(sample, &bands) > worthwhile) return true;
  }
  return false;
}

template bool ReferencePays<float>(const Index3&, const float*, Validity, const float*, double);
template bool ReferencePays<double>(const Index3&, const double*, Validity, const double*, double);
template PredictorSpec ChoosePredictor<float>(const PredictionSample<float>&, const PredictorSpec&,
                                              LevelBands<float>*);
template PredictorSpec ChoosePredictor<double>(const PredictionSample<double>&, const PredictorSpec&,
                                               LevelBands<double>*);
template double PredictionCost<float>(const PredictionSample<float>&, LevelBands<float>*);
template double PredictionCost<double>(const PredictionSample<double>&, LevelBands<double>*);

}  // namespace quarry::interpolate
