#include "quarry/codec/interpolate/level.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "quarry/codec/interpolate/adaptive.h"
#include "quarry/codec/interpolate/level_bands.h"
#include "tests/testing/random.h"

namespace quarry::interpolate {
namespace {

/// Zeros, from which a level is predicted.
LevelGrid<float> Coarse(const Index3& shape) {
  LevelGrid<float> grid;
  for (std::size_t axis = 0; axis < 3; ++axis) grid.shape[axis] = (shape[axis] + 1) / 2;
  grid.values.Resize(static_cast<std::size_t>(Volume(grid.shape)));
  grid.magnitudes.Resize(grid.values.size());
  std::fill_n(grid.values.data(), grid.values.size(), 0.0f);
  std::fill_n(grid.magnitudes.data(), grid.magnitudes.size(), std::uint16_t{0});
  return grid;
}

constexpr Quantiser kQuantiser = {.step = 1, .max_error = 0.5, .integral = false};

Bytes Encode(const Index3& shape, const std::vector<float>& samples) {
  LevelGrid<float> grid = Coarse(shape);
  return EncodeLevel<float>(kQuantiser, shape, samples.data(), {}, {}, false, nullptr, &grid);
}

Status Decode(const Index3& shape, const Bytes& payload) {
  LevelGrid<float> grid = Coarse(shape);
  return DecodeLevel<float>(payload, kQuantiser, shape, {}, {}, false, nullptr, &grid);
}

std::vector<float> Noise(std::int64_t count, double width) {
  testing::Random random(11);
  std::vector<float> samples;
  for (std::int64_t i = 0; i < count; ++i) {
    double sum = 0;
    for (int part = 0; part < 4; ++part) sum += random.Between(-1000, 1000) / 1000.0;
    samples.push_back(static_cast<float>(sum * width));
  }
  return samples;
}

class LayoutOfTables : public ::testing::Test {
 protected:
  void SetUp() override {
    // Rougher towards the end, so that there is more than one table.
    std::vector<float> samples = Noise(Volume(shape_), 1);
    for (std::size_t i = 0; i < samples.size(); ++i) samples[i] *= static_cast<float>(i) / 600;
    payload_ = Encode(shape_, samples);
    const auto head = std::to_integer<std::uint8_t>(payload_[0]);
    ASSERT_EQ(head & (3 | 0x80), static_cast<std::uint8_t>(LevelMode::kTables));
    ASSERT_EQ(head & kHasEscapes, 0);
    layout_ = 1u + ((head & kOwnPredictor) != 0 ? 2u : 0u) + ((head & kOwnWeights) != 0 ? 5u : 0u);
    ASSERT_GE(std::to_integer<int>(payload_[layout_]) & 15, 2) << "tables beside the first";
    ASSERT_TRUE(Decode(shape_, payload_).ok());
  }

  /// The error of the decoder when the byte at a place behind the layout has changed.
  std::string With(std::size_t place, int value) const {
    Bytes payload = payload_;
    payload[layout_ + place] = static_cast<std::byte>(value);
    const Status status = Decode(shape_, payload);
    EXPECT_EQ(status.code(), StatusCode::kDataLoss);
    return std::string(status.message());
  }

  const Index3 shape_{16, 16, 16};
  Bytes payload_;
  std::size_t layout_ = 0;
};

TEST_F(LayoutOfTables, IsRefusedWhereItCannotBe) {
  const int layout = std::to_integer<int>(payload_[layout_]);
  EXPECT_NE(With(0, layout | 0x80).find("layout"), std::string::npos);
  EXPECT_NE(With(0, layout | 0x0f).find("layout"), std::string::npos) << "sixteen tables";
  EXPECT_NE(With(1, 0).find("begins with context 0 after 0"), std::string::npos);
  EXPECT_NE(With(1, 32).find("begins with context 32"), std::string::npos);
  const int first = std::to_integer<int>(payload_[layout_ + 1]);
  EXPECT_NE(With(2, first).find("begins with context"), std::string::npos) << "the same as the one before";
  // Its head would be that of another mode, with the bit that only tables have.
  Bytes exact = payload_;
  exact[0] |= std::byte{1};
  EXPECT_EQ(Decode(shape_, exact).code(), StatusCode::kDataLoss);
}

TEST_F(LayoutOfTables, SaysHowManyLanesThereAre) {
  const int layout = std::to_integer<int>(payload_[layout_]);
  for (int lanes = 0; lanes < 4; ++lanes) {
    const int other = (layout & ~0x30) | lanes << kLanesAt;
    if (other == layout) continue;
    EXPECT_NE(With(0, other).find("symbols"), std::string::npos) << lanes;
  }
}

/// Where runs of zeros have flags, the tables are those of the other samples. A line of which every eighth
/// group of 32 new samples has -1, 0 and 1, all as often: these cost what they cost without the other groups,
/// and flags.
TEST(NamesOfTables, AreThoseOfTheSamplesThatHaveSymbols) {
  constexpr std::size_t kGroup = GroupFlags::kGroup;
  constexpr std::size_t kGroups = 4096;
  testing::Random random(12);
  std::vector<float> alone;
  std::vector<float> among_zeros;
  for (std::size_t group = 0; group < kGroups; ++group) {
    for (std::size_t i = 0; i < kGroup; ++i) {
      // The samples at even places are those of the coarser level.
      const float sample = group % 8 != 0 ? 0.0f : static_cast<float>(random.Between(-1, 1));
      among_zeros.insert(among_zeros.end(), {0.0f, sample});
      if (group % 8 == 0) alone.insert(alone.end(), {0.0f, sample});
    }
  }
  const auto encode = [](const std::vector<float>& line) {
    return Encode({static_cast<std::int64_t>(line.size()), 1, 1}, line).size();
  };
  const std::size_t flags = kGroups / 8;  // a bit each
  EXPECT_LT(encode(among_zeros), encode(alone) + flags + encode(alone) / 12);
}

/// Indices beyond every named table: a stored one keeps ten bits of each beside its symbol. As escapes, or
/// coded exactly instead, each would take more than 19.
TEST(NamesOfTables, AreNotThoseOfIndicesThatHaveNoSymbolInAny) {
  const Index3 shape{16, 16, 16};
  const Bytes payload = Encode(shape, Noise(Volume(shape), 1e4));
  EXPECT_LT(payload.size() * 8, static_cast<std::size_t>(Volume(shape)) * 18);
  EXPECT_TRUE(Decode(shape, payload).ok());
}

}  // namespace
}  // namespace quarry::interpolate
