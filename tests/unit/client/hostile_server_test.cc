// Our client against a server in front of a real one, which corrupts answers on their way: each time the
// client gets a clear error, and every level handed to the caller has exactly the requested samples.
#include <arpa/inet.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <random>
#include <thread>

#include "clients/cpp/grpc/answer_receiver.h"
#include "quarry/base/file.h"
#include "quarry/client.h"
#include "quarry/client_grpc.h"
#include "quarry/format/proto_convert.h"
#include "quarry/v1/service.grpc.pb.h"
#include "server/grpc/listener.h"
#include "tests/testing/make_dataset.h"

namespace quarry::client {
namespace {

namespace pb = ::quarry::v1;

using Messages = std::vector<pb::ReadResponse>;
/// Changes the messages of an answer, and decides how its stream ends.
using Spoil = std::function<grpc::Status(int stream, Messages* messages)>;

const grpc::Status kBroken(grpc::StatusCode::UNAVAILABLE, "cut");

/// Forwards questions to a real server, and corrupts its answers.
class Spoiler final : public pb::QuarryService::Service {
 public:
  explicit Spoiler(std::unique_ptr<pb::QuarryService::Stub> real) : real_(std::move(real)) {}

  Spoil read = [](int, Messages*) { return grpc::Status::OK; };
  std::function<void(pb::ReadHeader*)> header = [](pb::ReadHeader*) {};  ///< for plans and statistics
  bool without_scales = false;       ///< as a server that does not know them
  std::atomic<bool> silent = false;  ///< calls are not answered until they are cancelled
  std::atomic<int> calls = 0;
  std::atomic<int> streams = 0;

  grpc::Status GetDataset(grpc::ServerContext* context, const pb::GetDatasetRequest* request,
                          pb::GetDatasetResponse* response) override {
    return Forward(context, &pb::QuarryService::Stub::GetDataset, *request, response);
  }
  grpc::Status PlanRead(grpc::ServerContext* context, const pb::PlanReadRequest* request,
                        pb::PlanReadResponse* response) override {
    const grpc::Status status = Forward(context, &pb::QuarryService::Stub::PlanRead, *request, response);
    header(response->mutable_header());
    return status;
  }
  grpc::Status GetStatistics(grpc::ServerContext* context, const pb::GetStatisticsRequest* request,
                             pb::GetStatisticsResponse* response) override {
    pb::GetStatisticsRequest forwarded = *request;
    if (without_scales) forwarded.clear_scale();
    const grpc::Status status =
        Forward(context, &pb::QuarryService::Stub::GetStatistics, forwarded, response);
    header(response->mutable_header());
    return status;
  }
  grpc::Status Read(grpc::ServerContext* context, const pb::ReadRequest* request,
                    grpc::ServerWriter<pb::ReadResponse>* writer) override {
    WaitWhileSilent(context);
    grpc::ClientContext of_call;
    const auto stream = real_->Read(&of_call, *request);
    Messages messages;
    for (pb::ReadResponse message; stream->Read(&message);) messages.push_back(message);
    EXPECT_TRUE(stream->Finish().ok());
    const grpc::Status end = read(streams++, &messages);
    for (const pb::ReadResponse& message : messages) writer->Write(message);
    return end;
  }

 private:
  template <typename Method, typename Request, typename Response>
  grpc::Status Forward(grpc::ServerContext* context, Method method, const Request& request,
                       Response* response) {
    WaitWhileSilent(context);
    grpc::ClientContext of_call;
    return (real_.get()->*method)(&of_call, request, response);
  }
  void WaitWhileSilent(grpc::ServerContext* context) {
    ++calls;
    while (silent && !context->IsCancelled()) std::this_thread::yield();
  }

  const std::unique_ptr<pb::QuarryService::Stub> real_;
};

std::unique_ptr<grpc::Server> Listen(grpc::Service* service, int* port) {
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), port);
  builder.RegisterService(service);
  return builder.BuildAndStart();
}

class HostileServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    // The box below cuts patches and leaves some out.
    testing::MakeDataset(folder_.path() / "a.quarry", {.dims = {40, 20, 12}, .levels = 3, .steps = {0, 3}});
    Serve();
  }

  /// Serves the dataset "a", and reads the truth from it.
  void Serve() {
    EnableGrpc();
    service_ =
        std::make_unique<server::Service>(server::DatasetCatalogOptions{folder_.path(), {}, folder_.path()},
                                          server::EngineOptions{std::uint64_t{64} << 20, 1}, &operations_);
    server::ListenOptions options;
    options.address = "127.0.0.1:0";
    real_server_ = *server::Listener::Start(options, service_.get());
    spoiler_ = std::make_unique<Spoiler>(pb::QuarryService::NewStub(
        grpc::CreateChannel(real_server_->address(), grpc::InsecureChannelCredentials())));
    spoiler_server_ = Listen(spoiler_.get(), &port_);
    const auto local = *Dataset::Open(folder_.path() / "a.quarry");
    ASSERT_TRUE(local
                    ->ReadLevels(question_,
                                 [&](LevelSamples* samples, const ReadCost&) {
                                   truth_.push_back(*samples);
                                   return Status::Ok();
                                 })
                    .ok());
  }
  /// A dataset in layers of accuracy.
  /// @param rougher  tolerances of those before the last
  /// @param missing  with missing samples
  void ServeLayers(std::vector<double> rougher, bool missing) {
    testing::MakeDataset(folder_.path() / "a.quarry", {.dims = {40, 20, 12},
                                                       .levels = 3,
                                                       .steps = {0, 3},
                                                       .coder = CoderId::kInterpolate,
                                                       .missing = missing,
                                                       .rougher = std::move(rougher)});
    Serve();
  }
  void TearDown() override {
    spoiler_server_->Shutdown();
    real_server_.reset();
  }

  std::string Target() const { return fmt::format("grpc://127.0.0.1:{}/a", port_); }
  std::unique_ptr<Dataset> Open(Options options = {}) const {
    options.threads = 1;
    return *Dataset::Open(Target(), options);
  }

  /// Asks the question, and checks every level that comes back.
  Status Read(Encoding encoding, Spoil spoil) {
    spoiler_->read = std::move(spoil);
    spoiler_->streams = 0;
    levels_ = 0;
    const auto dataset = Open({.encoding = encoding, .retries = 3});
    return dataset->ReadLevels(question_, Check());
  }

  /// The same without opening the dataset.
  Status ReadUnopened(Encoding encoding, Spoil spoil) {
    spoiler_->read = std::move(spoil);
    spoiler_->streams = 0;
    spoiler_->calls = 0;
    levels_ = 0;
    const auto reader = *Reader::At(Target(), {.threads = 1, .encoding = encoding, .retries = 3});
    return reader->ReadSeries({question_, {}, {}}, Check());
  }

  LevelCallback Check() {
    return [this](LevelSamples* samples, const ReadCost&) {
      CheckLevel(*samples);
      return Status::Ok();
    };
  }

  void CheckLevel(const LevelSamples& samples) {
    const LevelSamples& expected = truth_.at(levels_++);
    EXPECT_EQ(samples.level, expected.level);
    EXPECT_EQ(samples.layer, expected.layer);
    EXPECT_EQ(samples.extent, expected.extent);
    EXPECT_EQ(samples.type, expected.type);
    EXPECT_EQ(samples.data, expected.data);
    EXPECT_TRUE(samples.damaged.empty());
  }

  void ExpectError(Encoding encoding, const std::string& what, Spoil spoil,
                   StatusCode code = StatusCode::kInternal) {
    const Status status = Read(encoding, std::move(spoil));
    EXPECT_EQ(status.code(), code) << what << ": " << status.message();
    EXPECT_FALSE(status.message().empty()) << what;
    EXPECT_LT(levels_, truth_.size()) << what;
    EXPECT_EQ(spoiler_->streams, 1) << what << ": asking again does not help";
  }

  inline static const query::ReadRequest kQuestion{.field = "pressure",
                                                   .step = 3,
                                                   .box = Box{{3, 2, 1}, {29, 19, 11}},
                                                   .first_level = 2,
                                                   .allow_damage = true};

  query::ReadRequest question_ = kQuestion;
  testing::TemporaryFolder folder_;
  server::Operations operations_;
  std::unique_ptr<server::Service> service_;
  std::unique_ptr<server::Listener> real_server_;
  std::unique_ptr<Spoiler> spoiler_;
  std::unique_ptr<grpc::Server> spoiler_server_;
  int port_ = 0;
  std::vector<LevelSamples> truth_;
  std::size_t levels_ = 0;  ///< number of received levels
};

