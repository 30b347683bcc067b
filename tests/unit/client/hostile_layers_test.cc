// Corrupted answers of fields in layers of accuracy.
#include "tests/unit/client/hostile_server.h"

namespace quarry::client {
namespace {

/// The dataset is in two layers of accuracy.
class HostileServerOfLayersTest : public HostileServerTest {
 protected:
  void SetUp() override { ServeLayers({0.1}, false); }

  /// Takes the further layer of a level from the first patch of a message.
  static void TakeLayer(pb::ReadResponse* message) {
    pb::PatchPayloads* part = message->mutable_patches();
    pb::LevelPayload* level = part->mutable_patches(0)->mutable_levels(0);
    part->mutable_data()->erase(level->mask_size() + level->size(), level->further_sizes(0));
    level->clear_further_sizes();
    level->clear_further_checksums();
  }
};

TEST_F(HostileServerOfLayersTest, WhatIsHandedOnUnchangedIsRead) {
  for (const Encoding encoding : kEncodings) {
    const Status status = Read(encoding, [](int, Messages*) { return grpc::Status::OK; });
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(levels_, 3u);
  }
}

TEST_F(HostileServerOfLayersTest, LayersThatWereNotAskedForAreRefused) {
  for (const std::uint32_t layer : {0u, 2u, UINT32_MAX}) {
    for (const Encoding encoding : kEncodings) {
      ExpectError(encoding, fmt::format("a header with layer {}", layer), [&](int, Messages* messages) {
        messages->front().mutable_header()->set_layer(layer);
        return grpc::Status::OK;
      });
    }
  }
}

TEST_F(HostileServerOfLayersTest, BlocksOfLayersThatCannotBeShownAreRefused) {
  using Case = std::pair<std::string, std::function<void(pb::BlockExtent*)>>;
  const std::vector<Case> cases = {
      {"the layer itself as the rougher one", [](auto* block) { block->set_shown_layer(1); }},
      {"a layer that is not there", [](auto* block) { block->set_shown_layer(2); }},
      {"a layer below zero", [](auto* block) { block->set_shown_layer(UINT32_MAX); }},
      {"a finer level than the one before",
       [](auto* block) { block->set_shown_layer(0), block->set_shown_level(0); }},
      {"a level that is not there",
       [](auto* block) { block->set_shown_layer(0), block->set_shown_level(3); }},
  };
  for (const auto& [what, change] : cases) {
    ExpectError(Encoding::kSamples, what, [&, &alter = change](int, Messages* messages) {
      alter(Carrying(messages, 1).front()->mutable_samples()->mutable_blocks(0));
      return grpc::Status::OK;
    });
    ExpectError(Encoding::kCoded, what, [&, &alter = change](int, Messages* messages) {
      alter(AddDamage(Carrying(messages, 1).front()->mutable_coded()->mutable_tiles(0)));
      return grpc::Status::OK;
    });
  }
}

TEST_F(HostileServerOfLayersTest, PayloadOfOtherLayersIsRefused) {
  using Case = std::pair<std::string, std::function<void(pb::LevelPayload*)>>;
  const std::vector<Case> cases = {
      {"a layer more", [](auto* level) { level->add_further_sizes(0), level->add_further_checksums(0); }},
      {"thousands of layers",
       [](auto* level) {
         for (int i = 0; i < 5000; ++i) level->add_further_sizes(0), level->add_further_checksums(0);
       }},
      {"no checksum", [](auto* level) { level->clear_further_checksums(); }},
      {"a checksum more", [](auto* level) { level->add_further_checksums(0); }},
      {"a layer without end", [](auto* level) { level->set_further_sizes(0, UINT64_MAX); }},
  };
  for (const auto& [what, change] : cases) {
    ExpectError(Encoding::kPatches, what, [&, &alter = change](int, Messages* messages) {
      alter(Carrying(messages, 0).front()->mutable_patches()->mutable_patches(0)->mutable_levels(0));
      return grpc::Status::OK;
    });
  }
}

TEST_F(HostileServerOfLayersTest, RougherLayersAreNoAnswerUnlessTheyAreAllowed) {
  query::ReadRequest undamaged = kQuestion;
  undamaged.allow_damage = false;
  spoiler_->read = [](int, Messages* messages) {
    pb::ReadResponse* message = Carrying(messages, 0).front();
    if (message->has_samples()) message->mutable_samples()->mutable_blocks(0)->set_shown_layer(0);
    if (message->has_patches()) TakeLayer(message);
    if (message->has_coded()) AddDamage(message->mutable_coded()->mutable_tiles(0))->set_shown_layer(0);
    return grpc::Status::OK;
  };
  for (const Encoding encoding : kEncodings) {
    EXPECT_EQ(Open({.encoding = encoding})->Read(undamaged).status().code(), StatusCode::kInternal);
    const auto shown = Open({.encoding = encoding})->Read(kQuestion);
    ASSERT_TRUE(shown.ok()) << shown.status().message();
    ASSERT_EQ(shown->damaged.size(), 1u);
    EXPECT_EQ(shown->damaged[0].shown_level, 0);
    EXPECT_EQ(shown->damaged[0].shown_layer, 0);
    EXPECT_TRUE(std::isinf(shown->max_error));
  }
}

/// A server that goes on with an answer does not know what the one before it has left out.
TEST_F(HostileServerOfLayersTest, ALayerThatIsMissingOnceIsMissingAtAllFinerLevels) {
  spoiler_->read = [](int stream, Messages* messages) {
    if (stream > 0) return grpc::Status::OK;
    pb::ReadResponse* message = Carrying(messages, 2).front();
    TakeLayer(message);
    messages->resize(static_cast<std::size_t>(message - messages->data()) + 1);
    return kBroken;
  };
  std::vector<LevelSamples> levels;
  const Status status = Open({.encoding = Encoding::kPatches, .retries = 3})
                            ->ReadLevels(kQuestion, [&](LevelSamples* samples, const ReadCost&) {
                              levels.push_back(*samples);
                              return Status::Ok();
                            });
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_EQ(spoiler_->streams, 2);
  query::ReadRequest rough = kQuestion;
  rough.layer = 0;
  std::vector<LevelSamples> rougher;
  ASSERT_TRUE((*Dataset::Open(folder_.path() / "a.quarry"))
                  ->ReadLevels(rough,
                               [&](LevelSamples* samples, const ReadCost&) {
                                 rougher.push_back(*samples);
                                 return Status::Ok();
                               })
                  .ok());
  ASSERT_EQ(levels.size(), truth_.size());
  for (std::size_t i = 0; i < levels.size(); ++i) {
    ASSERT_EQ(levels[i].damaged.size(), 1u);
    const DamagedBox& damaged = levels[i].damaged[0];
    EXPECT_EQ(damaged.shown_level, levels[i].level);
    EXPECT_EQ(damaged.shown_layer, 0);
    const Index3 shape = levels[i].extent.shape();
    for (std::int64_t s = 0; s < levels[i].extent.volume(); ++s) {
      const Index3 at = {levels[i].extent.begin[0] + s % shape[0],
                         levels[i].extent.begin[1] + s / shape[0] % shape[1],
                         levels[i].extent.begin[2] + s / (shape[0] * shape[1])};
      const bool inside = damaged.extent.Contains(Box{at, {at[0] + 1, at[1] + 1, at[2] + 1}});
      const std::span<const float> expected = (inside ? rougher : truth_)[i].SamplesAs<float>();
      ASSERT_EQ(levels[i].SamplesAs<float>()[static_cast<std::size_t>(s)],
                expected[static_cast<std::size_t>(s)]);
    }
  }
}

/// Three levels in the first layer, then the last one in two more.
class HostileServerOfFurtherLayersTest : public HostileServerTest {
 protected:
  void SetUp() override {
    question_.first_layer = 0;
    ServeLayers({0.1, 0.01}, true);
  }

