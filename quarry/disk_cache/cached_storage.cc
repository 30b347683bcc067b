#include "quarry/disk_cache/cached_storage.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <optional>

#include "quarry/base/checksum.h"

namespace quarry::disk_cache {
namespace {

ReadCosts WithoutCuts(ReadCosts costs) {
  costs.most_bytes = 0;
  return costs;
}

/// An object of the storage behind, of which there may be copies.
class CachedObject final : public StoredObject {
 public:
  CachedObject(const Storage& storage, std::shared_ptr<DiskCache> cache,
               std::shared_ptr<const StoredObject> inner, std::string content)
      : storage_(storage),
        cache_(std::move(cache)),
        inner_(std::move(inner)),
        key_{inner_->path(), std::move(content), inner_->size()} {}

  const std::string& path() const override { return inner_->path(); }
  std::uint64_t size() const override { return inner_->size(); }
  Status ReadAt(std::uint64_t offset, std::span<std::byte> out) const override {
    const ReadRange range{this, offset, out};
    return storage_.ReadRanges(std::span(&range, 1), [] { return false; });
  }
  std::string version() const override { return inner_->version(); }

  /// From here on copies are not read any more. Reads that have them already are told the same.
  bool Distrust(std::uint64_t offset, std::uint64_t size) const override {
    if (!copied_) return false;
    trusted_ = false;
    cache_->Drop(key_, offset, size);
    return true;
  }

  const StoredObject* inner() const { return inner_.get(); }
  const ObjectKey& key() const { return key_; }

  /// The blocks of a range of which there is no copy; the others were copied.
  std::vector<BlockRun> Read(const ReadRange& range) const {
    const BlockRun all{range.offset / kBlock, (range.offset + range.out.size() - 1) / kBlock + 1};
    if (!trusted_) return {all};
    std::vector<BlockRun> missing = cache_->Read(key_, range.offset, range.out);
    if (missing != std::vector<BlockRun>{all}) copied_ = true;
    return missing;
  }

 private:
  const Storage& storage_;
  const std::shared_ptr<DiskCache> cache_;
  const std::shared_ptr<const StoredObject> inner_;
  const ObjectKey key_;
  mutable std::atomic<bool> trusted_ = true;
  mutable std::atomic<bool> copied_ = false;  ///< some bytes that were read were copies
};

/// Joins runs that are closer than a request is worth.
std::vector<BlockRun> Joined(const std::vector<BlockRun>& runs, std::uint64_t gap) {
  std::vector<BlockRun> joined;
  for (const BlockRun& run : runs) {
    if (!joined.empty() && (run.begin - joined.back().end) * kBlock <= gap) {
      joined.back().end = run.end;
    } else {
      joined.push_back(run);
    }
  }
  return joined;
}

/// The ranges of a reading of which something was missing, and the blocks that are fetched for them.
class Missing {
 public:
  Missing(std::vector<ReadRange> ranges, RangeDone done)
      : ranges_(std::move(ranges)),
        done_(std::move(done)),
        left_(ranges_.size()),
        statuses_(ranges_.size()) {}

  /// Reads what there are copies of. @returns what is to be read from the storage behind
  std::vector<ReadRange> Begin(std::uint64_t gap, const std::function<bool()>& cancelled) {
    const Status stopped(StatusCode::kCancelled, "the read was cancelled");
    std::vector<ReadRange> wanted;
    for (std::size_t i = 0; i < ranges_.size(); ++i) {
      if (cancelled()) {
        done_(i, stopped);
      } else if (const auto* const object = dynamic_cast<const CachedObject*>(ranges_[i].object)) {
        BeginCopied(i, *object, gap, &wanted);
      } else {
        Add(i, nullptr, ranges_[i], &wanted);
      }
    }
    return wanted;
  }

  void Done(std::size_t number, const Status& status) {
    Fetch& fetch = fetches_[number];
    if (status.ok()) CopyOut(fetch);
    Status all;
    {
      const std::lock_guard lock(mutex_);
      fetch.came = status.ok();
      Status& first = statuses_[fetch.range];
      if (first.ok()) first = status;
      if (--left_[fetch.range] > 0) return;
      all = first;
    }
    done_(fetch.range, all);
  }

  /// After all were reported.
  void Keep(DiskCache* cache) const {
    for (const Fetch& fetch : fetches_) {
      if (fetch.key && fetch.came) cache->Write(*fetch.key, fetch.first, fetch.bytes);
    }
  }

 private:
  /// Blocks of an object, for a range of the reading; or a range of an object without copies, as it stands.
  struct Fetch {
    std::size_t range = 0;
    std::optional<ObjectKey> key = {};  ///< none: no blocks
    std::uint64_t first = 0;            ///< number of the first block
    Bytes bytes = {};
    bool came = false;
  };

