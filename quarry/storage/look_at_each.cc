#include "quarry/storage/look_at_each.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>

namespace quarry {
namespace {

using Clock = std::chrono::steady_clock;

/// The shortest time after which a look is late.
constexpr auto kLeast = std::chrono::milliseconds(100);

/// Looks of this process that nobody waits for any more, and that have not ended. Thread-safe.
class LateLooks {
 public:
  /// Whether a look at this place would be late. A look whose caller has just left does not hang yet.
  bool Hangs(const Location& place) {
    constexpr std::size_t kMost = 64;
    const Clock::time_point now = Clock::now();
    const std::lock_guard lock(mutex_);
    const auto same = [&](const Look& look) {
      return look.place->storage == place.storage && look.place->path == place.path &&
             now - look.since >= kLeast;
    };
    return looks_.size() >= kMost || std::ranges::any_of(looks_, same);
  }
  /// @param place  there until it is removed
  void Add(const Location* place, Clock::time_point since) {
    const std::lock_guard lock(mutex_);
    looks_.push_back({place, since});
  }
  void Remove(const Location* place) {
    const std::lock_guard lock(mutex_);
    std::erase_if(looks_, [place](const Look& look) { return look.place == place; });
  }

 private:
  struct Look {
    const Location* place;
    Clock::time_point since;  ///< when it began
  };

  std::mutex mutex_;
  std::vector<Look> looks_;
};

LateLooks& Late() {
  static auto& late = *new LateLooks;
  return late;
}

/// The looks of one call, shared with the threads that do them.
struct Row {
  Row(std::vector<Location> at, internal::AnyLook how)
      : places(std::move(at)), look(std::move(how)), seen(places.size()) {}

  const std::vector<Location> places;
  const internal::AnyLook look;
  std::atomic<std::uint64_t> turn = 0;  ///< number of the thread that looks; those before it are late
  std::mutex mutex;                     ///< guards the following
  std::condition_variable ended;
  std::vector<std::shared_ptr<void>> seen;
  std::size_t next = 0;  ///< the place that is looked at, or will be
  bool looking = false;
  Clock::time_point since;  ///< when the look began
  bool no_memory = false;

  bool Done() const { return next == places.size() || no_memory; }
  /// Steps over the places that hang.
  void SkipLate() {
    while (!Done() && Late().Hangs(places[next])) ++next;
  }
};

/// Looks at the places from `next` on, until it is late.
void LookOn(const std::shared_ptr<Row>& row, std::uint64_t turn) {
  std::unique_lock lock(row->mutex);
  for (row->SkipLate(); row->turn == turn && !row->Done(); row->SkipLate()) {
    const std::size_t number = row->next;
    row->looking = true;
    row->since = Clock::now();
    lock.unlock();
    std::shared_ptr<void> seen;
    // No exception may leave a thread.
    try {
      seen = row->look(number, [row = row.get(), turn] { return row->turn != turn; });
    } catch (const std::exception&) {
      seen = nullptr;  // no memory
    }
    lock.lock();
    if (row->turn != turn) return Late().Remove(&row->places[number]);
    row->looking = false;
    row->no_memory = seen == nullptr;
    row->seen[number] = std::move(seen);
    ++row->next;
  }
  row->ended.notify_all();
}

/// Looks at the next places on a new thread.
Status StartThread(const std::shared_ptr<Row>& row) {
  row->SkipLate();
  if (row->Done()) return Status::Ok();
  try {
    std::thread([row, turn = row->turn.load()] { LookOn(row, turn); }).detach();
  } catch (const std::system_error&) {
    return ResourceExhausted("there is no thread to look at \"{}\"; try again later", row->places[row->next]);
  }
  return Status::Ok();
}

/// From here on the look that runs is late.
void LeaveBehind(Row* row) {
  if (row->looking) Late().Add(&row->places[row->next], row->since);
  row->looking = false;
  ++row->turn;
}

}  // namespace

Result<std::vector<std::shared_ptr<void>>> internal::LookAtEach(std::vector<Location> places, AnyLook look,
                                                                Patience* patience) {
  constexpr auto kLookUp = std::chrono::milliseconds(20);
  const auto row = std::make_shared<Row>(std::move(places), std::move(look));
  std::unique_lock lock(row->mutex);
  QUARRY_RETURN_IF_ERROR(StartThread(row));
  while (!row->Done()) {
    row->ended.wait_for(lock, std::min<std::chrono::milliseconds>(kLookUp, patience->each));
    lock.unlock();
    const bool gone = patience->cancelled();
    lock.lock();
    if (gone) {
      LeaveBehind(row.get());
      return Status(StatusCode::kCancelled, "the caller waits no longer");
    }
    if (row->Done() || !row->looking || Clock::now() - row->since < patience->each) continue;
    LeaveBehind(row.get());
    ++row->next;
    patience->each = std::max(patience->each / 2, std::min(patience->each, kLeast));
    QUARRY_RETURN_IF_ERROR(StartThread(row));
  }
  if (row->no_memory) return ResourceExhausted("there is no memory to look at the datasets; ask later");
  return std::move(row->seen);
}

}  // namespace quarry
