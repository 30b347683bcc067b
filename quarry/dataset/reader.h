#pragma once

#include <optional>

#include "quarry/dataset/dataset.h"
#include "quarry/dataset/payload.h"
#include "quarry/geometry/sample_place.h"
#include "quarry/store/decode_pool.h"
#include "quarry/store/patch_store.h"

namespace quarry {

/// What all reads of a process share. Thread-safe.
struct ReadEngine {
  /// @param memory_bytes  for all that is decoded or read
  /// @param threads       that decode; 0: one per processor
  /// @param queue         most reads that may wait for memory at a time
  explicit ReadEngine(std::uint64_t memory_bytes, int threads = 0, std::size_t queue = SIZE_MAX)
      : ReadEngine(std::make_shared<PatchStore>(memory_bytes, queue), threads) {}
  ReadEngine(std::shared_ptr<PatchStore> shared, int threads) : store(std::move(shared)), pool(threads) {}

  /// Runs parts of a computation in the turns of a client.
  auto InTurnOf(const Requester& requester) {
    return [this, client = requester.client](std::uint64_t work, const std::function<void()>& compute) {
      pool.InTurn(client, work, compute);
    };
  }

  const std::shared_ptr<PatchStore> store;
  DecodePool pool;  ///< destroyed first: its tasks end in the store
};

/// Some samples of an answer.
struct SampleBlock {
  int level = 0;
  Box extent;        ///< level samples of the whole grid, or multiples of a stride
  ByteSpan samples;  ///< dense, x fastest, native byte order; valid as long as `owner` lives
  std::shared_ptr<const void> owner;
  std::size_t patch = 0;  ///< of the plan
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

/// The stored payload that one level of the answer adds to a patch, or one layer of its last level.
struct StoredPayload {
  int level = 0;          ///< of the answer
  int first_layer = 0;    ///< of the payload; above 0, the only one
  std::size_t patch = 0;  ///< of the plan
  /// Coarse to fine. They end before a damaged one; after one that lacks layers no finer one has them. Of a
  /// further layer all or none.
  std::vector<LevelPayload> levels;
  bool damaged = false;               ///< levels are missing
  std::shared_ptr<const void> owner;  ///< of the bytes
};

/// Receives payload that is not decoded, on the thread that called ExecutePayloads.
class PayloadSink {
 public:
  virtual ~PayloadSink() = default;
  virtual Status Deliver(const StoredPayload& payload) = 0;
  virtual Status LevelEnd(const query::LevelExtent& level) = 0;
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
/// @param from       where to start; what comes before it is left out
/// @param usage      counts what is read; may be null
/// @errors kDataLoss: payload is damaged (file, patch, level and bytes in the message), and the question does
/// not allow that, or no level is undamaged; kResourceExhausted: see PatchStore::Reserve; errors of the sink
Status ExecuteRead(const Dataset& dataset, const query::ReadPlan& plan, ReadEngine* engine,
                   const Requester& requester, BlockSink* sink, query::Position from = {},
                   ReadUsage* usage = nullptr);

/// The same, with whole decoded patches instead of the samples of the answer.
Status ExecutePatches(const Dataset& dataset, const query::ReadPlan& plan, ReadEngine* engine,
                      const Requester& requester, PatchSink* sink, query::Position from = {},
                      ReadUsage* usage = nullptr);

/// The same, with the payload as it is stored, for clients that decode. Checksums are compared here. The
/// caller has pinned PayloadMemory instead of query::DeliveryMemory.
Status ExecutePayloads(const Dataset& dataset, const query::ReadPlan& plan, ReadEngine* engine,
                       const Requester& requester, PayloadSink* sink, query::Position from = {},
                       ReadUsage* usage = nullptr);

/// Upper bound of the memory that ExecutePayloads takes beside the plan: what is read at a time, twice.
/// @param total  of the store
std::uint64_t PayloadMemory(const query::ReadPlan& plan, std::uint64_t total);

}  // namespace quarry
