// The in-situ writer over real ranks: the data read back, byte for byte, for arrays of any arrangement and
// any number of ranks; and errors that all ranks must report, without harm to published data.
#include "quarry/insitu.h"

#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <map>

#include "tests/testing/make_dataset.h"
#include "writer/pipeline/comm.h"

namespace quarry::insitu {
namespace {

namespace fs = std::filesystem;

MPI_Comm g_ranks = MPI_COMM_NULL;  ///< all ranks, in the opposite order of MPI_COMM_WORLD

constexpr Index3 kDims = {37, 22, 13};

/// Every sample encodes its own place and step.
template <typename T>
T SampleAt(const Index3& p, int step) {
  const auto place = p[0] + kDims[0] * (p[1] + kDims[1] * p[2]);
  return static_cast<T>(place % 31000 + 7 * step);
}

template <typename Visit>
void ForEachSample(const Box& box, Visit visit) {
  for (auto z = box.begin[2]; z < box.end[2]; ++z) {
    for (auto y = box.begin[1]; y < box.end[1]; ++y) {
      for (auto x = box.begin[0]; x < box.end[0]; ++x) visit(Index3{x, y, z});
    }
  }
}

/// How a rank stores its share.
enum class Arrangement { kDense, kGhosted, kGhostedZFastest, kStructs, kBackwards, kManyBoxes };
constexpr std::array kArrangements = {Arrangement::kDense,           Arrangement::kGhosted,
                                      Arrangement::kGhostedZFastest, Arrangement::kStructs,
                                      Arrangement::kBackwards,       Arrangement::kManyBoxes};

/// Boxes that this rank owns: slabs of y, of different heights.
std::vector<Box> Share(MPI_Comm comm, Arrangement arrangement) {
  const std::int64_t rank = writer::Rank(comm);
  const std::int64_t size = writer::Size(comm);
  const auto cut = [&](std::int64_t i) { return kDims[1] * i * i / (size * size); };
  const Box slab{{0, cut(rank), 0}, {kDims[0], cut(rank + 1), kDims[2]}};
  if (arrangement != Arrangement::kManyBoxes) return {slab};
  // Pieces along x, dealt out in turn to all ranks but the last, which has none; and empty boxes.
  std::vector<Box> boxes = {Box{}};
  const std::int64_t owners = std::max<std::int64_t>(1, size - 1);
  for (std::int64_t x = 0; x < kDims[0]; x += 5) {
    if (x / 5 % owners != rank) continue;
    boxes.push_back({{x, 0, 0}, {std::min(x + 5, kDims[0]), kDims[1], 6}});
    boxes.push_back({{x, 0, 6}, {std::min(x + 5, kDims[0]), kDims[1], kDims[2]}});
    boxes.push_back(Box{{99, 99, 99}, {99, 100, 100}});
  }
  return boxes;
}

OwnedBox Arrange(const Box& box, Arrangement arrangement, std::size_t bytes) {
  const auto size = static_cast<std::int64_t>(bytes);
  const Index3 shape = box.shape();
  const Box with_ghosts{{box.begin[0] - 2, box.begin[1] - 1, box.begin[2]},
                        {box.end[0] + 1, box.end[1] + 3, box.end[2] + 1}};
  switch (arrangement) {
    case Arrangement::kGhosted:
      return OwnedBox::InArray(box, with_ghosts);
    case Arrangement::kGhostedZFastest:
      return OwnedBox::InArray(box, with_ghosts, ArrayOrder::kZFastest);
    case Arrangement::kStructs:
      return OwnedBox::Strided(box, {3 * size, 3 * size * shape[0], 3 * size * shape[0] * shape[1]});
    case Arrangement::kBackwards:
      return OwnedBox::Strided(box, {-size, size * shape[0], -size * shape[0] * shape[1]});
    case Arrangement::kDense:
    case Arrangement::kManyBoxes:
      break;
  }
  return OwnedBox::Dense(box);
}

/// The memory behind an owned box. Everything outside the box is a number that no sample has.
template <typename T>
class Memory {
 public:
  explicit Memory(const OwnedBox& owned) : owned_(owned) {
    if (owned.box.empty()) return;
    // Relative to the first sample, the others lie from `low` to `high`.
    std::int64_t low = 0;
    std::int64_t high = 0;
    const std::byte somewhere{};
    const BoxView view = owned.At(&somewhere, sizeof(T));
    first_ = view.data - &somewhere;
    for (std::size_t a = 0; a < 3; ++a) {
      const std::int64_t reach = view.stride[a] * (owned.box.shape()[a] - 1);
      (reach < 0 ? low : high) += reach;
    }
    const std::int64_t array = owned.storage.volume() * static_cast<std::int64_t>(sizeof(T));
    const std::int64_t bytes = std::max(array, first_ + high + static_cast<std::int64_t>(sizeof(T))) - low;
    samples_.assign(static_cast<std::size_t>(bytes) / sizeof(T) + 1, static_cast<T>(-77));
    offset_ = -low;
  }

  void Fill(const std::function<T(const Index3&)>& value) {
    const BoxView view = owned_.At(address(), sizeof(T));
    ForEachSample(owned_.box, [&](const Index3& p) {
      std::int64_t at = 0;
      for (std::size_t a = 0; a < 3; ++a) at += (p[a] - owned_.box.begin[a]) * view.stride[a];
      *reinterpret_cast<T*>(const_cast<std::byte*>(view.data + at)) = value(p);
    });
  }

