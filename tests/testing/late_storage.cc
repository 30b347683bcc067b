#include "tests/testing/late_storage.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <thread>
#include <utility>

namespace quarry::testing {

class LateStorage::Object final : public StoredObject {
 public:
  Object(const LateStorage& storage, std::shared_ptr<const StoredObject> behind)
      : storage_(storage), behind_(std::move(behind)) {}

  const std::string& path() const override { return behind_->path(); }
  std::uint64_t size() const override { return behind_->size(); }
  Status ReadAt(std::uint64_t offset, std::span<std::byte> out) const override {
    storage_.Wait(fmt::format("read {} at {}: {}", path(), offset, out.size()));
    return behind_->ReadAt(offset, out);
  }
  const StoredObject* behind() const { return behind_.get(); }

 private:
  const LateStorage& storage_;
  const std::shared_ptr<const StoredObject> behind_;
};

/// The ranges that are under way, and the threads that bring them: the last one first.
class LateStorage::Way {
 public:
  struct Ranges {
    std::vector<ReadRange> ranges;
    RangeDone done;
    std::size_t left = 0;  ///< ranges that were not reported
  };

  Way() {
    for (int i = 0; i < 2; ++i) threads_.emplace_back([this] { Bring(); });
  }
  ~Way() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
  }

  void HoldUntil(std::uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    hold_ = bytes;
  }
  bool gave_up() const {
    const std::lock_guard lock(mutex_);
    return gave_up_;
  }
  std::uint64_t most() const {
    const std::lock_guard lock(mutex_);
    return most_;
  }

  void Add(const std::shared_ptr<Ranges>& ranges) {
    {
      const std::lock_guard lock(mutex_);
      for (std::size_t i = 0; i < ranges->ranges.size(); ++i) {
        queue_.emplace_back(ranges, i);
        under_way_ += ranges->ranges[i].out.size();
      }
      most_ = std::max(most_, under_way_);
      if (under_way_ >= hold_) hold_ = 0;
    }
    changed_.notify_all();
  }

  /// Reports those that have not begun, and waits for the others.
  void Cancel(const std::shared_ptr<Ranges>& ranges) {
    std::vector<std::size_t> dropped;
    {
      const std::lock_guard lock(mutex_);
      for (const auto& [of, range] : queue_) {
        if (of != ranges) continue;
        dropped.push_back(range);
        under_way_ -= of->ranges[range].out.size();
      }
      std::erase_if(queue_, [&](const auto& entry) { return entry.first == ranges; });
    }
    for (const std::size_t range : dropped)
      ranges->done(range, {StatusCode::kCancelled, "nobody wants the range"});
    std::unique_lock lock(mutex_);
    ranges->left -= dropped.size();
    changed_.wait(lock, [&] { return ranges->left == 0; });
  }

  /// Returns false if it was cancelled.
  bool Await(const Ranges& ranges, const std::function<bool()>& cancelled) {
    if (cancelled()) return false;
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, std::chrono::milliseconds(10), [&] { return ranges.left == 0; })) {
      lock.unlock();
      const bool gone = cancelled();
      lock.lock();
      if (gone) return false;
    }
    return true;
  }

 private:
  void Bring() {
    std::unique_lock lock(mutex_);
    while (true) {
      const auto ready = [this] { return ending_ || (!queue_.empty() && hold_ == 0); };
      while (!ready()) {
        // Long enough for any machine: a reader that never has as much under way fails its test by this.
        const bool came = changed_.wait_for(lock, std::chrono::seconds(20), ready);
        if (came || queue_.empty() || hold_ == 0) continue;
        gave_up_ = true;
        hold_ = 0;
      }
      if (queue_.empty()) return;
      const auto [ranges, number] = queue_.back();
      queue_.pop_back();
      lock.unlock();
      const ReadRange& range = ranges->ranges[number];
      ranges->done(number, range.object->ReadAt(range.offset, range.out));
      lock.lock();
      under_way_ -= range.out.size();
      --ranges->left;
      changed_.notify_all();
    }
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::pair<std::shared_ptr<Ranges>, std::size_t>> queue_;
  std::uint64_t under_way_ = 0;
  std::uint64_t most_ = 0;
  std::uint64_t hold_ = 0;
  bool gave_up_ = false;
  bool ending_ = false;
  std::vector<std::jthread> threads_;  ///< destroyed first
};

class LateStorage::LateReading final : public Reading {
 public:
  LateReading(const LateStorage& storage, std::shared_ptr<Way::Ranges> ranges, int ends)
      : storage_(storage), ranges_(std::move(ranges)), ends_(ends) {}
  ~LateReading() override { storage_.way_->Cancel(ranges_); }

