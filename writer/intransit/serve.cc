#include <algorithm>
#include <array>
#include <list>
#include <map>

#include "quarry/insitu.h"
#include "quarry/intransit_serve.h"
#include "writer/insitu/collective.h"
#include "writer/intransit/delivery.h"
#include "writer/intransit/groups.h"
#include "writer/intransit/link.h"
#include "writer/intransit/protocol.h"
#include "writer/intransit/staging.h"
#include "writer/pipeline/comm.h"
#include "writer/redistribute/mpi_status.h"

namespace quarry::intransit {
namespace {

using internal::Answer;
using redistribute::BoxView;
using writer::Guarded;

/// Returns the result of the work, and adds its time to `seconds`.
template <typename Work>
auto Timed(double* seconds, Work work) {
  const writer::Timer timer(seconds);
  return work();
}

/// A rank of the simulation that sends to this writer.
struct Source {
  int rank = 0;  ///< in Link::all
  std::int64_t samples = 0;
};

/// A dataset that is being written.
struct Session {
  int number = 0;
  insitu::Setup setup;
  int root = 0;  ///< that gives the commands, in Link::all
  std::uint64_t message_bytes = 0;
  std::vector<Source> sources;
  std::vector<insitu::OwnedBox> boxes;  ///< boxes of all sources
  Bytes buffer;                         ///< a field of all sources
  /// Set once samples did not arrive: later ones cannot be told apart, so all later steps are lost.
  Status broken;
  std::unique_ptr<insitu::Dataset> dataset;      ///< null where nothing is written
  std::unique_ptr<internal::Delivery> delivery;  ///< null without consumers

  std::size_t SampleBytes(std::size_t field) const { return SizeOf(setup.declaration.fields[field].type); }
};

/// An answer on its way.
struct SentAnswer {
  std::string text;
  MPI_Request request = MPI_REQUEST_NULL;
};

class Server {
 public:
  Server(const internal::Link& link, const ServeOptions& options, MPI_Comm comm)
      : link_(link), options_(options), comm_(comm), rank_(writer::Rank(comm)) {}

  Status Run() {
    ended_ = CheckOptions();
    QUARRY_RETURN_IF_ERROR(redistribute::CannotAgree(ended_) ? ended_ : Status::Ok());
    for (;;) {
      QUARRY_ASSIGN_OR_RETURN(const internal::Command command,
                              Timed(&served_.idle_seconds, [&] { return NextCommand(); }));
      if (std::holds_alternative<internal::FinishCommand>(command)) break;
      QUARRY_RETURN_IF_ERROR(std::visit([&](const auto& c) { return Do(c); }, command));
    }
    for (SentAnswer& answer : answers_) QUARRY_MPI(MPI_Wait, &answer.request, MPI_STATUS_IGNORE);
    return ended_;
  }

  const Served& served() const { return served_; }

 private:
  /// Even wrong options do not end a writer before the simulation has ended: it would wait for ever.
  Status CheckOptions() const {
    const Consumer& consumer = options_.consumer;
    Status local;
    if (consumer.present() && !(consumer.needs && consumer.consume)) {
      local = InvalidArgument(
          "a consumer needs two functions, one for its needs and one that consumes; give both");
    } else if (!consumer.present() && !options_.writes) {
      local = InvalidArgument("the steps are neither written nor consumed; write them, or give a consumer");
    }
    QUARRY_RETURN_IF_ERROR(writer::AgreeOnStatus(comm_, local));
    const double kind = (consumer.present() ? 1 : 0) + (options_.writes ? 2 : 0);
    std::array<double, 2> most = {kind, -kind};
    QUARRY_RETURN_IF_ERROR(writer::MaxOverRanks(comm_, most));
    if (most[0] == -most[1]) return Status::Ok();
    return InvalidArgument(
        "some writers have a consumer, or write, and others do not; give all of them the same, and needs "
        "without boxes where there is nothing to consume");
  }

