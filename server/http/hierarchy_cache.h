#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "quarry/session/session.h"
#include "quarry/zarr/hierarchy.h"

namespace quarry::server::http {

/// LRU cache of Zarr hierarchies, bounded in bytes. A name is that of a dataset and of the view that is shown
/// of it, see zarr::Place::hierarchy. Thread-safe.
class HierarchyCache {
 public:
  /// @param bytes  most that all of them take, those that are being made too
  explicit HierarchyCache(std::uint64_t bytes) : most_(bytes) {}

  /// Memory of a hierarchy while it is made and kept.
  class Room {
   public:
    explicit Room(HierarchyCache* cache) : cache_(cache) {}
    ~Room();
    Room(const Room&) = delete;
    Room& operator=(const Room&) = delete;

    /// Makes it larger, at the cost of hierarchies that are kept. @errors kResourceExhausted
    Status Grow(std::uint64_t bytes);

   private:
    HierarchyCache* const cache_;
    std::uint64_t bytes_ = 0;
  };

  using Opened = std::shared_ptr<const OpenedDataset>;
  using Made = std::shared_ptr<const zarr::Hierarchy>;

  /// The cached hierarchy of a dataset; null: none, or it is out of date.
  Made Find(const std::string& name, const Opened& opened);
  /// Whether anything is kept under a name.
  bool Has(const std::string& name) const;
  /// @param room  of the hierarchy, from now on the cache's
  void Keep(const std::string& name, const Opened& opened, Made made, std::unique_ptr<Room> room);

  /// One request makes the hierarchy of a dataset, and others that want it wait for it. Of names of datasets
  /// only.
  std::shared_ptr<std::timed_mutex> MakerOf(const std::string& name);

 private:
  struct Kept {
    std::weak_ptr<const OpenedDataset> opened;
    Made made;
    std::shared_ptr<Room> room;
    std::uint64_t used = 0;  ///< time of the last use
  };

  const std::uint64_t most_;
  mutable std::mutex mutex_;
  std::map<std::string, Kept> kept_;
  std::map<std::string, std::weak_ptr<std::timed_mutex>> makers_;
  std::uint64_t bytes_ = 0;
  std::uint64_t clock_ = 0;
};

}  // namespace quarry::server::http
