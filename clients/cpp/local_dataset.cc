#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

#include "clients/cpp/backends.h"
#include "clients/cpp/level_assembler.h"
#include "quarry/dataset/dataset.h"
#include "quarry/dataset/discovery.h"
#include "quarry/dataset/reader.h"
#include "quarry/dataset/step_follower.h"

namespace quarry::client::internal {
namespace {

query::AnswerHeader HeaderOf(const query::ReadPlan& plan) {
  return {plan.type, plan.query.step, plan.levels, plan.price};
}

/// Counts what has been read as levels come in, and hands blocks to the assembler.
class AssemblingSink final : public BlockSink {
 public:
  AssemblingSink(LevelAssembler* assembler, const query::Price& price) : assembler_(assembler) {
    cost_.price = price;
  }

  Status Block(int level, const Box& extent, ByteSpan samples) override {
    return assembler_->AddBlock(level, extent, samples);
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
      : dataset_(std::move(dataset)), options_(options), pool_(options.threads) {}

  const DatasetDescription& description() const override { return dataset_->description(); }

  Result<std::vector<StepDescription>> Steps() const override {
    std::vector<StepDescription> steps;
    for (const std::uint64_t number : dataset_->steps()) {
      QUARRY_ASSIGN_OR_RETURN(const auto step, dataset_->Step(number));
      steps.push_back(*step);
    }
    return steps;
  }

  Result<query::AnswerHeader> PlanRead(const query::ReadRequest& request) const override {
    QUARRY_ASSIGN_OR_RETURN(const query::ReadPlan plan, dataset_->Plan(request));
    return HeaderOf(plan);
  }

  Status ReadLevels(const query::ReadRequest& request, const LevelCallback& on_level) const override {
    QUARRY_ASSIGN_OR_RETURN(const query::ReadPlan plan, dataset_->Plan(request));
    LevelAssembler assembler(HeaderOf(plan), on_level);
    AssemblingSink sink(&assembler, plan.price);
    const auto cancelled = [this] { return options_.cancelled && options_.cancelled(); };
    QUARRY_RETURN_IF_ERROR(ExecuteRead(*dataset_, plan, &pool_, cancelled, &sink));
    return assembler.CheckComplete();
  }

  Status WatchSteps(std::optional<std::uint64_t> after, const StepCallback& on_step) const override {
    constexpr auto kLookEvery = std::chrono::milliseconds(200);
    StepFollower follower(dataset_->root(), after);
    while (true) {
      QUARRY_ASSIGN_OR_RETURN(const auto steps, follower.Poll());
      for (const auto& step : steps) {
        if (!on_step(*step)) return Status::Ok();
      }
      if (options_.cancelled && options_.cancelled()) return {StatusCode::kCancelled, "the watching was cancelled"};
      std::this_thread::sleep_for(kLookEvery);
    }
  }

 private:
  std::shared_ptr<const quarry::Dataset> dataset_;
  const Options options_;
  mutable DecodePool pool_;
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