  const void* address() const {
    return samples_.empty() ? nullptr : reinterpret_cast<const std::byte*>(samples_.data()) + offset_;
  }

 private:
  OwnedBox owned_;
  std::vector<T> samples_;
  std::ptrdiff_t first_ = 0;
  std::ptrdiff_t offset_ = 0;
};

/// A rank's arrays for one field.
template <typename T>
class Arrays {
 public:
  Arrays(MPI_Comm comm, Arrangement arrangement) {
    for (const Box& box : Share(comm, arrangement)) boxes_.push_back(Arrange(box, arrangement, sizeof(T)));
    for (const OwnedBox& box : boxes_) memory_.emplace_back(box);
  }
  const std::vector<OwnedBox>& boxes() const { return boxes_; }
  std::vector<const void*> Addresses() const {
    std::vector<const void*> addresses;
    for (const auto& memory : memory_) addresses.push_back(memory.address());
    return addresses;
  }
  std::vector<const void*> Fill(int step) {
    return FillWith([step](const Index3& p) { return SampleAt<T>(p, step); });
  }
  std::vector<const void*> FillWith(const std::function<T(const Index3&)>& value) {
    for (auto& memory : memory_) memory.Fill(value);
    return Addresses();
  }

 private:
  std::vector<OwnedBox> boxes_;
  std::vector<Memory<T>> memory_;
};

Field Lossless(const std::string& name, DataType type) {
  Field field;
  field.name = name;
  field.type = type;
  field.lossless = true;
  return field;
}

/// "p" of float32 without loss in patches of 8.
Setup MakeSetup(const fs::path& path) {
  Setup setup;
  setup.path = path.string();
  setup.declaration.dims = kDims;
  setup.declaration.patch = Index3{8, 8, 8};
  setup.declaration.fields = {Lossless("p", DataType::kFloat32)};
  setup.pipeline.files = 2;
  return setup;
}

/// Writes steps of "p".
Status Write(MPI_Comm comm, const Setup& setup, Arrangement arrangement, const std::vector<int>& steps) {
  Arrays<float> arrays(comm, arrangement);
  QUARRY_ASSIGN_OR_RETURN(const auto dataset, Dataset::Open(comm, setup, arrays.boxes()));
  for (const int step : steps) {
    QUARRY_RETURN_IF_ERROR(dataset->BeginStep(step, 0.5 * step));
    QUARRY_RETURN_IF_ERROR(dataset->Put("p", DataType::kFloat32, arrays.Fill(step)));
    QUARRY_RETURN_IF_ERROR(dataset->EndStep());
  }
  return dataset->Close();
}

/// Everything below a folder: relative path to content.
std::map<std::string, std::string> Snapshot(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    std::ifstream file(entry.path(), std::ios::binary);
    std::string& content = files[entry.path().lexically_relative(folder).string()];
    if (entry.is_regular_file()) content.assign(std::istreambuf_iterator<char>(file), {});
  }
  return files;
}

std::vector<float> Expected(int step) {
  std::vector<float> samples;
  ForEachSample({{0, 0, 0}, kDims}, [&](const Index3& p) { samples.push_back(SampleAt<float>(p, step)); });
  return samples;
}

/// On the ranks that call it: the dataset has exactly these steps, with the written samples.
void ExpectSteps(const fs::path& path, const std::vector<std::uint64_t>& steps) {
  const auto dataset = quarry::Dataset::Open(path);
  ASSERT_TRUE(dataset.ok()) << dataset.status().message();
  EXPECT_EQ((*dataset)->steps(), steps);
  for (const std::uint64_t step : (*dataset)->steps()) {
    query::ReadRequest request;
    request.field = "p";
    request.step = step;
    EXPECT_EQ(testing::ReadAll(**dataset, request), Expected(static_cast<int>(step))) << "step " << step;
  }
}

/// A folder that all ranks know; test failures determine the exit code of the program.
class InSitu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (writer::Rank(g_ranks) == 0) folder_.emplace();
    path_ = *writer::BroadcastText(g_ranks, folder_ ? folder_->path().string() : "");
  }
  void TearDown() override { MPI_Barrier(g_ranks); }

  fs::path Path(const std::string& name) const { return fs::path(path_) / name; }
  static bool root() { return writer::Rank(g_ranks) == 0; }
  static bool last() { return writer::Rank(g_ranks) == writer::Size(g_ranks) - 1; }
  /// Waits for all ranks, so that no rank continues while rank 0 checks.
  template <typename Check>
  static void OnRoot(Check check) {
    MPI_Barrier(g_ranks);
    if (root()) check();
    MPI_Barrier(g_ranks);
  }
  /// The same error on all ranks, with this in its message.
  static void ExpectError(const Status& status, StatusCode code, const std::string& text) {
    EXPECT_EQ(static_cast<int>(status.code()), static_cast<int>(code)) << status.message();
    EXPECT_NE(status.message().find(text), std::string::npos) << status.message() << "\nwithout: " << text;
    EXPECT_EQ(status.message(), *writer::BroadcastText(g_ranks, status.message()));
  }
  static void ExpectOk(const Status& status) { EXPECT_TRUE(status.ok()) << status.message(); }

 private:
  std::optional<testing::TemporaryFolder> folder_;
  std::string path_;
};

