// Promises of the storage for writing, on directories.
#include "quarry/storage/directory_writer.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "quarry/storage/location.h"
#include "tests/testing/faulty_writer.h"
#include "tests/testing/memory_writer.h"
#include "tests/testing/temporary_folder.h"

namespace quarry {
namespace {

namespace fs = std::filesystem;

ByteSpan BytesOf(const std::string& text) { return std::as_bytes(std::span(text)); }

class DirectoryWriterTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const { return (folder_.path() / name).string(); }
  std::string TextAt(const std::string& name) const {
    const auto text = Location(Path(name)).ReadText(1 << 20);
    return text.ok() ? *text : "";
  }
  std::size_t Files() const {
    std::size_t files = 0;
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path()))
      files += entry.is_regular_file() ? 1 : 0;
    return files;
  }

  testing::TemporaryFolder folder_;
  DirectoryWriter writer_{4};
};

TEST_F(DirectoryWriterTest, PutsAFileWithItsFolders) {
  EXPECT_TRUE(writer_.Put(Path("a/b/file"), BytesOf("text"), PutCondition::Always()).ok());
  EXPECT_TRUE(writer_.Put(Path("a/b/file"), BytesOf("other"), PutCondition::Always()).ok());
  EXPECT_EQ(TextAt("a/b/file"), "other");
  EXPECT_EQ(Files(), 1U);
}

