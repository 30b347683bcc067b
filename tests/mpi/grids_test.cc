// Fields of several shapes in one dataset of a simulation: each opening has one grid, and a dataset that is
// continued gets further ones; what a declaration says of its data is kept. On any number of ranks the bytes
// are the same.
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "quarry/format/manifest.h"
#include "quarry/insitu.h"
#include "tests/testing/make_dataset.h"
#include "writer/insitu/declaration.h"
#include "writer/insitu/setup.h"
#include "writer/pipeline/comm.h"

namespace quarry::insitu {
namespace {

namespace fs = std::filesystem;

constexpr Index3 kVolume = {21, 14, 9};
constexpr Index3 kMap = {21, 14, 1};
constexpr Index3 kStaggered = {22, 14, 9};

MPI_Comm Ranks() { return MPI_COMM_WORLD; }
bool IsRoot() { return writer::Rank(Ranks()) == 0; }

/// Every sample tells its place, its grid and its step; neighbours and steps differ little.
float SampleAt(const Index3& dims, const Index3& p, int step) {
  const auto place = static_cast<double>(p[0] + 2 * p[1] + 3 * p[2]);
  return static_cast<float>(std::sin(0.1 * place) + 0.01 * step + static_cast<double>(dims[0] + dims[2]));
}

std::vector<float> SamplesIn(const Index3& dims, const Box& box, int step) {
  std::vector<float> samples;
  for (auto z = box.begin[2]; z < box.end[2]; ++z) {
    for (auto y = box.begin[1]; y < box.end[1]; ++y) {
      for (auto x = box.begin[0]; x < box.end[0]; ++x) samples.push_back(SampleAt(dims, {x, y, z}, step));
    }
  }
  return samples;
}

/// The slab of x that a rank owns.
Box ShareOf(MPI_Comm comm, const Index3& dims) {
  const std::int64_t rank = writer::Rank(comm);
  const std::int64_t size = writer::Size(comm);
  return {{dims[0] * rank / size, 0, 0}, {dims[0] * (rank + 1) / size, dims[1], dims[2]}};
}

Field Lossless(const std::string& name) {
  Field field;
  field.name = name;
  field.lossless = true;
  return field;
}

Setup SetupOf(const fs::path& path, OpenMode mode, const Index3& dims, std::vector<Field> fields) {
  Setup setup;
  setup.path = path.string();
  setup.mode = mode;
  setup.declaration.dims = dims;
  setup.declaration.patch = Index3{8, 8, 8};
  setup.declaration.fields = std::move(fields);
  setup.pipeline.files = 2;
  return setup;
}

/// Opens the dataset, puts all declared fields into each step, and closes it.
Status Write(MPI_Comm comm, const Setup& setup, const std::vector<int>& steps) {
  const Index3& dims = setup.declaration.dims;
  const Box share = ShareOf(comm, dims);
  QUARRY_ASSIGN_OR_RETURN(const auto dataset, Dataset::Open(comm, setup, {OwnedBox::Dense(share)}));
  for (const int step : steps) {
    const std::vector<float> samples = SamplesIn(dims, share, step);
    QUARRY_RETURN_IF_ERROR(dataset->BeginStep(step, 0.5 * step));
    for (const Field& field : setup.declaration.fields)
      QUARRY_RETURN_IF_ERROR(dataset->Put<float>(field.name, {samples.data()}));
    QUARRY_RETURN_IF_ERROR(dataset->EndStep());
  }
  return dataset->Close();
}

/// "p" of steps 0 to 2 on the volume, then "ssh" on the map into the same steps, then "u" on the staggered
/// grid into the last two of them and one more.
Status WriteAll(MPI_Comm comm, const fs::path& path, const std::function<void(Field*)>& change = {}) {
  const auto setup = [&](OpenMode mode, const Index3& dims, const std::string& name) {
    Field field = Lossless(name);
    if (change) change(&field);
    return SetupOf(path, mode, dims, {field});
  };
  QUARRY_RETURN_IF_ERROR(Write(comm, setup(OpenMode::kCreate, kVolume, "p"), {0, 1, 2}));
  QUARRY_RETURN_IF_ERROR(Write(comm, setup(OpenMode::kAppend, kMap, "ssh"), {0, 1, 2}));
  return Write(comm, setup(OpenMode::kResume, kStaggered, "u"), {1, 2, 3});
}

struct Expected {
  std::string field;
  Index3 dims;
  std::vector<int> steps;
};
const std::vector<Expected>& ExpectedFields() {
  static const auto* const fields = new std::vector<Expected>{
      {"p", kVolume, {0, 1, 2}}, {"ssh", kMap, {0, 1, 2}}, {"u", kStaggered, {1, 2, 3}}};
  return *fields;
}

/// Everything below a folder: relative path to content.
std::map<std::string, std::string> Snapshot(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    std::string& content = files[entry.path().lexically_relative(folder).string()];
    if (!entry.is_regular_file()) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    content.assign(std::istreambuf_iterator<char>(file), {});
  }
  return files;
}

/// On the ranks that call it: each field has its own grid and all of its steps, with samples that differ by
/// at most so much.
void ExpectAll(const fs::path& path, double tolerance) {
  const auto dataset = quarry::Dataset::Open(path);
  ASSERT_TRUE(dataset.ok()) << dataset.status().message();
  const DatasetDescription& description = (*dataset)->description();
  ASSERT_EQ(description.grids.size(), 3u);
  EXPECT_EQ((*dataset)->steps(), (std::vector<std::uint64_t>{0, 1, 2, 3}));
  for (const Expected& expected : ExpectedFields()) {
    SCOPED_TRACE(expected.field);
    const std::optional<std::size_t> number = description.FindField(expected.field);
    ASSERT_TRUE(number);
    EXPECT_EQ(description.GridOf(*number).dims, expected.dims);
    for (const int step : {0, 1, 2, 3}) {
      query::ReadRequest request;
      request.field = expected.field;
      request.step = static_cast<std::uint64_t>(step);
      const auto read = testing::TryReadAll(**dataset, request);
      const bool there = std::ranges::count(expected.steps, step) > 0;
      ASSERT_EQ(read.ok(), there) << "step " << step << ": " << read.status().message();
      if (!there) continue;
      const std::vector<float> samples = SamplesIn(expected.dims, {{0, 0, 0}, expected.dims}, step);
      ASSERT_EQ(read->size(), samples.size());
      for (std::size_t i = 0; i < samples.size(); ++i)
        ASSERT_NEAR((*read)[i], samples[i], tolerance) << "step " << step << ", sample " << i;
    }
  }
}

/// A folder that all ranks know.
class InSituGrids : public ::testing::Test {
 protected:
  void SetUp() override {
    if (IsRoot()) folder_.emplace();
    path_ = *writer::BroadcastText(Ranks(), folder_ ? folder_->path().string() : "");
  }
  void TearDown() override { MPI_Barrier(Ranks()); }

