#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
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

  /// [bytes] up to the end that are in memory, so that nobody need guess how many are worth reading.
  virtual std::uint64_t back_at_hand() const { return 0; }

  /// A text that the storage gives to these bytes alone among all that the path ever has; empty: it has none.
  virtual std::string version() const { return {}; }

  /// Told that bytes of a range are not those that a manifest promises: a storage that keeps copies drops
  /// them. True: what was read may have been a copy, and the next read is of the object itself.
  virtual bool Distrust(std::uint64_t, std::uint64_t) const { return false; }
};

/// Reads and checks a range of an object; once more if the bytes were wrong and may have been those of a
/// copy.
/// @param read  returns kDataLoss for bytes that are not what a manifest promises
template <typename Read>
auto ReadPastWrongCopies(const StoredObject& object, std::uint64_t offset, std::uint64_t size,
                         const Read& read) {
  auto result = read();
  const bool wrong = !result.ok() && result.status().code() == StatusCode::kDataLoss;
  return wrong && object.Distrust(offset, size) ? read() : result;
}

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

/// Told of each range of a reading once, in any order: by its number, and kCancelled if nobody wanted it any
/// more. Called on threads of the storage, several at a time, or on the one that begins the reading. It does
/// not wait.
using RangeDone = std::function<void(std::size_t range, const Status& status)>;

/// Ranges that are being read. Destroying it cancels those that have not come; afterwards nobody writes to
/// their memory, and all of them were reported. One caller at a time.
class Reading {
 public:
  virtual ~Reading() = default;

  /// Waits until all ranges were reported.
  /// @param cancelled  asked from time to time; true cancels the others
  /// @errors the first of a range; kCancelled
  virtual Status Wait(const std::function<bool()>& cancelled) = 0;
};

/// The costs of reading. Plans join ranges by them, and readers have as much under way as fills the way.
struct ReadCosts {
  double latency = 0;                 ///< [s] from a request to the first byte of its answer
  double bandwidth = 0;               ///< [bytes/s] of all answers together
  int side_by_side = 1;               ///< requests that are answered sooner together than one after the other
  std::uint64_t most_bytes = 0;       ///< [bytes] of a request, longer ranges are cut into several; 0: any
  std::uint64_t least_gap = 8 << 10;  ///< [bytes] that are read as fast as a call is made

  /// [bytes] The largest gap between two ranges that is faster to read than to skip.
  std::uint64_t gap() const;
  /// [bytes] that are on the way while an answer is waited for.
  std::uint64_t bytes_under_way() const { return static_cast<std::uint64_t>(latency * bandwidth); }
};

/// A file that was opened, with some of its bytes.
struct OpenedFile {
  std::shared_ptr<const StoredObject> object;
  Bytes bytes;
};

/// Which bytes of a file come with it.
enum class FileEnd : std::uint8_t { kFront, kBack };

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

  /// The identity that Stat gives a folder. By default, Stat is asked; a storage whose folders are their
  /// paths need not ask.
  virtual Result<std::string> FolderIdentity(const std::string& path) const;

  /// @errors kNotFound: nothing has this path; kInvalidArgument: it is not a file; kInternal: it cannot be
  /// read
  virtual Result<std::shared_ptr<const StoredObject>> Open(const std::string& path) const = 0;

  /// Opens a file and reads its first or its last bytes, as one call where that is cheaper than two.
  /// @param most   bytes to read; all of a shorter file
  /// @param stamp  gets the stamp of the file, as it was not after the read; may be null
  /// @errors those of Open and ReadAt
  virtual Result<OpenedFile> OpenWith(const std::string& path, FileEnd end, std::uint64_t most,
                                      Stamp* stamp) const;

  /// A whole small file. @errors those of Open and ReadAt; kDataLoss: it has more than `limit` bytes
  virtual Result<Bytes> ReadWhole(const std::string& path, std::uint64_t limit) const;

  /// A file of which a manifest tells the size, without a call: that it is missing, or ends earlier, shows
  /// when it is read. By default it is opened then. It does not outlive the storage.
  /// @param content  a checksum in the manifest that all bytes of the file follow from: a storage may give
  /// copies that it has kept of such bytes, and is told with Distrust if a copy is wrong
  virtual std::shared_ptr<const StoredObject> Refer(const std::string& path, std::uint64_t size,
                                                    std::uint64_t content) const;

  /// The same for an object that was opened just now: copies of its version() do. By default, the object.
  virtual std::shared_ptr<const StoredObject> AllowCopies(std::shared_ptr<const StoredObject> object) const {
    return object;
  }

  /// Begins to read all ranges, of any objects of this storage. The memory of `out` outlives the reading; it
  /// holds the bytes of a range that was reported without an error. By default, the calling thread announces
  /// all ranges and reads one after the other, and all are reported before this returns.
  /// @param cancelled  asked between ranges where the calling thread reads; true ends that
  /// @errors of a range, those of ReadAt; besides, of an object from Refer, those of Open
  std::unique_ptr<Reading> BeginRead(std::vector<ReadRange> ranges, RangeDone done,
                                     const std::function<bool()>& cancelled) const;
  /// The same, and waits for it.
  Status ReadRanges(std::span<const ReadRange> ranges, const std::function<bool()>& cancelled) const;

  /// Makes calls of this storage that do not depend on each other: `call` is given the numbers from 0 on, and
  /// may be called by several threads at a time. By default as many as costs() has side by side; on files,
  /// one after the other by the calling thread.
  virtual void AtOnce(std::size_t calls, const std::function<void(std::size_t)>& call) const;

  /// The storage that this one shows in another way; null: none.
  virtual const Storage* around() const { return nullptr; }

  /// Whether folders can be listed, and have stamps. A web server has files alone: List and Stat of a folder
  /// are kUnimplemented there.
  virtual bool has_folders() const { return true; }

  /// Whether a name in a folder is that of something complete, as where folders are renamed into their
  /// places. In an object store, a folder has a name from its first file on.
  virtual bool folders_appear_whole() const { return true; }

  /// Whether each call ends after a while, as those of a network with a limit on their time. A file server
  /// that has gone holds a call for ever.
  virtual bool ends_in_time() const { return false; }

  /// The costs of reading here; they do not change while a reader uses the storage.
  virtual ReadCosts costs() const = 0;

  /// So long need not be asked again for a stamp that is known: where each look costs, changes show later.
  virtual std::chrono::milliseconds trust() const { return std::chrono::milliseconds(0); }

  /// Two changes that are no further apart may leave the same stamp.
  virtual std::chrono::milliseconds stamp_tick() const = 0;

  /// The path from the root of the storage, without "." and "..".
  virtual std::string AbsolutePath(const std::string& path) const;

 protected:
  /// See BeginRead, which sees to the lengths of the ranges, and to what Wait returns if one has failed.
  virtual std::unique_ptr<Reading> Begin(std::vector<ReadRange> ranges, RangeDone done,
                                         const std::function<bool()>& cancelled) const;
  /// A reading all of whose ranges were reported.
  static std::unique_ptr<Reading> EndedAlready();
};

}  // namespace quarry
