#pragma once

#include <map>
#include <mutex>
#include <optional>

#include "quarry/storage/location.h"

/// A storage that misbehaves on chosen calls and counts all calls.
namespace quarry::testing {

/// Operations of a reader on a storage; reading a whole file is an open and a read.
enum class Operation { kList, kStat, kOpen, kRead };

struct StorageCall {
  Operation operation = Operation::kRead;
  std::string path;
  std::uint64_t offset = 0;  ///< offset of a read
  std::uint64_t size = 0;    ///< size of a read
};

/// The fault of a call.
struct Fault {
  enum class Kind {
    kNone,
    kFail,      ///< the call returns `status`
    kTruncate,  ///< open and stat: half the size; read: the object ends in the middle of the range
    kLie,       ///< read: one bit is flipped; list: the last name is left out
  };
  Kind kind = Kind::kNone;
  Status status;

  static Fault Fail(Status with) { return {Kind::kFail, std::move(with)}; }
  static Fault Truncate() { return {Kind::kTruncate, {}}; }
  static Fault Lie() { return {Kind::kLie, {}}; }
};

/// Selects the calls that get a fault.
struct FaultRule {
  Operation operation = Operation::kRead;
  std::string pattern = "*";         ///< pattern of the path, as in a shell; "*" also matches "/"
  std::uint64_t first = 1;           ///< the first matching call that gets the fault, counted from 1
  std::uint64_t count = UINT64_MAX;  ///< number of calls from there
  /// Returns the fault. May block, to simulate a storage that answers late.
  std::function<Fault(const StorageCall&)> action;
};

class FaultyStorage final : public Storage {
 public:
  explicit FaultyStorage(std::shared_ptr<const Storage> behind) : behind_(std::move(behind)) {}

  /// If several rules match a call, the first one decides.
  void Add(FaultRule rule);
  void Add(Operation operation, std::string pattern, std::uint64_t first, std::uint64_t count, Fault fault);

  /// All calls of one kind, in order.
  std::vector<StorageCall> Calls(Operation operation) const;
  void ForgetCalls();

  /// Stamps are those of a storage with such a tick: until they settle, every change leaves the first one.
  void CoarsenStamps(std::chrono::milliseconds tick) { stamp_tick_ = tick; }

  Result<std::vector<FolderEntry>> List(const std::string& folder) const override;
  Result<ObjectInfo> Stat(const std::string& path) const override;
  Result<std::shared_ptr<const StoredObject>> Open(const std::string& path) const override;
  bool folders_appear_whole() const override { return behind_->folders_appear_whole(); }
  ReadCosts costs() const override { return behind_->costs(); }
  std::chrono::milliseconds trust() const override { return behind_->trust(); }
  std::chrono::milliseconds stamp_tick() const override {
    return stamp_tick_.value_or(behind_->stamp_tick());
  }
  std::string AbsolutePath(const std::string& path) const override { return behind_->AbsolutePath(path); }

 private:
  class Object;
  struct CountedRule {
    FaultRule rule;
    std::uint64_t met = 0;
  };

  Fault Meet(StorageCall call) const;

  const std::shared_ptr<const Storage> behind_;
  mutable std::mutex mutex_;
  mutable std::vector<CountedRule> rules_;
  mutable std::vector<StorageCall> calls_;
  std::optional<std::chrono::milliseconds> stamp_tick_;
  mutable std::map<std::string, Stamp> first_stamps_;  ///< by path, where they are coarse
};

}  // namespace quarry::testing