  fs::path Path(const std::string& name) const { return fs::path(path_) / name; }
  /// Waits for all ranks, so that no rank continues while rank 0 checks.
  template <typename Check>
  static void OnRoot(Check check) {
    MPI_Barrier(Ranks());
    if (IsRoot()) check();
    MPI_Barrier(Ranks());
  }
  /// The same error on all ranks, with this in its message.
  static void ExpectError(const Status& status, const std::string& text) {
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.message();
    EXPECT_NE(status.message().find(text), std::string::npos) << status.message() << "\nwithout: " << text;
    EXPECT_EQ(status.message(), *writer::BroadcastText(Ranks(), status.message()));
  }
  static void ExpectOk(const Status& status) { EXPECT_TRUE(status.ok()) << status.message(); }

 private:
  std::optional<testing::TemporaryFolder> folder_;
  std::string path_;
};

TEST_F(InSituGrids, EachOpeningMayAddOne) {
  const fs::path path = Path("grids.quarry");
  const fs::path reference = Path("reference.quarry");
  if (IsRoot()) ExpectOk(WriteAll(MPI_COMM_SELF, reference));

  ExpectOk(WriteAll(Ranks(), path));

  OnRoot([&] {
    EXPECT_EQ(Snapshot(path), Snapshot(reference)) << "any number of ranks";
    ExpectAll(path, 0);
  });
}

TEST_F(InSituGrids, LayersAndReferencesAreOfTheField) {
  constexpr double kTolerance = 1e-3;
  const fs::path path = Path("layers.quarry");
  const auto change = [&](Field* field) {
    field->lossless = false;
    field->layers = {0.1, kTolerance};
    field->keyframe = 3;
  };

  ExpectOk(WriteAll(Ranks(), path, change));

  OnRoot([&] {
    ExpectAll(path, kTolerance);
    const auto dataset = quarry::Dataset::Open(path);
    ASSERT_TRUE(dataset.ok());
    for (const Expected& expected : ExpectedFields()) {
      const auto last = (*dataset)->Step(static_cast<std::uint64_t>(expected.steps.back()));
      ASSERT_TRUE(last.ok());
      const std::vector<std::uint64_t> before = {static_cast<std::uint64_t>(expected.steps.back()) - 1};
      EXPECT_EQ((*last)->FindField(expected.field)->references, before) << expected.field;
    }
  });
}

TEST_F(InSituGrids, AFieldKeepsItsGrid) {
  const fs::path path = Path("kept.quarry");
  ExpectOk(WriteAll(Ranks(), path));
  const auto write = [&](const Index3& dims, std::vector<Field> fields) {
    return Write(Ranks(), SetupOf(path, OpenMode::kAppend, dims, std::move(fields)), {7});
  };

  ExpectError(write(kMap, {Lossless("p")}), "the grid is 21x14x1 here, but 21x14x9 in the dataset");
  ExpectError(write(kVolume, {Lossless("p"), Lossless("ssh")}),
              "field \"ssh\" is on grid 1 in the dataset, but on grid 0 here; a field has one grid");
  ExpectError(write(kMap, {Lossless("u")}), "21x14x1 here, but 22x14x9");

  OnRoot([&] { ExpectAll(path, 0); });
}

TEST_F(InSituGrids, BoxesAreThoseOfTheDeclaredGrid) {
  const fs::path path = Path("boxes.quarry");
  ExpectOk(WriteAll(Ranks(), path));
  const auto setup = SetupOf(path, OpenMode::kAppend, kMap, {Lossless("eta")});

  const auto opened = Dataset::Open(Ranks(), setup, {OwnedBox::Dense(ShareOf(Ranks(), kVolume))});

  ExpectError(opened.status(), "which is not inside the domain of 21x14x1 samples");
  OnRoot([&] { ExpectAll(path, 0); });
}

TEST_F(InSituGrids, FurtherFieldsLieOnThoseThatAreThere) {
  const fs::path path = Path("further.quarry");
  ExpectOk(WriteAll(Ranks(), path));

  const auto setup = SetupOf(path, OpenMode::kResume, kMap, {Lossless("eta"), Lossless("ssh")});

  ExpectOk(Write(Ranks(), setup, {2, 3}));

  OnRoot([&] {
    const auto dataset = quarry::Dataset::Open(path);
    ASSERT_TRUE(dataset.ok()) << dataset.status().message();
    const DatasetDescription& description = (*dataset)->description();
    EXPECT_EQ(description.grids.size(), 3u);
    EXPECT_EQ(description.fields[*description.FindField("eta")].grid, 1u);
    const auto step = (*dataset)->Step(3);
    ASSERT_TRUE(step.ok());
    EXPECT_EQ((*step)->fields.size(), 3u) << "u, eta and ssh";
  });
}

TEST_F(InSituGrids, EachHasPatchesAndLevelsOfItsOwn) {
  const fs::path path = Path("patches.quarry");
  ExpectOk(Write(Ranks(), SetupOf(path, OpenMode::kCreate, kVolume, {Lossless("p")}), {0}));
  auto setup = SetupOf(path, OpenMode::kAppend, kMap, {Lossless("ssh")});
  setup.declaration.patch = Index3{4, 2, 1};
  setup.declaration.levels = 2;

  ExpectOk(Write(Ranks(), setup, {0}));
  setup.declaration.levels = 3;
  setup.declaration.fields = {Lossless("other")};
  setup.declaration.dims = {20, 14, 1};
  ExpectError(Write(Ranks(), setup, {1}), "3 levels do not fit patches of 4x2x1; give 1 to 2");

  OnRoot([&] {
    const auto dataset = quarry::Dataset::Open(path);
    ASSERT_TRUE(dataset.ok()) << dataset.status().message();
    const DatasetDescription& description = (*dataset)->description();
    ASSERT_EQ(description.grids.size(), 2u);
    EXPECT_EQ(description.grids[0].patch, (Index3{8, 8, 8}));
    EXPECT_EQ(description.grids[0].levels, 4);
    EXPECT_EQ(description.grids[1].patch, (Index3{4, 2, 1}));
    EXPECT_EQ(description.grids[1].levels, 2);
  });
}

/// "p" on stretched depths of stations, and the parts of "psi".
Setup DescribedSetup(const fs::path& path) {
  Field p = Lossless("p");
  p.attributes = {{"standard_name", "sea_water_pressure"},
                  {"valid_range", AttributeNumbers{DataType::kFloat64, true, {0.0, 9.5}}}};
  Setup setup = SetupOf(path, OpenMode::kCreate, kVolume, {p});
  for (const bool imaginary : {false, true}) {
    Field part = Lossless(ComplexFieldName({"psi", imaginary}));
    part.complex = ComplexPart{"psi", imaginary};
    setup.declaration.fields.push_back(part);
  }
  setup.declaration.attributes = {{"title", "deep sea"}};
  SourceAxis& depth = setup.declaration.axes[2];
  depth.name = "depth";
  depth.units = "m";
  depth.attributes = {{"positive", "down"}};
  for (std::int64_t k = 0; k < kVolume[2]; ++k) depth.coordinates.push_back(static_cast<double>(k * k));
  TextCoordinate stations{"station", 0, 0, {}, {{"long_name", "mooring"}}};
  for (std::int64_t i = 0; i < kVolume[0]; ++i) stations.texts.push_back(fmt::format("S{}", i));
  setup.declaration.texts = {stations, {"ship", 0, std::nullopt, {"Meteor"}, {}}};
  return setup;
}

TEST_F(InSituGrids, KeepsWhatADeclarationSaysOfItsData) {
  const fs::path path = Path("described.quarry");
  const fs::path reference = Path("reference.quarry");
  if (IsRoot()) ExpectOk(Write(MPI_COMM_SELF, DescribedSetup(reference), {0}));
  const insitu::Setup setup = DescribedSetup(path);

  ExpectOk(Write(Ranks(), setup, {0}));

  OnRoot([&] {
    EXPECT_EQ(Snapshot(path), Snapshot(reference)) << "any number of ranks";
    const auto dataset = quarry::Dataset::Open(path);
    ASSERT_TRUE(dataset.ok()) << dataset.status().message();
    const DatasetDescription& kept = (*dataset)->description();
    const Declaration& said = setup.declaration;
    EXPECT_EQ(kept.attributes, said.attributes);
    ASSERT_EQ(kept.fields.size(), 3u);
    EXPECT_EQ(kept.fields[0].attributes, said.fields[0].attributes);
    EXPECT_EQ(kept.fields[2].complex, said.fields[2].complex);
    EXPECT_EQ(kept.grids[0].axis_names[2], "depth");
    EXPECT_EQ(kept.grids[0].axis_units[2], "m");
    EXPECT_EQ(kept.grids[0].coordinates[2], said.axes[2].coordinates);
    EXPECT_EQ(kept.grids[0].axis_attributes[2], said.axes[2].attributes);
    EXPECT_EQ(kept.texts, said.texts);
  });
}

TEST_F(InSituGrids, ADeclarationArrivesWhole) {
  const insitu::Setup setup = DescribedSetup("there.quarry");

  const Result<insitu::Setup> arrived = DecodeSetup(EncodeSetup(setup));

  ASSERT_TRUE(arrived.ok()) << arrived.status().message();
  const auto described = Describe(arrived->declaration, {});
  const auto expected = Describe(setup.declaration, {});
  ASSERT_TRUE(described.ok() && expected.ok()) << described.status().message();
  EXPECT_EQ(format::EncodeManifest(*described), format::EncodeManifest(*expected));
}

TEST_F(InSituGrids, RefusesWhatADatasetCannotSay) {
  const auto refused = [&](const std::function<void(Declaration*)>& change, const std::string& text) {
    insitu::Setup setup = DescribedSetup(Path("refused.quarry"));
    change(&setup.declaration);
    ExpectError(Write(Ranks(), setup, {0}), text);
  };

  refused([](Declaration* d) { d->axes[2].coordinates.pop_back(); },
          "axis z has 8 positions, but the grid has 9 samples along it");
  refused(
      [](Declaration* d) {
        d->fields[0].attributes.push_back({"units", "Pa"});
      },
      "\"units\" of field \"p\" cannot be an attribute; units");
  refused([](Declaration* d) { d->texts[0].texts.pop_back(); }, "station");
  refused([](Declaration* d) { d->attributes.push_back({"title", "twice"}); }, "title");
  const fs::path path = Path("kept.quarry");
  ExpectOk(Write(Ranks(), DescribedSetup(path), {0}));
  insitu::Setup other = DescribedSetup(path);
  other.mode = OpenMode::kAppend;
  other.declaration.texts[1].texts = {"Sonne"};
  ExpectError(Write(Ranks(), other, {1}), "the texts of \"ship\" are others in the dataset");
}

/// Ranks other than rank 0 print only failures.
class FailuresOnly : public ::testing::EmptyTestEventListener {
  void OnTestPartResult(const ::testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::fprintf(stderr, "rank %d: %s:%d: %s\n", writer::Rank(Ranks()), result.file_name(),
                 result.line_number(), result.summary());
  }
};

}  // namespace
}  // namespace quarry::insitu

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  ::testing::InitGoogleTest(&argc, argv);
  if (quarry::writer::Rank(MPI_COMM_WORLD) != 0) {
    ::testing::TestEventListeners& listeners = ::testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new quarry::insitu::FailuresOnly);
  }
  const int code = RUN_ALL_TESTS();
  MPI_Finalize();
  return code;
}
