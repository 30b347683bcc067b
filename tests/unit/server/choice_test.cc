// Answers whose encoding the server chooses, for the path that the client has seen.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/unit/server/serving_test.h"

namespace quarry::server {
namespace {

constexpr double kFar = 0.1;       // [s]
constexpr double kSlow = 1e5;      // [bytes/s]
constexpr double kHere = 1e-5;     // [s]
constexpr double kFastest = 1e10;  // [bytes/s]

using Messages = std::vector<pb::ReadResponse>;

class ChoiceTest : public ServingTest {
 protected:
  static pb::ReadRequest Request(double round_trip, double rate) {
    pb::ReadRequest request;
    request.mutable_query()->set_dataset("a");
    request.mutable_query()->set_field("pressure");
    request.mutable_path()->set_round_trip(round_trip);
    request.mutable_path()->set_rate(rate);
    request.mutable_path()->set_threads(4);
    return request;
  }
  Messages Answer(const pb::ReadRequest& request, grpc::StatusCode code = grpc::OK) {
    grpc::ClientContext context;
    const auto stream = stub_->Read(&context, request);
    Messages messages;
    for (pb::ReadResponse message; stream->Read(&message);) messages.push_back(message);
    const grpc::Status status = stream->Finish();
    EXPECT_EQ(status.error_code(), code) << status.error_message();
    return messages;
  }
};

/// The encodings in which the parts of an answer came.
std::vector<pb::Encoding> EncodingsOf(const Messages& messages) {
  std::vector<pb::Encoding> encodings;
  const auto add = [&](bool has, pb::Encoding encoding) {
    if (has && (encodings.empty() || encodings.back() != encoding)) encodings.push_back(encoding);
  };
  for (const pb::ReadResponse& message : messages) {
    add(message.has_samples(), pb::ENCODING_SAMPLES);
    add(message.has_patches(), pb::ENCODING_PATCHES);
    add(message.has_coded(), pb::ENCODING_CODED);
  }
  return encodings;
}

double SecondsOf(const pb::EncodingChoice& choice, pb::Encoding encoding) {
  for (const pb::EncodingPrice& price : choice.prices())
    if (price.encoding() == encoding) return price.seconds();
  return std::numeric_limits<double>::infinity();
}

TEST_F(ChoiceTest, IsOfTheFewestBytesOverASlowPath) {
  pb::ReadRequest plane = Request(kFar, kSlow);
  plane.mutable_query()->set_first_level(2);
  for (const std::uint32_t begin : {0, 0, 5}) plane.mutable_query()->mutable_box()->add_begin(begin);
  for (const std::uint32_t end : {37, 22, 6}) plane.mutable_query()->mutable_box()->add_end(end);
  for (const pb::ReadRequest& request : {Request(kFar, kSlow), plane}) {
    const Messages messages = Answer(request);
    const pb::EncodingChoice& choice = messages.front().header().choice();
    const pb::Price& price = messages.front().header().price();
    ASSERT_EQ(choice.prices_size(), 3);
    EXPECT_EQ(EncodingsOf(messages), std::vector{choice.encoding()});
    EXPECT_EQ(choice.path().round_trip(), kFar);
    EXPECT_EQ(choice.path().rate(), kSlow);
    const double chosen = SecondsOf(choice, choice.encoding());
    for (const auto& [encoding, bytes] : {std::pair(pb::ENCODING_SAMPLES, price.reply_bytes()),
                                          {pb::ENCODING_PATCHES, price.bytes()},
                                          {pb::ENCODING_CODED, price.coded_bytes()}}) {
      EXPECT_GE(SecondsOf(choice, encoding), static_cast<double>(bytes) / kSlow);
      EXPECT_LE(0.95 * chosen, SecondsOf(choice, encoding)) << "samples at a twentieth more";
    }
  }
}

TEST_F(ChoiceTest, OfAnErrorMayBeCodedWithinIt) {
  pb::ReadRequest request = Request(kFar, kSlow);
  request.mutable_query()->set_max_error(0.004);
  const Messages messages = Answer(request);
  const pb::ReadHeader& header = messages.front().header();
  EXPECT_EQ(header.choice().encoding(), pb::ENCODING_CODED);
  EXPECT_EQ(EncodingsOf(messages), std::vector{pb::ENCODING_CODED});
  EXPECT_GT(header.levels(0).coding_error(), 0);
  EXPECT_LE(header.levels(0).max_error(), 0.004);
  request.mutable_query()->set_level(0);
  const Messages exact = Answer(request);
  for (const pb::LevelExtent& level : exact.front().header().levels())
    EXPECT_EQ(level.coding_error(), 0) << "nobody has allowed an error";
}

TEST_F(ChoiceTest, IsTheRequestsWithoutAPathOrWhereAnAnswerGoesOn) {
  for (const pb::Encoding encoding : {pb::ENCODING_SAMPLES, pb::ENCODING_PATCHES, pb::ENCODING_CODED}) {
    pb::ReadRequest request = Request(kFar, kSlow);
    request.clear_path();
    request.set_encoding(encoding);
    request.mutable_query()->set_first_level(3);
    const Messages whole = Answer(request);
    EXPECT_FALSE(whole.front().header().has_choice());
    EXPECT_EQ(EncodingsOf(whole), std::vector{encoding});

    request.set_resume_after(whole[2].position());
    for (const double rate : {kSlow, kFastest}) {
      *request.mutable_path() = Request(kFar, rate).path();
      const Messages rest = Answer(request);
      EXPECT_FALSE(rest.front().header().has_choice());
      EXPECT_EQ(EncodingsOf(rest), std::vector{encoding});
      ASSERT_EQ(rest.size(), whole.size() - 2) << "the header, and what came after the message";
      for (std::size_t i = 1; i < rest.size(); ++i)
        EXPECT_EQ(rest[i].SerializeAsString(), whole[i + 2].SerializeAsString());
    }
  }
}

TEST_F(ChoiceTest, IsOfEachAnswer) {
  pb::ReadRequest request = Request(kFar, kSlow);
  request.mutable_query()->mutable_steps()->set_begin(0);
  int headers = 0;
  for (const pb::ReadResponse& message : Answer(request)) {
    headers += message.has_header() ? 1 : 0;
    EXPECT_TRUE(!message.has_header() || message.header().has_choice());
  }
  EXPECT_EQ(headers, 2);
}

TEST_F(ChoiceTest, OfAnAnswerThatIsAskedForAgainLeavesItDecoded) {
  testing::MakeDataset(Path("d"), {.dims = {128, 128, 128}, .patch = {64, 64, 64}});
  pb::ReadRequest large = Request(kHere, kFastest);
  large.mutable_query()->set_dataset("d");
  const auto ask = [&] { return Answer(large).front().header().choice(); };
  const pb::EncodingChoice first = ask();
  EXPECT_EQ(first.encoding(), pb::ENCODING_PATCHES) << "more threads decode them";
  EXPECT_GT(first.prices(0).work(), 0);
  for (int i = 0; i < 2; ++i) {
    const pb::EncodingChoice again = ask();
    EXPECT_EQ(again.encoding(), pb::ENCODING_SAMPLES);
    EXPECT_EQ(again.prices(0).work(), 0) << "of samples: the readers after this one find them decoded";
  }
}

TEST_F(ChoiceTest, NearLeavesWhatIsSoonDecodedDecoded) {
  const pb::EncodingChoice choice = Answer(Request(kHere, kFastest)).front().header().choice();
  EXPECT_EQ(choice.encoding(), pb::ENCODING_SAMPLES);
  EXPECT_LT(choice.prices(1).seconds(), choice.prices(0).seconds()) << "patches would be sooner there";
}

TEST_F(ChoiceTest, CountsWhatTheServerHasDecoded) {
  pb::ReadRequest samples = Request(kHere, kFastest);
  samples.clear_path();
  Answer(samples);
  const pb::EncodingChoice choice = Answer(Request(kHere, kFastest)).front().header().choice();
  EXPECT_EQ(choice.encoding(), pb::ENCODING_SAMPLES);
  EXPECT_EQ(choice.prices(0).work(), 0);
}

TEST_F(ChoiceTest, KeepsTheOrderThatIsAskedFor) {
  pb::ReadRequest request = Request(kFar, kSlow);
  for (const double x : {30.0, 3.0, 9.0}) request.mutable_query()->add_focus(x);
  const pb::EncodingChoice choice = Answer(request).front().header().choice();
  EXPECT_EQ(choice.prices_size(), 2) << "tiles come in the order of the grid";
  EXPECT_NE(choice.encoding(), pb::ENCODING_CODED);
}

TEST_F(ChoiceTest, IsOfNoTilesThatTheServerHasNoMemoryToCode) {
  pb::ReadRequest request = Request(kFar, kSlow);
  request.mutable_query()->set_max_error(0.004);
  EXPECT_EQ(Answer(request).front().header().choice().encoding(), pb::ENCODING_CODED);
  Start(std::uint64_t{2} << 20);
  const pb::EncodingChoice choice = Answer(request).front().header().choice();
  EXPECT_EQ(choice.prices_size(), 2);
  EXPECT_NE(choice.encoding(), pb::ENCODING_CODED);
}

TEST_F(ChoiceTest, OfAPlanIsThatOfTheAnswer) {
  pb::PlanReadRequest question;
  const pb::ReadRequest request = Request(kFar, kSlow);
  *question.mutable_query() = request.query();
  pb::PlanReadResponse without;
  grpc::ClientContext first;
  ASSERT_TRUE(stub_->PlanRead(&first, question, &without).ok());
  EXPECT_FALSE(without.header().has_choice());

  *question.mutable_path() = request.path();
  pb::PlanReadResponse plan;
  grpc::ClientContext second;
  ASSERT_TRUE(stub_->PlanRead(&second, question, &plan).ok());
  EXPECT_EQ(plan.header().choice().SerializeAsString(),
            Answer(request).front().header().choice().SerializeAsString());
  EXPECT_GT(plan.header().price().coded_bytes(), 0u);
}

TEST_F(ChoiceTest, NeedsAPossiblePath) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const double wrong : {-1.0, kNan, kInfinity}) {
    Answer(Request(wrong, 1), grpc::INVALID_ARGUMENT);
    Answer(Request(1, wrong), grpc::INVALID_ARGUMENT);
  }
  pb::ReadRequest recoded = Request(kFar, kSlow);
  recoded.set_encoding(pb::ENCODING_CODED);
  recoded.set_recode_factor(2);
  Answer(recoded, grpc::INVALID_ARGUMENT);
}

