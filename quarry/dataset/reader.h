#pragma once

#include <filesystem>
#include <functional>

#include "quarry/dataset/dataset.h"
#include "quarry/dataset/decode_pool.h"

namespace quarry {

/// Receives the samples of a read, on the thread that called ExecuteRead.
class BlockSink {
 public:
  virtual ~BlockSink() = default;

  /// Samples of one level in `extent` (level samples of the whole grid), dense, x fastest, native byte order;
  /// valid during the call only. Blocks of a level do not overlap and fill its extent. An error ends the
  /// read.
  virtual Status Block(int level, const Box& extent, ByteSpan samples) = 0;

  /// All blocks of this level were delivered.
  virtual Status LevelEnd(const query::LevelExtent& level) = 0;
};

/// Fetches, decodes and delivers a plan, level by level from the coarsest, patches in Morton order. Reading
/// the next batch overlaps decoding this one; a level is refined from the last without decoding it again.
/// Whatever the sink takes its time for holds back reading and decoding of this read alone.
///
/// @param cancelled  asked between patches; true ends the read with kCancelled
/// @errors kDataLoss: a payload is damaged (file, patch, level and bytes in the message); what the sink
/// returned
Status ExecuteRead(const Dataset& dataset, const query::ReadPlan& plan, DecodePool* pool,
                   const std::function<bool()>& cancelled, BlockSink* sink);

}  // namespace quarry