using InSituWrite = InSitu;

TEST_F(InSituWrite, AnyArrangementOnAnyRanksGivesTheSameBytes) {
  // One rank, one dense array: the reference for all others.
  const fs::path reference = Path("reference.quarry");
  if (root()) ExpectOk(Write(MPI_COMM_SELF, MakeSetup(reference), Arrangement::kDense, {3, 4}));
  for (const Arrangement arrangement : kArrangements) {
    SCOPED_TRACE(static_cast<int>(arrangement));
    const fs::path path = Path(fmt::format("{}.quarry", static_cast<int>(arrangement)));
    ExpectOk(Write(g_ranks, MakeSetup(path), arrangement, {3, 4}));
    OnRoot([&] {
      EXPECT_EQ(Snapshot(path), Snapshot(reference));
      ExpectSteps(path, {3, 4});
    });
  }
}

TEST_F(InSituWrite, LittleMemoryChangesNoByte) {
  const fs::path path = Path("little.quarry");
  const fs::path reference = Path("reference.quarry");
  ExpectOk(Write(g_ranks, MakeSetup(reference), Arrangement::kGhosted, {0}));
  auto setup = MakeSetup(path);
  setup.pipeline.memory_per_rank = 8192;
  ExpectOk(Write(g_ranks, setup, Arrangement::kGhosted, {0}));
  OnRoot([&] { EXPECT_EQ(Snapshot(path), Snapshot(reference)); });
}

TEST_F(InSituWrite, FieldsOfSeveralTypesInOneStep) {
  const fs::path path = Path("types.quarry");
  auto setup = MakeSetup(path);
  Field relative;
  relative.name = "t";
  relative.type = DataType::kFloat64;
  relative.relative = 1e-3;
  relative.units = "K";
  relative.fill = -1e30;
  setup.declaration.fields = {relative, Lossless("n", DataType::kInt16)};
  setup.declaration.origin = {{1, 2, 3}};
  setup.declaration.spacing = {{0.5, 0.5, 2}};
  Arrays<double> t(g_ranks, Arrangement::kGhosted);
  Arrays<std::int16_t> n(g_ranks, Arrangement::kGhosted);
  const auto dataset = Dataset::Open(g_ranks, setup, t.boxes());
  ASSERT_TRUE(dataset.ok()) << dataset.status().message();
  ExpectOk((*dataset)->BeginStep(12, 2.5));
  const auto hole = [](const Index3& p) { return p[0] < 9 && p[2] == 4; };
  ExpectOk((*dataset)->Put("t", DataType::kFloat64, t.FillWith([&](const Index3& p) {
    return hole(p) ? -1e30
                   : std::sin(0.1 * static_cast<double>(p[0])) + 0.01 * static_cast<double>(p[1] * p[2]);
  })));
  ExpectOk((*dataset)->Put("n", DataType::kInt16, n.Fill(12)));
  ExpectOk((*dataset)->EndStep());
  ExpectOk((*dataset)->Close());
  OnRoot([&] {
    const auto read = quarry::Dataset::Open(path);
    ASSERT_TRUE(read.ok());
    const DatasetDescription& description = (*read)->description();
    EXPECT_EQ(description.grids[0].origin, (std::array<double, 3>{1, 2, 3}));
    EXPECT_EQ(description.grids[0].spacing, (std::array<double, 3>{0.5, 0.5, 2}));
    ASSERT_EQ(description.fields.size(), 2u);
    EXPECT_EQ(description.fields[0].units, "K");
    const auto step = (*read)->Step(12);
    ASSERT_TRUE(step.ok());
    EXPECT_EQ((*step)->time, 2.5);
    const FieldStepDescription& field = *(*step)->FindField("t");
    EXPECT_EQ(field.valid, static_cast<std::uint64_t>(Volume(kDims) - 9 * kDims[1]));
    EXPECT_DOUBLE_EQ(field.tolerance, 1e-3 * (field.max - field.min));
    EXPECT_LE(field.max_error, field.tolerance);
    EXPECT_EQ((*step)->FindField("n")->max_error, 0);
  });
}

TEST_F(InSituWrite, PartsOfACommunicatorWriteOnTheirOwn) {
  // Even ranks write a dataset, odd ones another at the same time; then the host frees the communicator of
  // the odd ones.
  const int colour = writer::Rank(g_ranks) % 2;
  const fs::path path = Path(fmt::format("part{}.quarry", colour));
  MPI_Comm part = MPI_COMM_NULL;
  MPI_Comm_split(g_ranks, colour, writer::Rank(g_ranks), &part);
  ExpectOk(Write(part, MakeSetup(path), Arrangement::kGhosted, {1}));
  MPI_Barrier(part);
  if (writer::Rank(part) == 0) ExpectSteps(path, {1});
  MPI_Comm_free(&part);
}

TEST_F(InSituWrite, OneRankAloneNeedsNoOther) {
  // The others are in a barrier all the time, and would not answer.
  if (last()) {
    ExpectOk(Write(MPI_COMM_SELF, MakeSetup(Path("alone.quarry")), Arrangement::kManyBoxes, {1}));
    ExpectSteps(Path("alone.quarry"), {1});
  }
  MPI_Barrier(g_ranks);
}

