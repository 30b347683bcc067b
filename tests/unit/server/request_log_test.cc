#include "server/request_log.h"

#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>

#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

namespace quarry::server {
namespace {

/// A log that the test reads.
struct Captured {
  explicit Captured(LogFormat format, spdlog::level::level_enum level = spdlog::level::info)
      : log(std::make_shared<spdlog::sinks::ostream_sink_mt>(text), format, level) {}

  std::vector<std::string> lines() const {
    std::vector<std::string> lines;
    std::istringstream in(text.str());
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
  }

  std::ostringstream text;
  ServerLog log;
};

RequestRecord Example() {
  return {"00ff", "ipv4:127.0.0.1:4", "alice", "Read", "run42", StatusCode::kOk, "", 0.25, 1000, 7};
}

TEST(ServerLog, JsonLinesHaveTheFieldsOfARequest) {
  Captured captured(LogFormat::kJson);
  captured.log.Write(Example());
  ASSERT_EQ(captured.lines().size(), 1u);
  const auto line = nlohmann::json::parse(captured.lines()[0]);
  EXPECT_EQ(line["level"], "info");
  EXPECT_EQ(line["request"], "00ff");
  EXPECT_EQ(line["peer"], "ipv4:127.0.0.1:4");
  EXPECT_EQ(line["client"], "alice");
  EXPECT_EQ(line["method"], "Read");
  EXPECT_EQ(line["dataset"], "run42");
  EXPECT_EQ(line["status"], "OK");
  EXPECT_EQ(line["seconds"], 0.25);
  EXPECT_EQ(line["bytes"], 1000);
  EXPECT_EQ(line["patches"], 7);
  EXPECT_FALSE(line.contains("message"));
}

TEST(ServerLog, OtherMessagesAreObjectsToo) {
  Captured captured(LogFormat::kJson);
  captured.log.logger()->warn("a \"quoted\" word\nand a line");
  ASSERT_EQ(captured.lines().size(), 1u);
  const auto line = nlohmann::json::parse(captured.lines()[0]);
  EXPECT_EQ(line["level"], "warning");
  EXPECT_EQ(line["message"], "a \"quoted\" word\nand a line");
}

TEST(ServerLog, NoMessageForgesALine) {
  for (const LogFormat format : {LogFormat::kText, LogFormat::kJson}) {
    Captured captured(format);
    captured.log.logger()->info(
        "dataset a\n[2026-01-01 00:00:00.000] [quarry-server] [info] forged: no index");
    captured.log.logger()->info("\x1b[2Jcleared");
    ASSERT_EQ(captured.lines().size(), 2u);
    EXPECT_EQ(captured.text.str().find('\x1b'), std::string::npos);
  }
}

TEST(ServerLog, StrangersDoNotFillIt) {
  Captured captured(LogFormat::kText);
  RequestRecord stranger = Example();
  stranger.code = StatusCode::kUnauthenticated;
  for (int i = 0; i < 1000; ++i) captured.log.Write(stranger);
  EXPECT_LT(captured.lines().size(), 100u);
  EXPECT_GE(captured.lines().size(), 10u);
  captured.log.Write(Example());
  EXPECT_NE(captured.lines().back().find("Read \"run42\" OK"), std::string::npos) << captured.lines().back();
}

TEST(ServerLog, NamesFromOutsideStayInTheirLine) {
  for (const LogFormat format : {LogFormat::kText, LogFormat::kJson}) {
    Captured captured(format);
    RequestRecord record = Example();
    record.dataset = "x\nrequest forged \x1b[2J \xff\"," + std::string(100'000, 'y');
    record.code = StatusCode::kNotFound;
    record.message = "no\nsuch";
    captured.log.Write(record);

    ASSERT_EQ(captured.lines().size(), 1u);
    EXPECT_EQ(captured.text.str().find('\x1b'), std::string::npos);
    EXPECT_LT(captured.text.str().size(), 2000u);
    if (format == LogFormat::kJson) {
      EXPECT_EQ(nlohmann::json::parse(captured.lines()[0])["status"], "NOT_FOUND");
    }
  }
}

TEST(ServerLog, LevelsSortRequestsByHowTheyEnded) {
  Captured captured(LogFormat::kText, spdlog::level::warn);
  for (const StatusCode code :
       {StatusCode::kOk, StatusCode::kCancelled, StatusCode::kNotFound, StatusCode::kDataLoss}) {
    RequestRecord record = Example();
    record.code = code;
    captured.log.Write(record);
  }
  ASSERT_EQ(captured.lines().size(), 2u);
  EXPECT_NE(captured.lines()[0].find("[warning] request 00ff"), std::string::npos) << captured.lines()[0];
  EXPECT_NE(captured.lines()[0].find("NOT_FOUND"), std::string::npos);
  EXPECT_NE(captured.lines()[1].find("[error]"), std::string::npos);
}

TEST(NewRequestId, NeverRepeats) {
  std::set<std::string> ids;
  for (int i = 0; i < 10'000; ++i) {
    const std::string id = NewRequestId();
    EXPECT_EQ(id.size(), 16u);
    EXPECT_TRUE(IsGoodRequestId(id));
    EXPECT_TRUE(ids.insert(id).second);
  }
}

TEST(IsGoodRequestId, KeepsTheLogReadable) {
  EXPECT_TRUE(IsGoodRequestId("viewer-7.tile_12"));
  for (const std::string& id :
       {std::string(), std::string(65, 'a'), std::string("a b"), std::string("a\n"), std::string("\"a\"")})
    EXPECT_FALSE(IsGoodRequestId(id)) << id;
}

}  // namespace
}  // namespace quarry::server
