// Answers that were corrupted on their way.
#include "tests/unit/client/hostile_server.h"

#include <random>

#include "clients/cpp/grpc/answer_receiver.h"

namespace quarry::client {
namespace {

TEST_F(HostileServerTest, WhatIsHandedOnUnchangedIsRead) {
  for (const Encoding encoding : kEncodings) {
    const Status status = Read(encoding, [](int, Messages*) { return grpc::Status::OK; });
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(levels_, 3u);
  }
}

TEST_F(HostileServerTest, HeadersOfOtherAnswersAreRefused) {
  using Header = std::function<void(pb::ReadHeader*)>;
  const std::vector<std::pair<std::string, Header>> cases = {
      {"another type", [](auto* header) { header->set_dtype(pb::DATA_TYPE_FLOAT64); }},
      {"an unknown type", [](auto* header) { header->set_dtype(static_cast<pb::DataType>(99)); }},
      {"another field", [](auto* header) { header->set_field("speed"); }},
      {"a part left out",
       [](auto* header) {
         pb::Box* box = header->add_left_out();
         for (const int begin : {8, 8, 8}) box->add_begin(begin);
         for (const int end : {16, 16, 12}) box->add_end(end);
       }},
      {"another step", [](auto* header) { header->set_step(0); }},
      {"no levels", [](auto* header) { header->clear_levels(); }},
      {"a level less", [](auto* header) { header->mutable_levels()->RemoveLast(); }},
      {"not from the first level", [](auto* header) { header->mutable_levels()->DeleteSubrange(0, 1); }},
      {"a level twice", [](auto* header) { *header->add_levels() = header->levels(2); }},
      {"ascending", [](auto* header) { header->mutable_levels()->SwapElements(0, 2); }},
      {"a level that is not there", [](auto* header) { header->mutable_levels(0)->set_level(3); }},
      {"a level that nothing has", [](auto* header) { header->mutable_levels(0)->set_level(UINT32_MAX); }},
      {"another spacing", [](auto* header) { header->mutable_levels(1)->set_spacing(2, 3); }},
      {"no spacing", [](auto* header) { header->mutable_levels(1)->set_spacing(0, 0); }},
      {"beyond the grid", [](auto* header) { header->mutable_levels(2)->set_begin(0, 4000000); }},
      {"larger than any memory", [](auto* header) { header->mutable_levels(2)->set_shape(0, UINT32_MAX); }},
      {"more than asked for", [](auto* header) { header->mutable_levels(2)->set_shape(0, 27); }},
      {"less than asked for", [](auto* header) { header->mutable_levels(2)->set_shape(0, 25); }},
      {"two axes", [](auto* header) { header->mutable_levels(2)->mutable_shape()->RemoveLast(); }},
  };
  for (const auto& [what, change] : cases) {
    const auto spoil = [&alter = change](int, Messages* messages) {
      alter(messages->front().mutable_header());
      return grpc::Status::OK;
    };
    for (const Encoding encoding : kEncodings) ExpectError(encoding, what, spoil);
    EXPECT_EQ(levels_, 0u);
    spoiler_->header = change;
    EXPECT_EQ(Open()->PlanRead(kQuestion).status().code(), StatusCode::kInternal) << "plan: " << what;
    query::StatisticsRequest statistics{.read = kQuestion};
    statistics.read.first_level.reset();
    // Statistics are for level 0 only.
    spoiler_->header = [&alter = change](pb::ReadHeader* header) {
      while (header->levels_size() < 3) *header->add_levels() = header->levels(0);
      alter(header);
    };
    EXPECT_EQ(Open()->Statistics(statistics).status().code(), StatusCode::kInternal)
        << "statistics: " << what;
  }
}

TEST_F(HostileServerTest, AServerWithoutScalesOfBinsIsNoticed) {
  query::StatisticsRequest statistics{.read = {.field = "pressure"}};
  statistics.bins = 4;
  spoiler_->without_scales = true;
  EXPECT_TRUE(Open()->Statistics(statistics).ok());
  statistics.scale = query::HistogramScale::kQuantile;
  EXPECT_EQ(Open()->Statistics(statistics).status().code(), StatusCode::kUnimplemented);
  spoiler_->without_scales = false;
  EXPECT_EQ(Open()->Statistics(statistics)->statistics.histogram.edges.size(), 5u);
}

TEST_F(HostileServerTest, FewerAnswersThanWereAnnouncedAreAnError) {
  for (const Encoding encoding : kEncodings) {
    const Status status = Read(encoding, [](int, Messages* messages) {
      messages->front().mutable_header()->set_count(2);
      return grpc::Status::OK;
    });
    EXPECT_EQ(status.code(), StatusCode::kInternal) << status.message();
    EXPECT_EQ(levels_, 3u) << "the one that came is whole";
  }
}

TEST_F(HostileServerTest, OtherOrdersOfMessagesAreRefused) {
  using Case = std::pair<std::string, std::function<void(Messages*)>>;
  const std::vector<Case> cases = {
      {"nothing but an end", [](Messages* all) { all->erase(all->begin(), all->end() - 1); }},
      {"no header", [](Messages* all) { all->erase(all->begin()); }},
      {"the second answer first", [](Messages* all) { all->front().mutable_header()->set_number(1); }},
      {"a message of nothing first", [](Messages* all) { all->emplace(all->begin()); }},
      {"the header second", [](Messages* all) { std::swap((*all)[0], (*all)[1]); }},
      {"no end of a level", [](Messages* all) { FirstLevelEnd(all)->clear_level_end(); }},
      {"an end of a level twice",
       [](Messages* all) {
         pb::ReadResponse again;
         *again.mutable_level_end() = FirstLevelEnd(all)->level_end();
         all->insert(FirstLevelEnd(all) + 1, again);
       }},
      {"an end of another level",
       [](Messages* all) { FirstLevelEnd(all)->mutable_level_end()->set_level(UINT32_MAX); }},
      {"an end before its samples",
       [](Messages* all) {
         pb::ReadResponse early;
         early.mutable_level_end()->Swap(FirstLevelEnd(all)->mutable_level_end());
         FirstLevelEnd(all)->clear_level_end();
         all->insert(all->begin() + 1, early);
       }},
      {"no level", [](Messages* all) { all->erase(all->begin() + 1); }},
      {"no samples", [](Messages* all) { FirstLevelEnd(all)->clear_part(); }},
      {"the end after a level", [](Messages* all) { FirstLevelEnd(all)->mutable_read_end(); }},
      {"the end without all levels",
       [](Messages* all) {
         all->erase(FirstLevelEnd(all) + 1, all->end());
         all->back().mutable_read_end();
       }},
      {"another header in between",
       [](Messages* all) {
         pb::ReadResponse header = all->front();
         header.mutable_header()->mutable_levels(2)->set_shape(0, 25);
         all->insert(all->end() - 1, header);
       }},
      {"samples of another level",
       [](Messages* all) {
         for (pb::ReadResponse* message : Carrying(all, 2)) {
           if (message->has_samples()) message->mutable_samples()->set_level(1);
           if (message->has_patches()) message->mutable_patches()->set_level(UINT32_MAX);
           if (message->has_coded()) message->mutable_coded()->set_level(UINT32_MAX);
         }
       }},
  };
  for (const auto& [what, change] : cases) {
    const auto spoil = [&alter = change](int, Messages* messages) {
      alter(messages);
      return grpc::Status::OK;
    };
    for (const Encoding encoding : kEncodings) ExpectError(encoding, what, spoil);
  }
}

TEST_F(HostileServerTest, WhatComesAfterTheEndIsRefused) {
  for (const Encoding encoding : kEncodings) {
    const Status status = Read(encoding, [](int, Messages* messages) {
      messages->push_back(*Carrying(messages, 0).front());
      return grpc::Status::OK;
    });
    EXPECT_EQ(status.code(), StatusCode::kInternal) << status.message();
  }
}

TEST_F(HostileServerTest, BlocksThatDoNotFillTheirLevelAreRefused) {
  using Case = std::pair<std::string, std::function<void(pb::SampleBlocks*)>>;
  const std::vector<Case> cases = {
      {"a block twice, another not", [](auto* part) { *part->mutable_blocks(4) = part->blocks(0); }},
      {"a block less", [](auto* part) { part->mutable_blocks()->RemoveLast(); }},
      {"a block more", [](auto* part) { *part->add_blocks() = part->blocks(0); }},
      {"a block elsewhere", [](auto* part) { part->mutable_blocks(0)->set_begin(0, 0); }},
      {"a block of nothing",
       [](auto* part) {
         part->add_blocks()->CopyFrom(part->blocks(0)), part->mutable_blocks()->rbegin()->set_shape(0, 0);
       }},
      {"a block without end",
       [](auto* part) {
         for (int a = 0; a < 3; ++a) part->mutable_blocks(0)->set_shape(a, UINT32_MAX);
       }},
      {"two axes", [](auto* part) { part->mutable_blocks(0)->mutable_begin()->RemoveLast(); }},
      {"a byte less", [](auto* part) { part->mutable_data()->pop_back(); }},
      {"a byte more", [](auto* part) { part->mutable_data()->push_back('x'); }},
      {"no data", [](auto* part) { part->clear_data(); }},
      {"the level itself as the coarser one",
       [](auto* part) { part->mutable_blocks(0)->set_shown_level(0); }},
      {"a coarser level that is not there", [](auto* part) { part->mutable_blocks(0)->set_shown_level(3); }},
      {"a coarser level below zero",
       [](auto* part) { part->mutable_blocks(0)->set_shown_level(UINT32_MAX); }},
  };
  for (const auto& [what, change] : cases) {
    ExpectError(Encoding::kSamples, what, [&, &alter = change](int, Messages* messages) {
      pb::SampleBlocks* part = Carrying(messages, 0).front()->mutable_samples();
      // Blocks of whole patches, of one shape.
      EXPECT_GT(part->blocks_size(), 4);
      alter(part);
      return grpc::Status::OK;
    });
    EXPECT_EQ(levels_, 2u) << what << ": the levels before are good";
  }
}

TEST_F(HostileServerTest, ImpossibleTilesAreRefused) {
  using Case = std::pair<std::string, std::function<void(pb::CodedTiles*)>>;
  const std::vector<Case> cases = {
      {"a tile twice",
       [](auto* part) {
         *part->add_tiles() = part->tiles(0);
         *part->mutable_data() += part->data();
       }},
      {"no tile", [](auto* part) { part->clear_tiles(); }},
      {"a tile elsewhere", [](auto* part) { part->mutable_tiles(0)->set_begin(0, 0); }},
      {"a tile of nothing", [](auto* part) { part->mutable_tiles(0)->set_shape(0, 0); }},
      {"a tile without end",
       [](auto* part) {
         for (int a = 0; a < 3; ++a) part->mutable_tiles(0)->set_shape(a, UINT32_MAX);
       }},
      {"two axes", [](auto* part) { part->mutable_tiles(0)->mutable_shape()->RemoveLast(); }},
      {"a size without end", [](auto* part) { part->mutable_tiles(0)->set_size(UINT32_MAX); }},
      {"a size of nothing", [](auto* part) { part->mutable_tiles(0)->set_size(0); }},
      {"a byte more", [](auto* part) { part->mutable_data()->push_back('x'); }},
      {"damage elsewhere",
       [](auto* part) {
         pb::BlockExtent* const damaged = part->mutable_tiles(0)->add_damaged();
         for (int a = 0; a < 3; ++a) {
           damaged->add_begin(0);
           damaged->add_shape(1);
         }
         damaged->set_shown_level(1);
       }},
      {"damage that shows what was asked for", [](auto* part) { AddDamage(part->mutable_tiles(0)); }},
      {"damage that shows a level that is not there",
       [](auto* part) { AddDamage(part->mutable_tiles(0))->set_shown_level(UINT32_MAX); }},
      {"damage larger than its tile",
       [](auto* part) {
         pb::BlockExtent* const damaged = AddDamage(part->mutable_tiles(0));
         damaged->set_shape(0, UINT32_MAX);
         damaged->set_shown_level(1);
       }},
  };
  for (const auto& [what, change] : cases) {
    ExpectError(Encoding::kCoded, what, [&, &alter = change](int, Messages* messages) {
      alter(Carrying(messages, 0).front()->mutable_coded());
      return grpc::Status::OK;
    });
  }
  for (const std::size_t at : {0, 9, 40}) {
    ExpectError(
        Encoding::kCoded, fmt::format("another byte {}", at),
        [at](int, Messages* messages) {
          std::string& data = *Carrying(messages, 0).front()->mutable_coded()->mutable_data();
          data.at(at) = static_cast<char>(data[at] ^ 1);
          return grpc::Status::OK;
        },
        StatusCode::kDataLoss);
  }
  for (const double error : {1e-6, -1.0, static_cast<double>(NAN)}) {
    ExpectError(Encoding::kCoded, fmt::format("coding within {}", error), [error](int, Messages* messages) {
      messages->front().mutable_header()->mutable_levels(0)->set_coding_error(error);
      return grpc::Status::OK;
    });
  }
}

TEST_F(HostileServerTest, OverlappingBlocksOfTheRightVolumeAreRefused) {
  // Two blocks of one shape whose places differ along one axis: the second moves by one sample.
  for (int axis = 0; axis < 3; ++axis) {
    ExpectError(Encoding::kSamples, fmt::format("axis {}", axis), [axis](int, Messages* messages) {
      pb::SampleBlocks* part = Carrying(messages, 0).front()->mutable_samples();
      for (pb::BlockExtent& block : *part->mutable_blocks()) {
        if (block.begin(axis) < 8) continue;
        block.set_begin(axis, block.begin(axis) - 1);
        return grpc::Status::OK;
      }
      ADD_FAILURE() << "no block to move";
      return grpc::Status::OK;
    });
  }
}

TEST_F(HostileServerTest, PayloadThatDoesNotFitIsRefused) {
  using Case = std::pair<std::string, std::function<void(pb::PatchPayloads*)>>;
  const std::vector<Case> cases = {
      {"a patch that the dataset does not have",
       [](auto* part) { part->mutable_patches(0)->set_patch(UINT64_MAX); }},
      {"a patch outside the box", [](auto* part) { part->mutable_patches(0)->set_patch(4); }},
      {"a patch twice, another not",
       [](auto* part) { part->mutable_patches(1)->set_patch(part->patches(0).patch()); }},
      {"a patch less",
       [](auto* part) {
         const auto& last = *part->patches().rbegin();
         for (const auto& level : last.levels())
           part->mutable_data()->resize(part->data().size() - level.size());
         part->mutable_patches()->RemoveLast();
       }},
      {"a level less", [](auto* part) { part->mutable_patches(0)->clear_levels(); }},
      {"a level more", [](auto* part) { part->mutable_patches(0)->add_levels(); }},
      {"thousands of levels",
       [](auto* part) {
         for (int i = 0; i < 5000; ++i) part->mutable_patches(0)->add_levels();
       }},
      {"payload without end",
       [](auto* part) { part->mutable_patches(0)->mutable_levels(0)->set_size(UINT64_MAX); }},
      {"a terabyte of mask",
       [](auto* part) {
         part->mutable_patches(0)->mutable_levels(0)->set_mask_size(std::uint64_t{1} << 40);
       }},
      {"a byte less", [](auto* part) { part->mutable_data()->pop_back(); }},
      {"a byte more", [](auto* part) { part->mutable_data()->push_back('x'); }},
      {"no data", [](auto* part) { part->clear_data(); }},
      {"all levels, but damaged", [](auto* part) { part->mutable_patches(0)->set_damaged(true); }},
  };
  for (const std::uint32_t level : {0, 2}) {
    for (const auto& [what, change] : cases) {
      ExpectError(Encoding::kPatches, what, [&, &alter = change](int, Messages* messages) {
        pb::PatchPayloads* part = Carrying(messages, level).front()->mutable_patches();
        EXPECT_GT(part->patches_size(), 1);
        alter(part);
        return grpc::Status::OK;
      });
    }
    ExpectError(
        Encoding::kPatches, "another byte",
        [&](int, Messages* messages) {
          Carrying(messages, level).front()->mutable_patches()->mutable_data()->front() ^= 1;
          return grpc::Status::OK;
        },
        StatusCode::kDataLoss);
  }
}

TEST_F(HostileServerTest, DamageIsNoAnswerUnlessItIsAllowed) {
  query::ReadRequest undamaged = kQuestion;
  undamaged.allow_damage = false;
  spoiler_->read = [](int, Messages* messages) {
    pb::ReadResponse* message = Carrying(messages, 0).front();
    if (message->has_samples()) message->mutable_samples()->mutable_blocks(0)->set_shown_level(1);
    if (message->has_patches()) message->mutable_patches()->mutable_patches(0)->set_damaged(true);
    if (message->has_coded()) AddDamage(message->mutable_coded()->mutable_tiles(0))->set_shown_level(1);
    return grpc::Status::OK;
  };
  for (const Encoding encoding : kEncodings)
    EXPECT_EQ(Open({.encoding = encoding})->Read(undamaged).status().code(), StatusCode::kInternal);
}

// --- bytes ---

grpc::ByteBuffer BufferOf(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

TEST_F(HostileServerTest, AnyBytesAreAnAnswerOrAnError) {
  std::mt19937 random(11);
  for (const Encoding encoding : kEncodings) {
    Messages whole;
    ASSERT_TRUE(Read(encoding, [&](int, Messages* messages) {
                  whole = *messages;
                  return grpc::Status::OK;
                }).ok());
    const auto known = std::make_shared<const DatasetDescription>(Open()->description());
    DecodePool pool(1);
    int refused = 0;
    for (int i = 0; i < 3000; ++i) {
      levels_ = 0;
      const LevelCallback check = [&](LevelSamples* samples, const ReadCost&) {
        // The samples encoding has no checksums of samples.
        if (encoding != Encoding::kSamples && samples->damaged.empty()) {
          CheckLevel(*samples);
        } else {
          EXPECT_EQ(samples->extent, truth_.at(levels_).extent);
          EXPECT_EQ(samples->data.size(), truth_.at(levels_++).data.size());
        }
        return Status::Ok();
      };
      const query::SeriesRequest request{kQuestion, {}, {}};
      const BufferCallback own_memory;
      internal::AnswerReceiver receiver({known, {}}, request, {}, check, own_memory, &pool);
      const std::size_t hit = random() % whole.size();
      Status status;
      for (std::size_t m = 0; m < whole.size() && status.ok(); ++m) {
        std::string bytes = whole[m].SerializeAsString();
        if (m == hit) {
          // Most of the structure is in the first bytes.
          const std::size_t place =
              random() % (i % 2 == 0 ? bytes.size() : std::min<std::size_t>(bytes.size(), 40));
          if (i % 5 == 0)
            bytes.resize(place);
          else
            bytes[place] = static_cast<char>(bytes[place] ^ (1 << random() % 8));
        }
        status = receiver.Take(BufferOf(bytes));
      }
      if (status.ok()) status = receiver.CheckComplete();
      refused += !status.ok();
      EXPECT_TRUE(status.ok() || status.code() == StatusCode::kInternal ||
                  status.code() == StatusCode::kDataLoss)
          << status.message();
    }
    EXPECT_GT(refused, 500);
  }
}

}  // namespace
}  // namespace quarry::client
