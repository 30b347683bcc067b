#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <random>
#include <set>

#include "quarry/query/choose_level.h"
#include "quarry/query/fetch.h"
#include "quarry/query/make_plan.h"
#include "quarry/query/plan_memory.h"
#include "quarry/query/references.h"
#include "tests/testing/make_dataset.h"

namespace quarry::query {
namespace {

struct PlanCase {
  format::PayloadOrder order;
  bool missing;
};

class PlanTest : public ::testing::TestWithParam<PlanCase> {
 protected:
  void SetUp() override {
    recipe_.order = GetParam().order;
    recipe_.missing = GetParam().missing;
    testing::MakeDataset(folder_.path() / "a.quarry", recipe_);
    dataset_ = *Dataset::Open(folder_.path() / "a.quarry");
  }

  testing::TemporaryFolder folder_;
  testing::DatasetRecipe recipe_;
  std::shared_ptr<const Dataset> dataset_;
};

TEST_P(PlanTest, TouchesExactlyThePatchesThatHoldSamplesOfTheAnswer) {
  std::mt19937 random(1);
  const PatchGrid grid = *PatchGrid::Create(recipe_.dims, recipe_.patch);
  for (int i = 0; i < 200; ++i) {
    const int level = static_cast<int>(random() % 4);
    ReadRequest request{.field = "pressure", .target = AtLevel{level}};
    Box box;
    for (std::size_t a = 0; a < 3; ++a) {
      box.begin[a] = static_cast<std::int64_t>(random()) % recipe_.dims[a];
      box.end[a] = box.begin[a] + 1 + static_cast<std::int64_t>(random()) % (recipe_.dims[a] - box.begin[a]);
    }
    request.box = box;
    const ReadPlan plan = *dataset_->Plan(request);

    std::set<std::uint64_t> expected;
    for (std::int64_t p = 0; p < grid.patch_count(); ++p) {
      if (!LevelBox(Intersect(grid.PatchBox(p), box), level).empty())
        expected.insert(static_cast<std::uint64_t>(p));
    }
    std::set<std::uint64_t> planned;
    std::int64_t samples = 0;
    for (const PlannedPatch& patch : plan.patches) {
      planned.insert(patch.entry.patch.patch_index);
      samples += Intersect(LevelBox(patch.samples, level), LevelBox(box, level)).volume();
    }
    EXPECT_EQ(planned, expected);
    EXPECT_EQ(samples, LevelBox(box, level).volume()) << "the patches' blocks fill the answer once";
    EXPECT_EQ(plan.cost.reply_bytes, static_cast<std::uint64_t>(samples) * sizeof(float));
    EXPECT_GE(plan.cost.bytes_read, plan.cost.bytes);
  }
}

TEST_P(PlanTest, SlicesPointAtTheirPayload) {
  const ReadPlan plan = *dataset_->Plan({.field = "pressure", .target = AtLevel{0}, .first_level = 3});
  std::uint64_t bytes = 0;
  for (const Pass& pass : MakePasses(plan)) {
    for (const Batch& batch : pass.batches) {
      std::vector<Piece> pieces;
      for (std::size_t i = batch.first_patch; i < batch.end(); ++i)
        pieces.push_back({i, pass.coarsest, pass.finest});
      const Fetch fetch = PlanFetch(plan, pieces, 0);
      for (std::size_t r = 1; r < fetch.ranges.size(); ++r) {
        const ByteRange& before = fetch.ranges[r - 1];
        EXPECT_TRUE(before.file < fetch.ranges[r].file ||
                    before.offset + before.size + plan.read_gap < fetch.ranges[r].offset);
      }
      const auto check = [&](const LocatedPatch& from, bool of_mask, int level, const Slice& slice) {
        const auto& entry = from.patch.levels[static_cast<std::size_t>(level)];
        if (entry.size == 0) return;
        const ByteRange& range = fetch.ranges[slice.range];
        EXPECT_EQ(range.file, (FileNumber{of_mask, from.subfile}));
        EXPECT_EQ(range.offset + slice.offset, entry.offset);
        EXPECT_LE(slice.offset + entry.size, range.size);
        bytes += entry.size;
      };
      for (std::size_t i = 0; i < batch.patch_count; ++i) {
        const PlannedPatch& patch = plan.patches[batch.first_patch + i];
        for (int level = pass.finest; level <= pass.coarsest; ++level) {
          check(patch.entry, false, level, fetch.Payload(i, level, 0));
          if (patch.mask) check(*patch.mask, true, level, fetch.Mask(i, level));
        }
      }
    }
  }
  EXPECT_EQ(bytes, plan.cost.bytes) << "every payload is needed in one pass only";
}

TEST_P(PlanTest, MasksAreReadOfThePatchesThatHaveMissingSamples) {
  const ReadPlan plan = *dataset_->Plan({.field = "pressure", .target = AtLevel{1}});
  std::uint64_t masked = 0;
  double valid = 0;
  double covered = 0;
  for (const PlannedPatch& patch : plan.patches) {
    const format::PatchEntry& row = patch.entry.patch;
    EXPECT_EQ(patch.mask != nullptr, static_cast<std::int64_t>(row.valid) < patch.samples.volume());
    if (patch.mask) {
      EXPECT_EQ(patch.mask->patch.patch_index, row.patch_index);
      ++masked;
    }
    valid += row.valid;
    covered += row.valid * static_cast<double>(row.levels[1].coverage);
  }
  EXPECT_EQ(masked > 0, GetParam().missing);
  EXPECT_DOUBLE_EQ(plan.levels[0].coverage, covered / valid);
  EXPECT_EQ(plan.levels[0].coverage < 1, GetParam().missing);
}

TEST_P(PlanTest, RefinementCostsAddUpToTheWholeRead) {
  const std::uint64_t at_once = dataset_->Plan({.field = "pressure", .target = AtLevel{0}})->cost.bytes;
  const ReadPlan progressive = *dataset_->Plan({.field = "pressure", .target = AtLevel{0}, .first_level = 3});
  EXPECT_EQ(progressive.cost.bytes, at_once) << "coarse to fine reads nothing twice";
  std::uint64_t sum = 0;
  for (const LevelExtent& level : progressive.levels) sum += level.bytes;
  EXPECT_EQ(sum, at_once);
}

TEST_P(PlanTest, ALargestErrorIsKeptByTheCoarsestLevelThatCan) {
  const int levels = dataset_->description().grids[0].levels;
  std::mt19937 random(2);
  std::set<int> chosen;
  for (int i = 0; i < 200; ++i) {
    Box box;
    for (std::size_t a = 0; a < 3; ++a) {
      box.begin[a] = static_cast<std::int64_t>(random()) % recipe_.dims[a];
      box.end[a] = box.begin[a] + 1 + static_cast<std::int64_t>(random()) % (recipe_.dims[a] - box.begin[a]);
    }
    const double error = std::pow(10.0, -5.0 + static_cast<double>(random() % 600) / 100);
    const auto plan = dataset_->Plan({.field = "pressure", .box = box, .target = WithinError{error}});
    // Level 0 needs every patch, so its plan has all records.
    const ReadPlan all = *dataset_->Plan({.field = "pressure", .box = box, .target = AtLevel{0}});
    int expected = levels - 1;
    for (; expected >= 0; --expected) {
      bool keeps = true;
      for (const PlannedPatch& patch : all.patches) {
        const format::LevelEntry& record = patch.entry.patch.levels[static_cast<std::size_t>(expected)];
        keeps = keeps && record.max_error <= error && record.coverage == 1 &&
                !LevelBox(Intersect(box, patch.samples), expected).empty();
      }
      if (keeps) break;
    }

    if (expected < 0) {
      ASSERT_EQ(plan.status().code(), StatusCode::kNotFound);
      EXPECT_NE(plan.status().message().find(fmt::format("{}", all.levels[0].max_error)), std::string::npos)
          << plan.status().message();
      continue;
    }
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    EXPECT_EQ(plan->query.level, expected);
    EXPECT_EQ(plan->levels.size(), 1u);
    EXPECT_EQ(plan->levels[0].level, expected);
    EXPECT_LE(plan->levels[0].max_error, error);
    EXPECT_EQ(plan->levels[0].coverage, 1);
    chosen.insert(expected);

    const ReadPlan progressive = *dataset_->Plan(
        {.field = "pressure", .box = box, .target = WithinError{error}, .first_level = levels - 1});
    EXPECT_EQ(progressive.levels.size(), static_cast<std::size_t>(levels - expected));
    EXPECT_EQ(progressive.levels.back().level, expected);
  }
  EXPECT_GT(chosen.size(), 2u);
}

TEST_P(PlanTest, AFirstLevelFinerThanTheOneThatKeepsTheErrorIsLeftOut) {
  const auto plan = dataset_->Plan({.field = "pressure", .target = WithinError{1e9}, .first_level = 0});
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->levels.size(), 1u);
  EXPECT_EQ(plan->query.first_level, plan->query.level);
}

INSTANTIATE_TEST_SUITE_P(Orders, PlanTest,
                         ::testing::Values(PlanCase{format::PayloadOrder::kPatch, false},
                                           PlanCase{format::PayloadOrder::kLevel, false},
                                           PlanCase{format::PayloadOrder::kCoarse, false},
                                           PlanCase{format::PayloadOrder::kPatch, true},
                                           PlanCase{format::PayloadOrder::kLevel, true},
                                           PlanCase{format::PayloadOrder::kCoarse, true}),
                         [](const auto& test) {
                           return std::string(format::NameOf(test.param.order)) +
                                  (test.param.missing ? "_missing" : "");
                         });

/// The tables of a dataset with a mask that is not the field's.
class OtherMask final : public PatchLocator {
 public:
  OtherMask(const PatchLocator& tables, std::function<void(std::vector<LocatedPatch>*)> change)
      : tables_(tables), change_(std::move(change)) {}
  Result<std::vector<LocatedPatch>> Find(std::uint64_t step, std::size_t field,
                                         const PatchRange& range) const override {
    return tables_.Find(step, field, range);
  }
  Result<std::vector<LocatedPatch>> FindMask(std::uint64_t step, std::size_t field,
                                             const PatchRange& range) const override {
    auto mask = tables_.FindMask(step, field, range);
    change_(&*mask);
    return mask;
  }

