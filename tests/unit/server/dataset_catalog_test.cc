// The catalog over a storage in memory: the datasets that it lists, and the changes that it notices.
#include "server/dataset_catalog.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <future>
#include <latch>
#include <utility>

#include "quarry/base/cancel_scope.h"
#include "quarry/dataset/step_follower.h"
#include "quarry/index/index_writer.h"
#include "tests/testing/faulty_storage.h"
#include "tests/testing/late_storage.h"
#include "tests/testing/make_dataset.h"
#include "tests/testing/memory_storage.h"
#include "tests/unit/server/fake_peer.h"

namespace quarry::server {
namespace {

using testing::Fault;
using testing::FaultyStorage;
using testing::Operation;

class DatasetCatalogTest : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::MakeDataset(disk(), {.steps = {0, 1}});
    ASSERT_TRUE(memory_->CopyFolder(disk(), "data/a.quarry").ok());
  }
  std::filesystem::path disk() const { return folder_.path() / "a.quarry"; }
  std::filesystem::path scratch() const { return folder_.path(); }
  std::size_t StepsOf(const std::string& name) {
    const auto served = catalog_.Find(name);
    EXPECT_TRUE(served.ok()) << served.status().message();
    return (*served)->dataset->steps().size();
  }
  /// Indexes the dataset on the disk, and copies it into the storage.
  void Index() {
    const auto nothing = [](std::uint64_t, std::uint64_t) {};
    ASSERT_TRUE(index::UpdateIndex(**Dataset::Open(disk()), disk() / "index", false, nothing).ok());
    ASSERT_TRUE(memory_->CopyFolder(disk(), "data/a.quarry").ok());
  }
  /// The patches of a step, as the index finds them.
  std::size_t PatchesOf(std::uint64_t step) {
    const auto served = *catalog_.Find("a");
    const auto found = served->index->Find(step, 0, Box{{0, 0, 0}, {5, 3, 2}});
    EXPECT_TRUE(found.ok()) << found.status().message();
    return found.ok() ? found->size() : 0;
  }
  std::ptrdiff_t OpenedPieces() const {
    const auto opened = storage_->Calls(Operation::kOpen);
    const auto is_piece = [](const auto& call) { return call.path.ends_with(".mdb"); };
    return std::count_if(opened.begin(), opened.end(), is_piece);
  }

  testing::TemporaryFolder folder_;
  std::shared_ptr<testing::MemoryStorage> memory_ = std::make_shared<testing::MemoryStorage>();
  std::shared_ptr<FaultyStorage> storage_ = std::make_shared<FaultyStorage>(memory_);
  DatasetCatalog catalog_{DatasetCatalogOptions{Location(storage_, "data"), {}, scratch()}};
};

TEST_F(DatasetCatalogTest, FindsDatasetsByNameAndNothingElse) {
  ASSERT_TRUE(memory_->CopyFolder(disk(), "data/runs/b.quarry").ok());
  ASSERT_TRUE(memory_->CopyFolder(disk(), "secret.quarry").ok());

  EXPECT_EQ((*catalog_.List())->datasets.size(), 2u);
  EXPECT_EQ(StepsOf("a"), 2u);
  EXPECT_EQ(StepsOf("runs/b.quarry"), 2u);
  for (const char* name : {"../secret", "secret", "data/a", "/data/a.quarry", "runs", "a.quarry/steps"})
    EXPECT_EQ(catalog_.Find(name).status().code(), StatusCode::kNotFound) << name;
}

TEST_F(DatasetCatalogTest, OpensADatasetAnewWhenAStepOrAnIndexAppears) {
  ASSERT_TRUE(memory_->Rename("data/a.quarry/steps/000001", "kept").ok());
  EXPECT_EQ(StepsOf("a"), 1u);
  EXPECT_EQ((*catalog_.Find("a"))->index, nullptr);
  const auto before = *catalog_.Find("a");
  EXPECT_EQ(*catalog_.Find("a"), before) << "nothing has changed";

  ASSERT_TRUE(memory_->Rename("kept", "data/a.quarry/steps/000001").ok());
  EXPECT_EQ(StepsOf("a"), 2u);
  const auto nothing = [](std::uint64_t, std::uint64_t) {};
  ASSERT_TRUE(index::UpdateIndex(**Dataset::Open(disk()), disk() / "index", false, nothing).ok());
  ASSERT_TRUE(memory_->CopyFolder(disk() / "index", "data/a.quarry/index").ok());
  EXPECT_NE((*catalog_.Find("a"))->index, nullptr);
  EXPECT_EQ(before->index, nullptr) << "who has it open keeps it as it was";
}

