#include "quarry/store/patch_store.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <type_traits>

#include "quarry/base/cancel_scope.h"
#include "quarry/base/checksum.h"
#include "quarry/base/units.h"

namespace quarry {
namespace {

/// No signal announces a cancellation, so waiting threads check for it from time to time.
constexpr auto kLookUp = std::chrono::milliseconds(50);

/// Calls a function that may take long, or use the store itself.
bool AskUnlocked(std::unique_lock<std::mutex>* lock, const std::function<bool()>& cancelled) {
  struct Relock {
    std::unique_lock<std::mutex>* lock;
    ~Relock() { lock->lock(); }
  };
  lock->unlock();
  const Relock relock{lock};
  return cancelled();
}

/// Counts a waiting read while it waits.
class Waiting {
 public:
  explicit Waiting(std::size_t* count) : count_(count) { ++*count_; }
  ~Waiting() { --*count_; }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  std::size_t* count_;
};

Status CancelledWhile(std::string_view what) {
  return {StatusCode::kCancelled, fmt::format("the read was cancelled while it waited for {}", what)};
}

}  // namespace

PatchStore::PatchStore(std::uint64_t bytes, std::size_t queue)
    : total_(bytes),
      questions_{MostForQuestions(), MostForQuestions() / 2},
      pinned_{MostPinned(), MostPinned() / 2, queue},
      small_{MostSmall(), 0},
      reserved_{total_, total_} {}

// ---- Who holds memory, and who is next

PatchStore::Holding PatchStore::Kind::HeldBy(std::uint64_t client) const {
  const auto found = holdings.find(client);
  return found == holdings.end() ? Holding{} : found->second;
}

/// Whether a client that holds so much may have more.
bool PatchStore::Kind::Allows(std::uint64_t client, const Holding& held, std::uint64_t more) const {
  const bool is_this_process = client == 0;
  return is_this_process || held.pieces == 0 || held.bytes + more <= most_of_client;
}

/// The place whose turn it is; null: no waiting request may have memory.
PatchStore::Place* PatchStore::Kind::Next() {
  Place* next = nullptr;
  std::uint64_t least = 0;
  for (Place& place : waiting) {
    const Holding held = HeldBy(place.client);
    if (!Allows(place.client, held, place.bytes)) continue;
    if (next != nullptr && held.bytes >= least) continue;
    next = &place;
    least = held.bytes;
  }
  return next;
}

/// Whether one more may wait. No client has more than half of the places.
bool PatchStore::Kind::HasPlaceFor(std::uint64_t client) const {
  if (waiting.size() >= most_waiting) return false;
  const auto own = std::count_if(waiting.begin(), waiting.end(),
                                 [client](const Place& place) { return place.client == client; });
  return client == 0 || static_cast<std::size_t>(own) < std::max<std::size_t>(1, most_waiting / 2);
}

void PatchStore::Kind::Add(std::uint64_t client, std::uint64_t bytes) {
  Holding& held = holdings[client];
  held.bytes += bytes;
  ++held.pieces;
  used += bytes;
  ++pieces;
}

void PatchStore::Kind::Remove(std::uint64_t client, std::uint64_t bytes) {
  const auto held = holdings.find(client);
  held->second.bytes -= bytes;
  used -= bytes;
  --pieces;
  if (--held->second.pieces == 0) holdings.erase(held);
}

/// One piece, from so many bytes to so many.
void PatchStore::Kind::Resize(std::uint64_t client, std::uint64_t from, std::uint64_t to) {
  holdings.at(client).bytes += to - from;  // modulo 2^64: may be less
  used += to - from;
}

// ---- Memory

void PatchStore::TellOfRelease(const Kind* kind, std::uint64_t bytes) const {
  constexpr std::uint64_t kLargePart = 32;
  if (on_large_release_ && kind != &reserved_ && bytes >= total_ / kLargePart) on_large_release_();
}

void PatchStore::Memory::Release() {
  if (store_ == nullptr) return;
  store_->TellOfRelease(kind_, bytes_);
  {
    const Lock lock(store_->mutex_);
    kind_->Remove(client_, bytes_);
    store_->WakeNext();
  }
  store_ = nullptr;
  bytes_ = 0;
}

bool PatchStore::Memory::Resize(std::uint64_t bytes) {
  if (store_ == nullptr) return bytes == 0;
  if (bytes < bytes_) store_->TellOfRelease(kind_, bytes_ - bytes);
  std::list<Entry> evicted;
  {
    const Lock lock(store_->mutex_);
    if (bytes > bytes_ && !store_->MayGrow(*this, bytes)) return false;
    kind_->Resize(client_, bytes_, bytes);
    bytes_ = bytes;
    evicted = store_->Evict();
    store_->WakeNext();
  }
  return true;
}

/// Whether a piece may have so many bytes without waiting.
bool PatchStore::MayGrow(const Memory& memory, std::uint64_t bytes) const {
  Holding others = memory.kind_->HeldBy(memory.client_);
  others.bytes -= memory.bytes_;
  --others.pieces;
  return memory.kind_->Next() == nullptr && memory.kind_->Allows(memory.client_, others, bytes) &&
         Fits(*memory.kind_, bytes - memory.bytes_);
}

/// Whether so much more fits into the memory of one kind.
bool PatchStore::Fits(const Kind& kind, std::uint64_t more) const {
  return more <= total_ && InUse() + more <= total_ && kind.used + more <= kind.most;
}

/// Whether a place is the only request of its client, and small.
bool PatchStore::IsSmall(const Kind& kind, const Place& place) const {
  return &kind == &pinned_ && place.bytes <= small_.most && place.client != 0 &&
         pinned_.HeldBy(place.client).pieces == 0 && small_.HeldBy(place.client).pieces == 0;
}

/// The kind that can give a place its memory now: its own queue's if it is next there, or the one for small
/// requests; null: neither.
PatchStore::Kind* PatchStore::GiverOf(Kind* kind, const Place& place) {
  const Place* const next = kind->Next();
  const bool in_turn =
      next == &place ||
      (next == nullptr && kind->Allows(place.client, kind->HeldBy(place.client), place.bytes));
  if (in_turn && Fits(*kind, place.bytes)) return kind;
  return IsSmall(*kind, place) && Fits(small_, place.bytes) ? &small_ : nullptr;
}

/// Memory was freed, or a request has left a queue: wakes the requests that can have memory now, and not the
/// many behind them.
void PatchStore::WakeNext() {
  for (Kind* kind : {&questions_, &pinned_, &reserved_}) {
    if (Place* next = kind->Next()) next->turn.notify_one();
  }
  for (Place& place : pinned_.waiting) {
    if (IsSmall(pinned_, place) && Fits(small_, place.bytes)) place.turn.notify_one();
  }
}

/// Memory as soon as it is the requester's turn, and what had to make room for it.
Result<PatchStore::Memory> PatchStore::Acquire(Kind* kind, std::uint64_t bytes, const Requester& requester) {
  std::list<Entry> evicted;
  Lock lock(mutex_);
  const Place wanted(requester.client, bytes);
  Kind* giver = GiverOf(kind, wanted);
  if (giver == nullptr && !kind->HasPlaceFor(requester.client)) {
    return ResourceExhausted(
        "this request needs {} of memory in the server; {} of {} are in use by {} requests, and "
        "the queue is full with {} others, of all clients or of this one; ask again later",
        FormatBytes(bytes), FormatBytes(InUse()), FormatBytes(total_), kind->pieces, kind->waiting.size());
  }
  if (giver == nullptr) {
    QUARRY_ASSIGN_OR_RETURN(giver, WaitForTurn(&lock, kind, wanted, requester.cancelled));
  }
  Memory memory = Allot(giver, requester.client, bytes);
  evicted = Evict();
  return memory;
}

/// @returns the kind that gives the memory
Result<PatchStore::Kind*> PatchStore::WaitForTurn(Lock* lock, Kind* kind, const Place& wanted,
                                                  const std::function<bool()>& cancelled) {
  const auto place = kind->waiting.emplace(kind->waiting.end(), wanted.client, wanted.bytes);
  struct Leaving {
    PatchStore* store;
    Kind* kind;
    std::list<Place>::iterator place;
    ~Leaving() {
      kind->waiting.erase(place);
      store->WakeNext();
    }
  } const leaving{this, kind, place};
  while (true) {
    if (Kind* const giver = GiverOf(kind, *place)) return giver;
    place->turn.wait_for(*lock, kLookUp);
    if (GiverOf(kind, *place) == nullptr && AskUnlocked(lock, cancelled)) return CancelledWhile("memory");
  }
}

PatchStore::Memory PatchStore::Allot(Kind* kind, std::uint64_t client, std::uint64_t bytes) {
  kind->Add(client, bytes);
  return Memory(this, kind, client, bytes);
}

Result<PatchStore::Memory> PatchStore::PinQuestion(std::uint64_t bytes, const Requester& requester) {
  if (bytes > MostForQuestions()) {
    return ResourceExhausted(
        "this question needs {} of memory, and all questions together have {} of {}; "
        "ask for less at once",
        FormatBytes(bytes), FormatBytes(MostForQuestions()), FormatBytes(total_));
  }
  return Acquire(&questions_, bytes, requester);
}

Result<PatchStore::Memory> PatchStore::Pin(std::uint64_t bytes, const Requester& requester) {
  if (bytes > MostPinned()) {
    return ResourceExhausted(
        "this request needs {} of memory at a time, and all requests together have {} "
        "of {}; ask for less at once: a smaller box, or a coarser level",
        FormatBytes(bytes), FormatBytes(MostPinned()), FormatBytes(total_));
  }
  return Acquire(&pinned_, bytes, requester);
}

Result<PatchStore::Memory> PatchStore::Reserve(std::uint64_t bytes, const Requester& requester) {
  if (bytes > MostReserved()) {
    return ResourceExhausted(
        "decoding one patch needs {} of memory, and the server has {} for that; give "
        "it more, or ask for a coarser level",
        FormatBytes(bytes), FormatBytes(MostReserved()));
  }
  return Acquire(&reserved_, bytes, requester);
}

std::optional<PatchStore::Memory> PatchStore::TryReserve(std::uint64_t bytes, std::uint64_t client) {
  std::list<Entry> evicted;
  const Lock lock(mutex_);
  const bool others_wait = reserved_.Next() != nullptr || pinned_.Next() != nullptr;
  if (others_wait || InUse() + bytes > total_) return {};
  Memory memory = Allot(&reserved_, client, bytes);
  evicted = Evict();
  return memory;
}

std::uint64_t PatchStore::FairShare(std::uint64_t client) const {
  const Lock lock(mutex_);
  const std::size_t clients = std::max<std::size_t>(pinned_.holdings.size() + small_.holdings.size(), 1);
  const std::size_t reads = std::max<std::size_t>(pinned_.HeldBy(client).pieces, 1);
  return (total_ - questions_.used - pinned_.used - small_.used) / 2 / clients / reads;
}

/// Removes patches from the store until everything fits. Returns them, because freeing them takes too long to
/// hold the lock. Patches in use are pinned by their readers and stay with them.
std::list<PatchStore::Entry> PatchStore::Evict() {
  std::list<Entry> evicted;
  while (!entries_.empty() && InUse() + stored_ > total_) {
    stored_ -= entries_.back().bytes;
    places_.erase(entries_.back().key);
    evicted.splice(evicted.end(), entries_, std::prev(entries_.end()));
    ++evictions_;
  }
  return evicted;
}

// ---- Patches

std::size_t PatchStore::KeyHash::operator()(const PatchKey& key) const {
  static_assert(std::has_unique_object_representations_v<PatchKey>);
  return Checksum(std::as_bytes(std::span(&key, 1)));
}

PatchStore::Claim PatchStore::TryClaim(const PatchKey& key, std::span<const PatchKey> coarser) {
  const Lock lock(mutex_);
  if (const auto place = places_.find(key); place != places_.end()) {
    entries_.splice(entries_.begin(), entries_, place->second);
    ++hits_;
    return {};
  }
  if (flights_.contains(key)) {
    ++hits_;
    return {};
  }
  flights_.emplace(key, std::make_shared<Flight>());
  ++misses_;
  Claim claim;
  claim.store_ = this;
  claim.key_ = key;
  for (const PatchKey& base : coarser) {
    const auto place = places_.find(base);
    if (place == places_.end()) continue;
    entries_.splice(entries_.begin(), entries_, place->second);
    claim.base_ = place->second->patch();
    break;
  }
  return claim;
}

StoredPatch PatchStore::Find(const PatchKey& key) {
  const Lock lock(mutex_);
  const auto place = places_.find(key);
  if (place == places_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, place->second);
  return place->second->patch();
}

std::vector<bool> PatchStore::Has(std::span<const PatchKey> keys) const {
  std::vector<bool> has(keys.size());
  const Lock lock(mutex_);
  std::transform(keys.begin(), keys.end(), has.begin(),
                 [this](const PatchKey& key) { return places_.contains(key) || flights_.contains(key); });
  return has;
}

Result<StoredPatch> PatchStore::Take(const PatchKey& key, const std::function<bool()>& cancelled) {
  Lock lock(mutex_);
  // The caller claimed the patch before, so Take does not make it more recent: the patches that others
  // claimed ahead would be evicted first.
  if (const auto place = places_.find(key); place != places_.end()) return place->second->patch();
  const auto found = flights_.find(key);
  if (found == flights_.end()) return StoredPatch();
  const std::shared_ptr<Flight> flight = found->second;
  const Waiting waiting(&flight->waiting);
  bool given_up = false;
  while (!given_up && !ended_.wait_for(lock, kLookUp, [&] { return flight->ended; }))
    given_up = AskUnlocked(&lock, cancelled);
  if (given_up) return CancelledWhile("a patch");
  QUARRY_RETURN_IF_ERROR(flight->status);
  return flight->patch;
}

PatchStore::Claim& PatchStore::Claim::operator=(Claim&& other) noexcept {
  std::swap(store_, other.store_);
  std::swap(key_, other.key_);
  std::swap(base_, other.base_);
  return *this;
}

PatchStore::Claim::~Claim() {
  if (store_ != nullptr) store_->End(key_, Status::Ok(), nullptr);
}

bool PatchStore::Claim::Wanted() const {
  const Lock lock(store_->mutex_);
  return store_->flights_.at(key_)->waiting > 0;
}

void PatchStore::Claim::Finish(StoredPatch patch, Memory* memory) {
  PatchStore* const store = std::exchange(store_, nullptr);
  store->Keep(key_, patch, BytesOf(patch), memory);
  store->End(key_, Status::Ok(), std::move(patch));
}

void PatchStore::Claim::Fail(Status status) {
  std::exchange(store_, nullptr)->End(key_, std::move(status), nullptr);
}

void PatchStore::End(const PatchKey& key, Status status, StoredPatch patch) {
  const Lock lock(mutex_);
  const auto found = flights_.find(key);
  Flight& flight = *found->second;
  flight.ended = true;
  const bool wanted = flight.waiting > 0;
  if (wanted) {
    flight.status = std::move(status);
    flight.patch = std::move(patch);
  }
  flights_.erase(found);
  // Many may wait for other patches: they are not woken in vain.
  if (wanted) ended_.notify_all();
}

void PatchStore::Keep(const PatchKey& key, std::shared_ptr<const void> object, std::uint64_t bytes,
                      Memory* memory) {
  std::list<Entry> evicted;
  const Lock lock(mutex_);
  try {
    entries_.push_front({key, std::move(object), bytes});
    places_[key] = entries_.begin();
  } catch (const std::bad_alloc&) {  // it is delivered, but cannot be found again
    if (!entries_.empty() && !places_.contains(entries_.front().key)) entries_.pop_front();
    return;
  }
  const std::uint64_t left = memory->bytes_ - std::min(bytes, memory->bytes_);
  if (memory->store_ != nullptr) reserved_.Resize(memory->client_, std::exchange(memory->bytes_, left), left);
  stored_ += bytes;
  evicted = Evict();
}

// ---- Manifests, tables and other objects

/// The object, if it is stored; otherwise nothing, when no load is in progress any more: the caller loads it.
/// @errors kCancelled
Result<std::shared_ptr<const void>> PatchStore::FindOrBeginLoad(const PatchKey& key,
                                                                const std::function<bool()>& cancelled) {
  Lock lock(mutex_);
  while (true) {
    if (const auto place = places_.find(key); place != places_.end()) {
      entries_.splice(entries_.begin(), entries_, place->second);
      return place->second->object;
    }
    if (loads_.insert(key).second) return std::shared_ptr<const void>();
    const auto ended = [&] { return !loads_.contains(key); };
    if (!ended_.wait_for(lock, kLookUp, ended) && AskUnlocked(&lock, cancelled))
      return CancelledWhile("an object");
  }
}

void PatchStore::EndLoad(const PatchKey& key) {
  {
    const Lock lock(mutex_);
    loads_.erase(key);
  }
  ended_.notify_all();
}

Result<std::shared_ptr<const void>> PatchStore::Obtain(const PatchKey& key,
                                                       const std::function<std::uint64_t()>& bytes,
                                                       const Load& load) {
  QUARRY_ASSIGN_OR_RETURN(std::shared_ptr<const void> stored, FindOrBeginLoad(key, CancelScope::Cancelled));
  if (stored) return stored;
  const LoadEnd ending{this, key};
  QUARRY_ASSIGN_OR_RETURN(Memory memory, Reserve(std::min(bytes(), MostReserved()), CancelScope::Cancelled));
  try {
    QUARRY_ASSIGN_OR_RETURN(const Loaded loaded, load());
    Keep(key, loaded.object, loaded.bytes, &memory);
    return loaded.object;
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kResourceExhausted, "no memory");
  }
}

Result<std::shared_ptr<const void>> PatchStore::Share(const PatchKey& key, const Requester& requester,
                                                      const Load& make) {
  QUARRY_ASSIGN_OR_RETURN(std::shared_ptr<const void> stored, FindOrBeginLoad(key, requester.cancelled));
  if (stored) return stored;
  const LoadEnd ending{this, key};
  QUARRY_ASSIGN_OR_RETURN(const Loaded made, make());
  if (std::optional<Memory> memory = TryReserve(made.bytes, requester.client))
    Keep(key, made.object, made.bytes, &*memory);
  return made.object;
}

PatchStore::State PatchStore::state() const {
  const Lock lock(mutex_);
  return {total_,
          questions_.used,
          pinned_.used + small_.used,
          reserved_.used,
          stored_,
          entries_.size(),
          pinned_.pieces + small_.pieces,
          pinned_.waiting.size(),
          hits_,
          misses_,
          evictions_};
}

}  // namespace quarry
