#include "quarry/store/patch_store.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <type_traits>

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

PatchStore::PatchStore(std::uint64_t bytes, std::size_t queue) : total_(bytes), queue_limit_(queue) {}

// ---- Memory

void PatchStore::TellOfRelease(const std::uint64_t* counter, std::uint64_t bytes) const {
  constexpr std::uint64_t kLargePart = 32;
  if (on_large_release_ && counter != &reserved_ && bytes >= total_ / kLargePart) on_large_release_();
}

void PatchStore::Memory::Release() {
  if (store_ == nullptr) return;
  store_->TellOfRelease(counter_, bytes_);
  {
    const Lock lock(store_->mutex_);
    *counter_ -= bytes_;
    if (counter_ == &store_->pinned_) --store_->reads_;
    store_->WakeNext();
  }
  store_ = nullptr;
  bytes_ = 0;
}

bool PatchStore::Memory::Resize(std::uint64_t bytes) {
  if (store_ == nullptr) return bytes == 0;
  if (bytes < bytes_) store_->TellOfRelease(counter_, bytes_ - bytes);
  std::list<Entry> evicted;
  {
    const Lock lock(store_->mutex_);
    const bool others_wait = !store_->QueueOf(counter_)->places.empty();
    if (bytes > bytes_ && (others_wait || !store_->Fits(counter_, bytes - bytes_))) return false;
    *counter_ += bytes - bytes_;  // modulo 2^64: may be less
    bytes_ = bytes;
    evicted = store_->Evict();
    store_->WakeNext();
  }
  return true;
}

/// Whether so much more fits into the memory of one kind.
bool PatchStore::Fits(const std::uint64_t* counter, std::uint64_t more) const {
  if (more > total_ || InUse() + more > total_) return false;
  if (counter == &questions_used_) return questions_used_ + more <= MostForQuestions();
  if (counter == &pinned_) return pinned_ + more <= MostPinned();
  return true;
}

PatchStore::Queue* PatchStore::QueueOf(const std::uint64_t* counter) {
  return counter == &questions_used_ ? &questions_ : counter == &pinned_ ? &entrance_ : &batches_;
}

/// Memory was freed, or somebody has left a queue: wakes the first of each, and not the many behind them.
void PatchStore::WakeNext() {
  for (Queue* queue : {&questions_, &entrance_, &batches_}) {
    if (!queue->places.empty()) queue->places.front().notify_one();
  }
}

Status PatchStore::WaitInQueue(Lock* lock, Queue* queue, const std::function<bool()>& fits,
                               const std::function<bool()>& cancelled) {
  const auto place = queue->places.emplace(queue->places.end());
  const auto my_turn = [&] { return queue->places.begin() == place && fits(); };
  struct Leaving {
    PatchStore* store;
    Queue* queue;
    std::list<std::condition_variable>::iterator place;
    ~Leaving() {
      queue->places.erase(place);
      store->WakeNext();
    }
  } const leaving{this, queue, place};
  bool given_up = false;
  while (!given_up && !place->wait_for(*lock, kLookUp, my_turn)) given_up = AskUnlocked(lock, cancelled);
  return given_up ? CancelledWhile("memory") : Status::Ok();
}

PatchStore::Memory PatchStore::Allot(std::uint64_t* counter, std::uint64_t bytes) {
  *counter += bytes;
  return Memory(this, counter, bytes);
}

Result<PatchStore::Memory> PatchStore::PinQuestion(std::uint64_t bytes,
                                                   const std::function<bool()>& cancelled) {
  if (bytes > MostForQuestions()) {
    return Status(StatusCode::kResourceExhausted,
                  fmt::format("this question needs {} of memory, and all questions together have {} of {}; "
                              "ask for less at once",
                              FormatBytes(bytes), FormatBytes(MostForQuestions()), FormatBytes(total_)));
  }
  std::list<Entry> evicted;
  Lock lock(mutex_);
  const auto fits = [&] { return Fits(&questions_used_, bytes); };
  if (!questions_.places.empty() || !fits())
    QUARRY_RETURN_IF_ERROR(WaitInQueue(&lock, &questions_, fits, cancelled));
  Memory memory = Allot(&questions_used_, bytes);
  evicted = Evict();
  return memory;
}

