#include "quarry/query/tiles.h"

#include <algorithm>
#include <limits>

#include "quarry/codec/tile.h"

namespace quarry::query {
namespace {

/// The largest relative error of rounding to float64.
constexpr double kRounding = std::numeric_limits<double>::epsilon() / 2;

/// The part of the wanted error that the stored one leaves. Errors are differences of samples, which are
/// rounded, as their sum is.
double RoomFor(double wanted, double stored) { return std::max(0.0, wanted * (1 - 8 * kRounding) - stored); }

double SumOf(double stored, double coding) {
  return coding > 0 ? (stored + coding) * (1 + 4 * kRounding) : stored;
}

double CeilDivide(std::int64_t value, std::int64_t by) { return static_cast<double>((value + by - 1) / by); }

}  // namespace

double ErrorOfSamples(const ReadPlan& plan, int layer) {
  return plan.totals.layer_errors[static_cast<std::size_t>(layer)];
}

std::vector<CodedError> CodedErrors(const ReadPlan& plan, const Recode& recode) {
  const auto* const within = std::get_if<WithinError>(&plan.query.target);
  std::vector<CodedError> errors;
  for (const LevelExtent& level : plan.levels) {
    double allowed = recode.error;
    if (within != nullptr) {
      allowed = RoomFor(within->error, plan.levels.back().max_error);
    } else if (recode.factor > 1) {
      allowed = (recode.factor - 1) * std::min(ErrorOfSamples(plan, level.layer), level.max_error);
    }
    const double coding = TileError(plan.type, plan.coder, allowed);
    errors.push_back({SumOf(level.max_error, coding), coding});
  }
  return errors;
}

TileCut::TileCut(const ReadPlan& plan, const Index3& patch, const LevelExtent& level)
    : box_(plan.query.box), spacing_(level.spacing), side_(patch) {
  const auto covers = [&](const Index3& side) {
    bool all = true;
    for (std::size_t a = 0; a < 3; ++a) all = all && side[a] >= box_.end[a];
    return all;
  };
  // In float64: no product overflows.
  const auto samples_of = [&](const Index3& side) {
    double samples = 1;
    for (std::size_t a = 0; a < 3; ++a)
      samples *= std::min(CeilDivide(side[a], spacing_[a]), static_cast<double>(level.extent.shape()[a]));
    return samples;
  };
  while (plan.left_out.empty() && !covers(side_)) {
    const Index3 next{2 * side_[0], 2 * side_[1], 2 * side_[2]};
    if (samples_of(next) > static_cast<double>(kMaxTileSamples)) break;
    side_ = next;
  }
}

Box TileCut::TileOf(const PlannedPatch& patch) const {
  Box cube;
  for (std::size_t a = 0; a < 3; ++a) {
    cube.begin[a] = patch.samples.begin[a] / side_[a] * side_[a];
    cube.end[a] = cube.begin[a] + side_[a];
  }
  return SpacedBox(Intersect(cube, box_), spacing_);
}

}  // namespace quarry::query
