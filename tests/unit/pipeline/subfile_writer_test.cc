#include "writer/pipeline/subfile_writer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <iterator>
#include <limits>

#include "quarry/base/file.h"
#include "tests/testing/make_dataset.h"

namespace quarry::writer {
namespace {

/// Two layers of two levels, all with one error.
EncodedPatchOfGrid PatchWithError(double error) {
  EncodedPatchOfGrid patch;
  patch.encoded.parts = {2, 2};
  patch.encoded.levels.assign(4, Bytes(3));
  patch.encoded.errors.assign(4, {error, error, 1});
  patch.encoded.valid = 8;
  return patch;
}

TEST(SampleRow, RoundsErrorsOfCoarseLevelsUpAndNoOther) {
  for (const double error : {0.1, 1.0 / 3, 5e-324, 1e300}) {
    const format::PatchEntry row = SampleRow(PatchWithError(error));
    for (const std::size_t finest : {0u, 2u}) EXPECT_EQ(row.levels[finest].max_error, error);
    for (const std::size_t coarse : {1u, 3u}) {
      EXPECT_GE(row.levels[coarse].max_error, error);
      // 13 binary digits behind the first: 2^-13, or the smallest number with so few.
      EXPECT_LE(row.levels[coarse].max_error, error * (1 + 1.0 / 8192) + std::ldexp(1, -1035));
    }
  }
  // 1 + 2^-13 has no digit to lose.
  EXPECT_EQ(SampleRow(PatchWithError(1 + 1.0 / 8192)).levels[1].max_error, 1 + 1.0 / 8192);
  const double largest = std::numeric_limits<double>::max();
  EXPECT_EQ(SampleRow(PatchWithError(largest)).levels[1].max_error, largest);
}

TEST(SampleRow, KeepsFiveDigitsOfAnRmseAndNeverNone) {
  for (const double error : {0.1, 1.0 / 3, 98765.4321})
    EXPECT_NEAR(SampleRow(PatchWithError(error)).levels[0].rmse, error, 1e-5 * error);
  EXPECT_GT(SampleRow(PatchWithError(1e-300)).levels[0].rmse, 0);
  EXPECT_GT(SampleRow(PatchWithError(1e-44)).levels[0].rmse, 0);
  EXPECT_TRUE(std::isfinite(SampleRow(PatchWithError(1e300)).levels[0].rmse));
  EXPECT_EQ(SampleRow(PatchWithError(0)).levels[0].rmse, 0);
}

TEST(StoredBytes, AreThoseOfAShortRowAndItsPayload) {
  // Step, bits, widths, no bytes of min and max, which are 0; four parts: widths, size, checksum, three bytes
  // of 0.1f (3d cc cc cd, rounded to 3d cc cd 00, rotated 7b 99 9a) and three of the error, all eight at the
  // finest level; 3 bytes each.
  EXPECT_EQ(StoredBytes(SampleRow(PatchWithError(0.1))), 3u + 4 * (1 + 1 + 8 + 3) + 2 * (3 + 8) + 4 * 3);
}

/// The bytes of a subfile of 100 patches without payload, whose table keeps to so much memory.
Bytes SubfileOf100Patches(std::uint64_t table_memory, const std::filesystem::path& folder) {
  const PatchGrid grid = *PatchGrid::Create({100, 1, 1}, {1, 1, 1});
  format::SubfileHeader header;
  header.dims = grid.dims();
  header.patch = grid.patch();
  header.patch_count = 100;
  header.field_name = "f";
  const std::filesystem::path path = folder / fmt::format("{}.qsf", table_memory);
  SubfileWriter writer = *SubfileWriter::Create(path, header, grid, 1 << 20, table_memory);
  for (std::int64_t p = 0; p < 100; ++p) EXPECT_TRUE(writer.AddRow(UnmaskedRow(p, 1, 1)).ok());
  const Result<SubfileSummary> summary = writer.Finish();
  EXPECT_TRUE(summary.ok()) << summary.status().message();
  EXPECT_EQ(summary->patches, 100u);
  return *ReadWholeFile(path, 1 << 20);
}

TEST(SubfileWriter, WritesTheSameTableFromMemoryAndFromItsFile) {
  const testing::TemporaryFolder folder;

  const Bytes whole = SubfileOf100Patches(1 << 20, folder.path());

  for (const std::uint64_t memory : {0u, 10u, 333u})
    EXPECT_TRUE(SubfileOf100Patches(memory, folder.path()) == whole) << memory;
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 4)
      << "the other file has no name";
}

TEST(SubfileWriter, SaysThatRowsAreMissing) {
  const testing::TemporaryFolder folder;
  const PatchGrid grid = *PatchGrid::Create({2, 1, 1}, {1, 1, 1});
  format::SubfileHeader header;
  header.dims = grid.dims();
  header.patch = grid.patch();
  header.patch_count = 2;
  SubfileWriter writer = *SubfileWriter::Create(folder.path() / "0000.qsf", header, grid, 1 << 20);
  ASSERT_TRUE(writer.AddRow(UnmaskedRow(0, 1, 1)).ok());

  const Result<SubfileSummary> summary = writer.Finish();

  EXPECT_EQ(summary.status().code(), StatusCode::kInternal);
  EXPECT_NE(summary.status().message().find("1 rows instead of 2"), std::string::npos);
}

}  // namespace
}  // namespace quarry::writer
