// Consumers in transit over real ranks: every step arrives once at every consumer, in order, with the bytes
// that a serial computation has; steps in flight stay bounded while a consumer is slow; a consumer that fails
// ends all ranks with one message.
#include <gtest/gtest.h>
#include <mpi.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <stdexcept>

#include "quarry/intransit.h"
#include "tests/testing/make_dataset.h"
#include "writer/pipeline/comm.h"

namespace quarry::intransit {
namespace {

namespace fs = std::filesystem;
using insitu::ArrayOrder;

int WorldRank() { return writer::Rank(MPI_COMM_WORLD); }
int WorldSize() { return writer::Size(MPI_COMM_WORLD); }
void ExpectOk(const Status& status) { EXPECT_TRUE(status.ok()) << status.message(); }

/// Value of a sample: different at every position, in every step and field, and exact in every type.
template <typename T>
T SampleAt(const Index3& p, std::uint64_t step, std::size_t field) {
  return static_cast<T>((p[0] + 31 * p[1] + 17 * p[2] + 5 * static_cast<std::int64_t>(step) +
                         3 * static_cast<std::int64_t>(field)) %
                        251);
}

const std::vector<std::string> kFields = {"t", "u", "n", "c"};
constexpr DataType kTypes[] = {DataType::kFloat64, DataType::kFloat32, DataType::kInt16, DataType::kUint8};

/// The bytes of a box as a serial program has them: dense, x fastest.
Bytes Expected(const Box& box, std::uint64_t step, std::size_t field) {
  Bytes bytes;
  DispatchType(kTypes[field], [&]<typename T>(T) {
    for (auto z = box.begin[2]; z < box.end[2]; ++z) {
      for (auto y = box.begin[1]; y < box.end[1]; ++y) {
        for (auto x = box.begin[0]; x < box.end[0]; ++x) {
          const T sample = SampleAt<T>({x, y, z}, step, field);
          const auto* raw = reinterpret_cast<const std::byte*>(&sample);
          bytes.insert(bytes.end(), raw, raw + sizeof(T));
        }
      }
    }
  });
  return bytes;
}

Setup MakeSetup(const fs::path& path, const Index3& dims) {
  Setup setup;
  setup.path = path.string();
  setup.declaration.dims = dims;
  setup.declaration.patch = Index3{8, 8, 8};
  for (std::size_t f = 0; f < kFields.size(); ++f) {
    insitu::Field field;
    field.name = kFields[f];
    field.type = kTypes[f];
    field.lossless = true;
    setup.declaration.fields.push_back(field);
  }
  setup.pipeline.files = 1;
  return setup;
}

/// Slices across y, as in the paper: dense ones of different heights, some of them empty; or pieces of them
/// that lie z fastest in arrays with a halo.
std::vector<OwnedBox> Slices(MPI_Comm comm, const Index3& dims, bool in_pieces) {
  const std::int64_t rank = writer::Rank(comm);
  const std::int64_t size = writer::Size(comm);
  const auto cut = [&](std::int64_t i) { return dims[1] * i * i / (size * size); };
  const std::int64_t middle = dims[0] / 3;
  const Box left{{0, cut(rank), 0}, {middle, cut(rank + 1), dims[2]}};
  const Box right{{middle, cut(rank), 0}, {dims[0], cut(rank + 1), dims[2]}};
  if (!in_pieces) return {OwnedBox::Dense({left.begin, right.end})};
  const auto in_array = [](const Box& box) {
    const auto [x, y, z] = box.begin;
    const auto [ex, ey, ez] = box.end;
    return OwnedBox::InArray(box, {{x - 1, y, z - 2}, {ex, ey + 1, ez + 1}}, ArrayOrder::kZFastest);
  };
  return {in_array(right), in_array(left)};
}

/// Arrays of one field of this rank, as a simulation has them.
template <typename T>
Status PutField(Dataset* dataset, const std::vector<OwnedBox>& boxes, std::uint64_t step, std::size_t field) {
  std::vector<std::vector<T>> arrays;
  std::vector<const void*> addresses;
  for (const OwnedBox& owned : boxes) {
    arrays.emplace_back(static_cast<std::size_t>(owned.storage.volume()), static_cast<T>(77));
    const Box& box = owned.box;
    const Box& in = owned.storage;
    const Index3 shape = in.shape();
    for (auto z = box.begin[2]; z < box.end[2]; ++z) {
      for (auto y = box.begin[1]; y < box.end[1]; ++y) {
        for (auto x = box.begin[0]; x < box.end[0]; ++x) {
          const std::int64_t at =
              owned.array_order == ArrayOrder::kXFastest
                  ? (x - in.begin[0]) + shape[0] * ((y - in.begin[1]) + shape[1] * (z - in.begin[2]))
                  : (z - in.begin[2]) + shape[2] * ((y - in.begin[1]) + shape[1] * (x - in.begin[0]));
          arrays.back()[static_cast<std::size_t>(at)] = SampleAt<T>({x, y, z}, step, field);
        }
      }
    }
  }
  addresses.reserve(arrays.size());
  for (const auto& array : arrays) addresses.push_back(array.data());
  return dataset->Put(kFields[field], kTypes[field], addresses);
}

/// Field "n" is in even steps only.
bool HasField(std::uint64_t step, std::size_t field) { return kFields[field] != "n" || step % 2 == 0; }

Status WriteStep(Dataset* dataset, const std::vector<OwnedBox>& boxes, std::uint64_t step) {
  QUARRY_RETURN_IF_ERROR(
      dataset->BeginStep(static_cast<std::int64_t>(step), 0.25 * static_cast<double>(step)));
  for (std::size_t f = kFields.size(); f-- > 0;) {
    if (!HasField(step, f)) continue;
    QUARRY_RETURN_IF_ERROR(
        DispatchType(kTypes[f], [&]<typename T>(T) { return PutField<T>(dataset, boxes, step, f); }));
  }
  return dataset->EndStep();
}

/// A rectangle of a grid of rectangles as square as possible, with a layer of its neighbours: these overlap.
Box TileWithHalo(const Index3& dims, int rank, int ranks) {
  int columns = 1;
  for (int c = 1; c * c <= ranks; ++c) columns = ranks % c == 0 ? ranks / c : columns;
  const int rows = ranks / columns;
  const auto side = [](std::int64_t cells, int parts, int part) {
    return std::pair(std::max<std::int64_t>(0, cells * part / parts - 1),
                     std::min(cells, cells * (part + 1) / parts + 1));
  };
  const auto [x, ex] = side(dims[0], columns, rank % columns);
  const auto [y, ey] = side(dims[1], rows, rank / columns);
  return {{x, y, 0}, {ex, ey, dims[2]}};
}

/// Boxes of every kind: overlapping tiles, the whole grid, gaps, one sample, none, other ones for each field
/// and rank. Nobody needs "c" where there is one consumer; the last of several needs nothing at all.
std::vector<Need> NeedsOf(const Index3& dims, int rank, int ranks) {
  const Box tile = TileWithHalo(dims, rank, ranks);
  const Box grid{{0, 0, 0}, dims};
  const Box last{{dims[0] - 1, dims[1] - 1, dims[2] - 1}, dims};
  if (ranks > 1 && rank == ranks - 1) return {};
  std::vector<Need> needs = {{"u", {tile, Box{}, tile}}, {"n", {last}}};
  if (rank == 0) needs.push_back({"t", {grid}});
  if (rank == 1) needs.push_back({"t", {Box{{1, 1, 0}, {1, 5, 1}}}});
  if (rank % 2 == 1) needs.push_back({"c", {last, tile}});
  return needs;
}

/// Compares all that arrives with the serial reference, and notes the steps.
class Checker {
 public:
  Checker(MPI_Comm comm, const Index3& dims)
      : needs_(NeedsOf(dims, writer::Rank(comm), writer::Size(comm))), dims_(dims) {}