TEST_F(DatasetCatalogTest, AnIndexThatCannotBeReadIsDoneWithout) {
  Index();
  storage_->Add(Operation::kRead, "*.mdb", 1, 1, Fault::Lie());
  EXPECT_EQ(PatchesOf(0), 30u);
  EXPECT_EQ(PatchesOf(1), 30u);
  EXPECT_EQ(OpenedPieces(), 1) << "once is enough";
  catalog_.Forget();
  storage_->Add(Operation::kRead, "*/seal.json", 1, 1, Fault::Lie());
  EXPECT_EQ((*catalog_.Find("a"))->index, nullptr);
  EXPECT_EQ(StepsOf("a"), 2u);
}

TEST_F(DatasetCatalogTest, OneStepMoreIsOnePieceMore) {
  Index();
  EXPECT_EQ(PatchesOf(0), 30u);
  EXPECT_EQ(OpenedPieces(), 1);
  storage_->ForgetCalls();
  testing::MakeDataset(disk(), {.steps = {2}});
  Index();
  EXPECT_EQ(StepsOf("a"), 3u);
  EXPECT_EQ(PatchesOf(0), 30u);
  EXPECT_EQ(PatchesOf(1), 30u);
  EXPECT_EQ(OpenedPieces(), 0) << "it was open before";
  EXPECT_EQ(PatchesOf(2), 30u);
  EXPECT_EQ(PatchesOf(2), 30u);
  EXPECT_EQ(OpenedPieces(), 1);
}

TEST_F(DatasetCatalogTest, AStorageThatFailsIsAnErrorAndNotAMissingDataset) {
  storage_->Add(Operation::kList, "data", 1, 1, Fault::Fail(InternalError("no answer")));
  EXPECT_EQ(catalog_.Find("a").status().message(), "no answer");
  EXPECT_EQ(StepsOf("a"), 2u);
}

/// A storage that answers when it is told to.
class Gate {
 public:
  testing::FaultRule Rule(Operation operation, std::string pattern) {
    return {operation, std::move(pattern), 1, 1, [this](const testing::StorageCall&) {
              asked_.count_down();
              opened_.wait();
              return Fault{};
            }};
  }
  void WaitUntilAsked() { asked_.wait(); }
  void Open() { opened_.count_down(); }

 private:
  std::latch asked_{1};
  std::latch opened_{1};
};

/// The attack: every unknown name looked at the whole tree.
TEST_F(DatasetCatalogTest, OneSearchAnswersAllWhoWaitForIt) {
  Gate gate;
  storage_->Add(gate.Rule(Operation::kList, "data"));
  auto first = std::async(std::launch::async, [&] { return catalog_.Find("unknown").status().code(); });
  gate.WaitUntilAsked();
  constexpr int kOthers = 8;
  std::latch waiting(kOthers);
  std::vector<std::future<bool>> others;
  for (int i = 0; i < kOthers; ++i) {
    others.push_back(std::async(std::launch::async, [&, i] {
      bool told = false;
      const auto cancelled = [&] {
        if (!std::exchange(told, true)) waiting.count_down();
        return false;
      };
      const auto name = catalog_.NameOf(fmt::format("b{}", i), cancelled);
      EXPECT_TRUE(name.ok()) << name.status().message();
      return name.ok() && name->has_value();
    }));
  }
  waiting.wait();
  // The first search may have passed it already.
  ASSERT_TRUE(memory_->CopyFolder(disk(), "data/b3.quarry").ok());
  gate.Open();
  EXPECT_EQ(first.get(), StatusCode::kNotFound);
  for (int i = 0; i < kOthers; ++i) EXPECT_EQ(others[static_cast<std::size_t>(i)].get(), i == 3);
  EXPECT_EQ(storage_->Calls(Operation::kList).size(), 2u) << "the first, and one for all others";
}

