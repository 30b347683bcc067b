#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "quarry/dataset/dataset.h"
#include "quarry/dataset/payload.h"
#include "quarry/dataset/read_engine.h"
#include "quarry/geometry/sample_place.h"

namespace quarry {

/// Some samples of an answer.
struct SampleBlock {
  int level = 0;
  Box extent;        ///< level samples of the whole grid, or multiples of a stride
  ByteSpan samples;  ///< dense, x fastest, native byte order; valid as long as `owner` lives
  std::shared_ptr<const void> owner;
  std::size_t patch = 0;                         ///< number in the answer
  const query::PlannedPatch* planned = nullptr;  ///< this patch
  /// `level` in the plan's layer; if payload is damaged a rougher layer, or a coarser level with samples
  /// repeated
  query::LevelChoice shown;
};

/// Receives the samples of a read, on the thread that called ExecuteRead.
class BlockSink {
 public:
  virtual ~BlockSink() = default;

  /// An array for all samples of a level that begins, which decoding threads fill in any order until the read
  /// returns; nothing: blocks are delivered.
  virtual Result<std::optional<SampleArray>> ArrayFor(const query::LevelExtent& /*level*/) {
    return std::optional<SampleArray>();
  }

  /// Blocks of a level do not overlap and fill its extent. An error ends the read.
  virtual Status Deliver(const SampleBlock& block) = 0;

  /// Instead of Deliver: the samples of a block are in the array of the level.
  virtual Status Filled(int /*level*/, const Box& /*extent*/, const query::LevelChoice& /*shown*/) {
    return Status::Ok();
  }

  /// All blocks of this level are delivered.
  virtual Status LevelEnd(const query::LevelExtent& level) = 0;

  /// Called on damage, before the block that shows something else.
  virtual void Damaged(const Status&) {}
};

/// Receives the decoded patches of a read whole, on the thread that called ExecutePatches: for computing from
/// samples.
class PatchSink {
 public:
  virtual ~PatchSink() = default;

  /// See BlockSink.
  virtual Result<std::optional<SampleArray>> ArrayFor(const query::LevelExtent& /*level*/) {
    return std::optional<SampleArray>();
  }

  /// One patch of the plan at a level that it delivers; in a rougher layer or at a coarser level if the
  /// payload is damaged and the question allows that. An error ends the read.
  /// @param index  of the patch in the plan
  virtual Status Patch(int level, std::size_t index, const StoredPatch& decoded) = 0;

  /// Instead of Patch: the samples of the answer in a patch are in the array of the level.
  virtual Status Filled(int /*level*/, std::size_t /*index*/, const query::LevelChoice& /*shown*/) {
    return Status::Ok();
  }

  /// All patches of this level are delivered.
  virtual Status LevelEnd(const query::LevelExtent&) { return Status::Ok(); }

  /// See BlockSink.
  virtual void Damaged(const Status&) {}
};

/// Fetches, decodes and delivers a plan, level by level from the coarsest, patches in the plan's order,
/// within the memory of the engine. A patch in its store is neither read nor decoded again; any other is
/// refined from its finest coarser level in the store. Reading the next batch overlaps decoding this one. A
/// slow sink delays only its own read.
///
/// Where the sink has an array for a level, the threads that decode a patch also write its samples there. A
/// read of more samples than its fair share of the store leaves those patches out of it that the array takes
/// whole: they are decoded into the array.
///
/// If payload is damaged and the question allows that, a patch shows its finest undamaged level, in as many
/// layers as are undamaged up to there.
///
/// The caller has pinned query::PlanMemory, query::DeliveryMemory and what the sink takes.
///
/// @param requester  if it has gone, the read ends with kCancelled
/// @param plan       with its patches in memory: all, or those of a run
/// @param from       where to start, and to end; what lies outside is left out
/// @param usage      counts what is read; may be null
/// @errors kDataLoss: payload is damaged (file, patch, level and bytes in the message), and the question does
/// not allow that, or no level is undamaged; kResourceExhausted: see PatchStore::Reserve; errors of the sink
Status ExecuteRead(const Dataset& dataset, const query::ReadPlan& plan, ReadEngine* engine,
                   const Requester& requester, BlockSink* sink, const query::Position& from = {},
                   ReadUsage* usage = nullptr);

/// The same, with whole decoded patches instead of the samples of the answer.
Status ExecutePatches(const Dataset& dataset, const query::ReadPlan& plan, ReadEngine* engine,
                      const Requester& requester, PatchSink* sink, const query::Position& from = {},
                      ReadUsage* usage = nullptr);

}  // namespace quarry
