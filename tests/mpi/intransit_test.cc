// In-transit writing over real ranks, split between simulation and writers in many ways: the bytes are those
// of in-situ writing; steps in flight are bounded; errors of the writers reach the simulation, and neither
// side waits for ever.
#include "quarry/intransit.h"

#include <gtest/gtest.h>
#include <mpi.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>

#include "tests/testing/make_dataset.h"
#include "writer/pipeline/comm.h"
#include "writer/redistribute/copy_part.h"

namespace quarry::intransit {
namespace {

namespace fs = std::filesystem;
using insitu::ArrayOrder;

bool Root() { return writer::Rank(MPI_COMM_WORLD) == 0; }

constexpr Index3 kDims = {37, 22, 13};

/// Smooth, and different at every place, in every step and field.
double SampleAt(const Index3& p, std::int64_t step, int field) {
  const auto x = static_cast<double>(p[0]);
  const auto y = static_cast<double>(p[1]);
  const auto z = static_cast<double>(p[2]);
  return 100 * std::sin(0.1 * x + 0.2 * y) + 3 * z + 7 * static_cast<double>(step) + 1000 * field;
}

enum class Arrangement { kDense, kGhostedZFastest, kManyBoxes };

/// Slabs of z of different heights, some empty with many ranks; or pieces along x, every size-th, in two
/// halves.
std::vector<OwnedBox> Share(MPI_Comm comm, Arrangement arrangement) {
  const std::int64_t rank = writer::Rank(comm);
  const std::int64_t size = writer::Size(comm);
  if (arrangement == Arrangement::kManyBoxes) {
    std::vector<OwnedBox> boxes;
    for (std::int64_t x = 5 * rank; x < kDims[0]; x += 5 * size) {
      const std::int64_t end = std::min(x + 5, kDims[0]);
      boxes.push_back(OwnedBox::Dense({{x, 0, 0}, {end, kDims[1], 6}}));
      boxes.push_back(OwnedBox::Dense({}));
      boxes.push_back(OwnedBox::Dense({{x, 0, 6}, {end, kDims[1], kDims[2]}}, ArrayOrder::kZFastest));
    }
    return boxes;
  }
  const auto cut = [&](std::int64_t i) { return kDims[2] * i * i / (size * size); };
  const Box slab{{0, 0, cut(rank)}, {kDims[0], kDims[1], cut(rank + 1)}};
  if (arrangement == Arrangement::kDense) return {OwnedBox::Dense(slab)};
  const Box array{{-1, -2, slab.begin[2] - 1}, {kDims[0] + 2, kDims[1] + 1, slab.end[2] + 3}};
  return {OwnedBox::InArray(slab, array, ArrayOrder::kZFastest)};
}

/// The arrays of a rank for one field.
template <typename T>
class Arrays {
 public:
  explicit Arrays(const std::vector<OwnedBox>& boxes) : boxes_(boxes) {
    for (const OwnedBox& box : boxes_)
      samples_.emplace_back(static_cast<std::size_t>(box.storage.volume()), static_cast<T>(-77));
  }

  std::vector<const void*> Fill(std::int64_t step, int field) {
    std::vector<const void*> addresses;
    for (std::size_t b = 0; b < boxes_.size(); ++b) {
      addresses.push_back(samples_[b].data());
      const Box& box = boxes_[b].box;
      if (box.empty()) continue;
      const BoxView view = boxes_[b].At(samples_[b].data(), sizeof(T));
      for (auto z = box.begin[2]; z < box.end[2]; ++z) {
        for (auto y = box.begin[1]; y < box.end[1]; ++y) {
          for (auto x = box.begin[0]; x < box.end[0]; ++x) {
            const std::byte* at = redistribute::FirstSample(view, box, {{x, y, z}, {x + 1, y + 1, z + 1}});
            *reinterpret_cast<T*>(const_cast<std::byte*>(at)) =
                static_cast<T>(SampleAt({x, y, z}, step, field));
          }
        }
      }
    }
    return addresses;
  }
  /// Does what a simulation does when it continues after a step.
  void Overwrite() {
    for (auto& array : samples_) std::fill(array.begin(), array.end(), static_cast<T>(-99));
  }

