// Servers that say nothing, and lists without end.
#include <arpa/inet.h>
#include <sys/socket.h>

#include "quarry/base/file.h"
#include "quarry/format/proto_convert.h"
#include "tests/unit/client/hostile_server.h"

namespace quarry::client {
namespace {

TEST_F(HostileServerTest, CallsThatAreNotAnsweredCanBeCancelled) {
  const auto dataset = Open();
  using Call = std::function<Status(const Dataset&, const CallOptions&)>;
  for (const Call& call :
       {Call([](const Dataset&d, const CallOptions&how) { return d.Read(kQuestion, how).status(); }),
        Call([](const Dataset&d, const CallOptions&how) { return d.PlanRead(kQuestion, how).status(); }),
        Call([](const Dataset&d, const CallOptions&how) { return d.Steps(how).status(); }),
        Call([](const Dataset&d, const CallOptions&how) {
          return d.Statistics({.read = {.field = "pressure"}}, how).status();
        })}) {
    spoiler_->calls = 0;
    spoiler_->silent = true;
    const CancelToken cancel = CancelToken::Create();
    std::thread canceller([&] {
      while (spoiler_->calls == 0) std::this_thread::yield();  // only after the call has reached the server
      cancel.Cancel();
    });
    const Status status = call(*dataset, {.cancel = cancel});
    canceller.join();
    EXPECT_EQ(status.code(), StatusCode::kCancelled) << status.message();
    EXPECT_EQ(spoiler_->calls, 1);
    spoiler_->silent = false;
  }
  EXPECT_TRUE(dataset->Read(kQuestion).ok()) << "and asked anew";
}

/// Lists without end: one name or step a page, as `next` numbers the pages.
class EndlessLister final : public pb::QuarryService::Service {
 public:
  std::function<int(int page)> next = [](int page) { return page; };
  bool empty = false;
  bool old = false;  ///< from before there were several grids
  std::size_t padding = 0;
  grpc_compression_algorithm compression = GRPC_COMPRESS_NONE;
  std::atomic<int> pages = 0;

  grpc::Status ListDatasets(grpc::ServerContext* context, const pb::ListDatasetsRequest*,
                            pb::ListDatasetsResponse* response) override {
    context->set_compression_algorithm(compression);
    const std::string name = Name();
    if (!empty) {
      response->add_datasets()->set_name(name);
      *response->mutable_datasets(0)->add_grids() = format::ToProto(GridDescription{});
      if (old) response->mutable_datasets(0)->mutable_grids(0)->clear_patch();
    }
    response->set_next_page_token(name);
    return grpc::Status::OK;
  }
  grpc::Status GetDataset(grpc::ServerContext*, const pb::GetDatasetRequest* request,
                          pb::GetDatasetResponse* response) override {
    *response->mutable_manifest() = manifest;
    if (request->manifest_only()) return grpc::Status::OK;
    if (!empty)
      *response->add_steps() = format::ToProto(StepDescription{static_cast<std::uint64_t>(next(pages))});
    response->set_next_page_token(Name());
    return grpc::Status::OK;
  }
  pb::DatasetManifest manifest;

 private:
  std::string Name() { return fmt::format("{:09}", next(pages++)) + std::string(padding, 'x'); }
};

class EndlessListTest : public ::testing::Test {
 protected:
  void SetUp() override {
    EnableGrpc();
    testing::TemporaryFolder folder;
    testing::MakeDataset(folder.path() / "a.quarry", {});
    lister_.manifest = format::ToProto((*quarry::Dataset::Open(folder.path() / "a.quarry"))->description());
    server_ = Listen(&lister_, &port_);
  }
  void TearDown() override { server_->Shutdown(); }
  Status List() const { return ListDatasets(fmt::format("grpc://127.0.0.1:{}", port_)).status(); }
  Status Steps() const {
    return (*Dataset::Open(fmt::format("grpc://127.0.0.1:{}/a", port_)))->Steps().status();
  }

  int port_ = 0;
  EndlessLister lister_;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(EndlessListTest, NamesThatDoNotEndAreGivenUp) {
  lister_.padding = 1 << 20;

  const Status status = List();

  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_NE(status.message().find("does not end: it is longer than 64.0 MiB"), std::string::npos)
      << status.message();
  EXPECT_LE(lister_.pages, 33) << "a name comes twice in a page";
}

/// gRPC would decompress before it looks at the length: 64 KiB become 64 MiB.
TEST_F(EndlessListTest, CompressedAnswersAreNotTaken) {
  lister_.compression = GRPC_COMPRESS_GZIP;
  lister_.padding = 32 << 20;

  const Status status = List();

  EXPECT_EQ(status.code(), StatusCode::kUnimplemented) << status.message();
  EXPECT_NE(status.message().find("ompression algorithm"), std::string::npos) << status.message();
  EXPECT_EQ(lister_.pages, 1);
}

TEST_F(EndlessListTest, TheSamePageIsTakenOnce) {
  lister_.next = [](int) { return 7; };

  EXPECT_EQ(List().code(), StatusCode::kInternal);
  EXPECT_EQ(Steps().code(), StatusCode::kInternal);
  EXPECT_LE(lister_.pages, 4);
}

TEST_F(EndlessListTest, NorDoPagesComeInTurn) {
  lister_.next = [](int page) { return page % 3; };

  EXPECT_NE(List().message().find("ascending order"), std::string::npos) << List().message();
  EXPECT_NE(Steps().message().find("ascending order"), std::string::npos) << Steps().message();
}

TEST_F(EndlessListTest, EmptyPagesAreNotFollowed) {
  lister_.empty = true;

  EXPECT_NE(List().message().find("an empty page"), std::string::npos) << List().message();
  EXPECT_NE(Steps().message().find("an empty page"), std::string::npos) << Steps().message();
  EXPECT_LE(lister_.pages, 4);
}

TEST_F(EndlessListTest, AnOlderServersListIsRefusedWithAWay) {
  lister_.old = true;

  EXPECT_EQ(List().code(), StatusCode::kUnimplemented);
  EXPECT_NE(List().message().find("of an older release"), std::string::npos) << List().message();
}

TEST_F(EndlessListTest, OnePageOfTooManyBytesIsNotParsed) {
  lister_.padding = 5 << 20;  // twice

  EXPECT_NE(List().message().find("more than the possible"), std::string::npos) << List().message();
}

TEST(SilentServer, ThatTakesConnectionsAloneCanBeLeft) {
  const FileDescriptor listening(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(bind(listening.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(listening.get(), 1), 0);
  ASSERT_EQ(getsockname(listening.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  EnableGrpc();
  const CancelToken cancel = CancelToken::Create();
  std::thread canceller([&] {
    const FileDescriptor connection(accept(listening.get(), nullptr, nullptr));
    cancel.Cancel();  // once the call waits for an answer
  });
  const auto opened =
      Dataset::Open(fmt::format("grpc://127.0.0.1:{}/a", ntohs(address.sin_port)), {}, cancel);
  canceller.join();
  EXPECT_EQ(opened.status().code(), StatusCode::kCancelled) << opened.status().message();
}

}  // namespace
}  // namespace quarry::client