  Status Wait(const std::function<bool()>& cancelled) override {
    const bool whole = storage_.way_->Await(*ranges_, cancelled);
    if (!whole) storage_.way_->Cancel(ranges_);
    storage_.clock_ = std::max<int>(storage_.clock_, ends_);
    return whole ? Status::Ok() : Status(StatusCode::kCancelled, "the reading was cancelled");
  }

 private:
  const LateStorage& storage_;
  const std::shared_ptr<Way::Ranges> ranges_;
  const int ends_;
};

LateStorage::LateStorage(std::shared_ptr<const Storage> behind, const ReadCosts& costs)
    : behind_(std::move(behind)), costs_(costs), way_(std::make_unique<Way>()) {}

LateStorage::~LateStorage() = default;

void LateStorage::ForgetWaits() {
  clock_ = 0;
  reading_until_ = 0;
  ranges_ = 0;
  const std::lock_guard lock(mutex_);
  told_.clear();
}

std::string LateStorage::Told() const {
  const std::lock_guard lock(mutex_);
  std::string text;
  for (const auto& [wait, call] : told_) text += fmt::format("{}  {}\n", wait, call);
  return text;
}

void LateStorage::HoldUntil(std::uint64_t bytes) { way_->HoldUntil(bytes); }
bool LateStorage::gave_up() const { return way_->gave_up(); }
std::uint64_t LateStorage::most_under_way() const { return way_->most(); }

void LateStorage::Wait(std::string call) const {
  clock_ = waits() + 1;
  Tell(clock_, std::move(call));
}

void LateStorage::Tell(int wait, std::string call) const {
  const std::lock_guard lock(mutex_);
  told_.emplace_back(wait, std::move(call));
}

Result<std::vector<FolderEntry>> LateStorage::List(const std::string& folder) const {
  Wait("list " + folder);
  return behind_->List(folder);
}

Result<ObjectInfo> LateStorage::Stat(const std::string& path) const {
  Wait("stat " + path);
  return behind_->Stat(path);
}

Result<std::shared_ptr<const StoredObject>> LateStorage::Open(const std::string& path) const {
  Wait("open " + path);
  QUARRY_ASSIGN_OR_RETURN(auto opened, behind_->Open(path));
  return std::shared_ptr<const StoredObject>(std::make_shared<const Object>(*this, std::move(opened)));
}

Result<OpenedFile> LateStorage::OpenWith(const std::string& path, FileEnd end, std::uint64_t most,
                                         Stamp* stamp) const {
  Wait("open and read " + path);
  QUARRY_ASSIGN_OR_RETURN(OpenedFile opened, behind_->OpenWith(path, end, most, stamp));
  opened.object = std::make_shared<const Object>(*this, std::move(opened.object));
  return opened;
}

Result<Bytes> LateStorage::ReadWhole(const std::string& path, std::uint64_t limit) const {
  Wait("read all of " + path);
  return behind_->ReadWhole(path, limit);
}

std::shared_ptr<const StoredObject> LateStorage::Refer(const std::string& path, std::uint64_t size,
                                                       std::uint64_t content) const {
  return std::make_shared<const Object>(*this, behind_->Refer(path, size, content));
}

void LateStorage::AtOnce(std::size_t calls, const std::function<void(std::size_t)>& call) const {
  const int begin = waits();
  int end = begin;
  for (std::size_t i = 0; i < calls; ++i) {
    clock_ = begin;
    reading_until_ = begin;
    call(i);
    end = std::max(end, waits());
  }
  clock_ = end;
  reading_until_ = end;
}

std::unique_ptr<Reading> LateStorage::Begin(std::vector<ReadRange> ranges, RangeDone done,
                                            const std::function<bool()>&) const {
  const int ends = clock_ + 1;
  for (ReadRange& range : ranges) {
    Tell(ends, fmt::format("range of {} at {}: {}", range.object->path(), range.offset, range.out.size()));
    range.object = dynamic_cast<const Object&>(*range.object).behind();
  }
  reading_until_ = std::max<int>(reading_until_, ends);
  ranges_ += ranges.size();
  const std::size_t count = ranges.size();
  auto under_way = std::make_shared<Way::Ranges>(Way::Ranges{std::move(ranges), std::move(done), count});
  way_->Add(under_way);
  return std::make_unique<LateReading>(*this, std::move(under_way), ends);
}

}  // namespace quarry::testing
