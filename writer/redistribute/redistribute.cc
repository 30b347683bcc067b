#include "quarry/redistribute.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>

#include "writer/redistribute/copy_part.h"
#include "writer/redistribute/datatype.h"
#include "writer/redistribute/messages.h"
#include "writer/redistribute/mpi_status.h"
#include "writer/redistribute/schedules.h"

namespace quarry::redistribute {
namespace {

/// A duplicate of the caller's communicator that returns errors instead of ending the program.
class Communicator {
 public:
  static Result<Communicator> Duplicate(MPI_Comm comm) {
    int initialized = 0;
    int finalized = 0;
    MPI_Initialized(&initialized);
    MPI_Finalized(&finalized);
    if (initialized == 0 || finalized != 0)
      return InvalidArgument("MPI is not running; call MPI_Init before and MPI_Finalize after");
    if (comm == MPI_COMM_NULL)
      return InvalidArgument("the communicator is MPI_COMM_NULL; only its ranks may call");
    int inter = 0;
    QUARRY_MPI(MPI_Comm_test_inter, comm, &inter);
    if (inter != 0)
      return InvalidArgument("the communicator joins two groups; merge it with MPI_Intercomm_merge");
    Communicator own;
    QUARRY_ASSIGN_OR_RETURN(own.comm_, DuplicateQuietly(comm));
    Status status = MpiStatus(MPI_Comm_rank(own.comm_, &own.rank_), "MPI_Comm_rank");
    if (status.ok()) status = MpiStatus(MPI_Comm_size(own.comm_, &own.size_), "MPI_Comm_size");
    QUARRY_RETURN_IF_ERROR(AgreeOnStatus(own.comm_, status));
    return own;
  }

  Communicator() = default;
  Communicator(Communicator&& other) noexcept
      : comm_(std::exchange(other.comm_, MPI_COMM_NULL)), rank_(other.rank_), size_(other.size_) {}
  Communicator& operator=(Communicator&&) = delete;
  ~Communicator() {
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (comm_ != MPI_COMM_NULL && finalized == 0) MPI_Comm_free(&comm_);
  }