TEST_F(InSituWrite, TwoDatasetsAtOnce) {
  Arrays<float> dense(g_ranks, Arrangement::kDense);
  Arrays<float> many(g_ranks, Arrangement::kManyBoxes);
  const auto a = Dataset::Open(g_ranks, MakeSetup(Path("a.quarry")), dense.boxes());
  const auto b = Dataset::Open(g_ranks, MakeSetup(Path("b.quarry")), many.boxes());
  ASSERT_TRUE(a.ok() && b.ok());
  ExpectOk((*a)->BeginStep(0));
  ExpectOk((*b)->BeginStep(5));
  ExpectOk((*b)->Put("p", DataType::kFloat32, many.Fill(5)));
  ExpectOk((*a)->Put("p", DataType::kFloat32, dense.Fill(0)));
  ExpectOk((*a)->EndStep());
  ExpectOk((*a)->BeginStep(1));
  ExpectOk((*a)->Put("p", DataType::kFloat32, dense.Fill(1)));
  ExpectOk((*b)->EndStep());
  ExpectOk((*a)->EndStep());
  ExpectOk((*b)->Close());
  ExpectOk((*a)->Close());
  OnRoot([&] {
    ExpectSteps(Path("a.quarry"), {0, 1});
    ExpectSteps(Path("b.quarry"), {5});
  });
}

TEST_F(InSituWrite, LeavesTheHostsCommunicatorAlone) {
  MPI_Comm host = MPI_COMM_NULL;
  MPI_Comm_dup(g_ranks, &host);
  MPI_Comm_set_errhandler(host, MPI_ERRORS_ARE_FATAL);
  // A receive that accepts any message of the host's communicator waits while the dataset is written.
  const int size = writer::Size(host);
  const int next = (writer::Rank(host) + 1) % size;
  int received = -1;
  MPI_Request request;
  MPI_Irecv(&received, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, host, &request);
  ExpectOk(Write(host, MakeSetup(Path("host.quarry")), Arrangement::kDense, {0, 1}));
  MPI_Errhandler handler;
  MPI_Comm_get_errhandler(host, &handler);
  EXPECT_EQ(handler, MPI_ERRORS_ARE_FATAL);
  const int sent = 42;
  MPI_Send(&sent, 1, MPI_INT, next, 7, host);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  EXPECT_EQ(received, 42);
  MPI_Comm_free(&host);
}

TEST_F(InSituWrite, ResumesAndAppends) {
  const fs::path path = Path("resume.quarry");
  auto setup = MakeSetup(path);
  ExpectOk(Write(g_ranks, setup, Arrangement::kDense, {0, 1}));
  ExpectError(Write(g_ranks, setup, Arrangement::kDense, {2}), StatusCode::kAlreadyExists, "exists already");
  setup.mode = OpenMode::kAppend;
  ExpectError(Write(g_ranks, setup, Arrangement::kDense, {1}), StatusCode::kAlreadyExists, "step 1 of");
  ExpectOk(Write(g_ranks, setup, Arrangement::kGhosted, {2}));
  setup.mode = OpenMode::kResume;
  ExpectOk(Write(g_ranks, setup, Arrangement::kDense, {1, 2, 3}));
  OnRoot([&] { ExpectSteps(path, {0, 1, 2, 3}); });
  // An additional field, in a step that exists.
  setup.declaration.fields.push_back(Lossless("q", DataType::kFloat32));
  Arrays<float> arrays(g_ranks, Arrangement::kDense);
  const auto dataset = Dataset::Open(g_ranks, setup, arrays.boxes());
  ASSERT_TRUE(dataset.ok()) << dataset.status().message();
  ExpectOk((*dataset)->BeginStep(3));
  ExpectOk((*dataset)->Put("p", DataType::kFloat32, arrays.Fill(99)));  // left out
  ExpectOk((*dataset)->Put("q", DataType::kFloat32, arrays.Fill(4)));
  ExpectOk((*dataset)->EndStep());
  ExpectOk((*dataset)->Close());
  OnRoot([&] { ExpectSteps(path, {0, 1, 2, 3}); });
}

using InSituOpen = InSitu;

TEST_F(InSituOpen, RefusesBoxesThatDoNotCoverTheGridOnce) {
  const fs::path path = Path("boxes.quarry");
  const auto setup = MakeSetup(path);
  const int rank = writer::Rank(g_ranks);
  const int size = writer::Size(g_ranks);
  // Slabs of x; that of the last rank can be wrong.
  const auto open = [&](std::int64_t begin_by, std::int64_t end_by) {
    Box box{{kDims[0] * rank / size, 0, 0}, {kDims[0] * (rank + 1) / size, kDims[1], kDims[2]}};
    if (last()) box.begin[0] += begin_by;
    if (last()) box.end[0] += end_by;
    return Dataset::Open(g_ranks, setup, {OwnedBox::Dense(box)}).status();
  };
  ExpectError(open(0, 2), StatusCode::kInvalidArgument, fmt::format("rank {} owns [", size - 1));
  ExpectError(open(0, 2), StatusCode::kInvalidArgument, "which is not inside the domain of 37x22x13 samples");
  ExpectError(open(0, std::int64_t{1} << 40), StatusCode::kInvalidArgument, "not inside");
  ExpectError(open(0, -3), StatusCode::kInvalidArgument, "[34:37,0:22,0:13)");
  if (size > 1) {
    ExpectError(open(-1, 0), StatusCode::kInvalidArgument,
                fmt::format("ranks {} and {} both own", size - 2, size - 1));
  } else {
    ExpectError(open(-1, 0), StatusCode::kInvalidArgument, "not inside");
  }
  const Box whole{{0, 0, 0}, kDims};
  const Box elsewhere{{0, 0, 0}, {2, 2, 2}};
  const std::vector<OwnedBox> boxes = {OwnedBox::InArray(whole, last() ? elsewhere : whole)};
  ExpectError(Dataset::Open(g_ranks, setup, boxes).status(), StatusCode::kInvalidArgument, "its array holds");
  OnRoot([&] { EXPECT_TRUE(fs::is_empty(path.parent_path())) << "refused, but something was left"; });
  ExpectOk(Write(g_ranks, setup, Arrangement::kDense, {0}));
  OnRoot([&] { ExpectSteps(path, {0}); });
}

