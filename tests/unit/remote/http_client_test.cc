// Requests side by side, and what becomes of answers that are wrong.
#include "quarry/remote/http_client.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <future>
#include <latch>
#include <numeric>
#include <set>

#include "quarry/base/cancel_scope.h"
#include "quarry/remote/retry.h"
#include "tests/testing/scripted_http.h"

namespace quarry::remote {
namespace {

using testing::HttpAnswer;
using testing::HttpAsked;
using testing::ScriptedHttp;

std::shared_ptr<HttpClient> Client(HttpOptions options = {}) {
  options.seed = 1;
  auto client = HttpClient::Make(options);
  EXPECT_TRUE(client.ok()) << client.status().message();
  return *client;
}

/// Different at each place.
std::string Object(std::size_t size) {
  std::string object(size, '\0');
  for (std::size_t i = 0; i < size; ++i) object[i] = static_cast<char>((i * 131) ^ (i >> 8));
  return object;
}

struct Answer {
  Status status;
  HttpReply reply;
  std::string bytes;
};

HttpRequest RangeRequest(const ScriptedHttp& server, std::uint64_t begin, std::string* out) {
  HttpRequest request;
  request.url = server.url() + "/object";
  request.shown = request.url;
  request.range_begin = begin;
  request.out = std::as_writable_bytes(std::span(*out));
  return request;
}

Answer Read(HttpClient* client, const ScriptedHttp& server, std::uint64_t begin, std::size_t size) {
  Answer answer;
  answer.bytes.resize(size);
  Result<HttpReply> reply = client->Fetch(RangeRequest(server, begin, &answer.bytes), {});
  answer.status = reply.status();
  if (reply.ok()) answer.reply = *std::move(reply);
  return answer;
}

TEST(HttpClient, ReadsRangesSideBySide) {
  const std::string object = Object(1 << 20);
  ScriptedHttp server([&](const HttpAsked& asked) { return HttpAnswer::RangeOf(asked, object); });
  HttpOptions options;
  options.connections = 8;
  const auto client = Client(options);
  constexpr std::size_t kPart = 4096;
  std::vector<std::string> parts(object.size() / kPart, std::string(kPart, '\0'));
  std::vector<std::promise<Result<HttpReply>>> ends(parts.size());
  for (std::size_t i = 0; i < parts.size(); ++i)
    client->Start(RangeRequest(server, i * kPart, &parts[i]),
                  [&, i](Result<HttpReply> reply) { ends[i].set_value(std::move(reply)); });
  for (auto& end : ends) {
    const Result<HttpReply> reply = end.get_future().get();
    ASSERT_TRUE(reply.ok()) << reply.status().message();
    EXPECT_EQ(reply->tag, "\"1\"");
    EXPECT_EQ(reply->size, object.size());
  }
  EXPECT_EQ(std::accumulate(parts.begin(), parts.end(), std::string()), object);
  EXPECT_LE(server.most_connections(), 8);
  EXPECT_GE(server.most_connections(), 2);
  EXPECT_EQ(client->seen().requests, parts.size());
  EXPECT_EQ(client->seen().bytes, object.size());
  EXPECT_GT(client->seen().latency, 0);
}

TEST(HttpClient, AFirstRequestKeepsNoOtherWaiting) {
  std::latch both(2);
  ScriptedHttp server([&](const HttpAsked&) {
    both.arrive_and_wait();
    return HttpAnswer::Of("200 OK", "x");
  });
  HttpOptions options;
  options.stall_patience = std::chrono::seconds(20);
  const auto client = Client(options);
  std::array<std::promise<Result<HttpReply>>, 2> ends;
  for (auto& end : ends) {
    HttpRequest request;
    request.url = request.shown = server.url() + "/object";
    request.limit = 1;
    client->Start(request, [&end](Result<HttpReply> reply) { end.set_value(std::move(reply)); });
  }
  for (auto& end : ends) EXPECT_TRUE(end.get_future().get().ok());
  EXPECT_EQ(server.requests(), 2);
}

TEST(HttpClient, ReadsWholeObjectsWithinALimit) {
  ScriptedHttp server([](const HttpAsked&) { return HttpAnswer::Of("200 OK", "hello", "ETag: \"x\"\r\n"); });
  const auto client = Client();
  HttpRequest request;
  request.url = request.shown = server.url() + "/object";
  request.limit = 5;
  const auto reply = client->Fetch(request, {});
  ASSERT_TRUE(reply.ok()) << reply.status().message();
  EXPECT_EQ(reply->body.size(), 5U);
  EXPECT_EQ(reply->tag, "\"x\"");
  request.limit = 4;
  EXPECT_EQ(client->Fetch(request, {}).status().code(), StatusCode::kDataLoss);
}

TEST(HttpClient, AnErrorStatusIsAReply) {
  ScriptedHttp server([](const HttpAsked&) { return HttpAnswer::Of("404 Not Found", "<Error/>"); });
  const auto client = Client();
  const Answer answer = Read(client.get(), server, 0, 10);
  ASSERT_TRUE(answer.status.ok()) << answer.status.message();
  EXPECT_EQ(answer.reply.status, 404);
  EXPECT_EQ(answer.reply.body.size(), 8U);
  EXPECT_EQ(server.requests(), 1);
}

TEST(HttpClient, AnswersThatMayPassAreAskedAgain) {
  for (const char* status :
       {"503 Slow Down", "429 Too Many Requests", "500 Internal Server Error", "408 Timeout"}) {
    const std::string object = Object(100);
    ScriptedHttp server([&](const HttpAsked& asked) {
      return asked.number < 2 ? HttpAnswer::Of(status, "") : HttpAnswer::RangeOf(asked, object);
    });
    const auto client = Client();
    const Answer answer = Read(client.get(), server, 10, 50);
    ASSERT_TRUE(answer.status.ok()) << answer.status.message();
    EXPECT_EQ(answer.bytes, object.substr(10, 50));
    EXPECT_EQ(client->seen().retries, 2U);
  }
}

TEST(HttpClient, GivesUpAfterFiveTries) {
  ScriptedHttp server([](const HttpAsked&) { return HttpAnswer::Of("503 Slow Down", ""); });
  const auto client = Client();
  const Answer answer = Read(client.get(), server, 0, 10);
  EXPECT_EQ(answer.status.code(), StatusCode::kUnavailable);
  EXPECT_NE(answer.status.message().find("503"), std::string::npos);
  EXPECT_EQ(server.requests(), 5);
}

TEST(HttpClient, AServerThatAsksForHoursIsNotWaitedFor) {
  ScriptedHttp server(
      [](const HttpAsked&) { return HttpAnswer::Of("503 Slow Down", "", "Retry-After: 7200\r\n"); });
  const auto client = Client();
  EXPECT_EQ(Read(client.get(), server, 0, 10).status.code(), StatusCode::kUnavailable);
  EXPECT_EQ(server.requests(), 1);
}

TEST(HttpClient, ABrokenAnswerGoesOnWhereItEnded) {
  const std::string object = Object(1000);
  std::vector<std::size_t> begins;
  std::mutex mutex;
  ScriptedHttp server([&](const HttpAsked& asked) {
    const std::lock_guard lock(mutex);
    begins.push_back(asked.Range().first);
    HttpAnswer answer = HttpAnswer::RangeOf(asked, object);
    if (asked.number < 2) {
      // Part of the body, then nothing.
      answer.bytes.resize(answer.bytes.find("\r\n\r\n") + 4 + 100);
      answer.close = true;
    }
    return answer;
  });
  const auto client = Client();
  const Answer answer = Read(client.get(), server, 50, 500);
  ASSERT_TRUE(answer.status.ok()) << answer.status.message();
  EXPECT_EQ(answer.bytes, object.substr(50, 500));
  EXPECT_EQ(begins, (std::vector<std::size_t>{50, 150, 250}));
}

TEST(HttpClient, NeverJoinsTwoVersionsOfAnObject) {
  const std::string object = Object(1000);
  ScriptedHttp server([&](const HttpAsked& asked) {
    HttpAnswer answer = HttpAnswer::RangeOf(asked, object, asked.number == 0 ? "\"1\"" : "\"2\"");
    if (asked.number == 0) {
      answer.bytes.resize(answer.bytes.find("\r\n\r\n") + 4 + 100);
      answer.close = true;
    }
    return answer;
  });
  const auto client = Client();
  const Answer answer = Read(client.get(), server, 0, 500);
  EXPECT_EQ(answer.status.code(), StatusCode::kDataLoss);
  EXPECT_NE(answer.status.message().find("was replaced"), std::string::npos);
  // And a tag that the caller knows.
  std::string out(10, '\0');
  HttpRequest request = RangeRequest(server, 0, &out);
  request.wanted_tag = "\"1\"";
  EXPECT_EQ(client->Fetch(request, {}).status().code(), StatusCode::kDataLoss);
}

TEST(HttpClient, AServerWithoutRangesIsRefusedAtOnce) {
  const std::string object = Object(50 << 20);
  ScriptedHttp server([&](const HttpAsked&) { return HttpAnswer::Of("200 OK", object); });
  const auto client = Client();
  const Answer answer = Read(client.get(), server, 100, 50);
  EXPECT_EQ(answer.status.code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(answer.status.message().find("Range"), std::string::npos);
  EXPECT_LT(client->seen().bytes, object.size() / 2);
}

TEST(HttpClient, AWholeObjectThatWasWantedNeedsNoRanges) {
  const std::string object = Object(1000);
  ScriptedHttp server([&](const HttpAsked&) { return HttpAnswer::Of("200 OK", object); });
  const Answer answer = Read(Client().get(), server, 0, 1000);
  ASSERT_TRUE(answer.status.ok()) << answer.status.message();
  EXPECT_EQ(answer.bytes, object);
}

TEST(HttpClient, WrongRangesNeverBecomeBytes) {
  const std::string object = Object(1000);
  const auto with = [&](const char* range, std::size_t size) {
    return [&object, range, size](const HttpAsked&) {
      return HttpAnswer::Of("206 Partial Content", object.substr(0, size), fmt::format("{}", range));
    };
  };
  for (const char* range : {"Content-Range: bytes 0-99/1000\r\n", "Content-Range: bytes 60-159/1000\r\n",
                            "Content-Range: bytes */1000\r\n", "Content-Range: nonsense\r\n", ""}) {
    ScriptedHttp server(with(range, 100));
    EXPECT_EQ(Read(Client().get(), server, 50, 100).status.code(), StatusCode::kUnavailable) << range;
  }
  // The object ends early.
  ScriptedHttp server(with("Content-Range: bytes 50-99/100\r\n", 50));
  const Answer answer = Read(Client().get(), server, 50, 100);
  EXPECT_EQ(answer.status.code(), StatusCode::kDataLoss);
  EXPECT_NE(answer.status.message().find("truncated"), std::string::npos);
}

TEST(HttpClient, ALongerAnswerIsCut) {
  const std::string object = Object(1000);
  ScriptedHttp server([&](const HttpAsked&) {
    return HttpAnswer::Of("206 Partial Content", object.substr(50), "Content-Range: bytes 50-999/1000\r\n");
  });
  const Answer answer = Read(Client().get(), server, 50, 100);
  ASSERT_TRUE(answer.status.ok()) << answer.status.message();
  EXPECT_EQ(answer.bytes, object.substr(50, 100));
}

TEST(HttpClient, RedirectsAreFollowedAndCounted) {
  const std::string object = Object(100);
  ScriptedHttp server([&](const HttpAsked& asked) {
    if (asked.target == "/object") return HttpAnswer::Of("302 Found", "", "Location: /there\r\n");
    return HttpAnswer::RangeOf(asked, object);
  });
  EXPECT_EQ(Read(Client().get(), server, 0, 100).bytes, object);
  ScriptedHttp around(
      [](const HttpAsked&) { return HttpAnswer::Of("302 Found", "", "Location: /object\r\n"); });
  EXPECT_EQ(Read(Client().get(), around, 0, 100).status.code(), StatusCode::kUnavailable);
  EXPECT_LE(around.requests(), 6);
}

TEST(HttpClient, RedirectsDoNotLeadToPlainTextElsewhere) {
  ScriptedHttp server([](const HttpAsked&) {
    return HttpAnswer::Of("302 Found", "", "Location: http://store.invalid/object\r\n");
  });
  const Answer answer = Read(Client().get(), server, 0, 100);
  EXPECT_EQ(answer.status.code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(answer.status.message().find("leads to plain HTTP"), std::string::npos)
      << answer.status.message();
}

TEST(HttpClient, AForkedProcessIsRefusedAtOnce) {
  ScriptedHttp server([](const HttpAsked&) { return HttpAnswer::Of("200 OK", ""); });
  const auto client = Client();
  HttpRequest request;
  request.url = request.shown = server.url() + "/object";
  const pid_t child = fork();
  if (child == 0) {
    const auto refused = client->Fetch(request, {});
    _exit(refused.status().code() == StatusCode::kFailedPrecondition ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(client->Fetch(request, {}).ok());
}

TEST(HttpClient, EachTryIsSignedForItsRange) {
  const std::string object = Object(1000);
  std::mutex mutex;
  std::set<std::string> signatures;
  ScriptedHttp server([&](const HttpAsked& asked) {
    const std::lock_guard lock(mutex);
    signatures.insert(asked.headers.at("authorization"));
    HttpAnswer answer = HttpAnswer::RangeOf(asked, object);
    if (asked.number == 0) {
      answer.bytes.resize(answer.bytes.find("\r\n\r\n") + 4 + 10);
      answer.close = true;
    }
    return answer;
  });
  const auto client = Client();
  std::string out(20, '\0');
  HttpRequest request = RangeRequest(server, 0, &out);
  request.sign = [](const HttpRequest&, Headers headers) {
    headers.emplace_back("authorization", "signed " + headers.back().second);
    return headers;
  };
  ASSERT_TRUE(client->Fetch(request, {}).ok());
  EXPECT_EQ(signatures, (std::set<std::string>{"signed bytes=0-19", "signed bytes=10-19"}));
}

TEST(HttpClient, PutsABody) {
  std::string got;
  ScriptedHttp server([&](const HttpAsked& asked) {
    got = asked.method + " " + asked.body;
    return HttpAnswer::Of("200 OK", "", "ETag: \"new\"\r\n");
  });
  HttpRequest request;
  request.method = "PUT";
  request.url = request.shown = server.url() + "/object";
  const std::string body = "some bytes";
  const auto bytes = std::as_bytes(std::span(body));
  request.body.assign(bytes.begin(), bytes.end());
  const auto reply = Client()->Fetch(request, {});
  ASSERT_TRUE(reply.ok()) << reply.status().message();
  EXPECT_EQ(reply->tag, "\"new\"");
  EXPECT_EQ(got, "PUT some bytes");
}

TEST(HttpClient, PlainHttpIsForThisMachine) {
  HttpRequest request;
  request.url = request.shown = "http://store.invalid/object";
  const auto refused = Client()->Fetch(request, {});
  EXPECT_EQ(refused.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(refused.status().message().find("--allow-http"), std::string::npos);
}

TEST(HttpClient, NobodyThereIsUnavailable) {
  int port = 0;
  {
    ScriptedHttp server([](const HttpAsked&) { return HttpAnswer::Of("200 OK", ""); });
    port = server.port();
  }
  HttpRequest request;
  request.url = request.shown = fmt::format("http://127.0.0.1:{}/object", port);
  const auto refused = Client()->Fetch(request, {});
  EXPECT_EQ(refused.status().code(), StatusCode::kUnavailable);
  EXPECT_NE(refused.status().message().find("refused"), std::string::npos) << refused.status().message();
}

TEST(HttpClient, AServerThatStallsHasFailed) {
  ScriptedHttp server([](const HttpAsked& asked) {
    HttpAnswer answer = HttpAnswer::RangeOf(asked, Object(100'000));
    answer.slow_milliseconds = 100;
    return answer;
  });
  HttpOptions options;
  options.stall_patience = std::chrono::seconds(1);
  const Answer answer = Read(Client(options).get(), server, 0, 100'000);
  EXPECT_EQ(answer.status.code(), StatusCode::kUnavailable);
  EXPECT_NE(answer.status.message().find("KiB/s"), std::string::npos);
}

/// Holds answers back until the test lets them go.
struct Gate {
  std::promise<void> open;
  std::shared_future<void> opened{open.get_future()};
  std::promise<void> reached;
};

TEST(HttpClient, NothingIsWrittenAfterACancel) {
  Gate gate;
  const std::string object = Object(1 << 20);
  ScriptedHttp server([&](const HttpAsked& asked) {
    gate.reached.set_value();
    gate.opened.wait();
    return HttpAnswer::RangeOf(asked, object);
  });
  const auto client = Client();
  std::string out(1 << 20, 'x');
  std::promise<Status> ended;
  const auto call = client->Start(RangeRequest(server, 0, &out),
                                  [&](const Result<HttpReply>& reply) { ended.set_value(reply.status()); });
  gate.reached.get_future().wait();
  client->Cancel(call);
  EXPECT_EQ(ended.get_future().get().code(), StatusCode::kCancelled);
  gate.open.set_value();
  client->Cancel(call);  // once more: nothing happens
  EXPECT_EQ(out, std::string(1 << 20, 'x'));
}

TEST(HttpClient, AHostThatHangsHoldsNoOther) {
  Gate gate;
  const std::string object = Object(1 << 10);
  ScriptedHttp hanging([&](const HttpAsked&) {
    gate.opened.wait();
    return HttpAnswer::Of("200 OK", "");
  });
  ScriptedHttp other([&](const HttpAsked& asked) { return HttpAnswer::RangeOf(asked, object); });
  HttpOptions options;
  options.connections = 2;
  const auto client = Client(options);
  std::vector<std::string> parts(5, std::string(10, '\0'));
  for (std::string& part : parts) client->Start(RangeRequest(hanging, 0, &part), [](const auto&) {});
  EXPECT_EQ(Read(client.get(), other, 0, object.size()).bytes, object);
  gate.open.set_value();
}

TEST(HttpClient, ARequestIsTakenBackOnceNobodyWaits) {
  Gate gate;
  ScriptedHttp server([&](const HttpAsked&) {
    gate.reached.set_value();
    gate.opened.wait();
    return HttpAnswer::Of("200 OK", "");
  });
  const auto client = Client();
  const auto reached = std::make_shared<std::future<void>>(gate.reached.get_future());
  const CancelScope scope(
      [reached] { return reached->wait_for(std::chrono::seconds(0)) == std::future_status::ready; });
  EXPECT_EQ(Read(client.get(), server, 0, 10).status.code(), StatusCode::kCancelled);
  gate.open.set_value();
}

TEST(HttpClient, EndsWithRequestsUnderWay) {
  Gate gate;
  ScriptedHttp server([&](const HttpAsked&) {
    gate.opened.wait();
    return HttpAnswer::Of("200 OK", "");
  });
  std::promise<Status> ended;
  std::string out(10, '\0');
  {
    const auto client = Client();
    client->Start(RangeRequest(server, 0, &out),
                  [&](const Result<HttpReply>& reply) { ended.set_value(reply.status()); });
  }
  EXPECT_EQ(ended.get_future().get().code(), StatusCode::kCancelled);
  gate.open.set_value();
}

TEST(HostBudget, HalvesWithRefusalsAndGrowsSlowly) {
  HostBudget budget(24);
  budget.Refused();
  budget.Refused();
  EXPECT_EQ(budget.allowed(), 6);
  for (int i = 0; i < 7; ++i) budget.Answered();
  EXPECT_EQ(budget.allowed(), 7);
  for (int i = 0; i < 10; ++i) budget.Refused();
  EXPECT_EQ(budget.allowed(), 1);
  int retries = 0;
  while (budget.TakeRetry()) ++retries;
  EXPECT_EQ(retries, 100);
  for (int i = 0; i < 5; ++i) budget.Answered();
  EXPECT_TRUE(budget.TakeRetry());
  EXPECT_FALSE(budget.TakeRetry());
}

}  // namespace
}  // namespace quarry::remote
