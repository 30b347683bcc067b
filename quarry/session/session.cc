#include "quarry/session/session.h"

#include <algorithm>
#include <functional>
#include <future>
#include <new>
#include <utility>

#include "quarry/dataset/patch_keys.h"
#include "quarry/dataset/points.h"
#include "quarry/dataset/statistics.h"
#include "quarry/query/plan_memory.h"
#include "quarry/query/question_rules.h"

namespace quarry {

/// The answers of a request, and the dataset kept open for them. Questions and plans are made one by one.
struct ReadSession::Series {
  std::shared_ptr<const OpenedDataset> opened;
  query::ReadRequest read;
  std::vector<Dataset::Subject> subjects;  ///< none: `read` is the only question

  std::size_t size() const { return subjects.empty() ? 1 : subjects.size(); }
  query::ReadRequest Question(std::size_t number) const {
    query::ReadRequest question = read;
    if (subjects.empty()) return question;
    question.field = opened->dataset->description().fields[subjects[number].field_number].name;
    question.step = subjects[number].step;
    return question;
  }
};

/// Memory of an answer beside its plan.
struct ReadSession::Takes {
  bool delivers = false;
  std::uint64_t besides = 0;   ///< [bytes] of what receives it
  AnswerSink* sink = nullptr;  ///< receives the answer to a read
};

namespace {

Status NotOurPosition() {
  return InvalidArgument("the resume position does not belong to an answer to this query; leave it out");
}

Status NotTheSame() {
  return FailedPrecondition(
      "the query or its data have changed since the answer began; ask again from the start");
}

/// A run of a plan, and its place in a level of the answer.
struct PlaceOfRun {
  std::size_t first_patch = 0;
  bool begins = true;  ///< nothing of the level was delivered before
  bool ends = true;    ///< nothing of it comes after
};

/// Passes on the samples of a read, and tells the caller of damage.
class ReportingBlockSink final : public BlockSink {
 public:
  ReportingBlockSink(BlockSink* sink, RequestControl* control) : sink_(sink), control_(control) {}
  void BeginRun(const PlaceOfRun& place) { place_ = place; }

  Result<std::optional<SampleArray>> ArrayFor(const query::LevelExtent& level) override {
    if (place_.begins) {
      QUARRY_ASSIGN_OR_RETURN(array_, sink_->ArrayFor(level));
    }
    return array_;
  }
  Status Deliver(const SampleBlock& block) override {
    SampleBlock placed = block;
    placed.patch += place_.first_patch;
    return sink_->Deliver(placed);
  }
  Status Filled(int level, const Box& extent, const query::LevelChoice& shown) override {
    return sink_->Filled(level, extent, shown);
  }
  Status LevelEnd(const query::LevelExtent& level) override {
    return place_.ends ? sink_->LevelEnd(level) : Status::Ok();
  }
  void Damaged(const Status& what) override { control_->Damaged(what); }

 private:
  BlockSink* const sink_;
  RequestControl* const control_;
  PlaceOfRun place_;
  std::optional<SampleArray> array_;  ///< array of the level
};

class ReportingPayloadSink final : public PayloadSink {
 public:
  ReportingPayloadSink(PayloadSink* sink, RequestControl* control) : sink_(sink), control_(control) {}
  void BeginRun(const PlaceOfRun& place) { place_ = place; }

  Status Deliver(const StoredPayload& payload) override {
    StoredPayload placed = payload;
    placed.patch += place_.first_patch;
    return sink_->Deliver(placed);
  }
  Status LevelEnd(const query::LevelExtent& level) override {
    return place_.ends ? sink_->LevelEnd(level) : Status::Ok();
  }
  void Damaged(const Status& what) override { control_->Damaged(what); }

