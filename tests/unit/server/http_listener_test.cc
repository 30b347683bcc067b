#include "server/http/http_listener.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <fstream>
#include <thread>
#include <utility>

#include "quarry/base/address.h"
#include "quarry/base/file.h"
#include "quarry/v1/service.pb.h"
#include "server/http/grpc_web.h"
#include "tests/testing/make_dataset.h"

namespace quarry::server {
namespace {

namespace pb = ::quarry::v1;

/// A client that sends what it likes. What hangs is ended by the test's own time limit.
class Client {
 public:
  explicit Client(const std::string& address) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<std::uint16_t>(ParseHostPort(address)->port));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(socket_.get(), reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
  }

  void Send(const std::string& bytes) {
    EXPECT_EQ(::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  /// Whether the server has not closed the connection.
  bool TrySend(const std::string& bytes) {
    return ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) > 0;
  }
  /// The answer up to this text, with it; or until the end.
  std::string Until(const std::string& text) {
    std::array<char, 4096> buffer;
    while (received_.find(text) == std::string::npos) {
      const ssize_t got = ::recv(socket_.get(), buffer.data(), buffer.size(), 0);
      if (got <= 0) return std::exchange(received_, {});
      received_.append(buffer.data(), static_cast<std::size_t>(got));
    }
    const std::size_t end = received_.find(text) + text.size();
    const std::string part = received_.substr(0, end);
    received_.erase(0, end);
    return part;
  }
  std::string All() { return Until("no answer has this in it"); }
  void Close() { socket_ = FileDescriptor(); }

 private:
  FileDescriptor socket_;
  std::string received_;
};

class HttpListenerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::MakeDataset(folder_.path() / "a.quarry", {});
    Start();
  }

  void Start() {
    listener_.reset();
    options_.address = "127.0.0.1:0";
    auto listener = HttpListener::Start(options_, &service_);
    ASSERT_TRUE(listener.ok()) << listener.status().message();
    listener_ = *std::move(listener);
  }

  Client Connect() { return Client(listener_->address()); }

  static std::string Call(const std::string& method, const google::protobuf::MessageLite& question) {
    const std::string message = question.SerializeAsString();
    return fmt::format(
               "POST /quarry.v1.QuarryService/{} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {}\r\n"
               "Content-Length: {}\r\n\r\n",
               method, http::kGrpcWebType, message.size() + http::kFrameHead) +
           http::FrameHead(message.size()) + message;
  }
  static pb::WatchStepsRequest Watch() {
    pb::WatchStepsRequest request;
    request.set_dataset("a");
    return request;
  }
  static std::string Get(const std::string& path) {
    return "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n";
  }

  testing::TemporaryFolder folder_;
  Operations operations_;
  Service service_{DatasetCatalogOptions{folder_.path(), {}, folder_.path()}, EngineOptions{64 << 20, 2},
                   &operations_, std::chrono::milliseconds(5)};
  HttpOptions options_;
  std::unique_ptr<HttpListener> listener_;
};

TEST_F(HttpListenerTest, AnswersCallsOneAfterTheOther) {
  Client client = Connect();
  for (int i = 0; i < 3; ++i) {
    client.Send(Call("ListDatasets", pb::ListDatasetsRequest()));
    EXPECT_TRUE(client.Until("\r\n\r\n").starts_with("HTTP/1.1 200 OK\r\n"));
    EXPECT_NE(client.Until("\r\n0\r\n\r\n").find("grpc-status: 0"), std::string::npos);
  }
  EXPECT_EQ(listener_->acceptor()->state().accepted, 1U);
}

TEST_F(HttpListenerTest, AnswersOldClientsToTheEndOfTheConnection) {
  std::string call = Call("ListDatasets", pb::ListDatasetsRequest());
  call.replace(call.find("HTTP/1.1"), 8, "HTTP/1.0");
  Client client = Connect();
  client.Send(call);
  const std::string answer = client.All();
  EXPECT_EQ(answer.find("chunked"), std::string::npos);
  EXPECT_TRUE(answer.ends_with("grpc-status: 0\r\n"));
}

