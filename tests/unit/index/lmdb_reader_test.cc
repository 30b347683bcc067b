#include "quarry/index/lmdb_reader.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>

#include "quarry/base/file.h"
#include "quarry/index/lmdb.h"
#include "tests/testing/temporary_folder.h"

namespace quarry::index {
namespace {

/// The bytes are few and small numbers, so that many keys begin alike.
Bytes RandomBytes(std::mt19937* random, std::size_t size) {
  Bytes bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>((*random)() % 4);
  return bytes;
}

/// A cursor of LMDB.
class Oracle {
 public:
  Oracle(const lmdb::Transaction& transaction, MDB_dbi database) {
    EXPECT_EQ(mdb_cursor_open(transaction.get(), database, &cursor_), MDB_SUCCESS);
  }
  ~Oracle() { mdb_cursor_close(cursor_); }
  Oracle(const Oracle&) = delete;
  Oracle& operator=(const Oracle&) = delete;

  std::optional<StoredCursor::Record> Seek(ByteSpan key) {
    MDB_val k = lmdb::ToVal(key);
    MDB_val value;
    if (mdb_cursor_get(cursor_, &k, &value, MDB_SET_RANGE) != MDB_SUCCESS) return std::nullopt;
    return StoredCursor::Record{lmdb::ToSpan(k), lmdb::ToSpan(value)};
  }

 private:
  MDB_cursor* cursor_ = nullptr;
};

/// The oracle is LMDB. Searches jump forwards, near and far, and backwards; keys have several sizes, and some
/// values have pages of their own.
TEST(LmdbReaderTest, FindsWhatLmdbFinds) {
  std::mt19937 random(44);
  const testing::TemporaryFolder folder;
  const auto environment = *lmdb::Environment::Create(folder.path() / "data.mdb", 1 << 30);
  lmdb::Transaction transaction = *lmdb::Transaction::Begin(environment);
  const MDB_dbi database = *transaction.OpenDatabase("records");
  for (int i = 0; i < 20000; ++i) {
    const Bytes key = RandomBytes(&random, 1 + random() % 20);
    const Bytes value = RandomBytes(&random, random() % 500 == 0 ? 5000 : random() % 100);
    ASSERT_TRUE(transaction.Put(database, key, value).ok());
  }
  ASSERT_TRUE(transaction.Commit().ok());
  transaction = *lmdb::Transaction::Begin(environment);

  const Bytes file = *ReadWholeFile(environment.path(), std::uint64_t{1} << 30);
  const StoredPages pages = *StoredPages::Open(file);
  StoredCursor cursor(pages, *pages.FindTree("records"));
  Oracle oracle(transaction, database);
  Bytes key = RandomBytes(&random, 3);
  for (int i = 0; i < 100000; ++i) {
    const StoredCursor::Record* const found = *cursor.Seek(key);
    const auto expected = oracle.Seek(key);
    ASSERT_EQ(found != nullptr, expected.has_value());
    if (found == nullptr || random() % 16 == 0) {
      key = RandomBytes(&random, 1 + random() % 20);
      continue;
    }
    ASSERT_TRUE(SameBytes(found->key, expected->key));
    ASSERT_TRUE(SameBytes(found->value, expected->value));
    key.assign(found->key.begin(), found->key.end());
    key.resize(key.size() + random() % 3);  // the record itself, or one of the next
    if (random() % 4 == 0) key[0] = key[key.size() / 2] = std::byte{2};  // far
  }
}

}  // namespace
}  // namespace quarry::index
