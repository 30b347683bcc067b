#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "quarry/storage/storage.h"

/// A storage whose bytes somebody else fetches, where nothing may wait: the page asks a question, fetches
/// what is missing, and asks again. docs/decisions/bucket-page.md has the reasons.
namespace quarry::supplied {

/// Bytes or facts that a question needs, and the storage does not have.
struct Wanted {
  enum class Kind : std::uint8_t {
    kFacts = 0,  ///< size and tag alone
    kFront = 1,  ///< the first `size` bytes, or all of a shorter object
    kBack = 2,   ///< the last
    kRange = 3,  ///< just these bytes
  };
  Kind kind = Kind::kFacts;
  std::string path;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  /// The question cannot go on without. The others are read ahead.
  bool awaited = false;

  friend bool operator==(const Wanted&, const Wanted&) = default;
};

/// The answer to something that was wanted.
struct Supplied {
  std::optional<std::uint64_t> size;  ///< [bytes] of the whole object, as far as it was told
  std::string tag;                    ///< ETag; empty: none was told
  Bytes bytes;
};

/// Leaves a question whose bytes are not there. No std::exception: whoever handles failures must not take it
/// for one, since nothing has failed.
struct NotHere {};

/// Bytes of an object that were supplied.
struct Held {
  std::uint64_t offset = 0;
  Bytes bytes;
};

/// The wants of one question, and the bytes that it has used. One thread at a time.
class Asker {
 public:
  /// All since Begin; those that the question waits for first.
  std::vector<Wanted> wanted() const;
  bool wants_any() const { return !wanted_.empty(); }
  /// [bytes] that are kept for this question.
  std::uint64_t held() const { return held_bytes_; }

  void Begin() { wanted_.clear(); }
  /// Nothing is kept for it any more.
  void Release();

 private:
  friend class SuppliedReading;
  friend class SuppliedStorage;

  void Want(Wanted wanted);
  void Await(std::size_t first, std::size_t end);
  void Keep(std::shared_ptr<const Held> held);

  std::vector<Wanted> wanted_;
  std::set<std::shared_ptr<const Held>> kept_;
  std::uint64_t held_bytes_ = 0;
};

/// Objects of a web server, whose bytes are supplied. Each call that needs others throws NotHere, and the
/// asker knows which. No call ever waits, and none uses threads. One thread at a time.
class SuppliedStorage final : public Storage {
 public:
  SuppliedStorage() = default;

  /// While a question is asked.
  class Asking {
   public:
    Asking(const SuppliedStorage* storage, Asker* asker) : storage_(storage) { storage_->asker_ = asker; }
    ~Asking() { storage_->asker_ = nullptr; }
    Asking(const Asking&) = delete;
    Asking& operator=(const Asking&) = delete;

   private:
    const SuppliedStorage* const storage_;
  };

  /// Hands over what was wanted; kept at least as long as the asker wants it.
  void Supply(const Wanted& wanted, Supplied supplied, Asker* asker);
  /// Each call for this path now fails so, until Forget. @param why  kNotFound: there is no such object
  void Fail(const std::string& path, Status why);
  /// Drops bytes that no question keeps, beyond some that the next may want.
  void Trim();
  /// The same, and failures.
  void Forget();

  /// @errors kUnimplemented: web servers have no lists
  Result<std::vector<FolderEntry>> List(const std::string& folder) const override;
  Result<ObjectInfo> Stat(const std::string& path) const override;
  Result<std::string> FolderIdentity(const std::string& path) const override { return AbsolutePath(path); }
  Result<std::shared_ptr<const StoredObject>> Open(const std::string& path) const override;
  Result<OpenedFile> OpenWith(const std::string& path, FileEnd end, std::uint64_t most,
                              Stamp* stamp) const override;
  Result<Bytes> ReadWhole(const std::string& path, std::uint64_t limit) const override;
  std::shared_ptr<const StoredObject> Refer(const std::string& path, std::uint64_t size,
                                            std::uint64_t content) const override;
  void AtOnce(std::size_t calls, const std::function<void(std::size_t)>& call) const override;
  bool has_folders() const override { return false; }
  ReadCosts costs() const override;
  bool ends_in_time() const override { return true; }
  std::chrono::milliseconds trust() const override { return std::chrono::seconds(2); }
  std::chrono::milliseconds stamp_tick() const override { return std::chrono::milliseconds(0); }
  std::string AbsolutePath(const std::string& path) const override;

 protected:
  std::unique_ptr<Reading> Begin(std::vector<ReadRange> ranges, RangeDone done,
                                 const std::function<bool()>& cancelled) const override;

 private:
  friend class SuppliedObject;
  friend class SuppliedReading;

  /// An object as far as it is known.
  struct Known {
    std::optional<std::uint64_t> size;
    std::string tag;
    Status failure;
    std::map<std::uint64_t, std::shared_ptr<const Held>> ranges = {};  ///< by offset
  };

  Known* Find(const std::string& path) const;
  Status Learn(Known* known, const std::string& path, const Supplied& supplied) const;
  std::shared_ptr<const Held> FindRange(const std::string& path, std::uint64_t offset,
                                        std::uint64_t size) const;
  Result<const Known*> FactsOf(const std::string& path) const;
  Result<bool> Take(const ReadRange& range) const;

  mutable Asker* asker_ = nullptr;
  mutable std::map<std::string, Known> objects_;
  mutable std::list<std::pair<std::string, std::uint64_t>> order_;  ///< path and offset, the oldest first
};

}  // namespace quarry::supplied
