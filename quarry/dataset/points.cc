#include "quarry/dataset/points.h"

namespace quarry {
namespace {

class PointSink final : public PatchSink {
 public:
  PointSink(DataType type, std::uint64_t points, query::PointInterpolator* interpolator)
      : type_(type), points_(points), interpolator_(interpolator) {}

  Status Patch(int, const query::PlannedPatch& patch, const StoredPatch& decoded) override {
    interpolator_->Add(patch, type_, decoded->samples(), decoded->validity());
    return Status::Ok();
  }
  std::uint64_t memory() const override { return points_ * query::kBytesPerPoint; }

 private:
  const DataType type_;
  const std::uint64_t points_;
  query::PointInterpolator* interpolator_;
};

}  // namespace

Result<query::PointsAnswer> ReadPoints(const Dataset& dataset, query::PointsPlan plan, ReadEngine* engine,
                                       const std::function<bool()>& cancelled) {
  query::PointsAnswer answer = Describe(plan);
  if (plan.price_only) return answer;
  PointSink sink(plan.read.type, plan.read.price.reply_bytes / sizeof(double), &plan.interpolator);
  QUARRY_RETURN_IF_ERROR(ExecutePatches(dataset, plan.read, engine, cancelled, &sink));
  answer.values = plan.interpolator.Interpolate();
  return answer;
}

}  // namespace quarry
