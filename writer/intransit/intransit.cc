#include "quarry/intransit.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "quarry/base/checksum.h"
#include "writer/insitu/collective_dataset.h"
#include "writer/intransit/groups.h"
#include "writer/intransit/link.h"
#include "writer/intransit/protocol.h"
#include "writer/intransit/staging.h"
#include "writer/redistribute/mpi_status.h"

namespace quarry::intransit {

using insitu::Call;
using internal::Answer;
using writer::Guarded;
using writer::Timer;

namespace {

/// Where the writers find each rank of `comm`. Local: if a communicator is wrong, some ranks may never get
/// here.
Result<std::vector<int>> RanksInJob(MPI_Comm comm, const internal::Link& link) {
  std::vector<int> here(static_cast<std::size_t>(writer::Size(comm)));
  std::iota(here.begin(), here.end(), 0);
  std::vector<int> in_job(here.size());
  MPI_Group ours = MPI_GROUP_NULL;
  MPI_Group all = MPI_GROUP_NULL;
  QUARRY_MPI(MPI_Comm_group, comm, &ours);
  QUARRY_MPI(MPI_Comm_group, link.all, &all);
  QUARRY_MPI(MPI_Group_translate_ranks, ours, static_cast<int>(here.size()), here.data(), all, in_job.data());
  MPI_Group_free(&ours);
  MPI_Group_free(&all);
  const auto simulates = [&](int rank) { return rank != MPI_UNDEFINED && rank < link.simulation_ranks; };
  if (std::all_of(in_job.begin(), in_job.end(), simulates)) return in_job;
  return InvalidArgument(
      "the communicator has ranks that do not simulate; give roles.comm() or a part of it");
}

class Run final : public insitu::CollectiveDataset<Dataset, insitu::OpenStep> {
 public:
  /// @param own  freed when the run ends
  Run(std::shared_ptr<internal::Link> link, MPI_Comm own, const Setup& setup,
      const std::vector<OwnedBox>& boxes, const Transport& transport)
      : CollectiveDataset(own, setup, boxes), link_(std::move(link)), transport_(transport) {}
  ~Run() override { CloseIfOpen(); }

  Status Start(std::vector<int> ranks, const Status& found);
  Status BeginStep(std::int64_t step, std::optional<double> time) override;
  Status PutViews(const std::string& field, DataType type, std::span<const BoxView> views) override;
  Status Close() override;
  std::vector<std::string> TakeWarnings() override { return {}; }

  const std::vector<std::uint64_t>& lost_steps() const override { return lost_; }
  const SimulationSeconds& seconds() const override { return seconds_; }
  std::uint64_t waits() const override { return waits_; }
  std::uint64_t most_in_flight() const override { return most_in_flight_; }
  std::uint64_t staging_bytes() const override { return staging_bytes_; }

 private:
  bool root() const { return rank_ == 0; }
  std::uint64_t in_flight() const { return handed_over_ - answered_; }
  /// Where the step that is open, or the next one, is staged.
  std::size_t place() const { return handed_over_ % staging_->places(); }

  Status Finish(const insitu::OpenStep& step) override;
  void Release() override;
  Status CheckTransport() const;
  Status OpenAtWriters(const distribution::Ownership& owned, std::vector<int> ranks);
  Status WaitForPlace(std::uint64_t step);
  Status HandOver(const insitu::OpenStep& step);
  Result<std::vector<internal::Answer>> ReceiveAnswers(bool wait);
  Result<std::vector<internal::Answer>> FinishAtWriters(double waiting);
  Status ShareAnswers(const Result<std::vector<internal::Answer>>& of_root);
  Status TakeLosses();

