// The writer over an MPI that fails: whichever call fails, on whichever rank, all ranks get an error, and
// nothing wrong is published.
#include "tests/mpi/failing_mpi.h"

#include <gtest/gtest.h>
#include <mpi.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>

#include "quarry/insitu.h"
#include "tests/testing/make_dataset.h"
#include "writer/convert/convert.h"
#include "writer/pipeline/comm.h"

namespace quarry {
namespace {

namespace fs = std::filesystem;
using testing::MpiFailure;

constexpr Index3 kDims = {12, 10, 9};
constexpr std::uint64_t kSteps = 2;

float SampleAt(std::int64_t i, std::uint64_t step) {
  if (i % 97 == 0) return std::numeric_limits<float>::quiet_NaN();  // so that there is a mask
  return std::sin(static_cast<float>(i) / 17) + static_cast<float>(step);
}

std::vector<float> SamplesOf(const Box& box, std::uint64_t step) {
  std::vector<float> samples;
  for (auto z = box.begin[2]; z < box.end[2]; ++z) {
    for (auto y = box.begin[1]; y < box.end[1]; ++y) {
      for (auto x = box.begin[0]; x < box.end[0]; ++x)
        samples.push_back(SampleAt(x + kDims[0] * (y + kDims[1] * z), step));
    }
  }
  return samples;
}

/// Relative path and content of every file of a dataset.
std::map<std::string, std::string> FilesIn(const fs::path& folder) {
  std::map<std::string, std::string> files;
  if (!fs::exists(folder)) return files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    files[entry.path().lexically_relative(folder).string()].assign(std::istreambuf_iterator<char>(file), {});
  }
  return files;
}

/// The result of a run on this rank: the first error, and whether the rank knows of the end.
struct Outcome {
  Status first_error;

  void Note(const Status& status) {
    if (first_error.ok()) first_error = status;
  }
};

/// Writes two steps from memory. After an error the simulation continues with the next step.
Outcome RunInSitu(MPI_Comm comm, const fs::path& path) {
  Outcome outcome;
  const std::int64_t rank = writer::Rank(comm);
  const std::int64_t ranks = writer::Size(comm);
  const Box mine{{0, 0, kDims[2] * rank / ranks}, {kDims[0], kDims[1], kDims[2] * (rank + 1) / ranks}};
  insitu::Setup setup;
  setup.path = path.string();
  setup.declaration.dims = kDims;
  setup.declaration.patch = Index3{4, 4, 4};
  setup.declaration.fields.push_back({"p", DataType::kFloat32, 1e-3, {}, false, "", {}, {}});
  setup.pipeline.files = 2;
  auto dataset = insitu::Dataset::Open(comm, setup, {insitu::OwnedBox::Dense(mine)});
  outcome.Note(dataset.status());
  if (!dataset.ok()) return outcome;
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    Status status = (*dataset)->BeginStep(static_cast<std::int64_t>(step));
    const std::vector<float> samples = SamplesOf(mine, step);
    if (status.ok()) status = (*dataset)->Put("p", {samples.data()});
    if (status.ok()) status = (*dataset)->EndStep();
    outcome.Note(status);
  }
  outcome.Note((*dataset)->Close());
  return outcome;
}

/// Converts two raw files.
Outcome RunConvert(MPI_Comm comm, const fs::path& path) {
  writer::WriteOptions options;
  for (std::uint64_t step = 0; step < kSteps; ++step)
    options.inputs.push_back((path.parent_path() / fmt::format("p{}.f32", step)).string());
  options.output = path.string();
  options.input.dims = kDims;
  options.input.type = DataType::kFloat32;
  options.input.field = "p";
  options.relative_tolerance = 1e-3;
  options.patch = Index3{4, 4, 4};
  options.pipeline.files = 2;
  options.pipeline.exchange = writer::kExchangePerRank;
  writer::WriteReport report;
  Outcome outcome;
  outcome.Note(writer::WriteDataset(comm, options, &report));
  return outcome;
}

using Writing = Outcome (*)(MPI_Comm comm, const fs::path& path);

class FailingMpi : public ::testing::Test {
 protected:
  void SetUp() override {
    if (rank() == 0) {
      folder_.emplace();
      for (std::uint64_t step = 0; step < kSteps; ++step) {
        const std::vector<float> samples = SamplesOf({{0, 0, 0}, kDims}, step);
        std::ofstream file(folder_->path() / fmt::format("p{}.f32", step), std::ios::binary);
        file.write(reinterpret_cast<const char*>(samples.data()),
                   static_cast<std::streamsize>(samples.size() * sizeof(float)));
      }
    }
    path_ = *writer::BroadcastText(MPI_COMM_WORLD, folder_ ? folder_->path().string() : "");
  }
  void TearDown() override { PMPI_Barrier(MPI_COMM_WORLD); }

  static int rank() { return writer::Rank(MPI_COMM_WORLD); }
  static int ranks() { return writer::Size(MPI_COMM_WORLD); }

  void Reference(Writing run) {
    const fs::path path = fs::path(path_) / "reference.quarry";
    const Outcome outcome = run(MPI_COMM_WORLD, path);
    ASSERT_TRUE(outcome.first_error.ok()) << outcome.first_error.message();
    PMPI_Barrier(MPI_COMM_WORLD);
    if (rank() == 0) reference_ = FilesIn(path);
  }

