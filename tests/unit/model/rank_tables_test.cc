// The tables of all ranks of a large job in one process, without MPI: the writer's own functions decide and
// write the letters of every rank; what they hold and send is counted, and compared with the prediction.
#include "writer/model/rank_tables.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include "tests/unit/distribution/earlier_assignment.h"
#include "writer/distribution/curve_cut.h"
#include "writer/distribution/decomposition.h"
#include "writer/distribution/incoming_file.h"
#include "writer/distribution/patch_numbers.h"
#include "writer/redistribute/patch_schedule.h"

namespace quarry::model {
namespace {

using distribution::AggregationStrategy;
using distribution::Assignment;
using distribution::CurvePiece;
using distribution::CurvePieces;
using distribution::IncomingFile;
using distribution::NumberLetter;

/// A field on many ranks that read it from a file.
struct Job {
  Index3 dims;
  Index3 patch;
  int ranks = 1;
  std::size_t files = 1;
  std::uint64_t least_piece = CurvePieces::kLeastPatches;

  PatchGrid grid() const { return *PatchGrid::Create(dims, patch); }
  distribution::ReadingBoxes boxes() const {
    return {grid().domain(), {1, 1, 1}, ranks, distribution::ReadingOrder::kConsecutive};
  }
};

/// The ranks of the patches, along the curve.
std::vector<int> PlaceAlongCurve(const Job& job) {
  const PatchGrid grid = job.grid();
  const auto target = distribution::TargetCounts(grid.patch_count(), job.ranks);
  std::vector<int> encoders(static_cast<std::size_t>(grid.patch_count()));
  distribution::ForEachPlacement(grid, job.boxes(), distribution::PlacementStrategy::kBalanced, target,
                                 [&](const distribution::PlacedPatch& placed) {
                                   encoders[static_cast<std::size_t>(grid.CurvePosition(placed.patch))] =
                                       placed.rank;
                                 });
  return encoders;
}

/// Uneven: a tenth of the curve has large patches.
std::vector<std::uint64_t> SizesAlongCurve(std::size_t patches) {
  std::mt19937 random(4);
  std::vector<std::uint64_t> sizes(patches);
  for (std::size_t p = 0; p < patches; ++p)
    sizes[p] = 2000 + random() % 4000 + (p / 1000 % 10 == 3 ? 100000 : 0);
  return sizes;
}

/// All ranks of a job, one after the other.
class Simulation {
 public:
  Simulation(const Job& job, std::vector<int> encoders, std::vector<std::uint64_t> sizes)
      : job_(job),
        pieces_(encoders.size(), job.ranks, job.least_piece),
        encoders_(std::move(encoders)),
        sizes_(std::move(sizes)),
        own_(static_cast<std::size_t>(job.ranks)),
        ranks_(static_cast<std::size_t>(job.ranks)) {
    for (std::size_t p = 0; p < encoders_.size(); ++p) own_[At(encoders_[p])].push_back(p);
    for (std::size_t r = 0; r < ranks_.size(); ++r) Hold(r, 32 * ranks_.size());
  }

  const CurvePieces& pieces() const { return pieces_; }
  std::span<const int> encoders() const { return encoders_; }
  std::span<const std::uint64_t> sizes() const { return sizes_; }
  const std::vector<RankTables>& ranks() const { return ranks_; }

