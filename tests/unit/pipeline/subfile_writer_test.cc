#include "writer/pipeline/subfile_writer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

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

}  // namespace
}  // namespace quarry::writer
