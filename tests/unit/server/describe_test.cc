// Answers that describe their field, for clients that have not asked for the dataset.

#include <gtest/gtest.h>

#include "quarry/wire/convert.h"
#include "tests/unit/server/serving_test.h"

namespace quarry::server {
namespace {

class DescribeTest : public ServingTest {
 protected:
  static pb::ReadRequest Request(const std::string& name, bool describe = true) {
    pb::ReadRequest request;
    request.mutable_query()->set_dataset(name);
    request.set_describe(describe);
    return request;
  }
  std::vector<pb::ReadResponse> Answer(const pb::ReadRequest& request) {
    grpc::ClientContext context;
    const auto stream = stub_->Read(&context, request);
    std::vector<pb::ReadResponse> messages;
    for (pb::ReadResponse message; stream->Read(&message);) messages.push_back(message);
    const grpc::Status status = stream->Finish();
    EXPECT_TRUE(status.ok()) << status.error_message();
    return messages;
  }
  std::vector<pb::ReadHeader> Headers(const pb::ReadRequest& request) {
    std::vector<pb::ReadHeader> headers;
    for (const pb::ReadResponse& message : Answer(request))
      if (message.has_header()) headers.push_back(message.header());
    return headers;
  }
};

TEST_F(DescribeTest, EachAnswerDescribesItsFieldWhereThatIsAskedFor) {
  pb::ReadRequest request = Request("a");
  request.mutable_query()->mutable_steps()->set_begin(0);
  const std::vector<pb::ReadHeader> headers = Headers(request);
  ASSERT_EQ(headers.size(), 2u);
  for (const pb::ReadHeader& header : headers) {
    const Result<DatasetDescription> described = wire::DescribedField(header.described());
    ASSERT_TRUE(described.ok()) << described.status().message();
    EXPECT_EQ(described->fields[0].name, "pressure");
    EXPECT_EQ(described->fields[0].units, "Pa");
    EXPECT_EQ(described->grids[0].dims, (Index3{37, 22, 13}));
    EXPECT_EQ(described->grids[0].patch, (Index3{8, 8, 8}));
    EXPECT_EQ(described->grids[0].levels, 4);
  }
  request.set_describe(false);
  for (const pb::ReadHeader& header : Headers(request)) EXPECT_FALSE(header.has_described());
}

TEST_F(DescribeTest, AResumedAnswerIsDescribedToo) {
  pb::ReadRequest request = Request("a");
  request.mutable_query()->set_first_level(3);
  const std::vector<pb::ReadResponse> whole = Answer(request);
  ASSERT_GT(whole.size(), 2u);
  request.set_resume_after(whole[1].position());
  const std::vector<pb::ReadResponse> rest = Answer(request);
  EXPECT_EQ(rest.size(), whole.size() - 1) << "the header, and what came after the message";
  EXPECT_EQ(rest[0].header().described().SerializeAsString(),
            whole[0].header().described().SerializeAsString());
}

TEST_F(DescribeTest, AnEmptyNameIsTheOnlyFieldAndAnOpenEndThatOfTheGrid) {
  pb::ReadRequest request = Request("a");
  for (const std::uint32_t begin : {1, 2, 3}) request.mutable_query()->mutable_box()->add_begin(begin);
  for (const std::uint32_t end : {UINT32_MAX, 20U, UINT32_MAX})
    request.mutable_query()->mutable_box()->add_end(end);
  const std::vector<pb::ReadHeader> headers = Headers(request);
  ASSERT_EQ(headers.size(), 1u);
  EXPECT_EQ(headers[0].field(), "pressure");
  EXPECT_EQ(*wire::GetExtent(headers[0].levels(0)), (Box{{1, 2, 3}, {37, 20, 13}}));
}

TEST_F(DescribeTest, PatchesComeAsPatches) {
  pb::ReadRequest request = Request("a");
  request.set_encoding(pb::ENCODING_PATCHES);
  bool patches = false;
  for (const pb::ReadResponse& message : Answer(request)) {
    EXPECT_FALSE(message.has_samples());
    patches = patches || message.has_patches();
  }
  EXPECT_TRUE(patches);
}

}  // namespace
}  // namespace quarry::server
