#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>

#include "quarry/base/endian.h"
#include "quarry/base/status.h"

/// Reads the files of LMDB without LMDB, which trusts every number in its file. Here no file can cause a read
/// outside of it, or an endless loop: an index may come from a stranger. See docs/decisions/index.md.
namespace quarry::index {

/// One database: a tree of pages.
struct StoredTree {
  std::uint64_t root = 0;
  bool empty = true;
};

/// The pages of a file. Cheap to copy; the bytes must stay. Thread-safe.
class StoredPages {
 public:
  /// @errors kDataLoss: not a file of LMDB
  static Result<StoredPages> Open(ByteSpan file);

  /// @errors kDataLoss: there is none of this name, or it is damaged
  Result<StoredTree> FindTree(const char* name) const;

  struct Page {
    ByteSpan bytes;
    bool is_leaf = false;
    std::uint16_t count = 0;  ///< number of nodes, at least one
  };
  struct Node {
    ByteSpan key;
    ByteSpan value;           ///< value of a leaf
    std::uint64_t child = 0;  ///< page of a branch
  };

  /// A page of a tree. @errors kDataLoss: there is no such page, or it is damaged
  Result<Page> PageAt(std::uint64_t number) const;
  /// @errors kDataLoss: it is damaged
  Status NodeAt(const Page& page, std::size_t index, Node* node) const;
  /// The key of a node, and the bytes of the page from the node on; nothing if they are not in the page. A
  /// lookup reads some keys for each record, so that a Result for each would take half of its time.
  /// @param index  below page.count
  struct KeyedNode {
    ByteSpan bytes;
    ByteSpan key;
  };
  static std::optional<KeyedNode> FindNode(const Page& page, std::size_t index);
  /// The error of a node that FindNode does not find.
  static Status DamagedNode(std::size_t index);

 private:
  StoredPages(ByteSpan file, std::size_t page_size) : file_(file), page_size_(page_size) {}

  Result<ByteSpan> LargeValue(ByteSpan place, std::uint32_t size) const;
  std::uint64_t page_count() const { return file_.size() / page_size_; }

  ByteSpan file_;
  std::size_t page_size_;
  StoredTree main_;
};

/// Goes through the records of a tree. One thread at a time.
class StoredCursor {
 public:
  struct Record {
    ByteSpan key;
    ByteSpan value;
  };

  StoredCursor(const StoredPages& pages, const StoredTree& tree) : pages_(pages), tree_(tree) {}

  /// The first record with a key >= `key`, until the next call; null at the end.
  /// @errors kDataLoss: the file is damaged
  Result<const Record*> Seek(ByteSpan key);
  /// After Seek has found one. @errors besides: the next key is not larger, so that it ends
  Result<const Record*> Next();

 private:
  /// A deeper tree would have more pages than a file can have.
  static constexpr std::size_t kMostDepth = 32;

  struct Place {
    StoredPages::Page page;
    std::size_t index = 0;
  };

  /// Between the nodes `low` and `high`.
  static Result<std::size_t> Search(const StoredPages::Page& page, ByteSpan key, std::size_t low,
                                    std::size_t high);
  /// Runs of a box are often near each other. @returns false if the key may be elsewhere
  Result<bool> SeekInLeaf(ByteSpan key);
  Status SeekFromAbove(ByteSpan key);
  /// Goes down from a page to a leaf. @param key  empty: to the first record
  Status Descend(std::uint64_t page, ByteSpan key);
  /// @returns false at the end of the tree
  Result<bool> NextLeaf();
  Result<const Record*> Current();

  const StoredPages pages_;
  const StoredTree tree_;
  std::array<Place, kMostDepth> places_;
  std::size_t depth_ = 0;
  Record record_;
};

/// Whether two keys or values have the same bytes.
inline bool SameBytes(ByteSpan a, ByteSpan b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size()) == 0;
}

/// The value of a key; nothing if it is not there. @errors kDataLoss: the file is damaged
Result<std::optional<ByteSpan>> FindValue(const StoredPages& pages, const StoredTree& tree, ByteSpan key);

/// Whether the key has this value.
Result<bool> HasRecord(const StoredPages& pages, const StoredTree& tree, ByteSpan key, ByteSpan value);

}  // namespace quarry::index
