#include "quarry/dataset/statistics.h"

#include <optional>

#include "quarry/query/patch_part.h"

namespace quarry {
namespace {

class StatisticsSink final : public PatchSink {
 public:
  StatisticsSink(const query::ReadPlan& plan, const query::StatisticsRequest& request)
      : plan_(plan), request_(request) {}

  Status Patch(int level, std::size_t index, const StoredPatch& decoded) override {
    const query::PlannedPatch& patch = plan_.patches[index];
    const query::PatchPart part = query::PartOf(plan_.query, level, patch.samples);
    if (part.whole()) {
      Accumulator().Add(patch, decoded->samples(), decoded->validity());
      return Status::Ok();
    }
    const Bytes samples = query::CutOut(part, decoded->samples(), SizeOf(plan_.type));
    Bytes validity;  // stays empty where every sample is valid
    if (!decoded->validity().empty()) validity = query::CutOut(part, std::as_bytes(decoded->validity()), 1);
    Accumulator().Add(patch, samples,
                      {reinterpret_cast<const std::uint8_t*>(validity.data()), validity.size()});
    return Status::Ok();
  }

  std::uint64_t memory() const override { return query::StatisticsAccumulator::kMemory; }

  query::Statistics Finish() { return Accumulator().Finish(); }

 private:
  /// Made when the read has been let in: many may wait for that.
  query::StatisticsAccumulator& Accumulator() {
    if (!accumulator_) accumulator_.emplace(plan_, request_);
    return *accumulator_;
  }

  const query::ReadPlan& plan_;
  const query::StatisticsRequest& request_;
  std::optional<query::StatisticsAccumulator> accumulator_;
};

}  // namespace

Result<query::Statistics> ComputeStatistics(const Dataset& dataset, const query::ReadPlan& plan,
                                            const query::StatisticsRequest& request, ReadEngine* engine,
                                            const std::function<bool()>& cancelled) {
  QUARRY_RETURN_IF_ERROR(query::CheckStatistics(request));
  StatisticsSink sink(plan, request);
  QUARRY_RETURN_IF_ERROR(ExecutePatches(dataset, plan, engine, cancelled, &sink));
  return sink.Finish();
}

}  // namespace quarry
