#pragma once

#include <deque>
#include <future>
#include <memory>

#include "clients/cpp/grpc/answer_reader.h"
#include "clients/cpp/level_assembler.h"
#include "quarry/store/decode_pool.h"

namespace quarry::client::internal {

/// Decodes the tiles of a coded answer on the threads of a pool, while more of them arrive, to the places
/// that an assembler gives. One caller at a time.
class TileDecoder {
 public:
  /// @param pool  outlives the decoder
  TileDecoder(DataType type, DecodePool* pool) : type_(type), pool_(pool) {}
  /// Waits for the decoding that has started.
  ~TileDecoder();
  TileDecoder(const TileDecoder&) = delete;
  TileDecoder& operator=(const TileDecoder&) = delete;

  /// Starts on a tile; waits while too much is in progress. Until Wait or the end of the decoder, samples are
  /// written to the memory of the assembler.
  /// @errors kInternal: an impossible tile; those of tiles before it
  Status Add(int level, const ::quarry::v1::CodedTile& tile, MessageData* data, LevelAssembler* assembler);

  /// Waits for all tiles.
  Status Wait();

 private:
  struct Task;

  Status Finish();

  const DataType type_;
  DecodePool* const pool_;
  std::deque<std::shared_ptr<Task>> under_way_;
  std::size_t bytes_under_way_ = 0;
};

}  // namespace quarry::client::internal
