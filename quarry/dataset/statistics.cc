#include "quarry/dataset/statistics.h"

#include "quarry/dataset/read_samples.h"
#include "quarry/query/patch_part.h"
#include "quarry/query/question_rules.h"

namespace quarry {
namespace {

/// Samples of at most this many bytes take less time than waiting for a turn.
constexpr std::size_t kAtOnceBytes = 16 << 10;

class StatisticsSink final : public PatchSink {
 public:
  StatisticsSink(const query::ReadPlan& plan, const query::StatisticsRequest& request,
                 const query::ForEachPart& parts, ReadEngine* engine, std::uint64_t client)
      : part_(&plan), accumulator_(plan, request, parts), pool_(&engine->pool), client_(client) {}

  /// @param part  of the plan, whose patches come next
  void BeginPart(const query::ReadPlan& part) { part_ = &part; }

  Status Patch(int level, std::size_t index, const StoredPatch& decoded) override {
    const std::size_t bytes = decoded->samples().size();
    if (bytes <= kAtOnceBytes) {
      Add(level, index, decoded);
    } else {
      pool_->InTurn(client_, bytes, [&] { Add(level, index, decoded); });
    }
    return Status::Ok();
  }

  query::Statistics Finish() { return accumulator_.Finish(); }

 private:
  void Add(int level, std::size_t index, const StoredPatch& decoded) {
    const query::PlannedPatch& patch = part_->patches[index];
    const query::PatchPart part = query::PartOf(part_->query, level, patch.samples);
    if (part.whole()) {
      return accumulator_.Add(patch, decoded->samples(), decoded->validity());
    }
    const Bytes samples = query::CutOut(part, decoded->samples(), SizeOf(part_->type));
    Bytes validity;  // stays empty if every sample is valid
    if (!decoded->validity().empty()) validity = query::CutOut(part, std::as_bytes(decoded->validity()), 1);
    accumulator_.Add(patch, samples,
                     {reinterpret_cast<const std::uint8_t*>(validity.data()), validity.size()});
  }

  const query::ReadPlan* part_;
  query::StatisticsAccumulator accumulator_;
  DecodePool* const pool_;
  const std::uint64_t client_;
};

}  // namespace

Result<query::Statistics> ComputeStatistics(const Dataset& dataset, const query::ReadPlan& plan,
                                            const query::StatisticsRequest& request, ReadEngine* engine,
                                            const Requester& requester, const query::PatchLocator* locator) {
  QUARRY_RETURN_IF_ERROR(query::CheckStatistics(request));
  Status failed;  // the first error of a walk over the runs, which ends it
  const query::ForEachPart parts = [&](const std::function<void(const query::ReadPlan&)>& look) {
    if (!failed.ok()) return;
    failed = dataset.ForEachRun(plan, locator, requester.cancelled, [&](const query::ReadPlan& part) {
      look(part);
      return Status::Ok();
    });
  };
  const Status checked = query::CheckHistogram(plan, request, parts);
  QUARRY_RETURN_IF_ERROR(failed);
  QUARRY_RETURN_IF_ERROR(checked);
  StatisticsSink sink(plan, request, parts, engine, requester.client);
  QUARRY_RETURN_IF_ERROR(failed);
  QUARRY_RETURN_IF_ERROR(
      dataset.ForEachRun(plan, locator, requester.cancelled, [&](const query::ReadPlan& part) {
        sink.BeginPart(part);
        return ExecutePatches(dataset, part, engine, requester, &sink);
      }));
  return sink.Finish();
}

}  // namespace quarry