 private:
  const PatchLocator& tables_;
  const std::function<void(std::vector<LocatedPatch>*)> change_;
};

TEST(Plan, AMaskThatDoesNotFitTheFieldIsDamage) {
  testing::TemporaryFolder folder;
  testing::MakeDataset(folder.path() / "a.quarry", {.missing = true});
  const auto dataset = *Dataset::Open(folder.path() / "a.quarry");
  const ReadRequest request{.field = "pressure"};
  const auto code_with = [&](std::function<void(std::vector<LocatedPatch>*)> change) {
    const OtherMask locator(dataset->tables(), std::move(change));
    return dataset->Plan(request, &locator).status().code();
  };

  EXPECT_EQ(code_with([](std::vector<LocatedPatch>*) {}), StatusCode::kOk);
  EXPECT_EQ(code_with([](std::vector<LocatedPatch>* mask) { mask->clear(); }), StatusCode::kDataLoss);
  EXPECT_EQ(code_with([](std::vector<LocatedPatch>* mask) { mask->pop_back(); }), StatusCode::kDataLoss);
  EXPECT_EQ(code_with([](std::vector<LocatedPatch>* mask) {
              for (format::LevelEntry& level : (*mask)[3].patch.levels) level.size = 0;
            }),
            StatusCode::kDataLoss)
      << "missing samples, but no mask payload";
}

/// An unregistered coder, of which only the levels matter.
class UnknownCoder final : public PatchCoder {
 public:
  explicit UnknownCoder(bool bounds_every_level) { traits_.bounds_every_level = bounds_every_level; }
  const CoderTraits& traits() const override { return traits_; }
  bool Supports(DataType) const override { return true; }
  std::unique_ptr<PatchDecoder> NewPlainDecoder(const PatchLayout&) const override { return nullptr; }