TEST_F(ChoiceTest, IsToldToTheCaller) {
  const auto local = Local("a");
  for (const client::Encoding encoding : {client::Encoding::kAuto, client::Encoding::kCoded}) {
    const bool open = encoding == client::Encoding::kAuto;
    const auto remote = *client::Dataset::Open(Target("a"), {.threads = 3, .encoding = encoding});
    const query::ReadRequest request{.field = "pressure", .first_level = 2};
    std::vector<Bytes> expected;
    const auto keep = [&](client::LevelSamples* level, const client::ReadCost&) {
      expected.push_back(level->data);
      return Status::Ok();
    };
    ASSERT_TRUE(local->ReadLevels(request, keep).ok());
    std::size_t levels = 0;
    const auto check = [&](client::LevelSamples* level, const client::ReadCost& cost) {
      EXPECT_EQ(level->data, expected.at(levels++));
      EXPECT_EQ(cost.choice.has_value(), open);
      EXPECT_TRUE(!open || cost.choice->path.threads == 3);
      return Status::Ok();
    };
    EXPECT_TRUE(remote->ReadLevels(request, check).ok());
    EXPECT_EQ(levels, 3u);
    EXPECT_EQ(remote->PlanRead(request)->choice.has_value(), open);
  }
}

}  // namespace
}  // namespace quarry::server
