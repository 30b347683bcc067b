#include "quarry/storage/storage.h"

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <utility>

#include "quarry/base/file.h"
#include "quarry/storage/at_once.h"

namespace quarry {
namespace {

/// A file that is opened when it is first read.
class ReferredObject final : public StoredObject {
 public:
  ReferredObject(const Storage& storage, std::string path, std::uint64_t size)
      : storage_(storage), path_(std::move(path)), size_(size) {}

  const std::string& path() const override { return path_; }
  std::uint64_t size() const override { return size_; }
  Status ReadAt(std::uint64_t offset, std::span<std::byte> out) const override {
    QUARRY_RETURN_IF_ERROR(TakeFailure());
    QUARRY_ASSIGN_OR_RETURN(const auto opened, Opened());
    // The rest of a truncated file can be read.
    if (offset > opened->size() || out.size() > opened->size() - offset)
      return DataLoss("\"{}\" has {} bytes, but bytes {}..{} are needed; it is truncated", path_,
                      opened->size(), offset, offset + out.size());
    return opened->ReadAt(offset, out);
  }
  void ExpectRead(std::uint64_t offset, std::uint64_t size) const override {
    const auto opened = Opened();
    if (opened.ok()) return (*opened)->ExpectRead(offset, size);
    const std::lock_guard lock(mutex_);
    failure_ = opened.status();
  }

 private:
  /// The error of an announcement, for the read that was announced.
  Status TakeFailure() const {
    const std::lock_guard lock(mutex_);
    return std::exchange(failure_, Status::Ok());
  }
  /// A failure is not kept: the next read tries again.
  Result<std::shared_ptr<const StoredObject>> Opened() const {
    const std::lock_guard lock(mutex_);
    if (opened_) return opened_;
    QUARRY_ASSIGN_OR_RETURN(auto opened, storage_.Open(path_));
    opened_ = std::move(opened);
    return opened_;
  }

  const Storage& storage_;
  const std::string path_;
  const std::uint64_t size_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const StoredObject> opened_;
  mutable Status failure_;
};

/// The ranges of a reading as its caller sees them, in pieces that a request may have: each is reported when
/// all of its pieces are there.
class WholeRanges {
 public:
  /// @param most  [bytes] of a piece; 0: any
  WholeRanges(std::vector<ReadRange> ranges, std::uint64_t most, RangeDone done) : done_(std::move(done)) {
    statuses_.resize(ranges.size());
    left_.assign(ranges.size(), 1);
    const auto is_long = [&](const ReadRange& range) { return most > 0 && range.out.size() > most; };
    pieces_ = std::move(ranges);
    if (std::ranges::any_of(pieces_, is_long)) Cut(most);
  }

  std::vector<ReadRange> TakePieces() { return std::move(pieces_); }

  void Done(std::size_t piece, const Status& status) {
    const std::size_t range = ranges_.empty() ? piece : ranges_[piece];
    Status all;
    {
      const std::lock_guard lock(mutex_);
      if (first_.ok()) first_ = status;
      if (statuses_[range].ok()) statuses_[range] = status;
      if (--left_[range] > 0) return;
      all = std::move(statuses_[range]);
    }
    done_(range, all);
  }

  /// The first error.
  Status first() const {
    const std::lock_guard lock(mutex_);
    return first_;
  }

 private:
  void Cut(std::uint64_t most) {
    std::vector<ReadRange> pieces;
    for (std::size_t r = 0; r < pieces_.size(); ++r) {
      const ReadRange& range = pieces_[r];
      left_[r] = 0;
      for (std::uint64_t at = 0; at == 0 || at < range.out.size(); at += most, ++left_[r]) {
        const std::uint64_t size = std::min<std::uint64_t>(most, range.out.size() - at);
        pieces.push_back({range.object, range.offset + at, range.out.subspan(at, size)});
        ranges_.push_back(r);
      }
    }
    pieces_ = std::move(pieces);
  }

  const RangeDone done_;
  std::vector<ReadRange> pieces_;
  std::vector<std::size_t> ranges_;  ///< range of each piece; empty: they are the ranges
  mutable std::mutex mutex_;         ///< guards the following
  std::vector<std::size_t> left_;    ///< pieces of each range that were not reported
  std::vector<Status> statuses_;     ///< the first error of each range
  Status first_;
};

class ReadingOfRanges final : public Reading {
 public:
  ReadingOfRanges(std::shared_ptr<const WholeRanges> ranges, std::unique_ptr<Reading> pieces)
      : ranges_(std::move(ranges)), pieces_(std::move(pieces)) {}

  Status Wait(const std::function<bool()>& cancelled) override {
    const Status waited = pieces_->Wait(cancelled);
    const Status first = ranges_->first();
    return first.ok() ? waited : first;
  }

