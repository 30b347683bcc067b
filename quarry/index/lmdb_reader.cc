#include "quarry/index/lmdb_reader.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <span>

namespace quarry::index {

namespace {

// The file of LMDB 0.9, data version 1, on machines of 64 bits; numbers are in the order of the machine.
// A file begins with two meta pages, of which the one with the larger transaction counts. A page has a
// header, places of its nodes (u16), and the nodes, which grow from its end. The value of a node that is too
// large for a page lies in pages of its own.
static_assert(sizeof(std::size_t) == 8);
constexpr std::uint32_t kMagic = 0xBEEFC0DE;
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kMetaPages = 2;
constexpr std::size_t kSmallestPage = 256;
constexpr std::size_t kLargestPage = 32768;
constexpr std::uint64_t kNoPage = ~std::uint64_t{0};

struct HeaderAt {
  static constexpr std::size_t kNumber = 0;   // u64
  static constexpr std::size_t kFlags = 10;   // u16
  static constexpr std::size_t kLower = 12;   // u16: end of the places
  static constexpr std::size_t kUpper = 14;   // u16: begin of the nodes
  static constexpr std::size_t kLength = 12;  // u32: pages of a large value
  static constexpr std::size_t kEnd = 16;
};

enum PageFlag : std::uint16_t { kBranch = 0x01, kLeaf = 0x02, kLarge = 0x04, kMeta = 0x08 };

struct NodeOffset {
  static constexpr std::size_t kSize = 0;   // u32 of the value; of a branch the lower 32 bits of the child
  static constexpr std::size_t kFlags = 4;  // u16; of a branch the upper 16 bits of the child
  static constexpr std::size_t kKey = 6;    // u16: bytes of the key
  static constexpr std::size_t kEnd = 8;
};

enum NodeFlag : std::uint16_t { kLargeValue = 0x01, kTree = 0x02 };

struct MetaAt {
  static constexpr std::size_t kMagic = 16;
  static constexpr std::size_t kVersion = 20;
  static constexpr std::size_t kPageSize = 40;
  static constexpr std::size_t kMainTree = 88;
  static constexpr std::size_t kTransaction = 144;
  static constexpr std::size_t kEnd = 152;
};

struct TreeAt {
  static constexpr std::size_t kFlags = 4;  // u16: how keys are compared; 0: as bytes
  static constexpr std::size_t kRoot = 40;  // u64
  static constexpr std::size_t kEnd = 48;
};

/// @param at  with its end inside of `bytes`
template <typename T>
T NumberAt(ByteSpan bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

/// As LMDB compares keys: byte by byte, then the shorter one first.
bool Before(ByteSpan a, ByteSpan b) {
  const int order = std::memcmp(a.data(), b.data(), std::min(a.size(), b.size()));
  return order != 0 ? order < 0 : a.size() < b.size();
}

/// @param bytes  TreeAt::kEnd of them
Result<StoredTree> TreeIn(ByteSpan bytes) {
  if (const auto flags = NumberAt<std::uint16_t>(bytes, TreeAt::kFlags); flags != 0)
    return DataLoss("a tree has the flags {}", flags);
  const auto root = NumberAt<std::uint64_t>(bytes, TreeAt::kRoot);
  return StoredTree{root, root == kNoPage};
}

}  // namespace

Result<StoredPages> StoredPages::Open(ByteSpan file) {
  if (file.size() < MetaAt::kEnd) return DataLoss("a file of {} bytes is not an index", file.size());
  const auto page_size = NumberAt<std::uint32_t>(file, MetaAt::kPageSize);
  if (page_size < kSmallestPage || page_size > kLargestPage || !std::has_single_bit(page_size))
    return DataLoss("pages have {} bytes", page_size);
  StoredPages pages(file, page_size);
  if (pages.page_count() < kMetaPages) return DataLoss("a file of {} bytes is not an index", file.size());
  std::uint64_t newest = 0;
  ByteSpan meta;
  for (std::size_t i = 0; i < kMetaPages; ++i) {
    const ByteSpan page = file.subspan(i * page_size, page_size);
    if (NumberAt<std::uint32_t>(page, MetaAt::kMagic) != kMagic ||
        NumberAt<std::uint32_t>(page, MetaAt::kVersion) != kVersion ||
        NumberAt<std::uint32_t>(page, MetaAt::kPageSize) != page_size ||
        (NumberAt<std::uint16_t>(page, HeaderAt::kFlags) & kMeta) == 0)
      return DataLoss("page {} is not the first page of an LMDB file", i);
    const auto transaction = NumberAt<std::uint64_t>(page, MetaAt::kTransaction);
    if (meta.empty() || transaction > newest) meta = page;
    newest = std::max(newest, transaction);
  }
  QUARRY_ASSIGN_OR_RETURN(pages.main_, TreeIn(meta.subspan(MetaAt::kMainTree, TreeAt::kEnd)));
  return pages;
}

Result<StoredTree> StoredPages::FindTree(const char* name) const {
  const ByteSpan key = std::as_bytes(std::span(name, std::strlen(name)));
  StoredCursor cursor(*this, main_);
  QUARRY_ASSIGN_OR_RETURN(const auto* const record, cursor.Seek(key));
  if (record == nullptr || !SameBytes(record->key, key) || record->value.size() != TreeAt::kEnd)
    return DataLoss("there is no database \"{}\"", name);
  return TreeIn(record->value);
}

Result<StoredPages::Page> StoredPages::PageAt(std::uint64_t number) const {
  if (number < kMetaPages || number >= page_count())
    return DataLoss("page {} of {} is named", number, page_count());
  Page page;
  page.bytes = file_.subspan(number * page_size_, page_size_);
  const auto flags = NumberAt<std::uint16_t>(page.bytes, HeaderAt::kFlags);
  const auto lower = NumberAt<std::uint16_t>(page.bytes, HeaderAt::kLower);
  const auto upper = NumberAt<std::uint16_t>(page.bytes, HeaderAt::kUpper);
  page.is_leaf = flags == kLeaf;
  if ((flags != kLeaf && flags != kBranch) ||
      NumberAt<std::uint64_t>(page.bytes, HeaderAt::kNumber) != number ||
      lower < HeaderAt::kEnd + sizeof(std::uint16_t) || lower > upper || upper > page_size_)
    return DataLoss("page {} has the flags {} and ends {} and {}", number, flags, lower, upper);
  page.count = static_cast<std::uint16_t>((lower - HeaderAt::kEnd) / sizeof(std::uint16_t));
  return page;
}

std::optional<StoredPages::KeyedNode> StoredPages::FindNode(const Page& page, std::size_t index) {
  const auto place = NumberAt<std::uint16_t>(page.bytes, HeaderAt::kEnd + index * sizeof(std::uint16_t));
  if (place + NodeOffset::kEnd > page.bytes.size()) return std::nullopt;
  const ByteSpan node = page.bytes.subspan(place);
  const auto key = NumberAt<std::uint16_t>(node, NodeOffset::kKey);
  if (NodeOffset::kEnd + key > node.size()) return std::nullopt;
  return KeyedNode{node, node.subspan(NodeOffset::kEnd, key)};
}

Status StoredPages::DamagedNode(std::size_t index) {
  return DataLoss("node {} of a page, or its key, is not in the page", index);
}

Status StoredPages::NodeAt(const Page& page, std::size_t index, Node* node) const {
  const std::optional<KeyedNode> found = FindNode(page, index);
  if (!found) return DamagedNode(index);
  node->key = found->key;
  const auto size = NumberAt<std::uint32_t>(found->bytes, NodeOffset::kSize);
  const auto flags = NumberAt<std::uint16_t>(found->bytes, NodeOffset::kFlags);
  if (!page.is_leaf) {
    node->child = size | std::uint64_t{flags} << 32;
    return Status::Ok();
  }
  const ByteSpan rest = found->bytes.subspan(NodeOffset::kEnd + found->key.size());
  if (flags == kLargeValue) {
    QUARRY_ASSIGN_OR_RETURN(node->value, LargeValue(rest, size));
    return Status::Ok();
  }
  if ((flags != 0 && flags != kTree) || size > rest.size())
    return DataLoss("node {} has the flags {} and {} bytes", index, flags, size);
  node->value = rest.first(size);
  return Status::Ok();
}

/// @param place  begins with the number of the first page
Result<ByteSpan> StoredPages::LargeValue(ByteSpan place, std::uint32_t size) const {
  const auto number = place.size() < sizeof(std::uint64_t) ? kNoPage : NumberAt<std::uint64_t>(place, 0);
  if (number < kMetaPages || number >= page_count()) return DataLoss("a value lies in page {}", number);
  const ByteSpan pages = file_.subspan(number * page_size_);
  const auto length = NumberAt<std::uint32_t>(pages, HeaderAt::kLength);
  if (NumberAt<std::uint16_t>(pages, HeaderAt::kFlags) != kLarge || length > page_count() - number ||
      HeaderAt::kEnd + std::uint64_t{size} > length * std::uint64_t{page_size_})
    return DataLoss("a value of {} bytes lies in {} pages from {} on", size, length, number);
  return pages.subspan(HeaderAt::kEnd, size);
}

/// In a leaf, finds the first key that is not smaller; in a branch, the number after the last child whose
/// keys begin before or at it.
Result<std::size_t> StoredCursor::Search(const StoredPages::Page& page, ByteSpan key, std::size_t low,
                                         std::size_t high) {
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    const auto found = StoredPages::FindNode(page, middle);
    if (!found) return StoredPages::DamagedNode(middle);
    const bool goes_on = page.is_leaf ? Before(found->key, key) : !Before(key, found->key);
    (goes_on ? low : high) = goes_on ? middle + 1 : middle;
  }
  return low;
}

Result<bool> StoredCursor::SeekInLeaf(ByteSpan key) {
  if (depth_ == 0) return false;
  Place& leaf = places_[depth_ - 1];
  // Keys are mostly sought in ascending order: of the nodes that follow, at distances that double, one is
  // the first that is not smaller.
  if (!Before(record_.key, key)) return false;
  std::size_t low = leaf.index + 1;
  for (std::size_t step = 1;; step *= 2) {
    const std::size_t next = std::min(low + step, std::size_t{leaf.page.count}) - 1;
    if (next < low) return false;
    const auto found = StoredPages::FindNode(leaf.page, next);
    if (!found) return StoredPages::DamagedNode(next);
    if (!Before(found->key, key)) {
      QUARRY_ASSIGN_OR_RETURN(leaf.index, Search(leaf.page, key, low, next));
      return true;
    }
    low = next + 1;
  }
}

Status StoredCursor::Descend(std::uint64_t number, ByteSpan key) {
  while (true) {
    if (depth_ == kMostDepth) return DataLoss("a tree is deeper than {} pages", kMostDepth);
    QUARRY_ASSIGN_OR_RETURN(const StoredPages::Page page, pages_.PageAt(number));
    // The first child of a branch has all keys before the second: its own key is not looked at.
    const std::size_t first = page.is_leaf ? 0 : 1;
    QUARRY_ASSIGN_OR_RETURN(const std::size_t found,
                            Search(page, key, first, key.empty() ? first : page.count));
    places_[depth_++] = {page, page.is_leaf ? found : found - 1};
    if (page.is_leaf) return Status::Ok();
    StoredPages::Node node;
    QUARRY_RETURN_IF_ERROR(pages_.NodeAt(page, found - 1, &node));
    number = node.child;
  }
}

Result<bool> StoredCursor::NextLeaf() {
  for (--depth_; depth_ > 0; --depth_) {
    Place& above = places_[depth_ - 1];
    if (above.index + 1 == above.page.count) continue;
    ++above.index;
    StoredPages::Node node;
    QUARRY_RETURN_IF_ERROR(pages_.NodeAt(above.page, above.index, &node));
    QUARRY_RETURN_IF_ERROR(Descend(node.child, {}));
    return true;
  }
  return false;
}

Result<const StoredCursor::Record*> StoredCursor::Current() {
  if (places_[depth_ - 1].index == places_[depth_ - 1].page.count) {
    QUARRY_ASSIGN_OR_RETURN(const bool more, NextLeaf());
    if (!more) return nullptr;
  }
  const Place& place = places_[depth_ - 1];
  StoredPages::Node node;
  QUARRY_RETURN_IF_ERROR(pages_.NodeAt(place.page, place.index, &node));
  record_ = {node.key, node.value};
  return &record_;
}

/// Goes up to the first branch that has a child behind the key, and down from there; otherwise down from the
/// root.
Status StoredCursor::SeekFromAbove(ByteSpan key) {
  const bool forwards = depth_ > 0 && Before(record_.key, key);
  while (forwards && depth_ > 1) {
    Place& above = places_[--depth_ - 1];
    QUARRY_ASSIGN_OR_RETURN(const std::size_t found,
                            Search(above.page, key, above.index + 1, above.page.count));
    if (found == above.page.count) continue;
    above.index = found - 1;
    StoredPages::Node node;
    QUARRY_RETURN_IF_ERROR(pages_.NodeAt(above.page, above.index, &node));
    return Descend(node.child, key);
  }
  depth_ = 0;
  return Descend(tree_.root, key);
}

Result<const StoredCursor::Record*> StoredCursor::Seek(ByteSpan key) {
  if (tree_.empty) return nullptr;
  QUARRY_ASSIGN_OR_RETURN(const bool near, SeekInLeaf(key));
  if (!near) QUARRY_RETURN_IF_ERROR(SeekFromAbove(key));
  return Current();
}

Result<const StoredCursor::Record*> StoredCursor::Next() {
  if (depth_ == 0) return nullptr;
  ++places_[depth_ - 1].index;
  const ByteSpan before = record_.key;
  QUARRY_ASSIGN_OR_RETURN(const Record* const record, Current());
  // Every leaf has a record: a tree whose pages are in it more than once ends here.
  if (record != nullptr && !Before(before, record->key)) return DataLoss("keys are out of order");
  return record;
}

Result<std::optional<ByteSpan>> FindValue(const StoredPages& pages, const StoredTree& tree, ByteSpan key) {
  StoredCursor cursor(pages, tree);
  QUARRY_ASSIGN_OR_RETURN(const auto* const record, cursor.Seek(key));
  if (record == nullptr || !SameBytes(record->key, key)) return std::optional<ByteSpan>();
  return std::optional<ByteSpan>(record->value);
}

Result<bool> HasRecord(const StoredPages& pages, const StoredTree& tree, ByteSpan key, ByteSpan value) {
  StoredCursor cursor(pages, tree);
  QUARRY_ASSIGN_OR_RETURN(const auto* const record, cursor.Seek(key));
  return record != nullptr && SameBytes(record->key, key) && SameBytes(record->value, value);
}

}  // namespace quarry::index