TEST_F(HttpListenerTest, ClosesConnectionsThatSayNothingOrNeverEnd) {
  options_.idle = std::chrono::milliseconds(50);
  options_.head = std::chrono::milliseconds(50);
  Start();
  for (const std::string begin : {"", "G", "GET / HTTP/1.1\r\nHost: lo"}) {
    Client client = Connect();
    if (!begin.empty()) (void)client.TrySend(begin);  // it may be closed already
    EXPECT_EQ(client.All(), "") << begin;
  }
}

TEST_F(HttpListenerTest, ASlowHeadGetsNoMoreTimeByWhatComes) {
  options_.head = std::chrono::milliseconds(100);
  options_.idle = std::chrono::hours(1);
  Start();
  Client client = Connect();
  (void)client.TrySend("GET / HTTP/1.1\r\n");
  // As long as anybody listens: the test ends when the connection does.
  while (client.TrySend("x: y\r\n")) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(client.All(), "");
}

TEST_F(HttpListenerTest, ARunningCallIsAllowedAllTheTimeItNeeds) {
  options_.idle = std::chrono::milliseconds(50);
  options_.head = std::chrono::milliseconds(50);
  Start();
  Client client = Connect();
  // A busy machine may be too late with the question.
  while (!client.TrySend(Call("WatchSteps", Watch())) || client.Until("0000.qsf").empty()) client = Connect();
  // Later than a connection without a call would be closed.
  Client idle = Connect();
  EXPECT_EQ(idle.All(), "");
  testing::MakeDataset(folder_.path() / "a.quarry", {.steps = {1}});
  EXPECT_NE(client.Until("0000.qsf").find("0000.qsf"), std::string::npos);
}

TEST_F(HttpListenerTest, AClientThatClosesEndsItsCall) {
  Client client = Connect();
  client.Send(Call("WatchSteps", Watch()));
  client.Until("0000.qsf");
  EXPECT_EQ(operations_.running, 1);

  client.Close();

  while (operations_.running > 0) std::this_thread::yield();
}

TEST_F(HttpListenerTest, TheEndDoesNotWaitForCalls) {
  Client watcher = Connect();
  watcher.Send(Call("WatchSteps", Watch()));
  watcher.Until("0000.qsf");
  Client idle = Connect();
  Client half = Connect();
  half.Send("GET /");

  listener_.reset();

  EXPECT_EQ(operations_.running, 0);
  EXPECT_EQ(idle.All(), "");
  EXPECT_EQ(half.All(), "");
}

TEST_F(HttpListenerTest, ADrainTellsWatchersAndHealth) {
  Client watcher = Connect();
  watcher.Send(Call("WatchSteps", Watch()));
  watcher.Until("0000.qsf");
  watcher.Send(Get("/healthz"));

  listener_->Drain(std::chrono::hours(1));

  const std::string answer = watcher.All();
  EXPECT_NE(answer.find("grpc-status: 14"), std::string::npos);
  EXPECT_EQ(answer.find("HTTP/1.1 503 "), std::string::npos) << "no other request on this connection";
  Client client = Connect();
  client.Send(Get("/healthz"));
  EXPECT_TRUE(client.All().starts_with("HTTP/1.1 503 ")) << "and no other request on this connection";
}

TEST_F(HttpListenerTest, ADrainHasAnEnd) {
  operations_.limits.stall = std::chrono::milliseconds(0);
  Client client = Connect();
  // Its question never comes.
  client.Send(
      "POST /quarry.v1.QuarryService/Read HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n"
      "Content-Type: application/grpc-web+proto\r\n\r\n");
  while (operations_.running == 0) std::this_thread::yield();

  listener_->Drain(std::chrono::milliseconds(10));

  EXPECT_EQ(operations_.running, 0);
}

