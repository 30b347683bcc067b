#include "writer/pipeline/store_claim.h"

#include <span>
#include <utility>

#include "quarry/base/directory_lock.h"
#include "writer/upkeep/dataset_files.h"

namespace quarry::writer {

Result<StoreClaim> StoreClaim::Take(const WritableLocation& dataset, bool break_lock) {
  const Location file = dataset.root / "steps" / kClaimFile;
  if (break_lock) QUARRY_RETURN_IF_ERROR(CheckUnclaimed(dataset, break_lock));
  std::string line = LockOwnerLine();
  const Status put =
      dataset.storage->Put(file.path, std::as_bytes(std::span(line)), PutCondition::IfAbsent());
  if (put.code() == StatusCode::kAlreadyExists) {
    QUARRY_ASSIGN_OR_RETURN(const std::string there, file.ReadText(kMostClaim));
    // The answer to the request that has put it may have been lost.
    if (there != line) return Claimed(file, there);
  } else {
    QUARRY_RETURN_IF_ERROR(put);
  }
  return StoreClaim(file, dataset.storage, std::move(line));
}

StoreClaim::StoreClaim(StoreClaim&& other) noexcept
    : file_(std::move(other.file_)),
      storage_(std::exchange(other.storage_, nullptr)),
      line_(std::move(other.line_)) {}

Status StoreClaim::Check() const {
  const Result<std::string> there = file_.ReadText(kMostClaim);
  if (there.ok() && *there == line_) return Status::Ok();
  if (!there.ok() && there.status().code() != StatusCode::kNotFound) return there.status();
  return FailedPrecondition(
      "another process has taken this writer for one that was killed, and writes now: \"{}\" is {}", file_,
      there.ok() ? "another one" : "gone");
}

void StoreClaim::Release() {
  if (!storage_ || !Check().ok()) return;
  const Status removed = storage_->Remove(file_.path);
  (void)removed;  // the next writer is told how to go on
  storage_ = nullptr;
}

}  // namespace quarry::writer
