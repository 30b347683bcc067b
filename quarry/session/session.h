#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "quarry/dataset/dataset.h"
#include "quarry/dataset/read_payload.h"
#include "quarry/dataset/read_samples.h"
#include "quarry/dataset/step_follower.h"
#include "quarry/points_question.h"
#include "quarry/statistics_question.h"

/// All questions to datasets, implemented once, for callers in this process and for servers behind any
/// transport.
namespace quarry {

/// An open dataset, and the locator of its patches.
struct OpenedDataset {
  std::string name;
  std::shared_ptr<const Dataset> dataset;
  std::shared_ptr<const query::PatchLocator> index;  ///< null: the subfiles' own tables
};

/// Opens datasets by the names that callers use. Thread-safe.
class DatasetSource {
 public:
  virtual ~DatasetSource() = default;
  /// The dataset as it is now. @errors kNotFound: no such dataset; kDataLoss: dataset.json is damaged
  virtual Result<std::shared_ptr<const OpenedDataset>> Find(const std::string& name) = 0;
  /// Whether Find returns another object once a dataset has other steps.
  virtual bool sees_changes() const { return false; }
};

/// Resources of a request, for the decision whether to admit it.
struct Demand {
  std::uint64_t payload = 0;              ///< [bytes] read from files
  std::uint64_t reply = 0;                ///< [bytes] delivered
  const query::ReadPlan* plan = nullptr;  ///< the only answer's; null if there are several, or no samples
  std::string instead;  ///< the end of "ask for ..."; empty: any request that the plan allows
};

/// The caller's control of a request while it is answered. One thread at a time.
class RequestControl {
 public:
  virtual ~RequestControl() = default;
  /// True ends the request with kCancelled. Asked between patches and between reads.
  virtual bool Cancelled() = 0;
  /// One number for all requests of a client, which share its part of memory and processors; 0: this process
  /// itself, which has no such part.
  virtual std::uint64_t client() const { return 0; }
  /// Asked once, when the request is planned and nothing is fetched yet. An error refuses it.
  virtual Status Admit(const Demand&) { return Status::Ok(); }
  /// Called on damage, before the samples shown instead.
  virtual void Damaged(const Status&) {}
  /// Called when an answer is complete, with the number of its patches.
  virtual void CountPatches(std::uint64_t) {}
  /// Takes over the memory that is counted for an answer in one piece, until the answer is complete.
  virtual void Hold(PatchStore::Memory) {}
};

/// The client of a request, until it is cancelled. @param control  outlives it
inline Requester RequesterOf(RequestControl* control) {
  return {[control] { return control->Cancelled(); }, control->client()};
}

/// How much of a request was answered, so that another call can continue from there.
struct ResumePoint {
  std::uint64_t fingerprint = 0;  ///< fingerprint of the plan, see query::Fingerprint; 0: the beginning
  std::size_t answers = 0;        ///< delivered
  query::Position position;       ///< in the answer after them
  std::size_t parts = 0;          ///< parts of the patch at `position`, delivered by its sink
};

/// Runs a computation on one of the threads that decode, in the share of the client, and waits for it.
/// @param level  coarse levels come before fine ones
/// @param work   [bytes] decoding so many takes about as long
/// @errors kCancelled: the request has ended before its turn; kResourceExhausted: no memory; those of `run`
using Compute = std::function<Status(int level, std::uint64_t work, const std::function<Status()>& run)>;

/// The beginning of an answer.
struct AnswerStart {
  const FieldDescription& field;
  const query::ReadPlan& plan;
  query::AnswerHeader header;
  const ResumePoint& from;  ///< complete; an earlier call delivered everything before it
  const ReadUsage& usage;   ///< reads for this answer so far; grows while it is delivered
  const query::Cost& cost;  ///< cost of all answers, those before the resume point too
  const Dataset& dataset;
  const Compute& compute;
};

/// Receives the answers to a read, on the thread that called ReadSession::Read.
class AnswerSink {
 public:
  virtual ~AnswerSink() = default;
  /// Sink of the answer: decoded samples, or stored payload. Used until the next Begin or End.
  using Taker = std::variant<BlockSink*, PayloadSink*>;
  virtual Result<Taker> Begin(const AnswerStart& start) = 0;
  /// Decides how an answer goes, when it is planned, possibly more than once; what follows holds for the last
  /// decision.
  /// @param room  [bytes] most that memory_of may be, as samples are delivered
  virtual void Choose(const Dataset& /*dataset*/, const query::ReadPlan& /*plan*/, std::uint64_t /*room*/) {}
  /// Whether the answer goes to a PayloadSink.
  virtual bool takes_payload() const { return false; }
  /// [bytes] that the taker may keep from one call to the next.
  virtual std::uint64_t memory() const { return 0; }
  /// All answers are complete.
  virtual Status End() { return Status::Ok(); }
  /// [bytes] that the taker of an answer may keep beside memory().
  virtual std::uint64_t memory_of(const query::ReadPlan& /*plan*/) const { return 0; }
  /// Whether the answer must come from its first patch on.
  virtual bool needs_first_patch() const { return false; }
};

/// Receives the headers of a plan, one for each answer.
class PlanSink {
 public:
  virtual ~PlanSink() = default;
  virtual Status Add(const Dataset& dataset, const query::ReadPlan& plan, query::AnswerHeader header) = 0;
  /// [bytes] that the sink may keep of so many answers.
  /// @param boxes  most that each may leave out
  virtual std::uint64_t memory(std::size_t /*answers*/, std::uint64_t /*boxes*/) const { return 0; }
};

/// Receives the steps of a dataset that is still being written.
class StepSink {
 public:
  virtual ~StepSink() = default;
  /// Called before each look at the dataset. An error ends the watch.
  virtual Status Continue() = 0;
  /// See RequestControl.
  virtual std::uint64_t client() const { return 0; }
  /// Waits until it is time to look again.
  virtual void Rest() = 0;
  using Steps = std::span<const std::shared_ptr<const StepSummary>>;
  /// @param dataset  has these steps and all before them
  /// @returns false when no more are wanted
  virtual Result<bool> Deliver(const std::shared_ptr<const Dataset>& dataset, Steps steps) = 0;
};

/// Answers requests within one budget of memory, which is pinned before it is allocated. Each request waits
/// for memory once for each answer, and holds none while it waits. Thread-safe.
class ReadSession {
 public:
  /// @param source  outlives the session
  /// @param store   the memory of all requests together
  /// @param threads  see ReadEngine
  /// @param run_patches  see query::Query: larger answers are planned run by run
  /// @param payload_part  see ReadEngine
  ReadSession(DatasetSource* source, std::shared_ptr<PatchStore> store, int threads,
              std::size_t run_patches = query::kRunPatches,
              std::uint64_t payload_part = ReadEngine::kPayloadPart)
      : source_(source), engine_(std::move(store), threads, payload_part), run_patches_(run_patches) {}

