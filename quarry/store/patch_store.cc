#include "quarry/store/patch_store.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <type_traits>

#include "quarry/base/checksum.h"
#include "quarry/base/units.h"

namespace quarry {
namespace {

/// Nobody signals a cancellation, so whoever waits looks up from time to time.
constexpr auto kLookUp = std::chrono::milliseconds(50);

/// Asks a function that may take its time, or use the store itself.
bool AskUnlocked(std::unique_lock<std::mutex>* lock, const std::function<bool()>& cancelled) {
  struct Relock {
    std::unique_lock<std::mutex>* lock;
    ~Relock() { lock->lock(); }
  };
  lock->unlock();
  const Relock relock{lock};
  return cancelled();
}

/// Counts one who waits, for as long as it does.
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

void PatchStore::Memory::Release() {
  if (store_ == nullptr) return;
  {
    const Lock lock(store_->mutex_);
    *counter_ -= bytes_;
    if (counter_ == &store_->pinned_) --store_->reads_;
  }
  store_->freed_.notify_all();
  store_ = nullptr;
}

Status PatchStore::WaitInQueue(Lock* lock, Queue* queue, const std::function<bool()>& fits,
                               const std::function<bool()>& cancelled) {
  const std::uint64_t ticket = queue->next_ticket++;
  const auto place = queue->tickets.insert(queue->tickets.end(), ticket);
  const auto my_turn = [&] { return queue->tickets.front() == ticket && fits(); };
  const auto leave = [&] {
    queue->tickets.erase(place);
    // For the next in the queue there may be memory as well.
    freed_.notify_all();
  };
  bool given_up = false;
  try {
    while (!given_up && !freed_.wait_for(*lock, kLookUp, my_turn)) given_up = AskUnlocked(lock, cancelled);
  } catch (...) {  // of the caller's function
    leave();
    throw;
  }
  leave();
  return given_up ? CancelledWhile("memory") : Status::Ok();
}

PatchStore::Memory PatchStore::Allot(std::uint64_t* counter, std::uint64_t bytes) {
  *counter += bytes;
  return Memory(this, counter, bytes);
}

Result<PatchStore::Memory> PatchStore::Pin(std::uint64_t bytes, const std::function<bool()>& cancelled) {
  if (bytes > half()) {
    return Status(StatusCode::kResourceExhausted,
                  fmt::format("this read needs {} of memory at a time, and all reads together have half of {}; "
                              "ask for less at once, or for a coarser level",
                              FormatBytes(bytes), FormatBytes(total_)));
  }
  std::list<Entry> evicted;
  Lock lock(mutex_);
  const auto fits = [&] { return pinned_ + bytes <= half() && InUse() + bytes <= total_; };
  if (!entrance_.tickets.empty() || !fits()) {
    if (entrance_.tickets.size() >= queue_limit_) {
      return Status(StatusCode::kResourceExhausted,
                    fmt::format("this read needs {} of memory in the server; {} of {} are in use by {} "
                                "reads, and {} wait already, the most that may; ask again later",
                                FormatBytes(bytes), FormatBytes(InUse()), FormatBytes(total_), reads_,
                                entrance_.tickets.size()));
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
  const auto fits = [&] { return InUse() + bytes <= total_; };
  if (!batches_.tickets.empty() || !fits())
    QUARRY_RETURN_IF_ERROR(WaitInQueue(&lock, &batches_, fits, cancelled));
  Memory memory = Allot(&reserved_, bytes);
  evicted = Evict();
  return memory;
}

std::optional<PatchStore::Memory> PatchStore::TryReserve(std::uint64_t bytes) {
  std::list<Entry> evicted;
  const Lock lock(mutex_);
  if (!batches_.tickets.empty() || !entrance_.tickets.empty() || InUse() + bytes > total_) return {};
  Memory memory = Allot(&reserved_, bytes);
  evicted = Evict();
  return memory;
}

std::uint64_t PatchStore::FairShare() const {
  const Lock lock(mutex_);
  return (total_ - pinned_) / 2 / std::max<std::size_t>(reads_, 1);
}

/// Takes patches out of the store until everything fits. They are returned because freeing them takes longer
/// than anybody should wait for the lock. Those that are in use are pinned by their readers and stay with
/// them.
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
    claim.base_ = place->second->patch;
    break;
  }
  return claim;
}

Result<StoredPatch> PatchStore::Take(const PatchKey& key, const std::function<bool()>& cancelled) {
  Lock lock(mutex_);
  if (const auto place = places_.find(key); place != places_.end()) {
    entries_.splice(entries_.begin(), entries_, place->second);
    return place->second->patch;
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
  store->Keep(key_, patch, memory);
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
  // Of the many that wait for other patches none is woken in vain.
  if (wanted) ended_.notify_all();
}

void PatchStore::Keep(const PatchKey& key, const StoredPatch& patch, Memory* memory) {
  std::list<Entry> evicted;
  const Lock lock(mutex_);
  try {
    entries_.push_front({key, patch, BytesOf(patch)});
    places_[key] = entries_.begin();
  } catch (const std::bad_alloc&) {  // nothing is lost but the chance to find it again
    if (!entries_.empty() && !places_.contains(entries_.front().key)) entries_.pop_front();
    return;
  }
  const std::uint64_t bytes = entries_.front().bytes;
  const std::uint64_t handed_over = std::min(bytes, memory->bytes_);
  memory->bytes_ -= handed_over;
  reserved_ -= handed_over;
  stored_ += bytes;
  evicted = Evict();
}

PatchStore::State PatchStore::state() const {
  const Lock lock(mutex_);
  return {total_, pinned_, reserved_, stored_, entries_.size(), reads_,
          entrance_.tickets.size(), hits_, misses_, evictions_};
}

}  // namespace quarry
