// Which pieces of an index are written when steps come, change and go.
#include "quarry/index/piece_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace quarry::index {
namespace {

constexpr std::uint64_t kEmpty = 24 << 10;

/// An index of which only the sizes are known.
struct Sizes {
  std::vector<std::size_t> sources;  ///< one for each step
  std::vector<PieceSize> pieces;
  std::uint64_t bytes_of_step = 0;
  std::uint64_t written = 0;  ///< [bytes] in all
  std::uint64_t most = 0;     ///< [bytes] of the last update
  std::size_t rewritten = 0;  ///< steps of old pieces in the last update

  std::uint64_t BytesOf(std::uint64_t steps) const { return kEmpty + steps * bytes_of_step; }
  std::uint64_t all() const {
    std::uint64_t bytes = 0;
    for (const PieceSize& piece : pieces) bytes += piece.bytes;
    return bytes;
  }

  void Update() {
    most = rewritten = 0;
    const std::vector<PlannedPiece> planned = PlanPieces(sources, pieces);
    std::size_t at = 0;
    for (const PlannedPiece& piece : planned) {
      EXPECT_EQ(piece.begin, at) << "every step is in one piece";
      EXPECT_LT(piece.begin, piece.end);
      at = piece.end;
      const auto of_piece = [&](std::size_t step) { return sources[step] == sources[piece.begin]; };
      if (!piece.written) {
        EXPECT_NE(sources[piece.begin], kTables);
        for (std::size_t i = piece.begin; i < piece.end; ++i) EXPECT_TRUE(of_piece(i));
        continue;
      }
      for (std::size_t i = piece.begin; i < piece.end; ++i) rewritten += sources[i] != kTables;
      pieces.push_back({BytesOf(piece.end - piece.begin), piece.end - piece.begin});
      std::fill_n(sources.begin() + static_cast<std::ptrdiff_t>(piece.begin), piece.end - piece.begin,
                  pieces.size() - 1);
      most += pieces.back().bytes;
    }
    EXPECT_EQ(at, sources.size());
    written += most;
    DropUnused();
  }

  void DropUnused() {
    std::vector<std::size_t> numbers(pieces.size(), kTables);
    std::vector<PieceSize> kept;
    for (std::size_t& source : sources) {
      if (source == kTables) continue;
      if (numbers[source] == kTables) {
        numbers[source] = kept.size();
        kept.push_back(pieces[source]);
      }
      source = numbers[source];
    }
    pieces = std::move(kept);
  }
};

TEST(PiecePlan, OneStepMoreIsOneSmallPiece) {
  // 20,000 steps of 4 KiB in one piece, then others one by one: each is written log2(20,000) = 14 times at
  // most, with the empty pages of each file on top.
  Sizes index;
  index.bytes_of_step = 4 << 10;
  constexpr std::size_t kSteps = 20000;
  std::uint64_t largest = 0;
  std::size_t most_pieces = 0;
  for (std::size_t n = 1; n <= kSteps; ++n) {
    index.sources.push_back(kTables);
    index.Update();
    if (n > 1000) {
      EXPECT_LE(index.most, kEmpty + (8 << 20)) << n;
    }
    largest = std::max(largest, index.most);
    most_pieces = std::max(most_pieces, index.pieces.size());
  }
  EXPECT_LE(most_pieces, 40u);
  EXPECT_LE(index.written, kSteps * (kEmpty + 14 * index.bytes_of_step));
  EXPECT_GT(largest, std::uint64_t{4} << 20) << "pieces do grow";
}

TEST(PiecePlan, LargeStepsAreHardlyEverWrittenAgain) {
  Sizes index;
  index.bytes_of_step = 400 << 20;
  for (std::size_t n = 1; n <= 680; ++n) {
    index.sources.push_back(kTables);
    index.Update();
    EXPECT_LE(index.pieces.size(), kMostPieces);
    EXPECT_LE(index.most, index.bytes_of_step + index.all() / 8) << "never all of it for one step";
  }
  EXPECT_LE(index.written, 680 * 5 * index.bytes_of_step);  // log2(680 / 32) = 4.4, and itself
}

TEST(PiecePlan, AChangedStepLeavesItsNeighboursWhereTheyAre) {
  Sizes index;
  index.bytes_of_step = 1 << 20;
  index.sources.assign(100, 0);
  index.pieces = {{index.BytesOf(100), 100}};
  index.sources[40] = kTables;

  const std::vector<PlannedPiece> planned = PlanPieces(index.sources, index.pieces);

  const std::vector<PlannedPiece> expected = {{0, 40, false}, {40, 41, true}, {41, 100, false}};
  EXPECT_EQ(planned, expected);
}

TEST(PiecePlan, APieceThatIsMostlyWasteIsWrittenAnew) {
  const std::vector<PieceSize> pieces = {{kEmpty + (100 << 20), 100}};
  EXPECT_FALSE(PlanPieces(std::vector<std::size_t>(50, 0), pieces)[0].written);
  EXPECT_TRUE(PlanPieces(std::vector<std::size_t>(49, 0), pieces)[0].written);
}

TEST(PiecePlan, ChangesEverywhereMakeNoMorePiecesThanThereMayBe) {
  Sizes index;
  index.bytes_of_step = 1 << 20;
  for (std::size_t piece = 0; piece < 16; ++piece) {
    index.sources.insert(index.sources.end(), 250, piece);
    index.pieces.push_back({index.BytesOf(250), 250});
  }
  std::mt19937 random(1);
  for (int i = 0; i < 500; ++i) {
    index.sources[random() % index.sources.size()] = kTables;
    index.Update();
    std::size_t runs = 1;
    for (std::size_t s = 1; s < index.sources.size(); ++s) runs += index.sources[s] != index.sources[s - 1];
    EXPECT_LE(runs, kMostPieces);
    EXPECT_LE(index.rewritten, 4000u / 4);
  }
  for (std::size_t s = 0; s < index.sources.size(); s += 2) index.sources[s] = kTables;
  index.Update();
  EXPECT_LE(index.pieces.size(), kMostPieces);
}

TEST(PiecePlan, NothingIsPlannedForNothing) {
  EXPECT_TRUE(PlanPieces({}, {}).empty());
  EXPECT_TRUE(PlanPieces({}, std::vector<PieceSize>{{kEmpty, 3}}).empty());
  const std::vector<PlannedPiece> first = {{0, 3, true}};
  EXPECT_EQ(PlanPieces(std::vector<std::size_t>(3, kTables), {}), first);
}

}  // namespace
}  // namespace quarry::index
