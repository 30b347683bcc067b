// Steps of many fields: answers are those of a step.json in one piece, and cost what one field takes.
#include "quarry/dataset/step_manifests.h"

#include <gtest/gtest.h>

#include "quarry/base/file.h"
#include "quarry/dataset/dataset.h"
#include "quarry/dataset/verify.h"
#include "quarry/format/manifest.h"
#include "tests/testing/faulty_storage.h"
#include "tests/testing/make_dataset.h"

namespace quarry {
namespace {

namespace fs = std::filesystem;

using testing::Fault;
using testing::FaultyStorage;
using testing::MakeDataset;
using testing::Operation;
using testing::ReadAll;

/// Each field is a section.
constexpr format::SectionLimits kSmall{.whole = 0, .section = 1};
constexpr format::SectionLimits kOnePiece{.whole = UINT64_MAX};

class StepManifestsTest : public ::testing::Test {
 protected:
  fs::path path() const { return folder_.path() / "a.quarry"; }
  fs::path manifest(std::uint64_t step = 0) const { return path() / format::StepFolder(step) / "step.json"; }

  void Make(const std::vector<std::string>& fields, bool missing = false) {
    for (const std::string& field : fields)
      MakeDataset(path(), {.dims = {9, 8, 7},
                           .levels = 3,
                           .files = 2,
                           .steps = {0, 4},
                           .field = field,
                           .missing = missing && field == fields.back()});
  }

  void Put(const StepDescription& step, const format::SectionLimits& limits = kSmall) const {
    const std::string text = format::EncodeManifest(step, limits);
    ASSERT_TRUE(ReplaceFile(manifest(step.step), std::as_bytes(std::span(text))).ok());
  }

  void Replace(const format::SectionLimits& limits) const {
    const auto dataset = *Dataset::Open(path());
    for (const std::uint64_t step : dataset->steps()) Put(*dataset->LoadStep(step), limits);
  }

  /// Copies of the records of the field, under names of which dataset.json has half, and itself at a place.
  void AddFields(std::size_t count, std::size_t place) const {
    const auto dataset = *Dataset::Open(path());
    StepDescription step = *dataset->LoadStep(0);
    const FieldStepDescription real = *step.FindField("pressure");
    step.fields.clear();
    for (std::size_t f = 0; f < count; ++f) {
      step.fields.push_back(real);
      if (f != place) step.fields.back().name = fmt::format("f{:04}", f);
    }
    Put(step, {});
  }