  void Run(std::uint64_t row_bytes, std::uint64_t window_bytes, std::uint64_t summary_bytes) {
    const Assignment assignment = Assign();
    ASSERT_EQ(assignment, testing::EarlierAssignment(sizes_, job_.files));
    const auto file_of = [&](std::uint64_t position) {
      return static_cast<std::uint64_t>(std::ranges::upper_bound(assignment, position) - assignment.begin()) -
             1;
    };
    const auto aggregator_of = [&](std::uint64_t file) {
      return distribution::AggregatorRank(file, job_.files, job_.ranks);
    };
    std::vector<std::uint64_t> sent(ranks_.size(), 0);
    const auto letters =
        Deliver([&](std::size_t i) { return sizes_[i] + row_bytes; }, file_of, aggregator_of, &sent);
    std::vector<std::uint64_t> files_of(ranks_.size(), 0);
    std::vector<std::uint64_t> arrived(ranks_.size(), 0);
    for (std::size_t f = 0; f < job_.files; ++f) {
      const std::size_t aggregator = At(aggregator_of(f));
      IncomingFile file(assignment[f], assignment[f + 1]);
      for (const NumberLetter& letter : letters[f]) {
        arrived[aggregator] += letter.bytes.size();
        for (std::size_t i = 0; i < letter.count(); ++i)
          ASSERT_TRUE(file.Announce(letter.peer, letter.at(i).curve_position, letter.at(i).number));
      }
      ASSERT_TRUE(file.complete());
      files_of[aggregator] += 12 * (assignment[f + 1] - assignment[f]);
      file.CutWindows(window_bytes);
      for (const auto& [encoder, shares] : file.Shares())
        Count(At(encoder), aggregator, 16 + 8 * shares.size());
    }
    for (std::size_t r = 0; r < ranks_.size(); ++r)
      Hold(r, OwnBytes(r) + 8 * assignment.size() + 4 * ranks_.size() + sent[r] + arrived[r] + files_of[r]);
    Hold(0, OwnBytes(0) + 24 * ranks_.size() + 2 * job_.files * summary_bytes);
  }

 private:
  /// A line that counts its messages.
  class Line final : public distribution::PieceLine {
   public:
    Line(Simulation* simulation, std::vector<CurvePiece> pieces)
        : simulation_(*simulation), line_(std::move(pieces)) {}
    std::size_t pieces() const override { return line_.pieces(); }
    Status Forward(std::span<std::uint64_t> state, const Step& step) override {
      Pass(state.size());
      return line_.Forward(state, step);
    }
    Status Backward(std::span<std::uint64_t> state, const Step& step) override {
      Pass(state.size());
      return line_.Backward(state, step);
    }
    Status AddUp(std::span<std::uint64_t>) override { return Status::Ok(); }

   private:
    void Pass(std::size_t numbers) {
      const CurvePieces& pieces = simulation_.pieces_;
      for (std::size_t p = 0; p + 1 < pieces.count(); ++p)
        simulation_.Count(At(pieces.RankOf(p)), At(pieces.RankOf(p + 1)), 8 * numbers);
    }
    Simulation& simulation_;
    distribution::LocalLine line_;
  };

  static std::size_t At(int rank) { return static_cast<std::size_t>(rank); }
  std::uint64_t OwnBytes(std::size_t rank) const { return 24 * own_[rank].size(); }
  void Hold(std::size_t rank, std::uint64_t bytes) {
    ranks_[rank].bytes = std::max(ranks_[rank].bytes, bytes);
  }
  /// A message of so many bytes in a head, beside which its size and checksum travel.
  void Count(std::size_t from, std::size_t to, std::uint64_t bytes) {
    if (from == to) return;
    for (const std::size_t rank : {from, to}) {
      ++ranks_[rank].messages;
      ranks_[rank].message_bytes += bytes + 16;
    }
  }

  /// Letters of all ranks, by group.
  template <typename NumberOf, typename GroupOf, typename RankOf>
  std::vector<std::vector<NumberLetter>> Deliver(NumberOf number_of, GroupOf group_of, RankOf rank_of,
                                                 std::vector<std::uint64_t>* sent) {
    std::vector<std::vector<NumberLetter>> by_group;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      const std::vector<std::uint64_t>& own = own_[rank];
      auto letters = *distribution::WriteNumbers(
          own.size(), [&](std::size_t i) { return own[i]; },
          [&](std::size_t i) { return Result<std::uint64_t>(number_of(own[i])); }, group_of, rank_of);
      for (NumberLetter& letter : letters) {
        (*sent)[rank] += letter.bytes.size();
        Count(rank, At(letter.peer), letter.bytes.size());
        by_group.resize(std::max<std::size_t>(by_group.size(), letter.group() + 1));
        letter.bytes.shrink_to_fit();
        letter.peer = static_cast<int>(rank);
        by_group[letter.group()].push_back(std::move(letter));
      }
    }
    return by_group;
  }

