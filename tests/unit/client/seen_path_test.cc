#include "clients/cpp/grpc/seen_path.h"

#include <gtest/gtest.h>

#include "quarry/query/encoding_choice.h"

namespace quarry::client::internal {
namespace {

TEST(SeenPath, HasTheShortestRoundTripAndNoRateAtFirst) {
  SeenPath path(/*rate_if_near=*/0);
  EXPECT_FALSE(path.path().has_value());

  for (const double seconds : {0.05, 0.02, 0.3}) path.Answered(seconds);

  EXPECT_EQ(path.path()->round_trip, 0.02);
  EXPECT_EQ(path.path()->rate, 0);
}

TEST(SeenPath, IsInThisMachineOnlyIfAddressAndRoundTripSaySo) {
  const auto rate = [](double rate_if_near, double seconds) {
    SeenPath path(rate_if_near);
    path.Answered(seconds);
    return path.path()->rate;
  };

  EXPECT_EQ(rate(2e9, 2e-4), 2e9);
  EXPECT_EQ(rate(2e9, 0.02), 0) << "a tunnel";
  EXPECT_EQ(rate(0, 2e-4), 0) << "another machine of the rack";
}

TEST(SeenPath, LearnsItsRateFromAnswers) {
  SeenPath path(/*rate_if_near=*/0);
  path.Answered(0.02);
  // As usual: 62.5 MB/s. Nothing is learned, so the rate still follows the round trip.
  const query::EncodingChoice patches{
      query::AnswerEncoding::kPatches,
      *path.path(),
      {{query::AnswerEncoding::kSamples, 9, 9}, {query::AnswerEncoding::kPatches, 1, 0.1}}};
  path.Received(patches, 10'000'000, 0.4, 0.2);
  EXPECT_EQ(path.path()->rate, 0);
  path.Received(patches, 10'000'000, 0.1, 0.1);
  EXPECT_DOUBLE_EQ(path.path()->rate, 1e8);
  // Ten seconds of waiting, of which both ends worked 0.2 at most: 10 MB in 9.8 s, but for a first window or
  // two.
  path.Received(patches, 10'000'000, 10, 10);
  EXPECT_NEAR(path.path()->rate, 1.02e6, 0.02e6);
}

TEST(SeenPath, IsSharedByTheConnectionsToAnAddress) {
  const auto first = SeenPath::To("10.1.2.3:1", 0);
  first->Answered(0.02);
  EXPECT_EQ(SeenPath::To("10.1.2.3:1", 0)->path()->round_trip, 0.02);
  EXPECT_FALSE(SeenPath::To("10.1.2.3:2", 0)->path().has_value());
}

}  // namespace
}  // namespace quarry::client::internal
