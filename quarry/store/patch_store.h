#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "quarry/base/status.h"
#include "quarry/codec/patch_reader.h"
#include "quarry/store/requester.h"

/// Shared by all requests: one memory budget, the recently decoded patches, and the threads that decode.
namespace quarry {

/// One level of one patch, decoded. Shared by all its users, changed by none.
using StoredPatch = std::shared_ptr<const PatchReader>;

/// Identity of a level of a patch and of its stored data: replaced data are other patches.
struct PatchKey {
  std::uint64_t dataset = 0;  ///< checksum of its path
  std::uint64_t step = 0;
  std::uint64_t patch = 0;
  std::uint64_t content = 0;  ///< checksum over those of the level and the coarser ones, masks included
  std::uint32_t field = 0;
  std::int32_t level = 0;

  friend bool operator==(const PatchKey&, const PatchKey&) = default;
};

/// The memory budget of all requests, with an LRU cache of decoded patches, manifests and tables in the rest
/// of it. A patch that several reads want is decoded once. Thread-safe.
///
/// There are five kinds of memory. A large question pins its own, up to an eighth of the budget. A request
/// pins what it needs for as long as it lasts, up to three eighths: its plan, and what it delivers, which a
/// slow client may hold for long. A sixteenth more is for small requests alone, one of each client, which
/// would otherwise wait for large ones. So seven sixteenths of the budget are always there to decode in:
/// batches and manifests that are loaded reserve it; they wait only for files and processors, and end. What
/// they make stays in the store, and gives way to the other four.
///
/// Free of deadlocks: a holder of memory waits only for a later kind, in the order question, pinned or small,
/// reserved, and never for more of the same kind.
///
/// Fair among clients: the waiting client that holds least of a kind is next, and a client has at most half
/// of the questions' and of the pinned memory, unless one request alone needs more.
/// @source Saule et al., An Out-of-Core Task-based Middleware for Data-Intensive Scientific Computing,
/// section 3: blocks in use are pinned, the others go least recently used first
class PatchStore {
  struct Kind;

 public:
  /// @param bytes  for everything
  /// @param queue  most requests that may wait to be let in
  explicit PatchStore(std::uint64_t bytes, std::size_t queue = SIZE_MAX);
  PatchStore(const PatchStore&) = delete;
  PatchStore& operator=(const PatchStore&) = delete;

  /// Memory of a patch in the store: its samples, its entry, and the objects that hold it, which are most of
  /// it for coarse levels with few samples.
  static std::uint64_t BytesOf(const StoredPatch& patch) { return patch->memory() + (1 << 10); }

