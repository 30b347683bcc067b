#pragma once

#include <functional>

#include "quarry/dataset/dataset.h"
#include "quarry/dataset/payload.h"
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

/// Some samples of an answer.
struct SampleBlock {
  int level = 0;
  Box extent;        ///< level samples of the whole grid, or multiples of a stride
  ByteSpan samples;  ///< dense, x fastest, native byte order; there as long as `owner`
  std::shared_ptr<const void> owner;
  std::size_t patch = 0;  ///< of the plan
  int shown_level = 0;    ///< `level`; a coarser one, whose samples are repeated, where payload is damaged
};

/// Receives the samples of a read, on the thread that called ExecuteRead.
class BlockSink {
 public:
  virtual ~BlockSink() = default;

  /// Blocks of a level do not overlap and fill its extent. An error ends the read.
  virtual Status Deliver(const SampleBlock& block) = 0;

  /// All blocks of this level were delivered.
  virtual Status LevelEnd(const query::LevelExtent& level) = 0;

  /// Told of damage before the block that shows a coarser level.
  virtual void Damaged(const Status&) {}
};

/// Receives the decoded patches of a read whole, on the thread that called ExecutePatches: for what is
/// computed from samples.
class PatchSink {
 public:
  virtual ~PatchSink() = default;

  /// One patch of the plan at a level that it delivers; at a coarser one where the payload is damaged and the
  /// question is not strict. An error ends the read.
  /// @param index  of the patch in the plan
  virtual Status Patch(int level, std::size_t index, const StoredPatch& decoded) = 0;

  /// All patches of this level were handed over.
  virtual Status LevelEnd(const query::LevelExtent&) { return Status::Ok(); }

  /// See BlockSink.
  virtual void Damaged(const Status&) {}

  /// [bytes] that the sink takes, to be pinned with those of the read.
  virtual std::uint64_t memory() const { return 0; }
};

/// The payload that one level of the answer adds to a patch, as it is stored.
struct PatchPayload {
  int level = 0;                     ///< of the answer
  std::size_t patch = 0;             ///< of the plan
  std::vector<LevelPayload> levels;  ///< of the payload, coarse to fine; ends before a damaged one
  bool damaged = false;
  std::shared_ptr<const void> owner;  ///< of the bytes
};

/// Receives payload that is not decoded, on the thread that called ExecutePayloads.
class PayloadSink {
 public:
  virtual ~PayloadSink() = default;
  virtual Status Deliver(const PatchPayload& payload) = 0;
  virtual Status LevelEnd(const query::LevelExtent& level) = 0;
  virtual void Damaged(const Status&) {}
};

/// Fetches, decodes and delivers a plan, level by level from the coarsest, patches in the plan's order, within
/// the memory of the engine. What is in its store is neither read nor decoded again; what is not, is refined
/// from the finest coarser level that is. Reading the next batch overlaps decoding this one. Whatever the sink
/// takes its time for holds back reading and decoding of this read alone.
///
/// Where payload is damaged, a patch shows the finest coarser level that is whole.
///
/// @param cancelled  asked between patches; true ends the read with kCancelled
/// @param from       what was delivered before is left out
/// @errors kDataLoss: payload is damaged (file, patch, level and bytes in the message), and the question is
/// strict, or there is no whole level; kResourceExhausted: see PatchStore::Pin; what the sink returned
Status ExecuteRead(const Dataset& dataset, const query::ReadPlan& plan, ReadEngine* engine,
                   const std::function<bool()>& cancelled, BlockSink* sink, query::Position from = {});

/// The same, with the decoded patches instead of their samples in the answer.
Status ExecutePatches(const Dataset& dataset, const query::ReadPlan& plan, ReadEngine* engine,
                      const std::function<bool()>& cancelled, PatchSink* sink, query::Position from = {});

/// The same, with the payload as it is stored: for clients that decode. Checksums are compared here.
Status ExecutePayloads(const Dataset& dataset, const query::ReadPlan& plan, ReadEngine* engine,
                       const std::function<bool()>& cancelled, PayloadSink* sink, query::Position from = {});

}  // namespace quarry
