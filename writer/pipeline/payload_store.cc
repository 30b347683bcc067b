#include "writer/pipeline/payload_store.h"

#include <algorithm>

namespace quarry::writer {
namespace {

constexpr std::size_t kSegmentBytes = 4 << 20;

}  // namespace

Result<std::uint64_t> PayloadStore::Append(ByteSpan bytes) {
  if (!file_ && in_memory_ + bytes.size() <= memory_limit_) {
    if (segments_.empty() || segments_.back().size() + bytes.size() > segments_.back().capacity()) {
      segment_begin_.push_back(in_memory_);
      segments_.emplace_back();
      segments_.back().reserve(std::max(kSegmentBytes, bytes.size()));
    }
    Bytes& segment = segments_.back();
    const std::size_t end = segment.size();
    segment.resize(end + bytes.size());
    std::copy(bytes.begin(), bytes.end(), segment.begin() + static_cast<std::ptrdiff_t>(end));
    in_memory_ += bytes.size();
    return in_memory_ - bytes.size();
  }
  if (!file_) {
    QUARRY_ASSIGN_OR_RETURN(TemporaryFile file, TemporaryFile::Create(folder_));
    file_.emplace(std::move(file));
  }
  const std::uint64_t position = spilled_;
  QUARRY_RETURN_IF_ERROR(file_->WriteAt(position, bytes));
  spilled_ += bytes.size();
  return in_memory_ + position;
}

Status PayloadStore::Read(std::uint64_t position, std::span<std::byte> out) const {
  if (out.empty()) return Status::Ok();
  if (position >= in_memory_) return file_->ReadAt(position - in_memory_, out);
  const auto after = std::upper_bound(segment_begin_.begin(), segment_begin_.end(), position);
  const std::size_t segment = static_cast<std::size_t>(after - segment_begin_.begin()) - 1;
  const auto first =
      segments_[segment].begin() + static_cast<std::ptrdiff_t>(position - segment_begin_[segment]);
  std::copy_n(first, out.size(), out.begin());
  return Status::Ok();
}

}  // namespace quarry::writer