  MPI_Comm get() const { return comm_; }
  int rank() const { return rank_; }
  int size() const { return size_; }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 1;
};

Status CheckSame(const Communicator& comm, const Description& description) {
  using Numbers = std::array<std::int64_t, 6>;
  const auto& dims = description.dims;
  const Numbers mine = {dims[0],
                        dims[1],
                        dims[2],
                        static_cast<std::int64_t>(description.sample_bytes),
                        static_cast<std::int64_t>(description.method),
                        description.batch};
  Numbers first = mine;
  QUARRY_MPI(MPI_Bcast, first.data(), static_cast<int>(first.size()), MPI_INT64_T, 0, comm.get());
  if (mine == first) return Status::Ok();
  return InvalidArgument(
      "rank {} describes {} samples of {} bytes, method {}, batch {}, but rank 0 {} samples of {} bytes, "
      "method {}, "
      "batch {}; all ranks must describe the same",
      comm.rank(), ToString(dims), mine[3], mine[4], mine[5], ToString(Index3{first[0], first[1], first[2]}),
      first[3], first[4], first[5]);
}

Status CheckDescription(const Description& description) {
  QUARRY_RETURN_IF_ERROR(CheckDomain(description.dims, description.sample_bytes));
  if (description.batch < 0)
    return InvalidArgument("{} parts in a message; give 0 for all of a rank pair, or at least 1",
                           description.batch);
  const int method = static_cast<int>(description.method);
  if (method < static_cast<int>(Method::kAutomatic) || method > static_cast<int>(Method::kAlltoallw))
    return InvalidArgument("{} is not a method; give 0 (automatic), 1 (point to point) or 2 (MPI_Alltoallw)",
                           method);
  return Datatype::Sample(description.sample_bytes).status();
}

constexpr std::size_t kNumbersOfBox = 6;

/// Owned boxes, then needed boxes: begin x, y, z, end x, y, z of each.
std::vector<std::int64_t> Flatten(const std::vector<Box>& owned, const std::vector<Box>& needed) {
  std::vector<std::int64_t> numbers;
  for (const std::vector<Box>* boxes : {&owned, &needed}) {
    for (const Box& box : *boxes) {
      numbers.insert(numbers.end(), box.begin.begin(), box.begin.end());
      numbers.insert(numbers.end(), box.end.begin(), box.end.end());
    }
  }
  return numbers;
}

std::vector<Box> TakeBoxes(std::int64_t count, const std::int64_t** next) {
  std::vector<Box> boxes(static_cast<std::size_t>(count));
  for (Box& box : boxes) {
    std::copy(*next, *next + 3, box.begin.begin());
    std::copy(*next + 3, *next + 6, box.end.begin());
    *next += kNumbersOfBox;
  }
  return boxes;
}

Result<Layout> GatherLayout(const Communicator& comm, const Index3& dims, const std::vector<Box>& owned,
                            const std::vector<Box>& needed) {
  const std::int64_t mine[2] = {static_cast<std::int64_t>(owned.size()),
                                static_cast<std::int64_t>(needed.size())};
  const auto ranks = static_cast<std::size_t>(comm.size());
  std::vector<std::int64_t> boxes(2 * ranks);
  QUARRY_RETURN_IF_ERROR(AgreeOnStatus(
      comm.get(), MpiStatus(MPI_Allgather(mine, 2, MPI_INT64_T, boxes.data(), 2, MPI_INT64_T, comm.get()),
                            "MPI_Allgather")));
  std::vector<int> counts(ranks);
  std::vector<int> offsets(ranks);
  std::int64_t total = 0;
  for (std::size_t r = 0; r < ranks; ++r) {
    const std::int64_t count = (boxes[2 * r] + boxes[2 * r + 1]) * static_cast<std::int64_t>(kNumbersOfBox);
    if (total + count > std::numeric_limits<int>::max())
      return ResourceExhausted(
          "ranks 0 to {} own and need more than {} boxes, which MPI cannot gather; join boxes", r,
          std::numeric_limits<int>::max() / kNumbersOfBox);
    offsets[r] = static_cast<int>(total);
    counts[r] = static_cast<int>(count);
    total += count;
  }
  const std::vector<std::int64_t> numbers = Flatten(owned, needed);
  std::vector<std::int64_t> all(static_cast<std::size_t>(total));
  QUARRY_RETURN_IF_ERROR(AgreeOnStatus(
      comm.get(),
      MpiStatus(MPI_Allgatherv(numbers.data(), static_cast<int>(numbers.size()), MPI_INT64_T, all.data(),
                               counts.data(), offsets.data(), MPI_INT64_T, comm.get()),
                "MPI_Allgatherv")));
  Layout layout{dims, Ownership(ranks), Ownership(ranks)};
  const std::int64_t* next = all.data();
  for (std::size_t r = 0; r < ranks; ++r) {
    layout.owned[r] = TakeBoxes(boxes[2 * r], &next);
    layout.needed[r] = TakeBoxes(boxes[2 * r + 1], &next);
  }
  return layout;
}

template <typename View>
Status CheckViews(const std::vector<Box>& boxes, std::span<const View> views, const char* verb, int rank) {
  if (views.size() != boxes.size())
    return InvalidArgument(
        "rank {} {} {} boxes but gives arrays for {}; give one for each, in the order of the mapping", rank,
        verb, boxes.size(), views.size());
  for (std::size_t b = 0; b < boxes.size(); ++b) {
    if (views[b].data == nullptr && !boxes[b].empty())
      return InvalidArgument("rank {} gives a null array for {}, box {} that it {}", rank, ToString(boxes[b]),
                             b, verb);
  }
  return Status::Ok();
}

/// Arguments of MPI_Alltoallw for one side: nothing for all ranks but those set.
class Slots {
 public:
  explicit Slots(int ranks)
      : counts_(static_cast<std::size_t>(ranks), 0),
        offsets_(counts_.size(), 0),
        types_(counts_.size(), MPI_BYTE) {}

  void Set(int rank, MPI_Datatype type) {
    counts_[static_cast<std::size_t>(rank)] = 1;
    types_[static_cast<std::size_t>(rank)] = type;
  }
  void Clear(int rank) {
    counts_[static_cast<std::size_t>(rank)] = 0;
    types_[static_cast<std::size_t>(rank)] = MPI_BYTE;
  }

  const int* counts() const { return counts_.data(); }
  const int* offsets() const { return offsets_.data(); }
  const MPI_Datatype* types() const { return types_.data(); }

 private:
  std::vector<int> counts_;
  std::vector<int> offsets_;
  std::vector<MPI_Datatype> types_;
};

}  // namespace

struct Redistribution::State {
  State(Communicator communicator, const Description& what)
      : comm(std::move(communicator)), description(what) {}

  /// @param messages  of all ranks and rounds together, for kAutomatic
  void SetSchedule(RankSchedule new_schedule, std::int64_t messages);
  Status Bind(std::span<const BoxView> owned, std::span<const MutableBoxView> needed);
  Status SendAndReceive();
  Status AllToAll();
  void CopyWhatStays();

