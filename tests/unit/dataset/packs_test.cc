// Datasets whose small steps are in packs: readers see what they saw before, whatever happens meanwhile.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>

#include "quarry/base/file.h"
#include "quarry/dataset/step_follower.h"
#include "quarry/dataset/verify.h"
#include "quarry/format/manifest.h"
#include "quarry/pack/packed_steps.h"
#include "tests/testing/make_dataset.h"
#include "writer/upkeep/edit.h"
#include "writer/upkeep/pack.h"

namespace quarry {
namespace {

namespace fs = std::filesystem;

const auto kNothing = [](std::uint64_t, std::uint64_t) {};

class PacksTest : public ::testing::Test {
 protected:
  PacksTest() {
    recipe_.dims = {9, 8, 7};
    recipe_.files = 2;
    recipe_.missing = true;
    recipe_.steps = {0, 1, 2, 3, 10, 20};
    testing::MakeDataset(path(), recipe_);
  }

  fs::path path() const { return folder_.path() / "a.quarry"; }
  std::shared_ptr<const Dataset> Open() const { return *Dataset::Open(path()); }
  writer::PackReport Pack(const writer::PackOptions& options = {}) const {
    const auto report = writer::Pack(path(), options, kNothing);
    EXPECT_TRUE(report.ok()) << report.status().message();
    return *report;
  }

  /// By the time of the last change of their folder, which a new change makes now.
  void LetStepsGrowOld() const {
    fs::last_write_time(path() / "steps", fs::file_time_type::clock::now() - std::chrono::hours(1));
  }

  /// As a program that does not know packs may leave it: a packed step with a folder that has changed.
  void PackBesideChangedFolder(std::uint64_t step) const {
    const fs::path folder = path() / format::StepFolder(step);
    const fs::path copied = folder_.path() / "copy";
    fs::copy(folder, copied, fs::copy_options::recursive);
    Pack();
    fs::copy(copied, folder, fs::copy_options::recursive);
    std::ofstream(folder / "step.json") << "{}";
  }

  /// Everything that a reader gets: step.json and samples of each step.
  static std::map<std::uint64_t, std::pair<std::string, std::vector<float>>> ReadSteps(
      const Dataset& dataset) {
    std::map<std::uint64_t, std::pair<std::string, std::vector<float>>> read;
    for (const std::uint64_t step : dataset.steps()) {
      query::ReadRequest request;
      request.step = step;
      request.box = {{0, 0, 0}, {9, 8, 7}};
      const auto samples = testing::TryReadAll(dataset, request);
      EXPECT_TRUE(samples.ok()) << step << ": " << samples.status().message();
      const Location manifest = dataset.root() / format::StepFolder(step) / "step.json";
      read[step] = {*manifest.ReadText(format::kManifestLimit),
                    samples.ok() ? *samples : std::vector<float>()};
      for (float& sample : read[step].second) sample = std::isfinite(sample) ? sample : -1;
    }
    return read;
  }

