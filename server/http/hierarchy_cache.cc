#include "server/http/hierarchy_cache.h"

#include <algorithm>
#include <utility>

#include "quarry/base/units.h"

namespace quarry::server::http {

HierarchyCache::Room::~Room() {
  const std::lock_guard lock(cache_->mutex_);
  cache_->bytes_ -= bytes_;
}

Status HierarchyCache::Room::Grow(std::uint64_t bytes) {
  const std::uint64_t more = bytes - std::min(bytes, bytes_);
  while (true) {
    Kept oldest;  // goes when the mutex is free again
    const std::lock_guard lock(cache_->mutex_);
    if (cache_->bytes_ + more <= cache_->most_) {
      cache_->bytes_ += more;
      bytes_ += more;
      return Status::Ok();
    }
    const auto found =
        std::ranges::min_element(cache_->kept_, {}, [](const auto& kept) { return kept.second.used; });
    if (found == cache_->kept_.end())
      return ResourceExhausted(
          "the dataset as a Zarr hierarchy takes {}, and this server has {} for all of them; read "
          "it through the query service",
          FormatBytes(bytes), FormatBytes(cache_->most_));
    oldest = std::move(found->second);
    cache_->kept_.erase(found);
  }
}

HierarchyCache::Made HierarchyCache::Find(const std::string& name, const Opened& opened) {
  const std::lock_guard lock(mutex_);
  const auto found = kept_.find(name);
  if (found == kept_.end() || found->second.opened.lock() != opened) return nullptr;
  found->second.used = ++clock_;
  return found->second.made;
}

bool HierarchyCache::Has(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  return kept_.contains(name);
}

void HierarchyCache::Keep(const std::string& name, const Opened& opened, Made made,
                          std::unique_ptr<Room> room) {
  Kept kept{opened, std::move(made), std::move(room), 0};
  const std::lock_guard lock(mutex_);
  kept.used = ++clock_;
  std::swap(kept_[name], kept);
}

std::shared_ptr<std::timed_mutex> HierarchyCache::MakerOf(const std::string& name) {
  const std::lock_guard lock(mutex_);
  std::erase_if(makers_, [](const auto& maker) { return maker.second.expired(); });
  std::shared_ptr<std::timed_mutex> maker = makers_[name].lock();
  if (!maker) makers_[name] = maker = std::make_shared<std::timed_mutex>();
  return maker;
}

}  // namespace quarry::server::http
