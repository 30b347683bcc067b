#pragma once

#include <memory>
#include <string>

#include "quarry/disk_cache/disk_cache.h"
#include "quarry/storage/storage_around.h"

namespace quarry::disk_cache {

/// A storage with a cache on disk in front of it. Only objects whose content a manifest or a version tells
/// (Refer, AllowCopies) are read from there; all else is asked for each time, so no answer is older than
/// without it. Their bytes are compared with the checksums of blocks here, and with those of the format by
/// readers, who say so if they are wrong (StoredObject::Distrust).
class CachedStorage final : public StorageAround {
 public:
  CachedStorage(std::shared_ptr<const Storage> inner, std::shared_ptr<DiskCache> cache);

  std::shared_ptr<const StoredObject> Refer(const std::string& path, std::uint64_t size,
                                            std::uint64_t content) const override;
  std::shared_ptr<const StoredObject> AllowCopies(std::shared_ptr<const StoredObject> object) const override;
  /// Ranges come whole: pieces of them would share blocks. The storage behind cuts what it is asked for.
  ReadCosts costs() const override { return costs_; }

 protected:
  /// Ranges that are there are reported before this returns.
  std::unique_ptr<Reading> Begin(std::vector<ReadRange> ranges, RangeDone done,
                                 const std::function<bool()>& cancelled) const override;

 private:
  const std::shared_ptr<DiskCache> cache_;
  const ReadCosts costs_;
};

}  // namespace quarry::disk_cache