  testing::TemporaryFolder folder_;
  testing::DatasetRecipe recipe_;
};

TEST_F(PacksTest, ReadersSeeTheSameSteps) {
  const auto before = ReadSteps(*Open());

  const writer::PackReport report = Pack();

  EXPECT_EQ(report.packed, 6u);
  EXPECT_EQ(report.packs, 1u);
  EXPECT_LT(5 * report.disk_after, report.disk_before);
  EXPECT_TRUE(fs::exists(path() / "steps/pack-0_1x3_7_10.qsp"));
  EXPECT_FALSE(fs::exists(path() / "steps/000000"));
  const auto dataset = Open();
  EXPECT_EQ(dataset->steps(), recipe_.steps);
  EXPECT_TRUE(ReadSteps(*dataset) == before);
  const auto verified = VerifyDataset(*dataset, kNothing);
  ASSERT_TRUE(verified.ok());
  EXPECT_TRUE(verified->damage.empty()) << verified->damage.front().message();
  EXPECT_EQ(verified->steps, 6u);
}

TEST_F(PacksTest, UnpackedStepsAreWhatTheyWere) {
  const auto files = [&] {
    std::map<std::string, Bytes> all;
    for (const auto& entry : fs::recursive_directory_iterator(path() / "steps")) {
      if (entry.is_regular_file())
        all[entry.path().lexically_relative(path()).string()] = *ReadWholeFile(entry.path(), 1 << 20);
    }
    return all;
  };
  const auto before = files();
  Pack();
  EXPECT_NE(files(), before);

  EXPECT_EQ(*writer::Unpack(path(), kNothing), 6u);

  EXPECT_EQ(files(), before);
}

TEST_F(PacksTest, AReaderFromBeforeFindsPackedAndUnpackedSteps) {
  const auto from_before = Open();
  const auto expected = ReadSteps(*Open());
  Pack();

  EXPECT_TRUE(ReadSteps(*from_before) == expected);

  const auto packed = Open();
  ASSERT_TRUE(writer::Unpack(path(), kNothing).ok());

  EXPECT_TRUE(ReadSteps(*packed) == expected);
}

TEST_F(PacksTest, AFolderStandsForItsStep) {
  PackBesideChangedFolder(2);

  const auto dataset = Open();

  EXPECT_EQ(dataset->steps(), recipe_.steps);
  EXPECT_EQ(dataset->Step(2).status().code(), StatusCode::kDataLoss);
  EXPECT_TRUE(dataset->Step(3).ok());
}

TEST_F(PacksTest, AFolderThatHasChangedUndoesItsPack) {
  PackBesideChangedFolder(2);

  const writer::PackReport report = Pack();

  ASSERT_EQ(report.damage.size(), 1u);
  EXPECT_NE(report.damage[0].message().find("000002"), std::string::npos);
  EXPECT_EQ(report.packed, 5u);
  EXPECT_EQ(Open()->Step(2).status().code(), StatusCode::kDataLoss);
  EXPECT_TRUE(Open()->Step(3).ok());
  EXPECT_TRUE(fs::exists(path() / format::StepFolder(2)));
}

TEST_F(PacksTest, AnInterruptedPackingIsCompleted) {
  const auto before = ReadSteps(*Open());
  const auto copied = folder_.path() / "copy";
  fs::copy(path() / "steps", copied, fs::copy_options::recursive);
  Pack();
  for (const char* const step : {"000001", "000020"})
    fs::copy(copied / step, path() / "steps" / step, fs::copy_options::recursive);
  EXPECT_TRUE(ReadSteps(*Open()) == before);

  const writer::PackReport report = Pack();

  EXPECT_EQ(report.packed, 2u);
  EXPECT_EQ(report.packs, 0u);
  EXPECT_FALSE(fs::exists(path() / "steps/000001"));
  EXPECT_TRUE(ReadSteps(*Open()) == before);
}

TEST_F(PacksTest, LargeAndNewestStepsStayFolders) {
  writer::PackOptions options;
  options.keep = 2;
  EXPECT_EQ(Pack(options).packed, 4u);
  EXPECT_TRUE(fs::exists(path() / "steps/000010"));
  options.smaller_than = 100;
  options.keep = 0;

  const writer::PackReport report = Pack(options);

  EXPECT_EQ(report.packed, 0u);
  EXPECT_EQ(report.left, 2u);
  EXPECT_EQ(report.in_packs, 4u);
  options.smaller_than = 0;
  EXPECT_EQ(writer::Pack(path(), options, kNothing).status().code(), StatusCode::kInvalidArgument);
  options.smaller_than = (1 << 20) + 1;
  EXPECT_EQ(writer::Pack(path(), options, kNothing).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(PacksTest, ADamagedPackHidesNoStep) {
  const writer::PackOptions first{.keep = 3};
  Pack(first);
  Pack();
  const fs::path pack = path() / "steps/pack-0_1x2.qsp";
  ASSERT_TRUE(fs::exists(pack));
  fs::resize_file(pack, fs::file_size(pack) - 1);

  const auto dataset = Open();

  EXPECT_EQ(dataset->steps(), recipe_.steps);
  const auto step = dataset->Step(1);
  EXPECT_EQ(step.status().code(), StatusCode::kDataLoss);
  EXPECT_NE(step.status().message().find("pack-0_1x2.qsp"), std::string::npos) << step.status().message();
  EXPECT_TRUE(dataset->Step(10).ok());
  const auto verified = VerifyDataset(*dataset, kNothing);
  ASSERT_TRUE(verified.ok());
  EXPECT_EQ(verified->damage.size(), 3u);
}

TEST_F(PacksTest, VerifyNamesStepFileAndPack) {
  Pack();
  const fs::path path_of_pack = path() / "steps/pack-0_1x3_7_10.qsp";
  const auto pack = *PackFile::Open(path_of_pack, *format::StepsOfPack("pack-0_1x3_7_10.qsp"));
  const format::PackTable::Step& step = *pack->table().FindStep(3);
  const std::uint64_t at = pack->table().FindFile(step, "pressure/0001.qsf")->offset + 144;
  {
    std::fstream file(path_of_pack, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(at));
    const int byte = file.get();
    file.seekp(static_cast<std::streamoff>(at));
    file.put(static_cast<char>(byte ^ 1));
  }

  const auto verified = VerifyDataset(*Open(), kNothing);

  ASSERT_TRUE(verified.ok());
  ASSERT_EQ(verified->damage.size(), 1u);
  const std::string message = verified->damage[0].message();
  for (const char* const part :
       {"steps/000003/pressure/0001.qsf", "checksum", "step 3 is in", "pack-0_1x3_7_10.qsp"})
    EXPECT_NE(message.find(part), std::string::npos) << message;
}

TEST_F(PacksTest, NamesThatCannotBeAreRefused) {
  Pack();
  const fs::path pack = path() / "steps/pack-0_1x3_7_10.qsp";
  const auto error = [&](const std::string& name) {
    fs::copy_file(pack, path() / "steps" / name);
    const auto opened = Dataset::Open(path());
    fs::remove(path() / "steps" / name);
    EXPECT_EQ(opened.status().code(), StatusCode::kDataLoss) << name;
    return opened.status().message();
  };
  EXPECT_NE(error("pack-1_x.qsp").find("pack-1_x.qsp"), std::string::npos);
  const std::string twice = error("pack-10_5.qsp");
  EXPECT_NE(twice.find("step 10 is in several packs"), std::string::npos) << twice;
  EXPECT_NE(twice.find("pack-10_5.qsp"), std::string::npos) << twice;

  // A pack of other steps than its name says.
  fs::rename(pack, path() / "steps/pack-0_1x3_7_11.qsp");
  const auto dataset = Open();
  EXPECT_EQ(dataset->steps().back(), 21u);
  EXPECT_EQ(dataset->Step(3).status().code(), StatusCode::kDataLoss);
}

TEST_F(PacksTest, ProgramsThatDoNotKnowPacksRefuseTheDataset) {
  const auto version = [&] {
    const std::string text = *Location(path() / "dataset.json").ReadText(1 << 20);
    const std::size_t at = text.find("\"format_version\": ");
    return text.substr(at + 18, 1);
  };
  EXPECT_EQ(version(), "4");
  Pack({.smaller_than = 10});
  EXPECT_EQ(version(), "4") << "without packs";
  Pack();
  EXPECT_EQ(version(), "5");
  // A new dataset.json keeps it.
  ASSERT_TRUE(writer::EditAttributes(path(), {}, {{"title", std::string("a")}}, {}).ok());
  EXPECT_EQ(version(), "5");
  recipe_.field = "other";
  recipe_.steps = {30};
  testing::MakeDataset(path(), recipe_);
  EXPECT_EQ(version(), "5");
}

TEST_F(PacksTest, AnotherFieldUnpacksTheSteps) {
  Pack({.keep = 2});
  Pack();
  const auto before = ReadSteps(*Open());
  recipe_.field = "other";
  recipe_.steps = {1};

  testing::MakeDataset(path(), recipe_);

  EXPECT_TRUE(fs::exists(path() / "steps/000003"));
  EXPECT_FALSE(fs::exists(path() / "steps/000010"));
  EXPECT_NE((*Open()->Step(1))->FindField("other"), nullptr);
  EXPECT_NE((*Open()->Step(1))->FindField("pressure"), nullptr);
  EXPECT_TRUE(VerifyDataset(*Open(), kNothing)->damage.empty());
  EXPECT_EQ(Pack().packed, 4u);
  EXPECT_NE((*Open()->Step(1))->FindField("other"), nullptr);
  EXPECT_TRUE(VerifyDataset(*Open(), kNothing)->damage.empty());
}

TEST_F(PacksTest, RemovedStepsAndFieldsDoNotComeBack) {
  recipe_.field = "other";
  testing::MakeDataset(path(), recipe_);
  Pack();

  ASSERT_TRUE(writer::Remove(path(), {.steps = {2, 20}}).ok());

  const std::vector<std::uint64_t> left = {0, 1, 3, 10};
  EXPECT_EQ(Open()->steps(), left);
  Pack();
  EXPECT_EQ(Open()->steps(), left);

  ASSERT_TRUE(writer::Remove(path(), {.fields = {"other"}}).ok());

  for (const std::uint64_t step : left) EXPECT_EQ((*Open()->Step(step))->FindField("other"), nullptr);
  Pack();
  const auto verified = VerifyDataset(*Open(), kNothing);
  EXPECT_TRUE(verified->damage.empty()) << verified->damage.front().message();
  EXPECT_EQ(verified->steps, 4u);
}

TEST_F(PacksTest, AFollowerGetsEachStepOnce) {
  StepFollower follower(path(), std::nullopt);
  std::vector<std::uint64_t> seen;
  const auto poll = [&] {
    while (true) {
      const auto found = follower.Poll();
      ASSERT_TRUE(found.ok()) << found.status().message();
      if (found->empty()) return;
      for (const auto& step : *found) seen.push_back(step->step);
    }
  };
  poll();
  EXPECT_EQ(seen, recipe_.steps);
  Pack({.keep = 1});
  poll();
  const std::vector<std::uint64_t> first = recipe_.steps;
  recipe_.steps = {15, 30};
  testing::MakeDataset(path(), recipe_);
  Pack();
  poll();
  std::vector<std::uint64_t> expected = first;
  expected.insert(expected.end(), {15, 30});
  EXPECT_EQ(seen, expected);
}

/// A storage in which something happens during the first listing of a folder: names that come or go meanwhile
/// are not in it.
class ChangingStorage final : public Storage {
 public:
  ChangingStorage(std::shared_ptr<const Storage> inner, std::string folder, std::function<void()> change)
      : inner_(std::move(inner)), folder_(std::move(folder)), change_(std::move(change)) {}

  Result<std::vector<FolderEntry>> List(const std::string& folder) const override {
    listings += folder == folder_ ? 1 : 0;
    if (folder != folder_ || !change_) return inner_->List(folder);
    const std::vector<FolderEntry> before = *inner_->List(folder);
    std::exchange(change_, nullptr)();
    std::vector<FolderEntry> both;
    const std::vector<FolderEntry> after = *inner_->List(folder);
    for (const FolderEntry& entry : after) {
      if (std::ranges::find(before, entry) != before.end()) both.push_back(entry);
    }
    return both;
  }
  Result<ObjectInfo> Stat(const std::string& path) const override {
    ++looks;
    return inner_->Stat(path);
  }
  Result<std::shared_ptr<const StoredObject>> Open(const std::string& path) const override {
    return inner_->Open(path);
  }
  ReadCosts costs() const override { return {}; }
  std::chrono::milliseconds stamp_tick() const override { return std::chrono::milliseconds(0); }
  std::string AbsolutePath(const std::string& path) const override { return inner_->AbsolutePath(path); }

  mutable int listings = 0;  ///< calls for the folder
  mutable int looks = 0;

 private:
  const std::shared_ptr<const Storage> inner_;
  const std::string folder_;
  mutable std::function<void()> change_;
};

TEST_F(PacksTest, AListingDuringAChangeHasEachStep) {
  const Location disk(path());
  for (const PackedSteps::State state : {PackedSteps::State::kChanges, PackedSteps::State::kRests}) {
    const auto open_during = [&](std::function<void()> change) {
      LetStepsGrowOld();
      const auto storage =
          std::make_shared<ChangingStorage>(disk.storage, (disk / "steps").path, std::move(change));
      return Dataset::Open(WithPacks(Location(storage, disk.path), state));
    };

    const auto packing = open_during([&] { Pack(); });
    ASSERT_TRUE(packing.ok()) << packing.status().message();
    EXPECT_EQ((*packing)->steps(), recipe_.steps);

    const auto unpacking = open_during([&] { ASSERT_TRUE(writer::Unpack(path(), kNothing).ok()); });
    ASSERT_TRUE(unpacking.ok()) << unpacking.status().message();
    EXPECT_EQ((*unpacking)->steps(), recipe_.steps);
    EXPECT_TRUE(ReadSteps(**unpacking) == ReadSteps(**packing));
  }
}

TEST_F(PacksTest, ADatasetThatRestsIsLookedAtOnce) {
  Pack();
  const Location disk(path());
  const auto storage =
      std::make_shared<ChangingStorage>(disk.storage, (disk / "steps").path, std::function<void()>());
  const auto open = [&] {
    storage->looks = storage->listings = 0;
    EXPECT_TRUE(Dataset::Open(WithPacks(Location(storage, disk.path), PackedSteps::State::kRests)).ok());
  };

  LetStepsGrowOld();
  open();
  EXPECT_EQ(storage->looks, 1) << "at the stamp of its steps";
  EXPECT_EQ(storage->listings, 1);

  std::ofstream(path() / "steps" / ".new");
  open();
  EXPECT_EQ(storage->listings, 2) << "a change may have come during the first";
}

TEST_F(PacksTest, FoldersOfPackedStepsAreListed) {
  const auto names = [&](const Location& folder) {
    std::vector<std::string> all;
    const auto entries = folder.List();
    EXPECT_TRUE(entries.ok()) << entries.status().message();
    for (const FolderEntry& entry : *entries) all.push_back(entry.name);
    return all;
  };
  Pack();
  const Location root = WithPacks(path());

  EXPECT_EQ(names(root / "steps/000001"), (std::vector<std::string>{"pressure", "step.json"}));
  EXPECT_EQ(names(root / "steps/000001/pressure"), (std::vector<std::string>{"0000.qsf", "0001.qsf"}));
  EXPECT_EQ((root / "steps/000001").Stat()->kind, ObjectKind::kFolder);
  EXPECT_EQ((root / "steps/000001/pressure").Stat()->kind, ObjectKind::kFolder);
  EXPECT_EQ((root / "steps/000001/pressure/0000.qsf").Stat()->kind, ObjectKind::kFile);
  EXPECT_EQ((root / "steps/000001/pressure/0002.qsf").Stat().status().code(), StatusCode::kNotFound);
  EXPECT_EQ((root / "steps/000004").Stat().status().code(), StatusCode::kNotFound);
  EXPECT_EQ((root / "steps/000001/density").List().status().code(), StatusCode::kNotFound);
  EXPECT_EQ((root / "steps/000001/density/0000.qsf").Open().status().code(), StatusCode::kNotFound);
  EXPECT_NE((root / "steps/000001/step.json").Stat()->identity,
            (root / "steps/000002/step.json").Stat()->identity);
  // Nothing of another file is read.
  const auto file = *(root / "steps/000001/pressure/0000.qsf").Open();
  Bytes beyond(2);
  EXPECT_EQ(file->ReadAt(file->size() - 1, beyond).code(), StatusCode::kDataLoss);
  const ReadRange range{file.get(), file->size() - 1, beyond};
  EXPECT_EQ(root.storage->ReadRanges({&range, 1}, [] { return false; }).code(), StatusCode::kDataLoss);
}

}  // namespace
}  // namespace quarry
