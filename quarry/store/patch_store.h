#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>

#include "quarry/base/status.h"
#include "quarry/codec/patch_codec.h"

/// What reads share: one budget of memory, the patches that were decoded lately, and the threads that decode.
namespace quarry {

/// One level of one patch, decoded. Shared by all who use it, changed by nobody.
using StoredPatch = std::shared_ptr<const PatchReader>;

/// Which level of which patch, and what it was decoded from: data that are replaced are other patches.
struct PatchKey {
  std::uint64_t dataset = 0;  ///< checksum of its path
  std::uint64_t step = 0;
  std::uint64_t patch = 0;
  std::uint64_t content = 0;  ///< of the stored checksums of the level and the coarser ones, masks included
  std::uint32_t field = 0;
  std::int32_t level = 0;

  friend bool operator==(const PatchKey&, const PatchKey&) = default;
};

/// The memory of everything that is decoded or read, and the decoded patches in it. Patches that nobody uses
/// make place for what is needed, the one that was used longest ago first. A patch that several reads want is
/// decoded once. Thread-safe.
///
/// There are three kinds of memory. A read pins what it cannot do without for as long as it lasts: the patch
/// that it delivers, which a slow client may hold for long. At most half of the budget can be pinned, so that
/// there always is memory to decode in: it is reserved for batches, which wait for nothing but files and
/// processors, and end. What they decoded stays in the store, and gives way to both.
/// (After the storage service of out-of-core systems, papers/004 section 3: blocks in use are pinned, the
/// others least recently used.)
class PatchStore {
 public:
  /// @param bytes  for everything
  /// @param queue  most reads that may wait to be let in
  explicit PatchStore(std::uint64_t bytes, std::size_t queue = SIZE_MAX);
  PatchStore(const PatchStore&) = delete;
  PatchStore& operator=(const PatchStore&) = delete;

  /// What a patch takes in the store: its samples, its place, and the objects that hold it, which are nearly
  /// everything of coarse levels with a few samples each.
  static std::uint64_t BytesOf(const StoredPatch& patch) { return patch->memory() + (1 << 10); }

