#include "quarry/dataset/points.h"

#include "quarry/dataset/reader.h"

namespace quarry {
namespace {

class PointSink final : public PatchSink {
 public:
  PointSink(DataType type, query::PointInterpolator* interpolator)
      : type_(type), interpolator_(interpolator) {}

  Status Patch(int, const query::PlannedPatch& patch, const PatchReader& reader) override {
    interpolator_->Add(patch, type_, reader.samples(), reader.validity());
    return Status::Ok();
  }

 private:
  const DataType type_;
  query::PointInterpolator* interpolator_;
};

}  // namespace

Result<query::PointsAnswer> ReadPoints(const Dataset& dataset, query::PointsPlan plan, DecodePool* pool,
                                       const std::function<bool()>& cancelled) {
  query::PointsAnswer answer = Describe(plan);
  if (plan.price_only) return answer;
  PointSink sink(plan.read.type, &plan.interpolator);
  QUARRY_RETURN_IF_ERROR(ExecutePatches(dataset, plan.read, pool, cancelled, &sink));
  answer.values = plan.interpolator.Interpolate();
  return answer;
}

}  // namespace quarry
