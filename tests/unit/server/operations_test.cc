#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>

#include <fstream>
#include <future>
#include <optional>
#include <sstream>
#include <thread>

#include "google/rpc/status_details.pb.h"
#include "quarry/client.h"
#include "quarry/client_grpc.h"
#include "quarry/v1/service.grpc.pb.h"
#include "server/grpc/listener.h"
#include "tests/testing/make_dataset.h"

namespace quarry::server {
namespace {

namespace pb = ::quarry::v1;

/// A server like that of main, on a free port, with the test's settings of `operations_` and `listen_` from
/// before Start.
class OperationsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::MakeDataset(Path("a"), {});
    testing::MakeDataset(Path("b"), {});
    operations_.log = std::make_shared<ServerLog>(std::make_shared<spdlog::sinks::ostream_sink_mt>(log_),
                                                  LogFormat::kText, spdlog::level::info);
    listen_.address = "127.0.0.1:0";
  }
  void TearDown() override { listener_.reset(); }

  std::filesystem::path Path(const std::string& name) const { return folder_.path() / (name + ".quarry"); }

  void Start() {
    client::EnableGrpc();
    service_ = std::make_unique<Service>(DatasetCatalogOptions{folder_.path(), {}, folder_.path()},
                                         EngineOptions{std::uint64_t{1} << 30, 2}, &operations_);
    operations_.metrics.WatchStore([this] { return service_->store().state(); });
    auto listener = Listener::Start(listen_, service_.get());
    ASSERT_TRUE(listener.ok()) << listener.status().message();
    listener_ = *std::move(listener);
    channel_ = grpc::CreateChannel(listener_->address(), grpc::InsecureChannelCredentials());
    stub_ = pb::QuarryService::NewStub(channel_);
  }

  void SetTokens(const std::string& lines) {
    std::ofstream(folder_.path() / "tokens") << lines;
    operations_.tokens = *TokenStore::Load(folder_.path() / "tokens");
  }

  std::string Target(const std::string& name) const { return "grpc://" + listener_->address() + "/" + name; }
  Status ReadWith(const std::string& token, const std::string& dataset) const {
    client::Options options;
    options.security.token = token;
    const auto opened = client::Dataset::Open(Target(dataset), options);
    return opened.ok() ? (*opened)->Read({.field = "pressure"}).status() : opened.status();
  }

  grpc::Status Plan(grpc::ClientContext* context, const std::string& dataset, const std::string& field) {
    pb::PlanReadRequest request;
    request.mutable_query()->set_dataset(dataset);
    request.mutable_query()->set_field(field);
    pb::PlanReadResponse response;
    return stub_->PlanRead(context, request, &response);
  }

  testing::TemporaryFolder folder_;
  std::ostringstream log_;
  ListenOptions listen_;
  std::unique_ptr<Service> service_;
  Operations operations_;
  std::unique_ptr<Listener> listener_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<pb::QuarryService::Stub> stub_;
};

// --- requests have names ---

std::string IdOf(const grpc::ClientContext& context) {
  const auto& metadata = context.GetServerInitialMetadata();
  const auto found = metadata.find("quarry-request-id");
  return found == metadata.end() ? "" : std::string(found->second.data(), found->second.size());
}

TEST_F(OperationsTest, TheClientSeesTheIdThatIsInTheLog) {
  Start();
  grpc::ClientContext good;
  ASSERT_TRUE(Plan(&good, "a", "pressure").ok());
  grpc::ClientContext bad;
  const grpc::Status status = Plan(&bad, "a", "nothing");
  google::rpc::Status details;
  google::rpc::ErrorInfo info;
  ASSERT_TRUE(details.ParseFromString(status.error_details()));
  ASSERT_TRUE(details.details(0).UnpackTo(&info));

  EXPECT_NE(IdOf(good), "");
  EXPECT_NE(IdOf(good), IdOf(bad));
  EXPECT_EQ(info.metadata().at("request_id"), IdOf(bad));
  listener_.reset();
  EXPECT_NE(log_.str().find("request " + IdOf(good)), std::string::npos) << log_.str();
  EXPECT_NE(log_.str().find("[warning] request " + IdOf(bad)), std::string::npos) << log_.str();
  EXPECT_NE(log_.str().find("PlanRead \"a\" NOT_FOUND"), std::string::npos) << log_.str();
}

