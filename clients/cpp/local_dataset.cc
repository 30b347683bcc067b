#include <algorithm>
#include <chrono>
#include <filesystem>
#include <mutex>
#include <thread>

#include "clients/cpp/backends.h"
#include "clients/cpp/level_assembler.h"
#include "quarry/dataset/dataset.h"
#include "quarry/dataset/discovery.h"
#include "quarry/dataset/points.h"
#include "quarry/dataset/reader.h"
#include "quarry/dataset/statistics.h"
#include "quarry/dataset/step_follower.h"

namespace quarry::client::internal {
namespace {

/// Of everything that is decoded or read from one dataset: enough for whole previews to stay there, little next
/// to what the caller takes for the answers, and never too little for its patches.
std::uint64_t MemoryFor(const DatasetDescription& dataset) {
  constexpr std::uint64_t kUsual = std::uint64_t{1} << 30;
  constexpr std::uint64_t kBytesPerSample = 128;  // of a masked float64 patch while it is decoded, twice
  return std::max(kUsual, kBytesPerSample * static_cast<std::uint64_t>(Volume(dataset.patch)));
}

/// Counts what has been read as levels come in, and hands blocks to the assembler.
class AssemblingSink final : public BlockSink {
 public:
  AssemblingSink(LevelAssembler* assembler, const query::Price& price) : assembler_(assembler) {
    cost_.price = price;
  }

  Status Deliver(const SampleBlock& block) override {
    const bool damaged = block.shown_level != block.level;
    return assembler_->AddBlock(block.level, block.extent, block.samples,
                                damaged ? std::optional(block.shown_level) : std::nullopt);
  }
  Status LevelEnd(const query::LevelExtent& level) override {
    cost_.bytes_received += level.bytes;
    return assembler_->EndLevel(level.level, cost_);
  }

 private:
  LevelAssembler* assembler_;
  ReadCost cost_;
};

class LocalDataset final : public Dataset {
 public:
  LocalDataset(std::shared_ptr<const quarry::Dataset> dataset, const Options& options)
      : description_(dataset->description()),
        dataset_(std::move(dataset)),
        options_(options),
        engine_(MemoryFor(dataset_->description()), options.threads) {}

  const DatasetDescription& description() const override { return description_; }

  Result<std::vector<StepDescription>> Steps() const override {
    const auto dataset = Current();
    std::vector<StepDescription> steps;
    for (const std::uint64_t number : dataset->steps()) {
      QUARRY_ASSIGN_OR_RETURN(const auto step, dataset->Step(number));
      steps.push_back(*step);
    }
    return steps;
  }

  Result<std::vector<query::AnswerHeader>> PlanSeries(const query::SeriesRequest& request) const override {
    const auto dataset = Current();
    QUARRY_ASSIGN_OR_RETURN(const auto questions, dataset->Expand(request));
    std::vector<query::AnswerHeader> answers;
    for (const query::ReadRequest& question : questions) {
      QUARRY_ASSIGN_OR_RETURN(const query::ReadPlan plan, dataset->Plan(question));
      answers.push_back(query::HeaderOf(plan));
      answers.back().number = answers.size() - 1;
      answers.back().count = questions.size();
    }
    return answers;
  }

  Status ReadSeries(const query::SeriesRequest& request, const LevelCallback& on_level) const override {
    const auto dataset = Current();
    QUARRY_ASSIGN_OR_RETURN(const auto questions, dataset->Expand(request));
    for (const query::ReadRequest& question : questions)
      QUARRY_RETURN_IF_ERROR(ReadOne(*dataset, question, on_level));
    return Status::Ok();
  }

