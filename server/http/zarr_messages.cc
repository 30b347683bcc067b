#include "server/http/zarr_messages.h"

#include <algorithm>
#include <span>

#include "quarry/format/proto_convert.h"

namespace quarry::server::http {

namespace pb = ::quarry::v1;

pb::ReadRequest ToMessage(const zarr::ChunkQuestion& question, const std::string& dataset) {
  pb::ReadRequest request;
  pb::ReadQuery* const query = request.mutable_query();
  query->set_dataset(dataset);
  query->set_field(question.field);
  query->set_step(question.step);
  query->set_level(static_cast<std::uint32_t>(question.level));
  query->set_layer(static_cast<std::uint32_t>(question.layer));
  query->set_strict(true);
  *query->mutable_box() = format::ToProto(question.box);
  return request;
}

Status AddSamples(const pb::SampleBlocks& samples, zarr::ChunkBuffer* chunk) {
  constexpr int kAxes = 3;
  ByteSpan data = std::as_bytes(std::span(samples.data()));
  for (const pb::BlockExtent& block : samples.blocks()) {
    if (block.has_shown_level()) return DataLoss("samples of the chunk are damaged");
    if (block.begin_size() != kAxes || block.shape_size() != kAxes)
      return InternalError("a block of the answer has no three axes");
    Box box;
    for (int a = 0; a < kAxes; ++a) {
      box.begin[static_cast<std::size_t>(a)] = block.begin(a);
      box.end[static_cast<std::size_t>(a)] = std::int64_t{block.begin(a)} + block.shape(a);
    }
    const std::size_t bytes = std::min(chunk->BytesOf(box), data.size());
    QUARRY_RETURN_IF_ERROR(chunk->Add(box, data.first(bytes)));
    data = data.subspan(bytes);
  }
  return Status::Ok();
}

}  // namespace quarry::server::http
