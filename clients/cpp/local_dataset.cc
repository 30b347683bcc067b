#include <algorithm>
#include <chrono>
#include <mutex>
#include <optional>

#include "clients/cpp/level_assembler.h"
#include "clients/cpp/transport.h"
#include "quarry/dataset/discovery.h"
#include "quarry/pack/packed_steps.h"
#include "quarry/query/plan_memory.h"
#include "quarry/remote/open_url.h"
#include "quarry/session/session.h"
#include "quarry/storage/stamp_watch.h"

namespace quarry::client::internal {
namespace {

/// Memory for everything decoded or read from one dataset: enough to keep whole previews, little compared
/// with the caller's answers, and never too little for its patches and a plan of any question.
/// @param wanted  0: the usual
std::uint64_t MemoryFor(const DatasetDescription& dataset, std::uint64_t wanted) {
  constexpr std::uint64_t kUsual = std::uint64_t{1} << 30;
  // A masked float64 patch while it is decoded, twice. Its layers are held together.
  constexpr std::uint64_t kBytesPerSample = 128;
  query::Query all;
  all.mask = 1;
  all.run_patches = query::kRunPatches;
  all.focus.emplace();
  all.values.emplace();
  std::uint64_t planning = 0;
  std::uint64_t samples = 1;
  for (; all.field_number < dataset.fields.size(); ++all.field_number) {
    const GridDescription& grid = dataset.GridOf(all.field_number);
    all.box = grid.domain();
    planning = std::max(planning, query::PlanningMemory(dataset, all));
    const auto layers = static_cast<std::uint64_t>(dataset.fields[all.field_number].layers());
    const auto patch = static_cast<std::uint64_t>(Volume(LargestPatchShape(grid.dims, grid.patch)));
    samples = std::max(samples, layers * patch);
  }
  // A request has three eighths of it, for its plan and what it delivers.
  return std::max(wanted == 0 ? kUsual : wanted, kBytesPerSample * samples + 4 * planning);
}

/// The one dataset of a directory, as of Open, or with the steps that were published and noticed since.
class OneDataset final : public DatasetSource {
 public:
  /// @param steps  stamp of the steps, from before the dataset was opened; empty: not known
  OneDataset(std::shared_ptr<const quarry::Dataset> dataset, const Stamp& steps) {
    if (!steps.text.empty()) {
      (void)watch_.Holds(steps, dataset->root().storage->stamp_tick());
      watch_.Looked();
    }
    identity_ = dataset->identity();
    Replace(std::move(dataset));
  }

  Result<std::shared_ptr<const OpenedDataset>> Find(const std::string&) override { return Current(); }
  std::shared_ptr<const OpenedDataset> Current() const {
    const std::lock_guard lock(mutex_);
    return opened_;
  }
  void Replace(std::shared_ptr<const quarry::Dataset> dataset) {
    auto opened = std::make_shared<OpenedDataset>();
    opened->name = dataset->root().path;
    opened->dataset = std::move(dataset);
    const std::lock_guard lock(mutex_);
    opened_ = std::move(opened);
  }
  /// Refreshes the list of steps. Cheap if there are none.
  /// @errors kNotFound: the dataset has gone, or another is in its place
  Status Refresh() {
    const std::lock_guard lock(refreshing_);
    const std::shared_ptr<const OpenedDataset> opened = Current();
    const Location root = opened->dataset->root();
    const Stamp steps = StampOf(quarry::Dataset::StepsAt(root, opened->dataset.get()));
    if (watch_.Holds(steps, root.storage->stamp_tick())) return Status::Ok();
    // A web server tells of files alone.
    if (root.storage->has_folders()) QUARRY_RETURN_IF_ERROR(CheckSameFolder(root));
    QUARRY_ASSIGN_OR_RETURN(auto dataset, quarry::Dataset::Open(root));
    Replace(std::move(dataset));
    watch_.Looked();
    return Status::Ok();
  }

 private:
  Status CheckSameFolder(const Location& root) const {
    const Result<ObjectInfo> info = root.Stat();
    if (info.ok() && info->identity == identity_) return Status::Ok();
    return NotFound("the dataset \"{}\" has gone, or another is in its place; open it again", root);
  }

  mutable std::mutex mutex_;
  std::shared_ptr<const OpenedDataset> opened_;
  std::string identity_;  ///< identity of the directory
  std::mutex refreshing_;
  StampWatch watch_;  ///< watches the steps
};

class LocalControl final : public RequestControl {
 public:
  explicit LocalControl(const CallOptions& call) : call_(call) {}
  bool Cancelled() override { return call_.cancel.cancelled(); }

 private:
  const CallOptions& call_;
};

/// Assembles the blocks of an answer.
class AssemblingSink final : public BlockSink {
 public:
  AssemblingSink(LevelAssembler* assembler, const query::Cost& cost, const ReadUsage& usage)
      : assembler_(assembler), cost_(cost), usage_(usage) {}