  /// The message with the payload of a further layer.
  static pb::PatchPayloads* Further(Messages* messages, std::size_t layer) {
    std::size_t ends = 0;
    for (pb::ReadResponse& message : *messages) {
      if (ends == 2 + layer && message.has_patches()) return message.mutable_patches();
      ends += message.has_level_end() ? 1 : 0;
    }
    return nullptr;
  }
  /// Takes a level off the end of a patch that is the last of its message.
  static void TakeLastLevel(pb::PatchPayloads* part) {
    auto* patch = part->mutable_patches(part->patches_size() - 1);
    part->mutable_data()->resize(part->data().size() - patch->levels().rbegin()->size());
    patch->mutable_levels()->RemoveLast();
  }
};

TEST_F(HostileServerOfFurtherLayersTest, WhatIsHandedOnUnchangedIsReadWhereverTheStreamBreaks) {
  for (const Encoding encoding : kEncodings) {
    for (std::size_t count = 1; count <= 6; ++count) {  // a header and five levels; at last not at all
      const Status status = Read(encoding, [=](int stream, Messages* messages) {
        if (stream > 0 || count > 5) return grpc::Status::OK;
        messages->resize(count);
        return kBroken;
      });
      EXPECT_TRUE(status.ok()) << status.message();
      EXPECT_EQ(levels_, 5u);
    }
  }
}

TEST_F(HostileServerOfFurtherLayersTest, LayersOutOfOrderAreRefused) {
  using Case = std::pair<std::string, std::function<void(pb::ReadHeader*)>>;
  const std::vector<Case> cases = {
      {"a layer twice", [](auto* header) { header->mutable_levels(3)->set_layer(0); }},
      {"a layer that is not there", [](auto* header) { header->mutable_levels(0)->set_layer(3); }},
      {"a layer that cannot be", [](auto* header) { header->mutable_levels(0)->set_layer(UINT32_MAX); }},
      {"a layer left out", [](auto* header) { header->mutable_levels()->DeleteSubrange(3, 1); }},
      {"a layer more", [](auto* header) { *header->add_levels() = header->levels(4); }},
      {"a level in the wrong layer", [](auto* header) { header->mutable_levels(1)->clear_layer(); }},
  };
  for (const auto& [what, change] : cases) {
    for (const Encoding encoding : kEncodings) {
      ExpectError(encoding, what, [&, &alter = change](int, Messages* messages) {
        alter(messages->front().mutable_header());
        return grpc::Status::OK;
      });
    }
  }
}

TEST_F(HostileServerOfFurtherLayersTest, PayloadThatAddsNoLayerIsRefused) {
  using Case = std::pair<std::string, std::function<void(pb::PatchPayloads*)>>;
  const std::vector<Case> cases = {
      {"nothing",
       [](auto* part) {
         while (part->patches(part->patches_size() - 1).levels_size() > 0) TakeLastLevel(part);
       }},
      {"a level too few", [](auto* part) { TakeLastLevel(part); }},
      {"a mask",
       [](auto* part) {
         part->mutable_patches(0)->mutable_levels(0)->set_mask_size(1);
         part->mutable_data()->insert(0, 1, 'x');
       }},
      {"two layers",
       [](auto* part) {
         auto* level = part->mutable_patches(0)->mutable_levels(0);
         level->add_further_sizes(0), level->add_further_checksums(0);
       }},
      {"a patch twice",
       [](auto* part) {
         *part->add_patches() = part->patches(0);
         part->mutable_data()->append(1 << 16, 'x');
       }},
      {"another level", [](auto* part) { part->set_level(1); }},
  };
  for (const auto& [what, change] : cases) {
    for (const std::size_t layer : {1u, 2u}) {
      ExpectError(Encoding::kPatches, what, [&, &alter = change](int, Messages* messages) {
        alter(Further(messages, layer));
        return grpc::Status::OK;
      });
    }
  }
}

/// A server that goes on with an answer does not know what the one before it has left out.
TEST_F(HostileServerOfFurtherLayersTest, ALayerThatIsMissingIsMissingInThoseAfterIt) {
  std::uint64_t missing = 0;
  spoiler_->read = [&](int, Messages* messages) {
    pb::PatchPayloads* part = Further(messages, 1);
    pb::PatchPayload* patch = part->mutable_patches(part->patches_size() - 1);
    while (patch->levels_size() > 0) TakeLastLevel(part);
    patch->set_damaged(true);
    missing = patch->patch();
    return grpc::Status::OK;
  };
  std::vector<LevelSamples> levels;
  const Status status = Open({.encoding = Encoding::kPatches})
                            ->ReadLevels(question_, [&](LevelSamples* samples, const ReadCost&) {
                              levels.push_back(*samples);
                              return Status::Ok();
                            });
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_EQ(levels.size(), 5u);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(levels[i].data, truth_[i].data);
  for (std::size_t i = 3; i < 5; ++i) {
    ASSERT_EQ(levels[i].damaged.size(), 1u) << missing;
    EXPECT_EQ(levels[i].damaged[0].shown_level, 0);
    EXPECT_EQ(levels[i].damaged[0].shown_layer, 0);
    const Index3 shape = levels[i].extent.shape();
    for (std::int64_t s = 0; s < levels[i].extent.volume(); ++s) {
      const Index3 at = {levels[i].extent.begin[0] + s % shape[0],
                         levels[i].extent.begin[1] + s / shape[0] % shape[1],
                         levels[i].extent.begin[2] + s / (shape[0] * shape[1])};
      const bool inside = levels[i].damaged[0].extent.Contains(Box{at, {at[0] + 1, at[1] + 1, at[2] + 1}});
      const auto place = static_cast<std::size_t>(s) * sizeof(float);
      EXPECT_EQ(std::memcmp(levels[i].data.data() + place, truth_[inside ? 2 : i].data.data() + place,
                            sizeof(float)),
                0);
    }
  }
}

}  // namespace
}  // namespace quarry::client
