// The whole pipeline in one process, without MPI: what its threads share, and how errors end them.
// ThreadSanitizer runs it.
#include "writer/pipeline/dataset_writer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "quarry/base/file.h"
#include "writer/redistribute/copy_part.h"

namespace quarry::writer {
namespace {

namespace fs = std::filesystem;

constexpr Index3 kDims = {50, 41, 37};
constexpr std::int64_t kSamples = 50 * 41 * 37;

class DatasetWriterTest : public ::testing::Test {
 protected:
  DatasetWriterTest() {
    std::string name = (fs::temp_directory_path() / "quarry-writer-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
    for (std::int64_t i = 0; i < kSamples; ++i)
      samples_.push_back(static_cast<float>(std::sin(0.01 * static_cast<double>(i % 997)) + 0.001 * (i % 7)));
    for (std::size_t i = 4000; i < 9000; ++i) samples_[i] = std::nanf("");
  }
  ~DatasetWriterTest() override { fs::remove_all(folder_); }

  /// Writes a step.
  /// @param memory  see PipelineOptions::memory_per_rank
  Status Write(const std::string& name, std::optional<std::uint64_t> memory, bool relative,
               FieldSource* source) {
    PipelineOptions options;
    options.memory_per_rank = memory;
    QUARRY_ASSIGN_OR_RETURN(auto writer, DatasetWriter::Open(MPI_COMM_WORLD, (folder_ / name).string(),
                                                             OpenMode::kCreate, options));
    DatasetDescription dataset;
    dataset.grids[0].dims = kDims;
    dataset.grids[0].patch = {16, 8, 8};
    dataset.grids[0].levels = 3;
    FieldDescription field;
    field.name = "f";
    field.type = DataType::kFloat32;
    field.coder = CoderId::kInterpolate;
    field.bound = relative ? Bound(RelativeBound{1e-3}) : Bound(AbsoluteBound{1e-3});
    dataset.fields.push_back(field);
    QUARRY_RETURN_IF_ERROR(writer->Declare(dataset));
    QUARRY_RETURN_IF_ERROR(writer->WriteField(0, 0, "test", source).status());
    return writer->PublishStep(0, std::nullopt);
  }

  Bytes Subfile(const std::string& name) const {
    return *ReadWholeFile(folder_ / name / "steps/000000/f/0000.qsf", 1 << 30);
  }

  fs::path folder_;
  std::vector<float> samples_;
};

/// Copies boxes of an array, as a file does; fails when it has given so many samples.
class CopyingSource final : public FieldSource {
 public:
  CopyingSource(const std::vector<float>& samples, bool in_pieces, std::int64_t fails_after = INT64_MAX)
      : samples_(samples), in_pieces_(in_pieces), left_(fails_after) {}

  std::unique_ptr<distribution::RankBoxes> Owned(const Box& region) const override {
    return std::make_unique<distribution::ListedBoxes>(distribution::Ownership{{region}});
  }
  bool in_pieces() const override { return in_pieces_; }

  Result<std::vector<BoxView>> Load(const std::vector<Box>& boxes) override {
    loaded_.clear();
    std::vector<BoxView> views;
    const BoxView all = BoxView::Dense(samples_.data(), {{0, 0, 0}, kDims}, sizeof(float));
    for (const Box& box : boxes) {
      left_ -= box.volume();
      given_ += box.volume();
      if (left_ < 0) return DataLoss("the source ends at {}", ToString(box));
      Bytes& bytes = loaded_.emplace_back(static_cast<std::size_t>(box.volume()) * sizeof(float));
      redistribute::CopyPart(all, {{0, 0, 0}, kDims},
                             redistribute::MutableBoxView::Dense(bytes.data(), box, sizeof(float)), box, box,
                             sizeof(float));
      views.push_back(BoxView::Dense(bytes.data(), box, sizeof(float)));
    }
    return views;
  }

  std::int64_t given() const { return given_; }

