// Readers that learn from an answer which field it is of.
#include "clients/cpp/grpc/seen_path.h"
#include "quarry/query/encoding_choice.h"
#include "tests/unit/client/hostile_server.h"

namespace quarry::client {
namespace {

TEST_F(HostileServerTest, AReaderAsksOnce) {
  for (const Encoding encoding : kEncodings) {
    const auto unchanged = [](int, Messages*) { return grpc::Status::OK; };
    const Status status = ReadUnopened(encoding, unchanged);
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(levels_, 3u);
    EXPECT_EQ(spoiler_->calls, 1);
  }
  const auto reader = *Reader::At(Target());
  spoiler_->calls = 0;
  const LevelSamples whole = *reader->Read({.step = 3});
  EXPECT_EQ(whole.field, "pressure") << "the only field";
  EXPECT_EQ(whole.extent, (Box{{0, 0, 0}, {40, 20, 12}}));
  const LevelSamples part =
      *reader->Read({.step = 3, .box = Box{{3, 2, 1}, {query::kGridEnd, 19, query::kGridEnd}}});
  EXPECT_EQ(part.extent, (Box{{3, 2, 1}, {40, 19, 12}}));
  EXPECT_EQ(spoiler_->calls, 2) << "one for each read";
  std::vector<int> levels;
  const auto keep = [&](LevelSamples* level, const ReadCost&) {
    levels.push_back(level->level);
    return Status::Ok();
  };
  EXPECT_TRUE(reader->ReadSeries({{.first_level = query::kCoarsestLevel}, {}, {}}, keep).ok());
  EXPECT_EQ(levels, (std::vector{2, 1, 0}));
  const auto opened = *reader->Open();
  EXPECT_EQ(part.data, opened->Read({.field = "pressure", .step = 3, .box = part.extent})->data);
  const FieldDescription& field = opened->description().fields[0];
  EXPECT_EQ(part.description->units, field.units);
  EXPECT_EQ(part.description->bound, field.bound);
  EXPECT_EQ(part.description->coder, field.coder);
}

TEST_F(HostileServerTest, AnOlderServerIsAskedForItsDataset) {
  for (const Encoding encoding : kEncodings) {
    const Status status = ReadUnopened(encoding, [](int, Messages* messages) {
      messages->front().mutable_header()->clear_described();
      return grpc::Status::OK;
    });
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(levels_, 3u);
    EXPECT_EQ(spoiler_->calls, 2);
  }
}

TEST_F(HostileServerTest, DescriptionsThatDoNotFitTheQuestionAreRefused) {
  using Description = std::function<void(pb::DatasetManifest*)>;
  const auto on_grid = [](auto change) -> Description {
    return [change](pb::DatasetManifest* described) { change(described->mutable_grids(0)); };
  };
  const auto on_field = [](auto change) -> Description {
    return [change](pb::DatasetManifest* described) { change(described->mutable_fields(0)); };
  };
  const std::vector<std::pair<std::string, Description>> cases = {
      {"nothing", [](auto* described) { described->Clear(); }},
      {"a newer format", [](auto* described) { described->set_format_version(1000); }},
      {"no field", [](auto* described) { described->clear_fields(); }},
      {"no grid", [](auto* described) { described->clear_grids(); }},
      {"two fields",
       [](auto* described) {
         *described->add_fields() = described->fields(0);
         described->mutable_fields(1)->set_name("speed");
       }},
      {"two grids", [](auto* described) { *described->add_grids() = described->grids(0); }},
      {"another field", on_field([](auto* field) { field->set_name("speed"); })},
      {"another type", on_field([](auto* field) { field->set_dtype(pb::DATA_TYPE_INT32); })},
      {"an unknown type", on_field([](auto* field) { field->set_dtype(static_cast<pb::DataType>(99)); })},
      {"an unknown coder", on_field([](auto* field) { field->set_codec("none"); })},
      {"a coder of masks", on_field([](auto* field) { field->set_codec("validity"); })},
      {"no bound", on_field([](auto* field) { field->clear_bound(); })},
      {"an impossible bound", on_field([](auto* field) { field->set_tolerance(-1); })},
      {"a layer more", on_field([](auto* field) { field->add_rougher(1); })},
      {"a grid that is not there", on_field([](auto* field) { field->set_grid(1); })},
      {"too large", on_field([](auto* field) { field->set_units(std::string(64 << 10, 'm')); })},
      {"two axes", on_grid([](auto* grid) { grid->mutable_dims()->RemoveLast(); })},
      {"no sample", on_grid([](auto* grid) { grid->set_dims(0, 0); })},
      {"a grid smaller than the box", on_grid([](auto* grid) { grid->set_dims(0, 28); })},
      {"more samples than there can be", on_grid([](auto* grid) {
         for (int a = 0; a < 3; ++a) grid->set_dims(a, UINT32_MAX);
       })},
      {"an impossible patch", on_grid([](auto* grid) { grid->set_patch(1, 7); })},
      {"no patch", on_grid([](auto* grid) { grid->clear_patch(); })},
      {"a level less than is asked for", on_grid([](auto* grid) { grid->set_levels(2); })},
      {"levels without end", on_grid([](auto* grid) { grid->set_levels(UINT32_MAX); })},
  };
  for (const auto& [what, change] : cases) {
    for (const Encoding encoding : kEncodings) {
      const Status status = ReadUnopened(encoding, [&alter = change](int, Messages* messages) {
        alter(messages->front().mutable_header()->mutable_described());
        return grpc::Status::OK;
      });
      EXPECT_EQ(status.code(), StatusCode::kInternal) << what << ": " << status.message();
      EXPECT_EQ(levels_, 0u) << what;
      EXPECT_EQ(spoiler_->calls, 1) << what << ": asking again does not help";
    }
  }
}

TEST_F(HostileServerTest, DescribedPatchesAreNoLargerThanAMessage) {
  const Status status = ReadUnopened(Encoding::kPatches, [](int, Messages* messages) {
    pb::Grid* const grid = messages->front().mutable_header()->mutable_described()->mutable_grids(0);
    for (int a = 0; a < 3; ++a) {
      grid->set_dims(a, 512);
      grid->set_patch(a, 256);
    }
    return grpc::Status::OK;
  });
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_NE(status.message().find("do not fit into a message"), std::string::npos) << status.message();
  EXPECT_EQ(levels_, 0u);
}

TEST_F(HostileServerTest, HeadersThatDoNotFitTheirDescriptionAreRefused) {
  using Header = std::function<void(pb::ReadHeader*)>;
  const std::vector<std::pair<std::string, Header>> cases = {
      {"another field", [](auto* header) { header->set_field("speed"); }},
      {"another type", [](auto* header) { header->set_dtype(pb::DATA_TYPE_FLOAT64); }},
      {"another step", [](auto* header) { header->set_step(0); }},
      {"more than asked for", [](auto* header) { header->mutable_levels(2)->set_shape(0, 27); }},
      {"larger than any memory", [](auto* header) { header->mutable_levels(2)->set_shape(0, UINT32_MAX); }},
      {"a level less", [](auto* header) { header->mutable_levels()->RemoveLast(); }},
  };
  for (const auto& [what, change] : cases) {
    const Status status = ReadUnopened(Encoding::kSamples, [&alter = change](int, Messages* messages) {
      alter(messages->front().mutable_header());
      return grpc::Status::OK;
    });
    EXPECT_EQ(status.code(), StatusCode::kInternal) << what << ": " << status.message();
    EXPECT_EQ(levels_, 0u) << what;
  }
}

TEST_F(HostileServerTest, AReaderGoesOnWithABrokenAnswerOfTheSameField) {
  for (const Encoding encoding : kEncodings) {
    for (const bool older : {false, true}) {
      const Status status = ReadUnopened(encoding, CutOnce(2, [older](Messages* all) {
                                           if (older) all->front().mutable_header()->clear_described();
                                         }));
      EXPECT_TRUE(status.ok()) << status.message();
      EXPECT_EQ(levels_, 3u);
    }
    const Status status = ReadUnopened(encoding, CutOnce(2, [](Messages* all) {
                                         auto* const described =
                                             all->front().mutable_header()->mutable_described();
                                         described->mutable_fields(0)->set_units("another");
                                       }));
    EXPECT_EQ(status.code(), StatusCode::kInternal) << status.message();
  }
}

TEST_F(HostileServerTest, AServerThatIsNotThereIsNotAskedForLong) {
  const Status status = ReadUnopened(Encoding::kSamples, [](int, Messages* messages) {
    messages->clear();
    return kBroken;
  });
  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status.message();
  EXPECT_LE(spoiler_->streams, 4) << "attempts of gRPC, which are not multiplied by ours";
}

TEST_F(HostileServerTest, AnAnswerGoesOnInTheEncodingThatTheServerChose) {
  std::vector<pb::ReadRequest> asked;
  // The server chooses for a path that is far and slow; this one is near, however busy the machine is.
  const auto seen = internal::SeenPath::To(fmt::format("127.0.0.1:{}", port_), query::kFastest);
  seen->Answered(1e-4);
  spoiler_->question = [&](pb::ReadRequest* request) {
    asked.push_back(*request);
    ASSERT_TRUE(request->has_path());
    request->mutable_path()->set_round_trip(0.1);
    request->mutable_path()->set_rate(1e4);
  };
  pb::EncodingChoice choice;
  const Status status = ReadUnopened(Encoding::kAuto, [&](int stream, Messages* messages) {
    EXPECT_EQ(messages->front().header().has_choice(), stream == 0);
    if (stream > 0) return grpc::Status::OK;
    choice = messages->front().header().choice();
    messages->resize(2);
    return kBroken;
  });

  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(levels_, 3u);
  ASSERT_EQ(asked.size(), 2u);
  EXPECT_EQ(asked[0].encoding(), pb::ENCODING_SAMPLES);
  EXPECT_NE(choice.encoding(), pb::ENCODING_SAMPLES);
  EXPECT_EQ(asked[1].encoding(), choice.encoding());
  EXPECT_FALSE(asked[1].resume_after().empty());
}

TEST_F(HostileServerTest, AnOlderServerAnswersInTheEncodingOfTheRequest) {
  spoiler_->question = [](pb::ReadRequest* request) { request->clear_path(); };
  for (const std::size_t count : {SIZE_MAX, std::size_t{2}}) {
    const Status status = ReadUnopened(Encoding::kAuto, [&](int stream, Messages* messages) {
      if (stream > 0 || count == SIZE_MAX) return grpc::Status::OK;
      messages->resize(count);
      return kBroken;
    });
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(levels_, 3u);
  }
}

TEST_F(HostileServerTest, PricesOfUnknownEncodingsAreLeftOut) {
  const Status status = ReadUnopened(Encoding::kSamples, [](int, Messages* messages) {
    pb::EncodingChoice* const choice = messages->front().mutable_header()->mutable_choice();
    choice->add_prices()->set_encoding(static_cast<pb::Encoding>(9));
    choice->add_prices()->set_seconds(NAN);
    return grpc::Status::OK;
  });
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(levels_, 3u);
}

TEST_F(HostileServerTest, AnOpenDatasetAsksForTheCoarsestLevelByItsNumber) {
  std::vector<std::uint32_t> asked;
  spoiler_->question = [&](pb::ReadRequest* request) { asked.push_back(request->query().first_level()); };
  question_.first_level = query::kCoarsestLevel;
  const Status status = Read(Encoding::kSamples, [](int, Messages*) { return grpc::Status::OK; });
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(asked, std::vector<std::uint32_t>{2}) << "older servers know no other form";
}

TEST_F(HostileServerTest, AChoiceOfUnknownEncodingsIsRefused) {
  using Change = std::function<void(pb::EncodingChoice*)>;
  const std::vector<std::pair<std::string, Change>> cases = {
      {"an encoding", [](auto* choice) { choice->set_encoding(static_cast<pb::Encoding>(9)); }},
      {"many prices",
       [](auto* choice) {
         for (int i = 0; i < 17; ++i) choice->add_prices();
       }},
      {"a path", [](auto* choice) { choice->mutable_path()->set_rate(-1); }},
  };
  for (const auto& [what, change] : cases) {
    const Status status = ReadUnopened(Encoding::kSamples, [&alter = change](int, Messages* messages) {
      alter(messages->front().mutable_header()->mutable_choice());
      return grpc::Status::OK;
    });
    EXPECT_EQ(status.code(), StatusCode::kInternal) << what << ": " << status.message();
    EXPECT_EQ(levels_, 0u) << what;
  }
}

}  // namespace
}  // namespace quarry::client