TEST_F(InSituOpen, RefusesDeclarationsThatMakeNoSense) {
  Arrays<float> arrays(g_ranks, Arrangement::kDense);
  const auto expect = [&](const std::function<void(insitu::Setup*)>& change, const std::string& text,
                          StatusCode code = StatusCode::kInvalidArgument) {
    auto setup = MakeSetup(Path("wrong.quarry"));
    change(&setup);
    ExpectError(Dataset::Open(g_ranks, setup, arrays.boxes()).status(), code, text);
  };
  const auto field = [](insitu::Setup* s) -> Field& { return s->declaration.fields[0]; };
  expect([&](insitu::Setup* s) { s->declaration.fields.clear(); }, "no field is declared");
  expect([&](insitu::Setup* s) { s->declaration.fields.push_back(field(s)); }, "\"p\" is declared twice");
  expect([&](insitu::Setup* s) { field(s).lossless = false; }, "no error bound");
  expect([&](insitu::Setup* s) { field(s).tolerance = 1; }, "several error bounds");
  expect([&](insitu::Setup* s) { field(s).lossless = false, field(s).tolerance = -1; },
         "not a positive number");
  expect([&](insitu::Setup* s) { field(s).coder = CoderId::kInterpolate; }, "without loss");
  expect([&](insitu::Setup* s) { field(s).type = DataType::kUint8, field(s).coder = CoderId::kValidity; },
         "validity does not code");
  expect([&](insitu::Setup* s) { field(s).name = "a/b"; }, "cannot be a field name");
  expect([&](insitu::Setup* s) { s->declaration.patch = Index3{7, 8, 8}; }, "7");
  expect([&](insitu::Setup* s) { s->declaration.levels = 40; }, "40 levels");
  expect([&](insitu::Setup* s) { s->pipeline.files = 0; }, "0 subfiles");
  expect([&](insitu::Setup* s) { s->path.clear(); }, "the path is empty");
  expect([&](insitu::Setup* s) { s->path = Path("nowhere/x.quarry").string(); }, "no directory",
         StatusCode::kNotFound);
  expect([&](insitu::Setup* s) { s->mode = OpenMode::kAppend; }, "no dataset", StatusCode::kNotFound);
  expect([&](insitu::Setup* s) { s->declaration.spacing = {{1, 0, 1}}; }, "spacing 0 along y");
  expect([&](insitu::Setup* s) { s->declaration.origin = {{0, 0, HUGE_VAL}}; }, "origin inf");
  // An error on one rank: its own error, or that it differs.
  expect(
      [&](insitu::Setup* s) {
        if (last()) field(s).lossless = false;
      },
      "no error bound");
  if (writer::Size(g_ranks) > 1)
    expect(
        [&](insitu::Setup* s) {
          if (last()) s->path += "2";
        },
        "different arguments");
  const Status refused = Dataset::Open(g_ranks, MakeSetup(Path("wrong.quarry")), arrays.boxes(),
                                       last() ? InvalidArgument("found before") : Status::Ok())
                             .status();
  ExpectError(refused, StatusCode::kInvalidArgument, "found before");
  ExpectError(Dataset::Open(MPI_COMM_NULL, MakeSetup(Path("wrong.quarry")), {}).status(),
              StatusCode::kInvalidArgument, "MPI_COMM_NULL");
  OnRoot([&] { EXPECT_TRUE(fs::is_empty(Path("wrong.quarry").parent_path())); });
}

TEST_F(InSituOpen, RefusesToContinueAnotherDataset) {
  const fs::path path = Path("other.quarry");
  ExpectOk(Write(g_ranks, MakeSetup(path), Arrangement::kDense, {0}));
  const auto expect = [&](const std::function<void(insitu::Setup*)>& change, const std::string& text) {
    auto setup = MakeSetup(path);
    setup.mode = OpenMode::kAppend;
    change(&setup);
    ExpectError(Write(g_ranks, setup, Arrangement::kDense, {1}), StatusCode::kInvalidArgument, text);
  };
  // The boxes are those of 37 x 22 x 13 samples.
  expect([](insitu::Setup* s) { s->declaration.dims = {36, 22, 13}; }, "not inside the domain of 36x22x13");
  expect([](insitu::Setup* s) { s->declaration.dims = {37, 22, 14}; }, "[0:37,0:22,13:14)");
  expect([](insitu::Setup* s) { s->declaration.patch = Index3{16, 16, 16}; }, "patch 16x16x16 differs");
  expect([](insitu::Setup* s) { s->declaration.fields[0].fill = 7; }, "no fill value in the dataset");
  OnRoot([&] { ExpectSteps(path, {0}); });
}

