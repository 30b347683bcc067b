// Lists of datasets, page by page, over a storage that counts calls.
#include "server/dataset_lists.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <latch>

#include "tests/testing/faulty_storage.h"
#include "tests/testing/make_dataset.h"
#include "tests/testing/memory_storage.h"
#include "tests/unit/server/fake_peer.h"

namespace quarry::server {
namespace {

namespace pb = ::quarry::v1;

using testing::FaultyStorage;
using testing::Operation;

class DatasetListsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::MakeDataset(disk(), {.dims = {4, 4, 4}, .patch = {4, 4, 4}, .levels = 1, .files = 1});
  }
  std::filesystem::path disk() const { return folder_.path() / "a.quarry"; }
  static std::string NameOf(std::size_t number) { return fmt::format("d{:03}", number); }
  void AddDataset(const std::string& name) {
    ASSERT_TRUE(memory_->CopyFolder(disk(), fmt::format("data/{}.quarry", name)).ok());
  }
  void AddDatasets(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) AddDataset(NameOf(i));
  }
  std::unique_ptr<Service> Serve(std::chrono::milliseconds longest_kept = {}) {
    return std::make_unique<Service>(
        DatasetCatalogOptions{Location(storage_, "data"), {}, folder_.path(), longest_kept},
        EngineOptions{64 << 20, 1}, &operations_);
  }

  /// A page, parsed. @param token  replaced by that of the next page
  std::vector<std::string> Page(Service* service, std::uint32_t size, std::string* token) {
    pb::ListDatasetsRequest request;
    request.set_page_size(size);
    request.set_page_token(*token);
    FakePeer peer(request.SerializeAsString());
    const Status status = Ask(service, "ListDatasets", &peer);
    EXPECT_TRUE(status.ok()) << status.message();
    pb::ListDatasetsResponse response;
    EXPECT_TRUE(status.ok() && response.ParseFromString(peer.messages.at(0)));
    std::vector<std::string> names;
    for (const pb::DatasetSummary& dataset : response.datasets()) {
      EXPECT_EQ(dataset.steps(), 1u) << dataset.name();
      names.push_back(dataset.name());
    }
    *token = response.next_page_token();
    return names;
  }
  std::vector<std::string> ListAll(Service* service, std::uint32_t page_size) {
    std::vector<std::string> names;
    std::string token;
    do {
      const std::vector<std::string> page = Page(service, page_size, &token);
      names.insert(names.end(), page.begin(), page.end());
    } while (!token.empty());
    return names;
  }
  std::size_t Looks() const {
    return storage_->Calls(Operation::kStat).size() + storage_->Calls(Operation::kList).size() +
           storage_->Calls(Operation::kOpen).size();
  }

  testing::TemporaryFolder folder_;
  std::shared_ptr<testing::MemoryStorage> memory_ = std::make_shared<testing::MemoryStorage>();
  std::shared_ptr<FaultyStorage> storage_ = std::make_shared<FaultyStorage>(memory_);
  Operations operations_;
};

TEST_F(DatasetListsTest, OneSearchServesAllPages) {
  std::vector<std::size_t> stats;
  std::size_t known = 0;
  for (const std::size_t count : {std::size_t{20}, std::size_t{80}}) {
    for (; known < count; ++known) AddDataset(NameOf(known));
    const auto service = Serve();
    storage_->ForgetCalls();
    const std::vector<std::string> names = ListAll(service.get(), 5);
    ASSERT_EQ(names.size(), count);
    EXPECT_EQ(names.front(), NameOf(0));
    EXPECT_EQ(names.back(), NameOf(count - 1));
    EXPECT_EQ(storage_->Calls(Operation::kList).size(), 1 + 2 * count)
        << "the root, and the steps of each, which may have just changed, twice";
    stats.push_back(storage_->Calls(Operation::kStat).size());
  }
  EXPECT_EQ(stats[1] - stats[0], 2 * 60u) << "one to find a dataset, one for its list of steps";
}

TEST_F(DatasetListsTest, AListThatBeginsShowsNewDatasets) {
  AddDatasets(3);
  const auto service = Serve();
  EXPECT_EQ(ListAll(service.get(), 2).size(), 3u);
  AddDataset("c");
  EXPECT_EQ(ListAll(service.get(), 2).front(), "c");
}

TEST_F(DatasetListsTest, APageGoesOnBehindTheLastNameWhateverHasChanged) {
  AddDatasets(4);
  std::string token;
  EXPECT_EQ(Page(Serve().get(), 2, &token), (std::vector<std::string>{NameOf(0), NameOf(1)}));
  ASSERT_TRUE(memory_->Remove(fmt::format("data/{}.quarry", NameOf(1))).ok());
  // Another server, which has no search yet.
  EXPECT_EQ(Page(Serve().get(), 2, &token), (std::vector<std::string>{NameOf(2), NameOf(3)}));
  EXPECT_EQ(token, "");
}