  Consumer consumer() {
    return {.needs = [this](const insitu::Setup& setup) -> Result<std::vector<Need>> {
              EXPECT_EQ(setup.declaration.dims, dims_);
              return needs_;
            },
            .consume = [this](const ArrivedStep& step) { return Check(step); }};
  }
  const std::vector<std::uint64_t>& steps() const { return steps_; }

 private:
  Status Check(const ArrivedStep& step) {
    steps_.push_back(step.number);
    EXPECT_EQ(step.time, 0.25 * static_cast<double>(step.number));
    std::size_t arrived = 0;
    for (const Need& need : needs_) {
      const auto f =
          static_cast<std::size_t>(std::find(kFields.begin(), kFields.end(), need.field) - kFields.begin());
      const ArrivedField* field = step.Find(need.field);
      EXPECT_EQ(field != nullptr, HasField(step.number, f)) << need.field << " in step " << step.number;
      if (field == nullptr) continue;
      ++arrived;
      EXPECT_EQ(field->type, kTypes[f]);
      EXPECT_EQ(field->boxes, need.boxes);
      for (std::size_t b = 0; b < need.boxes.size(); ++b) {
        const Bytes expected = Expected(need.boxes[b], step.number, f);
        EXPECT_TRUE(
            std::equal(expected.begin(), expected.end(), field->samples[b].begin(), field->samples[b].end()))
            << need.field << ", box " << b << " of step " << step.number;
      }
    }
    EXPECT_EQ(step.fields.size(), arrived);
    return Status::Ok();
  }

