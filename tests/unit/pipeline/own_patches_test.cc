#include "writer/pipeline/own_patches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/testing/make_dataset.h"

namespace quarry::writer {
namespace {

constexpr PatchParts kParts = {2, 2};

Bytes RandomBytes(std::mt19937* random) {
  Bytes bytes((*random)() % 40);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>((*random)());
  return bytes;
}

/// An encoded patch of two layers of two levels; every third one has a mask.
EncodedPatchOfGrid RandomPatch(std::int64_t index, std::mt19937* random) {
  EncodedPatchOfGrid patch;
  patch.patch_index = index;
  patch.encoded.parts = kParts;
  for (int part = 0; part < kParts.count(); ++part) {
    patch.encoded.levels.push_back(RandomBytes(random));
    patch.encoded.errors.push_back({0.5, 0.25, 1});
  }
  const bool masked = index % 3 == 0;
  for (int level = 0; masked && level < kParts.levels; ++level)
    patch.encoded.mask_levels.push_back(RandomBytes(random));
  patch.encoded.valid = masked ? 3 : 8;
  patch.encoded.min = static_cast<double>(index);
  patch.encoded.max = static_cast<double>(index) + 1;
  return patch;
}

/// The payloads of a run, from the last part to the first.
Bytes Joined(const std::vector<Bytes>& levels, const format::PartRun& run) {
  Bytes joined;
  for (int part = run.first; part >= run.last; --part) {
    const Bytes& payload = levels[static_cast<std::size_t>(part)];
    joined.insert(joined.end(), payload.begin(), payload.end());
  }
  return joined;
}

class OwnPatchesTest : public ::testing::TestWithParam<std::uint64_t> {
 protected:
  OwnPatchesTest() {
    for (std::int64_t p = 0; p < grid_.patch_count(); ++p) patches_.push_back(RandomPatch(p, &random_));
    std::vector<std::size_t> order(patches_.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random_);
    for (const std::size_t p : order) EXPECT_TRUE(own_.Add(patches_[p], 8).ok());
    own_.Sort();
  }

  void ExpectAll(const OutgoingPatches& outgoing, bool masks) {
    ASSERT_EQ(outgoing.size(), patches_.size());
    const std::vector<std::int64_t> order = grid_.MortonOrder();
    for (std::size_t i = 0; i < outgoing.size(); ++i) {
      ASSERT_EQ(outgoing.CurvePosition(i), i);
      const EncodedPatchOfGrid& patch = patches_[static_cast<std::size_t>(order[i])];
      const format::PatchEntry expected = masks ? MaskRow(patch, 8) : SampleRow(patch);
      const Result<format::PatchEntry> row = outgoing.Row(i);
      ASSERT_TRUE(row.ok()) << row.status().message();
      EXPECT_EQ(*row, expected) << i;
      EXPECT_EQ(*outgoing.Stored(i), StoredBytes(expected));
      const std::vector<Bytes>& levels = masks ? patch.encoded.mask_levels : patch.encoded.levels;
      format::SubfileHeader header;
      header.levels = outgoing.parts().levels;
      header.layers = outgoing.parts().layers;
      for (const format::PayloadOrder payload_order : format::kPayloadOrders) {
        header.order = payload_order;
        header.coarse_level = payload_order == format::PayloadOrder::kCoarse ? 1 : 0;
        for (const format::PartRun& run : format::PartRuns(header)) {
          Bytes buffer;
          const Result<ByteSpan> payload = outgoing.Payload(i, *row, run, &buffer);
          ASSERT_TRUE(payload.ok()) << payload.status().message();
          EXPECT_TRUE(std::ranges::equal(*payload, levels.empty() ? Bytes() : Joined(levels, run))) << i;
        }
      }
    }
  }

  const testing::TemporaryFolder folder_;
  std::mt19937 random_{1};
  const PatchGrid grid_ = *PatchGrid::Create({10, 6, 4}, {2, 2, 2});
  std::vector<EncodedPatchOfGrid> patches_;  ///< by index
  OwnPatches own_{grid_, kParts, folder_.path(), GetParam()};
};

TEST_P(OwnPatchesTest, GiveBackRowsAndPayloadAlongTheCurve) {
  ExpectAll(own_.samples(), false);
  ExpectAll(own_.masks(), true);
}

TEST_P(OwnPatchesTest, KnowTheirRangeAndWhetherSamplesAreMissing) {
  EXPECT_EQ(own_.min(), 0);
  EXPECT_EQ(own_.max(), 30);
  EXPECT_TRUE(own_.any_masked());
  EXPECT_FALSE(own_.any_refers());
}

TEST_P(OwnPatchesTest, FindTheFirstFromAPosition) {
  EXPECT_EQ(own_.samples().FirstFrom(0), 0u);
  EXPECT_EQ(own_.samples().FirstFrom(17), 17u);
  EXPECT_EQ(own_.samples().FirstFrom(1000), 30u);
}

// All in memory, all in the file, and some in each.
INSTANTIATE_TEST_SUITE_P(Memory, OwnPatchesTest, ::testing::Values(UINT64_MAX, 0, 3000));

}  // namespace
}  // namespace quarry::writer
