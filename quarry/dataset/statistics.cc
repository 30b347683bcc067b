#include "quarry/dataset/statistics.h"

#include "quarry/query/patch_part.h"

namespace quarry {
namespace {

class StatisticsSink final : public PatchSink {
 public:
  StatisticsSink(const query::ReadPlan& plan, const query::StatisticsRequest& request)
      : plan_(plan), accumulator_(plan, request) {}

  Status Patch(int level, std::size_t index, const StoredPatch& decoded) override {
    const query::PlannedPatch& patch = plan_.patches[index];
    const query::PatchPart part = query::PartOf(plan_.query, level, patch.samples);
    if (part.whole()) {
      accumulator_.Add(patch, decoded->samples(), decoded->validity());
      return Status::Ok();
    }
    const Bytes samples = query::CutOut(part, decoded->samples(), SizeOf(plan_.type));
    Bytes validity;  // stays empty if every sample is valid
    if (!decoded->validity().empty()) validity = query::CutOut(part, std::as_bytes(decoded->validity()), 1);
    accumulator_.Add(patch, samples,
                     {reinterpret_cast<const std::uint8_t*>(validity.data()), validity.size()});
    return Status::Ok();
  }

  query::Statistics Finish() { return accumulator_.Finish(); }

 private:
  const query::ReadPlan& plan_;
  query::StatisticsAccumulator accumulator_;
};

}  // namespace

Result<query::Statistics> ComputeStatistics(const Dataset& dataset, const query::ReadPlan& plan,
                                            const query::StatisticsRequest& request, ReadEngine* engine,
                                            const Requester& requester) {
  QUARRY_RETURN_IF_ERROR(query::CheckStatistics(request));
  StatisticsSink sink(plan, request);
  QUARRY_RETURN_IF_ERROR(ExecutePatches(dataset, plan, engine, requester, &sink));
  return sink.Finish();
}

}  // namespace quarry
