#include "server/http/zarr_messages.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace quarry::server::http {
namespace {

namespace pb = ::quarry::v1;

/// The chunk at the end of every axis: 7 x 2 x 13 of 16 x 16 x 16 samples of float32.
class ZarrMessagesTest : public ::testing::Test {
 protected:
  ZarrMessagesTest() {
    DatasetDescription dataset;
    dataset.grids[0].dims = {45, 34, 23};
    dataset.grids[0].patch = {16, 16, 16};
    dataset.fields.push_back({.name = "p"});
    zarr::Contents contents = *zarr::Contents::Create(dataset, {.layer = 0});
    pb::StepManifest step;
    step.set_step(5);
    step.add_fields()->set_name("p");
    contents.Add(step);
    hierarchy_.emplace(std::move(contents));
    entry_ = hierarchy_->Find("0/p/c/1/2/2");
  }

  static pb::SampleBlocks Block(std::array<std::uint32_t, 3> begin, std::array<std::uint32_t, 3> shape) {
    pb::SampleBlocks samples;
    pb::BlockExtent* block = samples.add_blocks();
    std::size_t count = 1;
    for (std::size_t a = 0; a < 3; ++a) {
      block->add_begin(begin[a]);
      block->add_shape(shape[a]);
      count *= shape[a];
    }
    samples.set_data(std::string(count * sizeof(float), '\0'));
    return samples;
  }
  Status Answer(const pb::SampleBlocks& samples) {
    zarr::ChunkBuffer chunk(entry_->chunk);
    QUARRY_RETURN_IF_ERROR(AddSamples(samples, &chunk));
    return chunk.CheckComplete();
  }

  std::optional<zarr::Hierarchy> hierarchy_;
  std::optional<zarr::Entry> entry_;
};

TEST_F(ZarrMessagesTest, AskForTheSamplesOfAChunkWithoutDamage) {
  const pb::ReadRequest request = ToMessage(hierarchy_->QuestionOf(entry_->chunk), "run");
  EXPECT_EQ(request.query().dataset(), "run");
  EXPECT_EQ(request.query().field(), "p");
  EXPECT_EQ(request.query().step(), 5U);
  EXPECT_EQ(request.query().level(), 0U);
  EXPECT_TRUE(request.query().strict());
  EXPECT_EQ(std::vector(request.query().box().begin().begin(), request.query().box().begin().end()),
            (std::vector<std::uint32_t>{32, 32, 16}));
  EXPECT_EQ(std::vector(request.query().box().end().begin(), request.query().box().end().end()),
            (std::vector<std::uint32_t>{45, 34, 23}));
}

TEST_F(ZarrMessagesTest, TakeTheBlocksOfAnAnswer) {
  pb::SampleBlocks samples = Block({32, 32, 16}, {13, 2, 3});
  const pb::SampleBlocks rest = Block({32, 32, 19}, {13, 2, 4});
  *samples.add_blocks() = rest.blocks(0);
  samples.mutable_data()->append(rest.data());
  EXPECT_TRUE(Answer(samples).ok());
}

TEST_F(ZarrMessagesTest, RefuseWhatIsNoAnswerToTheirQuestion) {
  EXPECT_EQ(Answer({}).code(), StatusCode::kInternal) << "nothing has come";
  EXPECT_EQ(Answer(Block({31, 32, 16}, {1, 1, 1})).code(), StatusCode::kInternal);
  EXPECT_EQ(Answer(Block({32, 32, 16}, {14, 2, 7})).code(), StatusCode::kInternal);
  pb::SampleBlocks shorter = Block({32, 32, 16}, {13, 2, 7});
  shorter.mutable_data()->pop_back();
  EXPECT_EQ(Answer(shorter).code(), StatusCode::kInternal);
  pb::SampleBlocks damaged = Block({32, 32, 16}, {13, 2, 7});
  damaged.mutable_blocks(0)->set_shown_level(2);
  EXPECT_EQ(Answer(damaged).code(), StatusCode::kDataLoss);
  pb::SampleBlocks twice = Block({32, 32, 16}, {13, 2, 7});
  *twice.add_blocks() = pb::BlockExtent(twice.blocks(0));
  EXPECT_EQ(Answer(twice).code(), StatusCode::kInternal);
  pb::SampleBlocks flat = Block({32, 32, 16}, {13, 2, 7});
  flat.mutable_blocks(0)->mutable_shape()->RemoveLast();
  EXPECT_EQ(Answer(flat).code(), StatusCode::kInternal);
}

}  // namespace
}  // namespace quarry::server::http
