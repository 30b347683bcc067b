#include "writer/distribution/curve_cut.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/unit/distribution/earlier_assignment.h"

namespace quarry::distribution {
namespace {

std::vector<CurvePiece> InPieces(const std::vector<std::uint64_t>& sizes,
                                 const std::vector<std::size_t>& cuts) {
  std::vector<CurvePiece> pieces;
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i)
    pieces.emplace_back(cuts[i], std::span(sizes).subspan(cuts[i], cuts[i + 1] - cuts[i]));
  return pieces;
}

/// Random borders of pieces of [0, patches), of one patch or many.
std::vector<std::size_t> RandomCuts(std::size_t patches, std::mt19937* random) {
  std::vector<std::size_t> cuts = {0, patches};
  for (std::size_t i = (*random)() % std::min<std::size_t>(patches, 9); i > 0; --i)
    cuts.push_back((*random)() % patches);
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  return cuts;
}

/// Sizes of several kinds: equal, with zeros, with few large ones.
std::vector<std::uint64_t> RandomSizes(std::mt19937* random) {
  std::vector<std::uint64_t> sizes(1 + (*random)() % 60);
  const unsigned kind = (*random)() % 5;
  for (std::uint64_t& size : sizes) {
    if (kind == 0) size = 7;
    if (kind == 1) size = (*random)() % 3;
    if (kind == 2) size = (*random)() % 10 == 0 ? 100000 + (*random)() % 1000 : 1 + (*random)() % 50;
    if (kind == 3) size = std::uint64_t{(*random)()} << 18;
    if (kind == 4) size = 0;
  }
  return sizes;
}

TEST(CutCurve, CutsAsTheEarlierAssignmentDidWhateverThePieces) {
  std::mt19937 random(7);
  for (int i = 0; i < 20000; ++i) {
    const std::vector<std::uint64_t> sizes = RandomSizes(&random);
    const std::size_t files = 1 + random() % sizes.size();
    LocalLine line(InPieces(sizes, RandomCuts(sizes.size(), &random)));

    const Result<Assignment> cut = CutCurve(&line, sizes.size(), files);

    ASSERT_TRUE(cut.ok());
    ASSERT_EQ(*cut, testing::EarlierAssignment(sizes, files)) << i << ": " << line.pieces() << " pieces";
    ASSERT_EQ(AssignPatches(sizes, files, AggregationStrategy::kBalanced), *cut) << i;
  }
}

TEST(CutCurve, CutsLongCurvesAsTheEarlierAssignmentDid) {
  std::mt19937 random(8);
  for (const std::size_t files : {2u, 17u, 1000u}) {
    std::vector<std::uint64_t> sizes(50000);
    for (std::uint64_t& size : sizes) size = 100 + random() % 1000 + (random() % 500 == 0 ? 200000 : 0);
    const CurvePieces pieces(sizes.size(), 1000, 64);
    std::vector<std::size_t> cuts;
    for (std::size_t p = 0; p <= pieces.count(); ++p) cuts.push_back(pieces.begin(p));
    LocalLine line(InPieces(sizes, cuts));

    EXPECT_EQ(line.pieces(), 781u);  // 50,000 / 64
    EXPECT_EQ(*CutCurve(&line, sizes.size(), files), testing::EarlierAssignment(sizes, files));
  }
}

/// Passes errors on, as a line over MPI does.
class BrokenLine final : public PieceLine {
 public:
  explicit BrokenLine(int good_calls) : good_calls_(good_calls) {}
  std::size_t pieces() const override { return line_.pieces(); }
  Status Forward(std::span<std::uint64_t> state, const Step& step) override {
    QUARRY_RETURN_IF_ERROR(Call());
    return line_.Forward(state, step);
  }
  Status Backward(std::span<std::uint64_t> state, const Step& step) override {
    QUARRY_RETURN_IF_ERROR(Call());
    return line_.Backward(state, step);
  }
  Status AddUp(std::span<std::uint64_t>) override { return Call(); }

 private:
  Status Call() { return good_calls_-- > 0 ? Status::Ok() : InternalError("broken"); }
  LocalLine line_{InPieces({1, 2, 3, 4}, {0, 2, 4})};
  int good_calls_;
};

TEST(CutCurve, EndsWithTheErrorOfItsLine) {
  for (int good = 0;; ++good) {
    BrokenLine line(good);
    const Result<Assignment> cut = CutCurve(&line, 4, 2);
    if (cut.ok()) {
      EXPECT_GE(good, 5) << "totals, limits, starts and their sum, ends and theirs";
      return;
    }
    EXPECT_EQ(cut.status().message(), "broken");
  }
}

TEST(CurvePieces, CoverTheCurveAndFindTheirPatches) {
  for (const auto& [patches, ranks, least] : {std::tuple{10ull, 4, 1ull},
                                              {10ull, 4, 3ull},
                                              {1ull, 7, 16384ull},
                                              {1000000007ull, 90000, 1ull},
                                              {16384ull * 5 + 1, 3, 16384ull}}) {
    const CurvePieces pieces(patches, ranks, least);
    EXPECT_EQ(pieces.begin(0), 0u);
    EXPECT_EQ(pieces.begin(pieces.count()), patches);
    EXPECT_LE(pieces.count(), static_cast<std::size_t>(ranks));
    for (std::size_t p = 0; p < pieces.count(); ++p) {
      const std::uint64_t begin = pieces.begin(p);
      const std::uint64_t end = pieces.begin(p + 1);
      ASSERT_GE(end - begin, std::min<std::uint64_t>(least, patches)) << "piece " << p;
      ASSERT_EQ(pieces.PieceOf(begin), p);
      ASSERT_EQ(pieces.PieceOf(end - 1), p);
      ASSERT_TRUE(p == 0 || pieces.RankOf(p - 1) < pieces.RankOf(p)) << "a rank has one piece at most";
    }
    EXPECT_LT(pieces.RankOf(pieces.count() - 1), ranks);
  }
  EXPECT_EQ(CurvePieces(100, 1000).count(), 1u) << "a small curve is one piece";
  // 2^40 patches, the most that a grid has, on a million ranks: products stay below 2^64.
  const CurvePieces largest(std::uint64_t{1} << 40, 1 << 20);
  EXPECT_EQ(largest.begin(largest.count()), std::uint64_t{1} << 40);
  EXPECT_EQ(largest.PieceOf((std::uint64_t{1} << 40) - 1), largest.count() - 1);
}

}  // namespace
}  // namespace quarry::distribution