  Result<query::StatisticsAnswer> Statistics(const query::StatisticsRequest& request) const override {
    const auto dataset = Current();
    QUARRY_RETURN_IF_ERROR(query::CheckStatistics(request));
    QUARRY_ASSIGN_OR_RETURN(const query::ReadPlan plan, dataset->Plan(query::SamplesOf(request)));
    QUARRY_ASSIGN_OR_RETURN(query::Statistics statistics,
                            ComputeStatistics(*dataset, plan, request, &engine_, Cancelled()));
    return query::StatisticsAnswer{query::StatisticsHeader(plan), std::move(statistics)};
  }

  Status WatchSteps(const WatchRequest& request, const StepCallback& on_step) const override {
    constexpr auto kLookEvery = std::chrono::milliseconds(200);
    StepFollower follower(Current()->root(), request.after);
    while (true) {
      QUARRY_ASSIGN_OR_RETURN(const auto steps, follower.Poll());
      // Before anybody is told: who hears of a step may ask this object for it.
      if (!steps.empty()) Replace(follower.dataset());
      for (const auto& step : steps) {
        if (!on_step(*step)) return Status::Ok();
      }
      if (options_.cancelled && options_.cancelled())
        return {StatusCode::kCancelled, "the watching was cancelled"};
      if (steps.empty()) std::this_thread::sleep_for(kLookEvery);
    }
  }

 protected:
  Result<query::PointsAnswer> ReadSomePoints(const query::PointsRequest& request) const override {
    const auto dataset = Current();
    QUARRY_ASSIGN_OR_RETURN(query::PointsPlan plan, dataset->PlanPoints(request));
    return quarry::ReadPoints(*dataset, std::move(plan), &engine_, Cancelled());
  }

 private:
  Status ReadOne(const quarry::Dataset& dataset, const query::ReadRequest& question,
                 const LevelCallback& on_level) const {
    QUARRY_ASSIGN_OR_RETURN(const query::ReadPlan plan, dataset.Plan(question));
    // Of this dataset: one that was watched may have more fields than when it was opened.
    const FieldDescription& field = dataset.description().fields[plan.query.field_number];
    LevelAssembler assembler(query::HeaderOf(plan), field.no_sample_bits(), on_level);
    AssemblingSink sink(&assembler, plan.price);
    QUARRY_RETURN_IF_ERROR(ExecuteRead(dataset, plan, &engine_, Cancelled(), &sink));
    return assembler.CheckComplete();
  }

  std::shared_ptr<const quarry::Dataset> Current() const {
    const std::lock_guard lock(mutex_);
    return dataset_;
  }
  void Replace(std::shared_ptr<const quarry::Dataset> dataset) const {
    const std::lock_guard lock(mutex_);
    dataset_ = std::move(dataset);
  }
  std::function<bool()> Cancelled() const {
    return [this] { return options_.cancelled && options_.cancelled(); };
  }

  const DatasetDescription description_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const quarry::Dataset> dataset_;  ///< as of Open, or with the steps that were watched
  const Options options_;
  mutable ReadEngine engine_;
};

}  // namespace

Result<std::unique_ptr<Dataset>> OpenLocal(const std::string& path, const Options& options) {
  QUARRY_ASSIGN_OR_RETURN(auto dataset, quarry::Dataset::Open(path));
  return std::unique_ptr<Dataset>(std::make_unique<LocalDataset>(std::move(dataset), options));
}

Result<std::vector<DatasetSummary>> ListLocal(const std::string& path) {
  QUARRY_ASSIGN_OR_RETURN(const std::vector<FoundDataset> found, FindDatasets(path));
  std::vector<DatasetSummary> summaries;
  for (const FoundDataset& entry : found) {
    const auto dataset = quarry::Dataset::Open(entry.path);
    if (!dataset.ok()) {  // listed by name: asking for it says what is wrong
      summaries.push_back({entry.name, {}, 0, 0});
      continue;
    }
    const DatasetDescription& description = (*dataset)->description();
    summaries.push_back(
        {entry.name, description.grid, (*dataset)->steps().size(), description.fields.size()});
  }
  return summaries;
}

}  // namespace quarry::client::internal
