#include "quarry/supplied/question.h"

#include <new>
#include <utility>

#include "quarry/answer/answer_stream.h"
#include "quarry/answer/dataset_messages.h"
#include "quarry/base/units.h"
#include "quarry/wire/convert.h"

namespace quarry::supplied {
namespace {

namespace pb = ::quarry::v1;

/// [bytes] of a page of steps.
constexpr std::size_t kPageBytes = 1 << 20;
/// An answer has payload of this part of the memory under way: there are few readers.
constexpr std::uint64_t kPartOfMemory = 128;
/// [bytes] that an answer in one piece may be computed of: until then, all of them are kept.
constexpr std::uint64_t kMostAtOnce = 128 << 20;
/// [bytes] that a question may keep: an answer that comes in pieces gives back what it has sent.
constexpr std::uint64_t kMostKept = 256 << 20;

}  // namespace

/// Refuses what a browser should not be asked.
class SuppliedDataset::Question::Control final : public RequestControl {
 public:
  /// @param at_once  the answer comes in one piece
  explicit Control(bool at_once) : at_once_(at_once) {}
  bool Cancelled() override { return false; }
  Status Admit(const Demand& demand) override {
    if (!at_once_ || demand.payload <= kMostAtOnce) return Status::Ok();
    return ResourceExhausted(
        "this takes {} of the dataset, and a page without a server has at most {} at a time; ask for {}",
        FormatBytes(demand.payload), FormatBytes(kMostAtOnce), demand.instead);
  }

 private:
  const bool at_once_;
};

/// Keeps the messages, and where the answer goes on. A question that is asked again begins with the header
/// that has been sent.
class SuppliedDataset::Question::ReadMessages final : public answer::MessageSink {
 public:
  explicit ReadMessages(Question* question) : question_(question), sent_(!question->position_.empty()) {}
  Status Send(const answer::Message& message, answer::Follows, const std::string& position) override {
    if (!std::exchange(sent_, false)) {
      std::string bytes;
      for (const answer::SharedBytes& piece : message)
        bytes.append(reinterpret_cast<const char*>(piece.bytes.data()), piece.bytes.size());
      question_->messages_.push_back(std::move(bytes));
    }
    question_->position_ = position;
    return Status::Ok();
  }

 private:
  Question* const question_;
  bool sent_;  ///< the next message was sent before
};

/// The answer as patches or as samples.
class SuppliedDataset::Question::ReadSink final : public AnswerSink {
 public:
  ReadSink(Question* question, const pb::ReadRequest& request, std::uint64_t memory)
      : message_bytes_(answer::MessageBytesFor(memory)),
        messages_(question),
        stream_(&messages_, request.describe(), message_bytes_),
        patches_(request.encoding() == pb::ENCODING_PATCHES) {}

  Result<Taker> Begin(const AnswerStart& start) override {
    QUARRY_RETURN_IF_ERROR(stream_.Begin(start, std::nullopt));
    if (patches_) return Taker(&payloads_.emplace(&stream_, start.plan, start.from));
    return Taker(&samples_.emplace(&stream_, start.plan, start.from));
  }
  bool takes_payload() const override { return patches_; }
  std::uint64_t memory() const override { return 2 * message_bytes_; }
  /// The patches that are decoded when the question is asked again must not decide where it begins.
  bool needs_first_patch() const override { return true; }
  Status End() override { return stream_.End(); }

