// Reads that share an engine: what is decoded only once, how much memory they take, and who waits for whom.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <functional>
#include <future>
#include <latch>

#include "quarry/dataset/array_filling.h"
#include "quarry/dataset/patch_keys.h"
#include "quarry/dataset/read_samples.h"
#include "quarry/query/plan_memory.h"
#include "tests/testing/make_dataset.h"

namespace quarry {
namespace {

const auto kNever = [] { return false; };

/// Puts the blocks of the finest level together.
class Collector : public BlockSink {
 public:
  explicit Collector(const query::ReadPlan& plan)
      : extent_(plan.levels.back().extent),
        level_(plan.levels.back().level),
        samples(static_cast<std::size_t>(extent_.volume()), -1) {}

  Status Deliver(const SampleBlock& block) override {
    const auto& [level, extent, bytes, owner, patch, planned, shown] = block;
    ++blocks;
    if (on_block) on_block();
    if (level != level_) return Status::Ok();
    const Index3 shape = extent.shape();
    const Index3 whole = extent_.shape();
    const auto* from = reinterpret_cast<const float*>(bytes.data());
    for (std::int64_t z = 0; z < shape[2]; ++z) {
      for (std::int64_t y = 0; y < shape[1]; ++y) {
        const std::int64_t row =
            (extent.begin[2] - extent_.begin[2] + z) * whole[1] + (extent.begin[1] - extent_.begin[1] + y);
        std::copy_n(from, shape[0], samples.begin() + row * whole[0] + extent.begin[0] - extent_.begin[0]);
        from += shape[0];
      }
    }
    return Status::Ok();
  }
  Status LevelEnd(const query::LevelExtent&) override { return Status::Ok(); }

 private:
  const Box extent_;
  const int level_;

 public:
  std::vector<float> samples;
  int blocks = 0;
  std::function<void()> on_block;
};

class ReaderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::MakeDataset(folder_.path() / "a.quarry", recipe_);
    dataset_ = *Dataset::Open(folder_.path() / "a.quarry");
    whole_ = *dataset_->Plan({.field = "pressure"});
    expected_ = testing::ReadAll(*dataset_, {.field = "pressure"});
  }

  std::vector<float> Read(ReadEngine* engine, const query::ReadRequest& request) const {
    const query::ReadPlan plan = *dataset_->Plan(request);
    Collector collector(plan);
    const Status status = ExecuteRead(*dataset_, plan, engine, kNever, &collector);
    EXPECT_TRUE(status.ok()) << status.message();
    return collector.samples;
  }

  /// Memory pinned by one read of everything.
  std::uint64_t Pinned() const { return query::DeliveryMemory(whole_); }

  testing::TemporaryFolder folder_;
  testing::DatasetRecipe recipe_;
  std::shared_ptr<const Dataset> dataset_;
  query::ReadPlan whole_;
  std::vector<float> expected_;
};

TEST_F(ReaderTest, WhatWasDecodedIsNotDecodedAgain) {
  ReadEngine engine(std::uint64_t{64} << 20, 2);
  EXPECT_EQ(Read(&engine, {.field = "pressure"}), expected_);
  const PatchStore::State first = engine.store->state();
  EXPECT_EQ(first.misses, whole_.patches.size());
  EXPECT_EQ(Read(&engine, {.field = "pressure"}), expected_);
  EXPECT_EQ(engine.store->state().misses, first.misses);
  EXPECT_EQ(engine.store->state().pinned, 0u);
}

TEST_F(ReaderTest, AFinerLevelGoesOnFromTheCoarserOneThatIsThere) {
  ReadEngine engine(std::uint64_t{64} << 20, 2);
  Read(&engine, {.field = "pressure", .target = query::AtLevel{2}});
  // The coarse payload is no longer needed: damaged bytes in it do no harm.
  const query::ReadPlan plan = *dataset_->Plan({.field = "pressure"});
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_.path())) {
    if (entry.path().extension() != ".qsf") continue;
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    for (const query::PlannedPatch& patch : plan.patches) {
      if (fmt::format("{:04}", patch.entry.subfile) != entry.path().stem()) continue;
      for (std::size_t level = 2; level < patch.entry.patch.levels.size(); ++level) {
        const format::LevelEntry& payload = patch.entry.patch.levels[level];
        file.seekp(static_cast<std::streamoff>(payload.offset));
        for (std::uint64_t i = 0; i < payload.size; ++i) file.put('\x55');
      }
    }
  }
  EXPECT_EQ(Read(&engine, {.field = "pressure"}), expected_);
  ReadEngine cold(std::uint64_t{64} << 20, 2);
  Collector collector(plan);
  EXPECT_EQ(ExecuteRead(*dataset_, plan, &cold, kNever, &collector).code(), StatusCode::kDataLoss)
      << "without it they are noticed, and no level is whole";
}

