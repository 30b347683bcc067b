// The memory that reads share: who gets it, who waits for it, what is evicted; and the order of decoding.
#include <gtest/gtest.h>

#include <array>
#include <future>
#include <latch>
#include <numeric>

#include "quarry/store/decode_pool.h"
#include "quarry/store/patch_store.h"

namespace quarry {
namespace {

const auto kNever = [] { return false; };
const auto kAtOnce = [] { return true; };

/// A decoded patch of `count` float32 samples.
StoredPatch MakePatch(std::int64_t count) {
  const PatchLayout layout{DataType::kFloat32, {count, 1, 1}, 1};
  std::vector<float> samples(static_cast<std::size_t>(count));
  std::iota(samples.begin(), samples.end(), 0.5f);
  const PatchCoder& coder = *FindCoder(CoderId::kLossless);
  const EncodedPatch encoded =
      *EncodePatch(coder, layout, std::as_bytes(std::span(samples)), std::nullopt, 0);
  PatchReader reader(coder, layout);
  EXPECT_TRUE(reader.Advance(encoded.levels[0], {}).ok());
  return std::make_shared<const PatchReader>(std::move(reader));
}

PatchKey Key(std::uint64_t patch, int level = 0) {
  PatchKey key;
  key.patch = patch;
  key.level = level;
  return key;
}

/// Decodes a patch into the store, like a read.
void Store(PatchStore* store, const PatchKey& key, const StoredPatch& patch) {
  PatchStore::Claim claim = store->TryClaim(key, {});
  ASSERT_TRUE(claim);
  PatchStore::Memory memory = *store->Reserve(PatchStore::BytesOf(patch), kNever);
  claim.Finish(patch, &memory);
}

TEST(PatchStorePin, LetsRequestsInUpToThreeEighthsOfTheBudget) {
  PatchStore store(800);
  EXPECT_EQ(store.Pin(301, kNever).status().code(), StatusCode::kResourceExhausted);
  auto first = store.Pin(200, kNever);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(store.Pin(101, kAtOnce).status().code(), StatusCode::kCancelled) << "waits for the first one";
  EXPECT_TRUE(store.Pin(100, kNever).ok());
  first->Release();
  EXPECT_TRUE(store.Pin(300, kNever).ok());
}

TEST(PatchStorePin, QuestionsHaveAnEighthOfTheirOwn) {
  PatchStore store(800);
  const auto question = *store.PinQuestion(100, kNever);
  EXPECT_EQ(store.PinQuestion(1, kAtOnce).status().code(), StatusCode::kCancelled);
  EXPECT_EQ(store.PinQuestion(101, kNever).status().code(), StatusCode::kResourceExhausted);
  const auto pinned = store.Pin(300, kNever);
  EXPECT_TRUE(pinned.ok()) << "questions never keep an answer out";
  EXPECT_TRUE(store.Reserve(350, kNever).ok()) << "nor do both of them keep a batch out";
}

TEST(PatchStorePin, GrowsOnlyWithoutWaitingAndBehindNobody) {
  PatchStore store(800);
  auto first = *store.Pin(100, kNever);
  EXPECT_TRUE(first.Resize(300));
  EXPECT_FALSE(first.Resize(301));
  EXPECT_EQ(first.bytes(), 300u) << "it is as large as it was";
  EXPECT_TRUE(first.Resize(50));
  EXPECT_EQ(store.state().pinned, 50u);
  auto second = *store.Pin(200, kNever);
  auto third = std::async(std::launch::async, [&] { return store.Pin(100, kNever).ok(); });
  while (store.state().waiting == 0) std::this_thread::yield();
  EXPECT_FALSE(first.Resize(51)) << "the third came before";
  second.Release();
  EXPECT_TRUE(third.get());
}

/// Two requests that hold a third of the memory each and need two thirds: one of them lets go.
TEST(MakePinned, RequestsThatTurnOutLargerDoNotStopEachOther) {
  PatchStore store(800);
  std::latch both(2);
  const auto request = [&] {
    bool first = true;
    return MakePinned(
               &store, 100, kNever,
               [&]() -> Result<int> {
                 if (std::exchange(first, false)) both.arrive_and_wait();
                 return 1;
               },
               [](int) { return 250; })
        .ok();
  };
  auto one = std::async(std::launch::async, request);
  auto other = std::async(std::launch::async, request);
  EXPECT_TRUE(one.get());
  EXPECT_TRUE(other.get());
  EXPECT_EQ(store.state().pinned, 0u);
}

TEST(PatchStoreObtain, LoadsOnceForAllAndCountsWhatIsKept) {
  PatchStore store(1000);
  std::atomic<int> loads = 0;
  PatchKey key;
  key.level = -1;
  const auto load = [&]() -> Result<PatchStore::Loaded> {
    ++loads;
    EXPECT_EQ(store.state().reserved, 300u);
    return PatchStore::Loaded{std::make_shared<const int>(7), 200};
  };
  const auto obtain = [&] {
    return *store.Obtain(
        key, [] { return 300; }, load);
  };
  std::vector<std::future<std::shared_ptr<const void>>> all;
  all.reserve(8);
  for (int i = 0; i < 8; ++i) all.push_back(std::async(std::launch::async, obtain));
  const auto object = obtain();
  for (auto& one : all) EXPECT_EQ(one.get(), object);
  EXPECT_EQ(loads, 1);
  EXPECT_EQ(store.state().stored, 200u);
  EXPECT_EQ(store.state().reserved, 0u);

  const auto pinned = *store.Pin(375, kNever);
  const auto batch = *store.Reserve(438, kNever);
  EXPECT_EQ(store.state().stored, 0u) << "it makes room";
}

TEST(PatchStoreObtain, AFailureIsNotKept) {
  PatchStore store(1000);
  const auto none = [] { return std::uint64_t{0}; };
  const auto fail = []() -> Result<PatchStore::Loaded> { return DataLoss("damaged"); };
  const auto load = []() -> Result<PatchStore::Loaded> {
    return PatchStore::Loaded{std::make_shared<int>(1), 1};
  };
  EXPECT_EQ(store.Obtain({}, none, fail).status().message(), "damaged");
  EXPECT_TRUE(store.Obtain({}, none, load).ok());
}

TEST(PatchStoreShare, MakesOnceForAllAndKeepsWhatFits) {
  PatchStore store(1000);
  std::atomic<int> made = 0;
  PatchKey key;
  key.level = -100;
  const auto make = [&]() -> Result<PatchStore::Loaded> {
    ++made;
    EXPECT_EQ(store.state().reserved, 0u) << "its maker has the memory";
    return PatchStore::Loaded{std::make_shared<const int>(7), 200};
  };
  std::vector<std::future<std::shared_ptr<const void>>> all;
  all.reserve(8);
  for (int i = 0; i < 8; ++i)
    all.push_back(std::async(std::launch::async, [&] { return *store.Share(key, kNever, make); }));
  const auto object = *store.Share(key, kNever, make);
  for (auto& one : all) EXPECT_EQ(one.get(), object);
  EXPECT_EQ(made, 1);
  EXPECT_EQ(store.state().stored, 200u);
  EXPECT_EQ(store.state().reserved, 0u);
}

TEST(PatchStoreShare, WaitsForNoMemory) {
  PatchStore store(1000);
  const auto make = []() -> Result<PatchStore::Loaded> {
    return PatchStore::Loaded{std::make_shared<const int>(7), 200};
  };
  const auto pinned = *store.Pin(375, kNever);
  const auto batch = *store.Reserve(438, kNever);
  EXPECT_TRUE(store.Share({}, kNever, make).ok());
  EXPECT_EQ(store.state().stored, 0u);
  const auto fail = []() -> Result<PatchStore::Loaded> { return DataLoss("damaged"); };
  EXPECT_EQ(store.Share({}, kNever, fail).status().message(), "damaged");
}

TEST(PatchStoreShare, ARequesterThatGoesWaitsForNobody) {
  PatchStore store(1000);
  std::promise<void> going_on;
  const auto make = [&]() -> Result<PatchStore::Loaded> {
    going_on.get_future().wait();
    return PatchStore::Loaded{std::make_shared<const int>(7), 200};
  };
  std::promise<void> begun;
  auto maker = std::async(std::launch::async, [&] {
    return store.Share({}, kNever, [&] {
      begun.set_value();
      return make();
    });
  });
  begun.get_future().wait();
  const auto unasked = []() -> Result<PatchStore::Loaded> { return DataLoss("made twice"); };

  EXPECT_EQ(store.Share({}, kAtOnce, unasked).status().code(), StatusCode::kCancelled);

  going_on.set_value();
  EXPECT_TRUE(maker.get().ok());
  EXPECT_TRUE(store.Share({}, kAtOnce, unasked).ok()) << "the maker was not disturbed";
}

TEST(PatchStorePin, RefusesWithTheNumbersWhereTooManyWait) {
  PatchStore store(4096, 1);
  auto first = *store.Pin(1536, kNever);
  auto second = std::async(std::launch::async, [&] { return store.Pin(1024, kNever).ok(); });
  while (store.state().waiting == 0) std::this_thread::yield();
  const Status refused = store.Pin(1, kNever).status();
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(
      refused.message().find("1.50 KiB of 4.00 KiB are in use by 1 requests, and the queue is full with 1"),
      std::string::npos)
      << refused.message();
  first.Release();
  EXPECT_TRUE(second.get());
}

TEST(PatchStorePin, ASmallReadDoesNotOvertakeALargeOneThatWaits) {
  PatchStore store(320);
  auto first = *store.Pin(60, kNever);
  std::atomic<bool> small_is_in = false;
  auto large = std::async(std::launch::async, [&] {
    const auto memory = store.Pin(100, kNever);
    EXPECT_FALSE(small_is_in);
    return memory.ok();
  });
  while (store.state().waiting < 1) std::this_thread::yield();
  auto small = std::async(std::launch::async, [&] {
    // It would fit beside the first, but does not fit beside the large one.
    const auto memory = store.Pin(30, kNever);
    small_is_in = true;
    return memory.ok();
  });
  while (store.state().waiting < 2 && !small_is_in) std::this_thread::yield();
  first.Release();
  EXPECT_TRUE(large.get());
  EXPECT_TRUE(small.get());
}

TEST(PatchStoreReserve, IsNeverKeptOutByWhatIsPinned) {
  PatchStore store(100);
  const auto question = *store.PinQuestion(12, kNever);
  const auto pinned = *store.Pin(38, kNever);
  const auto small = *store.Pin(6, Requester([] { return true; }, 1));
  const auto batch = store.Reserve(44, kNever);
  EXPECT_TRUE(batch.ok());
  EXPECT_FALSE(store.TryReserve(1));
  EXPECT_EQ(store.Reserve(1, kAtOnce).status().code(), StatusCode::kCancelled);
  EXPECT_EQ(store.Reserve(45, kNever).status().code(), StatusCode::kResourceExhausted);
}

TEST(PatchStoreReserve, GivesEveryReadItsShare) {
  PatchStore store(1000);
  EXPECT_EQ(store.FairShare(), 500u);
  const auto one = *store.Pin(100, kNever);
  EXPECT_EQ(store.FairShare(), 450u);
  const auto two = *store.Pin(100, kNever);
  EXPECT_EQ(store.FairShare(), 200u);
}

TEST(PatchStoreClaim, OneDecodesAndAllGetTheSamePatch) {
  PatchStore store(1 << 20);
  const StoredPatch patch = MakePatch(100);
  PatchStore::Claim claim = store.TryClaim(Key(1), {});
  ASSERT_TRUE(claim);
  EXPECT_FALSE(claim.Wanted());
  EXPECT_FALSE(store.TryClaim(Key(1), {})) << "it is under way";
  std::vector<std::future<StoredPatch>> others;
  others.reserve(3);
  for (int i = 0; i < 3; ++i)
    others.push_back(std::async(std::launch::async, [&] { return *store.Take(Key(1), kNever); }));
  while (!claim.Wanted()) std::this_thread::yield();
  PatchStore::Memory memory = *store.Reserve(PatchStore::BytesOf(patch) + 7, kNever);
  claim.Finish(patch, &memory);
  for (auto& other : others) EXPECT_EQ(other.get(), patch);
  EXPECT_EQ(*store.Take(Key(1), kNever), patch) << "and whoever comes later";
  EXPECT_EQ(store.state().misses, 1u);
  EXPECT_EQ(store.state().stored, PatchStore::BytesOf(patch));
  EXPECT_EQ(store.state().reserved, 7u) << "the rest is the batch's still";
}

TEST(PatchStoreClaim, GivenUpLetsAnotherOneDecode) {
  PatchStore store(1 << 20);
  std::optional<PatchStore::Claim> claim = store.TryClaim(Key(1), {});
  auto other = std::async(std::launch::async, [&] { return *store.Take(Key(1), kNever); });
  while (!claim->Wanted()) std::this_thread::yield();
  claim.reset();
  EXPECT_EQ(other.get(), nullptr);
  EXPECT_TRUE(store.TryClaim(Key(1), {}));
}

TEST(PatchStoreClaim, AnErrorIsForThoseWhoWaitAndIsNotKept) {
  PatchStore store(1 << 20);
  PatchStore::Claim claim = store.TryClaim(Key(1), {});
  auto other = std::async(std::launch::async, [&] { return store.Take(Key(1), kNever).status(); });
  while (!claim.Wanted()) std::this_thread::yield();
  claim.Fail(DataLoss("damaged"));
  EXPECT_EQ(other.get().message(), "damaged");
  EXPECT_EQ(*store.Take(Key(1), kNever), nullptr);
}

TEST(PatchStoreClaim, WaitingForAPatchEndsWhenTheReadIsCancelled) {
  PatchStore store(1 << 20);
  const PatchStore::Claim claim = store.TryClaim(Key(1), {});
  EXPECT_EQ(store.Take(Key(1), kAtOnce).status().code(), StatusCode::kCancelled);
}

TEST(PatchStoreClaim, GoesOnFromTheFinestCoarserLevel) {
  PatchStore store(1 << 20);
  const StoredPatch coarse = MakePatch(10);
  const StoredPatch coarser = MakePatch(5);
  Store(&store, Key(1, 3), coarser);
  Store(&store, Key(1, 2), coarse);
  const std::vector<PatchKey> levels = {Key(1, 1), Key(1, 2), Key(1, 3)};
  EXPECT_EQ(store.TryClaim(Key(1, 0), levels).base(), coarse);
  EXPECT_EQ(store.TryClaim(Key(2, 0), {}).base(), nullptr);
}

TEST(PatchStoreEviction, TakesWhatWasClaimedLongestAgo) {
  const StoredPatch patch = MakePatch(100);
  const std::uint64_t bytes = PatchStore::BytesOf(patch);
  PatchStore store(3 * bytes + 10);
  for (std::uint64_t p = 0; p < 3; ++p) Store(&store, Key(p), MakePatch(100));
  EXPECT_EQ(store.state().patches, 3u);
  EXPECT_FALSE(store.TryClaim(Key(0), {})) << "it is stored, and used now";
  EXPECT_TRUE(*store.Take(Key(1), kNever)) << "which does not make it newer";
  EXPECT_TRUE(store.Has(std::array{Key(1)}).front()) << "nor does this";
  const auto memory = *store.Reserve(bytes, kNever);
  EXPECT_EQ(store.Has(std::array{Key(0), Key(1), Key(2)}), (std::vector<bool>{true, false, true}));
  EXPECT_EQ(*store.Take(Key(1), kNever), nullptr);
  EXPECT_EQ(store.state().evictions, 1u);
}

TEST(PatchStoreEviction, LeavesPatchesToThoseWhoHoldThem) {
  const StoredPatch patch = MakePatch(100);
  PatchStore store(3 * PatchStore::BytesOf(patch));
  Store(&store, Key(1), patch);
  const StoredPatch held = *store.Take(Key(1), kNever);
  const auto pinned = *store.Pin(store.MostPinned(), kNever);
  const auto reserved = *store.Reserve(store.MostReserved(), kNever);
  EXPECT_EQ(store.state().patches, 0u);
  EXPECT_EQ(reinterpret_cast<const float*>(held->samples().data())[99], 99.5f);
}

TEST(PatchStoreEviction, OtherContentIsAnotherPatch) {
  PatchStore store(1 << 20);
  Store(&store, Key(1), MakePatch(10));
  PatchKey replaced = Key(1);
  replaced.content = 1;
  EXPECT_EQ(*store.Take(replaced, kNever), nullptr);
}

TEST(DecodePoolSubmit, RunsCoarseLevelsFirstThenSmallReadsThenInOrder) {
  DecodePool pool(1);
  std::latch begun(1), go(1), done(5);
  pool.Submit({}, [&] {
    begun.count_down();
    go.wait();
  });
  begun.wait();
  std::string order;
  const auto submit = [&](char name, int level, std::uint64_t bytes) {
    pool.Submit({level, bytes}, [&, name] {
      order += name;
      done.count_down();
    });
  };
  submit('e', 0, 900);
  submit('c', 0, 100);
  submit('d', 0, 100);
  submit('b', 1, 900);
  submit('a', 2, 5000);
  go.count_down();
  done.wait();
  EXPECT_EQ(order, "abcde");
}

TEST(DecodePoolSubmit, LetsNoTaskWaitForEver) {
  DecodePool pool(1);
  std::latch begun(1), go(1), done(21);
  pool.Submit({}, [&] {
    begun.count_down();
    go.wait();
  });
  begun.wait();
  std::string order;
  const auto submit = [&](char name, int level) {
    pool.Submit({level, 0}, [&, name] {
      order += name;
      done.count_down();
    });
  };
  submit('F', 0);
  for (int i = 0; i < 20; ++i) submit('c', 1);
  go.count_down();
  done.wait();
  EXPECT_LT(order.find('F'), 8u) << order;
}

}  // namespace
}  // namespace quarry
