#include "writer/pipeline/payload_store.h"

#include <gtest/gtest.h>

#include "tests/testing/make_dataset.h"

namespace quarry::writer {
namespace {

Bytes Counting(std::size_t size, int first) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(first + static_cast<int>(i % 100));
  return bytes;
}

/// The bytes cut into three parts.
std::vector<ByteSpan> InParts(const Bytes& whole) {
  const std::size_t third = whole.size() / 3;
  return {ByteSpan(whole).first(third), ByteSpan(whole).subspan(third, third),
          ByteSpan(whole).subspan(2 * third)};
}

TEST(PayloadStore, GivesBackWhatItKeepsInMemoryAndInItsFile) {
  const testing::TemporaryFolder folder;
  for (const std::uint64_t limit : {std::uint64_t{0}, std::uint64_t{9 << 20}, UINT64_MAX}) {
    PayloadStore store(folder.path(), limit);
    std::vector<Bytes> kept;
    std::vector<std::uint64_t> positions;
    for (const std::size_t size : {3u << 20, 17u, 0u, 5u << 20, 3u << 20, 1u, 6u << 20}) {
      kept.push_back(Counting(size, static_cast<int>(kept.size())));
      positions.push_back(*store.Append(InParts(kept.back())));
    }
    EXPECT_EQ(store.spilled() > 0, limit != UINT64_MAX);
    for (std::size_t i = kept.size(); i-- > 0;) {
      Bytes whole(kept[i].size());
      ASSERT_TRUE(store.Read(positions[i], whole).ok());
      EXPECT_TRUE(whole == kept[i]) << "range " << i << ", limit " << limit;
      Bytes buffer;
      const auto view = store.View(positions[i], kept[i].size(), &buffer);
      ASSERT_TRUE(view.ok());
      EXPECT_TRUE(std::ranges::equal(*view, kept[i])) << "range " << i << ", limit " << limit;
      if (whole.size() < 10) continue;
      Bytes part(3);
      ASSERT_TRUE(store.Read(positions[i] + 5, part).ok());
      EXPECT_TRUE(std::equal(part.begin(), part.end(), kept[i].begin() + 5));
    }
    EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << "its file has no name";
  }
}

TEST(PayloadStore, SaysWhereItCannotWrite) {
  PayloadStore store("/no/such/folder", 0);
  const Bytes bytes = Counting(10, 0);
  const auto position = store.Append(InParts(bytes));
  EXPECT_EQ(position.status().code(), StatusCode::kNotFound);
  EXPECT_NE(position.status().message().find("/no/such/folder"), std::string::npos);
}

}  // namespace
}  // namespace quarry::writer
