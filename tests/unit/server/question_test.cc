#include "server/guard/question.h"

#include <gtest/gtest.h>

#include "quarry/v1/service.pb.h"

namespace quarry::server {
namespace {

namespace pb = ::quarry::v1;

constexpr int kMost = 4096;

TEST(ParseQuestion, HasWhatTheMessageHas) {
  pb::PlanReadRequest sent;
  sent.mutable_query()->set_dataset("run42");
  sent.mutable_query()->add_fields("pressure");
  sent.mutable_query()->mutable_box()->add_begin(3);
  pb::PlanReadRequest parsed;
  ASSERT_TRUE(ParseQuestion(sent.SerializeAsString(), &parsed).ok());
  EXPECT_EQ(parsed.SerializeAsString(), sent.SerializeAsString());
}

TEST(ParseQuestion, CountsStringsAndMessagesAtEveryDepth) {
  pb::PlanReadRequest sent;
  // The query itself is one.
  for (int i = 0; i < kMost - 1; ++i) sent.mutable_query()->add_fields("");
  pb::PlanReadRequest parsed;
  EXPECT_TRUE(ParseQuestion(sent.SerializeAsString(), &parsed).ok());
  sent.mutable_query()->add_fields("");
  const Status refused = ParseQuestion(sent.SerializeAsString(), &parsed);
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(refused.message().find("4096"), std::string::npos) << refused.message();
}

TEST(ParseQuestion, CountsFieldsThatNobodyKnows) {
  std::string bytes;
  for (int i = 0; i <= kMost; ++i) bytes += "\xf8\x01\x05";  // field 31: 5
  pb::PlanReadRequest parsed;
  EXPECT_NE(ParseQuestion(bytes, &parsed).message().find("4096"), std::string::npos);
  EXPECT_TRUE(ParseQuestion(bytes.substr(3), &parsed).ok());
}

TEST(ParseQuestion, NumbersAreAsManyAsThereAre) {
  pb::ReadPointsRequest sent;
  for (int i = 0; i < 300'000; ++i) sent.add_coordinates(i);
  std::string unpacked;
  for (int i = 0; i < 300'000; ++i) unpacked += std::string("\x21\0\0\0\0\0\0\0\0", 9);  // one by one
  for (const std::string& bytes : {sent.SerializeAsString(), unpacked}) {
    pb::ReadPointsRequest parsed;
    ASSERT_TRUE(ParseQuestion(bytes, &parsed).ok());
    EXPECT_EQ(parsed.coordinates_size(), 300'000);
  }
}

TEST(ParseQuestion, WhatIsNoMessageIsRefused) {
  pb::PlanReadRequest parsed;
  for (const std::string& bytes :
       {std::string("\x0a\xff"), std::string("\x0a\x02\x0a\x05"), std::string("\x0c")}) {
    const Status refused = ParseQuestion(bytes, &parsed);
    EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(refused.message().find("PlanReadRequest"), std::string::npos) << refused.message();
  }
}

}  // namespace
}  // namespace quarry::server
