#include "tests/testing/faulty_storage.h"

#include <fnmatch.h>

#include "quarry/base/file.h"

namespace quarry::testing {

/// Must not outlive its storage.
class FaultyStorage::Object final : public StoredObject {
 public:
  Object(const FaultyStorage& storage, std::shared_ptr<const StoredObject> behind, std::uint64_t size)
      : storage_(storage), behind_(std::move(behind)), size_(size) {}

  const std::string& path() const override { return behind_->path(); }
  std::uint64_t size() const override { return size_; }
  Status ReadAt(std::uint64_t offset, std::span<std::byte> out) const override {
    Fault fault = storage_.Meet({Operation::kRead, path(), offset, out.size()});
    if (fault.kind == Fault::Kind::kFail) return std::move(fault.status);
    const std::size_t half = out.size() / 2;
    if (fault.kind == Fault::Kind::kTruncate) {
      QUARRY_RETURN_IF_ERROR(behind_->ReadAt(offset, out.first(half)));
      return EndsEarly(path(), offset + half, out.size() - half);
    }
    QUARRY_RETURN_IF_ERROR(behind_->ReadAt(offset, out));
    if (fault.kind == Fault::Kind::kLie && !out.empty()) out[half] ^= std::byte{1};
    return Status::Ok();
  }
  void ExpectRead(std::uint64_t offset, std::uint64_t size) const override {
    behind_->ExpectRead(offset, size);
  }

 private:
  const FaultyStorage& storage_;
  const std::shared_ptr<const StoredObject> behind_;
  const std::uint64_t size_;
};

void FaultyStorage::Add(FaultRule rule) {
  const std::lock_guard lock(mutex_);
  rules_.push_back({std::move(rule)});
}

void FaultyStorage::Add(Operation operation, std::string pattern, std::uint64_t first, std::uint64_t count,
                        Fault fault) {
  Add({operation, std::move(pattern), first, count,
       [fault = std::move(fault)](const StorageCall&) { return fault; }});
}

std::vector<StorageCall> FaultyStorage::Calls(Operation operation) const {
  const std::lock_guard lock(mutex_);
  std::vector<StorageCall> calls;
  for (const StorageCall& call : calls_) {
    if (call.operation == operation) calls.push_back(call);
  }
  return calls;
}

void FaultyStorage::ForgetCalls() {
  const std::lock_guard lock(mutex_);
  calls_.clear();
}

Fault FaultyStorage::Meet(StorageCall call) const {
  std::function<Fault(const StorageCall&)> action;
  {
    const std::lock_guard lock(mutex_);
    calls_.push_back(call);
    for (auto& [rule, met] : rules_) {
      if (rule.operation != call.operation) continue;
      if (::fnmatch(rule.pattern.c_str(), call.path.c_str(), 0) != 0) continue;
      ++met;
      if (!action && met >= rule.first && met - rule.first < rule.count) action = rule.action;
    }
  }
  return action ? action(call) : Fault{};  // without the lock: it may block
}

Result<std::vector<FolderEntry>> FaultyStorage::List(const std::string& folder) const {
  Fault fault = Meet({Operation::kList, folder});
  if (fault.kind == Fault::Kind::kFail) return std::move(fault.status);
  QUARRY_ASSIGN_OR_RETURN(std::vector<FolderEntry> entries, behind_->List(folder));
  if (fault.kind == Fault::Kind::kLie && !entries.empty()) entries.pop_back();
  return entries;
}

Result<ObjectInfo> FaultyStorage::Stat(const std::string& path) const {
  Fault fault = Meet({Operation::kStat, path});
  if (fault.kind == Fault::Kind::kFail) return std::move(fault.status);
  QUARRY_ASSIGN_OR_RETURN(ObjectInfo info, behind_->Stat(path));
  if (fault.kind == Fault::Kind::kTruncate) info.size /= 2;
  if (stamp_tick_) {
    const std::lock_guard lock(mutex_);
    info.stamp = first_stamps_.emplace(path, info.stamp).first->second;
  }
  return info;
}

Result<std::shared_ptr<const StoredObject>> FaultyStorage::Open(const std::string& path) const {
  Fault fault = Meet({Operation::kOpen, path});
  if (fault.kind == Fault::Kind::kFail) return std::move(fault.status);
  QUARRY_ASSIGN_OR_RETURN(std::shared_ptr<const StoredObject> object, behind_->Open(path));
  const std::uint64_t size = fault.kind == Fault::Kind::kTruncate ? object->size() / 2 : object->size();
  return std::shared_ptr<const StoredObject>(std::make_shared<const Object>(*this, std::move(object), size));
}

}  // namespace quarry::testing