TEST_F(InSitu, TimesOfAContinuedDatasetAreInItsUnit) {
  const auto write = [&](const std::string& path, std::int64_t step, std::optional<double> time,
                         const TimeUnit& unit) -> Status {
    auto setup = MakeSetup(path);
    setup.mode = OpenMode::kResume;
    setup.declaration.time_unit = unit;
    Arrays<float> arrays(g_ranks, Arrangement::kDense);
    QUARRY_ASSIGN_OR_RETURN(const auto dataset, Dataset::Open(g_ranks, setup, arrays.boxes()));
    QUARRY_RETURN_IF_ERROR(dataset->BeginStep(step, time));
    QUARRY_RETURN_IF_ERROR(dataset->Put("p", DataType::kFloat32, arrays.Fill(1)));
    QUARRY_RETURN_IF_ERROR(dataset->EndStep());
    return dataset->Close();
  };
  const std::string path = Path("times.quarry");

  ExpectOk(write(path, 0, {}, {}));
  ExpectOk(
      write(path, 1, 0.5, {"days since 2001-01-01", "noleap"}));  // No time was there: the unit is welcome.
  ExpectOk(write(path, 2, 6, {"hours since 2001-01-02", "365_day"}));
  ExpectOk(write(path, 3, 2.5, {}));
  ExpectError(write(path, 4, 1, {"days since 2001-01-01", "standard"}), StatusCode::kInvalidArgument,
              "their calendars differ");
  ExpectError(write(path, 4, 1, {"days since 2001-01-01", std::string(2000, 'x')}),
              StatusCode::kInvalidArgument, "2000 bytes");
  OnRoot([&] {
    const auto read = quarry::Dataset::Open(path);
    ASSERT_TRUE(read.ok());
    EXPECT_EQ((*read)->description().time_unit, (TimeUnit{"days since 2001-01-01", "noleap"}));
    const std::vector<std::optional<double>> times = {{}, 0.5, 1.25, 2.5};
    for (std::uint64_t step = 0; step < times.size(); ++step)
      EXPECT_EQ((*(*read)->Step(step))->time, times[step]);
    EXPECT_EQ((*read)->steps().size(), times.size());
  });

  const std::string unknown = Path("numbers.quarry");
  ExpectOk(write(unknown, 0, 1, {}));
  ExpectError(write(unknown, 1, 1, {"s", ""}), StatusCode::kInvalidArgument, "have no unit");
}

/// A dataset with step 0, open.
class InSituStep : public InSitu {
 protected:
  void SetUp() override {
    InSitu::SetUp();
    arrays_.emplace(g_ranks, Arrangement::kManyBoxes);
    auto setup = MakeSetup(Path("steps.quarry"));
    setup.declaration.fields.push_back(Lossless("n", DataType::kInt32));
    auto opened = Dataset::Open(g_ranks, setup, arrays_->boxes());
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    dataset_ = *std::move(opened);
    WriteStep(0);
  }

  void WriteStep(int step) {
    ExpectOk(dataset_->BeginStep(step));
    ExpectOk(Put(step));
    ExpectOk(dataset_->EndStep());
  }
  Status Put(int step) { return dataset_->Put("p", DataType::kFloat32, arrays_->Fill(step)); }

  /// After any error: writes another step, and nothing else is in the dataset or beside it.
  void GoOn(const std::vector<std::uint64_t>& steps) {
    WriteStep(static_cast<int>(steps.back()));
    ExpectOk(dataset_->Close());
    ExpectOnly(steps);
  }
  void ExpectOnly(const std::vector<std::uint64_t>& steps) {
    OnRoot([&] {
      ExpectSteps(Path("steps.quarry"), steps);
      for (const auto& [name, content] : Snapshot(Path("."))) {
        if (name.ends_with("/.partial-catalogue-is-current")) continue;  // stays beside the steps
        EXPECT_EQ(name.find(".partial"), std::string::npos) << name;
      }
    });
  }

  std::optional<Arrays<float>> arrays_;
  std::unique_ptr<Dataset> dataset_;
};