TEST_F(HttpListenerTest, ServesOnlyTheFilesOfItsPage) {
  const auto page = folder_.path() / "page";
  std::filesystem::create_directories(page / "assets");
  EXPECT_EQ(HttpListener::Start({.address = "127.0.0.1:0", .page = page.string()}, &service_).status().code(),
            StatusCode::kNotFound);
  std::ofstream(page / "index.html") << "hello";
  std::ofstream(page / "assets" / "a.js") << "script";
  std::ofstream(folder_.path() / "secret") << "secret";
  options_.page = page.string();
  Start();
  Client client = Connect();
  client.Send(Get("/"));
  EXPECT_NE(client.Until("hello").find("content-security-policy: default-src 'none'"), std::string::npos);
  client.Send(Get("/assets/a.js"));
  EXPECT_NE(client.Until("\r\n\r\nscript").find("immutable"), std::string::npos);
  for (const char* path :
       {"/../secret", "/assets/../../secret", "/%2e%2e/secret", "//secret", "/assets", "/page"}) {
    Client stranger = Connect();
    stranger.Send(std::string("GET ") + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    EXPECT_TRUE(stranger.All().starts_with("HTTP/1.1 40")) << path;
  }
}

TEST_F(HttpListenerTest, TellsThePortOfGrpc) {
  options_.grpc_port = 41234;
  Start();
  Client client = Connect();
  client.Send(Get("/server.json"));
  const std::string head = client.Until("\r\n\r\n");
  EXPECT_TRUE(head.starts_with("HTTP/1.1 200 OK\r\n"));
  EXPECT_NE(head.find("content-type: application/json\r\n"), std::string::npos);
  EXPECT_NE(head.find("cache-control: no-store\r\n"), std::string::npos);
  EXPECT_NE(head.find("cross-origin-resource-policy: same-origin\r\n"), std::string::npos);
  EXPECT_EQ(client.Until("}\n"), "{\"grpc_port\": 41234}\n");

  client.Send("HEAD /server.json HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_NE(client.Until("\r\n\r\n").find("content-length: 21\r\n"), std::string::npos);
  client.Send("GET /server.json HTTP/1.1\r\nHost: example.org\r\nConnection: close\r\n\r\n");
  EXPECT_TRUE(client.All().starts_with("HTTP/1.1 421 "));
}

TEST_F(HttpListenerTest, TellsNoPortWhereThereIsNone) {
  Client client = Connect();
  client.Send(Get("/server.json"));
  EXPECT_TRUE(client.Until("\r\n\r\n").starts_with("HTTP/1.1 404 "));
}

TEST_F(HttpListenerTest, StartsOnlyWhereItMay) {
  const auto code = [&](HttpOptions options) {
    return HttpListener::Start(options, &service_).status().code();
  };
  EXPECT_EQ(code({.address = "0.0.0.0:0"}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({.address = "0.0.0.0:0", .insecure = true}), StatusCode::kOk);
  EXPECT_EQ(code({.address = "nowhere"}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({.address = listener_->address()}), StatusCode::kUnavailable);
  EXPECT_EQ(code({.address = "127.0.0.1:0", .cors = {"example.org"}}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({.address = "127.0.0.1:0", .tls = Pem{"no", "certificate"}}), StatusCode::kInvalidArgument);
}

TEST_F(HttpListenerTest, AReadOfAChunkCountsItsMemory) {
  testing::MakeDataset(folder_.path() / "large.quarry", {.dims = {64, 64, 64}, .patch = {64, 64, 64}});
  // Running reads may have 3 of 8 MiB. This one needs two patches of 1 MiB and two messages of 256 KiB; and a
  // chunk of 1 MiB, if it is assembled.
  Service small({folder_.path(), {}, folder_.path()}, {8 << 20, 1}, &operations_);
  auto listener = HttpListener::Start({.address = "127.0.0.1:0"}, &small);
  ASSERT_TRUE(listener.ok());
  pb::ReadRequest question;
  question.mutable_query()->set_dataset("large");
  question.mutable_query()->set_field("pressure");
  Client client((*listener)->address());
  client.Send(Call("Read", question));
  EXPECT_NE(client.Until("\r\n0\r\n\r\n").find("grpc-status: 0"), std::string::npos);
  client.Send(Get("/zarr/large/0/pressure/c/0/0/0"));
  EXPECT_TRUE(client.Until("\r\n\r\n").starts_with("HTTP/1.1 503 "));
}

}  // namespace
}  // namespace quarry::server