  /// The next command for all writers; the end when every simulation rank has said so.
  Result<internal::Command> NextCommand() {
    const auto receive = [&]() -> Result<std::string> {
      for (;;) {
        QUARRY_ASSIGN_OR_RETURN(internal::Received received,
                                internal::ReceiveText(link_.all, MPI_ANY_SOURCE, internal::kCommandTag));
        QUARRY_ASSIGN_OR_RETURN(const internal::Command command, internal::DecodeCommand(received.text));
        const bool finishes = std::holds_alternative<internal::FinishCommand>(command);
        if (!finishes || ++finished_ == link_.simulation_ranks) return std::move(received.text);
      }
    };
    QUARRY_ASSIGN_OR_RETURN(const std::string text, writer::TextOfRoot(comm_, receive));
    return internal::DecodeCommand(text);
  }

  Status Do(const internal::OpenCommand& open) {
    Session session;
    session.number = next_number_++;
    Status status = ended_;
    if (status.ok()) status = writer::OnEveryRank(comm_, [&] { return Prepare(open, &session); });
    if (status.ok()) status = PrepareDelivery(&session);
    if (status.ok() && options_.writes) {
      auto dataset = insitu::Dataset::Open(comm_, session.setup, session.boxes);
      status = dataset.status();
      if (dataset.ok()) session.dataset = *std::move(dataset);
    }
    if (status.ok()) {
      ++served_.datasets;
      buffer_bytes_ += session.buffer.size();
      served_.buffer_bytes = std::max(served_.buffer_bytes, buffer_bytes_);
      consumer_bytes_ += session.delivery ? session.delivery->bytes() : 0;
      served_.consumer_bytes = std::max(served_.consumer_bytes, consumer_bytes_);
      sessions_.emplace(session.number, std::move(session));
    }
    return Tell(open.ranks.at(0), internal::kOpenedTag, {next_number_ - 1, std::nullopt, std::move(status)});
  }

  Status PrepareDelivery(Session* session) {
    if (!options_.consumer.present()) return Status::Ok();
    auto delivery = internal::Delivery::Prepare(comm_, session->setup, session->boxes, options_.consumer);
    if (!delivery.ok()) return End(delivery.status());
    session->delivery = *std::move(delivery);
    return Status::Ok();
  }

  /// Ends writing and consuming: the error is that of every later step and opening.
  Status End(const Status& error) {
    if (ended_.ok()) ended_ = error;
    return error;
  }

  /// Allocates all memory for samples of this dataset before the dataset is touched. @local
  Status Prepare(const internal::OpenCommand& open, Session* session) const {
    QUARRY_ASSIGN_OR_RETURN(session->setup, insitu::DecodeSetup(std::as_bytes(std::span(open.setup))));
    session->root = open.ranks.at(0);
    session->message_bytes = open.message_bytes;
    std::int64_t samples = 0;
    const RankRange group = SimulationRanksOf(rank_, static_cast<int>(open.ranks.size()), link_.writer_ranks);
    for (int r = group.begin; r < group.end; ++r) {
      const auto n = static_cast<std::size_t>(r);
      Source source{open.ranks[n], 0};
      for (const Box& box : open.owned.at(n)) {
        session->boxes.push_back(insitu::OwnedBox::Dense(box));
        source.samples += box.volume();
      }
      samples += source.samples;
      session->sources.push_back(source);
    }
    std::size_t most = 0;
    for (std::size_t f = 0; f < session->setup.declaration.fields.size(); ++f)
      most = std::max(most, session->SampleBytes(f));
    session->buffer.resize(static_cast<std::size_t>(samples) * most);
    return Status::Ok();
  }