/// The messages that carry samples, patches or tiles of a level.
std::vector<pb::ReadResponse*> Carrying(Messages* messages, std::uint32_t level) {
  std::vector<pb::ReadResponse*> found;
  for (pb::ReadResponse& message : *messages) {
    if ((message.has_samples() && message.samples().level() == level) ||
        (message.has_patches() && message.patches().level() == level) ||
        (message.has_coded() && message.coded().level() == level))
      found.push_back(&message);
  }
  return found;
}

auto FirstLevelEnd(Messages* messages) {
  return std::ranges::find_if(*messages, &pb::ReadResponse::has_level_end);
}

TEST_F(HostileServerTest, WhatIsHandedOnUnchangedIsRead) {
  for (const Encoding encoding : {Encoding::kSamples, Encoding::kPatches, Encoding::kCoded}) {
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
    for (const Encoding encoding : {Encoding::kSamples, Encoding::kPatches})
      ExpectError(encoding, what, spoil);
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
  for (const Encoding encoding : {Encoding::kSamples, Encoding::kPatches}) {
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
         }
       }},
  };
  for (const auto& [what, change] : cases) {
    const auto spoil = [&alter = change](int, Messages* messages) {
      alter(messages);
      return grpc::Status::OK;
    };
    for (const Encoding encoding : {Encoding::kSamples, Encoding::kPatches})
      ExpectError(encoding, what, spoil);
  }
}