  /// Memory that releases itself. The store outlives it.
  class Memory {
   public:
    Memory() = default;
    ~Memory() { Release(); }
    Memory(Memory&& other) noexcept { *this = std::move(other); }
    Memory& operator=(Memory&& other) noexcept {
      std::swap(store_, other.store_);
      std::swap(kind_, other.kind_);
      std::swap(client_, other.client_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    void Release();

    /// Makes it smaller, or larger if that needs no waiting. False: it is as large as it was.
    bool Resize(std::uint64_t bytes);
    std::uint64_t bytes() const { return bytes_; }

   private:
    friend class PatchStore;
    Memory(PatchStore* store, Kind* kind, std::uint64_t client, std::uint64_t bytes)
        : store_(store), kind_(kind), client_(client), bytes_(bytes) {}

    PatchStore* store_ = nullptr;
    Kind* kind_ = nullptr;  ///< kind of the store from which the bytes were taken
    std::uint64_t client_ = 0;
    std::uint64_t bytes_ = 0;
  };

  /// Memory of a question: waits for its turn, until others are answered.
  /// @errors kResourceExhausted: more than MostForQuestions; kCancelled
  Result<Memory> PinQuestion(std::uint64_t bytes, const Requester& requester);
  std::uint64_t MostForQuestions() const { return total_ / 8; }

  /// Lets a request in: waits for its turn, until its memory can be pinned. A small one of a client that has
  /// no other need not wait for large ones. The caller holds no other pinned or reserved memory.
  /// @errors kResourceExhausted: more than MostPinned, or too many wait already, of all clients or of this
  /// one; kCancelled
  Result<Memory> Pin(std::uint64_t bytes, const Requester& requester);
  /// Three eighths of the budget.
  std::uint64_t MostPinned() const { return total_ / 2 - MostForQuestions(); }

  /// Has `call` called when much pinned memory is free, before another request can have it. Before the first
  /// request.
  void OnLargeRelease(std::function<void()> call) { on_large_release_ = std::move(call); }

  /// Memory of a batch: waits for its turn, until others end.
  /// @errors kResourceExhausted: more than MostReserved; kCancelled
  Result<Memory> Reserve(std::uint64_t bytes, const Requester& requester);
  /// Seven sixteenths of the budget.
  std::uint64_t MostReserved() const { return total_ - MostForQuestions() - MostPinned() - MostSmall(); }

  /// The same, or nothing instead of waiting: for reading ahead.
  std::optional<Memory> TryReserve(std::uint64_t bytes, std::uint64_t client = 0);

  /// [bytes] Most that a read should have in progress beside what it delivers: of what can be reserved, the
  /// clients have equal parts, and so have the reads of a client.
  std::uint64_t FairShare(std::uint64_t client = 0) const;

  /// The right to decode a patch that other reads wait for, or will soon need. If it is destroyed before
  /// Finish, the waiting reads decode the patch themselves.
  class Claim {
   public:
    Claim() = default;
    ~Claim();
    Claim(Claim&& other) noexcept { *this = std::move(other); }
    Claim& operator=(Claim&& other) noexcept;

    /// True if the holder is to decode.
    explicit operator bool() const { return store_ != nullptr; }
    /// The finest coarser level of the patch in the store, to start from; or null.
    const StoredPatch& base() const { return base_; }

    /// Whether others wait for the patch.
    bool Wanted() const;

    /// Hands the patch to the waiting reads, and keeps it in the store: its memory is taken from `memory`,
    /// which must hold enough.
    void Finish(StoredPatch patch, Memory* memory);
    /// Hands an error to the waiting reads.
    void Fail(Status status);

   private:
    friend class PatchStore;
    PatchStore* store_ = nullptr;
    PatchKey key_;
    StoredPatch base_;
  };

  /// Decides who decodes a patch.
  /// @param coarser  keys of the same patch at coarser levels, the finest first
  /// @return         nothing if the patch is in the store, or being decoded
  Claim TryClaim(const PatchKey& key, std::span<const PatchKey> coarser);

  /// The patch if it is stored, or null.
  StoredPatch Find(const PatchKey& key);

  /// Whether each patch is stored or being decoded. Counts as no use of it.
  std::vector<bool> Has(std::span<const PatchKey> keys) const;

  /// The patch, or null if it is neither stored nor being decoded; waits while it is being decoded. Does not
  /// make the patch more recent: claiming does.
  /// @errors kCancelled; that of the decoding read
  Result<StoredPatch> Take(const PatchKey& key, const std::function<bool()>& cancelled);

  /// An object that is kept beside the patches: a manifest, a table. It is loaded again if it had to make
  /// room.
  struct Loaded {
    std::shared_ptr<const void> object;
    std::uint64_t bytes = 0;
  };
  using Load = std::function<Result<Loaded>()>;

  /// The object of a key that no patch has: stored, or loaded by one caller for all who want it now.
  /// @param bytes  returns what loading takes; waits for that, for at most MostReserved
  /// @param load   may not use the store
  /// @errors those of `load`, not kept; kResourceExhausted: the system has no memory
  Result<std::shared_ptr<const void>> Obtain(const PatchKey& key, const std::function<std::uint64_t()>& bytes,
                                             const Load& load);

  /// The same of an object that is made in memory which its maker has pinned. It is kept only where that
  /// needs no waiting: its maker may hold reserved memory.
  /// @errors those of `make`, not kept; kCancelled: the requester has gone while another one made the object
  Result<std::shared_ptr<const void>> Share(const PatchKey& key, const Requester& requester,
                                            const Load& make);

  /// The state at this moment, and counts since the start.
  struct State {
    std::uint64_t total = 0;
    std::uint64_t questions = 0;
    std::uint64_t pinned = 0;
    std::uint64_t reserved = 0;
    std::uint64_t stored = 0;   ///< bytes of patches, manifests and tables
    std::uint64_t patches = 0;  ///< in the store, with manifests and tables
    std::size_t reads = 0;      ///< requests let in
    std::size_t waiting = 0;    ///< requests that wait to be let in
    std::uint64_t hits = 0;     ///< wanted patches that were stored or being decoded
    std::uint64_t misses = 0;   ///< wanted patches that had to be decoded
    std::uint64_t evictions = 0;
  };
  State state() const;

 private:
  struct KeyHash {
    std::size_t operator()(const PatchKey& key) const;
  };
  struct Entry {
    PatchKey key;
    std::shared_ptr<const void> object;
    std::uint64_t bytes;

    StoredPatch patch() const { return std::static_pointer_cast<const PatchReader>(object); }
  };
  /// State of a patch that is being decoded.
  struct Flight {
    bool ended = false;
    std::size_t waiting = 0;
    Status status;
    StoredPatch patch;  ///< null if it was given up
  };
  /// One who waits for memory.
  struct Place {
    Place(std::uint64_t client, std::uint64_t bytes) : client(client), bytes(bytes) {}

    const std::uint64_t client;
    const std::uint64_t bytes;
    std::condition_variable turn;
  };
  /// Memory of one kind that a client holds.
  struct Holding {
    std::uint64_t bytes = 0;
    std::size_t pieces = 0;  ///< each a Memory
  };
  /// Memory of one kind.
  struct Kind {
    std::uint64_t most = 0;            ///< [bytes] of all clients
    std::uint64_t most_of_client = 0;  ///< [bytes] of each, unless it holds no other piece
    std::size_t most_waiting = SIZE_MAX;
    std::uint64_t used = 0;  ///< [bytes]
    std::size_t pieces = 0;
    std::unordered_map<std::uint64_t, Holding> holdings = {};  ///< holdings of the clients that hold a piece
    std::list<Place> waiting = {};                             ///< in order of arrival

    Holding HeldBy(std::uint64_t client) const;
    bool Allows(std::uint64_t client, const Holding& held, std::uint64_t more) const;
    bool HasPlaceFor(std::uint64_t client) const;
    Place* Next();
    void Add(std::uint64_t client, std::uint64_t bytes);
    void Remove(std::uint64_t client, std::uint64_t bytes);
    void Resize(std::uint64_t client, std::uint64_t from, std::uint64_t to);
  };
  using Lock = std::unique_lock<std::mutex>;

  std::uint64_t MostSmall() const { return total_ / 16; }
  std::uint64_t InUse() const { return questions_.used + pinned_.used + small_.used + reserved_.used; }
  bool Fits(const Kind& kind, std::uint64_t more) const;
  bool IsSmall(const Kind& kind, const Place& place) const;
  Kind* GiverOf(Kind* kind, const Place& place);
  void WakeNext();
  void TellOfRelease(const Kind* kind, std::uint64_t bytes) const;
  bool MayGrow(const Memory& memory, std::uint64_t bytes) const;
  Result<Memory> Acquire(Kind* kind, std::uint64_t bytes, const Requester& requester);
  Result<Kind*> WaitForTurn(Lock* lock, Kind* kind, const Place& wanted,
                            const std::function<bool()>& cancelled);
  Memory Allot(Kind* kind, std::uint64_t client, std::uint64_t bytes);
  std::list<Entry> Evict();
  void End(const PatchKey& key, Status status, StoredPatch patch);
  void Keep(const PatchKey& key, std::shared_ptr<const void> object, std::uint64_t bytes, Memory* memory);
  Result<std::shared_ptr<const void>> FindOrBeginLoad(const PatchKey& key,
                                                      const std::function<bool()>& cancelled);
  void EndLoad(const PatchKey& key);
  /// The right to load an object, from FindOrBeginLoad on.
  struct LoadEnd {
    PatchStore* store;
    const PatchKey& key;
    ~LoadEnd() { store->EndLoad(key); }
  };

  const std::uint64_t total_;
  std::function<void()> on_large_release_;
  mutable std::mutex mutex_;
  std::condition_variable ended_;  ///< flights
  Kind questions_;
  Kind pinned_;
  Kind small_;  ///< memory of pinned_ for small requests alone; no request waits here
  Kind reserved_;
  std::uint64_t stored_ = 0;
  std::list<Entry> entries_;  ///< the one claimed, stored or found last in front
  std::unordered_map<PatchKey, std::list<Entry>::iterator, KeyHash> places_;
  std::unordered_map<PatchKey, std::shared_ptr<Flight>, KeyHash> flights_;
  std::unordered_set<PatchKey, KeyHash> loads_;  ///< keys of objects that are being loaded
  std::uint64_t hits_ = 0;
  std::uint64_t misses_ = 0;
  std::uint64_t evictions_ = 0;
};

/// Something together with the memory that is pinned for it.
template <typename T>
struct Pinned {
  PatchStore::Memory memory;
  T value;  ///< destroyed first
};

/// Makes something whose exact size shows when it is made. Memory for its likely size is pinned before; if it
/// turns out larger, and that memory is not free at once, it is dropped and made again in memory of its size:
/// a request that waited for the rest while it holds a part would stop others that do the same.
/// @param likely  [bytes] upper bound of making it, unless `need` says more
/// @param make    returns a Result<T>
/// @param need    [bytes] of a T
/// @errors those of PatchStore::Pin and `make`
template <typename Make, typename Need>
auto MakePinned(PatchStore* store, std::uint64_t likely, const Requester& requester, Make make, Need need)
    -> Result<Pinned<std::decay_t<decltype(*make())>>> {
  using T = std::decay_t<decltype(*make())>;
  for (std::uint64_t bytes = likely;;) {
    QUARRY_ASSIGN_OR_RETURN(PatchStore::Memory memory, store->Pin(bytes, requester));
    Result<T> made = make();
    if (!made.ok()) return std::move(made).status();
    const std::uint64_t needed = need(*made);
    if (memory.Resize(needed)) return Pinned<T>{std::move(memory), *std::move(made)};
    bytes = std::max(likely, needed);
  }
}

}  // namespace quarry