  void BeginCopied(std::size_t number, const CachedObject& object, std::uint64_t gap,
                   std::vector<ReadRange>* wanted) {
    const ReadRange& range = ranges_[number];
    const std::uint64_t size = object.size();
    // The storage behind has the message for what lies beyond the end.
    if (range.out.empty() || range.offset > size || range.out.size() > size - range.offset)
      return Add(number, nullptr, {object.inner(), range.offset, range.out}, wanted);
    const std::vector<BlockRun> runs = Joined(object.Read(range), gap);
    for (const BlockRun& run : runs) {
      const std::uint64_t begin = run.begin * kBlock;
      Bytes bytes(std::min(run.end * kBlock, size) - begin);
      const ReadRange blocks{object.inner(), begin, bytes};
      Add(number, &object, blocks, wanted);
      fetches_.back().bytes = std::move(bytes);
    }
    if (runs.empty()) done_(number, Status::Ok());
  }

  /// @param object  null: the range as it stands
  void Add(std::size_t number, const CachedObject* object, const ReadRange& range,
           std::vector<ReadRange>* wanted) {
    Fetch fetch{.range = number, .first = range.offset / kBlock};
    if (object != nullptr) fetch.key = object->key();
    fetches_.push_back(std::move(fetch));
    wanted->push_back(range);
    ++left_[number];
  }

  void CopyOut(const Fetch& fetch) const {
    if (!fetch.key) return;
    const ReadRange& range = ranges_[fetch.range];
    const std::uint64_t begin = fetch.first * kBlock, end = begin + fetch.bytes.size();
    const std::uint64_t from = std::max(begin, range.offset);
    const std::uint64_t to = std::min<std::uint64_t>(end, range.offset + range.out.size());
    std::memcpy(range.out.data() + (from - range.offset), fetch.bytes.data() + (from - begin), to - from);
  }

  const std::vector<ReadRange> ranges_;
  const RangeDone done_;
  std::vector<Fetch> fetches_;
  std::mutex mutex_;               ///< guards `came`, and the following
  std::vector<std::size_t> left_;  ///< fetches of each range that were not reported
  std::vector<Status> statuses_;   ///< the first error of each range
};

/// Fetched blocks are kept when nobody waits for them any more: by then the caller has the bytes, and decodes
/// them on other threads.
class CachedReading final : public Reading {
 public:
  CachedReading(std::shared_ptr<const Missing> missing, std::shared_ptr<DiskCache> cache,
                std::unique_ptr<Reading> inner)
      : missing_(std::move(missing)), cache_(std::move(cache)), inner_(std::move(inner)) {}
  ~CachedReading() override {
    inner_.reset();
    missing_->Keep(cache_.get());
  }

  Status Wait(const std::function<bool()>& cancelled) override { return inner_->Wait(cancelled); }

 private:
  const std::shared_ptr<const Missing> missing_;
  const std::shared_ptr<DiskCache> cache_;
  std::unique_ptr<Reading> inner_;
};

}  // namespace

CachedStorage::CachedStorage(std::shared_ptr<const Storage> inner, std::shared_ptr<DiskCache> cache)
    : StorageAround(std::move(inner)),
      cache_(std::move(cache)),
      costs_(WithoutCuts(this->inner()->costs())) {}

std::shared_ptr<const StoredObject> CachedStorage::Refer(const std::string& path, std::uint64_t size,
                                                         std::uint64_t content) const {
  return std::make_shared<const CachedObject>(*this, cache_, inner()->Refer(path, size, content),
                                              "content " + ChecksumText(content));
}

std::shared_ptr<const StoredObject> CachedStorage::AllowCopies(
    std::shared_ptr<const StoredObject> object) const {
  const std::string version = object->version();
  if (version.empty()) return object;
  return std::make_shared<const CachedObject>(*this, cache_, std::move(object), "version " + version);
}

std::unique_ptr<Reading> CachedStorage::Begin(std::vector<ReadRange> ranges, RangeDone done,
                                              const std::function<bool()>& cancelled) const {
  auto missing = std::make_shared<Missing>(std::move(ranges), std::move(done));
  std::vector<ReadRange> wanted = missing->Begin(costs_.gap(), cancelled);
  auto report = [missing](std::size_t number, const Status& status) { missing->Done(number, status); };
  auto reading = inner()->BeginRead(std::move(wanted), std::move(report), cancelled);
  return std::make_unique<CachedReading>(std::move(missing), cache_, std::move(reading));
}

}  // namespace quarry::disk_cache