  std::shared_ptr<internal::Link> link_;
  Transport transport_;
  std::unique_ptr<internal::Staging> staging_;
  int writer_ = 0;   ///< that this rank sends to, in link_->all
  int number_ = -1;  ///< number of the dataset at the writers; -1 where it is not open
  // All of these are the same on every rank.
  std::uint64_t handed_over_ = 0;
  std::uint64_t answered_ = 0;
  std::vector<std::uint64_t> lost_;
  Status unsure_;             ///< the first kUnknown that the simulation has not seen yet
  std::uint64_t untold_ = 0;  ///< lost steps that the simulation does not know of yet
  std::uint64_t first_untold_step_ = 0;
  Status first_untold_;
  Status ended_;   ///< the error of a consumer: no more steps
  Status closed_;  ///< the writers' answer to the closing
  std::uint64_t waits_ = 0;
  std::uint64_t most_in_flight_ = 0;
  std::uint64_t staging_bytes_ = 0;
  SimulationSeconds seconds_;
};

Status Run::CheckTransport() const {
  if (transport_.steps_in_flight < 1)
    return InvalidArgument("{} steps in flight are not possible; give at least 1",
                           transport_.steps_in_flight);
  constexpr std::uint64_t kMost = std::numeric_limits<int>::max();
  if (transport_.message_bytes >= 1 && transport_.message_bytes <= kMost) return Status::Ok();
  return InvalidArgument("messages of {} bytes are not possible; give 1 to {}", transport_.message_bytes,
                         kMost);
}

Status Run::Start(std::vector<int> ranks, const Status& found) {
  const Timer timer(&seconds_.opening);
  const std::string arguments = fmt::format("{} {} {}", ChecksumText(Checksum(insitu::EncodeSetup(setup_))),
                                            transport_.steps_in_flight, transport_.message_bytes);
  // The writers check it against what is on the disk.
  const Status local = Guarded([&]() -> Status {
    QUARRY_RETURN_IF_ERROR(found);
    QUARRY_RETURN_IF_ERROR(insitu::CheckSetup(setup_, boxes_));
    return CheckTransport();
  });
  QUARRY_RETURN_IF_ERROR(Agree(Call::kOpen, local, arguments));
  QUARRY_ASSIGN_OR_RETURN(const distribution::Ownership owned,
                          insitu::ShareBoxes(comm_, setup_.declaration.dims, boxes_));
  QUARRY_RETURN_IF_ERROR(writer::OnEveryRank(comm_, [&] {
    staging_ = std::make_unique<internal::Staging>(setup_.declaration, boxes_, transport_.steps_in_flight);
    staging_bytes_ = staging_->bytes();
    return Status::Ok();
  }));
  writer_ = link_->first_writer() + WriterOf(rank_, writer::Size(comm_), link_->writer_ranks);
  return OpenAtWriters(owned, std::move(ranks));
}

Status Run::OpenAtWriters(const distribution::Ownership& owned, std::vector<int> ranks) {
  Answer answer;
  QUARRY_RETURN_IF_ERROR(writer::OnRoot(comm_, [&]() -> Status {
    const Bytes setup = insitu::EncodeSetup(setup_);
    const internal::OpenCommand open{{reinterpret_cast<const char*>(setup.data()), setup.size()},
                                     transport_.message_bytes,
                                     std::move(ranks),
                                     owned};
    QUARRY_RETURN_IF_ERROR(
        internal::SendText(link_->all, link_->first_writer(), internal::kCommandTag, internal::Encode(open)));
    QUARRY_ASSIGN_OR_RETURN(const internal::Received received,
                            internal::ReceiveText(link_->all, link_->first_writer(), internal::kOpenedTag));
    QUARRY_ASSIGN_OR_RETURN(const std::vector<Answer> answers, internal::DecodeAnswers(received.text));
    answer = answers.at(0);
    return answer.status;
  }));
  QUARRY_RETURN_IF_ERROR(writer::AgreeOnStatus(
      comm_, redistribute::MpiStatus(MPI_Bcast(&answer.dataset, 1, MPI_INT, 0, comm_), "MPI_Bcast")));
  number_ = answer.dataset;
  return Status::Ok();
}

Status Run::BeginStep(std::int64_t step, std::optional<double> time) {
  return agreement_.Keep(Guarded([&]() -> Status {
    QUARRY_RETURN_IF_ERROR(
        Agree(Call::kBeginStep, insitu::CheckBegin(step, time, open()), insitu::BeginArguments(step, time)));
    const auto number = static_cast<std::uint64_t>(step);
    QUARRY_RETURN_IF_ERROR(ended_);
    QUARRY_RETURN_IF_ERROR(WaitForPlace(number));
    QUARRY_RETURN_IF_ERROR(TakeLosses());
    step_ = insitu::OpenStep{number, time, {}};
    return Status::Ok();
  }));
}

Status Run::WaitForPlace(std::uint64_t step) {
  using Answers = std::vector<Answer>;
  QUARRY_RETURN_IF_ERROR(ShareAnswers(root() ? ReceiveAnswers(false) : Answers()));
  if (in_flight() == staging_->places()) {
    const Timer timer(&seconds_.waiting);
    QUARRY_RETURN_IF_ERROR(writer::OnEveryRank(comm_, [&] {
      if (transport_.on_wait) transport_.on_wait(step);
      return Status::Ok();
    }));
    ++waits_;
    QUARRY_RETURN_IF_ERROR(ShareAnswers(root() ? ReceiveAnswers(true) : Answers()));
  }
  // A step with an answer has left completely. If MPI says otherwise, its memory cannot be used again.
  const Status left = writer::AgreeOnStatus(comm_, staging_->Wait(place()));
  if (!left.ok()) broken_ = left;
  return left;
}

/// On rank 0: answers from the writers; with `wait` at least one.
Result<std::vector<Answer>> Run::ReceiveAnswers(bool wait) {
  const int writer = link_->first_writer();
  const int tag = internal::DatasetTag(number_);
  std::vector<Answer> answers;
  for (;;) {
    int there = 1;
    if (!wait || !answers.empty()) QUARRY_MPI(MPI_Iprobe, writer, tag, link_->all, &there, MPI_STATUS_IGNORE);
    if (there == 0) return answers;
    QUARRY_ASSIGN_OR_RETURN(const internal::Received received,
                            internal::ReceiveText(link_->all, writer, tag));
    QUARRY_ASSIGN_OR_RETURN(const std::vector<Answer> more, internal::DecodeAnswers(received.text));
    answers.insert(answers.end(), more.begin(), more.end());
  }
}

/// Passes the answers that rank 0 received to every rank.
Status Run::ShareAnswers(const Result<std::vector<Answer>>& of_root) {
  const Status received = writer::BroadcastStatus(comm_, of_root.status());
  if (!received.ok()) {
    broken_ = received;
    return received;
  }
  const Result<std::string> text = writer::BroadcastText(comm_, root() ? internal::Encode(*of_root) : "");
  if (!text.ok()) {
    broken_ = text.status();
    return broken_;
  }
  QUARRY_ASSIGN_OR_RETURN(const std::vector<Answer> answers, internal::DecodeAnswers(*text));
  for (const Answer& answer : answers) {
    if (ended_.ok()) ended_ = answer.ended;
    if (!answer.step) {
      closed_ = answer.status;
      continue;
    }
    ++answered_;
    if (answer.status.ok()) continue;
    if (answer.status.code() == StatusCode::kUnknown) {  // published, but perhaps not for good
      if (unsure_.ok()) unsure_ = answer.status;
      continue;
    }
    lost_.push_back(*answer.step);
    // Steps that came after the end have its error, which the simulation gets as it is.
    if (answer.status.message() == answer.ended.message()) continue;
    if (untold_++ > 0) continue;
    first_untold_step_ = *answer.step;
    first_untold_ = answer.status;
  }
  return Status::Ok();
}

/// The losses that the simulation has not seen yet, and the error that ended everything.
Status Run::TakeLosses() {
  if (untold_ == 0) return unsure_.ok() ? ended_ : std::exchange(unsure_, Status::Ok());
  const std::string others = untold_ == 1 ? "" : fmt::format(", and {} more", untold_ - 1);
  untold_ = 0;
  return std::move(first_untold_)
      .Annotate(fmt::format("the writers have lost step {}{}", first_untold_step_, others));
}

Status Run::PutViews(const std::string& field, DataType type, std::span<const BoxView> views) {
  return Guarded([&]() -> Status {
    QUARRY_RETURN_IF_ERROR(
        Agree(Call::kPut, insitu::CheckPut(setup_.declaration, boxes_, open(), field, type, views), field));
    const Timer timer(&seconds_.copying);
    const std::size_t number = insitu::FieldNumber(setup_.declaration, field);
    staging_->Copy(place(), number, views);
    step_->put.push_back(number);
    return Status::Ok();
  });
}

Status Run::Finish(const insitu::OpenStep& step) {
  broken_ = HandOver(step);
  return broken_;
}

/// All ranks send their samples before the writers hear of the step: the writers never wait for samples that
/// do not come.
Status Run::HandOver(const insitu::OpenStep& step) {
  const int tag = internal::DatasetTag(number_);
  QUARRY_RETURN_IF_ERROR(writer::OnEveryRank(comm_, [&] {
    return staging_->Send(place(), step.put, transport_.message_bytes, link_->all, writer_, tag);
  }));
  QUARRY_RETURN_IF_ERROR(writer::OnRoot(comm_, [&] {
    std::string command = internal::Encode(internal::StepCommand{number_, step.number, step.time, step.put});
    return staging_->SendCommand(place(), std::move(command), link_->all, link_->first_writer(),
                                 internal::kCommandTag);
  }));
  ++handed_over_;
  most_in_flight_ = std::max(most_in_flight_, in_flight());
  return Status::Ok();
}

/// On rank 0: waits for all outstanding answers, and the one to the closing.
Result<std::vector<Answer>> Run::FinishAtWriters(double waiting) {
  std::vector<Answer> answers;
  const auto more = [&]() -> Status {
    QUARRY_ASSIGN_OR_RETURN(const std::vector<Answer> some, ReceiveAnswers(true));
    answers.insert(answers.end(), some.begin(), some.end());
    return Status::Ok();
  };
  while (answered_ + answers.size() < handed_over_) QUARRY_RETURN_IF_ERROR(more());
  QUARRY_RETURN_IF_ERROR(internal::SendText(link_->all, link_->first_writer(), internal::kCommandTag,
                                            internal::Encode(internal::CloseCommand{number_, waiting})));
  QUARRY_RETURN_IF_ERROR(more());
  return answers;
}

Status Run::Close() {
  return Guarded([&]() -> Status {
    if (comm_ == MPI_COMM_NULL) return FailedPrecondition("the dataset is closed; open it again");
    const Timer timer(&seconds_.closing);
    Status status = agreement_.Reach(Call::kClose, insitu::CheckClose(open(), setup_.path));
    if (agreement_.broken().ok()) {
      Status shared = broken_;
      const Result<double> waiting = writer::MaxOverRanks(comm_, seconds_.waiting);  // a number for the log
      const Status answers = ShareAnswers(root() ? FinishAtWriters(waiting.ok() ? *waiting : seconds_.waiting)
                                                 : std::vector<Answer>());
      for (Status next : {std::move(shared), answers, ended_, TakeLosses(), closed_}) {
        if (status.ok()) status = std::move(next);
      }
    } else if (root()) {
      // The ranks cannot work together any more; the writers must not suffer from that.
      const Status finished = quarry::internal::ToStatus(FinishAtWriters(seconds_.waiting));
      (void)finished;  // an earlier error matters more
    }
    Release();
    return status;
  });
}

void Run::Release() {
  if (comm_ == MPI_COMM_NULL) return;
  step_.reset();
  if (staging_ && (!broken_.ok() || redistribute::CannotAgree(agreement_.broken()))) {
    // The memory is kept when a step has not left on every rank: MPI may still read it, as its messages are
    // not received.
    (void)staging_.release();
  } else if (staging_) {
    for (std::size_t p = 0; p < staging_->places(); ++p) {
      const Status left = staging_->Wait(p);
      (void)left;  // the answers tell whether it has arrived
    }
  }
  staging_.reset();
  agreement_.Free(&comm_);
  link_.reset();
}

}  // namespace

Result<std::unique_ptr<Dataset>> Dataset::Open(const Roles& roles, MPI_Comm comm, const Setup& setup,
                                               const std::vector<OwnedBox>& boxes, const Transport& transport,
                                               const Status& found) {
  QUARRY_RETURN_IF_ERROR(insitu::CheckCommunicator(comm));
  if (roles.writes())
    return FailedPrecondition("this rank is a writer; call Serve, and open datasets elsewhere");
  QUARRY_ASSIGN_OR_RETURN(std::vector<int> ranks, RanksInJob(comm, *roles.link_));
  return insitu::OpenCollectively<Dataset, Run>(
      comm, [&](MPI_Comm own) { return std::make_unique<Run>(roles.link_, own, setup, boxes, transport); },
      [&](Run* run) { return run->Start(std::move(ranks), found); });
}

}  // namespace quarry::intransit