TEST_F(OperationsTest, AnIdOfTheClientIsKeptIfItIsAWord) {
  Start();
  grpc::ClientContext good;
  good.AddMetadata("quarry-request-id", "viewer-1.tile_7");
  ASSERT_TRUE(Plan(&good, "a", "pressure").ok());
  EXPECT_EQ(IdOf(good), "viewer-1.tile_7");
  grpc::ClientContext bad;
  bad.AddMetadata("quarry-request-id", "two words");
  ASSERT_TRUE(Plan(&bad, "a", "pressure").ok());
  EXPECT_EQ(IdOf(bad).size(), 16u);
}

// --- figures ---

TEST_F(OperationsTest, MetricsCountWhatWasDone) {
  Start();
  const auto dataset = *client::Dataset::Open(Target("a"), {.encoding = client::Encoding::kSamples});
  const std::uint64_t patches = dataset->PlanRead({.field = "pressure"})->cost.patches;
  ASSERT_TRUE(dataset->Read({.field = "pressure"}).ok());
  ASSERT_FALSE(dataset->Read({.field = "nothing"}).ok());
  // A reply can arrive before its call has been counted, and before the task that decoded its last patch
  // returns the memory.
  listener_->Drain(std::chrono::seconds(60));
  while (service_->store().state().reserved != 0) std::this_thread::yield();

  const std::string text = operations_.metrics.Text();
  for (const std::string& line :
       {std::string("quarry_requests_total{code=\"OK\",method=\"Read\"} 1\n"),
        std::string("quarry_requests_total{code=\"NOT_FOUND\",method=\"Read\"} 1\n"),
        std::string("quarry_requests_total{code=\"OK\",method=\"PlanRead\"} 1\n"),
        std::string("quarry_request_seconds_count{method=\"Read\"} 2\n"),
        fmt::format("quarry_decoded_patches_total {}\n", patches), std::string("quarry_requests_running 0\n"),
        std::string("quarry_memory_budget_bytes 1073741824\n"),
        std::string("quarry_memory_reserved_bytes 0\n"), std::string("quarry_memory_waiting_reads 0\n")}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  }
  const std::string sent = "\nquarry_sent_bytes_total ";
  ASSERT_NE(text.find(sent), std::string::npos);
  const double bytes = std::stod(text.substr(text.find(sent) + sent.size()));
  EXPECT_GT(bytes, 37 * 22 * 13 * 4) << "the samples, and the messages around them";
  EXPECT_LT(bytes, 37 * 22 * 13 * 4 * 2);
}

TEST_F(OperationsTest, DamageIsCountedByDataset) {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(Path("a"))) {
    if (entry.path().extension() == ".qsf") std::filesystem::resize_file(entry.path(), 100);
  }
  Start();
  EXPECT_EQ(ReadWith("", "a").code(), StatusCode::kDataLoss);
  listener_->Drain(std::chrono::seconds(60));
  EXPECT_NE(operations_.metrics.Text().find("quarry_damage_total{dataset=\"a\"} 1\n"), std::string::npos)
      << operations_.metrics.Text();
  EXPECT_NE(log_.str().find("[error] request"), std::string::npos) << log_.str();
}

TEST(Metrics, AreServedOnAFreePortAndStopWithTheObject) {
  Metrics metrics;
  const auto port = metrics.Serve("127.0.0.1:0");
  ASSERT_TRUE(port.ok()) << port.status().message();
  EXPECT_GT(*port, 0);
  Metrics other;
  const Status taken = other.Serve(fmt::format("127.0.0.1:{}", *port)).status();
  EXPECT_EQ(taken.code(), StatusCode::kUnavailable);
  EXPECT_EQ(other.Serve("nowhere").status().code(), StatusCode::kInvalidArgument);
}

// --- health: messages of grpc.health.v1 by their bytes, field 1 is the status ---

