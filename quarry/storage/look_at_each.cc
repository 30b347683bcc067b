#include "quarry/storage/look_at_each.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>

#include "quarry/base/cancel_scope.h"

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

/// Looks that come one after the other, shared with the threads that do them: those of a call, or where the
/// storage answers several sooner together, every so many-th of them.
struct Row {
  /// @param from, stride  the places at `from`, and each `stride` behind it
  Row(const std::vector<Location>& all, internal::AnyLook how, std::size_t from, std::size_t stride)
      : places(Every(all, from, stride)),
        look(std::move(how)),
        first(from),
        step(stride),
        seen(places.size()) {}

  static std::vector<Location> Every(const std::vector<Location>& all, std::size_t from, std::size_t stride) {
    std::vector<Location> some;
    for (; from < all.size(); from += stride) some.push_back(all[from]);
    return some;
  }
  /// The number of a place among those of the call.
  std::size_t NumberOf(std::size_t place) const { return first + place * step; }

  const std::vector<Location> places;
  const internal::AnyLook look;
  const std::size_t first, step;
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
      const LookEnded late = [row = row.get(), turn] { return row->turn != turn; };
      const CancelScope scope(late);
      seen = row->look(row->NumberOf(number), late);
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

using Rows = std::vector<std::shared_ptr<Row>>;

/// Ends the looks of rows that nobody waits for.
void LeaveAllBehind(const Rows& rows) {
  for (const auto& row : rows) {
    const std::lock_guard lock(row->mutex);
    LeaveBehind(row.get());
  }
}

/// Goes on behind a look that is late. @returns the patience with the next ones
Result<std::chrono::milliseconds> GoOn(const std::shared_ptr<Row>& row, std::chrono::milliseconds each) {
  if (row->Done() || !row->looking || Clock::now() - row->since < each) return each;
  LeaveBehind(row.get());
  ++row->next;
  QUARRY_RETURN_IF_ERROR(StartThread(row));
  return std::max(each / 2, std::min(each, kLeast));
}

/// Waits until all looks of a row have ended or are late, and sees to the other rows meanwhile.
Status AwaitRow(const std::shared_ptr<Row>& row, const Rows& rows, Patience* patience) {
  constexpr auto kLookUp = std::chrono::milliseconds(20);
  for (;;) {
    {
      std::unique_lock lock(row->mutex);
      if (row->Done()) break;
      row->ended.wait_for(lock, std::min<std::chrono::milliseconds>(kLookUp, patience->each));
    }
    if (patience->cancelled()) return {StatusCode::kCancelled, "the caller waits no longer"};
    for (const auto& other : rows) {
      const std::lock_guard lock(other->mutex);
      QUARRY_ASSIGN_OR_RETURN(patience->each, GoOn(other, patience->each));
    }
  }
  if (row->no_memory) return ResourceExhausted("there is no memory to look at the datasets; ask later");
  return Status::Ok();
}

Status RunRows(const Rows& rows, Patience* patience) {
  for (const auto& row : rows) {
    const std::lock_guard lock(row->mutex);
    QUARRY_RETURN_IF_ERROR(StartThread(row));
  }
  for (const auto& row : rows) QUARRY_RETURN_IF_ERROR(AwaitRow(row, rows, patience));
  return Status::Ok();
}

}  // namespace

Result<std::vector<std::shared_ptr<void>>> internal::LookAtEach(std::vector<Location> places, AnyLook look,
                                                                Patience* patience) {
  std::vector<std::shared_ptr<void>> seen(places.size());
  if (places.empty()) return seen;
  const int together = std::max(1, places.front().storage->costs().side_by_side);
  const std::size_t count = std::min(places.size(), static_cast<std::size_t>(together));
  Rows rows;
  for (std::size_t first = 0; first < count; ++first)
    rows.push_back(std::make_shared<Row>(places, look, first, count));
  const Status status = RunRows(rows, patience);
  if (!status.ok()) LeaveAllBehind(rows);
  QUARRY_RETURN_IF_ERROR(status);
  for (const auto& row : rows) {
    const std::lock_guard lock(row->mutex);
    for (std::size_t i = 0; i < row->places.size(); ++i) seen[row->NumberOf(i)] = std::move(row->seen[i]);
  }
  return seen;
}

}  // namespace quarry