TEST_F(ReaderTest, ReadsAtTheSameTimeDecodeEachPatchOnce) {
  ReadEngine engine(std::uint64_t{256} << 20, 2);
  std::vector<std::future<std::vector<float>>> reads;
  reads.reserve(8);
  for (int i = 0; i < 8; ++i)
    reads.push_back(std::async(std::launch::async, [&] { return Read(&engine, {.field = "pressure"}); }));
  for (auto& read : reads) EXPECT_EQ(read.get(), expected_);
  EXPECT_EQ(engine.store->state().misses, whole_.patches.size());
}

TEST_F(ReaderTest, LittleMemoryCostsTimeAndNothingElse) {
  // Room for two reads of one patch each and their decoding: everything else must be evicted.
  ReadEngine engine(6 * Pinned(), 2);
  std::vector<std::future<std::vector<float>>> reads;
  reads.reserve(8);
  for (int i = 0; i < 8; ++i) {
    reads.push_back(std::async(std::launch::async,
                               [&] { return Read(&engine, {.field = "pressure", .first_level = 3}); }));
  }
  for (auto& read : reads) EXPECT_EQ(read.get(), expected_);
  const PatchStore::State state = engine.store->state();
  EXPECT_GT(state.evictions, 0u);
  EXPECT_LE(state.stored, 6 * Pinned());
  EXPECT_EQ(state.pinned + state.reads + state.waiting, 0u);
}

TEST_F(ReaderTest, AnAnswerThatDoesNotFitBeginsWithWhatIsStored) {
  testing::MakeDataset(folder_.path() / "large.quarry", {.dims = {256, 64, 64}, .patch = {16, 16, 16}});
  const auto dataset = *Dataset::Open(folder_.path() / "large.quarry");
  const std::vector<float> expected = testing::ReadAll(*dataset, {.field = "pressure"});
  const query::ReadPlan in_order = *dataset->Plan({.field = "pressure"});
  const auto patches = in_order.patches.size();
  ASSERT_EQ(patches, 256u);
  const auto decoded = [&](ReadEngine* engine, const query::ReadPlan& plan) {
    const std::uint64_t before = engine->store->state().misses;
    Collector collector(plan);
    EXPECT_TRUE(ExecuteRead(*dataset, plan, engine, kNever, &collector).ok());
    EXPECT_EQ(collector.samples, expected);
    return engine->store->state().misses - before;
  };

  ReadEngine engine(2 << 20, 1);  // half of the samples
  EXPECT_EQ(BestStart(*dataset, in_order, engine.store.get(), kNever), 0u) << "nothing is stored";
  EXPECT_EQ(decoded(&engine, in_order), patches) << "what is decoded ahead stays until its turn";
  EXPECT_EQ(decoded(&engine, in_order), patches) << "each makes room shortly before its turn";
  const std::size_t start = BestStart(*dataset, in_order, engine.store.get(), kNever);
  EXPECT_GT(start, 0u);
  query::ReadPlan best = in_order;
  query::BeginWith(start, &best);
  EXPECT_NE(query::Fingerprint(best), query::Fingerprint(in_order)) << "it is another answer";
  EXPECT_LE(decoded(&engine, best), patches * 3 / 4);

  // The patches at the begin of an answer stay longest: a patch that is missing there must not push out the
  // one after it.
  const std::size_t next = BestStart(*dataset, in_order, engine.store.get(), kNever);
  const PatchKeys keys(*dataset, in_order);
  std::vector<PatchKey> stored;
  for (std::size_t i = 0; i < patches / 4; ++i) {
    const PatchKey key = keys.Of(in_order.patches[(next + i) % patches], {0, 0}).front();
    if (engine.store->Has(std::array{key}).front()) stored.push_back(key);
  }
  ASSERT_GT(stored.size(), patches / 8);
  const auto memory = *engine.store->Reserve(engine.store->MostReserved(), kNever);
  std::vector<bool> left = engine.store->Has(stored);
  EXPECT_TRUE(left.front());
  EXPECT_TRUE(std::ranges::is_sorted(left, std::greater())) << "the last of them go first";

  ReadEngine plenty(std::uint64_t{64} << 20, 1);
  const query::ReadPlan half = *dataset->Plan({.field = "pressure", .box = Box{{128, 0, 0}, {256, 64, 64}}});
  Collector collector(half);
  ASSERT_TRUE(ExecuteRead(*dataset, half, &plenty, kNever, &collector).ok());
  EXPECT_EQ(BestStart(*dataset, in_order, plenty.store.get(), kNever), 0u) << "all of it fits";
}