 private:
  const std::vector<float>& samples_;
  const bool in_pieces_;
  std::int64_t left_;
  std::int64_t given_ = 0;
  std::vector<Bytes> loaded_;
};

TEST_F(DatasetWriterTest, AnyMemoryAndAnyWayOfLoadingGiveTheSameBytes) {
  for (const bool relative : {false, true}) {
    Bytes expected;
    int number = 0;
    for (const bool in_pieces : {true, false}) {
      for (const std::optional<std::uint64_t> memory :
           {std::optional<std::uint64_t>(), std::optional<std::uint64_t>(1),
            std::optional<std::uint64_t>(200 << 10), std::optional<std::uint64_t>(4 << 20)}) {
        const std::string name = fmt::format("{}-{}.quarry", relative, number++);
        CopyingSource source(samples_, in_pieces);

        const Status status = Write(name, memory, relative, &source);

        ASSERT_TRUE(status.ok()) << status.message();
        if (expected.empty()) expected = Subfile(name);
        EXPECT_TRUE(Subfile(name) == expected) << name;
      }
    }
  }
}

TEST_F(DatasetWriterTest, ReadsAFieldTwiceOnlyIfItsRangeIsNeededAndItDoesNotFit) {
  const std::uint64_t field_bytes = kSamples * sizeof(float);
  const auto read = [&](const std::string& name, std::uint64_t memory, bool relative) {
    CopyingSource source(samples_, true);
    EXPECT_TRUE(Write(name, memory, relative, &source).ok());
    return source.given();
  };

  EXPECT_EQ(read("small.quarry", field_bytes, false), kSamples);
  EXPECT_EQ(read("fits.quarry", 4 * field_bytes, true), kSamples);
  EXPECT_EQ(read("twice.quarry", 4 * field_bytes - 4, true), 2 * kSamples);
}

TEST_F(DatasetWriterTest, AnErrorOfTheSourceEndsTheStepWhereverItComes) {
  for (const std::int64_t samples :
       {std::int64_t{0}, std::int64_t{1000}, kSamples / 2, kSamples - 1, 2 * kSamples - 1}) {
    const std::string name = fmt::format("{}.quarry", samples);
    CopyingSource source(samples_, true, samples);

    const Status status = Write(name, 100 << 10, samples >= kSamples, &source);

    EXPECT_EQ(status.code(), StatusCode::kDataLoss) << status.message();
    EXPECT_FALSE(fs::exists(folder_ / name / "steps/000000"));
    for (const auto& entry : fs::recursive_directory_iterator(folder_))
      EXPECT_NE(entry.path().extension(), ".qsf");
  }
}

// 2^27 patches of one sample, each in a file of its own: their summaries would be more than a message holds.
TEST_F(DatasetWriterTest, RefusesTooManySubfilesBeforeAnythingIsRead) {
  PipelineOptions options;
  options.files = 1 << 27;
  auto writer =
      DatasetWriter::Open(MPI_COMM_WORLD, (folder_ / "many.quarry").string(), OpenMode::kCreate, options);
  ASSERT_TRUE(writer.ok()) << writer.status().message();
  DatasetDescription dataset;
  dataset.grids[0].dims = {1 << 15, 1 << 12, 1};
  dataset.grids[0].patch = {1, 1, 1};
  dataset.grids[0].levels = 1;
  FieldDescription field;
  field.name = "f";
  field.coder = CoderId::kInterpolate;
  field.bound = AbsoluteBound{1e-3};
  dataset.fields.push_back(field);
  ASSERT_TRUE((*writer)->Declare(dataset).ok());
  CopyingSource source(samples_, true);

  const Result<FieldOutcome> outcome = (*writer)->WriteField(0, 0, "test", &source);

  EXPECT_EQ(outcome.status().code(), StatusCode::kResourceExhausted);
  // 2^31 - 1 bytes; 80 of a summary, 32 of its one part.
  EXPECT_EQ(
      outcome.status().message(),
      "step 0, field \"f\": it would have 134217728 subfiles, more than the 19173961 that the ranks can "
      "describe; give fewer (--files)");
  EXPECT_EQ(source.given(), 0);
}

}  // namespace
}  // namespace quarry::writer
