#pragma once

#include <filesystem>
#include <functional>

#include "quarry/codec/patch_codec.h"
#include "quarry/dataset/dataset.h"
#include "quarry/dataset/decode_pool.h"

namespace quarry {

/// Receives the samples of a read, on the thread that called ExecuteRead.
class BlockSink {
 public:
  virtual ~BlockSink() = default;

  /// Samples of one level in `extent` (level samples of the whole grid, or multiples of a stride), dense, x
  /// fastest, native byte order; valid during the call only. Blocks of a level do not overlap and fill its
  /// extent. An error ends the read.
  virtual Status Block(int level, const Box& extent, ByteSpan samples) = 0;

  /// All blocks of this level were delivered.
  virtual Status LevelEnd(const query::LevelExtent& level) = 0;
};

/// Receives the decoded patches of a read whole, on the thread that called ExecutePatches: for what is
/// computed from samples.
class PatchSink {
 public:
  virtual ~PatchSink() = default;

  /// One patch of the plan at a level that it delivers. An error ends the read.
  virtual Status Patch(int level, const query::PlannedPatch& patch, const PatchReader& reader) = 0;

  /// All patches of this level were handed over.
  virtual Status LevelEnd(const query::LevelExtent&) { return Status::Ok(); }
};

/// Fetches, decodes and delivers a plan, level by level from the coarsest, patches in the plan's order.
/// Reading the next batch overlaps decoding this one; a level is refined from the last without decoding it
/// again. Whatever the sink takes its time for holds back reading and decoding of this read alone.
///
/// @param cancelled  asked between patches; true ends the read with kCancelled
/// @errors kDataLoss: a payload is damaged (file, patch, level and bytes in the message); what the sink
/// returned
Status ExecuteRead(const Dataset& dataset, const query::ReadPlan& plan, DecodePool* pool,
                   const std::function<bool()>& cancelled, BlockSink* sink);

/// The same, with the decoded patches instead of their samples in the answer.
Status ExecutePatches(const Dataset& dataset, const query::ReadPlan& plan, DecodePool* pool,
                      const std::function<bool()>& cancelled, PatchSink* sink);

}  // namespace quarry