TEST_F(ReaderTest, AClientThatDoesNotTakeItsBlocksHoldsUpNobodyElse) {
  ReadEngine engine(8 * Pinned(), 2);
  std::latch stalled(3), go(1);
  std::vector<std::future<std::vector<float>>> slow;
  slow.reserve(3);
  for (int i = 0; i < 3; ++i) {
    slow.push_back(std::async(std::launch::async, [&] {
      Collector collector(whole_);
      collector.on_block = [&] {
        if (collector.blocks != 2) return;
        stalled.count_down();
        go.wait();
      };
      EXPECT_TRUE(ExecuteRead(*dataset_, whole_, &engine, kNever, &collector).ok());
      return collector.samples;
    }));
  }
  stalled.wait();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Read(&engine, {.field = "pressure"}), expected_);
  go.count_down();
  for (auto& read : slow) EXPECT_EQ(read.get(), expected_);
}

TEST_F(ReaderTest, TheTasksOfAReadAreThoseOfItsClient) {
  testing::MakeDataset(folder_.path() / "six.quarry", {.dims = {48, 32, 16}, .patch = {16, 16, 16}});
  const auto dataset = *Dataset::Open(folder_.path() / "six.quarry");
  const query::ReadPlan plan = *dataset->Plan({.field = "pressure"});
  ReadEngine engine(std::uint64_t{64} << 20, 1);
  const std::uint64_t before = engine.store->state().patches;
  std::latch taken(1), go(1);
  engine.pool.Submit({}, [&] {
    taken.count_down();
    go.wait();
  });
  taken.wait();
  Collector collector(plan);
  auto read = std::async(std::launch::async, [&] {
    return ExecuteRead(*dataset, plan, &engine, Requester(kNever, 1), &collector);
  });
  while (engine.pool.waiting() < plan.patches.size()) std::this_thread::yield();
  // Behind all tasks of the same client, and in turns with those of another.
  std::promise<std::uint64_t> decoded_before_same, decoded_before_other;
  const auto submit = [&](std::uint64_t client, std::promise<std::uint64_t>* decoded) {
    engine.pool.Submit({-100, 0, client, 1},
                       [&engine, decoded] { decoded->set_value(engine.store->state().patches); });
  };
  submit(1, &decoded_before_same);
  submit(2, &decoded_before_other);
  go.count_down();

  EXPECT_TRUE(read.get().ok());
  EXPECT_EQ(decoded_before_same.get_future().get() - before, plan.patches.size());
  EXPECT_EQ(decoded_before_other.get_future().get() - before, 1u);
}

TEST_F(ReaderTest, ACancelledReadLeavesNothingBehind) {
  ReadEngine engine(std::uint64_t{64} << 20, 1);
  for (int after : {0, 1, 3}) {
    Collector collector(whole_);
    const Status status = ExecuteRead(
        *dataset_, whole_, &engine, [&] { return collector.blocks >= after; }, &collector);
    EXPECT_EQ(status.code(), StatusCode::kCancelled);
    EXPECT_EQ(engine.store->state().pinned, 0u);
  }
  EXPECT_EQ(Read(&engine, {.field = "pressure"}), expected_);
}

TEST_F(ReaderTest, ReadsThatAreGivenUpDoNotHarmThoseThatWaitForTheirPatches) {
  for (int round = 0; round < 20; ++round) {
    ReadEngine engine(std::uint64_t{64} << 20, 1);
    auto cancelled = std::async(std::launch::async, [&] {
      Collector collector(whole_);
      return ExecuteRead(
          *dataset_, whole_, &engine, [&] { return collector.blocks >= round % 4; }, &collector);
    });
    EXPECT_EQ(Read(&engine, {.field = "pressure"}), expected_);
    EXPECT_EQ(cancelled.get().code(), StatusCode::kCancelled);
  }
}

