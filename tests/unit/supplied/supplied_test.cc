#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "quarry/answer/answer_stream.h"
#include "quarry/answer/dataset_messages.h"
#include "quarry/supplied/question.h"
#include "quarry/wire/convert.h"

// A dataset whose bytes are supplied answers as one in a directory.
namespace quarry::supplied {
namespace {

namespace pb = ::quarry::v1;
using Question = SuppliedDataset::Question;

constexpr std::uint64_t kMemory = 256 << 20;
const std::string kRoot = "https://data.example.org/golden.quarry";  // NOLINT: short

/// Fetches from a directory what questions want, as a page does from a web server.
class Fetcher {
 public:
  explicit Fetcher(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// Asks until the question has ended.
  std::vector<std::string> Answer(Question* question) {
    std::vector<std::string> messages;
    for (rounds = 0; question->Ask() == Question::State::kWants; ++rounds) {
      for (std::string& message : question->TakeMessages()) messages.push_back(std::move(message));
      if (rounds > 200) {
        ADD_FAILURE() << "the question does not end";
        break;
      }
      EXPECT_FALSE(question->wanted().empty());
      for (const Wanted& wanted : question->wanted()) Bring(wanted, question);
    }
    for (std::string& message : question->TakeMessages()) messages.push_back(std::move(message));
    return messages;
  }

  int rounds = 0;
  std::uint64_t bytes = 0;
  std::set<std::string> asked;  ///< paths below the root
  std::map<std::string, std::string> tags;
  std::map<std::string, std::uint64_t> cut;  ///< [bytes] of files that end early

 private:
  void Bring(const Wanted& wanted, Question* question) {
    ASSERT_TRUE(wanted.path.starts_with(kRoot + "/")) << wanted.path;
    const std::string name = wanted.path.substr(kRoot.size() + 1);
    asked.insert(name);
    const auto file = Location(folder_ / name).Open();
    if (!file.ok()) return question->Fail(wanted.path, NotFound("\"{}\" is not there", wanted.path));
    Supplied supplied;
    supplied.size = (*file)->size();
    if (cut.contains(name)) supplied.size = cut[name];
    supplied.tag = tags[name];
    const std::uint64_t size = std::min(wanted.size, *supplied.size);
    std::uint64_t offset = 0;
    if (wanted.kind == Wanted::Kind::kBack) offset = *supplied.size - size;
    if (wanted.kind == Wanted::Kind::kRange) offset = wanted.offset;
    supplied.bytes.resize(
        offset + size <= *supplied.size ? size : *supplied.size - std::min(offset, *supplied.size));
    bytes += supplied.bytes.size();
    ASSERT_TRUE((*file)->ReadAt(offset, supplied.bytes).ok());
    question->Supply(wanted, std::move(supplied));
  }

  const std::filesystem::path folder_;
};

class OnlyOne final : public DatasetSource {
 public:
  explicit OnlyOne(const std::filesystem::path& path) : opened_(std::make_shared<OpenedDataset>()) {
    opened_->dataset = *Dataset::Open(path);
  }
  Result<std::shared_ptr<const OpenedDataset>> Find(const std::string&) override {
    return std::shared_ptr<const OpenedDataset>(opened_);
  }
  const Dataset& dataset() const { return *opened_->dataset; }

 private:
  const std::shared_ptr<OpenedDataset> opened_;
};

class Control final : public RequestControl {
 public:
  bool Cancelled() override { return false; }
};

/// The messages of a read, as a server makes them.
class ServerSink final : public AnswerSink, public answer::MessageSink {
 public:
  explicit ServerSink(bool patches) : patches_(patches), stream_(this, false, 256 << 10) {}
  Result<Taker> Begin(const AnswerStart& start) override {
    QUARRY_RETURN_IF_ERROR(stream_.Begin(start, std::nullopt));
    if (patches_) return Taker(&payloads_.emplace(&stream_, start.plan, start.from));
    return Taker(&samples_.emplace(&stream_, start.plan, start.from));
  }
  bool takes_payload() const override { return patches_; }
  bool needs_first_patch() const override { return true; }
  Status End() override { return stream_.End(); }
  Status Send(const answer::Message& message, answer::Follows, const std::string&) override {
    std::string& text = messages.emplace_back();
    for (const answer::SharedBytes& piece : message)
      text.append(reinterpret_cast<const char*>(piece.bytes.data()), piece.bytes.size());
    return Status::Ok();
  }
  std::vector<std::string> messages;