TEST_F(DatasetListsTest, AListIsKeptForAsLongAsItTook) {
  using Clock = std::chrono::steady_clock;
  constexpr auto kSlow = std::chrono::milliseconds(200);
  AddDatasets(3);
  storage_->Add({Operation::kList, "data", 1, UINT64_MAX, [&](const testing::StorageCall&) {
                   const Clock::time_point begin = Clock::now();
                   while (Clock::now() < begin + kSlow) {
                   }
                   return testing::Fault{};
                 }});
  std::unique_ptr<Service> service;
  bool in_time = false;
  while (!in_time) {  // a busy machine may be too late to see it
    service = Serve(std::chrono::hours(1));
    const Clock::time_point begin = Clock::now();
    EXPECT_EQ(ListAll(service.get(), 2).size(), 3u);
    const std::size_t looks = Looks();
    EXPECT_EQ(ListAll(service.get(), 2).size(), 3u);
    in_time = Clock::now() < begin + 2 * kSlow;
    if (!in_time) continue;
    EXPECT_EQ(Looks(), looks);
  }
  service->Forget();
  storage_->ForgetCalls();
  EXPECT_EQ(ListAll(service.get(), 2).size(), 3u);
  EXPECT_EQ(storage_->Calls(Operation::kList).size(), 1u + 2 * 3u) << "all anew";
}

TEST_F(DatasetListsTest, ADatasetIsOpenedOnceForAListAndAgainIfThatHasFailed) {
  AddDatasets(2);
  const auto service = Serve();
  std::string token;
  ASSERT_EQ(Page(service.get(), 1, &token), std::vector<std::string>{NameOf(0)});
  storage_->Add(Operation::kOpen, "data/d001.quarry/*", 1, 1,
                testing::Fault::Fail(InternalError("no answer")));
  const auto ask = [&] {
    pb::ListDatasetsRequest request;
    request.set_page_token(token);
    FakePeer peer(request.SerializeAsString());
    EXPECT_TRUE(Ask(service.get(), "ListDatasets", &peer).ok());
    pb::ListDatasetsResponse response;
    EXPECT_TRUE(response.ParseFromString(peer.messages.at(0)));
    EXPECT_EQ(response.datasets_size(), 1);
    return response.datasets(0).grids_size();
  };
  EXPECT_EQ(ask(), 0) << "listed by its name";
  EXPECT_EQ(ask(), 1);
  storage_->ForgetCalls();
  EXPECT_EQ(ask(), 1);
  EXPECT_EQ(Looks(), 0u);
}

TEST_F(DatasetListsTest, ADatasetThatHangsIsListedByNameAndHoldsUpNoOther) {
  AddDatasets(3);
  std::latch may_answer(1);
  std::latch answered(1);
  storage_->Add({Operation::kOpen, "data/d001.quarry/*", 1, 1, [&](const testing::StorageCall&) {
                   may_answer.wait();
                   answered.count_down();
                   return testing::Fault{};
                 }});
  DatasetCatalogOptions options{Location(storage_, "data"), {}, folder_.path()};
  options.patience = std::chrono::seconds(1);
  Service service(options, EngineOptions{64 << 20, 1}, &operations_);
  const auto late = [&] {
    FakePeer peer(pb::ListDatasetsRequest().SerializeAsString());
    EXPECT_TRUE(Ask(&service, "ListDatasets", &peer).ok());
    pb::ListDatasetsResponse response;
    EXPECT_TRUE(response.ParseFromString(peer.messages.at(0)));
    EXPECT_EQ(response.datasets_size(), 3);
    EXPECT_EQ(response.datasets(0).steps(), 1u);
    EXPECT_EQ(response.datasets(2).steps(), 1u);
    EXPECT_EQ(response.datasets(1).name(), NameOf(1));
    EXPECT_EQ(response.datasets(1).late(), response.datasets(1).grids().empty());
    return response.datasets(1).late();
  };
  EXPECT_TRUE(late());
  EXPECT_TRUE(late()) << "at once";
  const auto opened = storage_->Calls(Operation::kOpen);
  EXPECT_EQ(std::ranges::count(opened, "data/d001.quarry/dataset.json", &testing::StorageCall::path), 1);

  may_answer.count_down();
  answered.wait();
  while (late()) {  // the look that hung is forgotten shortly after its end
  }
}

}  // namespace
}  // namespace quarry::server