TEST_F(InSituStep, RefusesWrongArgumentsAndGoesOn) {
  const std::vector<const void*> p = arrays_->Fill(1);
  const auto put = [&](const std::string& field, DataType type) { return dataset_->Put(field, type, p); };
  ExpectError(put("p", DataType::kFloat32), StatusCode::kFailedPrecondition, "needs an open step");
  ExpectError(dataset_->EndStep(), StatusCode::kFailedPrecondition, "no step is open");
  ExpectError(dataset_->BeginStep(-1), StatusCode::kInvalidArgument, "step -1");
  ExpectError(dataset_->BeginStep(last() ? -1 : 1), StatusCode::kInvalidArgument, "step -1");
  for (const double time : {std::nan(""), HUGE_VAL, -HUGE_VAL})
    ExpectError(dataset_->BeginStep(1, time), StatusCode::kInvalidArgument, fmt::format("time {}", time));
  ExpectOk(dataset_->BeginStep(1));
  ExpectError(dataset_->BeginStep(2), StatusCode::kFailedPrecondition, "step 1 is open");
  ExpectError(put("q", DataType::kFloat32), StatusCode::kInvalidArgument, "no field \"q\"");
  ExpectError(put("p", DataType::kFloat64), StatusCode::kInvalidArgument, "float32, not float64");
  ExpectError(put("p", DataType{0}), StatusCode::kInvalidArgument, "float32, not unknown");
  ExpectError(dataset_->Put<float>("p", {}), StatusCode::kInvalidArgument, "0 arrays");
  // On one rank only.
  ExpectError(put(last() ? "q" : "p", DataType::kFloat32), StatusCode::kInvalidArgument, "no field \"q\"");
  ExpectError(put("p", last() ? DataType::kInt8 : DataType::kFloat32), StatusCode::kInvalidArgument,
              "not int8");
  std::vector<const void*> fewer = p;
  if (last()) fewer.push_back(nullptr);
  ExpectError(dataset_->Put("p", DataType::kFloat32, fewer), StatusCode::kInvalidArgument, "owned boxes");
  std::vector<const void*> gone = p;
  if (root()) gone.assign(p.size(), nullptr);
  ExpectError(dataset_->Put("p", DataType::kFloat32, gone), StatusCode::kInvalidArgument,
              "no array for owned box 1");
  if (writer::Size(g_ranks) > 1) {
    // Both are right, but not together.
    Arrays<std::int32_t> n(g_ranks, Arrangement::kManyBoxes);
    const Status status =
        last() ? dataset_->Put("n", DataType::kInt32, n.Fill(1)) : put("p", DataType::kFloat32);
    ExpectError(status, StatusCode::kInvalidArgument, "different arguments");
  }
  ExpectOk(put("p", DataType::kFloat32));
  ExpectError(put("p", DataType::kFloat32), StatusCode::kInvalidArgument, "put twice");
  ExpectOk(dataset_->EndStep());
  ExpectError(dataset_->EndStep(), StatusCode::kFailedPrecondition, "no step is open");
  GoOn({0, 1, 2});
}

TEST_F(InSituStep, WithoutFieldsIsLeftOut) {
  ExpectOk(dataset_->BeginStep(1));
  ExpectError(dataset_->EndStep(), StatusCode::kFailedPrecondition, "step 1 has no field and is left out");
  GoOn({0, 2});
}

TEST_F(InSituStep, ThatIsPublishedTakesMissingFieldsOnly) {
  ExpectOk(dataset_->BeginStep(0));  // without "n" so far
  ExpectError(Put(0), StatusCode::kAlreadyExists, "has the field \"p\" already");
  Arrays<std::int32_t> n(g_ranks, Arrangement::kManyBoxes);
  ExpectOk(dataset_->Put("n", DataType::kInt32, n.Fill(0)));
  ExpectOk(dataset_->EndStep());
  ExpectError(dataset_->BeginStep(0), StatusCode::kAlreadyExists, "step 0 of");
  GoOn({0, 1});
}

TEST_F(InSituStep, ThatIsAbandonedIsRemoved) {
  ExpectError(dataset_->AbandonStep(), StatusCode::kFailedPrecondition, "no step is open");
  ExpectOk(dataset_->BeginStep(1));
  ExpectOk(Put(1));
  ExpectOk(dataset_->AbandonStep());
  ExpectError(dataset_->EndStep(), StatusCode::kFailedPrecondition, "no step is open");
  ExpectOnly({0});
  ExpectOk(dataset_->BeginStep(2));
  ExpectOk(dataset_->AbandonStep());
  GoOn({0, 2});
}

TEST_F(InSituStep, ThatIsOpenAtTheEndIsRemoved) {
  ExpectOk(dataset_->BeginStep(1));
  ExpectOk(Put(1));
  ExpectError(dataset_->Close(), StatusCode::kFailedPrecondition, "step 1 was begun and not ended");
  ExpectError(dataset_->Close(), StatusCode::kFailedPrecondition, "closed");
  ExpectError(dataset_->BeginStep(2), StatusCode::kFailedPrecondition, "closed");
  ExpectOnly({0});
}

TEST_F(InSituStep, ThatIsOpenWhenTheObjectGoesIsRemoved) {
  ExpectOk(dataset_->BeginStep(1));
  ExpectOk(Put(1));
  dataset_.reset();
  ExpectOnly({0});
}

TEST_F(InSituStep, DifferentCallsEndTheWritingButNothingElse) {
  if (writer::Size(g_ranks) == 1) GTEST_SKIP() << "needs two ranks";
  ExpectOk(dataset_->BeginStep(1));
  const Status status = last() ? dataset_->EndStep() : Put(1);
  ExpectError(status, StatusCode::kFailedPrecondition, "different calls");
  // No rank waits, although the last one makes one call less from here on.
  if (!last()) {
    EXPECT_EQ(dataset_->EndStep().code(), StatusCode::kFailedPrecondition);
  }
  EXPECT_EQ(dataset_->BeginStep(2).code(), StatusCode::kFailedPrecondition);
  ExpectError(dataset_->Close(), StatusCode::kFailedPrecondition, "different calls");
  ExpectOnly({0});
  auto setup = MakeSetup(Path("steps.quarry"));
  setup.mode = OpenMode::kAppend;
  ExpectOk(Write(g_ranks, setup, Arrangement::kDense, {1}));
  ExpectOnly({0, 1});
}