  Result<std::optional<SampleArray>> ArrayFor(const query::LevelExtent& level) override {
    QUARRY_ASSIGN_OR_RETURN(const SampleArray array, assembler_->Array(level.level));
    return std::optional(array);
  }
  Status Deliver(const SampleBlock& block) override {
    return InternalError("a block of level {} did not go to the array of the level", block.level);
  }
  Status Filled(int level, const Box& extent, const query::LevelChoice& shown) override {
    return assembler_->AddBlock(level, extent, shown).status();
  }
  Status LevelEnd(const query::LevelExtent& level) override {
    return assembler_->EndLevel(level.level, {cost_, usage_.payload_bytes});
  }

 private:
  LevelAssembler* const assembler_;
  const query::Cost cost_;
  const ReadUsage& usage_;
};

/// Hands each answer to the caller, level by level.
class AssembledAnswers final : public AnswerSink {
 public:
  /// @param opened  the dataset as of Open
  AssembledAnswers(std::shared_ptr<const DatasetDescription> opened, const LevelCallback& on_level,
                   const CallOptions& call)
      : opened_(std::move(opened)), on_level_(on_level), call_(call) {}

  Result<Taker> Begin(const AnswerStart& start) override {
    QUARRY_RETURN_IF_ERROR(CheckComplete());
    assembler_.emplace(start.header, Described(start.field), on_level_, call_.buffer);
    sink_.emplace(&*assembler_, start.header.cost, start.usage);
    return Taker(&*sink_);
  }
  Status End() override { return CheckComplete(); }

 private:
  Status CheckComplete() const { return assembler_ ? assembler_->CheckComplete() : Status::Ok(); }

  /// The description of a field, which answers share. They must not keep the dataset, which has memory.
  std::shared_ptr<const FieldDescription> Described(const FieldDescription& field) const {
    const std::optional<std::size_t> number = opened_->FindField(field.name);
    if (!number) return std::make_shared<const FieldDescription>(field);  // added since
    return {opened_, &opened_->fields[*number]};
  }

  const std::shared_ptr<const DatasetDescription> opened_;
  const LevelCallback& on_level_;
  const CallOptions& call_;
  std::optional<LevelAssembler> assembler_;
  std::optional<AssemblingSink> sink_;
};

class CollectedHeaders final : public PlanSink {
 public:
  Status Add(const quarry::Dataset&, const query::ReadPlan&, query::AnswerHeader header) override {
    headers.push_back(std::move(header));
    return Status::Ok();
  }
  std::vector<query::AnswerHeader> headers;
};

/// Calls back for each step.
class CalledSteps final : public StepSink {
 public:
  CalledSteps(OneDataset* source, const StepCallback& on_step, const CallOptions& call)
      : source_(source), on_step_(on_step), call_(call) {}

  Status Continue() override {
    if (call_.cancel.cancelled()) return {StatusCode::kCancelled, "the watching was cancelled"};
    return Status::Ok();
  }
  void Rest() override {
    constexpr auto kLookEvery = std::chrono::milliseconds(200);
    (void)Pause(kLookEvery, call_.cancel);  // Continue sees what was cancelled
  }
  Result<bool> Deliver(const std::shared_ptr<const quarry::Dataset>& dataset, Steps steps) override {
    // Before the callback: the caller may ask this object for the step.
    source_->Replace(dataset);
    for (const auto& step : steps) {
      QUARRY_RETURN_IF_ERROR(Continue());
      if (!on_step_(*step)) return false;
    }
    return true;
  }

 private:
  OneDataset* const source_;
  const StepCallback& on_step_;
  const CallOptions& call_;
};

class LocalDataset final : public Dataset {
 public:
  LocalDataset(std::shared_ptr<const quarry::Dataset> dataset, const Stamp& steps, const Options& options)
      : description_(std::make_shared<const DatasetDescription>(dataset->description())),
        source_(std::move(dataset), steps),
        session_(&source_, std::make_shared<PatchStore>(MemoryFor(*description_, options.memory)),
                 options.threads) {}

  const DatasetDescription& description() const override { return *description_; }

  Result<std::vector<std::uint64_t>> StepNumbers(const CallOptions&) const override {
    QUARRY_ASSIGN_OR_RETURN(const auto dataset, Newest());
    return dataset->steps();
  }

  Result<StepDescription> Step(std::uint64_t number, const CallOptions&) const override {
    QUARRY_ASSIGN_OR_RETURN(const auto dataset, Newest());
    QUARRY_ASSIGN_OR_RETURN(const auto step, dataset->Step(number));
    return *step;
  }

  Result<bool> HasField(std::uint64_t number, const std::string& field, const CallOptions&) const override {
    QUARRY_ASSIGN_OR_RETURN(const auto dataset, Newest());
    QUARRY_ASSIGN_OR_RETURN(const auto found, dataset->FieldOf(number, field));
    return found != nullptr;
  }

