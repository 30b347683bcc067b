#include "writer/pipeline/payload_store.h"

#include <algorithm>

namespace quarry::writer {
namespace {

constexpr std::size_t kSegmentBytes = 4 << 20;

void Join(std::span<const ByteSpan> parts, std::byte* out) {
  for (const ByteSpan part : parts) out = std::copy(part.begin(), part.end(), out);
}

}  // namespace

std::byte* PayloadStore::Extend(std::size_t size) {
  if (segments_.empty() || segments_.back().size() + size > segments_.back().capacity()) {
    segment_begin_.push_back(in_memory_);
    segments_.emplace_back();
    segments_.back().reserve(std::max(kSegmentBytes, size));
  }
  Bytes& segment = segments_.back();
  const std::size_t end = segment.size();
  segment.resize(end + size);
  return segment.data() + end;
}

Result<std::uint64_t> PayloadStore::Append(std::span<const ByteSpan> parts) {
  std::size_t size = 0;
  for (const ByteSpan part : parts) size += part.size();
  if (!file_ && in_memory_ + size <= memory_limit_) {
    Join(parts, Extend(size));
    in_memory_ += size;
    return in_memory_ - size;
  }
  if (!file_) {
    QUARRY_ASSIGN_OR_RETURN(TemporaryFile file, TemporaryFile::Create(folder_));
    file_.emplace(std::move(file));
  }
  Bytes whole(size);
  Join(parts, whole.data());
  const std::uint64_t position = spilled_;
  QUARRY_RETURN_IF_ERROR(file_->WriteAt(position, whole));
  spilled_ += size;
  return in_memory_ + position;
}

const std::byte* PayloadStore::InMemory(std::uint64_t position) const {
  const auto after = std::upper_bound(segment_begin_.begin(), segment_begin_.end(), position);
  const std::size_t segment = static_cast<std::size_t>(after - segment_begin_.begin()) - 1;
  return segments_[segment].data() + (position - segment_begin_[segment]);
}

Status PayloadStore::Read(std::uint64_t position, std::span<std::byte> out) const {
  if (out.empty()) return Status::Ok();
  if (position >= in_memory_) return file_->ReadAt(position - in_memory_, out);
  std::copy_n(InMemory(position), out.size(), out.begin());
  return Status::Ok();
}

Result<ByteSpan> PayloadStore::View(std::uint64_t position, std::size_t size, Bytes* buffer) const {
  if (size == 0) return ByteSpan();
  if (position < in_memory_) return ByteSpan(InMemory(position), size);
  buffer->resize(size);
  QUARRY_RETURN_IF_ERROR(Read(position, *buffer));
  return ByteSpan(*buffer);
}

}  // namespace quarry::writer