TEST_F(HostileServerTest, WhatComesAfterTheEndIsRefused) {
  for (const Encoding encoding : {Encoding::kSamples, Encoding::kPatches}) {
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
      {"damage that shows what was asked for",
       [](auto* part) {
         pb::BlockExtent* const damaged = part->mutable_tiles(0)->add_damaged();
         *damaged->mutable_begin() = part->tiles(0).begin();
         *damaged->mutable_shape() = part->tiles(0).shape();
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
    return grpc::Status::OK;
  };
  for (const Encoding encoding : {Encoding::kSamples, Encoding::kPatches})
    EXPECT_EQ(Open({.encoding = encoding})->Read(undamaged).status().code(), StatusCode::kInternal);
}

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
  for (const Encoding encoding : {Encoding::kSamples, Encoding::kPatches}) {
    const Status status = Read(encoding, [](int, Messages*) { return grpc::Status::OK; });
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(levels_, 3u);
  }
}

TEST_F(HostileServerOfLayersTest, LayersThatWereNotAskedForAreRefused) {
  for (const std::uint32_t layer : {0u, 2u, UINT32_MAX}) {
    for (const Encoding encoding : {Encoding::kSamples, Encoding::kPatches}) {
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
    return grpc::Status::OK;
  };
  for (const Encoding encoding : {Encoding::kSamples, Encoding::kPatches}) {
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
  for (const Encoding encoding : {Encoding::kSamples, Encoding::kPatches}) {
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
    for (const Encoding encoding : {Encoding::kSamples, Encoding::kPatches}) {
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

// --- streams that break ---

/// The first stream ends after some messages.
Spoil CutOnce(std::size_t count, std::function<void(Messages*)> change) {
  return [=](int stream, Messages* messages) {
    if (stream > 0) {
      change(messages);
      return grpc::Status::OK;
    }
    EXPECT_LT(count, messages->size());
    messages->resize(count);
    return kBroken;
  };
}

TEST_F(HostileServerTest, AStreamThatBreaksIsTakenUpAgainWhereverItBreaks) {
  for (const Encoding encoding : {Encoding::kSamples, Encoding::kPatches}) {
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
  for (const Encoding encoding : {Encoding::kSamples, Encoding::kPatches}) {
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
  for (const Encoding encoding : {Encoding::kSamples, Encoding::kPatches}) {
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
    for (const Encoding encoding : {Encoding::kSamples, Encoding::kPatches}) {
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

// --- readers that learn from an answer what it is of ---

TEST_F(HostileServerTest, AReaderAsksOnce) {
  for (const Encoding encoding : {Encoding::kSamples, Encoding::kPatches, Encoding::kCoded}) {
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
  for (const Encoding encoding : {Encoding::kSamples, Encoding::kPatches, Encoding::kCoded}) {
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
    for (const Encoding encoding : {Encoding::kSamples, Encoding::kPatches, Encoding::kCoded}) {
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
  for (const Encoding encoding : {Encoding::kSamples, Encoding::kPatches, Encoding::kCoded}) {
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

// --- servers that say nothing ---

TEST_F(HostileServerTest, CallsThatAreNotAnsweredCanBeCancelled) {
  const auto dataset = Open();
  using Call = std::function<Status(const Dataset&, const CallOptions&)>;
  for (const Call& call :
       {Call([](const Dataset&d, const CallOptions&how) { return d.Read(kQuestion, how).status(); }),
        Call([](const Dataset&d, const CallOptions&how) { return d.PlanRead(kQuestion, how).status(); }),
        Call([](const Dataset&d, const CallOptions&how) { return d.Steps(how).status(); }),
        Call([](const Dataset&d, const CallOptions&how) {
          return d.Statistics({.read = {.field = "pressure"}}, how).status();
        })}) {
    spoiler_->calls = 0;
    spoiler_->silent = true;
    const CancelToken cancel = CancelToken::Create();
    std::thread canceller([&] {
      while (spoiler_->calls == 0) std::this_thread::yield();  // only after the call has reached the server
      cancel.Cancel();
    });
    const Status status = call(*dataset, {.cancel = cancel});
    canceller.join();
    EXPECT_EQ(status.code(), StatusCode::kCancelled) << status.message();
    EXPECT_EQ(spoiler_->calls, 1);
    spoiler_->silent = false;
  }
  EXPECT_TRUE(dataset->Read(kQuestion).ok()) << "and asked anew";
}

/// Lists without end: one name or step a page, as `next` numbers the pages.
class EndlessLister final : public pb::QuarryService::Service {
 public:
  std::function<int(int page)> next = [](int page) { return page; };
  bool empty = false;
  bool old = false;  ///< from before there were several grids
  std::size_t padding = 0;
  grpc_compression_algorithm compression = GRPC_COMPRESS_NONE;
  std::atomic<int> pages = 0;

  grpc::Status ListDatasets(grpc::ServerContext* context, const pb::ListDatasetsRequest*,
                            pb::ListDatasetsResponse* response) override {
    context->set_compression_algorithm(compression);
    const std::string name = Name();
    if (!empty) {
      response->add_datasets()->set_name(name);
      *response->mutable_datasets(0)->add_grids() = format::ToProto(GridDescription{});
      if (old) response->mutable_datasets(0)->mutable_grids(0)->clear_patch();
    }
    response->set_next_page_token(name);
    return grpc::Status::OK;
  }
  grpc::Status GetDataset(grpc::ServerContext*, const pb::GetDatasetRequest* request,
                          pb::GetDatasetResponse* response) override {
    *response->mutable_manifest() = manifest;
    if (request->manifest_only()) return grpc::Status::OK;
    if (!empty)
      *response->add_steps() = format::ToProto(StepDescription{static_cast<std::uint64_t>(next(pages))});
    response->set_next_page_token(Name());
    return grpc::Status::OK;
  }
  pb::DatasetManifest manifest;

 private:
  std::string Name() { return fmt::format("{:09}", next(pages++)) + std::string(padding, 'x'); }
};

class EndlessListTest : public ::testing::Test {
 protected:
  void SetUp() override {
    EnableGrpc();
    testing::TemporaryFolder folder;
    testing::MakeDataset(folder.path() / "a.quarry", {});
    lister_.manifest = format::ToProto((*quarry::Dataset::Open(folder.path() / "a.quarry"))->description());
    server_ = Listen(&lister_, &port_);
  }
  void TearDown() override { server_->Shutdown(); }
  Status List() const { return ListDatasets(fmt::format("grpc://127.0.0.1:{}", port_)).status(); }
  Status Steps() const {
    return (*Dataset::Open(fmt::format("grpc://127.0.0.1:{}/a", port_)))->Steps().status();
  }

  int port_ = 0;
  EndlessLister lister_;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(EndlessListTest, NamesThatDoNotEndAreGivenUp) {
  lister_.padding = 1 << 20;

  const Status status = List();

  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_NE(status.message().find("does not end: it is longer than 64.0 MiB"), std::string::npos)
      << status.message();
  EXPECT_LE(lister_.pages, 33) << "a name comes twice in a page";
}

/// gRPC would decompress before it looks at the length: 64 KiB become 64 MiB.
TEST_F(EndlessListTest, CompressedAnswersAreNotTaken) {
  lister_.compression = GRPC_COMPRESS_GZIP;
  lister_.padding = 32 << 20;

  const Status status = List();

  EXPECT_EQ(status.code(), StatusCode::kUnimplemented) << status.message();
  EXPECT_NE(status.message().find("ompression algorithm"), std::string::npos) << status.message();
  EXPECT_EQ(lister_.pages, 1);
}

TEST_F(EndlessListTest, TheSamePageIsTakenOnce) {
  lister_.next = [](int) { return 7; };

  EXPECT_EQ(List().code(), StatusCode::kInternal);
  EXPECT_EQ(Steps().code(), StatusCode::kInternal);
  EXPECT_LE(lister_.pages, 4);
}

TEST_F(EndlessListTest, NorDoPagesComeInTurn) {
  lister_.next = [](int page) { return page % 3; };

  EXPECT_NE(List().message().find("ascending order"), std::string::npos) << List().message();
  EXPECT_NE(Steps().message().find("ascending order"), std::string::npos) << Steps().message();
}

TEST_F(EndlessListTest, EmptyPagesAreNotFollowed) {
  lister_.empty = true;

  EXPECT_NE(List().message().find("an empty page"), std::string::npos) << List().message();
  EXPECT_NE(Steps().message().find("an empty page"), std::string::npos) << Steps().message();
  EXPECT_LE(lister_.pages, 4);
}

TEST_F(EndlessListTest, AnOlderServersListIsRefusedWithAWay) {
  lister_.old = true;

  EXPECT_EQ(List().code(), StatusCode::kUnimplemented);
  EXPECT_NE(List().message().find("of an older release"), std::string::npos) << List().message();
}

TEST_F(EndlessListTest, OnePageOfTooManyBytesIsNotParsed) {
  lister_.padding = 5 << 20;  // twice

  EXPECT_NE(List().message().find("more than the possible"), std::string::npos) << List().message();
}

TEST(SilentServer, ThatTakesConnectionsAloneCanBeLeft) {
  const FileDescriptor listening(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(bind(listening.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(listening.get(), 1), 0);
  ASSERT_EQ(getsockname(listening.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  EnableGrpc();
  const CancelToken cancel = CancelToken::Create();
  std::thread canceller([&] {
    const FileDescriptor connection(accept(listening.get(), nullptr, nullptr));
    cancel.Cancel();  // once the call waits for an answer
  });
  const auto opened =
      Dataset::Open(fmt::format("grpc://127.0.0.1:{}/a", ntohs(address.sin_port)), {}, cancel);
  canceller.join();
  EXPECT_EQ(opened.status().code(), StatusCode::kCancelled) << opened.status().message();
}

// --- bytes ---

grpc::ByteBuffer BufferOf(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

TEST_F(HostileServerTest, AnyBytesAreAnAnswerOrAnError) {
  std::mt19937 random(11);
  for (const Encoding encoding : {Encoding::kSamples, Encoding::kPatches, Encoding::kCoded}) {
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