  std::vector<Need> needs_;
  Index3 dims_;
  std::vector<std::uint64_t> steps_;
};

/// Result of one rank when everything has ended.
struct Outcome {
  Status status;  ///< status of Serve, or of the simulation
  Served served;
};

class Consumers : public ::testing::Test {
 protected:
  void SetUp() override {
    if (WorldRank() == 0) folder_.emplace();
    path_ = *writer::BroadcastText(MPI_COMM_WORLD, folder_ ? folder_->path().string() : "");
  }
  void TearDown() override { MPI_Barrier(MPI_COMM_WORLD); }

  fs::path Path(const std::string& name) const { return fs::path(path_) / name; }

  /// Runs so many simulation ranks and consumers; the other ranks of this program wait.
  /// @param simulate   Status(const Roles&)
  /// @param options    ServeOptions(const Roles&)
  template <typename Simulate, typename Options>
  static Outcome Run(int simulation, int consumers, Simulate simulate, Options options) {
    const int ranks = simulation + consumers;
    MPI_Comm part = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, WorldRank() < ranks ? 0 : MPI_UNDEFINED, 0, &part);
    Outcome outcome;
    if (part != MPI_COMM_NULL) {
      {
        const auto roles = Roles::Split(part, consumers);
        EXPECT_TRUE(roles.ok()) << roles.status().message();
        if (roles->writes()) {
          const ServeOptions chosen = options(*roles);
          auto served = Serve(*roles, chosen);
          outcome.status = served.status();
          if (served.ok()) outcome.served = *served;
        } else {
          outcome.status = simulate(*roles);
        }
      }
      MPI_Comm_free(&part);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    return outcome;
  }

  /// How many ranks simulate where all ranks take part, and how many consume.
  static int Consuming() { return std::max(1, WorldSize() / 3); }
  static int Simulating() { return WorldSize() - Consuming(); }

  /// The same code and message on every rank of the program, with this in it.
  static void ExpectEverywhere(const Status& status, StatusCode code, const std::string& text) {
    EXPECT_EQ(static_cast<int>(status.code()), static_cast<int>(code)) << status.message();
    EXPECT_EQ(status.message(), *writer::BroadcastText(MPI_COMM_WORLD, status.message()));
    EXPECT_NE(status.message().find(text), std::string::npos) << status.message() << "\nwithout: " << text;
  }

  /// Writes these steps until an error comes.
  static Status WriteSteps(const Roles& roles, const fs::path& path, const std::vector<std::uint64_t>& steps,
                           const Index3& dims = {13, 9, 5}, bool in_pieces = false, int in_flight = 2) {
    const std::vector<OwnedBox> boxes = Slices(roles.comm(), dims, in_pieces);
    Transport transport;
    transport.steps_in_flight = in_flight;
    transport.message_bytes = 1013;
    QUARRY_ASSIGN_OR_RETURN(const auto dataset,
                            Dataset::Open(roles, roles.comm(), MakeSetup(path, dims), boxes, transport));
    for (const std::uint64_t step : steps) QUARRY_RETURN_IF_ERROR(WriteStep(dataset.get(), boxes, step));
    return dataset->Close();
  }

  static std::vector<std::uint64_t> StepsOnDisk(const fs::path& path) {
    const auto read = quarry::Dataset::Open(path);
    return read.ok() ? (*read)->steps() : std::vector<std::uint64_t>();
  }