 protected:
  Result<CodedPatch> EncodeChecked(const EncodeRequest&) const override {
    return InvalidArgument("codes nothing");
  }

 private:
  CoderTraits traits_{.id = static_cast<CoderId>(200), .name = "unknown to all"};
};

TEST(LevelForStride, AsksTheCoderWhetherCoarseLevelsAreSamplesOfTheField) {
  DatasetDescription dataset;
  dataset.grids[0].dims = {64, 64, 1};
  dataset.grids[0].levels = 4;

  EXPECT_EQ(LevelForStride(dataset.grids[0], UnknownCoder(true), {4, 8, 1}), 2);
  EXPECT_EQ(LevelForStride(dataset.grids[0], UnknownCoder(false), {4, 8, 1}), 0);
}

/// A question of any size is planned in the memory of a run.
TEST(Plan, MemoryOfAPlanInRunsDoesNotGrowWithItsPatches) {
  DatasetDescription dataset;
  dataset.grids[0].patch = {8, 8, 8};
  dataset.grids[0].levels = 4;
  dataset.fields.resize(1);
  Query query;
  query.run_patches = 4096;
  const auto memory = [&](std::int64_t side) {
    dataset.grids[0].dims = {side, side, side};
    query.box = dataset.grids[0].domain();
    return PlanningMemory(dataset, query);
  };
  const std::uint64_t one_run = memory(16 * 8);
  EXPECT_LT(memory(100 * 8), 2 * one_run) << "10^6 patches";
  query.focus = {0, 0, 0};
  query.values = {0, 1};
  query.mask = 1;
  EXPECT_LT(memory(100 * 8), 6 * one_run) << "by distance, and a part of them";
  query.only_patches = std::make_shared<PatchList>(PatchList{8 * 10'000, {}});
  EXPECT_LT(memory(100 * 8), 8 * one_run) << "of points";
}

TEST(Plan, WholeDomainPreviewOfLevelOrderIsOneReadPerSubfile) {
  testing::TemporaryFolder folder;
  testing::MakeDataset(folder.path() / "a.quarry",
                       {.dims = {64, 64, 64}, .order = format::PayloadOrder::kLevel});
  const auto dataset = *Dataset::Open(folder.path() / "a.quarry");
  const ReadPlan plan = *dataset->Plan({.field = "pressure", .target = AtLevel{2}});

  EXPECT_EQ(plan.cost.reads, 3u);
  EXPECT_EQ(plan.cost.bytes_read, plan.cost.bytes);
}

/// A series of one field in two patches along x; each has ten bytes of payload at each step.
class ReferencesTest : public ::testing::Test, public PatchLocator {
 protected:
  ReferencesTest() {
    dataset_.grids[0].dims = {16, 8, 8};
    dataset_.grids[0].patch = {8, 8, 8};
    dataset_.grids[0].levels = 1;
    FieldDescription field;
    field.name = "p";
    field.coder = CoderId::kInterpolate;
    field.keyframe = 4;
    dataset_.fields = {field};
  }

  Result<std::vector<LocatedPatch>> Find(std::uint64_t step, std::size_t /*field*/,
                                         const PatchRange& range) const override {
    const Box& positions = range.positions;
    located_.push_back(step);
    std::vector<LocatedPatch> rows;
    for (std::int64_t p = positions.begin[0]; p < positions.end[0]; ++p) {
      const std::uint64_t code = MortonEncode({p, 0, 0});
      if (code < range.codes.begin || code >= range.codes.end) continue;
      LocatedPatch row;
      row.patch.patch_index = static_cast<std::uint64_t>(p);
      row.patch.valid = 512;
      row.patch.refers = referring_.contains({step, p});
      row.patch.levels = {
          {200 + 10 * static_cast<std::uint64_t>(p), 10, 0, 100 * step + row.patch.patch_index, 0, 1}};
      rows.push_back(row);
    }
    return rows;
  }
  Result<std::vector<LocatedPatch>> FindMask(std::uint64_t, std::size_t, const PatchRange&) const override {
    return std::vector<LocatedPatch>();
  }

  Result<std::vector<ReferenceStep>> FindSteps(std::uint64_t of) const {
    std::vector<ReferenceStep> found;
    const auto steps = references_.find(of);
    if (steps == references_.end()) return found;
    for (const std::uint64_t other : steps->second) found.push_back({other, 0});
    return found;
  }
  FindReferences find() const {
    return [this](std::uint64_t of) { return FindSteps(of); };
  }

  Result<ReadPlan> Plan(std::uint64_t step, const Box& box = {{0, 0, 0}, {16, 8, 8}},
                        std::size_t run_patches = 0) const {
    Query query;
    query.step = step;
    query.box = box;
    query.run_patches = run_patches;
    located_.clear();
    return MakePlan(dataset_, *this, find(), query, /*read_gap=*/0);
  }

  static std::vector<std::uint64_t> StepsOf(const ReadPlan& plan, const PlannedPatch& patch) {
    std::vector<std::uint64_t> steps;
    for (const ReferredPatch& reference : patch.references)
      steps.push_back(plan.references.steps[reference.step].step);
    return steps;
  }

  DatasetDescription dataset_;
  std::map<std::uint64_t, std::vector<std::uint64_t>> references_;
  std::set<std::pair<std::uint64_t, std::int64_t>> referring_;  ///< step, patch
  mutable std::vector<std::uint64_t> located_;
};

TEST_F(ReferencesTest, APatchHasWhatItNeedsInTheOrderOfDecoding) {
  references_ = {{2, {0, 4}}, {1, {0, 2}}};
  referring_ = {{1, 0}, {2, 0}, {1, 1}};  // the second patch of step 2 is on its own
  const ReadPlan plan = *Plan(1);
  ASSERT_EQ(plan.patches.size(), 2u);
  EXPECT_EQ(StepsOf(plan, plan.patches[0]), (std::vector<std::uint64_t>{0, 4, 2}));
  EXPECT_EQ(GraphOf(plan, plan.patches[0]), (ReferenceGraph{{}, {}, {0, 1}, {0, 2}}));
  EXPECT_EQ(StepsOf(plan, plan.patches[1]), (std::vector<std::uint64_t>{0, 2}));
  EXPECT_EQ(GraphOf(plan, plan.patches[1]), (ReferenceGraph{{}, {}, {0, 1}}));
  EXPECT_EQ(plan.cost.bytes, 10u * (4 + 3));
  EXPECT_EQ(plan.cost.reads, 4u) << "neighbours in a file are one read";
}

TEST_F(ReferencesTest, APatchOnItsOwnNeedsNothing) {
  references_ = {{1, {0}}};
  referring_ = {{1, 1}};
  const ReadPlan alone = *Plan(1, {{0, 0, 0}, {8, 8, 8}});
  EXPECT_TRUE(alone.patches[0].references.empty());
  EXPECT_TRUE(GraphOf(alone, alone.patches[0]).empty());
  EXPECT_EQ(located_, std::vector<std::uint64_t>{1}) << "no other step is looked at";
  EXPECT_EQ(alone.cost.bytes, 10u);
  EXPECT_NE(Fingerprint(*Plan(1)), Fingerprint(alone));
}

TEST_F(ReferencesTest, TheFingerprintIsThatOfAllSteps) {
  references_ = {{1, {0}}};
  referring_ = {{1, 0}};
  const std::uint64_t of_zero = Fingerprint(*Plan(1));
  references_ = {{1, {3}}};
  EXPECT_NE(Fingerprint(*Plan(1)), of_zero);
}

TEST_F(ReferencesTest, EachRunHasItsOwn) {
  references_ = {{2, {0, 4}}, {1, {0, 2}}};
  referring_ = {{1, 0}, {2, 0}};
  const ReadPlan whole = *Plan(1);
  const ReadPlan plan = *Plan(1, whole.query.box, /*run_patches=*/1);
  ASSERT_EQ(plan.runs.size(), 2u);
  EXPECT_TRUE(plan.patches.empty());
  EXPECT_FALSE(plan.references.steps.empty()) << "some patch refers";
  EXPECT_EQ(plan.cost.bytes, whole.cost.bytes);
  EXPECT_EQ(Fingerprint(plan), Fingerprint(whole));
  const ReadPlan first = *PlanRun(dataset_, *this, find(), plan, plan.runs[0]);
  const ReadPlan second = *PlanRun(dataset_, *this, find(), plan, plan.runs[1]);
  EXPECT_EQ(StepsOf(first, first.patches.at(0)), (std::vector<std::uint64_t>{0, 4, 2}));
  EXPECT_EQ(GraphOf(first, first.patches[0]), (ReferenceGraph{{}, {}, {0, 1}, {0, 2}}));
  EXPECT_TRUE(second.patches.at(0).references.empty());
  EXPECT_LE(PlanMemory(first), plan.run_memory);
}

TEST_F(ReferencesTest, ReferencesThatDoNotEndAreDamage) {
  const auto refuses = [&](std::uint64_t step) {
    return Plan(step).status().code() == StatusCode::kDataLoss;
  };
  referring_ = {{1, 0}};
  EXPECT_TRUE(refuses(1)) << "no step to refer to";
  references_ = {{1, {1}}};
  EXPECT_TRUE(refuses(1)) << "itself";
  references_ = {{1, {2}}, {2, {1}}};
  EXPECT_TRUE(refuses(1)) << "in a circle";
  references_ = {{5, {4}}, {4, {3}}, {3, {2}}, {2, {1}}, {1, {0}}};
  for (std::uint64_t step = 1; step <= 5; ++step) referring_.insert({step, 0});
  EXPECT_FALSE(refuses(4)) << "four others are allowed";
  EXPECT_TRUE(refuses(5)) << "five are not";
  dataset_.fields[0].keyframe = 0;
  EXPECT_TRUE(refuses(1)) << "the field has no keyframes";
}

/// One patch in two layers and two levels, of which samples are missing.
class MaskedLayersTest : public ::testing::Test, public PatchLocator {
 protected:
  MaskedLayersTest() {
    dataset_.grids[0].dims = {8, 8, 8};
    dataset_.grids[0].patch = {8, 8, 8};
    dataset_.grids[0].levels = 2;
    FieldDescription field;
    field.name = "p";
    field.rougher = {1e-1};
    dataset_.fields = {field};
  }

  Result<std::vector<LocatedPatch>> Find(std::uint64_t, std::size_t, const PatchRange&) const override {
    const PatchParts parts{2, 2};
    LocatedPatch patch;
    patch.patch.valid = masked_ ? 500 : 512;
    patch.patch.levels.resize(4);
    const auto set = [&](int level, int layer, std::uint32_t size, double error) {
      format::LevelEntry& row = patch.patch.levels[parts.Of(layer, level)];
      row.size = size;
      row.max_error = error;
    };
    set(1, 0, 10, 0.9);
    set(0, 0, 100, 0.1);
    set(1, 1, 105, 0.4);
    set(0, 1, 30, 0.01);
    return std::vector<LocatedPatch>{patch};
  }
  Result<std::vector<LocatedPatch>> FindMask(std::uint64_t, std::size_t, const PatchRange&) const override {
    LocatedPatch mask;
    mask.patch.levels.resize(2);
    mask.patch.levels[1].size = 5;
    mask.patch.levels[0].size = 20;
    return std::vector<LocatedPatch>{mask};
  }

  ReadPlan Within(double max_error) const {
    Query query;
    query.box = {{0, 0, 0}, {8, 8, 8}};
    query.mask = masked_ ? 1 : 0;
    query.layer = 1;
    query.first_layer = 1;
    query.any_layer = true;
    query.target = WithinError{max_error};
    const auto find = [](std::uint64_t) -> Result<std::vector<ReferenceStep>> {
      return std::vector<ReferenceStep>();
    };
    return *MakePlan(dataset_, *this, find, query, /*read_gap=*/0);
  }

  DatasetDescription dataset_;
  bool masked_ = true;
};

/// Level 0 of the first layer takes 110 bytes, level 1 of both layers 115; with the mask 135 and 120.
TEST_F(MaskedLayersTest, TheMaskIsPartOfWhatAnErrorCosts) {
  const ReadPlan masked = Within(0.4);
  EXPECT_EQ((LevelChoice{masked.query.level, masked.query.layer}), (LevelChoice{1, 1}));
  EXPECT_EQ(masked.cost.bytes, 120u);

  masked_ = false;
  const ReadPlan whole = Within(0.4);
  EXPECT_EQ((LevelChoice{whole.query.level, whole.query.layer}), (LevelChoice{0, 0}));
  EXPECT_EQ(whole.cost.bytes, 110u);
}

}  // namespace
}  // namespace quarry::query