TEST_F(DatasetCatalogTest, ASearchEndsWithTheLastWhoWaitsForIt) {
  ASSERT_TRUE(memory_->MakeFolder("data/b").ok());
  ASSERT_TRUE(memory_->MakeFolder("data/c").ok());
  const auto gone = [] { return true; };
  EXPECT_EQ(catalog_.NameOf("unknown", gone).status().code(), StatusCode::kCancelled);
  EXPECT_EQ(storage_->Calls(Operation::kList).size(), 0u);
  EXPECT_EQ(catalog_.List(gone).status().code(), StatusCode::kCancelled);

  // A call that waits for another call's search may leave, and the search goes on.
  Gate gate;
  storage_->Add(gate.Rule(Operation::kList, "data"));
  auto first = std::async(std::launch::async, [&] { return (*catalog_.List())->datasets.size(); });
  gate.WaitUntilAsked();
  EXPECT_EQ(catalog_.NameOf("unknown", gone).status().code(), StatusCode::kCancelled);
  gate.Open();
  EXPECT_EQ(first.get(), 1u);
}

TEST_F(DatasetCatalogTest, WhatASlowSearchHasNotFoundIsMissingForAsLong) {
  using Clock = std::chrono::steady_clock;
  constexpr auto kSlow = std::chrono::milliseconds(20);
  Clock::time_point end;
  storage_->Add({Operation::kList, "data", 1, UINT64_MAX, [&](const testing::StorageCall&) {
                   const Clock::time_point begin = Clock::now();
                   while ((end = Clock::now()) < begin + kSlow) {
                   }
                   return Fault{};
                 }});
  DatasetCatalog catalog({Location(storage_, "data"), {}, scratch(), std::chrono::hours(1)});
  bool in_time = false;
  while (!in_time) {  // a busy machine may be too late to see it
    EXPECT_EQ(catalog.Find("unknown").status().code(), StatusCode::kNotFound);
    const std::size_t searches = storage_->Calls(Operation::kList).size();
    const Clock::time_point searched = end;  // a search for the other name would move it
    EXPECT_EQ(catalog.Find("another").status().code(), StatusCode::kNotFound);
    in_time = Clock::now() < searched + kSlow;
    if (!in_time) continue;
    EXPECT_EQ(storage_->Calls(Operation::kList).size(), searches);
  }
  EXPECT_TRUE(catalog.Find("a").ok());
}

TEST_F(DatasetCatalogTest, ATokensPatternComesBeforeTheSearch) {
  std::ofstream(folder_.path() / "tokens") << "alice sha256:" << Sha256Hex("token") << " a wind/*\n";
  Operations operations;
  operations.tokens = *TokenStore::Load(folder_.path() / "tokens");
  Service service({Location(storage_, "data"), {}, scratch()}, {std::uint64_t{1} << 28, 1}, &operations);
  const auto ask = [&](const std::string& name) {
    storage_->ForgetCalls();
    quarry::v1::GetDatasetRequest request;
    request.set_dataset(name);
    FakePeer peer(request.SerializeAsString());
    peer.headers["authorization"] = "Bearer token";
    const StatusCode code = Ask(&service, "GetDataset", &peer).code();
    return std::pair(code,
                     storage_->Calls(Operation::kList).size() + storage_->Calls(Operation::kStat).size());
  };
  ASSERT_TRUE(memory_->CopyFolder(disk(), "data/secret.quarry").ok());
  for (const char* name : {"secret", "secret.quarry", "not there"})
    EXPECT_EQ(ask(name), std::pair(StatusCode::kPermissionDenied, std::size_t{0})) << name;
  EXPECT_EQ(ask("a.quarry").first, StatusCode::kOk);
  EXPECT_EQ(ask("secret"), std::pair(StatusCode::kPermissionDenied, std::size_t{0})) << "now it is known";
  EXPECT_EQ(ask("wind/a").first, StatusCode::kNotFound);
}

TEST_F(DatasetCatalogTest, ADatasetThatHangsHoldsUpNoOther) {
  ASSERT_TRUE(memory_->CopyFolder(disk(), "data/b.quarry").ok());
  ASSERT_EQ((*catalog_.List())->datasets.size(), 2u);
  Gate gate;
  storage_->Add(gate.Rule(Operation::kOpen, "data/a.quarry/*"));
  auto hanging = std::async(std::launch::async, [&] { return StepsOf("a"); });
  gate.WaitUntilAsked();
  EXPECT_EQ(StepsOf("b"), 2u);
  EXPECT_EQ((*catalog_.List())->datasets.size(), 2u);
  catalog_.Forget();
  EXPECT_EQ(StepsOf("b"), 2u);
  EXPECT_EQ(StepsOf("a"), 2u) << "opened anew, when the storage answers again";
  gate.Open();
  EXPECT_EQ(hanging.get(), 2u);
}