TEST(ArrayFillingTest, WhatOneDoesNotFinishAnotherWrites) {
  std::vector<float> samples(8, -1);
  const SampleArray array{std::as_writable_bytes(std::span(samples)).data(), {{0, 0, 0}, {8, 1, 1}}, 4};
  ArrayFilling filling(array, 0, 2, true);
  ArrayFilling::Turn first = filling.TryTake(0);
  ASSERT_TRUE(first);
  EXPECT_FALSE(filling.TryTake(0)) << "one at a time";
  ASSERT_TRUE(first.BeginWriting());
  samples[0] = 1;  // damage is found behind it
  first.Release();
  EXPECT_FALSE(filling.AwaitPatch(0, kNever));

  ArrayFilling::Turn second = filling.TryTake(0);
  ASSERT_TRUE(second.BeginWriting());
  second.Done();
  EXPECT_TRUE(filling.AwaitPatch(0, kNever));
  EXPECT_FALSE(filling.TryTake(0)) << "it is there";

  ArrayFilling::Turn late = filling.TryTake(1);
  filling.Stop();
  EXPECT_FALSE(late.BeginWriting()) << "the array has gone";
}

/// Has an array for each level, and keeps that of the last one.
class ArrayCollector : public BlockSink {
 public:
  Result<std::optional<SampleArray>> ArrayFor(const query::LevelExtent& level) override {
    extent = level.extent;
    samples.assign(static_cast<std::size_t>(extent.volume()), -1);
    return std::optional(
        SampleArray{std::as_writable_bytes(std::span(samples)).data(), extent, sizeof(float)});
  }
  Status Deliver(const SampleBlock&) override { return InternalError("there is an array"); }
  Status Filled(int, const Box& part, const query::LevelChoice& shown) override {
    filled.emplace_back(part, shown.level);
    if (on_filled) on_filled();
    return Status::Ok();
  }
  Status LevelEnd(const query::LevelExtent&) override { return Status::Ok(); }
  void Damaged(const Status& what) override { damage.push_back(what); }

  Box extent;
  std::vector<float> samples;
  std::vector<std::pair<Box, int>> filled;  ///< and the level that is shown there
  std::vector<Status> damage;
  std::function<void()> on_filled;
};

/// A dataset of a coder that decodes into arrays, and reads of it.
class ArrayReadTest : public ::testing::Test {
 protected:
  /// Less than a read of everything: whole patches go past the store.
  static constexpr std::uint64_t kLittle = 320 << 10;
  static constexpr std::uint64_t kMuch = std::uint64_t{64} << 20;

  void Make(testing::DatasetRecipe recipe) {
    recipe.coder = CoderId::kInterpolate;
    testing::MakeDataset(path_, recipe);
    dataset_ = *Dataset::Open(path_);
  }

  Status Read(ReadEngine* engine, const query::ReadRequest& request, ArrayCollector* sink) const {
    const query::ReadPlan plan = *dataset_->Plan(request);
    return ExecuteRead(*dataset_, plan, engine, kNever, sink);
  }

  void ExpectAsDelivered(ReadEngine* engine, const query::ReadRequest& request) const {
    ArrayCollector sink;
    const Status status = Read(engine, request, &sink);
    ASSERT_TRUE(status.ok()) << status.message();
    const std::vector<float> expected = testing::ReadAll(*dataset_, request);
    ASSERT_EQ(sink.samples.size(), expected.size());
    EXPECT_EQ(std::memcmp(sink.samples.data(), expected.data(), expected.size() * sizeof(float)), 0);
    std::int64_t filled = 0;
    for (const auto& [part, shown_level] : sink.filled) filled += part.volume();
    EXPECT_GE(filled, sink.extent.volume()) << "every block is announced";
  }

  /// Flips a byte of the payload of the first patch at a level.
  void Damage(std::size_t level) const {
    const auto rows = *dataset_->tables().Find(0, 0, Box{{0, 0, 0}, {1, 1, 1}});
    const auto path = SubfileLocation(path_, 0, "pressure", rows[0].subfile).path;
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    const auto offset = static_cast<std::streamoff>(rows[0].patch.levels[level].offset);
    file.seekg(offset);
    const char byte = static_cast<char>(file.get() ^ 1);
    file.seekp(offset);
    file.put(byte);
  }

  testing::TemporaryFolder folder_;
  const std::filesystem::path path_ = folder_.path() / "a.quarry";
  std::shared_ptr<const Dataset> dataset_;
};