 private:
  const std::shared_ptr<const WholeRanges> ranges_;
  const std::unique_ptr<Reading> pieces_;
};

/// A reading that ended while it began.
class EndedReading final : public Reading {
 public:
  Status Wait(const std::function<bool()>&) override { return Status::Ok(); }
};

}  // namespace

std::uint64_t ReadCosts::gap() const {
  constexpr std::uint64_t kMost = 1 << 20;
  return std::clamp(bytes_under_way() / static_cast<std::uint64_t>(std::max(1, side_by_side)),
                    std::min(least_gap, kMost), kMost);
}

Result<std::string> Storage::FolderIdentity(const std::string& path) const {
  QUARRY_ASSIGN_OR_RETURN(ObjectInfo info, Stat(path));
  return std::move(info.identity);
}

Result<OpenedFile> Storage::OpenWith(const std::string& path, FileEnd end, std::uint64_t most,
                                     Stamp* stamp) const {
  if (stamp != nullptr) {
    Result<ObjectInfo> info = Stat(path);
    *stamp = info.ok() ? std::move(info->stamp) : Stamp{"-"};
  }
  OpenedFile file;
  QUARRY_ASSIGN_OR_RETURN(file.object, Open(path));
  const std::uint64_t size = file.object->size();
  file.bytes.resize(std::min(size, most));
  const std::uint64_t offset = end == FileEnd::kFront ? 0 : size - file.bytes.size();
  QUARRY_RETURN_IF_ERROR(file.object->ReadAt(offset, file.bytes));
  return file;
}

Result<Bytes> ReadWhole(const StoredObject& object, std::uint64_t limit) {
  QUARRY_RETURN_IF_ERROR(CheckFileSize(object.path(), object.size(), limit));
  Bytes bytes(object.size());
  QUARRY_RETURN_IF_ERROR(object.ReadAt(0, bytes));
  return bytes;
}

Result<std::string> ReadText(const StoredObject& object, std::uint64_t limit) {
  QUARRY_ASSIGN_OR_RETURN(const Bytes bytes, ReadWhole(object, limit));
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

Result<Bytes> Storage::ReadWhole(const std::string& path, std::uint64_t limit) const {
  QUARRY_ASSIGN_OR_RETURN(const std::shared_ptr<const StoredObject> object, Open(path));
  return quarry::ReadWhole(*object, limit);
}

ObjectKind Storage::KindBehindLink(const std::string& path) const {
  const Result<ObjectInfo> info = Stat(path);
  return info.ok() ? info->kind : ObjectKind::kOther;
}

std::shared_ptr<const StoredObject> Storage::Refer(const std::string& path, std::uint64_t size,
                                                   std::uint64_t) const {
  return std::make_shared<const ReferredObject>(*this, path, size);
}

std::unique_ptr<Reading> Storage::BeginRead(std::vector<ReadRange> ranges, RangeDone done,
                                            const std::function<bool()>& cancelled) const {
  auto whole = std::make_shared<WholeRanges>(std::move(ranges), costs().most_bytes, std::move(done));
  auto report = [whole](std::size_t piece, const Status& status) { whole->Done(piece, status); };
  std::unique_ptr<Reading> pieces = Begin(whole->TakePieces(), std::move(report), cancelled);
  return std::make_unique<ReadingOfRanges>(std::move(whole), std::move(pieces));
}

Status Storage::ReadRanges(std::span<const ReadRange> ranges, const std::function<bool()>& cancelled) const {
  const auto nobody = [](std::size_t, const Status&) {};
  return BeginRead({ranges.begin(), ranges.end()}, nobody, cancelled)->Wait(cancelled);
}

std::unique_ptr<Reading> Storage::Begin(std::vector<ReadRange> ranges, RangeDone done,
                                        const std::function<bool()>& cancelled) const {
  // A coarse level is a few bytes in each of many places. Reading them one after the other from a disk takes
  // the sum of all its delays; announced together, they overlap. The first is read at once.
  for (std::size_t i = 1; i < ranges.size(); ++i)
    ranges[i].object->ExpectRead(ranges[i].offset, ranges[i].out.size());
  const Status stopped(StatusCode::kCancelled, "the read was cancelled");
  bool goes_on = true;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    goes_on = goes_on && !cancelled();
    const Status status = goes_on ? ranges[i].object->ReadAt(ranges[i].offset, ranges[i].out) : stopped;
    // A storage around this one may know where the file is now.
    goes_on = goes_on && (status.ok() || status.code() == StatusCode::kNotFound);
    done(i, status);
  }
  return EndedAlready();
}

std::unique_ptr<Reading> Storage::EndedAlready() { return std::make_unique<EndedReading>(); }

void Storage::AtOnce(std::size_t calls, const std::function<void(std::size_t)>& call) const {
  CallAtOnce(calls, static_cast<std::size_t>(std::max(1, costs().side_by_side)), call);
}

std::string Storage::AbsolutePath(const std::string& path) const {
  std::string normal = std::filesystem::path(path).lexically_normal().string();
  while (normal.ends_with('/')) normal.pop_back();
  return normal == "." ? std::string() : normal;
}

}  // namespace quarry