/// A catalogue over a storage where looks cost.
class RemoteCatalogTest : public DatasetCatalogTest {
 protected:
  RemoteCatalogTest() {
    DatasetCatalogOptions options{Location(late_, "data"), {}, scratch()};
    options.remote = true;
    remote_.emplace(std::move(options));
  }
  std::size_t Looks() const { return storage_->Calls(Operation::kStat).size(); }

  std::shared_ptr<testing::LateStorage> late_ = std::make_shared<testing::LateStorage>(storage_);
  std::optional<DatasetCatalog> remote_;
};

TEST_F(RemoteCatalogTest, AllQuestionsOfAWhileShareOneLook) {
  const auto opened = *remote_->Find("a");
  const std::size_t looks = Looks();
  ASSERT_TRUE(memory_->Rename("data/a.quarry/steps/000001", "kept").ok());
  for (int i = 0; i < 20; ++i) EXPECT_EQ(*remote_->Find("a"), opened);
  EXPECT_EQ(Looks(), looks);
  late_->Trust(std::chrono::milliseconds(0));
  EXPECT_EQ((*remote_->Find("a"))->dataset->steps().size(), 2u) << "trusted for an hour";
  remote_->Forget();
  EXPECT_EQ((*remote_->Find("a"))->dataset->steps().size(), 1u);
  ASSERT_TRUE(memory_->Rename("kept", "data/a.quarry/steps/000001").ok());
  EXPECT_EQ((*remote_->Find("a"))->dataset->steps().size(), 2u) << "nothing is trusted";
}

TEST_F(RemoteCatalogTest, NoIndexIsLookedFor) {
  Index();
  EXPECT_EQ((*remote_->Find("a"))->index, nullptr);
  EXPECT_NE((*catalog_.Find("a"))->index, nullptr);
}

TEST_F(RemoteCatalogTest, AnErrorAnswersAllWhoAskInAWhile) {
  ASSERT_TRUE((*remote_->List()).get() != nullptr);
  storage_->Add(Operation::kStat, "*/dataset.json", 1, 1, Fault::Fail(Unavailable("nobody there")));
  for (int i = 0; i < 5; ++i) EXPECT_EQ(remote_->Find("a").status().message(), "nobody there");
  remote_->Forget();
  EXPECT_TRUE(remote_->Find("a").ok());
}

TEST_F(RemoteCatalogTest, WhoWaitsForALookMayGiveUp) {
  ASSERT_TRUE((*remote_->List()).get() != nullptr);
  Gate gate;
  storage_->Add(gate.Rule(Operation::kStat, "*/dataset.json"));
  auto first = std::async(std::launch::async, [&] { return remote_->Find("a"); });
  gate.WaitUntilAsked();
  {
    const CancelScope scope([] { return true; });
    EXPECT_EQ(remote_->Find("a").status().code(), StatusCode::kCancelled);
  }
  gate.Open();
  EXPECT_TRUE(first.get().ok());
}

TEST_F(RemoteCatalogTest, AFollowerTrustsALookForAWhile) {
  StepFollower follower(Location(late_, "data/a.quarry"));
  ASSERT_TRUE(memory_->Rename("data/a.quarry/steps/000001", "kept").ok());
  EXPECT_EQ(follower.Poll()->size(), 1u);
  ASSERT_TRUE(memory_->Rename("kept", "data/a.quarry/steps/000001").ok());
  const std::size_t looks = Looks();
  EXPECT_FALSE(follower.Changed());
  EXPECT_EQ(follower.Poll()->size(), 0u);
  EXPECT_EQ(Looks(), looks);
  follower.LookAnew();
  EXPECT_TRUE(follower.Changed());
  EXPECT_EQ(follower.Poll()->size(), 1u);
}