const std::string kServing = "\x08\x01";
const std::string kNotServing = "\x08\x02";

grpc::ByteBuffer HealthRequest(const std::string& service) {
  const std::string bytes =
      service.empty() ? "" : "\x0a" + std::string(1, static_cast<char>(service.size())) + service;
  const grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

std::string Bytes(const grpc::ByteBuffer& buffer) {
  grpc::Slice slice;
  if (!buffer.DumpToSingleSlice(&slice).ok()) return "";
  return std::string(reinterpret_cast<const char*>(slice.begin()), slice.size());
}

/// One stream of grpc.health.v1.Health/Watch; blocking.
class HealthWatch {
 public:
  HealthWatch(const std::shared_ptr<grpc::Channel>& channel, const std::string& service)
      : stub_(channel), call_(stub_.PrepareCall(&context_, "/grpc.health.v1.Health/Watch", &queue_)) {
    call_->StartCall(nullptr);
    Wait();
    call_->WriteLast(HealthRequest(service), {}, nullptr);
    Wait();
  }
  ~HealthWatch() {
    context_.TryCancel();
    queue_.Shutdown();
    while (Wait()) {
    }
  }

  /// The next status; empty when the server has ended the stream.
  std::string Next() {
    grpc::ByteBuffer message;
    call_->Read(&message, nullptr);
    return Wait() ? Bytes(message) : "";
  }

 private:
  bool Wait() {
    void* tag = nullptr;
    bool ok = false;
    return queue_.Next(&tag, &ok) && ok;
  }

  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  grpc::GenericStub stub_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
};

TEST_F(OperationsTest, HealthIsServingWithoutATokenUntilTheServerDrains) {
  SetTokens("alice sha256:" + Sha256Hex("t") + " *\n");
  Start();
  HealthWatch whole(channel_, "");
  HealthWatch service(channel_, "quarry.v1.QuarryService");
  EXPECT_EQ(whole.Next(), kServing);
  EXPECT_EQ(service.Next(), kServing);

  operations_.running = 1;  // a call that takes long
  std::thread drain([&] { listener_->Drain(std::chrono::hours(1)); });
  EXPECT_EQ(whole.Next(), kNotServing);
  EXPECT_EQ(service.Next(), kNotServing);
  while (!operations_.draining) std::this_thread::yield();
  grpc::ClientContext context;
  EXPECT_EQ(Plan(&context, "a", "pressure").error_code(), grpc::StatusCode::UNAVAILABLE);
  operations_.running = 0;
  drain.join();  // far within the hour, though two streams watch
  listener_.reset();
  EXPECT_EQ(whole.Next(), "");
}

/// How a Read ends whose question is never sent, or consists of the given bytes.
grpc::Status ReadWithQuestion(const std::shared_ptr<grpc::Channel>& channel, const char* token,
                              std::optional<std::string> question) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  if (token != nullptr) context.AddMetadata("authorization", std::string("Bearer ") + token);
  grpc::CompletionQueue queue;
  const auto call = stub.PrepareCall(&context, "/quarry.v1.QuarryService/Read", &queue);
  void* tag = nullptr;
  bool ok = false;
  call->StartCall(&tag);
  queue.Next(&tag, &ok);
  if (question) {
    const grpc::Slice slice(*question);
    call->WriteLast(grpc::ByteBuffer(&slice, 1), grpc::WriteOptions(), &tag);
    queue.Next(&tag, &ok);
  }
  grpc::Status status;
  call->Finish(&status, &tag);
  queue.Next(&tag, &ok);
  return status;
}

