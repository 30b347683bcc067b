#include "tests/fuzz/ask_everything.h"

#include "tests/fuzz/fuzz_target.h"

namespace quarry::fuzz {
namespace {

class OnlyOne final : public DatasetSource {
 public:
  explicit OnlyOne(std::shared_ptr<const OpenedDataset> opened) : opened_(std::move(opened)) {}
  Result<std::shared_ptr<const OpenedDataset>> Find(const std::string&) override { return opened_; }

 private:
  const std::shared_ptr<const OpenedDataset> opened_;
};

/// Refuses what would take too long: a table may say that a payload is large.
class Control final : public RequestControl {
 public:
  bool Cancelled() override { return false; }
  Status Admit(const Demand& demand) override {
    constexpr std::uint64_t kMost = 4 << 20;
    if (demand.payload <= kMost && demand.reply <= kMost) return Status::Ok();
    return {StatusCode::kResourceExhausted, "too much"};
  }
};

class Headers final : public PlanSink {
 public:
  Status Add(const Dataset&, const query::ReadPlan&, query::AnswerHeader header) override {
    Require(!header.levels.empty(), "an answer has a level");
    return Status::Ok();
  }
};

/// Takes samples or payload and forgets them.
class Nowhere final : public AnswerSink, public BlockSink, public PayloadSink {
 public:
  explicit Nowhere(bool payload) : payload_(payload) {}
  Result<Taker> Begin(const AnswerStart&) override {
    if (payload_) return Taker(static_cast<PayloadSink*>(this));
    return Taker(static_cast<BlockSink*>(this));
  }
  bool takes_payload() const override { return payload_; }
  Status Deliver(const SampleBlock& block) override {
    Require(!block.samples.empty(), "a block has samples");
    return Status::Ok();
  }
  Status Deliver(const StoredPayload&) override { return Status::Ok(); }
  Status LevelEnd(const query::LevelExtent&) override { return Status::Ok(); }
  void Damaged(const Status&) override {}
  Status End() override { return AnswerSink::End(); }

 private:
  const bool payload_;
};

void Check(const Status& status) {
  Require(status.ok() || !status.message().empty(), "an error says what is wrong");
  Require(status.code() != StatusCode::kInternal, "damage is not our fault");
}

}  // namespace

void AskEverything(std::shared_ptr<const OpenedDataset> opened, std::shared_ptr<PatchStore> store) {
  constexpr std::size_t kFields = 3;
  constexpr std::size_t kSteps = 3;
  OnlyOne source(opened);
  constexpr std::size_t kRun = 5;  // patches; questions with values are planned at once
  ReadSession session(&source, std::move(store), 1, kRun);
  Control control;
  const Dataset& dataset = *opened->dataset;
  const DatasetDescription& description = dataset.description();
  for (std::size_t f = 0; f < std::min(kFields, description.fields.size()); ++f) {
    query::SeriesRequest question;
    question.read.field = description.fields[f].name;
    const auto ask = [&] {
      Headers headers;
      Check(session.Plan("", question, &control, &headers));
      for (const bool payload : {false, true}) {
        Nowhere nowhere(payload);
        Check(session.Read("", question, {}, &control, &nowhere));
      }
    };
    ask();
    question.read.target = query::AtLevel{description.grids[0].levels - 1};
    for (std::size_t s = 0; s < std::min(kSteps, dataset.steps().size()); ++s) {
      question.read.step = dataset.steps()[s];
      ask();
    }
    question.read.target = query::WithinError{0.1};
    question.read.values = {0, 1};
    question.read.focus = {1, 2, 3};
    ask();
    question.read.target = query::WithinBytes{10'000};
    question.read.allow_damage = true;
    ask();
    query::StatisticsRequest statistics;
    statistics.read.field = question.read.field;
    statistics.percentiles = {50};
    Check(session.Statistics("", statistics, &control).status());
    const query::PointsRequest points{question.read.field, {}, {{0, 0, 0}}, false};
    Check(session.ReadPoints("", points, &control).status());
  }
}

}  // namespace quarry::fuzz