  Assignment Assign() {
    if (job_.files == 1) return {0, encoders_.size()};
    std::vector<std::uint64_t> sent(ranks_.size(), 0);
    const auto letters = Deliver([&](std::size_t i) { return sizes_[i]; },
                                 [&](std::uint64_t position) { return pieces_.PieceOf(position); },
                                 [&](std::uint64_t piece) { return pieces_.RankOf(piece); }, &sent);
    std::vector<CurvePiece> pieces;
    std::vector<std::uint64_t> arrived(ranks_.size(), 0);
    for (std::size_t p = 0; p < pieces_.count(); ++p) {
      const std::size_t rank = At(pieces_.RankOf(p));
      const auto numbers = *distribution::NumbersInOrder(letters[p], pieces_.begin(p), pieces_.begin(p + 1));
      pieces.emplace_back(pieces_.begin(p), numbers);
      for (const NumberLetter& letter : letters[p]) arrived[rank] += letter.bytes.size();
      arrived[rank] += 8 * numbers.size();
      Hold(rank, OwnBytes(rank) + 24 * job_.files + 8 * numbers.size() + pieces.back().bytes());
    }
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      Hold(r, OwnBytes(r) + 4 * ranks_.size() + sent[r] + arrived[r]);
      Hold(r, OwnBytes(r) + 24 * job_.files);
    }
    Line line(this, std::move(pieces));
    return *distribution::CutCurve(&line, encoders_.size(), job_.files);
  }

  const Job job_;
  const CurvePieces pieces_;
  const std::vector<int> encoders_;
  const std::vector<std::uint64_t> sizes_;
  std::vector<std::vector<std::uint64_t>> own_;  ///< curve positions
  std::vector<RankTables> ranks_;
};

/// Bytes in use on the heap, where that can be asked.
std::size_t HeapBytes() {
#if defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 33)
  const auto info = mallinfo2();
  return info.uordblks + info.hblkhd;
#else
  return 0;
#endif
}

/// The cost of placing on one rank: heap bytes at most while it walks over all patches, and parts that it
/// exchanges.
struct PlacingCost {
  std::size_t bytes = 0;
  std::size_t sends = 0;
  std::size_t receives = 0;
};

PlacingCost PlaceOnRank(const Job& job, int rank) {
  const PatchGrid grid = job.grid();
  const distribution::ReadingBoxes boxes = job.boxes();
  const std::size_t before = HeapBytes();
  PlacingCost cost;
  const auto target = distribution::TargetCounts(grid.patch_count(), job.ranks);
  std::vector<std::int64_t> per_rank(target.size(), 0);
  redistribute::PatchScheduler scheduler(grid, boxes, rank);
  distribution::ForEachPlacement(grid, boxes, distribution::PlacementStrategy::kBalanced, target,
                                 [&](const distribution::PlacedPatch& placed) {
                                   scheduler.Add(placed);
                                   ++per_rank[static_cast<std::size_t>(placed.rank)];
                                   if (placed.patch % 1024 == 0)
                                     cost.bytes = std::max(cost.bytes, HeapBytes() - before);
                                 });
  const redistribute::PatchSchedule schedule = std::move(scheduler).Finish();
  cost.sends = schedule.schedule.sends.size();
  cost.receives = schedule.schedule.receives.size();
  return cost;
}

void ExpectPredicted(const Job& job) {
  std::vector<int> encoders = PlaceAlongCurve(job);
  std::vector<std::uint64_t> sizes = SizesAlongCurve(encoders.size());
  Simulation simulation(job, std::move(encoders), std::move(sizes));
  CurveOfField field{simulation.encoders(), simulation.sizes()};
  field.window_bytes = 1 << 20;

  simulation.Run(field.row_bytes, field.window_bytes, field.summary_bytes);
  const std::vector<RankTables> predicted =
      CountTables(field, simulation.pieces(), job.files, AggregationStrategy::kBalanced, job.ranks);

  ASSERT_EQ(predicted.size(), simulation.ranks().size());
  for (std::size_t r = 0; r < predicted.size(); ++r)
    ASSERT_EQ(predicted[r], simulation.ranks()[r]) << "rank " << r;
  const RankTables most = MostOf(predicted);
  const RankTables others = MostOf(std::span(predicted).subspan(1));
  std::printf(
      "%d ranks, %zu patches, %zu files, %zu pieces: %.2f MB on rank 0, at most %.2f MB on another;\n",
      job.ranks, simulation.encoders().size(), job.files, simulation.pieces().count(),
      static_cast<double>(predicted[0].bytes) / 1e6, static_cast<double>(others.bytes) / 1e6);
  std::printf("at most %llu messages of a rank, and %.3f MB of them\n",
              static_cast<unsigned long long>(most.messages), static_cast<double>(most.message_bytes) / 1e6);
}