TEST_F(OperationsTest, AReadIsRefusedBeforeItsQuestionIsThere) {
  SetTokens("alice sha256:" + Sha256Hex("t") + " *\n");
  Start();
  EXPECT_EQ(ReadWithQuestion(channel_, nullptr, {}).error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(ReadWithQuestion(channel_, "guess", {}).error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(ReadWithQuestion(channel_, "t", "\xff\xff").error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(operations_.running, 0);
}

TEST_F(OperationsTest, LongTextsOfErrorsArriveShortened) {
  Start();
  grpc::ClientContext context;
  const grpc::Status status = Plan(&context, "a", std::string(100'000, 'u') + "\u00e9");
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND) << status.error_message();
  EXPECT_LE(status.error_message().size(), 1100u);
  EXPECT_TRUE(status.error_message().ends_with(" ...")) << status.error_message();
}

TEST_F(OperationsTest, QuestionsThatGrowInMemoryAreRefusedUnparsed) {
  Start();
  const auto ask = [&](int fields, const std::string& field) {
    pb::PlanReadRequest request;
    request.mutable_query()->set_dataset("a");
    for (int i = 0; i < fields; ++i) request.mutable_query()->add_fields(field);
    grpc::ClientContext context;
    pb::PlanReadResponse response;
    return stub_->PlanRead(&context, request, &response);
  };
  const grpc::Status many = ask(5000, "");
  EXPECT_EQ(many.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_NE(many.error_message().find("more than 4096"), std::string::npos) << many.error_message();
  const grpc::Status large = ask(200, std::string(10'000, 'u'));
  EXPECT_EQ(large.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_NE(large.error_message().find("262144"), std::string::npos) << large.error_message();
}

// --- who may listen, and be listened to ---

TEST(CheckPlainText, IsForThisMachineUnlessToldOtherwise) {
  EXPECT_TRUE(CheckPlainText("--listen", "127.0.0.1:0", false).ok());
  EXPECT_TRUE(CheckPlainText("--listen", "[::1]:0", false).ok());
  EXPECT_TRUE(CheckPlainText("--listen", "0.0.0.0:0", true).ok());
  for (const char* address : {"0.0.0.0:0", "[::]:0", "node7:0"}) {
    const Status status = CheckPlainText("--listen", address, false);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find("--insecure"), std::string::npos) << status.message();
    EXPECT_NE(status.message().find(address), std::string::npos) << status.message();
  }
}

TEST_F(OperationsTest, TwoServersDoNotShareAPort) {
  Start();
  ListenOptions second = listen_;
  second.address = listener_->address();
  EXPECT_EQ(Listener::Start(second, service_.get()).status().code(), StatusCode::kUnavailable);
}

TEST_F(OperationsTest, TokensOpenTheirDatasetsOnly) {
  // A dataset whose name is that of another one plus the optional ending.
  testing::MakeDataset(Path("a.quarry"), {});
  SetTokens("alice sha256:" + Sha256Hex("token-a") + " a\nall sha256:" + Sha256Hex("token-all") + " *\n");
  Start();

  EXPECT_EQ(ReadWith("", "a").code(), StatusCode::kUnauthenticated);
  EXPECT_EQ(ReadWith("wrong", "a").code(), StatusCode::kUnauthenticated);
  EXPECT_TRUE(ReadWith("token-a", "a").ok());
  EXPECT_TRUE(ReadWith("token-all", "b").ok());
  EXPECT_EQ(ReadWith("token-a", "b").code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(ReadWith("token-a", "not-there").code(), StatusCode::kPermissionDenied)
      << "whether a dataset exists is not for everybody to know";
  EXPECT_EQ(ReadWith("token-all", "not-there").code(), StatusCode::kNotFound);
  EXPECT_EQ(ReadWith("token-a", "a.quarry").code(), StatusCode::kPermissionDenied)
      << "another dataset than \"a\"";
  EXPECT_EQ(ReadWith("two words", "a").code(), StatusCode::kInvalidArgument);
  listener_->Drain(std::chrono::seconds(60));
  EXPECT_NE(log_.str().find("(\"alice\"): Read \"a\" OK"), std::string::npos) << log_.str();
  EXPECT_EQ(log_.str().find("token-a"), std::string::npos) << "tokens do not go into the log";
}

TEST_F(OperationsTest, ListsShowWhatTheTokenIsFor) {
  SetTokens("alice sha256:" + Sha256Hex("t") + " b\n");
  Start();
  client::Options options;
  options.security.token = "t";
  const auto list = client::ListDatasets("grpc://" + listener_->address(), options);
  ASSERT_TRUE(list.ok()) << list.status().message();
  ASSERT_EQ(list->size(), 1u);
  EXPECT_EQ(list->front().name, "b");
  EXPECT_EQ(client::ListDatasets("grpc://" + listener_->address()).status().code(),
            StatusCode::kUnauthenticated);
}

TEST(Client, SendsNoTokenInPlainTextToOtherMachines) {
  client::EnableGrpc();
  client::Options options;
  options.security.token = "t";
  const Status status = client::Dataset::Open("grpc://192.0.2.1:1/a", options).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("grpcs://"), std::string::npos) << status.message();
}

// --- limits ---

TEST_F(OperationsTest, AReadThatIsTooDearIsRefusedWithWhatToAskInstead) {
  // 37x22x13 samples of 4 bytes are 42,328 bytes; level 1 has 19x11x7 of them, 5,852 bytes, level 2 10x6x4,
  // 960.
  operations_.limits.request_bytes = 4000;
  Start();
  const Status status = ReadWith("", "a");
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  for (const char* part : {"41.3 KiB", "3.91 KiB", "level 2", "960 B"})
    EXPECT_NE(status.message().find(part), std::string::npos) << part << ": " << status.message();
  const auto dataset = *client::Dataset::Open(Target("a"));
  const auto advised = dataset->Read({.field = "pressure", .target = query::AtLevel{2}});
  ASSERT_TRUE(advised.ok()) << "the advice is good: " << advised.status().message();
  EXPECT_EQ(advised->data.size(), 960u);
  EXPECT_TRUE(dataset->PlanRead({.field = "pressure"}).ok()) << "the cost can be asked for";
}

TEST_F(OperationsTest, StatisticsAndPointsAreCheckedLikeReads) {
  operations_.limits.request_bytes = 4000;
  SetTokens("alice sha256:" + Sha256Hex("t") + " a\n");
  Start();
  client::Options options;
  options.security.token = "t";
  const auto dataset = *client::Dataset::Open(Target("a"), options);
  query::PointsRequest points{.field = "pressure", .points = std::vector<query::Point>(1000)};
  const Status of_points = dataset->ReadPoints(points).status();
  EXPECT_EQ(of_points.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(of_points.message().find("fewer points"), std::string::npos) << of_points.message();
  points.cost_only = true;
  EXPECT_TRUE(dataset->ReadPoints(points).ok()) << "the cost can be asked for";
  EXPECT_EQ(dataset->Statistics({.read = {.field = "pressure"}}).status().code(),
            StatusCode::kResourceExhausted);
  EXPECT_TRUE(dataset->Statistics({.read = {.field = "pressure", .target = query::AtLevel{2}}}).ok());

  pb::GetStatisticsRequest statistics;
  statistics.mutable_query()->set_dataset("a");
  pb::GetStatisticsResponse statistics_response;
  grpc::ClientContext no_token;
  EXPECT_EQ(stub_->GetStatistics(&no_token, statistics, &statistics_response).error_code(),
            grpc::StatusCode::UNAUTHENTICATED);
  pb::ReadPointsRequest other;
  other.set_dataset("b");
  pb::ReadPointsResponse other_response;
  grpc::ClientContext wrong_dataset;
  wrong_dataset.AddMetadata("authorization", "Bearer t");
  EXPECT_EQ(stub_->ReadPoints(&wrong_dataset, other, &other_response).error_code(),
            grpc::StatusCode::PERMISSION_DENIED);
}

TEST_F(OperationsTest, CallsBeyondTheMostAreRefused) {
  operations_.limits.calls = 1;
  Start();
  std::optional running(*operations_.clients.Begin("somebody"));
  grpc::ClientContext context;
  const grpc::Status status = Plan(&context, "a", "pressure");
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_NE(status.error_message().find("1 calls are running"), std::string::npos) << status.error_message();
  running.reset();
  grpc::ClientContext again;
  EXPECT_TRUE(Plan(&again, "a", "pressure").ok());
}

TEST_F(OperationsTest, AClientAsksAgainWhereTooManyCallsRunAndNotWhereItAsksTooMuch) {
  operations_.limits.calls = 1;
  operations_.limits.request_bytes = 4000;
  Start();
  std::optional running(*operations_.clients.Begin("somebody"));
  const auto times = [this](const std::string& code) {
    const std::string all = operations_.metrics.Text();
    const std::string name = "quarry_requests_total{code=\"" + code + "\",method=\"GetDataset\"} ";
    const std::size_t at = all.find(name);
    return at == std::string::npos ? 0 : std::stoi(all.substr(at + name.size()));
  };
  std::atomic<bool> waited = false;
  std::thread others([&] {
    while (times("RESOURCE_EXHAUSTED") == 0) std::this_thread::yield();
    waited = true;
    running.reset();
  });
  const auto dataset = client::Dataset::Open(Target("a"));
  others.join();
  ASSERT_TRUE(dataset.ok()) << dataset.status().message();
  EXPECT_TRUE(waited);

  EXPECT_EQ((*dataset)->Read({.field = "pressure"}).status().code(), StatusCode::kResourceExhausted);
  listener_->Drain(std::chrono::seconds(60));
  EXPECT_NE(operations_.metrics.Text().find("code=\"RESOURCE_EXHAUSTED\",method=\"Read\"} 1\n"),
            std::string::npos)
      << operations_.metrics.Text();
}

TEST_F(OperationsTest, OneClientCannotTakeAllCalls) {
  SetTokens("alice sha256:" + Sha256Hex("token-a") + " *\nbob sha256:" + Sha256Hex("token-b") + " *\n");
  operations_.clients.SetLimits({.calls = 1});
  Start();
  const auto running = operations_.clients.Begin("alice");
  ASSERT_TRUE(running.ok());
  const Status status = ReadWith("token-a", "a");
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("1 calls of \"alice\" are running"), std::string::npos) << status.message();
  EXPECT_TRUE(ReadWith("token-b", "a").ok());
}

TEST_F(OperationsTest, WithoutTokensAClientIsItsAddress) {
  operations_.clients.SetLimits({.bytes = 50'000});  // 42,328 bytes of samples are a whole field
  Start();
  {
    auto running = *operations_.clients.Begin("ipv4:127.0.0.1");
    ASSERT_TRUE(running.Add(40'000, "less").ok());
    const Status status = ReadWith("", "a");
    EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
    for (const char* part : {"41.3 KiB", "39.1 KiB", "48.8 KiB", "ipv4:127.0.0.1", "level 1", "5.71 KiB"})
      EXPECT_NE(status.message().find(part), std::string::npos) << part << ": " << status.message();
    const auto dataset = *client::Dataset::Open(Target("a"));
    EXPECT_TRUE(dataset->Read({.field = "pressure", .target = query::AtLevel{1}}).ok())
        << "the advice is good";
  }
  EXPECT_TRUE(ReadWith("", "a").ok());
  listener_->Drain(std::chrono::seconds(60));
  EXPECT_EQ(operations_.clients.size(), 0u);
}

TEST_F(OperationsTest, RequestsBeyondFourMebibytesAreRefused) {
  Start();
  grpc::ClientContext context;
  EXPECT_EQ(Plan(&context, std::string(5 << 20, 'x'), "pressure").error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  grpc::ClientContext again;
  EXPECT_TRUE(Plan(&again, "a", "pressure").ok());
}

TEST_F(OperationsTest, TooLongQuestionsAreRefusedAndTheConnectionStays) {
  Start();
  constexpr int kAtOnce = 2;  // fewer bytes in flight than ConnectionRules::question_bytes
  std::vector<std::future<grpc::Status>> statuses;
  statuses.reserve(kAtOnce);
  for (int i = 0; i < kAtOnce; ++i) {
    statuses.push_back(std::async(std::launch::async, [this] {
      grpc::ClientContext context;
      return Plan(&context, std::string(3 << 20, 'x'), "pressure");
    }));
  }
  for (auto& status : statuses) {
    const grpc::Status ended = status.get();
    EXPECT_EQ(ended.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << ended.error_message();
  }
}

TEST_F(OperationsTest, AnAnswerThatTakesTooLongEnds) {
  operations_.limits.time = std::chrono::milliseconds(1);
  testing::MakeDataset(Path("large"), {.dims = {128, 128, 128}, .patch = {16, 16, 16}});
  Start();
  const Status status = ReadWith("", "large");
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded) << status.message();
}

TEST_F(OperationsTest, AClientThatTakesNothingIsCutOff) {
  operations_.limits.time = operations_.limits.grace = std::chrono::milliseconds(100);
  // More than any HTTP/2 window takes at once.
  testing::MakeDataset(Path("large"), {.dims = {256, 256, 128}, .patch = {64, 64, 64}});
  Start();
  pb::ReadRequest request;
  request.mutable_query()->set_dataset("large");
  request.mutable_query()->set_field("pressure");
  grpc::ClientContext context;
  const auto stream = stub_->Read(&context, request);
  // Without any Read of the client: the server's call must still end, and return its memory.
  while (operations_.metrics.Text().find("method=\"Read\"} 1") == std::string::npos)
    std::this_thread::yield();
  EXPECT_NE(operations_.metrics.Text().find("code=\"DEADLINE_EXCEEDED\",method=\"Read\"} 1"),
            std::string::npos)
      << operations_.metrics.Text();
  EXPECT_EQ(service_->store().state().pinned, 0u);
  context.TryCancel();
  EXPECT_FALSE(stream->Finish().ok());
}

TEST(DeadlineWatch, CallsWhenTheTimeHasComeAndNotAfterwards) {
  using Clock = DeadlineWatch::Clock;
  bool in_time = false;
  while (!in_time) {  // a busy machine may be too late to take the entry away
    const auto now = Clock::now();
    std::atomic<int> early = 0;
    std::atomic<int> later = 0;
    {
      DeadlineWatch watch;
      auto kept = watch.Add(now + std::chrono::milliseconds(20), [&] { ++early; });
      auto far = watch.Add(now + std::chrono::hours(1), [&] { ++later; });
      {
        const auto gone = watch.Add(now + std::chrono::milliseconds(10), [&] { ++later; });
      }
      in_time = Clock::now() < now + std::chrono::milliseconds(10);
      while (early == 0) std::this_thread::yield();
    }
    EXPECT_EQ(early, 1);
    if (in_time) {
      EXPECT_EQ(later, 0);
    }
  }
}

// --- TLS ---

class TlsTest : public OperationsTest {
 protected:
  std::string File(const std::string& name) const { return (folder_.path() / name).string(); }

  void Openssl(const std::string& arguments) const {
    const std::string command =
        "cd '" + folder_.path().string() + "' && openssl " + arguments + " 2>openssl.log";
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
  }

  /// A self-signed certificate NAME.pem with the key NAME-key.pem.
  void Certify(const std::string& name) const {
    Openssl("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=" + name +
            " -addext subjectAltName=IP:127.0.0.1 -keyout " + name + "-key.pem -out " + name + ".pem");
  }
};

TEST_F(TlsTest, SaysWhatIsWrongWithTheFiles) {
  Certify("server");
  Certify("other");
  Openssl("ec -in server-key.pem -aes128 -passout pass:secret -out locked-key.pem");
  std::ofstream(File("text")) << "no certificate\n";

  const auto code = [&](const TlsFiles& files) { return Tls::Load(files).status().code(); };
  EXPECT_EQ(code({File("server.pem"), File("server-key.pem"), {}}), StatusCode::kOk);
  EXPECT_EQ(code({File("none.pem"), File("server-key.pem"), {}}), StatusCode::kNotFound);
  EXPECT_EQ(code({File("text"), File("server-key.pem"), {}}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({File("server.pem"), File("text"), {}}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({File("server.pem"), File("locked-key.pem"), {}}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({File("server.pem"), File("server-key.pem"), File("text")}), StatusCode::kInvalidArgument);
  const Status mixed = Tls::Load({File("server.pem"), File("other-key.pem"), {}}).status();
  EXPECT_EQ(mixed.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(mixed.message().find("does not belong"), std::string::npos) << mixed.message();
  const double days = ((*Tls::Load({File("server.pem"), File("server-key.pem"), {}}))->certificate_end() -
                       std::time(nullptr)) /
                      86400;
  EXPECT_NEAR(days, 2, 0.01);
}

TEST_F(TlsTest, BothSidesMustShowACertificateThatTheOtherTrusts) {
  Certify("server");
  Certify("viewer");
  Certify("stranger");
  listen_.tls = (*Tls::Load({File("server.pem"), File("server-key.pem"), File("viewer.pem")}))->credentials();
  Start();
  const auto read = [&](const std::string& authority, const std::string& own) {
    client::Options options;
    options.timeout_ms = 60'000;
    options.security.ca_file = authority.empty() ? "" : File(authority);
    if (!own.empty()) {
      options.security.certificate_file = File(own + ".pem");
      options.security.key_file = File(own + "-key.pem");
    }
    const auto dataset = client::Dataset::Open("grpcs://" + listener_->address() + "/a", options);
    return dataset.ok() ? (*dataset)->Read({.field = "pressure"}).status() : dataset.status();
  };
  EXPECT_EQ(read("server.pem", "viewer").code(), StatusCode::kOk);
  EXPECT_EQ(read("server.pem", "stranger").code(), StatusCode::kUnavailable);
  EXPECT_EQ(read("server.pem", "").code(), StatusCode::kUnavailable);
  EXPECT_EQ(read("stranger.pem", "viewer").code(), StatusCode::kUnavailable);
  EXPECT_EQ(read("none.pem", "viewer").code(), StatusCode::kNotFound);
  EXPECT_EQ(ReadWith("", "a").code(), StatusCode::kUnavailable) << "plain text against TLS";
  listener_->Drain(std::chrono::seconds(60));
  EXPECT_NE(log_.str().find("(\"viewer\"): Read \"a\" OK"), std::string::npos) << log_.str();
}

TEST_F(TlsTest, NewConnectionsGetTheNewCertificate) {
  for (const char* name : {"first", "second", "viewer", "stranger"}) Certify(name);
  const auto install = [&](const std::string& certificate, const std::string& key,
                           const std::string& clients) {
    for (const auto& [from, to] : {std::pair(certificate + ".pem", "server.pem"),
                                   {key + "-key.pem", "server-key.pem"},
                                   {clients + ".pem", "clients.pem"}}) {
      std::filesystem::copy_file(File(from), File(to), std::filesystem::copy_options::overwrite_existing);
    }
  };
  const auto open = [&](const std::string& authority, const std::string& own) {
    client::Options options;
    options.timeout_ms = 60'000;
    options.security.ca_file = File(authority + ".pem");
    options.security.certificate_file = File(own + ".pem");
    options.security.key_file = File(own + "-key.pem");
    return client::Dataset::Open("grpcs://" + listener_->address() + "/a", options);
  };
  install("first", "first", "viewer");
  const auto tls = *Tls::Load({File("server.pem"), File("server-key.pem"), File("clients.pem")});
  listen_.tls = tls->credentials();
  Start();
  const auto before = open("first", "viewer");
  ASSERT_TRUE(before.ok()) << before.status().message();

  // A mismatched pair changes nothing.
  install("second", "first", "stranger");
  EXPECT_EQ(tls->Reload().code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(open("first", "viewer").ok());
  EXPECT_EQ(open("first", "stranger").status().code(), StatusCode::kUnavailable);

  install("second", "second", "stranger");
  EXPECT_TRUE(open("first", "viewer").ok()) << "files count when they are read";
  ASSERT_TRUE(tls->Reload().ok());
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(open("second", "stranger").ok());
  EXPECT_EQ(open("first", "stranger").status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(open("second", "viewer").status().code(), StatusCode::kUnavailable);
  EXPECT_TRUE((*before)->Read({.field = "pressure"}).ok()) << "connections stay";
}

}  // namespace
}  // namespace quarry::server