  testing::TemporaryFolder folder_;
};

/// Bytes of a file that one question has read.
std::uint64_t BytesOf(const FaultyStorage& storage, const std::string& ending) {
  std::uint64_t bytes = 0;
  for (const testing::StorageCall& call : storage.Calls(Operation::kRead))
    if (call.path.ends_with(ending)) bytes += call.size;
  return bytes;
}

TEST_F(StepManifestsTest, AnswersAreThoseOfOnePiece) {
  Make({"a", "b", "c"}, true);
  Replace(kOnePiece);
  const auto whole = *Dataset::Open(path());
  // Read before the files are replaced.
  std::vector<std::string> said;
  std::vector<std::vector<float>> samples;
  for (const std::uint64_t step : whole->steps()) {
    said.push_back(format::EncodeManifest(**whole->Step(step), kOnePiece));
    for (const char* field : {"a", "b", "c"})
      samples.push_back(ReadAll(*whole, {.field = field, .step = step}));
  }
  Replace(kSmall);
  ASSERT_TRUE(format::IsInSections(*ReadTextFile(manifest(4), 1 << 20)));
  const auto dataset = *Dataset::Open(path());

  std::size_t next = 0;
  for (std::size_t s = 0; s < 2; ++s) {
    const std::uint64_t step = dataset->steps()[s];
    for (const char* field : {"a", "b", "c"}) {
      const std::vector<float> read = ReadAll(*dataset, {.field = field, .step = step});
      EXPECT_EQ(std::memcmp(read.data(), samples[next].data(), read.size() * sizeof(float)), 0) << field;
      ++next;
    }
    EXPECT_EQ(*dataset->FieldOf(step, "none"), nullptr);
    EXPECT_EQ(format::EncodeManifest(**dataset->Step(step), kOnePiece), said[s]);
    EXPECT_EQ(format::EncodeManifest(*dataset->LoadStep(step), kOnePiece), said[s]);
    Catalogue::Hold hold;
    EXPECT_TRUE(dataset->Summary(step, &hold)->FindField("c")->mask);
  }
  EXPECT_EQ(dataset->FieldOf(9, "a").status().code(), StatusCode::kNotFound);
}

TEST_F(StepManifestsTest, OneFieldReadsItsPart) {
  Make({"pressure"});
  for (const std::size_t fields : {1000, 4000}) {
    for (const std::size_t place : {std::size_t{0}, fields / 2, fields - 1}) {
      AddFields(fields, place);
      const Location on_disk(path());
      const auto counted = std::make_shared<FaultyStorage>(on_disk.storage);
      const auto dataset = *Dataset::Open(Location(counted, on_disk.path));
      counted->ForgetCalls();
      ReadAll(*dataset, {.field = "pressure", .step = 0, .target = query::AtLevel{2}});

      EXPECT_GT(fs::file_size(manifest()), 1'000'000u);
      EXPECT_LE(BytesOf(*counted, "step.json"), 80'000u) << fields;
      EXPECT_LE(BytesOf(*counted, ""), 100'000u) << fields << ", with tables and payload";
      std::size_t opened = 0;
      for (const testing::StorageCall& call : counted->Calls(Operation::kOpen))
        opened += call.path.ends_with("step.json") ? 1 : 0;
      EXPECT_EQ(opened, 1u);
      counted->ForgetCalls();
      ReadAll(*dataset, {.field = "pressure", .step = 0, .target = query::AtLevel{2}});
      EXPECT_EQ(BytesOf(*counted, "step.json"), 0u) << "it is kept";
    }
  }
}

TEST_F(StepManifestsTest, AFieldThatIsNotThereReadsTheRoot) {
  Make({"pressure"});
  AddFields(4000, 7);
  const Location on_disk(path());
  const auto counted = std::make_shared<FaultyStorage>(on_disk.storage);
  const auto dataset = *Dataset::Open(Location(counted, on_disk.path));
  EXPECT_EQ(*dataset->FieldOf(0, "none"), nullptr);

  EXPECT_LE(BytesOf(*counted, "step.json"), 60'000u);
}

TEST_F(StepManifestsTest, ADamagedSectionCostsItsFieldsAndVerifyNamesIt) {
  Make({"a", "b", "c"});
  Replace(kSmall);
  std::string text = *ReadTextFile(manifest(4), 1 << 20);
  const std::size_t at = text.find("\"b\"");
  text[at + 1] = 'x';
  ASSERT_TRUE(ReplaceFile(manifest(4), std::as_bytes(std::span(text))).ok());
  const auto dataset = *Dataset::Open(path());

  EXPECT_FALSE(ReadAll(*dataset, {.field = "a", .step = 4}).empty());
  EXPECT_FALSE(ReadAll(*dataset, {.field = "c", .step = 4}).empty());
  const auto damaged = dataset->FieldOf(4, "b");
  EXPECT_EQ(damaged.status().code(), StatusCode::kDataLoss);
  EXPECT_TRUE(
      damaged.status().message().starts_with(fmt::format("\"{}\": section 1 of 3", manifest(4).string())))
      << damaged.status().message();
  const VerifyReport report = *VerifyDataset(*dataset, [](std::uint64_t, std::uint64_t) {});
  EXPECT_TRUE(std::ranges::any_of(report.damage, [&](const Status& status) {
    return status.message().find("section 1 of 3") != std::string::npos;
  }));
}

TEST_F(StepManifestsTest, ARootThatIsOlderThanItsSectionsIsReadAgain) {
  Make({"a", "b", "c"});
  Replace(kSmall);
  const auto dataset = *Dataset::Open(path());
  ASSERT_TRUE(*dataset->FieldOf(0, "a"));
  StepDescription step = *dataset->LoadStep(0);
  step.fields[0].source = "a longer name than before";
  Put(step);

  const auto found = dataset->FieldOf(0, "c");
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ((*found)->name, "c");
  EXPECT_TRUE(dataset->outdated());
  EXPECT_TRUE(*dataset->FieldOf(0, "b"));
}

TEST_F(StepManifestsTest, AStepThatIsReplacedAgainAndAgainIsAnError) {
  Make({"a", "b", "c"});
  Replace(kSmall);
  const Location on_disk(path());
  const auto faulty = std::make_shared<FaultyStorage>(on_disk.storage);
  const auto dataset = *Dataset::Open(Location(faulty, on_disk.path));
  ASSERT_TRUE(*dataset->FieldOf(0, "a"));
  // Each read of a section finds other bytes, and each look at the file another stamp.
  faulty->Add({Operation::kRead, "*/000000/step.json", 1, UINT64_MAX, [&](const testing::StorageCall& call) {
                 StepDescription step = *(*Dataset::Open(path()))->LoadStep(0);
                 step.fields[0].source += "longer";
                 if (call.offset > 0) Put(step);
                 return call.offset > 0 ? Fault::Lie() : Fault{};
               }});

  EXPECT_EQ(dataset->FieldOf(0, "c").status().code(), StatusCode::kDataLoss);
}

}  // namespace
}  // namespace quarry
