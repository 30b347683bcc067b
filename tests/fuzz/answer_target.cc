// Hostile answers of a server, assembled by the client: see answer_input.h. Those of an odd number of bytes
// go to a client that does not know the dataset. Checksums of tiles are made right, so that they are decoded.

#include "clients/cpp/grpc/answer_receiver.h"
#include "quarry/base/endian.h"
#include "quarry/store/decode_pool.h"
#include "quarry/wire/convert.h"
#include "tests/fuzz/answer_input.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/repair.h"

namespace quarry::fuzz {
namespace {

/// Makes the checksums of the tiles of a message right; another message stays as it is.
/// @param type  of the samples; the header says that of the messages after it
void RepairTiles(DataType* type, std::string* text) {
  v1::ReadResponse message;
  if (!message.ParseFromString(*text)) return;
  if (message.has_header()) *type = static_cast<DataType>(message.header().dtype());
  if (!message.has_coded()) return;
  std::span<char> rest(*message.mutable_coded()->mutable_data());
  for (const v1::CodedTile& tile : message.coded().tiles()) {
    if (tile.size() > rest.size()) break;
    const Result<Box> extent = wire::GetExtent(tile);
    if (extent.ok()) RepairTile(*type, extent->shape(), rest.first(tile.size()));
    rest = rest.subspan(tile.size());
  }
  *text = message.SerializeAsString();
}

}  // namespace
}  // namespace quarry::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace quarry;
  static const auto dataset = std::make_shared<const DatasetDescription>(fuzz::AnswerDataset());
  static DecodePool pool(1);
  if (size == 0) return 0;
  const query::SeriesRequest request = fuzz::AnswerRequest(data[0]);
  const Box grid = dataset->grids[0].domain();
  // Without a box, the memory of an answer would be as large as a hostile description says.
  const bool described = request.read.box && size % 2 == 1;
  const client::LevelCallback check = [&](client::LevelSamples* level, const client::ReadCost&) {
    fuzz::Require(
        level->data.size() == static_cast<std::size_t>(level->extent.volume()) * SizeOf(level->type),
        "a level has its samples");
    // The grid of a description may be any, and smaller than the box.
    const Box box = described ? *request.read.box : Intersect(request.read.box.value_or(grid), grid);
    const Box asked = SpacedBox(box, level->spacing);
    fuzz::Require(described ? level->extent.volume() <= asked.volume() : level->extent == asked,
                  "a level is what was asked for");
    fuzz::Require(request.read.allow_damage || level->damaged.empty(),
                  "nothing damaged comes unless the question allows it");
    return Status::Ok();
  };
  const client::BufferCallback own_buffers;
  using client::internal::SharedDescription;
  const client::internal::KnownDataset known{described ? nullptr : dataset,
                                             []() -> Result<SharedDescription> { return dataset; }};
  client::internal::AnswerReceiver receiver(known, request, {}, check, own_buffers, &pool);
  ByteSpan rest = std::as_bytes(std::span(data + 1, size - 1));
  DataType type = dataset->fields[0].type;
  Status status;
  while (status.ok() && rest.size() >= 2) {
    const std::size_t length =
        std::min<std::size_t>(GetLittleEndian<std::uint16_t>(rest.data()), rest.size() - 2);
    std::string text(reinterpret_cast<const char*>(rest.data() + 2), length);
    fuzz::RepairTiles(&type, &text);
    const grpc::Slice slice(text);
    status = receiver.Take(grpc::ByteBuffer(&slice, 1));
    rest = rest.subspan(2 + length);
  }
  fuzz::Require(
      status.ok() || status.code() == StatusCode::kInternal || status.code() == StatusCode::kDataLoss,
      "an error of a hostile answer is kInternal or kDataLoss");
  return 0;
}
