#include "quarry/query/encoding_choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "quarry/query/plan_totals.h"
#include "quarry/query/tiles.h"

namespace quarry::query {
namespace {

constexpr std::int64_t kSide = 64;
/// [bytes] of a patch of a turbulence within 1e-4 of its range: 6.57 bits for each sample.
constexpr std::uint32_t kPayload = 215'286;

/// An answer at level 0 of a grid of patches of 64^3.
/// @param error  of the stored samples, whose range is -0.5 to 0.5
ReadPlan PlanOf(const Box& box, double error, const Target& target = AtLevel{0}) {
  ReadPlan plan;
  plan.query.box = box;
  plan.query.target = target;
  plan.coder = CoderId::kInterpolate;
  plan.recorded.all = {-0.5, 0.5};
  const PatchGrid grid = *PatchGrid::Create({384, 384, 384}, {kSide, kSide, kSide});
  for (const std::int64_t index : grid.MortonOrder()) {
    PlannedPatch patch;
    patch.samples = grid.PatchBox(index);
    if (Intersect(box, patch.samples).empty()) continue;
    patch.entry.patch.levels.resize(1);
    patch.entry.patch.levels[0].max_error = error;
    plan.patches.push_back(std::move(patch));
  }
  LevelExtent level;
  level.extent = box;
  level.max_error = error;
  level.bytes = plan.cost.bytes = plan.patches.size() * kPayload;
  plan.levels.push_back(level);
  plan.cost.reply_bytes = static_cast<std::uint64_t>(box.volume()) * sizeof(float);
  plan.totals = TotalsOf(plan);
  plan.cost.coded_bytes = CodedBytes(plan);
  return plan;
}

constexpr Box kPlane{{0, 0, 100}, {384, 384, 101}};
constexpr Box kCube{{64, 64, 64}, {192, 192, 192}};

double SecondsOf(const EncodingChoice& choice, AnswerEncoding encoding) {
  for (const EncodingPrice& price : choice.prices)
    if (price.encoding == encoding) return price.seconds;
  return -1;
}

AnswerEncoding Chosen(const ReadPlan& plan, const Path& path, double decoded = 0) {
  return ChooseEncoding(plan, {.path = path, .threads = 2, .decoded = decoded}).encoding;
}

/// The paths of the tests: seconds and, where it is known, the rate.
constexpr Path kHere{1e-4, kFastest, 2};
constexpr Path kRoom{1e-3, 0, 2};
constexpr Path kCountry{0.02, 0, 2};
constexpr Path kContinent{0.04, 0, 2};
constexpr Path kWorld{0.1, 0, 2};
constexpr Path kSlowWorld{0.1, 1.25e6, 2};

TEST(CodedBytes, AreThoseOfTheMeasuredPlane) {
  // docs/decisions/coded-answers.md: 418,837 without loss, of 147,456 samples; within 1e-3 59,972.
  EXPECT_NEAR(static_cast<double>(CodedBytes(PlanOf(kPlane, 1e-4))), 418'837, 0.02 * 418'837);
  EXPECT_NEAR(static_cast<double>(CodedBytes(PlanOf(kPlane, 1e-4, WithinError{1.1e-3}))), 59'972,
              0.05 * 59'972);
}

TEST(CodedBytes, HaveTheBitsOfExactPayload) {
  // 8 * 215,286 / 262,144 = 6.57 bits for each of 2,097,152 samples: 1,722,288 bytes, and 8 tiles of 32.
  EXPECT_NEAR(static_cast<double>(CodedBytes(PlanOf(kCube, 0))), 1'722'288 + 8 * 32, 2);

  ReadPlan integers = PlanOf(kCube, 0);
  integers.type = DataType::kInt16;
  EXPECT_NEAR(static_cast<double>(CodedBytes(integers)), 1'722'288 + 8 * 32, 2);
  // Within 3, seven integers are one: log2(1 + (2^6.57 - 1) * 7) = 9.37 bits.
  integers = PlanOf(kCube, 3);
  integers.type = DataType::kInt16;
  EXPECT_NEAR(static_cast<double>(CodedBytes(integers)), 2'456'000, 5'000);
}

TEST(CodedBytes, AreAtMostThoseOfTheSamplesAndNoneOfNone) {
  ReadPlan plan = PlanOf(kCube, 0.1);
  plan.levels[0].bytes *= 100;
  EXPECT_EQ(CodedBytes(plan), plan.cost.reply_bytes + 8 * 32);
  plan.query.box = {{0, 0, 0}, {0, 0, 0}};
  EXPECT_EQ(CodedBytes(plan), 0u);
}

TEST(CodedBytes, AddUpOverTheLevels) {
  ReadPlan plan = PlanOf(kCube, 0);
  const std::uint64_t alone = CodedBytes(plan);
  plan.dataset_levels = 2;
  plan.parts.levels = 2;
  for (PlannedPatch& patch : plan.patches) patch.entry.patch.levels.resize(2);
  LevelExtent coarse = plan.levels[0];
  coarse.level = 1;
  coarse.spacing = {2, 2, 2};
  coarse.bytes = plan.levels[0].bytes / 4;
  plan.levels[0].bytes -= coarse.bytes;
  plan.levels.insert(plan.levels.begin(), coarse);
  plan.query.first_level = 1;
  plan.totals = TotalsOf(plan);
  // A quarter of the payload has an eighth of the samples; with it, all of the payload is there for level 0.
  EXPECT_NEAR(static_cast<double>(CodedBytes(plan)), static_cast<double>(alone) + 1'722'288 / 4.0 + 32, 4);
}

TEST(TransferSeconds, TakeARoundTripForEachWindowUntilThePathIsFull) {
  const Path path{0.04, 12.5e6, 1};  // 500,000 bytes are under way: 34.2 windows of 14,600
  EXPECT_DOUBLE_EQ(TransferSeconds(0, path), 0);
  EXPECT_DOUBLE_EQ(TransferSeconds(14'600, path), 0);
  EXPECT_DOUBLE_EQ(TransferSeconds(3 * 14'600, path), 0.04);
  EXPECT_DOUBLE_EQ(TransferSeconds(7 * 14'600, path), 0.08);
  // log2(34.2466) - 1 = 4.0979 round trips for 485,400 bytes, and a second for 12.5 MB more.
  EXPECT_NEAR(TransferSeconds(485'400 + 12'500'000, path), 0.1639 + 1, 1e-4);
  EXPECT_DOUBLE_EQ(TransferSeconds(25'000'000, kHere), 0.01);
}

TEST(WithRate, IsUsualForARoundTripUnlessOneIsKnown) {
  EXPECT_DOUBLE_EQ(WithRate(kRoom).rate, 1.25e9);
  EXPECT_DOUBLE_EQ(WithRate(kCountry).rate, 6.25e7);
  EXPECT_DOUBLE_EQ(WithRate(kSlowWorld).rate, 1.25e6);
  EXPECT_DOUBLE_EQ(WithRate({}).rate, kFastest);
}

TEST(RateAfter, IsAtLeastThatOfTheBytes) {
  EXPECT_DOUBLE_EQ(RateAfter({0.02, 1e6, 1}, 10'000'000, 0.1, 0.1, 0), 1e8);
  EXPECT_DOUBLE_EQ(RateAfter({0.02, 1e9, 1}, 10'000'000, 0.1, 0.01, 0), 1e9);
}

TEST(RateAfter, FallsByTimeThatNothingElseExplains) {
  constexpr std::uint64_t kBytes = 20'000'000;
  const double seconds = TransferSeconds(kBytes, {0.04, 2e6, 1});
  EXPECT_NEAR(RateAfter(kContinent, kBytes, seconds, seconds, 0), 2e6, 2e3);
  const double usual = WithRate(kContinent).rate;
  EXPECT_DOUBLE_EQ(RateAfter(kContinent, kBytes, seconds, seconds, seconds / 2), usual) << "the ends worked";
  EXPECT_DOUBLE_EQ(RateAfter(kContinent, kBytes, seconds, 0.1, 0), usual) << "the client did not wait";
  EXPECT_DOUBLE_EQ(RateAfter(kContinent, 100'000, seconds, seconds, 0), usual) << "few bytes";
}

TEST(ChooseEncoding, TakesWholePatchesInsideAMachineUntilTheyAreDecoded) {
  EXPECT_EQ(Chosen(PlanOf(kCube, 1e-4), kHere), AnswerEncoding::kPatches);
  EXPECT_EQ(Chosen(PlanOf(kCube, 1e-4), kHere, 1), AnswerEncoding::kSamples);
}

TEST(ChooseEncoding, SendsSamplesOfAPlaneInsideAMachine) {
  const EncodingChoice choice = ChooseEncoding(PlanOf(kPlane, 1e-4), {.path = kHere, .threads = 2});

  EXPECT_EQ(choice.encoding, AnswerEncoding::kSamples);
  // Two threads decode 37.7 MB: in 15.1 ms at the server, which keeps them, in 11.3 at the client, after 7.8
  // MB of payload were copied in 3.1.
  EXPECT_NEAR(SecondsOf(choice, AnswerEncoding::kSamples), 0.0154, 1e-4);
  EXPECT_NEAR(SecondsOf(choice, AnswerEncoding::kPatches), 0.0145, 1e-4);
  // 3.5 ms for coding 0.59 MB without loss at 6 ns a byte.
  EXPECT_NEAR(SecondsOf(choice, AnswerEncoding::kCoded), 0.0191, 1e-4);
  // TLS makes the payload dearer: another 5.6 ms.
  constexpr Path kHereWithTls{1e-4, kFastestWithTls, 2};
  EXPECT_EQ(Chosen(PlanOf(kPlane, 1e-4), kHereWithTls), AnswerEncoding::kSamples);
  EXPECT_EQ(Chosen(PlanOf(kCube, 1e-4), kHereWithTls), AnswerEncoding::kPatches);
}

TEST(ChooseEncoding, CodesAPlaneFarAway) {
  EXPECT_EQ(Chosen(PlanOf(kPlane, 1e-4), kRoom), AnswerEncoding::kSamples) << "coding takes what it saves";
  for (const Path& path : {kCountry, kContinent, kWorld, kSlowWorld}) {
    EXPECT_EQ(Chosen(PlanOf(kPlane, 1e-4), path), AnswerEncoding::kCoded);
    EXPECT_EQ(Chosen(PlanOf(kPlane, 1e-4, WithinError{1.1e-3}), path), AnswerEncoding::kCoded);
  }
}

/// Samples stay decoded for the next reader, which a small saving is not worth.
TEST(ChooseEncoding, PrefersSamplesToASmallSaving) {
  const ReadPlan plan = PlanOf(kPlane, 1e-4);
  int small_savings = 0;
  for (double rate = 1e6; rate < 1e10; rate *= 1.02) {
    const EncodingChoice choice = ChooseEncoding(plan, {.path = {2e-3, rate, 2}, .threads = 2, .decoded = 0});
    const double samples = SecondsOf(choice, AnswerEncoding::kSamples);
    double best = samples;
    for (const EncodingPrice& price : choice.prices) best = std::min(best, price.seconds);
    if (best >= samples) continue;
    EXPECT_EQ(choice.encoding == AnswerEncoding::kSamples, best >= 0.95 * samples) << rate;
    if (best >= 0.95 * samples) ++small_savings;
  }
  EXPECT_GT(small_savings, 0);
}

TEST(ChooseEncoding, SendsWholePatchesAsTheyAre) {
  for (const Path& path : {kRoom, kCountry, kContinent, kWorld, kSlowWorld}) {
    const EncodingChoice choice = ChooseEncoding(PlanOf(kCube, 1e-4), {.path = path, .threads = 2});
    EXPECT_EQ(choice.encoding, AnswerEncoding::kPatches);
    EXPECT_EQ(choice.path.rate, WithRate(path).rate);
  }
}

TEST(ChooseEncoding, TakesOnlyWhatIsPossible) {
  const EncodingChoice samples =
      ChooseEncoding(PlanOf(kCube, 1e-4), {.path = kSlowWorld, .threads = 2, .as_patches = false});
  EXPECT_EQ(SecondsOf(samples, AnswerEncoding::kPatches), -1);
  EXPECT_EQ(samples.encoding, AnswerEncoding::kCoded);
  const EncodingChoice patches =
      ChooseEncoding(PlanOf(kPlane, 1e-4), {.path = kSlowWorld, .threads = 2, .as_tiles = false});
  EXPECT_EQ(SecondsOf(patches, AnswerEncoding::kCoded), -1);
  EXPECT_NE(patches.encoding, AnswerEncoding::kCoded);

  ReadPlan near = PlanOf(kPlane, 1e-4);
  near.query.focus = {{0, 0, 0}};
  const EncodingChoice ordered = ChooseEncoding(near, {.path = kWorld, .threads = 2});
  EXPECT_EQ(SecondsOf(ordered, AnswerEncoding::kCoded), -1);
  EXPECT_EQ(ordered.encoding, AnswerEncoding::kSamples);
}

TEST(ChooseEncoding, ExpectsAnUnknownPathToBeSlowAtTimes) {
  // The same 1.25 GB/s, known and assumed: a quarter of unknown paths has an eighth of it.
  const ReadPlan plan = PlanOf(kCube, 1e-4);
  const auto seconds = [&](double rate) {
    return SecondsOf(ChooseEncoding(plan, {.path = {1e-3, rate, 2}, .threads = 2}), AnswerEncoding::kSamples);
  };
  EXPECT_NEAR(seconds(0), 0.75 * seconds(1.25e9) + 0.25 * seconds(1.25e9 / 8), 1e-9);
}

}  // namespace
}  // namespace quarry::query