  Communicator comm;
  Description description;
  std::optional<RankSchedule> schedule;
  Method method = Method::kPointToPoint;
  std::vector<Message> sends;
  std::vector<Message> receives;

  // The arrays of the last Exchange, and the types of the messages there.
  bool bound = false;
  std::vector<BoxView> owned_views;
  std::vector<MutableBoxView> needed_views;
  std::vector<Datatype> send_types;
  std::vector<Datatype> receive_types;

  double seconds = 0;  // seconds of the last Exchange
};

void Redistribution::State::SetSchedule(RankSchedule new_schedule, std::int64_t messages) {
  bound = false;
  send_types.clear();
  receive_types.clear();
  schedule = std::move(new_schedule);
  method = description.method;
  if (method == Method::kAutomatic) {
    const double slots = static_cast<double>(schedule->rounds) * comm.size() * (comm.size() - 1);
    const bool dense = slots > 0 && static_cast<double>(messages) >= slots / 2;
    method = dense ? Method::kAlltoallw : Method::kPointToPoint;
  }
  if (method == Method::kAlltoallw) {
    sends = GroupByRound(schedule->sends, &Part::target);
    receives = GroupByRound(schedule->receives, &Part::source);
    return;
  }
  sends = GroupByPeer(schedule->sends, &Part::target, description.batch);
  receives = GroupByPeer(schedule->receives, &Part::source, description.batch);
  // Every rank begins with the rank after it, so that not all of them send to the same one at first.
  const auto after = std::find_if(sends.begin(), sends.end(),
                                  [&](const Message& message) { return message.peer > schedule->rank; });
  std::rotate(sends.begin(), after, sends.end());
}

Status Redistribution::State::Bind(std::span<const BoxView> owned, std::span<const MutableBoxView> needed) {
  if (!schedule)
    return FailedPrecondition("rank {} exchanges without a mapping; call Map before", comm.rank());
  QUARRY_RETURN_IF_ERROR(CheckViews(schedule->owned, owned, "owns", comm.rank()));
  QUARRY_RETURN_IF_ERROR(CheckViews(schedule->needed, needed, "needs", comm.rank()));
  if (bound && std::ranges::equal(owned, owned_views) && std::ranges::equal(needed, needed_views))
    return Status::Ok();
  bound = false;
  owned_views.assign(owned.begin(), owned.end());
  needed_views.assign(needed.begin(), needed.end());
  send_types.clear();
  receive_types.clear();
  const std::vector<BoxView> targets(needed.begin(), needed.end());
  for (const Message& message : sends) {
    const auto parts = std::span(schedule->sends).subspan(message.first, message.last - message.first);
    QUARRY_ASSIGN_OR_RETURN(
        Datatype type, TypeOf(parts, schedule->owned, &Part::owned_box, owned, description.sample_bytes));
    send_types.push_back(std::move(type));
  }
  for (const Message& message : receives) {
    const auto parts = std::span(schedule->receives).subspan(message.first, message.last - message.first);
    QUARRY_ASSIGN_OR_RETURN(
        Datatype type, TypeOf(parts, schedule->needed, &Part::needed_box, targets, description.sample_bytes));
    receive_types.push_back(std::move(type));
  }
  bound = true;
  return Status::Ok();
}

void Redistribution::State::CopyWhatStays() {
  for (const Part& part : schedule->copies)
    CopyPart(owned_views[part.owned_box], schedule->owned[part.owned_box], needed_views[part.needed_box],
             schedule->needed[part.needed_box], part.box, description.sample_bytes);
}

Status Redistribution::State::SendAndReceive() {
  constexpr int kTag = 0;  // messages between two ranks arrive in the order of posting
  std::vector<MPI_Request> requests(receives.size() + sends.size(), MPI_REQUEST_NULL);
  Status first_error;
  // After an error the other messages are still posted: their partners wait for them.
  const auto note = [&](Status status) {
    if (first_error.ok()) first_error = std::move(status);
  };
  for (std::size_t m = 0; m < receives.size(); ++m)
    note(MpiStatus(
        MPI_Irecv(MPI_BOTTOM, 1, receive_types[m].get(), receives[m].peer, kTag, comm.get(), &requests[m]),
        "MPI_Irecv"));
  for (std::size_t m = 0; m < sends.size(); ++m)
    note(MpiStatus(MPI_Isend(MPI_BOTTOM, 1, send_types[m].get(), sends[m].peer, kTag, comm.get(),
                             &requests[receives.size() + m]),
                   "MPI_Isend"));
  CopyWhatStays();
  note(WaitForAll(requests));
  return first_error;
}

Status Redistribution::State::AllToAll() {
  Status first_error;
  Slots out(comm.size());
  Slots in(comm.size());
  std::size_t s = 0;
  std::size_t r = 0;
  for (std::size_t round = 0; round < schedule->rounds; ++round) {
    const std::size_t first_send = s;
    const std::size_t first_receive = r;
    for (; s < sends.size() && sends[s].round == round; ++s) out.Set(sends[s].peer, send_types[s].get());
    for (; r < receives.size() && receives[r].round == round; ++r)
      in.Set(receives[r].peer, receive_types[r].get());
    const int code = MPI_Alltoallw(MPI_BOTTOM, out.counts(), out.offsets(), out.types(), MPI_BOTTOM,
                                   in.counts(), in.offsets(), in.types(), comm.get());
    if (first_error.ok()) first_error = MpiStatus(code, "MPI_Alltoallw");
    for (std::size_t m = first_send; m < s; ++m) out.Clear(sends[m].peer);
    for (std::size_t m = first_receive; m < r; ++m) in.Clear(receives[m].peer);
  }
  CopyWhatStays();
  return first_error;
}

Redistribution::Redistribution(std::unique_ptr<State> state) : state_(std::move(state)) {}
Redistribution::~Redistribution() = default;
Redistribution::Redistribution(Redistribution&&) noexcept = default;
Redistribution& Redistribution::operator=(Redistribution&&) noexcept = default;

Result<Redistribution> Redistribution::Describe(MPI_Comm comm, const Description& description) {
  QUARRY_ASSIGN_OR_RETURN(Communicator own, Communicator::Duplicate(comm));
  Status status = CheckSame(own, description);
  if (status.ok()) status = CheckDescription(description);
  QUARRY_RETURN_IF_ERROR(AgreeOnStatus(own.get(), status));
  return Redistribution(std::make_unique<State>(std::move(own), description));
}

Status Redistribution::Map(const std::vector<Box>& owned, const std::vector<Box>& needed) {
  State& state = *state_;
  state.schedule.reset();
  const int rank = state.comm.rank();
  QUARRY_ASSIGN_OR_RETURN(const Layout layout,
                          GatherLayout(state.comm, state.description.dims, owned, needed));
  QUARRY_RETURN_IF_ERROR(AgreeOnStatus(state.comm.get(), CheckBoxesOfRank(layout, rank)));
  QUARRY_RETURN_IF_ERROR(CheckComplete(layout));  // the same numbers and the same answer on every rank
  RankSchedule schedule = ScheduleForRank(layout, rank);
  const auto mine = static_cast<std::int64_t>(GroupByRound(schedule.sends, &Part::target).size());
  std::int64_t messages = 0;
  QUARRY_RETURN_IF_ERROR(AgreeOnStatus(
      state.comm.get(), MpiStatus(MPI_Allreduce(&mine, &messages, 1, MPI_INT64_T, MPI_SUM, state.comm.get()),
                                  "MPI_Allreduce")));
  state.SetSchedule(std::move(schedule), messages);
  return Status::Ok();
}

void Schedules::Use(RankSchedule schedule, Redistribution* redistribution) {
  redistribution->state_->SetSchedule(std::move(schedule), 0);
}

Status Redistribution::Exchange(std::span<const BoxView> owned, std::span<const MutableBoxView> needed) {
  State& state = *state_;
  QUARRY_RETURN_IF_ERROR(AgreeOnStatus(state.comm.get(), state.Bind(owned, needed)));
  const double start = MPI_Wtime();
  const Status status = state.method == Method::kAlltoallw ? state.AllToAll() : state.SendAndReceive();
  state.seconds = MPI_Wtime() - start;
  return AgreeOnStatus(state.comm.get(), status);
}

Status Redistribution::Agree(const Status& local) const { return AgreeOnStatus(state_->comm.get(), local); }

const RankSchedule* Schedules::Of(const Redistribution& redistribution) {
  const std::optional<RankSchedule>& schedule = redistribution.state_->schedule;
  return schedule ? &*schedule : nullptr;
}
Method Redistribution::method() const { return state_->method; }
std::int64_t Redistribution::messages_sent() const { return static_cast<std::int64_t>(state_->sends.size()); }
double Redistribution::seconds() const { return state_->seconds; }

}  // namespace quarry::redistribute
