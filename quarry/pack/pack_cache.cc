#include "quarry/pack/pack_cache.h"

#include <algorithm>
#include <chrono>
#include <list>
#include <mutex>
#include <optional>
#include <utility>

namespace quarry {
namespace {

/// Packs that were used last, with their tables, of all datasets of the process.
class PackCache {
 public:
  static PackCache& Instance() {
    static auto& instance = *new PackCache;
    return instance;
  }

  /// @param stamp  gets that of the pack; may be null
  /// @errors those of PackFile::Open
  Result<std::shared_ptr<const PackFile>> Obtain(const Location& path, const PackRef& ref, Stamp* stamp) {
    Entry wanted{path, {}, nullptr, Clock::now()};
    if (auto known = Find(path)) {
      if (wanted.asked - known->asked >= path.storage->trust()) {
        QUARRY_ASSIGN_OR_RETURN(ObjectInfo info, path.Stat());
        wanted.stamp = std::move(info.stamp);
        if (wanted.stamp != known->stamp) known.reset();
      }
      if (known) {
        if (stamp != nullptr) *stamp = known->stamp;
        return std::move(known->pack);
      }
    }
    QUARRY_ASSIGN_OR_RETURN(wanted.pack, PackFile::Open(path, ref.runs, &wanted.stamp));
    if (stamp != nullptr) *stamp = wanted.stamp;
    const std::scoped_lock lock(mutex_);
    Drop(path);
    bytes_ += wanted.pack->memory();
    entries_.push_front(wanted);
    while (entries_.size() > kMostPacks || (bytes_ > kMostBytes && entries_.size() > 1)) {
      bytes_ -= entries_.back().pack->memory();
      entries_.pop_back();
    }
    return std::move(wanted.pack);
  }

 private:
  static constexpr std::size_t kMostPacks = 64;  // each has a file open
  static constexpr std::uint64_t kMostBytes = 16 << 20;

  using Clock = std::chrono::steady_clock;

  struct Entry {
    Location path;
    Stamp stamp;  ///< tells the file at this path from another one
    std::shared_ptr<const PackFile> pack;
    Clock::time_point asked;  ///< when the stamp was asked for
  };

  std::list<Entry>::iterator At(const Location& path) {
    return std::ranges::find_if(entries_, [&](const Entry& entry) {
      return entry.path.storage == path.storage && entry.path.path == path.path;
    });
  }
  std::optional<Entry> Find(const Location& path) {
    const std::scoped_lock lock(mutex_);
    const auto found = At(path);
    if (found == entries_.end()) return {};
    entries_.splice(entries_.begin(), entries_, found);
    return *found;
  }
  void Drop(const Location& path) {
    const auto found = At(path);
    if (found == entries_.end()) return;
    bytes_ -= found->pack->memory();
    entries_.erase(found);
  }

  std::mutex mutex_;
  std::list<Entry> entries_;  ///< the one used last in front
  std::uint64_t bytes_ = 0;
};

}  // namespace

Result<std::shared_ptr<const PackFile>> ObtainPack(const Location& path, const PackRef& ref, Stamp* stamp) {
  return PackCache::Instance().Obtain(path, ref, stamp);
}

}  // namespace quarry