  Status Do(const internal::StepCommand& step) {
    Session& session = sessions_.at(step.dataset);
    Status arrived = ended_.ok() ? session.broken : ended_;
    Status status = arrived;
    if (status.ok()) status = Announce(session, step.step);
    const auto number = static_cast<std::int64_t>(step.step);
    if (status.ok() && session.dataset)
      status = Writing([&] { return session.dataset->BeginStep(number, step.time); });
    for (const std::size_t field : step.fields) {
      // Receives samples of a lost step too: the simulation must get rid of them.
      const Status received = Timed(&served_.receiving_seconds,
                                    [&] { return Guarded([&] { return Receive(&session, field); }); });
      const Status agreed = writer::AgreeOnStatus(comm_, received);
      if (session.broken.ok()) session.broken = agreed;
      if (status.ok()) status = agreed;
      if (status.ok() && session.dataset) status = Writing([&] { return Put(session, field); });
      if (arrived.ok()) arrived = agreed;
      if (arrived.ok()) arrived = Deliver(session, field);
    }
    if (session.dataset) status = FinishStep(session, std::move(status));
    Consume(step, session, arrived);
    return Tell(session.root, internal::DatasetTag(step.dataset),
                {step.dataset, step.step, std::move(status)});
  }

  /// Publishes the step, or drops the rest of it.
  Status FinishStep(const Session& session, Status status) {
    if (status.ok()) {
      status = Writing([&] { return session.dataset->EndStep(); });
      for (std::string& warning : session.dataset->TakeWarnings())
        served_.warnings.push_back(std::move(warning));
    } else {
      const Status abandoned = session.dataset->AbandonStep();
      (void)abandoned;  // most errors have ended the step already
    }
    const bool published = status.ok() || status.code() == StatusCode::kUnknown;
    ++(published ? served_.steps : served_.lost_steps);
    return status;
  }

  Status Deliver(const Session& session, std::size_t field) {
    if (!session.delivery) return Status::Ok();
    const std::vector<BoxView> views = Received(session, field);
    return Timed(&served_.delivering_seconds, [&] { return session.delivery->Deliver(field, views); });
  }

  /// @param arrived  an error if samples have not arrived: consumers that missed a step would not know it
  void Consume(const internal::StepCommand& step, const Session& session, const Status& arrived) {
    if (!session.delivery || !ended_.ok()) return;
    ended_ = !arrived.ok() ? arrived : Timed(&served_.consuming_seconds, [&] {
      return session.delivery->Consume(step.step, step.time);
    });
    if (ended_.ok()) ++served_.consumed_steps;
  }

  Status Announce(const Session& session, std::uint64_t step) {
    if (!options_.before_step) return Status::Ok();
    return writer::OnEveryRank(comm_, [&] {
      options_.before_step(session.setup.path, step);
      return Status::Ok();
    });
  }

  template <typename Work>
  Status Writing(Work work) {
    return Timed(&served_.writing_seconds, work);
  }

  /// Receives a field of all sources into the buffer, one source after the other. After an error it still
  /// receives the other messages.
  Status Receive(Session* session, std::size_t field) {
    const int tag = internal::DatasetTag(session->number);
    std::vector<MPI_Request> requests;
    Status first_error;
    std::byte* next = session->buffer.data();
    for (const Source& source : session->sources) {
      const std::uint64_t bytes = static_cast<std::uint64_t>(source.samples) * session->SampleBytes(field);
      const auto receive = [&](std::uint64_t offset, int size) -> Status {
        requests.push_back(MPI_REQUEST_NULL);
        const Status posted = redistribute::MpiStatus(
            MPI_Irecv(next + offset, size, MPI_BYTE, source.rank, tag, link_.all, &requests.back()),
            "MPI_Irecv");
        if (!posted.ok()) requests.back() = MPI_REQUEST_NULL;
        if (first_error.ok()) first_error = posted;
        return Status::Ok();
      };
      QUARRY_RETURN_IF_ERROR(internal::ForEachMessage(bytes, session->message_bytes, receive));
      next += bytes;
    }
    const Status waited = redistribute::WaitForAll(requests);
    return first_error.ok() ? waited : first_error;
  }