 private:
  std::optional<testing::TemporaryFolder> folder_;
  std::string path_;
};

using ConsumersGet = Consumers;
using ConsumersFail = Consumers;

struct Split {
  int simulation;
  int consumers;
};

TEST_F(ConsumersGet, EveryStepOnceInOrderWithTheBytesOfASerialProgramOnNineSplits) {
  const std::vector<Split> splits = {{1, 1}, {1, 3}, {3, 1}, {2, 2}, {4, 3}, {3, 5}, {5, 4}, {2, 9}, {10, 4}};
  const std::vector<std::uint64_t> steps = {4, 3, 7, 12, 1};
  int taken = 0;
  for (const Split& split : splits) {
    if (split.simulation + split.consumers > WorldSize()) continue;
    ++taken;
    int run = 0;
    for (const Index3& dims : {Index3{23, 19, 1}, Index3{13, 11, 7}}) {
      const bool writes = run == 1;
      SCOPED_TRACE(fmt::format("{} + {} ranks, {}", split.simulation, split.consumers, ToString(dims)));
      const fs::path path = Path(fmt::format("{}-{}-{}.quarry", split.simulation, split.consumers, run));
      std::optional<Checker> checker;
      const Outcome outcome = Run(
          split.simulation, split.consumers,
          [&](const Roles& roles) { return WriteSteps(roles, path, steps, dims, run == 1, run + 1); },
          [&](const Roles& roles) {
            checker.emplace(roles.comm(), dims);
            ServeOptions options;
            options.consumer = checker->consumer();
            options.writes = writes;
            return options;
          });
      ExpectOk(outcome.status);
      if (checker) {
        EXPECT_EQ(checker->steps(), steps);
        EXPECT_EQ(outcome.served.consumed_steps, steps.size());
        EXPECT_EQ(outcome.served.steps, writes ? steps.size() : 0);
        EXPECT_EQ(outcome.served.lost_steps, 0u);
      }
      if (WorldRank() == 0) {
        EXPECT_EQ(fs::exists(path), writes);
        if (writes) {
          EXPECT_EQ(StepsOnDisk(path), (std::vector<std::uint64_t>{1, 3, 4, 7, 12}));
        }
      }
      ++run;
    }
  }
  EXPECT_EQ(taken, WorldSize() >= 14 ? 9 : WorldSize() >= 4 ? 4 : 1);
}

TEST_F(ConsumersGet, StepsOfSeveralDatasetsAndNeverThoseThatWereDropped) {
  const Index3 dims = {13, 9, 5};
  std::vector<std::string> seen;
  Run(
      Simulating(), Consuming(),
      [&](const Roles& roles) {
        const std::vector<OwnedBox> boxes = Slices(roles.comm(), dims, false);
        const auto a = Dataset::Open(roles, roles.comm(), MakeSetup("a", dims), boxes);
        const auto b = Dataset::Open(roles, roles.comm(), MakeSetup("b", dims), boxes);
        EXPECT_TRUE(a.ok() && b.ok());
        ExpectOk(WriteStep(a->get(), boxes, 1));
        ExpectOk((*b)->BeginStep(1));
        ExpectOk((*b)->AbandonStep());
        ExpectOk(WriteStep(b->get(), boxes, 2));
        ExpectOk(WriteStep(a->get(), boxes, 5));
        ExpectOk((*a)->Close());
        return (*b)->Close();
      },
      [&](const Roles&) {
        ServeOptions options;
        options.writes = false;
        options.consumer.needs = [](const insitu::Setup& setup) -> Result<std::vector<Need>> {
          if (setup.path == "b") return std::vector<Need>();
          return std::vector<Need>{{"u", {Box{{0, 0, 0}, {2, 3, 1}}}}};
        };
        options.consumer.consume = [&](const ArrivedStep& step) {
          const ArrivedField* u = step.Find("u");
          const float first = u == nullptr ? -1 : u->Samples<float>(0)[0];
          EXPECT_EQ(u == nullptr ? 0 : u->Samples<float>(0).size(), step.setup.path == "a" ? 6u : 0u);
          seen.push_back(fmt::format("{}{}: {}", step.setup.path, step.number, first));
          return Status::Ok();
        };
        return options;
      });
  if (WorldRank() < Simulating()) return;
  // 5 step + 3 field, at place 0.
  EXPECT_EQ(seen, (std::vector<std::string>{"a1: 8", "b2: -1", "a5: 28"}));
}

TEST_F(ConsumersGet, ASlowConsumerBoundsTheStepsInFlight) {
  constexpr int kTag = 77;
  for (const int limit : {1, 3}) {
    SCOPED_TRACE(limit);
    bool blocked = true;
    const Index3 dims = {13, 9, 5};
    const int last = WorldSize() - 1;
    std::vector<std::uint64_t> consumed;
    const Outcome outcome = Run(
        Simulating(), Consuming(),
        [&](const Roles& roles) {
          const auto open_gate = [&] {
            if (WorldRank() == 0) MPI_Send(nullptr, 0, MPI_BYTE, last, kTag, MPI_COMM_WORLD);
          };
          int handed_over = 0;
          std::vector<std::uint64_t> waited_for;
          Transport transport;
          transport.steps_in_flight = limit;
          transport.on_wait = [&](std::uint64_t step) {
            if (handed_over < limit) throw std::runtime_error("waits although there is a place");
            if (waited_for.empty()) open_gate();
            waited_for.push_back(step);
          };
          const std::vector<OwnedBox> boxes = Slices(roles.comm(), dims, false);
          const auto dataset = Dataset::Open(roles, roles.comm(), MakeSetup("slow", dims), boxes, transport);
          EXPECT_TRUE(dataset.ok()) << dataset.status().message();
          // The last consumer holds the first step; the simulation goes on until all places are taken.
          for (; handed_over < limit; ++handed_over)
            ExpectOk(WriteStep(dataset->get(), boxes, static_cast<std::uint64_t>(handed_over)));
          EXPECT_EQ((*dataset)->waits(), 0u);
          ExpectOk(WriteStep(dataset->get(), boxes, static_cast<std::uint64_t>(limit)));
          if (waited_for.empty()) open_gate();  // so that a failure ends too
          EXPECT_EQ(waited_for, std::vector<std::uint64_t>{static_cast<std::uint64_t>(limit)});
          EXPECT_EQ((*dataset)->most_in_flight(), static_cast<std::uint64_t>(limit));
          return (*dataset)->Close();
        },
        [&](const Roles&) {
          ServeOptions options;
          options.writes = false;
          options.consumer.needs = [&](const insitu::Setup&) { return std::vector<Need>{}; };
          options.consumer.consume = [&](const ArrivedStep& step) {
            if (std::exchange(blocked, false) && WorldRank() == last)
              MPI_Recv(nullptr, 0, MPI_BYTE, 0, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            consumed.push_back(step.number);
            return Status::Ok();
          };
          return options;
        });
    ExpectOk(outcome.status);
    if (WorldRank() < Simulating()) continue;
    EXPECT_EQ(consumed.size(), static_cast<std::size_t>(limit) + 1);
    EXPECT_GT(outcome.served.simulation_waiting_seconds, 0);
  }
}

TEST_F(ConsumersGet, ConsumersTalkToEachOtherOverTheirCommunicator) {
  std::vector<double> sums;
  const Index3 dims = {13, 9, 5};
  const Outcome outcome = Run(
      Simulating(), Consuming(),
      [&](const Roles& roles) {
        return WriteSteps(roles, "sum", {2, 3}, dims);
      },
      [&](const Roles& roles) {
        ServeOptions options;
        options.writes = false;
        options.consumer.needs = [comm = roles.comm(), dims](const insitu::Setup&) {
          const std::int64_t rank = writer::Rank(comm);
          const std::int64_t ranks = writer::Size(comm);
          return std::vector<Need>{
              {"t", {Box{{13 * rank / ranks, 0, 0}, {13 * (rank + 1) / ranks, dims[1], dims[2]}}}}};
        };
        options.consumer.consume = [&, comm = roles.comm()](const ArrivedStep& step) {
          double sum = 0;
          for (const double t : step.Find("t")->Samples<double>(0)) sum += t;
          MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, comm);
          sums.push_back(sum);
          return Status::Ok();
        };
        return options;
      });
  ExpectOk(outcome.status);
  if (WorldRank() < Simulating()) return;
  std::vector<double> expected;
  for (const std::uint64_t step : {2, 3}) {
    double sum = 0;
    for (std::int64_t i = 0; i < 13 * 9 * 5; ++i)
      sum += SampleAt<double>({i % 13, i / 13 % 9, i / 117}, step, 0);
    expected.push_back(sum);
  }
  EXPECT_EQ(sums, expected);
}

TEST_F(ConsumersGet, StepsThatTheDiskDoesNotTake) {
  const fs::path path = Path("full.quarry");
  std::vector<std::uint64_t> consumed;
  const auto limit_disk = [](bool full) {
    std::signal(SIGXFSZ, SIG_IGN);
    rlimit limit{};
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = full ? 512 : limit.rlim_max;
    setrlimit(RLIMIT_FSIZE, &limit);
  };
  const Outcome outcome = Run(
      Simulating(), Consuming(),
      [&](const Roles& roles) {
        const Index3 dims = {13, 9, 5};
        const std::vector<OwnedBox> boxes = Slices(roles.comm(), dims, false);
        Transport transport;
        transport.steps_in_flight = 1;
        const auto dataset = Dataset::Open(roles, roles.comm(), MakeSetup(path, dims), boxes, transport);
        EXPECT_TRUE(dataset.ok()) << dataset.status().message();
        ExpectOk(WriteStep(dataset->get(), boxes, 1));
        ExpectOk(WriteStep(dataset->get(), boxes, 2));
        const Status lost = (*dataset)->BeginStep(3);
        EXPECT_NE(lost.message().find("the writers have lost step 2: "), std::string::npos) << lost.message();
        ExpectOk(WriteStep(dataset->get(), boxes, 3));
        return (*dataset)->Close();
      },
      [&](const Roles&) {
        ServeOptions options;
        options.before_step = [&](const std::string&, std::uint64_t step) { limit_disk(step == 2); };
        options.consumer.needs = [](const insitu::Setup&) {
          return std::vector<Need>{{"u", {Box{{0, 0, 0}, {1, 1, 1}}}}};
        };
        options.consumer.consume = [&](const ArrivedStep& step) {
          limit_disk(false);
          EXPECT_EQ(step.fields.size(), 1u);
          consumed.push_back(step.number);
          return Status::Ok();
        };
        return options;
      });
  limit_disk(false);
  ExpectOk(outcome.status);
  if (WorldRank() == 0) {
    EXPECT_EQ(StepsOnDisk(path), (std::vector<std::uint64_t>{1, 3}));
  }
  if (WorldRank() < Simulating()) return;
  EXPECT_EQ(consumed, (std::vector<std::uint64_t>{1, 2, 3}));
  EXPECT_EQ(outcome.served.steps, 2u);
  EXPECT_EQ(outcome.served.lost_steps, 1u);
}

/// A consumer that works until a step, in which some ranks do something else.
ServeOptions FailsIn(std::uint64_t step, std::vector<std::uint64_t>* consumed,
                     const std::function<Status()>& fail) {
  ServeOptions options;
  options.consumer.needs = [](const insitu::Setup&) {
    return std::vector<Need>{{"u", {Box{{0, 0, 0}, {1, 1, 1}}}}};
  };
  options.consumer.consume = [=](const ArrivedStep& arrived) {
    consumed->push_back(arrived.number);
    return arrived.number == step ? fail() : Status::Ok();
  };
  return options;
}

TEST_F(ConsumersFail, AnErrorEndsAllRanksWithTheMessageOfTheLowest) {
  struct Case {
    std::function<Status(int rank)> fail;
    StatusCode code;
    std::string text;
  };
  const int last = Consuming() - 1;
  const std::vector<Case> cases = {
      {[=](int rank) { return rank == last ? NotFound("no colours") : Status::Ok(); }, StatusCode::kNotFound,
       fmt::format("consumer {} has failed in step 6 of \"picture\": no colours", last)},
      {[](int rank) { return InternalError("I am {}", rank); }, StatusCode::kInternal,
       "consumer 0 has failed in step 6 of \"picture\": I am 0"},
      {[](int) -> Status { throw std::runtime_error("thrown"); }, StatusCode::kInternal,
       "\"picture\": thrown"},
      {[](int) -> Status { throw 17; }, StatusCode::kInternal, "not a std::exception"},
      // The code that means "the ranks cannot agree" inside Serve.
      {[=](int rank) { return rank == last ? Status(StatusCode::kAborted, "given up") : Status::Ok(); },
       StatusCode::kInternal, "given up"}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.text);
    std::vector<std::uint64_t> consumed;
    const Outcome outcome = Run(
        Simulating(), Consuming(),
        [&](const Roles& roles) -> Status {
          const Index3 dims = {13, 9, 5};
          const std::vector<OwnedBox> boxes = Slices(roles.comm(), dims, false);
          const auto dataset = Dataset::Open(roles, roles.comm(), MakeSetup("picture", dims), boxes);
          EXPECT_TRUE(dataset.ok()) << dataset.status().message();
          Status status;
          std::uint64_t step = 4;
          // Not known yet when the step is handed over, known at the latest when no place is left.
          for (; status.ok() && step < 20; ++step) status = WriteStep(dataset->get(), boxes, step);
          EXPECT_GT(step, 7u);
          EXPECT_LT(step, 11u);
          const Status again = (*dataset)->BeginStep(99);
          const Status close = (*dataset)->Close();
          EXPECT_EQ(again.message(), status.message());
          EXPECT_EQ(close.message(), status.message());
          const auto more = Dataset::Open(roles, roles.comm(), MakeSetup("more", dims), boxes);
          EXPECT_EQ(more.status().message(), status.message());
          return status;
        },
        [&](const Roles& roles) {
          ServeOptions options =
              FailsIn(6, &consumed, [&c, rank = writer::Rank(roles.comm())] { return c.fail(rank); });
          options.writes = false;
          return options;
        });
    ExpectEverywhere(outcome.status, c.code, c.text);
    if (WorldRank() >= Simulating()) {
      EXPECT_EQ(consumed, (std::vector<std::uint64_t>{4, 5, 6}));
    }
  }
}

TEST_F(ConsumersFail, CloseTellsOfTheLastStep) {
  std::vector<std::uint64_t> consumed;
  const Outcome outcome = Run(
      Simulating(), Consuming(),
      [&](const Roles& roles) {
        return WriteSteps(roles, "last", {1, 2});
      },
      [&](const Roles&) {
        ServeOptions options = FailsIn(2, &consumed, [] { return InternalError("too late"); });
        options.writes = false;
        return options;
      });
  ExpectEverywhere(outcome.status, StatusCode::kInternal,
                   "consumer 0 has failed in step 2 of \"last\": too late");
}

TEST_F(ConsumersFail, WhatIsWrittenBeforeIsPublishedAndNothingAfter) {
  const fs::path path = Path("beside.quarry");
  std::vector<std::uint64_t> consumed;
  std::vector<std::uint64_t> lost;
  const Outcome outcome = Run(
      Simulating(), Consuming(),
      [&](const Roles& roles) -> Status {
        const Index3 dims = {13, 9, 5};
        const std::vector<OwnedBox> boxes = Slices(roles.comm(), dims, true);
        Transport transport;
        transport.steps_in_flight = 3;
        const auto a = Dataset::Open(roles, roles.comm(), MakeSetup(path, dims), boxes, transport);
        const auto b =
            Dataset::Open(roles, roles.comm(), MakeSetup(Path("other.quarry"), dims), boxes, transport);
        EXPECT_TRUE(a.ok() && b.ok());
        ExpectOk(WriteStep(a->get(), boxes, 1));
        ExpectOk(WriteStep(a->get(), boxes, 2));  // published, then the consumers fail
        const Status third = WriteStep(a->get(), boxes, 3);
        // The other dataset learns of it too: with the answer to its first step.
        ExpectOk(WriteStep(b->get(), boxes, 1));
        const Status other = (*b)->Close();
        Status close = (*a)->Close();
        EXPECT_EQ(other.message(), close.message());
        lost = (*a)->lost_steps();
        if (third.ok()) {
          EXPECT_EQ(lost, std::vector<std::uint64_t>{3});
        } else {
          EXPECT_EQ(third.message(), close.message());
        }
        EXPECT_EQ((*b)->lost_steps(), std::vector<std::uint64_t>{1});
        return close;
      },
      [&](const Roles&) { return FailsIn(2, &consumed, [] { return InternalError("no paper"); }); });
  ExpectEverywhere(outcome.status, StatusCode::kInternal, "in step 2 of");
  if (WorldRank() == 0) {
    EXPECT_EQ(StepsOnDisk(path), (std::vector<std::uint64_t>{1, 2}));
    EXPECT_EQ(StepsOnDisk(Path("other.quarry")), std::vector<std::uint64_t>());
  }
}

TEST_F(ConsumersFail, WrongNeedsAndOptionsAreTheStatusOfOpenAndOfServe) {
  const fs::path path = Path("never.quarry");
  const Box sample{{0, 0, 0}, {1, 1, 1}};
  const auto needs = [](const std::vector<Need>& boxes) {
    return [boxes](const insitu::Setup&) -> Result<std::vector<Need>> { return boxes; };
  };
  const auto nothing = [](const ArrivedStep&) { return Status::Ok(); };
  struct Case {
    Consumer consumer;  ///< consumer of the last rank; the others need nothing
    StatusCode code;
    std::string text;
  };
  const std::vector<Case> cases = {
      {{needs({{"x", {sample}}}), nothing}, StatusCode::kInvalidArgument, "needs field \"x\", which"},
      {{needs({{"u", {sample}}, {"u", {sample}}}), nothing}, StatusCode::kInvalidArgument, "\"u\" twice"},
      {{needs({{"u", {sample, Box{{5, 5, 4}, {6, 6, 6}}}}}), nothing},
       StatusCode::kInvalidArgument,
       "of field \"u\", which is not inside the grid of 13x9x5"},
      {{[](const insitu::Setup&) -> Result<std::vector<Need>> { return NotFound("no display"); }, nothing},
       StatusCode::kNotFound,
       "at the opening of"},
      {{[](const insitu::Setup&) -> Result<std::vector<Need>> { throw std::runtime_error("no luck"); },
        nothing},
       StatusCode::kInternal,
       "no luck"},
      {{needs({}), nullptr}, StatusCode::kInvalidArgument, "give both"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.text);
    const Outcome outcome = Run(
        Simulating(), Consuming(), [&](const Roles& roles) { return WriteSteps(roles, path, {1}); },
        [&](const Roles&) {
          ServeOptions options;
          options.consumer =
              WorldRank() == WorldSize() - 1 ? c.consumer : Consumer{needs({{"u", {sample}}}), nothing};
          return options;
        });
    ExpectEverywhere(outcome.status, c.code, c.text);
    EXPECT_FALSE(fs::exists(path));
  }
}

TEST_F(ConsumersFail, AllWritersServeInTheSameWay) {
  Outcome outcome = Run(
      Simulating(), Consuming(), [&](const Roles& roles) { return WriteSteps(roles, "nothing", {1}); },
      [&](const Roles&) {
        ServeOptions options;
        options.writes = false;
        return options;
      });
  ExpectEverywhere(outcome.status, StatusCode::kInvalidArgument, "neither written nor consumed");
  if (Consuming() < 2) return;
  std::vector<std::uint64_t> consumed;
  outcome = Run(
      Simulating(), Consuming(), [&](const Roles& roles) { return WriteSteps(roles, "some", {1}); },
      [&](const Roles&) {
        return WorldRank() == WorldSize() - 1 ? ServeOptions() : FailsIn(9, &consumed, nullptr);
      });
  ExpectEverywhere(outcome.status, StatusCode::kInvalidArgument, "some writers have a consumer");
}

/// Ranks other than the first print only failures.
class FailuresOnly : public ::testing::EmptyTestEventListener {
  void OnTestPartResult(const ::testing::TestPartResult& result) override {
    if (result.failed()) {
      std::printf("rank %d: %s:%d: %s\n", WorldRank(), result.file_name(), result.line_number(),
                  result.message());
      std::fflush(stdout);
    }
  }
};

}  // namespace
}  // namespace quarry::intransit

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  ::testing::InitGoogleTest(&argc, argv);
  if (quarry::intransit::WorldRank() != 0) {
    ::testing::TestEventListeners& listeners = ::testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new quarry::intransit::FailuresOnly);
  }
  const int code = RUN_ALL_TESTS();
  MPI_Finalize();
  return code;
}