 private:
  PayloadSink* const sink_;
  RequestControl* const control_;
  PlaceOfRun place_;
};

/// Executes a plan from a position on: at once, or level by level, run by run.
/// @param execute  takes the plan, the part of it to execute, and the place of the run
template <typename Execute>
Status ExecuteRuns(const OpenedDataset& opened, const query::ReadPlan& plan, const query::Position& from,
                   const Execute& execute) {
  if (plan.runs.empty()) return execute(plan, from, PlaceOfRun{});
  for (std::size_t pass = from.pass; pass < plan.levels.size(); ++pass) {
    const std::size_t delivered = pass == from.pass ? from.patch : 0;
    bool begins = true;
    for (const query::PatchRun& run : plan.runs) {
      const bool ends = &run == &plan.runs.back();
      if (run.first + run.count <= delivered && !ends) continue;
      QUARRY_ASSIGN_OR_RETURN(const query::ReadPlan part,
                              opened.dataset->PlanRun(plan, run, opened.index.get()));
      const std::size_t skipped = std::min(run.count, delivered - std::min(delivered, run.first));
      QUARRY_RETURN_IF_ERROR(
          execute(part, query::Position{pass, skipped, 0, pass + 1}, PlaceOfRun{run.first, begins, ends}));
      begins = false;
    }
  }
  return Status::Ok();
}

query::AnswerHeader NumberedHeader(const query::ReadPlan& plan, std::size_t number, std::size_t count) {
  query::AnswerHeader header = query::HeaderOf(plan);
  header.number = number;
  header.count = count;
  return header;
}

/// A description in memory, its message, and the bytes of the message.
constexpr std::uint64_t kTimesInMessage = 4;

/// See Compute.
Status ComputeOn(DecodePool* pool, const Requester& requester, const DecodePriority& priority,
                 const std::function<Status()>& run) {
  // Shared: the task still holds it when the waiting thread goes on.
  const auto done = std::make_shared<std::promise<Status>>();
  std::future<Status> result = done->get_future();
  pool->Submit(priority, [done, &requester, &run] {
    Status status;
    try {
      status = requester.cancelled() ? Status(StatusCode::kCancelled, "the read was cancelled") : run();
    } catch (const std::bad_alloc&) {
      status = {StatusCode::kResourceExhausted, "no memory"};  // a text that allocates nothing
    }
    done->set_value(std::move(status));
  });
  return result.get();
}

Status PlanningCancelled() { return {StatusCode::kCancelled, "the planning was cancelled"}; }

}  // namespace

Result<ReadSession::Series> ReadSession::Expand(const std::string& dataset,
                                                const query::SeriesRequest& request) {
  QUARRY_RETURN_IF_ERROR(query::CheckSeries(request));
  Series series;
  QUARRY_ASSIGN_OR_RETURN(series.opened, source_->Find(dataset));
  series.read = request.read;
  if (!request.single()) {
    QUARRY_ASSIGN_OR_RETURN(series.subjects, series.opened->dataset->Expand(request));
  }
  return series;
}

std::uint64_t ReadSession::Likely(const Dataset& dataset, const query::Query& query,
                                  const Takes& takes) const {
  const DatasetDescription& description = dataset.description();
  const std::uint64_t planning = query::PlanningMemory(description, query);
  std::uint64_t rest = takes.besides;
  // Payload of a patch is seldom more than its samples.
  if (takes.delivers) rest += query::DeliveryMemory(description, query);
  // A level that the plan chooses may need far less than the one that is asked for.
  const std::uint64_t most = store()->MostPinned();
  return planning + std::min(rest, most - std::min(most, planning));
}

/// Plans in memory that is pinned before, for all that the answer takes.
Result<Pinned<query::ReadPlan>> ReadSession::PlanPinned(const OpenedDataset& opened,
                                                        const query::ReadRequest& question,
                                                        const Takes& takes, RequestControl* control) {
  QUARRY_ASSIGN_OR_RETURN(query::Query query, opened.dataset->Resolve(question));
  PlanInRuns(&query);
  const auto plan = [&] { return opened.dataset->Plan(query, opened.index.get()); };
  const auto need = [&](const query::ReadPlan& made) {
    std::uint64_t bytes = query::PlanMemory(made) + takes.besides;
    if (takes.sink != nullptr) {
      const std::uint64_t most = store()->MostPinned();
      takes.sink->Choose(*opened.dataset, made, most - std::min(most, bytes + query::DeliveryMemory(made)));
      bytes += takes.sink->memory_of(made);
      const ReadCosts costs = opened.dataset->root().storage->costs();
      if (takes.sink->takes_payload()) return bytes + PayloadMemory(made, engine_, costs);
    }
    return takes.delivers ? bytes + query::DeliveryMemory(made) : bytes;
  };
  return MakePinned(store(), Likely(*opened.dataset, query, takes), RequesterOf(control), plan, need);
}

Status ReadSession::Plan(const std::string& dataset, const query::SeriesRequest& request,
                         RequestControl* control, PlanSink* sink) {
  QUARRY_ASSIGN_OR_RETURN(const Series series, Expand(dataset, request));
  // For the whole request, and before any of its plans: who holds memory does not wait for more.
  std::uint64_t boxes = 0;
  QUARRY_ASSIGN_OR_RETURN(const std::uint64_t planning, LargestPlanning(series, &boxes));
  const std::uint64_t kept = sink->memory(series.size(), boxes);
  QUARRY_ASSIGN_OR_RETURN(PatchStore::Memory memory, store()->Pin(kept + planning, RequesterOf(control)));
  for (std::size_t i = 0; i < series.size(); ++i) {
    if (control->Cancelled()) return PlanningCancelled();
    QUARRY_ASSIGN_OR_RETURN(query::Query query, series.opened->dataset->Resolve(series.Question(i)));
    PlanInRuns(&query);
    QUARRY_ASSIGN_OR_RETURN(const query::ReadPlan plan,
                            series.opened->dataset->Plan(query, series.opened->index.get()));
    QUARRY_RETURN_IF_ERROR(sink->Add(*series.opened->dataset, plan, NumberedHeader(plan, i, series.size())));
  }
  (void)memory.Resize(kept);  // smaller
  control->Hold(std::move(memory));
  return Status::Ok();
}

/// Has a question of many patches planned run by run.
void ReadSession::PlanInRuns(query::Query* query) const {
  query->run_patches = run_patches_;
  query->most_left_out = query::MostLeftOut(store()->MostPinned() / 4);
}

/// @param[out] boxes  most that an answer leaves out
Result<std::uint64_t> ReadSession::LargestPlanning(const Series& series, std::uint64_t* boxes) const {
  const Dataset& dataset = *series.opened->dataset;
  std::uint64_t largest = 0;
  for (std::size_t i = 0; i < series.size(); ++i) {
    QUARRY_ASSIGN_OR_RETURN(query::Query query, dataset.Resolve(series.Question(i)));
    PlanInRuns(&query);
    std::uint64_t planning = query::PlanningMemory(dataset.description(), query);
    const std::uint64_t patches = query::MostPatches(dataset.description(), query);
    const bool in_runs = query::PlansInRuns(query, patches);
    if (query.values) *boxes = in_runs ? std::min<std::uint64_t>(patches, query.most_left_out) : patches;
    if (query.values && in_runs) planning += query::LeftOutMemory(*boxes);
    largest = std::max(largest, planning);
  }
  return largest;
}

/// Cost of all answers.
Result<query::Cost> ReadSession::CostOf(const Series& series, RequestControl* control) {
  query::Cost sum;
  for (std::size_t i = 0; i < series.size(); ++i) {
    if (control->Cancelled()) return PlanningCancelled();
    QUARRY_ASSIGN_OR_RETURN(const auto planned, PlanPinned(*series.opened, series.Question(i), {}, control));
    sum += planned.value.cost;
  }
  return sum;
}

/// Settles the order of an answer, and where in it to begin.
/// @param asked  by the caller; without a fingerprint, the answer has not begun
Result<ResumePoint> ReadSession::Settle(const Dataset& dataset, const ResumePoint& asked, const Takes& takes,
                                        const Requester& requester, query::ReadPlan* plan) const {
  ResumePoint point = asked;
  const bool begun = asked.fingerprint != 0;
  // A focus is an order that the caller wants. Payload does not go through the store.
  const bool ordered = plan->query.focus || takes.sink->needs_first_patch() || takes.sink->takes_payload();
  if (!begun && !ordered) point.position.start = BestStart(dataset, *plan, store(), requester);
  if (point.position.start > (plan->runs.empty() ? plan->patches.size() : 0)) return NotTheSame();
  query::BeginWith(point.position.start, plan);
  point.fingerprint = query::Fingerprint(*plan);
  if (begun && point.fingerprint != asked.fingerprint) return NotTheSame();
  const bool inside =
      point.position.pass <= plan->levels.size() && point.position.patch <= plan->totals.patches;
  return inside ? Result<ResumePoint>(point) : NotOurPosition();
}

Status ReadSession::Deliver(const Series& series, std::size_t number, const query::ReadPlan& plan,
                            const ResumePoint& from, const query::Cost& cost, RequestControl* control,
                            AnswerSink* sink) {
  const Dataset& dataset = *series.opened->dataset;
  const Requester requester = RequesterOf(control);
  ReadUsage usage;
  const Compute compute = [&](int level, std::uint64_t work, const std::function<Status()>& run) {
    return ComputeOn(&engine_.pool, requester, {level, 0, requester.client, work}, run);
  };
  QUARRY_ASSIGN_OR_RETURN(
      const AnswerSink::Taker taker,
      sink->Begin({dataset.description().fields[plan.query.field_number], plan,
                   NumberedHeader(plan, number, series.size()), from, usage, cost, dataset, compute}));
  if (BlockSink* const* blocks = std::get_if<BlockSink*>(&taker)) {
    ReportingBlockSink reporting(*blocks, control);
    const auto execute = [&](const query::ReadPlan& part, const query::Position& at,
                             const PlaceOfRun& place) {
      reporting.BeginRun(place);
      return ExecuteRead(dataset, part, &engine_, requester, &reporting, at, &usage);
    };
    QUARRY_RETURN_IF_ERROR(ExecuteRuns(*series.opened, plan, from.position, execute));
  } else {
    ReportingPayloadSink reporting(std::get<PayloadSink*>(taker), control);
    PayloadDamages damages;
    const auto execute = [&](const query::ReadPlan& part, const query::Position& at,
                             const PlaceOfRun& place) {
      reporting.BeginRun(place);
      return ExecutePayloads(dataset, part, &engine_, requester, &reporting, at, &damages, &usage);
    };
    QUARRY_RETURN_IF_ERROR(ExecuteRuns(*series.opened, plan, from.position, execute));
  }
  control->CountPatches(plan.cost.patches);
  return Status::Ok();
}

Status ReadSession::Read(const std::string& dataset, const query::SeriesRequest& request,
                         const ResumePoint& from, RequestControl* control, AnswerSink* sink) {
  QUARRY_ASSIGN_OR_RETURN(const Series series, Expand(dataset, request));
  if (from.answers >= series.size()) return NotOurPosition();
  query::Cost cost;
  if (series.size() > 1) {
    QUARRY_ASSIGN_OR_RETURN(cost, CostOf(series, control));
    QUARRY_RETURN_IF_ERROR(
        control->Admit({cost.bytes, cost.reply_bytes, nullptr, "fewer steps or fields at a time"}));
  }
  const Takes takes{true, sink->memory(), sink};
  for (std::size_t i = from.answers; i < series.size(); ++i) {
    QUARRY_ASSIGN_OR_RETURN(auto planned, PlanPinned(*series.opened, series.Question(i), takes, control));
    query::ReadPlan& plan = planned.value;
    if (sink->takes_payload() && !plan.references.steps.empty()) {
      return Unimplemented("patches of step {} of \"{}\" refer to step {}; ask for samples instead",
                           plan.query.step, plan.field, plan.references.steps.front().step);
    }
    QUARRY_ASSIGN_OR_RETURN(const ResumePoint begin,
                            Settle(*series.opened->dataset, i == from.answers ? from : ResumePoint{}, takes,
                                   RequesterOf(control), &plan));
    if (series.size() == 1) {
      cost = plan.cost;
      QUARRY_RETURN_IF_ERROR(control->Admit({cost.bytes, cost.reply_bytes, &plan, ""}));
    }
    QUARRY_RETURN_IF_ERROR(Deliver(series, i, plan, begin, cost, control, sink));
  }
  return sink->End();
}

Result<query::StatisticsAnswer> ReadSession::Statistics(const std::string& dataset,
                                                        const query::StatisticsRequest& request,
                                                        RequestControl* control) {
  QUARRY_RETURN_IF_ERROR(query::CheckStatistics(request));
  QUARRY_ASSIGN_OR_RETURN(const auto opened, source_->Find(dataset));
  PatchStore::Memory answer_memory;
  query::StatisticsAnswer answer;
  {
    QUARRY_ASSIGN_OR_RETURN(auto planned,
                            PlanPinned(*opened, query::SamplesOf(request),
                                       {true, query::StatisticsAccumulator::kMemory, nullptr}, control));
    const query::ReadPlan& plan = planned.value;
    // No samples are delivered.
    QUARRY_RETURN_IF_ERROR(
        control->Admit({plan.cost.bytes, 0, nullptr, "a smaller box, or for a coarser level"}));
    QUARRY_ASSIGN_OR_RETURN(answer.statistics, ComputeStatistics(*opened->dataset, plan, request, &engine_,
                                                                 RequesterOf(control), opened->index.get()));
    control->CountPatches(plan.cost.patches);
    answer.header = query::StatisticsHeader(plan);
    answer_memory = std::move(planned.memory);
  }
  (void)answer_memory.Resize(query::StatisticsAccumulator::kAnswerMemory);  // smaller
  control->Hold(std::move(answer_memory));
  return answer;
}

Result<query::PointsAnswer> ReadSession::ReadPoints(const std::string& dataset,
                                                    const query::PointsRequest& request,
                                                    RequestControl* control) {
  QUARRY_ASSIGN_OR_RETURN(const auto opened, source_->Find(dataset));
  QUARRY_ASSIGN_OR_RETURN(query::Query query, opened->dataset->Resolve(request));
  PlanInRuns(&query);
  const std::uint64_t points = request.points.size() * query::kBytesPerPoint;
  const Requester requester = RequesterOf(control);
  const auto plan = [&] {
    return opened->dataset->PlanPoints(request, query, opened->index.get(), engine_.InTurnOf(requester));
  };
  const auto need = [&](const query::PointsPlan& made) {
    return query::PlanMemory(made.read) + query::DeliveryMemory(made.read) + points;
  };
  QUARRY_ASSIGN_OR_RETURN(
      auto planned,
      MakePinned(store(), Likely(*opened->dataset, query, {true, points, nullptr}), requester, plan, need));
  const query::Cost cost = planned.value.cost_only ? query::Cost{} : planned.value.read.cost;
  QUARRY_RETURN_IF_ERROR(control->Admit({cost.bytes, cost.reply_bytes, nullptr, "fewer points at a time"}));
  QUARRY_ASSIGN_OR_RETURN(query::PointsAnswer answer,
                          quarry::ReadPoints(*opened->dataset, std::move(planned.value), &engine_, requester,
                                             opened->index.get()));
  control->CountPatches(cost.patches);
  (void)planned.memory.Resize(3 * sizeof(double) * answer.values.size());  // smaller
  control->Hold(std::move(planned.memory));
  return answer;
}

Status ReadSession::Watch(const std::string& dataset, std::optional<std::uint64_t> after, StepSink* sink) {
  QUARRY_ASSIGN_OR_RETURN(const auto opened, source_->Find(dataset));
  const Location root = opened->dataset->root();
  StepFollower follower(root, after, engine_.store);
  // Where looks cost, all watchers share those of the source.
  const bool shares = source_->sees_changes() && root.storage->trust() > std::chrono::milliseconds(0);
  std::shared_ptr<const OpenedDataset> followed;  // all of its steps are delivered
  while (true) {
    QUARRY_RETURN_IF_ERROR(sink->Continue());
    std::shared_ptr<const OpenedDataset> now;
    if (shares) {
      QUARRY_ASSIGN_OR_RETURN(now, source_->Find(dataset));
      if (now == followed) {
        sink->Rest();
        continue;
      }
      follower.LookAnew();
    }
    bool later = false;
    const auto polled = PollPinned(&follower, sink, &later);
    if (polled.status().code() == StatusCode::kNotFound) {
      return NotFound("the dataset \"{}\" has gone, or another is in its place; watch again when it is there",
                      opened->name);
    }
    QUARRY_RETURN_IF_ERROR(polled.status());
    if (polled->value.empty()) {
      if (!later) followed = std::move(now);
      sink->Rest();
      continue;
    }
    QUARRY_ASSIGN_OR_RETURN(const bool more, sink->Deliver(follower.dataset(), polled->value));
    if (!more) return Status::Ok();
  }
}

/// New steps, in memory of their size: descriptions, and the message of one of them. None while too many
/// requests wait: the next call returns them.
/// @param later  set to true in that case
Result<Pinned<ReadSession::Steps>> ReadSession::PollPinned(StepFollower* follower, StepSink* sink,
                                                           bool* later) {
  if (!follower->Changed()) return Pinned<Steps>{};
  std::uint64_t needed = 0;  // for the steps that were returned last
  const auto poll = [&] {
    if (std::exchange(needed, 0) > 0) follower->Repeat();
    return follower->Poll();
  };
  const auto need = [&](const Steps& steps) {
    std::uint64_t sum = 0;
    std::uint64_t largest = 0;
    for (const auto& step : steps) {
      sum += MemoryOf(*step);
      largest = std::max(largest, MemoryOf(*step));
    }
    return needed = sum + kTimesInMessage * largest;
  };
  const std::uint64_t likely = std::min(kTimesInMessage * StepFollower::kMostBytes, store()->MostPinned());
  const Requester requester([&] { return !sink->Continue().ok(); }, sink->client());
  Result<Pinned<Steps>> polled = MakePinned(store(), likely, requester, poll, need);
  const bool refused = polled.status().code() == StatusCode::kResourceExhausted;
  if (!refused || needed > store()->MostPinned()) return polled;
  if (needed > 0) follower->Repeat();
  *later = true;
  return Pinned<Steps>{};
}

}  // namespace quarry
