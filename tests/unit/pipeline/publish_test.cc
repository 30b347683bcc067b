// Publishing in a directory whose calls fail: the status says what readers see.
#include "writer/pipeline/publish.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "quarry/storage/directory_writer.h"
#include "tests/testing/faulty_writer.h"
#include "tests/testing/make_dataset.h"

namespace quarry::writer {
namespace {

namespace fs = std::filesystem;

class PublishTest : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::MakeDataset(model(), {.steps = {0}, .missing = true});
    const auto opened = *quarry::Dataset::Open(model());
    dataset_ = opened->description();
    step_ = **opened->Step(0);
  }
  fs::path model() const { return folder_.path() / "model.quarry"; }
  fs::path path() const { return folder_.path() / "a.quarry"; }

  /// Publishes the model's field as `name` of a step; call number `failing` fails, 0: none does.
  Status Publish(std::uint64_t number, const std::string& name, int failing) {
    int calls_until_failure = 0;
    const auto fail = [&](const std::string& call) -> Status {
      if (calls_until_failure == 0 || --calls_until_failure > 0) return Status::Ok();
      return InternalError("cannot {}: Input/output error", call);
    };
    const WritableLocation place{
        Location(path()), std::make_shared<testing::FaultyWriter>(std::make_shared<DirectoryWriter>(), fail)};
    QUARRY_ASSIGN_OR_RETURN(const auto publisher, Publisher::Open(place, fs::exists(path())));
    QUARRY_ASSIGN_OR_RETURN(const fs::path field, publisher->StageField(number, name));
    fs::copy(model() / "steps/000000/pressure", field, fs::copy_options::recursive);
    const MaskDescription& mask = *step_.fields[0].mask;
    QUARRY_ASSIGN_OR_RETURN(const auto known, publisher->FindMask(mask.name, dataset_, 0));
    if (!known) {
      QUARRY_ASSIGN_OR_RETURN(const fs::path folder, publisher->StageMask(mask.name));
      for (const auto& entry : fs::directory_iterator(model() / "masks"))
        fs::copy(entry.path(), folder, fs::copy_options::recursive);
      publisher->AddMask(mask);
    }
    DatasetDescription dataset = publisher->existing().value_or(dataset_);
    StepDescription step = step_;
    step.step = number;
    step.fields[0].name = name;
    if (!dataset.FindField(name)) {
      dataset.fields.push_back(dataset_.fields[0]);
      dataset.fields.back().name = name;
    }
    calls_until_failure = failing;
    const Status status = publisher->PublishStep(dataset, step);
    passed_all_calls_ = calls_until_failure > 0;
    calls_until_failure = 0;
    if (!status.ok()) publisher->Abandon();
    return status;
  }

  /// Whether readers see the field.
  bool IsPublished(std::uint64_t number, const std::string& name) const {
    const auto dataset = quarry::Dataset::Open(path());
    if (!dataset.ok()) {
      EXPECT_EQ(dataset.status().code(), StatusCode::kNotFound) << dataset.status().message();
      return false;
    }
    const std::vector<std::uint64_t>& steps = (*dataset)->steps();
    if (!std::binary_search(steps.begin(), steps.end(), number)) return false;
    const auto step = (*dataset)->Step(number);
    EXPECT_TRUE(step.ok()) << step.status().message();
    return (*step)->FindField(name) != nullptr;
  }

  testing::TemporaryFolder folder_;
  DatasetDescription dataset_;
  StepDescription step_;
  bool passed_all_calls_ = false;
};

/// The attack: the sync after the rename fails, and a step that readers see was reported as lost.
TEST_F(PublishTest, TheStatusSaysWhatReadersSeeWhicheverCallFails) {
  struct Case {
    const char* what;
    std::vector<std::pair<std::uint64_t, std::string>> before;
    std::uint64_t step;
    std::string field;
  };
  const Case cases[] = {{"a dataset", {}, 0, "pressure"},
                        {"a step", {{0, "pressure"}}, 1, "pressure"},
                        {"a step with a new field", {{0, "pressure"}}, 1, "other"},
                        {"a field of a step", {{0, "pressure"}}, 0, "other"}};
  for (const Case& c : cases) {
    int published_but_unsure = 0;
    passed_all_calls_ = false;
    for (int n = 1; !passed_all_calls_; ++n) {
      fs::remove_all(path());
      for (const auto& [step, field] : c.before) ASSERT_TRUE(Publish(step, field, 0).ok());
      const Status status = Publish(c.step, c.field, n);
      const bool published = IsPublished(c.step, c.field);
      for (const auto& [step, field] : c.before) EXPECT_TRUE(IsPublished(step, field));
      // The last calls are those of the catalogue, which readers can do without.
      if (!status.ok() || published_but_unsure == 0) {
        EXPECT_EQ(status.ok(), passed_all_calls_) << c.what << ", call " << n << ": " << status.message();
      }
      const bool said_so = status.ok() || status.code() == StatusCode::kUnknown;
      EXPECT_EQ(said_so, published) << c.what << ", call " << n << ": " << status.message();
      if (status.ok() || !published) continue;
      ++published_but_unsure;
      const std::string said = fmt::format("step {} is published", c.step);
      EXPECT_TRUE(status.message().starts_with(said)) << status.message();
      EXPECT_NE(status.message().find("Input/output error"), std::string::npos) << status.message();
    }
    EXPECT_EQ(published_but_unsure, 1) << c.what << ": the sync after its rename";
    fs::remove_all(path());
  }
}

}  // namespace
}  // namespace quarry::writer
