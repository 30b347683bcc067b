#include "quarry/wire/convert.h"

#include "quarry/format/proto_convert.h"

namespace quarry::wire {

pb::ReadQuery ToProto(const std::string& dataset, const query::ReadRequest& request) {
  pb::ReadQuery out;
  out.set_dataset(dataset);
  out.set_field(request.field);
  if (request.step) out.set_step(*request.step);
  if (request.box) *out.mutable_box() = format::ToProto(*request.box);
  if (request.max_error) {
    out.set_max_error(*request.max_error);
  } else {
    out.set_level(static_cast<std::uint32_t>(request.level));
  }
  if (request.first_level) out.set_first_level(static_cast<std::uint32_t>(*request.first_level));
  return out;
}

Result<query::ReadRequest> FromProto(const pb::ReadQuery& query) {
  query::ReadRequest request;
  request.field = query.field();
  if (query.has_step()) request.step = query.step();
  if (query.has_box()) {
    const Result<Box> box = format::FromProto(query.box());
    if (!box.ok())
      return InvalidArgument("{}; give begin and end with three values each", box.status().message());
    request.box = *box;
  }
  // Larger numbers than any level are all the same to the planner, which refuses them with the levels that
  // there are.
  const auto level = [](std::uint32_t value) {
    return static_cast<int>(std::min<std::uint32_t>(value, 1000));
  };
  request.level = level(query.level());
  if (query.target_case() == pb::ReadQuery::kMaxError) request.max_error = query.max_error();
  if (query.has_first_level()) request.first_level = level(query.first_level());
  return request;
}

pb::Price ToProto(const query::Price& price) {
  pb::Price out;
  out.set_patches(price.patches);
  out.set_bytes(price.bytes);
  out.set_bytes_read(price.bytes_read);
  out.set_reads(price.reads);
  out.set_reply_bytes(price.reply_bytes);
  return out;
}

query::Price FromProto(const pb::Price& price) {
  return {price.patches(), price.bytes(), price.bytes_read(), price.reads(), price.reply_bytes()};
}

pb::ReadHeader ToProto(const query::AnswerHeader& header) {
  pb::ReadHeader out;
  out.set_dtype(static_cast<pb::DataType>(header.type));
  out.set_step(header.step);
  for (const query::LevelExtent& level : header.levels) {
    pb::LevelExtent* extent = out.add_levels();
    extent->set_level(static_cast<std::uint32_t>(level.level));
    SetExtent(level.extent, extent);
    extent->set_max_error(level.max_error);
    extent->set_bytes(level.bytes);
    extent->set_coverage(level.coverage);
  }
  *out.mutable_price() = ToProto(header.price);
  return out;
}

Result<query::AnswerHeader> FromProto(const pb::ReadHeader& header) {
  query::AnswerHeader out;
  out.type = static_cast<DataType>(header.dtype());
  if (SizeOf(out.type) == 0)
    return InternalError("the server sends samples of the unknown type {}", static_cast<int>(header.dtype()));
  out.step = header.step();
  for (const pb::LevelExtent& extent : header.levels()) {
    query::LevelExtent level;
    level.level = static_cast<int>(extent.level());
    QUARRY_ASSIGN_OR_RETURN(level.extent, GetExtent(extent));
    level.max_error = extent.max_error();
    level.bytes = extent.bytes();
    if (extent.has_coverage()) level.coverage = extent.coverage();
    out.levels.push_back(level);
  }
  out.price = FromProto(header.price());
  return out;
}

}  // namespace quarry::wire