 private:
  std::vector<OwnedBox> boxes_;
  std::vector<std::vector<T>> samples_;
};

/// "t" in two layers with relative tolerances, "u" with an absolute one, "n" without loss.
Setup MakeSetup(const fs::path& path) {
  insitu::Field t;
  t.name = "t";
  t.type = DataType::kFloat64;
  t.layers = {1e-2, 1e-4};
  t.relative_layers = true;
  t.units = "K";
  insitu::Field u;
  u.name = "u";
  u.tolerance = 0.01;
  insitu::Field n;
  n.name = "n";
  n.type = DataType::kInt16;
  Setup setup;
  setup.path = path.string();
  setup.declaration.dims = kDims;
  setup.declaration.patch = Index3{8, 8, 8};
  setup.declaration.fields = {t, u, n};
  setup.pipeline.files = 3;
  return setup;
}

/// Writes all fields of a step to any kind of dataset, in another order than that of the declaration; the
/// simulation continues at once.
template <typename AnyDataset>
Status PutFields(AnyDataset* dataset, const std::vector<OwnedBox>& boxes, std::int64_t step) {
  Arrays<double> t(boxes);
  Arrays<float> u(boxes);
  Arrays<std::int16_t> n(boxes);
  QUARRY_RETURN_IF_ERROR(dataset->Put("n", DataType::kInt16, n.Fill(step, 2)));
  n.Overwrite();
  QUARRY_RETURN_IF_ERROR(dataset->Put("t", DataType::kFloat64, t.Fill(step, 0)));
  t.Overwrite();
  QUARRY_RETURN_IF_ERROR(dataset->Put("u", DataType::kFloat32, u.Fill(step, 1)));
  u.Overwrite();
  return Status::Ok();
}

template <typename AnyDataset>
Status WriteStep(AnyDataset* dataset, const std::vector<OwnedBox>& boxes, std::int64_t step) {
  QUARRY_RETURN_IF_ERROR(dataset->BeginStep(step, 0.5 * static_cast<double>(step)));
  QUARRY_RETURN_IF_ERROR(PutFields(dataset, boxes, step));
  return dataset->EndStep();
}

/// Writes the reference: these steps by in-situ writing on one rank.
void WriteReference(const fs::path& path, const std::vector<std::int64_t>& steps) {
  const std::vector<OwnedBox> boxes = Share(MPI_COMM_SELF, Arrangement::kDense);
  const auto dataset = insitu::Dataset::Open(MPI_COMM_SELF, MakeSetup(path), boxes);
  ASSERT_TRUE(dataset.ok()) << dataset.status().message();
  for (const std::int64_t step : steps) ASSERT_TRUE(WriteStep(dataset->get(), boxes, step).ok());
  ASSERT_TRUE((*dataset)->Close().ok());
}

Status WriteSteps(const Roles& roles, MPI_Comm comm, const fs::path& path, Arrangement arrangement,
                  const std::vector<std::int64_t>& steps, const Transport& transport = {}) {
  const std::vector<OwnedBox> boxes = Share(comm, arrangement);
  QUARRY_ASSIGN_OR_RETURN(const auto dataset, Dataset::Open(roles, comm, MakeSetup(path), boxes, transport));
  for (const std::int64_t step : steps) QUARRY_RETURN_IF_ERROR(WriteStep(dataset.get(), boxes, step));
  QUARRY_RETURN_IF_ERROR(dataset->Close());
  EXPECT_EQ(dataset->lost_steps(), std::vector<std::uint64_t>());
  return Status::Ok();
}

/// Everything below a folder: relative path to content. Empty without a folder.
std::map<std::string, std::string> Snapshot(const fs::path& folder) {
  std::map<std::string, std::string> files;
  if (!fs::exists(folder)) return files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    std::ifstream file(entry.path(), std::ios::binary);
    std::string& content = files[entry.path().lexically_relative(folder).string()];
    if (entry.is_regular_file()) content.assign(std::istreambuf_iterator<char>(file), {});
  }
  return files;
}

/// Names of the files that differ between the folders or are missing in one.
std::vector<std::string> Differences(const fs::path& a, const fs::path& b) {
  const auto files = Snapshot(a);
  const auto others = Snapshot(b);
  std::vector<std::pair<std::string, std::string>> different;
  std::set_symmetric_difference(files.begin(), files.end(), others.begin(), others.end(),
                                std::back_inserter(different));
  std::vector<std::string> names;
  for (const auto& [name, content] : different) names.push_back(name);
  return names;
}

void ExpectOk(const Status& status) { EXPECT_TRUE(status.ok()) << status.message(); }

/// The same error on all ranks of `comm`, with this in its message.
void ExpectError(MPI_Comm comm, const Status& status, StatusCode code, const std::string& text) {
  EXPECT_EQ(static_cast<int>(status.code()), static_cast<int>(code)) << status.message();
  EXPECT_NE(status.message().find(text), std::string::npos) << status.message() << "\nwithout: " << text;
  EXPECT_EQ(status.message(), *writer::BroadcastText(comm, status.message()));
}

class InTransit : public ::testing::Test {
 protected:
  void SetUp() override {
    if (Root()) folder_.emplace();
    path_ = *writer::BroadcastText(MPI_COMM_WORLD, folder_ ? folder_->path().string() : "");
  }
  void TearDown() override { MPI_Barrier(MPI_COMM_WORLD); }

  fs::path Path(const std::string& name) const { return fs::path(path_) / name; }

