#include "writer/copy/payload_stream.h"

#include <algorithm>
#include <utility>

namespace quarry::writer {

PayloadStream::PayloadStream(format::TableWalk walk, std::string path)
    : walk_(std::move(walk)), path_(std::move(path)), runs_(format::PartRuns(walk_.table().header)) {}

/// Payloads follow each other as the runs of the file do, and in each of them as the rows of the table.
Status PayloadStream::Next() {
  now_.reset();
  for (; run_ < runs_.size(); ++run_, block_ = 0, in_block_ = false) {
    for (; block_ < walk_.blocks(); ++block_, in_block_ = false) {
      if (!in_block_) {
        QUARRY_RETURN_IF_ERROR(walk_.GoTo(block_));
        in_block_ = true;
        row_ = 0;
        part_ = runs_[run_].first;
      }
      for (; row_ < walk_.rows().size(); ++row_, part_ = runs_[run_].first) {
        if (part_ < runs_[run_].last) continue;
        const format::PatchEntry& row = walk_.rows()[row_];
        const format::LevelEntry& entry = row.levels[static_cast<std::size_t>(part_)];
        now_ = Payload{row.patch_index, part_--, entry.offset, entry.offset + entry.size, entry.checksum};
        sum_.emplace();
        return Status::Ok();
      }
    }
  }
  return Status::Ok();
}

Status PayloadStream::EndPayload() {
  const Payload payload = *now_;
  const std::uint64_t computed = sum_->Finish();
  QUARRY_RETURN_IF_ERROR(Next());
  if (computed == payload.checksum) return Status::Ok();
  return DataLoss("\"{}\": a payload of patch {} (bytes {}..{}): checksum {} stored, {} computed", path_,
                  payload.patch, payload.begin, payload.end, ChecksumText(payload.checksum),
                  ChecksumText(computed));
}

Status PayloadStream::Take(ByteSpan bytes) {
  Status first;
  const auto keep = [&](Status status) {
    if (first.ok()) first = std::move(status);
  };
  if (position_ == 0) keep(Next());
  const std::uint64_t end = position_ + bytes.size();
  // A payload without a byte ends where it begins.
  while (now_ && now_->begin <= end) {
    if (now_->begin < passed_) {
      keep(DataLoss("\"{}\": the payload of patch {} at byte {} begins before the one before it ends", path_,
                    now_->patch, now_->begin));
      now_.reset();
      break;
    }
    const std::uint64_t from = std::max(now_->begin, position_);
    const std::uint64_t to = std::min(now_->end, end);
    if (to > from) sum_->Update(bytes.subspan(from - position_, to - from));
    if (now_->end > end) break;
    passed_ = now_->end;
    keep(EndPayload());
  }
  position_ = end;
  return first;
}

Status PayloadStream::Finish() const {
  if (!now_) return Status::Ok();
  return DataLoss("\"{}\" ends before the payload of patch {} at bytes {}..{}", path_, now_->patch,
                  now_->begin, now_->end);
}

}  // namespace quarry::writer
