#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "quarry/storage/location.h"

namespace quarry::testing {

/// A storage with late answers, as an object store: each call is a round trip, calls that are made at once
/// are under way together, and readings end on threads of the storage, out of order. Nobody really waits:
/// it counts the longest chain of calls of which each waits for the one before. Calls that a reader makes
/// without AtOnce or BeginRead are such a chain.
class LateStorage final : public Storage {
 public:
  /// 20 ms, 1 Gbit/s, 16 connections.
  explicit LateStorage(std::shared_ptr<const Storage> behind)
      : LateStorage(std::move(behind), {.latency = 0.02, .bandwidth = 125e6, .side_by_side = 16}) {}
  LateStorage(std::shared_ptr<const Storage> behind, const ReadCosts& costs);
  ~LateStorage() override;

  /// Waits of the calls up to now: readings that did not end in Wait count with the next call after them.
  int waits() const { return std::max<int>(clock_, reading_until_); }
  void ForgetWaits();
  /// The calls of each wait, one a line: for messages.
  std::string Told() const;

  /// No range of a reading is reported before so many bytes are under way. Reports them all where that does
  /// not happen; gave_up() then says so.
  void HoldUntil(std::uint64_t bytes);
  bool gave_up() const;
  /// [bytes] most that were under way at a time.
  std::uint64_t most_under_way() const;
  /// Ranges of all readings.
  std::uint64_t ranges() const { return ranges_; }

  /// An hour otherwise.
  void Trust(std::chrono::milliseconds trust) { trust_ = trust; }

  Result<std::vector<FolderEntry>> List(const std::string& folder) const override;
  Result<ObjectInfo> Stat(const std::string& path) const override;
  Result<std::shared_ptr<const StoredObject>> Open(const std::string& path) const override;
  Result<OpenedFile> OpenWith(const std::string& path, FileEnd end, std::uint64_t most,
                              Stamp* stamp) const override;
  Result<Bytes> ReadWhole(const std::string& path, std::uint64_t limit) const override;
  std::shared_ptr<const StoredObject> Refer(const std::string& path, std::uint64_t size,
                                            std::uint64_t content) const override;
  void AtOnce(std::size_t calls, const std::function<void(std::size_t)>& call) const override;
  bool folders_appear_whole() const override { return behind_->folders_appear_whole(); }
  ReadCosts costs() const override { return costs_; }
  bool ends_in_time() const override { return true; }
  std::chrono::milliseconds trust() const override { return trust_; }
  std::chrono::milliseconds stamp_tick() const override { return behind_->stamp_tick(); }
  std::string AbsolutePath(const std::string& path) const override { return behind_->AbsolutePath(path); }

 protected:
  std::unique_ptr<Reading> Begin(std::vector<ReadRange> ranges, RangeDone done,
                                 const std::function<bool()>& cancelled) const override;

 private:
  class Object;
  class Way;
  class LateReading;

  void Wait(std::string call) const;
  void Tell(int wait, std::string call) const;

  const std::shared_ptr<const Storage> behind_;
  const ReadCosts costs_;
  std::chrono::milliseconds trust_ = std::chrono::hours(1);
  std::unique_ptr<Way> way_;
  mutable std::atomic<int> clock_ = 0;          ///< waits up to now
  mutable std::atomic<int> reading_until_ = 0;  ///< when the readings end that have begun
  mutable std::mutex mutex_;
  mutable std::vector<std::pair<int, std::string>> told_;
  mutable std::atomic<std::uint64_t> ranges_ = 0;
};

}  // namespace quarry::testing