Result<PatchStore::Memory> PatchStore::Pin(std::uint64_t bytes, const std::function<bool()>& cancelled) {
  if (bytes > MostPinned()) {
    return Status(StatusCode::kResourceExhausted,
                  fmt::format("this request needs {} of memory at a time, and all requests together have {} "
                              "of {}; ask for less at once: a smaller box, or a coarser level",
                              FormatBytes(bytes), FormatBytes(MostPinned()), FormatBytes(total_)));
  }
  std::list<Entry> evicted;
  Lock lock(mutex_);
  const auto fits = [&] { return Fits(&pinned_, bytes); };
  if (!entrance_.places.empty() || !fits()) {
    if (entrance_.places.size() >= queue_limit_) {
      return Status(StatusCode::kResourceExhausted,
                    fmt::format("this request needs {} of memory in the server; {} of {} are in use by {} "
                                "requests, and {} wait already, the most that may; ask again later",
                                FormatBytes(bytes), FormatBytes(InUse()), FormatBytes(total_), reads_,
                                entrance_.places.size()));
    }
    QUARRY_RETURN_IF_ERROR(WaitInQueue(&lock, &entrance_, fits, cancelled));
  }
  ++reads_;
  Memory memory = Allot(&pinned_, bytes);
  evicted = Evict();
  return memory;
}

Result<PatchStore::Memory> PatchStore::Reserve(std::uint64_t bytes, const std::function<bool()>& cancelled) {
  if (bytes > half()) {
    return Status(StatusCode::kResourceExhausted,
                  fmt::format("decoding one patch needs {} of memory, and the server has {} for that; give "
                              "it more, or ask for a coarser level",
                              FormatBytes(bytes), FormatBytes(half())));
  }
  std::list<Entry> evicted;
  Lock lock(mutex_);
  const auto fits = [&] { return Fits(&reserved_, bytes); };
  if (!batches_.places.empty() || !fits())
    QUARRY_RETURN_IF_ERROR(WaitInQueue(&lock, &batches_, fits, cancelled));
  Memory memory = Allot(&reserved_, bytes);
  evicted = Evict();
  return memory;
}

std::optional<PatchStore::Memory> PatchStore::TryReserve(std::uint64_t bytes) {
  std::list<Entry> evicted;
  const Lock lock(mutex_);
  if (!batches_.places.empty() || !entrance_.places.empty() || InUse() + bytes > total_) return {};
  Memory memory = Allot(&reserved_, bytes);
  evicted = Evict();
  return memory;
}

std::uint64_t PatchStore::FairShare() const {
  const Lock lock(mutex_);
  return (total_ - questions_used_ - pinned_) / 2 / std::max<std::size_t>(reads_, 1);
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

Result<StoredPatch> PatchStore::Take(const PatchKey& key, const std::function<bool()>& cancelled) {
  Lock lock(mutex_);
  if (const auto place = places_.find(key); place != places_.end()) {
    entries_.splice(entries_.begin(), entries_, place->second);
    return place->second->patch();
  }
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
  const std::uint64_t handed_over = std::min(bytes, memory->bytes_);
  memory->bytes_ -= handed_over;
  reserved_ -= handed_over;
  stored_ += bytes;
  evicted = Evict();
}

// ---- Manifests and tables

/// The object, if it is stored; otherwise nothing, when nobody loads it any more: the caller does now.
std::shared_ptr<const void> PatchStore::FindOrBeginLoad(const PatchKey& key) {
  Lock lock(mutex_);
  while (true) {
    if (const auto place = places_.find(key); place != places_.end()) {
      entries_.splice(entries_.begin(), entries_, place->second);
      return place->second->object;
    }
    if (loads_.insert(key).second) return nullptr;
    ended_.wait(lock);
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
  if (std::shared_ptr<const void> stored = FindOrBeginLoad(key)) return stored;
  struct Ending {
    PatchStore* store;
    const PatchKey& key;
    ~Ending() { store->EndLoad(key); }
  } const ending{this, key};
  const auto never = [] { return false; };
  QUARRY_ASSIGN_OR_RETURN(Memory memory, Reserve(std::min(bytes(), half()), never));
  try {
    QUARRY_ASSIGN_OR_RETURN(const Loaded loaded, load());
    Keep(key, loaded.object, loaded.bytes, &memory);
    return loaded.object;
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kResourceExhausted, "no memory");
  }
}

PatchStore::State PatchStore::state() const {
  const Lock lock(mutex_);
  return {total_, questions_used_,         pinned_, reserved_, stored_,   entries_.size(),
          reads_, entrance_.places.size(), hits_,   misses_,   evictions_};
}

}  // namespace quarry