TEST_F(DirectoryWriterTest, KeepsConditions) {
  ASSERT_TRUE(writer_.Put(Path("file"), BytesOf("first"), PutCondition::IfAbsent()).ok());
  EXPECT_EQ(writer_.Put(Path("file"), BytesOf("second"), PutCondition::IfAbsent()).code(),
            StatusCode::kAlreadyExists);
  EXPECT_EQ(TextAt("file"), "first");
  const auto tag = writer_.TagOf(Path("file"));
  ASSERT_TRUE(tag.ok());
  EXPECT_TRUE(writer_.Put(Path("file"), BytesOf("third"), PutCondition::IfTag(*tag)).ok());
  EXPECT_EQ(writer_.Put(Path("file"), BytesOf("fourth"), PutCondition::IfTag(*tag)).code(),
            StatusCode::kFailedPrecondition);
  EXPECT_EQ(TextAt("file"), "third");
  EXPECT_EQ(writer_.TagOf(Path("none")).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(Files(), 1U);  // refused files leave nothing
}

TEST_F(DirectoryWriterTest, ShowsAnUploadWhenItIsComplete) {
  auto upload = writer_.BeginUpload(Path("folder/file"), 10);
  ASSERT_TRUE(upload.ok());
  EXPECT_TRUE((*upload)->PutPart(2, BytesOf("90")).ok());
  EXPECT_TRUE((*upload)->PutPart(0, BytesOf("1234")).ok());
  EXPECT_FALSE(fs::exists(Path("folder/file")));
  EXPECT_TRUE((*upload)->PutPart(1, BytesOf("5678")).ok());
  EXPECT_TRUE((*upload)->Complete(10, PutCondition::IfAbsent()).ok());
  EXPECT_EQ(TextAt("folder/file"), "1234567890");
  EXPECT_EQ(Files(), 1U);
}

TEST_F(DirectoryWriterTest, RefusesAnUploadThatLacksItsEnd) {
  auto upload = writer_.BeginUpload(Path("file"), 10);
  ASSERT_TRUE(upload.ok());
  ASSERT_TRUE((*upload)->PutPart(0, BytesOf("1234")).ok());
  EXPECT_FALSE((*upload)->Complete(10, PutCondition::Always()).ok());
  EXPECT_FALSE(fs::exists(Path("file")));
  EXPECT_TRUE((*upload)->Abort().ok());
  EXPECT_EQ(Files(), 0U);
}

TEST_F(DirectoryWriterTest, WritesANewFileInItsOrder) {
  {
    const auto file = writer_.Create(Path("folder/file"), 10);
    ASSERT_TRUE(file.ok());
    EXPECT_TRUE((*file)->Append(BytesOf("123456")).ok());
    EXPECT_TRUE((*file)->Sync().ok());
    EXPECT_TRUE((*file)->Append(BytesOf("78")).ok());
    EXPECT_EQ((*file)->size(), 8U);
    EXPECT_TRUE((*file)->Finish().ok());
  }
  EXPECT_EQ(TextAt("folder/file"), "12345678");
  EXPECT_EQ(writer_.Create(Path("folder/file"), 10).status().code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(TextAt("folder/file"), "12345678");
}

/// The way of stores: in parts of 4 bytes, and in one piece.
TEST(NewFileInParts, IsThereWhenItIsFinished) {
  for (const std::string text : {"", "1", "1234", "12345", "12345678", "1234567890"}) {
    const auto storage = std::make_shared<testing::MemoryStorage>();
    const auto memory = std::make_shared<testing::MemoryWriter>(storage, 4);
    std::vector<std::string> calls;
    const testing::FaultyWriter writer(memory, [&](const std::string& call) {
      calls.push_back(call);
      return Status::Ok();
    });
    EXPECT_LE(writer.MemoryOfFile(text.size()), 4U);
    const auto file = writer.Create("b/file", text.size());
    ASSERT_TRUE(file.ok());
    for (const char c : text) {
      EXPECT_TRUE((*file)->Append(BytesOf(std::string(1, c))).ok());
      EXPECT_TRUE((*file)->Sync().ok());
    }
    EXPECT_FALSE(storage->Stat("b/file").ok());
    EXPECT_EQ((*file)->size(), text.size());
    EXPECT_TRUE((*file)->Finish().ok());
    EXPECT_EQ(*Location(storage, "b/file").ReadText(100), text);
    if (text.size() <= 4) {
      EXPECT_EQ(calls, std::vector<std::string>{"put b/file"});
    } else {
      EXPECT_EQ(calls.size(), 2 + (text.size() + 3) / 4);
    }
    const auto again = writer.Create("b/file", text.size());
    ASSERT_TRUE(again.ok());
    EXPECT_TRUE((*again)->Append(BytesOf("another text")).ok());
    EXPECT_EQ((*again)->Finish().code(), StatusCode::kAlreadyExists);
    EXPECT_EQ(*Location(storage, "b/file").ReadText(100), text);
  }
}

TEST(NewFileInParts, AFileThatIsGivenUpIsAborted) {
  const auto storage = std::make_shared<testing::MemoryStorage>();
  std::vector<std::string> calls;
  const testing::FaultyWriter writer(std::make_shared<testing::MemoryWriter>(storage, 4),
                                     [&](const std::string& call) {
                                       calls.push_back(call);
                                       return Status::Ok();
                                     });
  {
    const auto file = writer.Create("b/file", 10);
    ASSERT_TRUE(file.ok());
    EXPECT_TRUE((*file)->Append(BytesOf("1234567")).ok());
  }
  EXPECT_EQ(calls, (std::vector<std::string>{"begin b/file", "part b/file", "abort b/file"}));
}

TEST_F(DirectoryWriterTest, RemovesWhatKilledProcessesHaveLeft) {
  ASSERT_TRUE(writer_.Put(Path("a/file"), BytesOf("text"), PutCondition::Always()).ok());
  {
    auto upload = writer_.BeginUpload(Path("a/b/file"), 10);
    ASSERT_TRUE(upload.ok());
  }
  EXPECT_EQ(Files(), 2U);
  const auto removed = writer_.RemoveLeftovers(folder_.path().string());
  EXPECT_TRUE(removed.ok() && *removed == 1);
  EXPECT_EQ(TextAt("a/file"), "text");
  EXPECT_EQ(Files(), 1U);
  const auto none = writer_.RemoveLeftovers(Path("none"));
  EXPECT_TRUE(none.ok() && *none == 0);
}

TEST_F(DirectoryWriterTest, RenamesAFolderToANewNameAlone) {
  ASSERT_TRUE(writer_.Put(Path("a/file"), BytesOf("text"), PutCondition::Always()).ok());
  EXPECT_TRUE(writer_.RenameFolder(Path("a"), Path("b")).ok());
  EXPECT_EQ(TextAt("b/file"), "text");
  ASSERT_TRUE(writer_.Put(Path("c/file"), BytesOf("other"), PutCondition::Always()).ok());
  EXPECT_EQ(writer_.RenameFolder(Path("c"), Path("b")).code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(TextAt("b/file"), "text");
}

TEST_F(DirectoryWriterTest, LocksAFolder) {
  auto lock = writer_.LockFolder(Path("folder"), {});
  ASSERT_TRUE(lock.ok());
  EXPECT_EQ(writer_.LockFolder(Path("folder"), {.timeout_seconds = 0}).status().code(),
            StatusCode::kUnavailable);
  *lock = nullptr;
  EXPECT_TRUE(writer_.LockFolder(Path("folder"), {.timeout_seconds = 0}).ok());
}

}  // namespace
}  // namespace quarry