// A dataset whose first step was abandoned does not exist, and its name is free.
TEST_F(InSitu, GivenUpDatasetLeavesThatOfAnotherAlone) {
  const fs::path path = Path("name.quarry");
  Arrays<float> arrays(g_ranks, Arrangement::kDense);
  const auto open = [&] { return Dataset::Open(g_ranks, MakeSetup(path), arrays.boxes()); };
  const auto put = [&](Dataset* dataset, int step) -> Status {
    QUARRY_RETURN_IF_ERROR(dataset->BeginStep(step));
    return dataset->Put("p", DataType::kFloat32, arrays.Fill(step));
  };
  const auto given_up = open();
  ASSERT_TRUE(given_up.ok()) << given_up.status().message();
  ExpectOk(put(given_up->get(), 0));
  ExpectOk((*given_up)->AbandonStep());
  const auto other = open();
  ASSERT_TRUE(other.ok()) << other.status().message();
  ExpectOk(put(other->get(), 1));
  ExpectOk((*given_up)->BeginStep(0));
  ExpectOk((*given_up)->AbandonStep());
  ExpectOk((*other)->EndStep());
  ExpectError(put(given_up->get(), 0), StatusCode::kUnavailable, "created by another process");
  ExpectError((*given_up)->EndStep(), StatusCode::kFailedPrecondition, "no step is open");
  ExpectOk((*given_up)->Close());
  ExpectOk((*other)->Close());
  OnRoot([&] {
    ExpectSteps(path, {1});
    EXPECT_FALSE(fs::exists(path.parent_path() / ".name.quarry.partial"));
  });
}

// A step that fails takes its mask with it; the next step with the same holes writes it again.
TEST_F(InSitu, StepThatFailsLeavesNoTrace) {
  const fs::path path = Path("fails.quarry");
  auto setup = MakeSetup(path);
  Field wide;
  wide.name = "wide";
  wide.type = DataType::kFloat64;
  wide.relative = 1e-3;
  setup.declaration.fields.push_back(wide);
  Arrays<float> p(g_ranks, Arrangement::kDense);
  Arrays<double> w(g_ranks, Arrangement::kDense);
  const auto dataset = Dataset::Open(g_ranks, setup, p.boxes());
  ASSERT_TRUE(dataset.ok()) << dataset.status().message();
  const auto with_hole = [](const Index3& at) {
    return at[0] == 3 ? std::numeric_limits<float>::quiet_NaN() : SampleAt<float>(at, 0);
  };
  // The first step of a new dataset, and a step of an existing one.
  for (const int step : {0, 1}) {
    ExpectOk((*dataset)->BeginStep(2 * step));
    ExpectOk((*dataset)->Put("p", DataType::kFloat32, p.FillWith(with_hole)));
    const Status status =
        (*dataset)->Put("wide", DataType::kFloat64,
                        w.FillWith([](const Index3& at) { return at[0] % 2 == 0 ? 1.7e308 : -1.7e308; }));
    ExpectError(status, StatusCode::kOutOfRange, "the value range");
    ExpectError((*dataset)->EndStep(), StatusCode::kFailedPrecondition, "no step is open");
    ExpectOk((*dataset)->BeginStep(2 * step + 1));
    ExpectOk((*dataset)->Put("p", DataType::kFloat32, p.FillWith(with_hole)));
    ExpectOk((*dataset)->EndStep());
  }
  ExpectOk((*dataset)->Close());
  OnRoot([&] {
    const auto read = quarry::Dataset::Open(path);
    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_EQ((*read)->steps(), (std::vector<std::uint64_t>{1, 3}));
    query::ReadRequest request;
    request.field = "p";
    for (const std::uint64_t step : {1, 3}) {
      request.step = step;
      const std::vector<float> samples = testing::ReadAll(**read, request);
      EXPECT_TRUE(std::isnan(samples[3]));
      EXPECT_EQ(samples[4], 4.0f);
    }
  });
}

/// Ranks other than rank 0 print only failures.
class FailuresOnly : public ::testing::EmptyTestEventListener {
  void OnTestPartResult(const ::testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::fprintf(stderr, "rank %d: %s:%d: %s\n", writer::Rank(g_ranks), result.file_name(),
                 result.line_number(), result.summary());
  }
};

}  // namespace
}  // namespace quarry::insitu

int main(int argc, char** argv) {
  using quarry::insitu::g_ranks;
  MPI_Init(&argc, &argv);
  ::testing::InitGoogleTest(&argc, argv);
  // Ranks of the communicator are not those of MPI_COMM_WORLD.
  MPI_Comm_split(MPI_COMM_WORLD, 0, -quarry::writer::Rank(MPI_COMM_WORLD), &g_ranks);
  if (quarry::writer::Rank(g_ranks) != 0) {
    ::testing::TestEventListeners& listeners = ::testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new quarry::insitu::FailuresOnly);
  }
  const int code = RUN_ALL_TESTS();
  MPI_Comm_free(&g_ranks);
  MPI_Finalize();
  return code;
}