 private:
  const bool patches_;
  answer::AnswerStream stream_;
  std::optional<answer::SampleSink> samples_;
  std::optional<answer::PayloadStreamSink> payloads_;
};

/// All that a client makes of messages: the header, then what each level has, wherever messages end.
std::string Content(const std::vector<std::string>& messages) {
  std::string content;
  std::string blocks;
  std::string data;
  for (const std::string& bytes : messages) {
    pb::ReadResponse message;
    EXPECT_TRUE(message.ParseFromString(bytes));
    if (message.has_header()) content += "header " + message.header().ShortDebugString() + "\n";
    for (const pb::PatchPayload& patch : message.patches().patches())
      blocks += patch.ShortDebugString() + "\n";
    for (const pb::BlockExtent& block : message.samples().blocks()) blocks += block.ShortDebugString() + "\n";
    data += message.patches().data() + message.samples().data();
    if (!message.has_level_end()) continue;
    content += blocks + data + message.level_end().ShortDebugString() + "\n";
    blocks.clear();
    data.clear();
  }
  EXPECT_EQ(blocks + data, "");
  return content;
}

std::filesystem::path Golden(const std::string& name) {
  return std::filesystem::path(QUARRY_GOLDEN) / name / "golden.quarry";
}

class SuppliedTest : public ::testing::TestWithParam<const char*> {
 protected:
  std::vector<std::string> Ask(const std::string& method, const google::protobuf::Message& request) {
    const auto question = dataset_.Begin(method, request.SerializeAsString());
    std::vector<std::string> messages = fetcher_.Answer(question.get());
    status_ = question->status();
    return messages;
  }

  pb::ReadRequest Whole(const FieldDescription& field, std::uint64_t step, int level) const {
    query::SeriesRequest request;
    request.read.field = field.name;
    request.read.step = step;
    request.read.first_level = query::kCoarsestLevel;
    request.read.target = query::AtLevel{level};
    pb::ReadRequest read;
    *read.mutable_query() = wire::ToProto("any", request);
    return read;
  }

