#pragma once

#include <functional>

#include "quarry/dataset/dataset.h"
#include "quarry/store/decode_pool.h"
#include "quarry/store/patch_store.h"

namespace quarry {

/// What all reads of a process share. Thread-safe.
struct ReadEngine {
  /// @param memory_bytes  for all that is decoded or read
  /// @param threads       that decode; 0: one per processor
  /// @param queue         most reads that may wait for memory at a time
  explicit ReadEngine(std::uint64_t memory_bytes, int threads = 0, std::size_t queue = SIZE_MAX)
      : store(memory_bytes, queue), pool(threads) {}

  PatchStore store;
  DecodePool pool;  ///< goes first: its tasks end in the store
};

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
  virtual Status Patch(int level, const query::PlannedPatch& patch, const StoredPatch& decoded) = 0;

  /// All patches of this level were handed over.
  virtual Status LevelEnd(const query::LevelExtent&) { return Status::Ok(); }

  /// [bytes] that the sink takes, to be pinned with those of the read.
  virtual std::uint64_t memory() const { return 0; }
};

/// Fetches, decodes and delivers a plan, level by level from the coarsest, patches in the plan's order, within
/// the memory of the engine. What is in its store is neither read nor decoded again; what is not, is refined
/// from the finest coarser level that is. Reading the next batch overlaps decoding this one. Whatever the sink
/// takes its time for holds back reading and decoding of this read alone.
///
/// @param cancelled  asked between patches; true ends the read with kCancelled
/// @errors kDataLoss: a payload is damaged (file, patch, level and bytes in the message);
/// kResourceExhausted: see PatchStore::Pin; what the sink returned
Status ExecuteRead(const Dataset& dataset, const query::ReadPlan& plan, ReadEngine* engine,
                   const std::function<bool()>& cancelled, BlockSink* sink);

/// The same, with the decoded patches instead of their samples in the answer.
Status ExecutePatches(const Dataset& dataset, const query::ReadPlan& plan, ReadEngine* engine,
                      const std::function<bool()>& cancelled, PatchSink* sink);

}  // namespace quarry
