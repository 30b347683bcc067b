#include "clients/cpp/grpc/tile_decoder.h"

#include <chrono>
#include <new>
#include <utility>

#include "quarry/codec/tile.h"
#include "quarry/wire/convert.h"

namespace quarry::client::internal {

namespace {

/// Most samples and tiles, in bytes, that may wait for their turn.
constexpr std::size_t kMostTilesUnderWay = 64 << 20;

}  // namespace

/// One tile on its way to its place in the level.
struct TileDecoder::Task {
  TileLayout layout;
  Box extent;
  Bytes coded;
  SamplePlace place;
  std::size_t bytes = 0;  ///< bytes of samples and tile
  std::promise<Status> done;
  std::future<Status> result = done.get_future();

  void Run() {
    Status status;
    try {
      status = DecodeTile(layout, coded, place);
    } catch (const std::bad_alloc&) {
      status = {StatusCode::kInternal, "no memory"};  // a text that allocates nothing
    }
    coded = {};
    done.set_value(std::move(status));
  }
};

TileDecoder::~TileDecoder() {
  for (const std::shared_ptr<Task>& task : under_way_) task->result.wait();
}

Status TileDecoder::Add(int level, const ::quarry::v1::CodedTile& tile, MessageData* data,
                        LevelAssembler* assembler) {
  auto task = std::make_shared<Task>();
  QUARRY_ASSIGN_OR_RETURN(task->extent, wire::GetExtent(tile));
  QUARRY_ASSIGN_OR_RETURN(task->place, assembler->AddBlock(level, task->extent));
  // Inside its level, so that its volume is no overflow.
  if (task->extent.volume() > kMaxTileSamples)
    return InternalError("a tile {} of level {} has more than {} samples", ToString(task->extent), level,
                         kMaxTileSamples);
  // None at all is the server's mistake, as bytes that are not there: it is no damage of a tile.
  if (tile.size() == 0 || tile.size() > data->size())
    return InternalError("a tile {} of level {} came with {} of {} bytes", ToString(task->extent), level,
                         data->size(), tile.size());
  task->layout = {type_, task->extent.shape()};
  task->bytes = static_cast<std::size_t>(task->extent.volume()) * SizeOf(type_) + tile.size();
  task->coded.resize(tile.size());
  if (!data->Read(task->coded.data(), task->coded.size()))
    return InternalError("a message of the server ends early");
  while (!under_way_.empty() && bytes_under_way_ + task->bytes > kMostTilesUnderWay)
    QUARRY_RETURN_IF_ERROR(Finish());
  pool_->Submit({level, 0}, [task] { task->Run(); });
  bytes_under_way_ += task->bytes;
  under_way_.push_back(std::move(task));
  // Finished tiles are released at once, and damage is found early.
  while (!under_way_.empty() &&
         under_way_.front()->result.wait_for(std::chrono::seconds(0)) == std::future_status::ready)
    QUARRY_RETURN_IF_ERROR(Finish());
  return Status::Ok();
}

Status TileDecoder::Wait() {
  while (!under_way_.empty()) QUARRY_RETURN_IF_ERROR(Finish());
  return Status::Ok();
}

/// Finishes the oldest tile.
Status TileDecoder::Finish() {
  const std::shared_ptr<Task> task = under_way_.front();
  under_way_.pop_front();
  bytes_under_way_ -= task->bytes;
  Status status = task->result.get();
  if (status.ok()) return status;
  return std::move(status).Annotate(
      fmt::format("cannot decode the tile {} of the server", ToString(task->extent)));
}

}  // namespace quarry::client::internal