TEST_F(ArrayReadTest, GivesTheSamplesThatBlocksHave) {
  for (const bool missing : {false, true}) {
    std::filesystem::remove_all(path_);
    Make({.dims = {61, 50, 40}, .patch = {16, 16, 16}, .missing = missing});
    for (const std::uint64_t memory : {kLittle, kMuch}) {
      ReadEngine engine(memory, 2);
      for (int again = 0; again < 2; ++again) {
        ExpectAsDelivered(&engine, {.field = "pressure"});
        ExpectAsDelivered(&engine, {.field = "pressure", .box = Box{{3, 16, 5}, {60, 47, 38}}});
        ExpectAsDelivered(&engine, {.field = "pressure", .first_level = 3});
        ExpectAsDelivered(&engine, {.field = "pressure", .target = query::AtStride{{3, 2, 5}}});
      }
      EXPECT_EQ(engine.store->state().reserved + engine.store->state().pinned, 0u);
    }
  }
}

TEST_F(ArrayReadTest, WholePatchesOfALargeReadGoPastTheStore) {
  Make({.dims = {64, 48, 32}, .patch = {16, 16, 16}});
  ReadEngine engine(kLittle, 2);
  const std::uint64_t before = engine.store->state().patches;
  ExpectAsDelivered(&engine, {.field = "pressure"});
  EXPECT_EQ(engine.store->state().patches, before);
  EXPECT_EQ(engine.store->state().evictions, 0u);

  ReadEngine large(kMuch, 2);
  ExpectAsDelivered(&large, {.field = "pressure"});
  const std::uint64_t misses = large.store->state().misses;
  EXPECT_EQ(misses, dataset_->Plan({.field = "pressure"})->patches.size());
  ExpectAsDelivered(&large, {.field = "pressure"});
  EXPECT_EQ(large.store->state().misses, misses) << "a smaller one keeps them";
}

TEST_F(ArrayReadTest, ShowsACoarserLevelWherePayloadIsDamaged) {
  for (const std::uint64_t memory : {kLittle, kMuch}) {
    std::filesystem::remove_all(path_);
    Make({.dims = {64, 48, 32}, .patch = {16, 16, 16}});
    Damage(0);
    ReadEngine engine(memory, 2);
    ArrayCollector refused;
    const Status status = Read(&engine, {.field = "pressure"}, &refused);
    EXPECT_EQ(status.code(), StatusCode::kDataLoss);
    EXPECT_NE(status.message().find("level 0 of patch 0"), std::string::npos) << status.message();

    ExpectAsDelivered(&engine, {.field = "pressure", .allow_damage = true});
    ArrayCollector shown;
    ASSERT_TRUE(Read(&engine, {.field = "pressure", .allow_damage = true}, &shown).ok());
    EXPECT_EQ(shown.damage.size(), 1u);
    const auto coarser = std::ranges::count_if(shown.filled, [](const auto& one) { return one.second == 1; });
    EXPECT_EQ(coarser, 1);
  }
}

TEST_F(ArrayReadTest, NothingIsWrittenOnceAReadHasEnded) {
  Make({.dims = {64, 48, 32}, .patch = {16, 16, 16}});
  for (const std::uint64_t memory : {kLittle, kMuch}) {
    for (std::size_t after = 0; after < 8; ++after) {
      ReadEngine engine(memory, 2);
      ArrayCollector sink;
      const query::ReadPlan plan = *dataset_->Plan({.field = "pressure"});
      const Status status = ExecuteRead(
          *dataset_, plan, &engine, [&] { return sink.filled.size() >= after; }, &sink);
      EXPECT_EQ(status.code(), StatusCode::kCancelled);
      // A task that still writes is a race with this, and a write to freed memory.
      std::ranges::fill(sink.samples, 0.f);
      sink.samples = {};
    }
  }
}

TEST_F(ArrayReadTest, ReadsAtTheSameTimeGetTheSameSamples) {
  Make({.dims = {64, 48, 32}, .patch = {16, 16, 16}});
  const std::vector<float> expected = testing::ReadAll(*dataset_, {.field = "pressure"});
  for (const std::uint64_t memory : {kLittle, kMuch}) {
    ReadEngine engine(memory, 2);
    std::vector<std::future<std::vector<float>>> reads;
    reads.reserve(6);
    for (int i = 0; i < 6; ++i) {
      reads.push_back(std::async(std::launch::async, [&, i] {
        if (i % 3 == 2) return testing::ReadAll(*dataset_, {.field = "pressure"});
        ArrayCollector sink;
        EXPECT_TRUE(Read(&engine, {.field = "pressure"}, &sink).ok());
        return sink.samples;
      }));
    }
    for (auto& read : reads) EXPECT_EQ(read.get(), expected);
  }
}

}  // namespace
}  // namespace quarry