TEST(CountTables, PredictsWhatASimulationOfAllRanksCounts) {
  ExpectPredicted({{40, 40, 40}, {1, 1, 1}, 1, 5});
  ExpectPredicted({{40, 40, 40}, {1, 1, 1}, 1, 1});
  ExpectPredicted({{48, 48, 48}, {1, 1, 1}, 4, 1});
  ExpectPredicted({{96, 96, 96}, {2, 2, 2}, 1000, 125, 256});
  ExpectPredicted({{64, 300, 1}, {1, 4, 1}, 333, 800, 64});
}

// Nothing of a rank grows with the number of patches: ten times as many ranks with ten times as many patches
// hold as much.
TEST(CountTables, GrowsWithTheRanksOnlyByNumbersOfRanksAndFiles) {
  const auto bytes_beside_ranks = [](const Job& job) {
    const std::vector<int> encoders = PlaceAlongCurve(job);
    const std::vector<std::uint64_t> sizes = SizesAlongCurve(encoders.size());
    const auto tables =
        CountTables({encoders, sizes}, CurvePieces(encoders.size(), job.ranks, job.least_piece), job.files,
                    AggregationStrategy::kBalanced, job.ranks);
    const auto ranks = static_cast<std::uint64_t>(job.ranks);
    return MostOf(tables).bytes - 32 * ranks;
  };
  const Job small{{40, 40, 20}, {1, 1, 1}, 320, 20, 64};
  const Job large{{80, 80, 50}, {1, 1, 1}, 3200, 200, 64};
  EXPECT_LE(bytes_beside_ranks(large), bytes_beside_ranks(small) + 24 * 200);
}

TEST(PlaceOnRank, HoldsNoListOfPatches) {
  const Job job{{512, 512, 512}, {4, 4, 4}, 1000, 125};
  const PlacingCost cost = PlaceOnRank(job, 500);

  // A list of 2,097,152 patches would take 8 MB. The rank has samples of 16,384 patches, which it sends in as
  // many parts.
  EXPECT_GT(cost.sends, 0u);
  EXPECT_LE(cost.sends, 16384u);
  EXPECT_LE(cost.bytes, 4u << 20);
}

// With QUARRY_TEST_FULL the 10^5 ranks and 10^7 patches of docs/planning.md: a minute or two, and some GB.
TEST(CountTables, TakesAtMost20MBOnEachRank) {
  std::vector<Job> jobs = {{{2944, 2944, 2944}, {64, 64, 64}, 1000, 125}};
  if (std::getenv("QUARRY_TEST_FULL") != nullptr) {
    jobs.push_back({{6400, 6400, 6400}, {64, 64, 64}, 10000, 1250});
    jobs.push_back({{13760, 13760, 13760}, {64, 64, 64}, 100000, 12500});
  }
  for (const Job& job : jobs) ExpectPredicted(job);
  const Job& job = jobs.back();
  for (const int rank : {0, job.ranks / 81, job.ranks / 2, job.ranks - 1}) {
    const PlacingCost cost = PlaceOnRank(job, rank);
    std::printf("rank %d: %.2f MB while placing, %zu sends, %zu receives\n", rank,
                static_cast<double>(cost.bytes) / 1e6, cost.sends, cost.receives);
    EXPECT_LE(cost.bytes, 20000000u);
  }
  const std::vector<int> encoders = PlaceAlongCurve(job);
  const std::vector<std::uint64_t> sizes = SizesAlongCurve(encoders.size());
  const auto tables = CountTables({encoders, sizes}, CurvePieces(encoders.size(), job.ranks), job.files,
                                  AggregationStrategy::kBalanced, job.ranks);
  EXPECT_LE(MostOf(tables).bytes, 20000000u);
}

}  // namespace
}  // namespace quarry::model