TEST_F(DatasetCatalogTest, ADatasetThatIsNotUsedForLongIsClosed) {
  ASSERT_TRUE(memory_->CopyFolder(disk(), "data/b.quarry").ok());
  for (const bool soon : {false, true}) {
    DatasetCatalogOptions options{Location(storage_, "data"), {}, scratch()};
    if (soon) options.close_after = std::chrono::milliseconds(0);
    DatasetCatalog catalog(options);
    const std::weak_ptr<const OpenedDataset> opened = *catalog.Find("a");
    const auto kept = *catalog.Find("b");
    EXPECT_EQ(opened.expired(), soon);
    EXPECT_EQ((*catalog.Find("a"))->dataset->steps().size(), 2u);
    EXPECT_EQ(kept->dataset->steps().size(), 2u) << "who uses it keeps it";
  }
}

TEST_F(DatasetCatalogTest, AFolderThatFailsHidesNothingElse) {
  ASSERT_TRUE(memory_->CopyFolder(disk(), "data/broken/b.quarry").ok());
  ASSERT_EQ((*catalog_.List())->datasets.size(), 2u);
  storage_->Add(Operation::kList, "data/broken", 1, UINT64_MAX,
                Fault::Fail(InternalError("the disk is gone")));
  ASSERT_TRUE(memory_->CopyFolder(disk(), "data/c.quarry").ok());
  EXPECT_EQ(StepsOf("c"), 2u);
  EXPECT_EQ(StepsOf("broken/b"), 2u) << "known from before";
  EXPECT_EQ(catalog_.Find("broken/d").status().message(), "the disk is gone") << "not missing for certain";
}

TEST_F(DatasetCatalogTest, ManyWhoAskForADatasetOpenItOnce) {
  Index();
  std::vector<std::future<std::size_t>> many;
  for (int i = 0; i < 16; ++i) many.push_back(std::async(std::launch::async, [&] { return PatchesOf(0); }));
  for (auto& one : many) EXPECT_EQ(one.get(), 30u);
  EXPECT_EQ(OpenedPieces(), 1);
  const auto opened = storage_->Calls(Operation::kOpen);
  EXPECT_EQ(std::count_if(opened.begin(), opened.end(),
                          [](const auto& call) { return call.path.ends_with("/dataset.json"); }),
            1);
}

/// The attack: a file server whose clock is behind ours, or ticks slowly, seemed to have made its last change
/// long ago.
TEST_F(DatasetCatalogTest, AStepIsFoundWhateverTheClockOfTheStorageSays) {
  ASSERT_TRUE(memory_->Rename("data/a.quarry/steps/000001", "kept").ok());
  storage_->CoarsenStamps(std::chrono::hours(1));
  StepFollower follower(Location(storage_, "data/a.quarry"));
  EXPECT_EQ(StepsOf("a"), 1u);
  EXPECT_EQ(follower.Poll()->size(), 1u);
  ASSERT_TRUE(memory_->Rename("kept", "data/a.quarry/steps/000001").ok());
  EXPECT_EQ(StepsOf("a"), 2u);
  EXPECT_EQ(follower.Poll()->size(), 1u);
}

/// The attack: somebody copies over a step instead of publishing one.
TEST_F(DatasetCatalogTest, AStepThatIsWrittenOverIsReadAnew) {
  const auto read = [&] {
    const auto served = *catalog_.Find("a");
    return testing::ReadAll(*served->dataset, {.field = "pressure", .step = 1}, served->index.get());
  };
  const auto before = read();
  testing::MakeDataset(folder_.path() / "other.quarry", {.tolerance = 0.1, .steps = {0, 1}, .missing = true});
  const Location step = Location(folder_.path() / "other.quarry") / "steps/000001";
  ASSERT_TRUE(memory_->CopyFolder(step, "data/a.quarry/steps/000001").ok());
  ASSERT_TRUE(
      memory_->CopyFolder(Location(folder_.path() / "other.quarry") / "masks", "data/a.quarry/masks").ok());
  EXPECT_EQ((*catalog_.Find("a"))->dataset->Plan({.field = "pressure", .step = 1}).ok(), true) << "as it was";
  EXPECT_NE(read(), before);

  // Where nothing shows it, the operator can say so.
  const auto kept = *catalog_.Find("a");
  EXPECT_EQ(*catalog_.Find("a"), kept);
  catalog_.Forget();
  EXPECT_NE(*catalog_.Find("a"), kept);
}

}  // namespace
}  // namespace quarry::server
