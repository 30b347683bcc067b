#include "quarry/input/find_inputs.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace quarry::input {
namespace {

namespace fs = std::filesystem;

class FindInputsTest : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }

  std::string Path(const std::string& name) const { return (folder_ / name).string(); }
  std::string Save(const std::string& name, const std::string& content = "samples") const {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << content;
    return Path(name);
  }
  /// The paths behind one argument.
  static std::vector<std::string> Find(const std::string& argument, const InputOptions& options = {}) {
    const auto found = FindInputs({argument}, options);
    EXPECT_TRUE(found.ok()) << found.status().message();
    std::vector<std::string> paths;
    if (!found.ok()) return paths;
    for (const FoundInput& input : *found) paths.push_back(input.path);
    return paths;
  }
  static Status Refusal(const std::string& argument) { return FindInputs({argument}, {}).status(); }

  const fs::path folder_ =
      fs::temp_directory_path() / ("quarry-find-inputs-test-" + std::to_string(::getpid()));
};

using Paths = std::vector<std::string>;

TEST_F(FindInputsTest, FilesAndWhatIsMissingStayAsTheyAre) {
  const std::string brackets = Save("run-[4-3-2].raw");
  EXPECT_EQ(Find(brackets), Paths{brackets}) << "a file may be called like a pattern";
  EXPECT_EQ(Find(brackets + ":T"), Paths{brackets + ":T"});
  EXPECT_EQ(Find(Path("none.raw")), Paths{Path("none.raw")}) << "opening it gives the reason";
}

TEST_F(FindInputsTest, AListHasAPathOnEachLine) {
  const std::string a = Save("a.f32");
  const std::string b = Save("b c.nc");
  const std::string list = Save("list.txt", "# dumps\n\n" + b + ":T\r\n   \n" + a + "\n" + a);
  const auto found = FindInputs({a, "@" + list}, {});
  ASSERT_TRUE(found.ok()) << found.status().message();
  ASSERT_EQ(found->size(), 4u);
  EXPECT_EQ((*found)[0].place, "");
  EXPECT_EQ((*found)[1].path, b + ":T");
  EXPECT_EQ((*found)[1].place, fmt::format("\"{}\", line 3", list));
  EXPECT_EQ((*found)[2].path, a);
  EXPECT_EQ((*found)[3].place, fmt::format("\"{}\", line 6", list)) << "the last line may lack its end";
}

TEST_F(FindInputsTest, AListThatIsNoneIsRefused) {
  EXPECT_EQ(Refusal("@" + Path("none.txt")).code(), StatusCode::kNotFound);
  const Status empty = Refusal("@" + Save("empty.txt", "# nothing\n\n"));
  EXPECT_EQ(empty.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(empty.message().find("names no input"), std::string::npos) << empty.message();
  const Status zeros = Refusal("@" + Save("zeros.txt", std::string("a\0b\0", 4)));
  EXPECT_NE(zeros.message().find("a path on each line"), std::string::npos) << zeros.message();
  const std::string list = Save("outer.txt", "\n@inner.txt\n");
  const Status nested = Refusal("@" + list);
  EXPECT_NE(nested.message().find(fmt::format("\"{}\", line 2", list)), std::string::npos)
      << nested.message();
  const std::string pattern = Save("pattern.txt", Path("x*.f32") + "\n");
  const Status nothing = Refusal("@" + pattern);
  EXPECT_EQ(nothing.code(), StatusCode::kNotFound);
  EXPECT_NE(nothing.message().find(fmt::format("\"{}\", line 1", pattern)), std::string::npos)
      << nothing.message();
}

TEST_F(FindInputsTest, PathsOfAListCountFromTheCurrentFolder) {
  Save("dumps/a.f32");
  const std::string list = Save("dumps/list.txt", "a.f32\n");
  const Status refused = Refusal("@" + list);
  EXPECT_EQ(refused.code(), StatusCode::kNotFound);
  EXPECT_NE(refused.message().find("current folder"), std::string::npos) << refused.message();
  EXPECT_NE(refused.message().find(Path("dumps/a.f32")), std::string::npos) << refused.message();
}

TEST_F(FindInputsTest, APatternIsItsFilesInNaturalOrder) {
  const std::string two = Save("d2.nc");
  const std::string ten = Save("d10.nc");
  Save("e1.nc");
  EXPECT_EQ(Find(Path("d*.nc")), (Paths{two, ten}));
  EXPECT_EQ(Find(Path("d?.nc:T")), Paths{two + ":T"});
  const Status none = Refusal(Path("f*.nc"));
  EXPECT_EQ(none.code(), StatusCode::kNotFound);
  EXPECT_NE(none.message().find(Path("f*.nc")), std::string::npos) << none.message();
}

TEST_F(FindInputsTest, APatternOfImagesIsOneStack) {
  Save("i1.tif");
  Save("i2.tif");
  EXPECT_EQ(Find(Path("i*.tif")), Paths{Path("i*.tif")});
  EXPECT_EQ(Find(Path("i*"), {.format = "tiff"}), Paths{Path("i*")});
  EXPECT_EQ(Find(Path("i*"), {.format = "raw"}).size(), 2u);
}

TEST_F(FindInputsTest, AFolderIsItsFilesOrOneStack) {
  const std::string two = Save("dumps/d2.f32");
  const std::string ten = Save("dumps/d10.f32");
  Save("dumps/.hidden");
  EXPECT_EQ(Find(Path("dumps")), (Paths{two, ten}));
  EXPECT_EQ(Find(Path("dumps") + ":T"), (Paths{two + ":T", ten + ":T"}));
  Save("dumps/logs/log");
  const auto found = FindInputs({Path("dumps")}, {});
  ASSERT_EQ(found->size(), 2u);
  EXPECT_NE((*found)[0].warning.find("\"logs\""), std::string::npos) << (*found)[0].warning;
  EXPECT_EQ((*found)[1].warning, "");

  Save("stack/i1.tif");
  Save("stack/notes.txt");
  EXPECT_EQ(Find(Path("stack")), Paths{Path("stack")});
  Save("data.zarr/.zgroup");
  Save("data.zarr/0");
  EXPECT_EQ(Find(Path("data.zarr")), Paths{Path("data.zarr")}) << "opening it says that it is Zarr";
  EXPECT_EQ(Find(Path("d*")).size(), 3u) << "a pattern may match folders";
}

}  // namespace
}  // namespace quarry::input
