// Streams that break, and go on.
#include "tests/unit/client/hostile_server.h"

namespace quarry::client {
namespace {

TEST_F(HostileServerTest, AStreamThatBreaksIsTakenUpAgainWhereverItBreaks) {
  for (const Encoding encoding : kEncodings) {
    for (std::size_t count = 1; count < 4; ++count) {  // a header and three levels
      const Status status = Read(encoding, CutOnce(count, [](Messages*) {}));
      EXPECT_TRUE(status.ok()) << status.message();
      EXPECT_EQ(levels_, 3u);
      EXPECT_EQ(spoiler_->streams, 2);
    }
  }
}

/// Only breaks in a row count: two streams with nothing new, then one with a message more.
TEST_F(HostileServerTest, AStreamThatComesToPiecesIsTakenUpAgainForAsLongAsItGoesOn) {
  for (const Encoding encoding : kEncodings) {
    const Status status = Read(encoding, [](int stream, Messages* messages) {
      messages->resize(stream % 3 < 2 ? 1 : 2);  // a header, and a level
      return kBroken;
    });
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(levels_, 3u);
    EXPECT_EQ(spoiler_->streams, 9);
  }
}

TEST_F(HostileServerTest, AnAnswerThatHasEndedIsNotAskedForAgain) {
  for (const Encoding encoding : kEncodings) {
    EXPECT_TRUE(Read(encoding, [](int, Messages*) { return kBroken; }).ok());
    EXPECT_EQ(levels_, 3u);
    EXPECT_EQ(spoiler_->streams, 1);
  }
}

TEST_F(HostileServerTest, AnotherAnswerDoesNotGoOnWithTheFirst) {
  using Case = std::pair<std::string, std::function<void(Messages*)>>;
  const std::vector<Case> cases = {
      {"another step", [](Messages* all) { all->front().mutable_header()->set_step(0); }},
      {"another type", [](Messages* all) { all->front().mutable_header()->set_dtype(pb::DATA_TYPE_INT32); }},
      {"other levels", [](Messages* all) { all->front().mutable_header()->mutable_levels()->RemoveLast(); }},
      {"another extent",
       [](Messages* all) { all->front().mutable_header()->mutable_levels(0)->set_shape(1, 1); }},
      {"something left out", [](Messages* all) { all->erase(all->begin() + 1); }},
      {"something once more", [](Messages* all) { all->insert(all->begin() + 1, (*all)[1]); }},
  };
  for (const auto& [what, change] : cases) {
    for (const Encoding encoding : kEncodings) {
      const Status status = Read(encoding, CutOnce(2, change));
      EXPECT_EQ(status.code(), StatusCode::kInternal) << what << ": " << status.message();
      EXPECT_EQ(spoiler_->streams, 2) << what;
    }
  }
}

TEST_F(HostileServerTest, AStreamThatEndsTooSoonAgainAndAgainIsGivenUp) {
  for (const bool ok : {true, false}) {
    const Status status = Read(Encoding::kSamples, [ok](int, Messages* messages) {
      messages->resize(1);
      return ok ? grpc::Status::OK : kBroken;
    });
    EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status.message();
    EXPECT_EQ(spoiler_->streams, 4) << "the first and three more";
    EXPECT_EQ(levels_, 0u);
  }
}

TEST_F(HostileServerTest, AnErrorOfTheCallerEndsTheReadAtOnce) {
  const auto dataset = Open({.retries = 3});
  for (const StatusCode code : {StatusCode::kUnavailable, StatusCode::kCancelled, StatusCode::kDataLoss}) {
    spoiler_->streams = 0;
    int levels = 0;
    const Status status = dataset->ReadLevels(kQuestion, [&](LevelSamples*, const ReadCost&) {
      ++levels;
      return Status(code, "the caller's own words");
    });
    EXPECT_EQ(status.code(), code);
    EXPECT_EQ(status.message(), "the caller's own words");
    EXPECT_EQ(levels, 1);
    EXPECT_EQ(spoiler_->streams, 1);
  }
}

}  // namespace
}  // namespace quarry::client