  const std::filesystem::path folder_ = Golden(GetParam());
  OnlyOne local_{folder_};
  ReadSession session_{&local_, std::make_shared<PatchStore>(kMemory), 1};
  Fetcher fetcher_{folder_};
  SuppliedDataset dataset_{kRoot, kMemory};
  Status status_;
};

TEST_P(SuppliedTest, DescribesTheDataset) {
  pb::GetDatasetRequest request;
  request.set_without_subfiles(true);
  const std::vector<std::string> messages = Ask("GetDataset", request);
  ASSERT_TRUE(status_.ok()) << status_.message();
  ASSERT_EQ(messages.size(), 1u);
  const auto expected = answer::DatasetPage(local_.dataset(), request, {100, 1 << 20});
  EXPECT_EQ(messages[0], expected->SerializeAsString());
  // The manifest and the head, with the mark that it is current, and then its pages: two waits, no step.json.
  EXPECT_LE(fetcher_.rounds, 2);
  for (const std::string& name : fetcher_.asked) EXPECT_EQ(name.find("step.json"), std::string::npos) << name;
}

TEST_P(SuppliedTest, ReadsAsFromADirectory) {
  const DatasetDescription& description = local_.dataset().description();
  std::size_t read = 0;
  for (const FieldDescription& field : description.fields) {
    for (const std::uint64_t step : local_.dataset().steps()) {
      const auto found = local_.dataset().FieldOf(step, field.name);
      if (!found.ok() || !*found) continue;
      for (const bool patches : {true, false}) {
        pb::ReadRequest request = Whole(field, step, 0);
        request.set_encoding(patches ? pb::ENCODING_PATCHES : pb::ENCODING_SAMPLES);
        ServerSink sink(patches);
        Control control;
        const Status expected =
            session_.Read("any", *wire::FromProto(request.query()), ResumePoint{}, &control, &sink);
        const std::vector<std::string> messages = Ask("Read", request);
        ASSERT_EQ(status_.code(), expected.code()) << field.name << ": " << status_.message();
        if (!expected.ok()) continue;  // patches that refer to other steps
        EXPECT_EQ(Content(messages), Content(sink.messages)) << field.name << " of step " << step;
        ++read;
      }
    }
  }
  EXPECT_GT(read, 0u);
}

TEST_P(SuppliedTest, ComputesAsFromADirectory) {
  const FieldDescription& field = local_.dataset().description().fields[0];
  const std::uint64_t step = local_.dataset().steps().front();
  query::SeriesRequest request;
  request.read.field = field.name;
  request.read.step = step;
  pb::GetStatisticsRequest statistics;
  *statistics.mutable_query() = wire::ToProto("any", request);
  statistics.add_percentiles(50);
  Control control;
  const auto expected = session_.Statistics("any", *wire::FromProto(statistics), &control);
  ASSERT_TRUE(expected.ok()) << expected.status().message();
  const std::vector<std::string> messages = Ask("GetStatistics", statistics);
  ASSERT_TRUE(status_.ok()) << status_.message();
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_EQ(messages[0], wire::ToProto(*expected).SerializeAsString());

  pb::ReadPointsRequest points;
  points.set_dataset("any");
  points.set_field(field.name);
  points.set_step(step);
  for (const double place : {0.0, 0.5, 0.0}) points.add_coordinates(place);
  const auto values = session_.ReadPoints("any", *wire::FromProto(points), &control);
  ASSERT_TRUE(values.ok()) << values.status().message();
  const std::vector<std::string> answers = Ask("ReadPoints", points);
  ASSERT_TRUE(status_.ok()) << status_.message();
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0], wire::ToProto(*values).SerializeAsString());
}

TEST_P(SuppliedTest, HasAFirstPictureAfterFourWaits) {
  pb::GetDatasetRequest open;
  open.set_without_subfiles(true);
  Ask("GetDataset", open);
  const int opened = fetcher_.rounds;
  const FieldDescription& field = local_.dataset().description().fields[0];
  pb::ReadRequest request =
      Whole(field, local_.dataset().steps().front(), local_.dataset().description().GridOf(field).levels - 1);
  request.set_encoding(pb::ENCODING_PATCHES);
  Ask("Read", request);
  ASSERT_TRUE(status_.ok()) << status_.message();
  EXPECT_LE(opened + fetcher_.rounds, 5);
  // One object has the coarse levels and tables of a step.
  const auto subfiles =
      std::ranges::count_if(fetcher_.asked, [](const std::string& name) { return name.ends_with(".qsf"); });
  if (fetcher_.asked.contains("steps/000000/coarse")) {
    EXPECT_EQ(subfiles, 0);
  }
  RecordProperty("rounds", opened + fetcher_.rounds);
  RecordProperty("requests", static_cast<int>(fetcher_.asked.size()));
}

INSTANTIATE_TEST_SUITE_P(Golden, SuppliedTest, ::testing::Values("v4-catalogue", "v4-coarse", "v4-objects"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::erase(name, '-');
                           return name;
                         });

// ---- What goes wrong

class DamagedTest : public ::testing::Test {
 protected:
  Status Read(const std::string& method = "Read") {
    pb::ReadRequest request;
    request.mutable_query()->set_field("holes");
    request.mutable_query()->set_step(0);
    request.mutable_query()->set_level(0);
    request.set_encoding(pb::ENCODING_PATCHES);
    const auto question = dataset_.Begin(method, request.SerializeAsString());
    fetcher_.Answer(question.get());
    return question->status();
  }
  Fetcher fetcher_{Golden("v4-objects")};
  SuppliedDataset dataset_{kRoot, kMemory};
};

TEST_F(DamagedTest, AnObjectThatIsMissingIsNamed) {
  SuppliedDataset other("https://data.example.org/golden.quarry", kMemory);
  Fetcher nothing("/nowhere");
  const auto question = other.Begin("GetDataset", "");
  nothing.Answer(question.get());
  EXPECT_EQ(question->status().code(), StatusCode::kNotFound);
  EXPECT_NE(question->status().message().find("it has no dataset.json"), std::string::npos)
      << question->status().message();
}

TEST_F(DamagedTest, WithoutAHeadItIsSaidHowToMakeOne) {
  Fetcher old(Golden("v1"));
  const auto question = dataset_.Begin("GetDataset", "");
  old.Answer(question.get());
  EXPECT_EQ(question->status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(question->status().message().find("quarry upgrade"), std::string::npos)
      << question->status().message();
}

TEST_F(DamagedTest, AFileThatEndsEarlyIsTruncated) {
  ASSERT_TRUE(Read().ok());
  SuppliedDataset fresh(kRoot, kMemory);
  for (const char* name : {"steps/000000/holes/0000.qsf", "steps/000000/holes/0001.qsf"})
    fetcher_.cut[name] = 40;
  pb::ReadRequest request;
  request.mutable_query()->set_field("holes");
  request.mutable_query()->set_step(0);
  request.mutable_query()->set_strict(true);  // coarse levels are there
  request.set_encoding(pb::ENCODING_PATCHES);
  const auto question = fresh.Begin("Read", request.SerializeAsString());
  fetcher_.Answer(question.get());
  EXPECT_EQ(question->status().code(), StatusCode::kDataLoss) << question->status().message();
}

TEST_F(DamagedTest, OtherCallsNeedAServer) {
  const Status status = Read("WatchSteps");
  EXPECT_EQ(status.code(), StatusCode::kUnimplemented);
  EXPECT_NE(status.message().find("needs a Quarry server"), std::string::npos) << status.message();
}

TEST(SuppliedStorage, RefusesAnotherVersion) {
  SuppliedStorage storage;
  Asker asker;
  const Wanted first{Wanted::Kind::kRange, "a", 0, 2, true};
  const Wanted second{Wanted::Kind::kRange, "a", 2, 2, true};
  storage.Supply(first, {4, "\"1\"", Bytes(2)}, &asker);
  storage.Supply(second, {4, "\"2\"", Bytes(2)}, &asker);
  const SuppliedStorage::Asking asking(&storage, &asker);
  Bytes out(2);
  const Status status = storage.Refer("a", 4, 0)->ReadAt(0, out);
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_NE(status.message().find("was replaced while it was read"), std::string::npos) << status.message();
}

TEST(SuppliedStorage, WantsAllThatIsMissingAtOnceAndAheadOfTheRest) {
  SuppliedStorage storage;
  Asker asker;
  const SuppliedStorage::Asking asking(&storage, &asker);
  const auto object = storage.Refer("a", 100, 0);
  Bytes out(4);
  const auto nobody = [](std::size_t, const Status&) {};
  const auto never = [] { return false; };
  const auto read = [&](std::uint64_t offset) {
    return storage.BeginRead({{object.get(), offset, std::span(out)}}, nobody, never);
  };
  const auto ahead = read(50);
  const auto needed = read(0);
  EXPECT_THROW((void)needed->Wait(never), NotHere);
  EXPECT_THROW(storage.AtOnce(2, [&](std::size_t i) { (void)storage.Stat(i == 0 ? "b" : "c"); }), NotHere);
  const std::vector<Wanted> wanted = asker.wanted();
  ASSERT_EQ(wanted.size(), 4u);
  EXPECT_EQ(wanted[0], (Wanted{Wanted::Kind::kRange, "a", 0, 4, true}));
  EXPECT_EQ(wanted[1], (Wanted{Wanted::Kind::kFacts, "b", 0, 0, true}));
  EXPECT_EQ(wanted[2], (Wanted{Wanted::Kind::kFacts, "c", 0, 0, true}));
  EXPECT_EQ(wanted[3], (Wanted{Wanted::Kind::kRange, "a", 50, 4, false}));
}

TEST(SuppliedStorage, KeepsWhatAQuestionNeedsAndLittleElse) {
  SuppliedStorage storage;
  constexpr std::uint64_t kPiece = 4 << 20;
  Asker mine;
  {
    Asker other;
    for (std::uint64_t i = 0; i < 8; ++i)
      storage.Supply({Wanted::Kind::kRange, "a", i * kPiece, kPiece, true}, {8 * kPiece, "", Bytes(kPiece)},
                     i == 0 ? &mine : &other);
    EXPECT_EQ(other.held(), 7 * kPiece);
  }
  storage.Trim();
  Asker later;
  const SuppliedStorage::Asking asking(&storage, &later);
  const auto object = storage.Refer("a", 8 * kPiece, 0);
  std::vector<std::uint64_t> here;
  for (std::uint64_t i = 0; i < 8; ++i) {
    Bytes out(1);
    try {
      if (object->ReadAt(i * kPiece, out).ok()) here.push_back(i);
    } catch (const NotHere&) {
    }
  }
  EXPECT_EQ(here, (std::vector<std::uint64_t>{0, 4, 5, 6, 7})) << "what is kept, and the last 16 MiB";
}

}  // namespace
}  // namespace quarry::supplied