  /// Where the samples of a field lie, for each box of the sources.
  static std::vector<BoxView> Received(const Session& session, std::size_t field) {
    std::vector<BoxView> views;
    const std::byte* next = session.buffer.data();
    for (const insitu::OwnedBox& box : session.boxes) {
      views.push_back(BoxView::Dense(next, box.box, session.SampleBytes(field)));
      next += static_cast<std::size_t>(box.box.volume()) * session.SampleBytes(field);
    }
    return views;
  }

  Status Put(const Session& session, std::size_t field) const {
    const insitu::Field& declared = session.setup.declaration.fields[field];
    return session.dataset->PutViews(declared.name, declared.type, Received(session, field));
  }

  Status Do(const internal::CloseCommand& close) {
    const auto found = sessions_.find(close.dataset);
    Session& session = found->second;
    Status status = session.dataset ? Writing([&] { return session.dataset->Close(); }) : Status::Ok();
    served_.simulation_waiting_seconds += close.waiting_seconds;
    const int root = session.root;
    buffer_bytes_ -= session.buffer.size();
    consumer_bytes_ -= session.delivery ? session.delivery->bytes() : 0;
    sessions_.erase(found);
    return Tell(root, internal::DatasetTag(close.dataset), {close.dataset, std::nullopt, std::move(status)});
  }

  Status Do(const internal::FinishCommand&) { return Status::Ok(); }

  /// Does not wait: the receiving rank may itself be waiting for the writers to take its next command.
  /// @errors the same on every writer
  Status Tell(int simulation_rank, int tag, Answer answer) {
    answer.ended = ended_;
    for (const Status& status : {answer.status, answer.ended})
      QUARRY_RETURN_IF_ERROR(redistribute::CannotAgree(status) ? status : Status::Ok());
    return writer::OnRoot(comm_, [&] { return SendAnswer(simulation_rank, tag, std::move(answer)); });
  }

  Status SendAnswer(int simulation_rank, int tag, Answer answer) {
    while (!answers_.empty()) {
      int arrived = 0;
      QUARRY_MPI(MPI_Test, &answers_.front().request, &arrived, MPI_STATUS_IGNORE);
      if (arrived == 0) break;
      answers_.pop_front();
    }
    SentAnswer& sent = answers_.emplace_back();
    sent.text = internal::Encode({std::move(answer)});
    QUARRY_MPI(MPI_Isend, sent.text.data(), static_cast<int>(sent.text.size()), MPI_BYTE, simulation_rank,
               tag, link_.all, &sent.request);
    return Status::Ok();
  }

  const internal::Link& link_;
  const ServeOptions& options_;
  MPI_Comm comm_;
  const int rank_;
  int finished_ = 0;  ///< simulation ranks that have finished; on rank 0
  int next_number_ = 0;
  std::map<int, Session> sessions_;
  std::list<SentAnswer> answers_;   ///< oldest first
  std::uint64_t buffer_bytes_ = 0;  ///< buffers of all sessions now
  std::uint64_t consumer_bytes_ = 0;
  Status ended_;  ///< the error that ended everything; the same on every writer
  Served served_;
};

}  // namespace

Result<Served> Serve(const Roles& roles, const ServeOptions& options) {
  if (!roles.writes()) {
    return FailedPrecondition(
        "this rank simulates; call Serve on the ranks for which roles.writes() is true");
  }
  QUARRY_ASSIGN_OR_RETURN(MPI_Comm comm, redistribute::DuplicateQuietly(roles.comm()));
  Served served;
  const Status status = Guarded([&] {
    Server server(*roles.link_, options, comm);
    const Status ran = server.Run();
    served = server.served();
    return ran;
  });
  if (!redistribute::CannotAgree(status)) MPI_Comm_free(&comm);
  QUARRY_RETURN_IF_ERROR(status);
  return served;
}

}  // namespace quarry::intransit