  /// Simulates on all ranks but the last ones, which serve; waits for all of them.
  template <typename Simulate>
  static Served Run(int writers, Simulate simulate, const ServeOptions& options = {}) {
    Served served;
    {
      const auto roles = Roles::Split(MPI_COMM_WORLD, writers);
      EXPECT_TRUE(roles.ok()) << roles.status().message();
      if (roles->writes()) {
        const auto result = Serve(*roles, options);
        EXPECT_TRUE(result.ok()) << result.status().message();
        served = *result;
      } else {
        simulate(*roles);
      }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    return served;
  }
  /// On rank 0: the dataset is, byte for byte, that of in-situ writing of these steps.
  void ExpectSteps(const fs::path& path, const std::vector<std::int64_t>& steps) const {
    if (!Root()) return;
    const fs::path reference = Path(fmt::format("{}-reference.quarry", path.stem().string()));
    WriteReference(reference, steps);
    EXPECT_EQ(Differences(path, reference), std::vector<std::string>()) << path;
  }
  /// Numbers of writers worth trying: few, many, and with few ranks, all.
  static std::vector<int> Splits() {
    const int ranks = writer::Size(MPI_COMM_WORLD);
    std::vector<int> splits;
    for (const int writers : {1, 2, 3, ranks - 2, ranks - 1}) {
      const bool known = std::find(splits.begin(), splits.end(), writers) != splits.end();
      if (writers >= 1 && writers < ranks && !known) splits.push_back(writers);
    }
    return splits;
  }
  static int Half() { return writer::Size(MPI_COMM_WORLD) / 2; }

 private:
  std::optional<testing::TemporaryFolder> folder_;
  std::string path_;
};

using InTransitWrite = InTransit;
using InTransitFlow = InTransit;
using InTransitErrors = InTransit;

TEST_F(InTransitWrite, AnySplitAndArrangementGivesTheBytesOfInSitu) {
  for (const int writers : Splits()) {
    for (const Arrangement arrangement :
         {Arrangement::kDense, Arrangement::kGhostedZFastest, Arrangement::kManyBoxes}) {
      SCOPED_TRACE(fmt::format("{} writers, arrangement {}", writers, static_cast<int>(arrangement)));
      const fs::path path = Path(fmt::format("{}-{}.quarry", writers, static_cast<int>(arrangement)));
      const Served served = Run(writers, [&](const Roles& roles) {
        EXPECT_EQ(roles.writer_ranks(), writers);
        EXPECT_EQ(writer::Size(roles.comm()), writer::Size(MPI_COMM_WORLD) - writers);
        ExpectOk(WriteSteps(roles, roles.comm(), path, arrangement, {3, 4, 9}));
      });
      if (writer::Rank(MPI_COMM_WORLD) >= writer::Size(MPI_COMM_WORLD) - writers) {
        EXPECT_EQ(served.datasets, 1u);
        EXPECT_EQ(served.steps, 3u);
        EXPECT_EQ(served.lost_steps, 0u);
      }
      ExpectSteps(path, {3, 4, 9});
    }
  }
}

TEST_F(InTransitWrite, SmallMessagesAndOneStepInFlightChangeNoByte) {
  Run(Half(), [&](const Roles& roles) {
    Transport transport;
    transport.message_bytes = 1013;  // cuts samples in two
    transport.steps_in_flight = 1;
    ExpectOk(
        WriteSteps(roles, roles.comm(), Path("small.quarry"), Arrangement::kDense, {0, 1, 2}, transport));
  });
  ExpectSteps(Path("small.quarry"), {0, 1, 2});
}

TEST_F(InTransitWrite, WritersWhereTheCallerWantsThem) {
  const int rank = writer::Rank(MPI_COMM_WORLD);
  {
    const auto roles = Roles::SplitByRole(MPI_COMM_WORLD, rank % 2 == 0);
    ASSERT_TRUE(roles.ok()) << roles.status().message();
    ASSERT_EQ(roles->writes(), rank % 2 == 0);
    EXPECT_EQ(writer::Rank(roles->comm()), rank / 2);
    if (roles->writes()) {
      ExpectOk(Serve(*roles).status());
    } else {
      ExpectOk(WriteSteps(*roles, roles->comm(), Path("even.quarry"), Arrangement::kDense, {1}));
    }
  }
  MPI_Barrier(MPI_COMM_WORLD);
  ExpectSteps(Path("even.quarry"), {1});
}

TEST_F(InTransitWrite, SeveralDatasetsAtOnceAndOneOfAPartOfTheRanks) {
  const Served served = Run(1, [&](const Roles& roles) {
    const std::vector<OwnedBox> boxes = Share(roles.comm(), Arrangement::kManyBoxes);
    const auto a = Dataset::Open(roles, roles.comm(), MakeSetup(Path("a.quarry")), boxes);
    const auto b = Dataset::Open(roles, roles.comm(), MakeSetup(Path("b.quarry")), boxes);
    ASSERT_TRUE(a.ok() && b.ok());
    ExpectOk((*a)->BeginStep(1, 0.5));
    ExpectOk((*b)->BeginStep(2, 1.0));
    ExpectOk(PutFields(b->get(), boxes, 2));
    ExpectOk(PutFields(a->get(), boxes, 1));
    ExpectOk((*b)->EndStep());
    ExpectOk((*a)->EndStep());
    // Communicator of the last rank alone, while the others are still working.
    MPI_Comm part = MPI_COMM_NULL;
    const bool last = writer::Rank(roles.comm()) == writer::Size(roles.comm()) - 1;
    MPI_Comm_split(roles.comm(), last ? 1 : 0, 0, &part);
    if (last) ExpectOk(WriteSteps(roles, part, Path("c.quarry"), Arrangement::kDense, {7, 8, 9, 10}));
    MPI_Comm_free(&part);
    ExpectOk(WriteStep(a->get(), boxes, 2));
    ExpectOk((*a)->Close());
    ExpectOk((*b)->Close());
  });
  if (writer::Rank(MPI_COMM_WORLD) == writer::Size(MPI_COMM_WORLD) - 1) {
    EXPECT_EQ(served.datasets, 3u);
    EXPECT_EQ(served.steps, 7u);
  }
  ExpectSteps(Path("a.quarry"), {1, 2});
  ExpectSteps(Path("b.quarry"), {2});
  ExpectSteps(Path("c.quarry"), {7, 8, 9, 10});
}

TEST_F(InTransitWrite, NothingToWriteEndsTheWriters) {
  const Served served = Run(1, [](const Roles&) {});
  EXPECT_EQ(served.datasets, 0u);
}

TEST_F(InTransitWrite, ResumeLeavesOutWhatIsThere) {
  const fs::path path = Path("resume.quarry");
  for (const std::vector<std::int64_t>& steps : {std::vector<std::int64_t>{1, 2}, {1, 2, 3}}) {
    Run(1, [&](const Roles& roles) {
      const std::vector<OwnedBox> boxes = Share(roles.comm(), Arrangement::kDense);
      auto setup = MakeSetup(path);
      setup.mode = insitu::OpenMode::kResume;
      const auto dataset = Dataset::Open(roles, roles.comm(), setup, boxes);
      ASSERT_TRUE(dataset.ok()) << dataset.status().message();
      for (const std::int64_t step : steps) ExpectOk(WriteStep(dataset->get(), boxes, step));
      // Its destructor closes.
    });
  }
  ExpectSteps(path, {1, 2, 3});
}

/// Writers that receive their first step only when the simulation allows it.
class Gate {
 public:
  ServeOptions options() {
    ServeOptions options;
    options.before_step = [this](const std::string&, std::uint64_t) {
      const bool last = writer::Rank(MPI_COMM_WORLD) == writer::Size(MPI_COMM_WORLD) - 1;
      if (std::exchange(passed_, true) || !last) return;
      MPI_Recv(nullptr, 0, MPI_BYTE, 0, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    };
    return options;
  }
  static void Open() {
    if (Root()) MPI_Send(nullptr, 0, MPI_BYTE, writer::Size(MPI_COMM_WORLD) - 1, kTag, MPI_COMM_WORLD);
  }

 private:
  static constexpr int kTag = 77;
  bool passed_ = false;
};

TEST_F(InTransitFlow, TheStepAfterTheLastPlaceWaits) {
  for (const int limit : {1, 2, 3}) {
    SCOPED_TRACE(limit);
    const fs::path path = Path(fmt::format("flow{}.quarry", limit));
    Gate gate;
    const Served served = Run(
        Half(),
        [&](const Roles& roles) {
          std::vector<std::uint64_t> waited_for;
          Transport transport;
          transport.steps_in_flight = limit;
          // MPI buffers messages as small as these: a step too many would begin, which is checked below,
          // instead of waiting for samples that nobody receives.
          transport.message_bytes = 1024;
          int handed_over = 0;
          transport.on_wait = [&](std::uint64_t step) {
            if (handed_over < limit) throw std::runtime_error("waits although there is a place");
            if (waited_for.empty()) Gate::Open();
            waited_for.push_back(step);
          };
          const std::vector<OwnedBox> boxes = Share(roles.comm(), Arrangement::kDense);
          const auto dataset = Dataset::Open(roles, roles.comm(), MakeSetup(path), boxes, transport);
          ASSERT_TRUE(dataset.ok()) << dataset.status().message();
          std::uint64_t samples = 0;
          for (const OwnedBox& box : boxes) samples += static_cast<std::uint64_t>(box.box.volume());
          EXPECT_EQ((*dataset)->staging_bytes(), samples * (8 + 4 + 2) * static_cast<std::uint64_t>(limit));

          // The writers are blocked, the simulation is not.
          for (; handed_over < limit; ++handed_over) {
            const Status written = WriteStep(dataset->get(), boxes, handed_over);
            if (!written.ok() && handed_over > 0) Gate::Open();  // so that a failure ends too
            ASSERT_TRUE(written.ok()) << written.message();
          }
          EXPECT_EQ((*dataset)->waits(), 0u);
          EXPECT_EQ((*dataset)->seconds().waiting, 0);
          EXPECT_EQ((*dataset)->most_in_flight(), static_cast<std::uint64_t>(limit));

          // This step cannot begin before the writers continue, so BeginStep waits.
          ExpectOk((*dataset)->BeginStep(limit, 0.5 * limit));
          if (waited_for.empty()) Gate::Open();  // so that a failure ends too
          ASSERT_EQ(waited_for.size(), 1u);
          EXPECT_EQ(waited_for[0], static_cast<std::uint64_t>(limit));
          EXPECT_EQ((*dataset)->waits(), 1u);
          EXPECT_GT((*dataset)->seconds().waiting, 0);
          ExpectOk(PutFields(dataset->get(), boxes, limit));
          ExpectOk((*dataset)->EndStep());
          for (int step = limit + 1; step < 3 * limit; ++step)
            ExpectOk(WriteStep(dataset->get(), boxes, step));
          ExpectOk((*dataset)->Close());
          EXPECT_EQ((*dataset)->most_in_flight(), static_cast<std::uint64_t>(limit));
          EXPECT_EQ((*dataset)->waits(), waited_for.size());
          EXPECT_GT((*dataset)->seconds().copying, 0);
        },
        gate.options());
    if (writer::Rank(MPI_COMM_WORLD) >= writer::Size(MPI_COMM_WORLD) - Half()) {
      EXPECT_EQ(served.steps, static_cast<std::uint64_t>(std::max(limit + 1, 3 * limit)));
      EXPECT_GT(served.simulation_waiting_seconds, 0);
      EXPECT_GT(served.writing_seconds, 0);
    }
    std::vector<std::int64_t> steps;
    for (int step = 0; step < std::max(limit + 1, 3 * limit); ++step) steps.push_back(step);
    ExpectSteps(path, steps);
  }
}

TEST_F(InTransitFlow, CloseWaitsForEveryStep) {
  Gate gate;
  Run(
      1,
      [&](const Roles& roles) {
        const fs::path path = Path("close.quarry");
        const std::vector<OwnedBox> boxes = Share(roles.comm(), Arrangement::kDense);
        Transport transport;
        transport.steps_in_flight = 2;
        transport.on_wait = [](std::uint64_t) {
          throw std::runtime_error("waits although there is a place");
        };
        const auto dataset = Dataset::Open(roles, roles.comm(), MakeSetup(path), boxes, transport);
        ASSERT_TRUE(dataset.ok()) << dataset.status().message();
        ExpectOk(WriteStep(dataset->get(), boxes, 0));
        ExpectOk(WriteStep(dataset->get(), boxes, 1));
        MPI_Barrier(roles.comm());
        EXPECT_FALSE(fs::exists(path));
        MPI_Barrier(roles.comm());
        Gate::Open();
        ExpectOk((*dataset)->Close());
        EXPECT_TRUE(fs::exists(path / "steps" / "000000" / "step.json"));
        EXPECT_TRUE(fs::exists(path / "steps" / "000001" / "step.json"));
        EXPECT_GT((*dataset)->seconds().closing, 0);
      },
      gate.options());
}

TEST_F(InTransitFlow, AnAbandonedStepTakesNoPlaceAndNeverReachesTheWriters) {
  const fs::path path = Path("abandoned.quarry");
  const Served served = Run(Half(), [&](const Roles& roles) {
    const std::vector<OwnedBox> boxes = Share(roles.comm(), Arrangement::kDense);
    const auto dataset = Dataset::Open(roles, roles.comm(), MakeSetup(path), boxes);
    ASSERT_TRUE(dataset.ok()) << dataset.status().message();
    for (const int step : {1, 2, 3, 4}) {
      ExpectOk((*dataset)->BeginStep(step));
      ExpectOk(PutFields(dataset->get(), boxes, step));
      ExpectOk((*dataset)->AbandonStep());
    }
    EXPECT_EQ((*dataset)->most_in_flight(), 0u);
    EXPECT_EQ((*dataset)->waits(), 0u);
    ExpectOk(WriteStep(dataset->get(), boxes, 2));
    ExpectOk((*dataset)->BeginStep(5));
    ExpectOk((*dataset)->AbandonStep());
    ExpectError(roles.comm(), (*dataset)->EndStep(), StatusCode::kFailedPrecondition, "no step is open");
    ExpectOk((*dataset)->Close());
    EXPECT_EQ((*dataset)->lost_steps(), std::vector<std::uint64_t>());
  });
  if (writer::Rank(MPI_COMM_WORLD) >= writer::Size(MPI_COMM_WORLD) - Half()) {
    EXPECT_EQ(served.steps, 1u);
    EXPECT_EQ(served.lost_steps, 0u);
  }
  ExpectSteps(path, {2});
}

TEST_F(InTransitErrors, RolesThatMakeNoSense) {
  const int ranks = writer::Size(MPI_COMM_WORLD);
  ExpectError(MPI_COMM_WORLD, Roles::Split(MPI_COMM_WORLD, 0).status(), StatusCode::kInvalidArgument,
              "leave no rank to write");
  ExpectError(MPI_COMM_WORLD, Roles::Split(MPI_COMM_WORLD, ranks).status(), StatusCode::kInvalidArgument,
              "leave no rank to simulate");
  ExpectError(MPI_COMM_WORLD, Roles::Split(MPI_COMM_WORLD, Root() ? 1 : 2).status(),
              StatusCode::kInvalidArgument, "1 to 2; give the same on every rank");
  ExpectError(MPI_COMM_WORLD, Roles::SplitByRole(MPI_COMM_WORLD, false).status(),
              StatusCode::kInvalidArgument, fmt::format("0 of {} ranks write", ranks));
  ExpectError(MPI_COMM_WORLD, Roles::Split(MPI_COMM_NULL, 1).status(), StatusCode::kInvalidArgument,
              "MPI_COMM_NULL");
}

TEST_F(InTransitErrors, CallsOfTheOtherRole) {
  const auto roles = Roles::Split(MPI_COMM_WORLD, 1);
  ASSERT_TRUE(roles.ok());
  if (roles->writes()) {
    const auto opened = Dataset::Open(*roles, roles->comm(), MakeSetup(Path("no.quarry")), {});
    ExpectError(roles->comm(), opened.status(), StatusCode::kFailedPrecondition, "this rank is a writer");
    ExpectOk(Serve(*roles).status());
  } else {
    ExpectError(roles->comm(), Serve(*roles).status(), StatusCode::kFailedPrecondition,
                "this rank simulates");
    // This call does not wait for the writers, which are in Serve.
    const auto opened = Dataset::Open(*roles, MPI_COMM_WORLD, MakeSetup(Path("all.quarry")), {});
    ExpectError(roles->comm(), opened.status(), StatusCode::kInvalidArgument, "ranks that do not simulate");
  }
}

TEST_F(InTransitErrors, OpenTellsWhatIsWrongAndTheNextOneWorks) {
  const fs::path there = Path("there.quarry");
  if (Root()) WriteReference(there, {1});
  Run(Half(), [&](const Roles& roles) {
    const MPI_Comm comm = roles.comm();
    const bool last = writer::Rank(comm) == writer::Size(comm) - 1;
    const std::vector<OwnedBox> boxes = Share(comm, Arrangement::kDense);
    const auto expect_refused = [&](const insitu::Setup& setup, const std::vector<OwnedBox>& owned,
                                    const Transport& transport, StatusCode code, const std::string& text) {
      ExpectError(comm, Dataset::Open(roles, comm, setup, owned, transport).status(), code, text);
    };
    // Errors that only the writers can find.
    expect_refused(MakeSetup(there), boxes, {}, StatusCode::kAlreadyExists, "exists already");
    expect_refused(MakeSetup(Path("no") / "where.quarry"), boxes, {}, StatusCode::kNotFound,
                   "there is no directory");
    auto changed = MakeSetup(there);
    changed.mode = insitu::OpenMode::kAppend;
    changed.declaration.fields[1].tolerance = 5;
    expect_refused(changed, boxes, {}, StatusCode::kInvalidArgument, "tolerance 5");
    // Errors that the simulation finds itself, on one rank or on all.
    const fs::path path = Path("new.quarry");
    auto unbounded = MakeSetup(path);
    unbounded.declaration.fields[1].tolerance.reset();
    expect_refused(unbounded, boxes, {}, StatusCode::kInvalidArgument, "\"u\" has no error bound");
    expect_refused(MakeSetup(""), boxes, {}, StatusCode::kInvalidArgument, "the path is empty");
    expect_refused(MakeSetup(path), last ? std::vector<OwnedBox>() : boxes, {}, StatusCode::kInvalidArgument,
                   "own");
    std::vector<OwnedBox> wrong = boxes;
    if (last) wrong[0].storage = Box{};
    expect_refused(MakeSetup(path), wrong, {}, StatusCode::kInvalidArgument, "its array holds");
    Transport none;
    none.steps_in_flight = 0;
    expect_refused(MakeSetup(path), boxes, none, StatusCode::kInvalidArgument, "0 steps in flight");
    Transport nothing;
    nothing.message_bytes = 0;
    expect_refused(MakeSetup(path), boxes, nothing, StatusCode::kInvalidArgument, "messages of 0 bytes");
    if (writer::Size(comm) > 1) {
      expect_refused(MakeSetup(last ? path : there), boxes, {}, StatusCode::kInvalidArgument,
                     "different arguments");
    }
    EXPECT_FALSE(fs::exists(path));
    ExpectOk(WriteSteps(roles, comm, path, Arrangement::kDense, {5}));
  });
  ExpectSteps(Path("new.quarry"), {5});
  ExpectSteps(there, {1});
}

/// Writers whose disk is full for some steps.
ServeOptions FullDiskFor(std::uint64_t begin, std::uint64_t end) {
  ServeOptions options;
  options.before_step = [begin, end](const std::string&, std::uint64_t step) {
    std::signal(SIGXFSZ, SIG_IGN);
    rlimit limit{};
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = step >= begin && step < end ? 512 : limit.rlim_max;
    setrlimit(RLIMIT_FSIZE, &limit);
  };
  return options;
}

void UnlimitDisk() {
  rlimit limit{};
  getrlimit(RLIMIT_FSIZE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_FSIZE, &limit);
}

TEST_F(InTransitErrors, AFullDiskIsTheNextStepsToTellAndTheSimulationGoesOn) {
  for (const int writers : Splits()) {
    SCOPED_TRACE(writers);
    const fs::path path = Path(fmt::format("full{}.quarry", writers));
    const Served served = Run(
        writers,
        [&](const Roles& roles) {
          Transport transport;
          transport.steps_in_flight = 1;
          const std::vector<OwnedBox> boxes = Share(roles.comm(), Arrangement::kDense);
          const auto dataset = Dataset::Open(roles, roles.comm(), MakeSetup(path), boxes, transport);
          ASSERT_TRUE(dataset.ok()) << dataset.status().message();
          ExpectOk(WriteStep(dataset->get(), boxes, 1));
          ExpectOk(WriteStep(dataset->get(), boxes, 2));  // is lost
          ExpectError(roles.comm(), (*dataset)->BeginStep(3), StatusCode::kInternal,
                      "the writers have lost step 2: ");
          EXPECT_EQ((*dataset)->lost_steps(), std::vector<std::uint64_t>{2});
          ExpectError(roles.comm(), (*dataset)->EndStep(), StatusCode::kFailedPrecondition,
                      "no step is open");
          ExpectOk(WriteStep(dataset->get(), boxes, 3));
          ExpectOk((*dataset)->Close());
          EXPECT_EQ((*dataset)->lost_steps(), std::vector<std::uint64_t>{2});
        },
        FullDiskFor(2, 3));
    UnlimitDisk();
    if (writer::Rank(MPI_COMM_WORLD) >= writer::Size(MPI_COMM_WORLD) - writers) {
      EXPECT_EQ(served.steps, 2u);
      EXPECT_EQ(served.lost_steps, 1u);
    }
    ExpectSteps(path, {1, 3});
  }
}

TEST_F(InTransitErrors, CloseTellsOfStepsThatNobodyHasHeardOf) {
  const fs::path path = Path("last.quarry");
  Run(
      1,
      [&](const Roles& roles) {
        Transport transport;
        transport.steps_in_flight = 3;
        const std::vector<OwnedBox> boxes = Share(roles.comm(), Arrangement::kDense);
        const auto dataset = Dataset::Open(roles, roles.comm(), MakeSetup(path), boxes, transport);
        ASSERT_TRUE(dataset.ok()) << dataset.status().message();
        ExpectOk(WriteStep(dataset->get(), boxes, 1));
        ExpectOk(WriteStep(dataset->get(), boxes, 2));
        // The second lost step may begin before or after the loss of the first is known.
        const Status begun = (*dataset)->BeginStep(3);
        if (begun.ok()) {
          ExpectOk(PutFields(dataset->get(), boxes, 3));
          ExpectOk((*dataset)->EndStep());
          ExpectError(roles.comm(), (*dataset)->Close(), StatusCode::kInternal, "lost step 2, and 1 more: ");
          EXPECT_EQ((*dataset)->lost_steps(), (std::vector<std::uint64_t>{2, 3}));
        } else {
          ExpectError(roles.comm(), begun, StatusCode::kInternal, "lost step 2: ");
          ExpectOk((*dataset)->Close());
        }
        ExpectError(roles.comm(), (*dataset)->Close(), StatusCode::kFailedPrecondition, "closed");
      },
      FullDiskFor(2, 100));
  UnlimitDisk();
  ExpectSteps(path, {1});
}

TEST_F(InTransitErrors, AStepThatIsThereAlreadyIsLostAsAWhole) {
  const fs::path path = Path("twice.quarry");
  Run(1, [&](const Roles& roles) {
    const std::vector<OwnedBox> boxes = Share(roles.comm(), Arrangement::kDense);
    Transport transport;
    transport.steps_in_flight = 1;
    const auto dataset = Dataset::Open(roles, roles.comm(), MakeSetup(path), boxes, transport);
    ASSERT_TRUE(dataset.ok()) << dataset.status().message();
    ExpectOk(WriteStep(dataset->get(), boxes, 1));
    ExpectOk(WriteStep(dataset->get(), boxes, 1));
    ExpectError(roles.comm(), (*dataset)->BeginStep(2), StatusCode::kAlreadyExists, "step 1");

    // A step with one of its fields; then all fields, one of which exists.
    ExpectOk((*dataset)->BeginStep(2, 1.0));
    ExpectOk((*dataset)->Put("n", DataType::kInt16, Arrays<std::int16_t>(boxes).Fill(2, 2)));
    ExpectOk((*dataset)->EndStep());
    ExpectOk(WriteStep(dataset->get(), boxes, 2));
    ExpectError(roles.comm(), (*dataset)->BeginStep(3), StatusCode::kAlreadyExists, "\"n\"");
    ExpectOk(WriteStep(dataset->get(), boxes, 3));
    ExpectOk((*dataset)->Close());
  });
  if (!Root()) return;
  const auto read = quarry::Dataset::Open(path);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ((*read)->steps(), (std::vector<std::uint64_t>{1, 2, 3}));
  EXPECT_FALSE(fs::exists(path / "steps" / "000002" / "t"));
  EXPECT_TRUE(fs::exists(path / "steps" / "000003" / "t"));
}

TEST_F(InTransitErrors, RefusedCallsChangeNothing) {
  const fs::path path = Path("refused.quarry");
  Run(Half(), [&](const Roles& roles) {
    const MPI_Comm comm = roles.comm();
    const bool last = writer::Rank(comm) == writer::Size(comm) - 1;
    const std::vector<OwnedBox> boxes = Share(comm, Arrangement::kDense);
    const auto opened = Dataset::Open(roles, comm, MakeSetup(path), boxes);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    Dataset& dataset = **opened;
    Arrays<float> u(boxes);
    const auto invalid = StatusCode::kInvalidArgument;
    const auto too_early = StatusCode::kFailedPrecondition;
    ExpectError(comm, dataset.Put("u", DataType::kFloat32, u.Fill(1, 1)), too_early, "needs an open step");
    ExpectError(comm, dataset.EndStep(), too_early, "no step is open");
    ExpectError(comm, dataset.AbandonStep(), too_early, "no step is open");
    ExpectError(comm, dataset.BeginStep(-1), invalid, "step -1");
    ExpectError(comm, dataset.BeginStep(1, HUGE_VAL), invalid, "time inf");
    ExpectOk(dataset.BeginStep(1, 0.5));
    ExpectError(comm, dataset.BeginStep(2), too_early, "step 1 is open");
    ExpectError(comm, dataset.Put("x", DataType::kFloat32, u.Fill(1, 1)), invalid, "no field \"x\"");
    ExpectError(comm, dataset.Put("u", last ? DataType::kFloat64 : DataType::kFloat32, u.Fill(1, 1)), invalid,
                "declared float32, not float64");
    const std::vector<const void*> none;
    ExpectError(comm, dataset.Put("u", DataType::kFloat32, last ? none : u.Fill(1, 1)), invalid,
                "0 arrays for 1");
    std::vector<const void*> null = u.Fill(1, 1);
    if (last) null[0] = nullptr;
    ExpectError(comm, dataset.Put("u", DataType::kFloat32, null), invalid, "has no array for owned box 0");
    ExpectOk(dataset.Put("u", DataType::kFloat32, u.Fill(1, 1)));
    ExpectError(comm, dataset.Put("u", DataType::kFloat32, u.Fill(1, 1)), invalid, "put twice");
    ExpectOk(dataset.AbandonStep());
    ExpectOk(WriteStep(&dataset, boxes, 1));
    ExpectOk(dataset.BeginStep(2));
    ExpectOk(PutFields(&dataset, boxes, 2));
    ExpectError(comm, dataset.Close(), too_early, "step 2 was begun and not ended");
    ExpectError(comm, dataset.BeginStep(3), too_early, "closed");
  });
  ExpectSteps(path, {1});
}

TEST_F(InTransitErrors, RanksThatMakeDifferentCallsDoNotHoldUpTheWriters) {
  if (writer::Size(MPI_COMM_WORLD) < 3) GTEST_SKIP() << "needs two simulation ranks";
  const fs::path path = Path("different.quarry");
  const Served served = Run(1, [&](const Roles& roles) {
    const MPI_Comm comm = roles.comm();
    const std::vector<OwnedBox> boxes = Share(comm, Arrangement::kDense);
    {
      const auto dataset = Dataset::Open(roles, comm, MakeSetup(path), boxes);
      ASSERT_TRUE(dataset.ok()) << dataset.status().message();
      ExpectOk(WriteStep(dataset->get(), boxes, 1));
      ExpectOk((*dataset)->BeginStep(2));
      const Status status = writer::Rank(comm) == 0 ? (*dataset)->EndStep() : (*dataset)->AbandonStep();
      ExpectError(comm, status, StatusCode::kFailedPrecondition, "different calls");
      ExpectError(comm, (*dataset)->Close(), StatusCode::kFailedPrecondition, "different calls");
    }
    ExpectOk(WriteSteps(roles, comm, Path("after.quarry"), Arrangement::kDense, {1}));
  });
  if (writer::Rank(MPI_COMM_WORLD) == writer::Size(MPI_COMM_WORLD) - 1) {
    EXPECT_EQ(served.steps, 2u);
  }
  ExpectSteps(path, {1});
  ExpectSteps(Path("after.quarry"), {1});
}

/// Ranks other than the first print only failures.
class FailuresOnly : public ::testing::EmptyTestEventListener {
  void OnTestPartResult(const ::testing::TestPartResult& result) override {
    if (result.failed()) {
      std::printf("rank %d: %s:%d: %s\n", writer::Rank(MPI_COMM_WORLD), result.file_name(),
                  result.line_number(), result.message());
      std::fflush(stdout);
    }
  }
};

}  // namespace
}  // namespace quarry::intransit

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  ::testing::InitGoogleTest(&argc, argv);
  if (quarry::writer::Rank(MPI_COMM_WORLD) != 0) {
    ::testing::TestEventListeners& listeners = ::testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new quarry::intransit::FailuresOnly);
  }
  const int code = RUN_ALL_TESTS();
  MPI_Finalize();
  return code;
}
