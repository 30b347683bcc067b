#include "writer/copy/file_copier.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "quarry/base/units.h"
#include "quarry/storage/at_once.h"
#include "writer/upkeep/dataset_files.h"

namespace quarry::writer {
namespace {

const auto kNever = [] { return false; };

/// So many files of a disk are copied at a time: file systems of clusters answer several sooner than one.
constexpr std::size_t kMostAtOnce = 8;

/// A part in the buffer, one more that a store sends, and as much for tables.
constexpr std::uint64_t kPartsOfThread = 3;

}  // namespace

bool FileCopier::IsThere(const FileToCopy& file) const {
  return HasFooter(target_.Plain(file.place), file.size, file.table_checksum);
}

Result<std::size_t> FileCopier::ThreadsFor(const std::vector<FileToCopy>& files) const {
  std::uint64_t part = 1;
  for (const FileToCopy& file : files)
    part = std::max(part, std::min(file.size, target_.storage().PartBytes(file.size)));
  if (options_.memory < kPartsOfThread * part)
    return InvalidArgument("--memory is too little for parts of {}; give {} or more", FormatBytes(part),
                           FormatBytes(kPartsOfThread * part));
  return std::min<std::uint64_t>(kMostAtOnce, options_.memory / (kPartsOfThread * part));
}

Status FileCopier::CopyAll(const std::vector<FileToCopy>& files) {
  QUARRY_ASSIGN_OR_RETURN(const std::size_t threads, ThreadsFor(files));
  std::atomic<bool> failed{false};
  std::mutex mutex;
  Status first;
  CallAtOnce(files.size(), threads, [&](std::size_t i) {
    if (failed) return;
    Status status = CopyOne(files[i]);
    if (status.ok()) return;
    failed = true;
    const std::lock_guard lock(mutex);
    if (first.ok()) first = std::move(status);
  });
  return first;
}

/// Damage ends the copy, or is reported.
Status FileCopier::Damaged(Status status) {
  if (status.ok() || status.code() != StatusCode::kDataLoss || !options_.allow_damage) return status;
  const std::lock_guard lock(mutex_);
  if (report_.damage.size() < CopyReport::kMaxDamage) report_.damage.push_back(std::move(status));
  return Status::Ok();
}

PutCondition FileCopier::Condition() const {
  return target_.storage().renames_folders() ? PutCondition::Always() : PutCondition::IfAbsent();
}

Status FileCopier::CopyOne(const FileToCopy& file) {
  if (IsThere(file)) {
    const std::lock_guard lock(mutex_);
    ++report_.kept;
    expected_ -= std::min(expected_, file.size);
    return Status::Ok();
  }
  std::function<Status(ByteSpan)> check;
  Result<std::function<Status(ByteSpan)>> begun = file.begin_check();
  if (begun.ok()) {
    check = *std::move(begun);
  } else {
    QUARRY_RETURN_IF_ERROR(Damaged(begun.status()));
    check = [](ByteSpan) { return Status::Ok(); };
  }
  const Status copied = CopyParts(file, check);
  if (copied.code() == StatusCode::kAlreadyExists && !IsThere(file))
    return FailedPrecondition(
        "{}, with other contents; another process writes there, or has done so: remove "
        "what it has left with \"quarry cp --clean\"",
        copied.message());
  if (copied.code() != StatusCode::kAlreadyExists) QUARRY_RETURN_IF_ERROR(copied);
  const std::lock_guard lock(mutex_);
  ++report_.objects;
  report_.bytes += file.size;
  return Status::Ok();
}

Status FileCopier::CopyParts(const FileToCopy& file, const std::function<Status(ByteSpan)>& check) {
  const std::string path = target_.PathOf(file.place);
  const std::uint64_t part = target_.storage().PartBytes(file.size);
  std::unique_ptr<Upload> upload;
  Bytes bytes;
  const Status copied = [&]() -> Status {
    for (std::uint64_t at = 0; at < file.size; at += part) {
      bytes.resize(std::min(part, file.size - at));
      const ReadRange range{file.object.get(), at, bytes};
      QUARRY_RETURN_IF_ERROR(file.storage->ReadRanges(std::span(&range, 1), kNever));
      QUARRY_RETURN_IF_ERROR(Damaged(check(bytes)));
      const bool last = at + bytes.size() == file.size;
      if (last) QUARRY_RETURN_IF_ERROR(Damaged(check({})));
      if (at == 0 && last) {
        QUARRY_RETURN_IF_ERROR(target_.storage().Put(path, bytes, Condition()));
      } else {
        if (!upload) {
          QUARRY_ASSIGN_OR_RETURN(upload, target_.storage().BeginUpload(path, file.size));
        }
        QUARRY_RETURN_IF_ERROR(upload->PutPart(at / part, bytes));
      }
      Count(bytes.size());
    }
    return upload ? upload->Complete(file.size, Condition()) : Status::Ok();
  }();
  if (!copied.ok() && upload) {
    const Status aborted = upload->Abort();
    (void)aborted;  // "quarry cp --clean" removes what is left
  }
  return copied;
}

void FileCopier::Count(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  done_ += bytes;
  if (options_.progress) options_.progress(std::min(done_, expected_), expected_);
}

}  // namespace quarry::writer