  PatchStore* store() const { return engine_.store.get(); }
  /// Threads that decode.
  int threads() const { return engine_.pool.threads(); }

  /// The answer to Read and its cost, without reading any payload: one header for each answer, at least one.
  /// @errors those of DatasetSource::Find, Dataset::Expand, Dataset::Plan and of the sink; kCancelled
  Status Plan(const std::string& dataset, const query::SeriesRequest& request, RequestControl* control,
              PlanSink* sink);

  /// Fetches, decodes and delivers.
  /// @param from  where to continue
  /// @errors besides: those of ExecuteRead; kInvalidArgument: no answer to this request has that resume
  /// point; kFailedPrecondition: the answer has changed
  Status Read(const std::string& dataset, const query::SeriesRequest& request, const ResumePoint& from,
              RequestControl* control, AnswerSink* sink);

  /// @errors besides: those of query::CheckStatistics and query::CheckHistogram
  Result<query::StatisticsAnswer> Statistics(const std::string& dataset,
                                             const query::StatisticsRequest& request,
                                             RequestControl* control);

  /// @param request  the caller has counted the memory of its points
  /// @errors those of Dataset::PlanPoints and ExecuteRead
  Result<query::PointsAnswer> ReadPoints(const std::string& dataset, const query::PointsRequest& request,
                                         RequestControl* control);

  /// Delivers every published step in ascending order, then each step when it is published, until the sink
  /// ends it.
  /// @param after  only steps with larger numbers
  /// @errors kNotFound: the dataset has gone, or another is in its place; kDataLoss: a step is damaged
  Status Watch(const std::string& dataset, std::optional<std::uint64_t> after, StepSink* sink);

 private:
  struct Series;
  struct Takes;

  Result<Series> Expand(const std::string& dataset, const query::SeriesRequest& request);
  /// Memory that is likely to be needed for a question.
  std::uint64_t Likely(const Dataset& dataset, const query::Query& query, const Takes& takes) const;
  Result<Pinned<query::ReadPlan>> PlanPinned(const OpenedDataset& opened, const query::ReadRequest& question,
                                             const Takes& takes, RequestControl* control);
  Result<query::Cost> CostOf(const Series& series, RequestControl* control);
  using Steps = std::vector<std::shared_ptr<const StepSummary>>;
  Result<Pinned<Steps>> PollPinned(StepFollower* follower, StepSink* sink, bool* later);
  void PlanInRuns(query::Query* query) const;
  Result<std::uint64_t> LargestPlanning(const Series& series, std::uint64_t* boxes) const;
  Result<ResumePoint> Settle(const Dataset& dataset, const ResumePoint& asked, const Takes& takes,
                             const Requester& requester, query::ReadPlan* plan) const;
  Status Deliver(const Series& series, std::size_t number, const query::ReadPlan& plan,
                 const ResumePoint& from, const query::Cost& cost, RequestControl* control, AnswerSink* sink);

  DatasetSource* const source_;
  ReadEngine engine_;
  const std::size_t run_patches_;
};

}  // namespace quarry