 private:
  const std::size_t message_bytes_;
  ReadMessages messages_;
  answer::AnswerStream stream_;
  const bool patches_;
  std::optional<answer::SampleSink> samples_;
  std::optional<answer::PayloadStreamSink> payloads_;
};

SuppliedDataset::SuppliedDataset(std::string root, std::uint64_t memory)
    : root_(std::move(root)),
      store_(std::make_shared<PatchStore>(memory)),
      session_(this, store_, /*threads=*/1, query::kRunPatches, kPartOfMemory) {}

std::unique_ptr<SuppliedDataset::Question> SuppliedDataset::Begin(const std::string& method,
                                                                  std::string request) {
  pb::GetDatasetRequest page;
  const bool anew = method == "GetDataset" && page.ParseFromString(request) && page.page_token().empty();
  std::shared_ptr<Opening> opening = anew || !current_ ? std::make_shared<Opening>() : current_;
  if (!current_) current_ = opening;
  return std::unique_ptr<Question>(new Question(this, std::move(opening), method, std::move(request)));
}

Result<std::shared_ptr<const OpenedDataset>> SuppliedDataset::Find(const std::string&) {
  return Open(asking_);
}

Result<std::shared_ptr<const OpenedDataset>> SuppliedDataset::Open(Opening* opening) const {
  if (opening->opened) return opening->opened;
  QUARRY_ASSIGN_OR_RETURN(auto dataset, Dataset::Open(Location(opening->storage, root_), store_));
  OpenedDataset opened;
  opened.name = root_;
  opened.dataset = std::move(dataset);
  opening->opened = std::make_shared<const OpenedDataset>(std::move(opened));
  return opening->opened;
}

// ---- Questions

SuppliedDataset::Question::~Question() {
  asker_.Release();
  opening_->storage->Forget();
}

void SuppliedDataset::Question::Supply(const Wanted& wanted, Supplied supplied) {
  opening_->storage->Supply(wanted, std::move(supplied), &asker_);
}

SuppliedDataset::Question::State SuppliedDataset::Question::Ask() {
  wanted_.clear();
  asker_.Begin();
  const SuppliedStorage::Asking asking(opening_->storage.get(), &asker_);
  dataset_->asking_ = opening_.get();
  const std::string before = position_;
  bool all_here = true;
  try {
    status_ = Answer();
  } catch (const NotHere&) {
    all_here = false;
  } catch (const std::bad_alloc&) {
    status_ = {StatusCode::kResourceExhausted, "the page is out of memory; ask for less"};
  }
  dataset_->asking_ = nullptr;
  // An error beside something that is missing is of the missing: readings end so that nobody waited for.
  const bool ended = all_here && (status_.ok() || !asker_.wants_any());
  if (position_ != before) {  // nothing that was sent is needed again
    asker_.Release();
    opening_->storage->Trim();
  }
  if (ended) return State::kEnded;
  if (asker_.held() > kMostKept) {
    status_ = ResourceExhausted("the question takes more than {} of the dataset at a time; ask for less",
                                FormatBytes(kMostKept));
    return State::kEnded;
  }
  wanted_ = asker_.wanted();
  return State::kWants;
}

Status SuppliedDataset::Question::Answer() {
  if (method_ == "GetDataset") return GetDataset();
  if (method_ == "Read") return Read();
  if (method_ == "GetStatistics") return GetStatistics();
  if (method_ == "ReadPoints") return ReadPoints();
  return Unimplemented("{} needs a Quarry server, and this dataset is read from a web server without one",
                       method_);
}

template <typename Request>
Status SuppliedDataset::Question::Parse(Request* request) const {
  return request->ParseFromString(request_) ? Status::Ok()
                                            : InvalidArgument("the question is not a message of this call");
}

Status SuppliedDataset::Question::GetDataset() {
  pb::GetDatasetRequest request;
  QUARRY_RETURN_IF_ERROR(Parse(&request));
  QUARRY_ASSIGN_OR_RETURN(const auto opened, dataset_->Open(opening_.get()));
  QUARRY_ASSIGN_OR_RETURN(
      const pb::GetDatasetResponse page,
      answer::DatasetPage(*opened->dataset, request, {answer::PageSize(request.page_size()), kPageBytes}));
  messages_.push_back(page.SerializeAsString());
  dataset_->current_ = opening_;
  return Status::Ok();
}

Status SuppliedDataset::Question::Read() {
  pb::ReadRequest request;
  QUARRY_RETURN_IF_ERROR(Parse(&request));
  if (request.encoding() != pb::ENCODING_PATCHES && request.encoding() != pb::ENCODING_SAMPLES)
    return Unimplemented("coded samples need a Quarry server; ask for patches or samples");
  if (request.has_path()) return Unimplemented("there is no server here that would choose; say the encoding");
  QUARRY_ASSIGN_OR_RETURN(query::SeriesRequest question, wire::FromProto(request.query()));
  const std::string& after = position_.empty() ? request.resume_after() : position_;
  QUARRY_ASSIGN_OR_RETURN(const ResumePoint from, answer::FromToken(after));
  Control control(/*at_once=*/false);
  ReadSink sink(this, request, dataset_->store_->state().total);
  return dataset_->session_.Read(request.query().dataset(), question, from, &control, &sink);
}

Status SuppliedDataset::Question::GetStatistics() {
  pb::GetStatisticsRequest request;
  QUARRY_RETURN_IF_ERROR(Parse(&request));
  QUARRY_ASSIGN_OR_RETURN(const query::StatisticsRequest question, wire::FromProto(request));
  Control control(/*at_once=*/true);
  QUARRY_ASSIGN_OR_RETURN(const query::StatisticsAnswer statistics,
                          dataset_->session_.Statistics(request.query().dataset(), question, &control));
  messages_.push_back(wire::ToProto(statistics).SerializeAsString());
  return Status::Ok();
}

Status SuppliedDataset::Question::ReadPoints() {
  pb::ReadPointsRequest request;
  QUARRY_RETURN_IF_ERROR(Parse(&request));
  QUARRY_ASSIGN_OR_RETURN(const query::PointsRequest question, wire::FromProto(request));
  Control control(/*at_once=*/true);
  QUARRY_ASSIGN_OR_RETURN(const query::PointsAnswer values,
                          dataset_->session_.ReadPoints(request.dataset(), question, &control));
  messages_.push_back(wire::ToProto(values).SerializeAsString());
  return Status::Ok();
}

}  // namespace quarry::supplied