  /// Makes the n-th call fail, for n = 1, 2, ... until a run has fewer calls.
  /// @param everywhere  on all ranks at once, as calls of agreements do; otherwise on one rank after the
  ///                    other
  void FailEveryCall(Writing run, MpiFailure how, bool everywhere) {
    Reference(run);
    int runs = 0;
    for (int victim = 0; victim < (everywhere ? 1 : ranks()); ++victim) {
      for (std::uint64_t n = 1;; ++n) {
        SCOPED_TRACE(fmt::format("call {} on rank {}", n, everywhere ? -1 : victim));
        const bool mine = everywhere || rank() == victim;
        ++runs;
        const bool failed = RunOnce(run, n, mine ? how : MpiFailure::kError, mine);
        if (HasFailure() || !failed) break;
      }
    }
    // Otherwise the test has checked nothing.
    if (rank() == 0) std::printf("%d runs\n", runs);
  }

 private:
  /// @returns whether the failure happened; the same on every rank
  bool RunOnce(Writing run, std::uint64_t n, MpiFailure how, bool mine) {
    const fs::path path = fs::path(path_) / "run.quarry";
    MPI_Comm comm = MPI_COMM_NULL;
    PMPI_Comm_dup(MPI_COMM_WORLD, &comm);
    testing::FailMpiCall(mine ? n : 0, how);
    const Outcome outcome = run(comm, path);
    const bool struck = testing::MpiHasFailed();
    testing::FailMpiCall(0, how);
    PMPI_Barrier(MPI_COMM_WORLD);  // not on comm: what failed may have left messages there

    int mine_and_all[2] = {struck ? 1 : 0, outcome.first_error.ok() ? 0 : 1};
    int any[2] = {};
    int all[2] = {};
    PMPI_Allreduce(mine_and_all, any, 2, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    PMPI_Allreduce(mine_and_all, all, 2, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    EXPECT_EQ(any[1], all[1]) << "only some ranks have an error; this one: " << outcome.first_error.message();
    EXPECT_EQ(any[0], any[1]) << "a failure without an error, or the other way round: "
                              << outcome.first_error.message();
    if (rank() == 0) ExpectNothingWrong(path, any[0] != 0);
    PMPI_Barrier(MPI_COMM_WORLD);
    return any[0] != 0;
  }

  /// Published data are those of the run without failures. Removes them.
  void ExpectNothingWrong(const fs::path& path, bool failed) {
    const auto files = FilesIn(path);
    for (const auto& [name, content] : files) {
      const auto expected = reference_.find(name);
      // A staged file left behind, under a name with a dot, is not published.
      if (name.find("/.") != std::string::npos || name.front() == '.') continue;
      // The catalogue has the steps that are published, which may be fewer.
      if (failed && (name == "head" || name.starts_with("catalogue/"))) continue;
      if (expected == reference_.end()) {
        ADD_FAILURE() << name << " is published";
      } else {
        EXPECT_TRUE(content == expected->second) << name << " is wrong";
      }
    }
    if (!failed) {
      EXPECT_EQ(files.size(), reference_.size());
    }
    fs::remove_all(path);
    fs::remove_all(path.parent_path() / ".run.quarry.partial");
  }

  std::optional<testing::TemporaryFolder> folder_;
  std::string path_;
  std::map<std::string, std::string> reference_;  ///< on rank 0
};

TEST_F(FailingMpi, AnErrorOnOneRankEndsTheStepInSitu) { FailEveryCall(RunInSitu, MpiFailure::kError, false); }
TEST_F(FailingMpi, AnErrorOnOneRankEndsTheConversion) {
  FailEveryCall(RunConvert, MpiFailure::kError, false);
}
TEST_F(FailingMpi, AMessageThatIsNotReceivedIsNotTakenForALaterOne) {
  FailEveryCall(RunInSitu, MpiFailure::kLost, false);
}
TEST_F(FailingMpi, ChangedBytesAreNotPublishedInSitu) {
  FailEveryCall(RunInSitu, MpiFailure::kCorrupt, false);
}
TEST_F(FailingMpi, ChangedBytesAreNotPublishedByConvert) {
  FailEveryCall(RunConvert, MpiFailure::kCorrupt, false);
}
TEST_F(FailingMpi, AnAgreementThatFailsEverywhereEndsTheDatasetInSitu) {
  FailEveryCall(RunInSitu, MpiFailure::kAgreement, true);
}
TEST_F(FailingMpi, AnAgreementThatFailsEverywhereEndsTheConversion) {
  FailEveryCall(RunConvert, MpiFailure::kAgreement, true);
}

/// Ranks other than rank 0 print only failures.
class FailuresOnly : public ::testing::EmptyTestEventListener {
  void OnTestPartResult(const ::testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::fprintf(stderr, "rank %d: %s:%d: %s\n", writer::Rank(MPI_COMM_WORLD), result.file_name(),
                 result.line_number(), result.summary());
  }
};

}  // namespace
}  // namespace quarry

int main(int argc, char** argv) {
  // Several hundred datasets, each with its fsyncs.
  if (std::filesystem::exists("/dev/shm")) ::setenv("TMPDIR", "/dev/shm", 0);
  MPI_Init(&argc, &argv);
  ::testing::InitGoogleTest(&argc, argv);
  if (quarry::writer::Rank(MPI_COMM_WORLD) != 0) {
    ::testing::TestEventListeners& listeners = ::testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new quarry::FailuresOnly);
  }
  const int code = RUN_ALL_TESTS();
  MPI_Finalize();
  return code;
}