  /// Memory that gives itself back. Outlived by the store.
  class Memory {
   public:
    Memory() = default;
    ~Memory() { Release(); }
    Memory(Memory&& other) noexcept { *this = std::move(other); }
    Memory& operator=(Memory&& other) noexcept {
      std::swap(store_, other.store_);
      std::swap(counter_, other.counter_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    void Release();

   private:
    friend class PatchStore;
    Memory(PatchStore* store, std::uint64_t* counter, std::uint64_t bytes)
        : store_(store), counter_(counter), bytes_(bytes) {}

    PatchStore* store_ = nullptr;
    std::uint64_t* counter_ = nullptr;  ///< of the store, from which the bytes were taken
    std::uint64_t bytes_ = 0;
  };

  /// Lets a read in: waits, in order of arrival, until its memory can be pinned.
  /// @param cancelled  asked while waiting
  /// @errors kResourceExhausted: more than can ever be pinned, or too many wait already; kCancelled
  Result<Memory> Pin(std::uint64_t bytes, const std::function<bool()>& cancelled);

  /// Memory of a batch: waits, in order of arrival, for others to end.
  /// @errors kResourceExhausted: more than half of the budget; kCancelled
  Result<Memory> Reserve(std::uint64_t bytes, const std::function<bool()>& cancelled);

  /// The same, or nothing where that would mean to wait: for what is read ahead.
  std::optional<Memory> TryReserve(std::uint64_t bytes);

  /// Most that a read should have under way beside what it delivers: a fair part of what can be reserved.
  std::uint64_t FairShare() const;

  /// One that decodes a patch which others wait for, or will ask for soon. One that goes before Finish makes
  /// the waiting ones decode it themselves.
  class Claim {
   public:
    Claim() = default;
    ~Claim();
    Claim(Claim&& other) noexcept { *this = std::move(other); }
    Claim& operator=(Claim&& other) noexcept;

    /// True for the one that is to decode.
    explicit operator bool() const { return store_ != nullptr; }
    /// The finest coarser level of the patch that is there, to go on from; or null.
    const StoredPatch& base() const { return base_; }

    /// Whether others wait for the patch.
    bool Wanted() const;

    /// Hands the patch to those who wait, and keeps it in the store: its memory comes out of `memory`, which
    /// has to have it.
    void Finish(StoredPatch patch, Memory* memory);
    /// Hands an error to those who wait.
    void Fail(Status status);

   private:
    friend class PatchStore;
    PatchStore* store_ = nullptr;
    PatchKey key_;
    StoredPatch base_;
  };

  /// Says who decodes a patch.
  /// @param coarser  keys of the same patch at coarser levels, the finest first
  /// @return         nothing where the patch is in the store, or under way
  Claim TryClaim(const PatchKey& key, std::span<const PatchKey> coarser);

  /// The patch, or null where it is neither here nor under way; waits for one that is under way.
  /// @errors kCancelled; that of the one who decodes it
  Result<StoredPatch> Take(const PatchKey& key, const std::function<bool()>& cancelled);

  /// How things are at this moment, and what happened since the start.
  struct State {
    std::uint64_t total = 0;
    std::uint64_t pinned = 0;
    std::uint64_t reserved = 0;
    std::uint64_t stored = 0;   ///< bytes of patches
    std::uint64_t patches = 0;  ///< in the store
    std::size_t reads = 0;      ///< let in
    std::size_t waiting = 0;    ///< reads that wait to be let in
    std::uint64_t hits = 0;     ///< patches that were there, or under way, when they were wanted
    std::uint64_t misses = 0;   ///< patches that had to be decoded
    std::uint64_t evictions = 0;
  };
  State state() const;

 private:
  struct KeyHash {
    std::size_t operator()(const PatchKey& key) const;
  };
  struct Entry {
    PatchKey key;
    StoredPatch patch;
    std::uint64_t bytes;
  };
  /// Of a patch that is being decoded.
  struct Flight {
    bool ended = false;
    std::size_t waiting = 0;
    Status status;
    StoredPatch patch;  ///< null where it was given up
  };
  /// Those who wait for memory, in order of arrival.
  struct Queue {
    std::uint64_t next_ticket = 0;
    std::list<std::uint64_t> tickets;
  };
  using Lock = std::unique_lock<std::mutex>;

  std::uint64_t half() const { return total_ - total_ / 2; }
  std::uint64_t InUse() const { return pinned_ + reserved_; }
  Status WaitInQueue(Lock* lock, Queue* queue, const std::function<bool()>& fits,
                     const std::function<bool()>& cancelled);
  Memory Allot(std::uint64_t* counter, std::uint64_t bytes);
  std::list<Entry> Evict();
  void End(const PatchKey& key, Status status, StoredPatch patch);
  void Keep(const PatchKey& key, const StoredPatch& patch, Memory* memory);

  const std::uint64_t total_;
  const std::size_t queue_limit_;
  mutable std::mutex mutex_;
  std::condition_variable freed_;  ///< memory
  std::condition_variable ended_;  ///< flights
  std::uint64_t pinned_ = 0;
  std::uint64_t reserved_ = 0;
  std::uint64_t stored_ = 0;
  std::size_t reads_ = 0;
  Queue entrance_;
  Queue batches_;
  std::list<Entry> entries_;  ///< the one used last in front
  std::unordered_map<PatchKey, std::list<Entry>::iterator, KeyHash> places_;
  std::unordered_map<PatchKey, std::shared_ptr<Flight>, KeyHash> flights_;
  std::uint64_t hits_ = 0;
  std::uint64_t misses_ = 0;
  std::uint64_t evictions_ = 0;
};

}  // namespace quarry
