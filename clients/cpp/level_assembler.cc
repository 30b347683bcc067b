#include "clients/cpp/level_assembler.h"

#include <cstring>

namespace quarry::client {

Status LevelAssembler::StartLevel(int level) {
  if (next_level_ >= header_.levels.size() || header_.levels[next_level_].level != level) {
    return InternalError("samples of level {} came out of order", level);
  }
  if (started_) return Status::Ok();
  const query::LevelExtent& due = header_.levels[next_level_];
  current_ = {due.level,   due.extent, header_.type, due.max_error, due.coverage, header_.levels.back().level,
              due.spacing, {}};
  missing_ = due.extent.volume();
  current_.data.resize(static_cast<std::size_t>(missing_) * SizeOf(header_.type));
  started_ = true;
  return Status::Ok();
}

Status LevelAssembler::AddBlock(int level, const Box& extent, ByteSpan samples) {
  QUARRY_RETURN_IF_ERROR(StartLevel(level));
  const Box& whole = current_.extent;
  const std::size_t size = SizeOf(header_.type);
  if (!whole.Contains(extent) || samples.size() != static_cast<std::size_t>(extent.volume()) * size ||
      extent.volume() > missing_) {
    return InternalError("a block {} of level {} does not fit into {}", ToString(extent), level,
                         ToString(whole));
  }
  missing_ -= extent.volume();
  const Index3 shape = extent.shape();
  const Index3 stride = whole.shape();
  const std::size_t row_bytes = static_cast<std::size_t>(shape[0]) * size;
  for (std::int64_t z = 0; z < shape[2]; ++z) {
    for (std::int64_t y = 0; y < shape[1]; ++y) {
      const std::int64_t row =
          (extent.begin[1] - whole.begin[1] + y) + stride[1] * (extent.begin[2] - whole.begin[2] + z);
      const std::int64_t first = row * stride[0] + extent.begin[0] - whole.begin[0];
      std::memcpy(current_.data.data() + static_cast<std::size_t>(first) * size, samples.data(), row_bytes);
      samples = samples.subspan(row_bytes);
    }
  }
  return Status::Ok();
}

Status LevelAssembler::EndLevel(int level, const ReadCost& cost) {
  QUARRY_RETURN_IF_ERROR(StartLevel(level));
  if (missing_ != 0) return InternalError("{} samples of level {} did not come", missing_, level);
  ++next_level_;
  started_ = false;
  return on_level_(&current_, cost);
}

Status LevelAssembler::CheckComplete() const {
  if (next_level_ == header_.levels.size()) return Status::Ok();
  return InternalError("the answer ended after {} of {} levels", next_level_, header_.levels.size());
}

}  // namespace quarry::client