  Result<std::vector<StepSummary>> Steps(const CallOptions& call) const override {
    QUARRY_ASSIGN_OR_RETURN(const auto dataset, Newest());
    std::vector<StepSummary> steps;
    steps.reserve(dataset->steps().size());
    QUARRY_RETURN_IF_ERROR(dataset->ForEachSummary(dataset->steps(), [&](StepSummary step) {
      if (call.cancel.cancelled()) return Status(StatusCode::kCancelled, "the call was cancelled");
      steps.push_back(std::move(step));
      return Status::Ok();
    }));
    return steps;
  }

  Result<std::vector<query::AnswerHeader>> PlanSeries(const query::SeriesRequest& request,
                                                      const CallOptions& call) const override {
    LocalControl control(call);
    CollectedHeaders sink;
    QUARRY_RETURN_IF_ERROR(session_.Plan(kOnly, request, &control, &sink));
    return std::move(sink.headers);
  }

  Status ReadSeries(const query::SeriesRequest& request, const LevelCallback& on_level,
                    const CallOptions& call) const override {
    LocalControl control(call);
    AssembledAnswers sink(description_, on_level, call);
    return session_.Read(kOnly, request, {}, &control, &sink);
  }

  Result<query::StatisticsAnswer> Statistics(const query::StatisticsRequest& request,
                                             const CallOptions& call) const override {
    LocalControl control(call);
    return session_.Statistics(kOnly, request, &control);
  }

  Status WatchSteps(const WatchRequest& request, const StepCallback& on_step,
                    const CallOptions& call) const override {
    CalledSteps sink(&source_, on_step, call);
    return session_.Watch(kOnly, request.after, &sink);
  }

 protected:
  Result<query::PointsAnswer> ReadSomePoints(const query::PointsRequest& request,
                                             const CallOptions& call) const override {
    LocalControl control(call);
    return session_.ReadPoints(kOnly, request, &control);
  }

 private:
  /// The dataset with all steps that are published by now.
  Result<std::shared_ptr<const quarry::Dataset>> Newest() const {
    QUARRY_RETURN_IF_ERROR(source_.Refresh());
    return source_.Current()->dataset;
  }

  /// The source has one dataset under any name.
  static constexpr const char* kOnly = "";

  const std::shared_ptr<const DatasetDescription> description_;
  mutable OneDataset source_;
  mutable ReadSession session_;
};

/// A damaged dataset is listed by name: opening it gives the reason.
DatasetSummary SummaryOf(const FoundDataset& found) {
  DatasetSummary summary{.name = found.name};
  if (const auto dataset = quarry::Dataset::Open(WithPacks(found.location, PackedSteps::State::kRests));
      dataset.ok()) {
    summary.grids = (*dataset)->description().grids;
    summary.steps = (*dataset)->steps().size();
    summary.fields = (*dataset)->description().fields.size();
  }
  return summary;
}

Result<Location> LocationFor(const std::string& path, const Options& options) {
  return remote::LocationOf(path, {options.allow_http, {options.cache, options.cache_size}});
}

}  // namespace

Result<std::unique_ptr<Dataset>> OpenLocal(const std::string& path, const Options& options) {
  QUARRY_ASSIGN_OR_RETURN(const Location location, LocationFor(path, options));
  // Where each look costs, the first list is trusted for a while instead.
  const bool looks = location.storage->trust() == std::chrono::milliseconds(0);
  const Stamp steps = looks ? StampOf(quarry::Dataset::StepsAt(location, nullptr)) : Stamp();
  QUARRY_ASSIGN_OR_RETURN(auto dataset, quarry::Dataset::Open(location));
  return std::unique_ptr<Dataset>(std::make_unique<LocalDataset>(std::move(dataset), steps, options));
}

Result<std::vector<DatasetSummary>> ListLocal(const std::string& path, const Options& options) {
  QUARRY_ASSIGN_OR_RETURN(const Location location, LocationFor(path, options));
  if (!location.storage->has_folders())
    return InvalidArgument("\"{}\" cannot be listed: a web server has no lists of files; name one dataset",
                           location);
  QUARRY_ASSIGN_OR_RETURN(const std::vector<FoundDataset> found, FindDatasets(location));
  std::vector<Location> places;
  for (const FoundDataset& entry : found) places.push_back(entry.location);
  Patience patience;
  QUARRY_ASSIGN_OR_RETURN(
      std::vector<std::optional<DatasetSummary>> seen,
      LookAtEach<DatasetSummary>(
          std::move(places),
          [found](std::size_t number, const LookEnded&) { return SummaryOf(found[number]); }, &patience));
  std::vector<DatasetSummary> summaries;
  for (std::size_t i = 0; i < found.size(); ++i)
    summaries.push_back(seen[i] ? *std::move(seen[i]) : DatasetSummary{.name = found[i].name, .late = true});
  return summaries;
}

}  // namespace quarry::client::internal
