#include "quarry/dataset/points.h"

#include "quarry/dataset/read_samples.h"

namespace quarry {
namespace {

class PointSink final : public PatchSink {
 public:
  PointSink(const query::ReadPlan& plan, query::PointInterpolator* interpolator)
      : plan_(plan), interpolator_(interpolator) {}

  Status Patch(int, std::size_t index, const StoredPatch& decoded) override {
    interpolator_->Add(plan_.patches[index], plan_.type, decoded->samples(), decoded->validity());
    return Status::Ok();
  }

 private:
  const query::ReadPlan& plan_;
  query::PointInterpolator* interpolator_;
};

}  // namespace

Result<query::PointsAnswer> ReadPoints(const Dataset& dataset, query::PointsPlan plan, ReadEngine* engine,
                                       const Requester& requester, const query::PatchLocator* locator) {
  query::PointsAnswer answer = Describe(plan);
  if (plan.cost_only) return answer;
  QUARRY_RETURN_IF_ERROR(
      dataset.ForEachRun(plan.read, locator, requester.cancelled, [&](const query::ReadPlan& part) {
        PointSink sink(part, &plan.interpolator);
        return ExecutePatches(dataset, part, engine, requester, &sink);
      }));
  answer.values = plan.interpolator.Interpolate(engine->InTurnOf(requester));
  return answer;
}

}  // namespace quarry
