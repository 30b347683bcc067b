#include "clients/cpp/level_assembler.h"

#include <cstring>
#include <limits>

namespace quarry::client::internal {

std::size_t LevelAssembler::IndexHash::operator()(const Index3& index) const {
  constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15;
  std::uint64_t hash = 0;
  for (const std::int64_t value : index)
    hash = (hash ^ (hash >> 29) ^ static_cast<std::uint64_t>(value)) * kOdd;
  return hash ^ (hash >> 32);
}

void LevelAssembler::AddCorners(const Box& box, int sign) {
  for (unsigned corner = 0; corner < 8; ++corner) {
    Index3 place = box.begin;
    std::int64_t count = sign;
    for (std::size_t a = 0; a < 3; ++a) {
      if ((corner >> a & 1) == 0) continue;
      place[a] = box.end[a];
      count = -count;
    }
    const auto found = corners_.try_emplace(place, 0).first;
    found->second += count;
    if (found->second == 0) corners_.erase(found);
  }
}

Status LevelAssembler::StartLevel(int level) {
  if (next_level_ >= header_.levels.size() || header_.levels[next_level_].level != level) {
    return InternalError("samples of level {} came out of order", level);
  }
  if (started_) return Status::Ok();
  const query::LevelExtent& due = header_.levels[next_level_];
  current_ = {header_.field,
              header_.step,
              due.level,
              due.extent,
              header_.type,
              due.max_error,
              due.coverage,
              header_.levels.back().level,
              due.spacing,
              {},
              {},
              {},
              {}};
  missing_ = due.extent.volume();
  current_.left_out = query::LeftOutAt(header_.left_out, due.spacing);
  QUARRY_RETURN_IF_ERROR(TakeMemory());
  corners_.clear();
  if (missing_ != 0) AddCorners(due.extent, -1);
  started_ = true;
  const std::size_t size = SizeOf(header_.type);
  const auto nothing = [this, size](std::byte* to, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; i += size) std::memcpy(to + i, &no_sample_, size);
    return true;
  };
  for (const Box& extent : current_.left_out) QUARRY_RETURN_IF_ERROR(Place(extent, nothing));
  return Status::Ok();
}

/// Memory for the current level: the caller's own, or ours.
Status LevelAssembler::TakeMemory() {
  const std::size_t bytes = static_cast<std::size_t>(missing_) * SizeOf(header_.type);
  if (buffer_ && bytes > 0) {
    QUARRY_ASSIGN_OR_RETURN(current_.buffer, buffer_(current_, bytes));
  }
  if (!current_.buffer.empty() && current_.buffer.size() != bytes) {
    return InvalidArgument(
        "the buffer for level {} has {} bytes, and its samples take {}; give exactly as many", current_.level,
        current_.buffer.size(), bytes);
  }
  if (current_.buffer.empty()) current_.data.resize(bytes);
  samples_ = current_.buffer.empty() ? current_.data.data() : current_.buffer.data();
  return Status::Ok();
}

Status LevelAssembler::AddBlock(int level, const Box& extent, ByteSpan samples,
                                std::optional<int> shown_level) {
  const auto read = [&samples](std::byte* to, std::size_t bytes) {
    if (bytes > samples.size()) return false;
    std::memcpy(to, samples.data(), bytes);
    samples = samples.subspan(bytes);
    return true;
  };
  QUARRY_RETURN_IF_ERROR(AddBlock(level, extent, read, shown_level));
  if (samples.empty()) return Status::Ok();
  return InternalError("a block {} of level {} came with {} bytes too many", ToString(extent), level,
                       samples.size());
}

Status LevelAssembler::AddBlock(int level, const Box& extent,
                                const std::function<bool(std::byte*, std::size_t)>& read,
                                std::optional<int> shown_level) {
  QUARRY_RETURN_IF_ERROR(StartLevel(level));
  QUARRY_RETURN_IF_ERROR(Place(extent, read));
  if (!shown_level) return Status::Ok();
  current_.damaged.push_back({extent, *shown_level});
  current_.max_error = std::numeric_limits<double>::infinity();
  return Status::Ok();
}

/// Fills a part of the current level.
Status LevelAssembler::Place(const Box& extent, const std::function<bool(std::byte*, std::size_t)>& read) {
  const Box& whole = current_.extent;
  const int level = current_.level;
  if (extent.empty() || !whole.Contains(extent) || extent.volume() > missing_) {
    return InternalError("a block {} of level {} does not fit into {}", ToString(extent), level,
                         ToString(whole));
  }
  missing_ -= extent.volume();
  AddCorners(extent, 1);
  const std::size_t size = SizeOf(header_.type);
  const Index3 shape = extent.shape();
  const Index3 stride = whole.shape();
  // Copies rows, planes or the whole, as far as they are contiguous.
  const bool whole_rows = shape[0] == stride[0];
  const std::int64_t rows = whole_rows ? shape[1] : 1;
  const std::size_t run_bytes = static_cast<std::size_t>(shape[0] * rows) * size;
  for (std::int64_t z = 0; z < shape[2]; ++z) {
    for (std::int64_t y = 0; y < shape[1]; y += rows) {
      const std::int64_t row =
          (extent.begin[1] - whole.begin[1] + y) + stride[1] * (extent.begin[2] - whole.begin[2] + z);
      const std::int64_t first = row * stride[0] + extent.begin[0] - whole.begin[0];
      if (!read(samples_ + static_cast<std::size_t>(first) * size, run_bytes))
        return InternalError("a block {} of level {} came with too few bytes", ToString(extent), level);
    }
  }
  return Status::Ok();
}

Status LevelAssembler::EndLevel(int level, const ReadCost& cost) {
  QUARRY_RETURN_IF_ERROR(StartLevel(level));
  if (missing_ != 0) return InternalError("{} samples of level {} did not come", missing_, level);
  if (!corners_.empty()) return InternalError("some samples of level {} came twice, others did not", level);
  ++next_level_;
  started_ = false;
  return on_level_(&current_, cost);
}

Status LevelAssembler::CheckComplete() const {
  if (next_level_ == header_.levels.size()) return Status::Ok();
  return InternalError("the answer ended after {} of {} levels", next_level_, header_.levels.size());
}

}  // namespace quarry::client::internal
