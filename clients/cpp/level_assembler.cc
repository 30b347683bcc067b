#include "clients/cpp/level_assembler.h"

#include <cstring>
#include <limits>

#include "quarry/base/status.h"
#include "quarry/query/question_rules.h"

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
              due.layer,
              due.extent,
              header_.type,
              due.max_error,
              due.coverage,
              header_.levels.back().level,
              header_.levels.back().layer,
              due.spacing,
              header_.may_miss,
              {},
              {},
              {},
              {},
              field_};
  missing_ = due.extent.volume();
  current_.left_out = query::LeftOutAt(header_.left_out, due.spacing);
  QUARRY_RETURN_IF_ERROR(TakeMemory());
  corners_.clear();
  if (missing_ != 0) AddCorners(due.extent, -1);
  started_ = true;
  for (const Box& extent : current_.left_out) {
    QUARRY_ASSIGN_OR_RETURN(const SamplePlace place, Place(extent));
    LeaveOut(extent, place);
  }
  return Status::Ok();
}

/// Fills a part that has no samples.
void LevelAssembler::LeaveOut(const Box& extent, const SamplePlace& place) const {
  const Index3 shape = extent.shape();
  const std::size_t size = array_.sample_size;
  const std::uint64_t no_sample = field_->no_sample_bits();
  Bytes row(static_cast<std::size_t>(shape[0]) * size);
  for (std::size_t i = 0; i < row.size(); i += size) std::memcpy(row.data() + i, &no_sample, size);
  for (std::int64_t z = 0; z < shape[2]; ++z) {
    for (std::int64_t y = 0; y < shape[1]; ++y) place.WriteRow(y, z, row.data(), row.size());
  }
  place.EndWriting();
}

/// Memory for the current level: the caller's own, or ours.
Status LevelAssembler::TakeMemory() {
  const std::size_t bytes = static_cast<std::size_t>(missing_) * SizeOf(header_.type);
  if (buffer_ && bytes > 0) {
    QUARRY_ASSIGN_OR_RETURN(current_.buffer, buffer_(current_, bytes));
  }
  if (!current_.buffer.empty() && current_.buffer.size() != bytes) {
    return InvalidArgument("the buffer for level {} has {} bytes, but its samples need exactly {}",
                           current_.level, current_.buffer.size(), bytes);
  }
  if (current_.buffer.empty()) current_.data.resize(bytes);
  std::byte* const samples = current_.buffer.empty() ? current_.data.data() : current_.buffer.data();
  array_ = {samples, current_.extent, SizeOf(header_.type)};
  return Status::Ok();
}

Result<SampleArray> LevelAssembler::Array(int level) {
  QUARRY_RETURN_IF_ERROR(StartLevel(level));
  return array_;
}

Result<SamplePlace> LevelAssembler::AddBlock(int level, const Box& extent,
                                             const std::optional<query::LevelChoice>& shown) {
  QUARRY_RETURN_IF_ERROR(StartLevel(level));
  QUARRY_ASSIGN_OR_RETURN(const SamplePlace place, Place(extent));
  if (shown && *shown != query::LevelChoice{level, current_.layer}) ShowDamage(extent, *shown);
  return place;
}

void LevelAssembler::ShowDamage(const Box& extent, const query::LevelChoice& shown) {
  current_.damaged.push_back({extent, shown.level, shown.layer});
  current_.max_error = std::numeric_limits<double>::infinity();
}

/// Counts a part of the current level as filled.
Result<SamplePlace> LevelAssembler::Place(const Box& extent) {
  const Box& whole = current_.extent;
  if (extent.empty() || !whole.Contains(extent) || extent.volume() > missing_) {
    return InternalError("a block {} of level {} does not fit into {}", ToString(extent), current_.level,
                         ToString(whole));
  }
  missing_ -= extent.volume();
  AddCorners(extent, 1);
  return array_.PlaceOf(extent);
}

Status LevelAssembler::EndLevel(int level, const ReadCost& cost) {
  QUARRY_RETURN_IF_ERROR(StartLevel(level));
  if (missing_ != 0)
    return InternalError("{} samples of level {} are missing from the answer", missing_, level);
  if (!corners_.empty()) return InternalError("samples of level {} came twice, others are missing", level);
  ++next_level_;
  started_ = false;
  return on_level_(&current_, cost);
}

Status LevelAssembler::CheckComplete() const {
  if (next_level_ == header_.levels.size()) return Status::Ok();
  return InternalError("the answer ended after {} of {} levels", next_level_, header_.levels.size());
}

}  // namespace quarry::client::internal
