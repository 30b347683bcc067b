#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "quarry/base/endian.h"
#include "quarry/base/status.h"

namespace quarry {

enum class ObjectKind : std::uint8_t { kFile, kFolder, kOther };

/// A name in a folder.
struct FolderEntry {
  std::string name;
  ObjectKind kind = ObjectKind::kOther;  ///< kind of the target, for a symbolic link
  bool is_link = false;                  ///< whether it is a symbolic link

  friend bool operator==(const FolderEntry&, const FolderEntry&) = default;
};

/// Shows that a file was replaced, or that a folder gained or lost a name: the text then differs, except for
/// changes within one tick of the storage. StampWatch knows when that is over.
struct Stamp {
  std::string text;
  /// By the clock of the storage and ours the last change is more than a minute ago. They may disagree.
  bool old = false;

  friend bool operator==(const Stamp& a, const Stamp& b) { return a.text == b.text; }
};

/// Facts about an object that a storage knows without reading it.
struct ObjectInfo {
  ObjectKind kind = ObjectKind::kOther;
  std::uint64_t size = 0;  ///< [bytes] of a file
  std::string identity;    ///< tells the object from a later one at its path
  Stamp stamp;
};

/// A file open for reading. It stays readable when it is replaced or removed. Thread-safe.
class StoredObject {
 public:
  virtual ~StoredObject() = default;

  /// For messages.
  virtual const std::string& path() const = 0;
  /// [bytes] when the object was opened.
  virtual std::uint64_t size() const = 0;

  /// Fills `out` with the bytes from `offset`.
  /// @errors kDataLoss: the object ends early; kInternal: it cannot be read
  virtual Status ReadAt(std::uint64_t offset, std::span<std::byte> out) const = 0;

  /// Announces a read, so that the storage can fetch the bytes ahead of time. It may do nothing.
  virtual void ExpectRead(std::uint64_t, std::uint64_t) const {}
};

/// All bytes of a small file. @errors those of ReadAt; kDataLoss: it has more than `limit` bytes
Result<Bytes> ReadWhole(const StoredObject& object, std::uint64_t limit);
/// The same as text.
Result<std::string> ReadText(const StoredObject& object, std::uint64_t limit);

/// Bytes to read, and where they go.
struct ReadRange {
  const StoredObject* object = nullptr;
  std::uint64_t offset = 0;
  std::span<std::byte> out;
};

/// A tree of folders and files that datasets are read from: the file system, or any other implementation of
/// this class. Parts of a path are separated by "/". Thread-safe.
class Storage {
 public:
  virtual ~Storage() = default;

  /// The names in a folder, in ascending order.
  /// @errors kNotFound: there is no such folder; kPermissionDenied: it cannot be listed; kInternal
  virtual Result<std::vector<FolderEntry>> List(const std::string& folder) const = 0;

  /// The same without a look at what links lead to, which may hang: their kind may be kOther. By default,
  /// List.
  virtual Result<std::vector<FolderEntry>> ListNames(const std::string& folder) const { return List(folder); }

  /// The kind of what a link leads to, as List has it.
  virtual ObjectKind KindBehindLink(const std::string& path) const;

  /// Follows symbolic links. @errors kNotFound: nothing has this path; kInternal: it cannot be examined
  virtual Result<ObjectInfo> Stat(const std::string& path) const = 0;

  /// @errors kNotFound: nothing has this path; kInvalidArgument: it is not a file; kInternal: it cannot be
  /// read
  virtual Result<std::shared_ptr<const StoredObject>> Open(const std::string& path) const = 0;

  /// A whole small file. @errors those of Open and ReadAt; kDataLoss: it has more than `limit` bytes
  virtual Result<Bytes> ReadWhole(const std::string& path, std::uint64_t limit) const;

  /// Reads all ranges, of any objects that this storage has opened. By default, announces all and then reads
  /// them one after the other; a storage with slow answers requests many at a time.
  /// @param cancelled  asked between ranges; true ends it with kCancelled
  /// @errors those of ReadAt; the contents of `out` are then undefined
  virtual Status ReadRanges(std::span<const ReadRange> ranges, const std::function<bool()>& cancelled) const;

  /// [bytes] The largest gap between two ranges that is faster to read than to skip. Plans join such ranges.
  virtual std::uint64_t read_gap() const = 0;

  /// Two changes that are no further apart may leave the same stamp.
  virtual std::chrono::milliseconds stamp_tick() const = 0;

  /// The path from the root of the storage, without "." and "..".
  virtual std::string AbsolutePath(const std::string& path) const;
};

}  // namespace quarry
