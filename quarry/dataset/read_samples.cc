#include "quarry/dataset/read_samples.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <utility>

#include "quarry/codec/patch_reader.h"
#include "quarry/dataset/array_filling.h"
#include "quarry/dataset/batch_under_way.h"
#include "quarry/dataset/levels_ahead.h"
#include "quarry/dataset/patch_keys.h"
#include "quarry/dataset/read_tasks.h"
#include "quarry/query/fetch.h"
#include "quarry/query/patch_part.h"
#include "quarry/query/plan_memory.h"

namespace quarry {
namespace {

using query::Batch;
using query::LevelChoice;
using query::Pass;
using query::PlannedPatch;
using query::ReadPlan;

/// Most patches, and most decoded samples in bytes, that one task decodes. A patch of a coarse level is
/// decoded faster than a task is handed to a thread and its result to the waiting reader.
constexpr std::size_t kTaskPatches = 16;
constexpr std::uint64_t kTaskSampleBytes = 64 << 10;
/// Least number of tasks per thread, for fetches of few patches.
constexpr std::size_t kTasksPerThread = 4;

/// An array of at most this many bytes is filled with stored patches by the thread that wants it.
constexpr std::uint64_t kOwnCopyBytes = 16 << 20;
/// So many patches are copied while one is decoded.
constexpr std::uint64_t kCopiesPerDecode = 8;

/// A fetch of at most this many decoded bytes is decoded by the thread that wants it: the first picture of a
/// large domain, a sample from each patch, is there before another thread is awake.
constexpr std::uint64_t kOwnSampleBytes = 16 << 10;

LevelChoice ShownBy(const PatchReader& decoded) { return {decoded.level(), decoded.layers() - 1}; }

/// Hands on those samples of the patches that belong to the answer.
class BlockCutter final : public PatchSink {
 public:
  BlockCutter(const ReadPlan& plan, BlockSink* sink) : plan_(plan), sink_(sink) {}

  Result<std::optional<SampleArray>> ArrayFor(const query::LevelExtent& level) override {
    return sink_->ArrayFor(level);
  }
  Status Patch(int level, std::size_t index, const StoredPatch& decoded) override {
    const query::PlannedPatch& patch = plan_.patches[index];
    const Box& samples = patch.samples;
    const query::PatchPart part = query::PartOf(plan_.query, level, samples);
    if (part.extent.empty()) return Status::Ok();
    query::CutSamples cut = query::Cut(part, decoded->samples(), LevelBox(samples, decoded->level()),
                                       decoded->level() - level, SizeOf(plan_.type));
    SampleBlock block{level, part.extent, cut.samples, decoded, index, &patch, ShownBy(*decoded)};
    if (!cut.copy.empty()) block.owner = std::make_shared<const Bytes>(std::move(cut.copy));
    return sink_->Deliver(block);
  }
  Status Filled(int level, std::size_t index, const LevelChoice& shown) override {
    const Box extent = query::PartOf(plan_.query, level, plan_.patches[index].samples).extent;
    return extent.empty() ? Status::Ok() : sink_->Filled(level, extent, shown);
  }
  Status LevelEnd(const query::LevelExtent& level) override { return sink_->LevelEnd(level); }
  void Damaged(const Status& what) override { sink_->Damaged(what); }

 private:
  const ReadPlan& plan_;
  BlockSink* sink_;
};

/// So few bytes are read from a disk before another thread is awake: their tasks go to the pool together.
constexpr std::uint64_t kFewBytes = 128 << 10;

class Execution {
 public:
  Execution(const Dataset& dataset, const ReadPlan& plan, ReadEngine* engine, const Requester& requester,
            PatchSink* sink, ReadUsage* usage)
      : plan_(plan),
        store_(engine->store.get()),
        pool_(&engine->pool),
        requester_(requester),
        sink_(sink),
        source_(dataset, plan, usage),
        keys_(dataset, plan),
        levels_ahead_(dataset, plan, store_, &keys_, &source_, requester),
        delivery_memory_(query::DeliveryMemory(plan)),
        bytes_under_way_(dataset.root().storage->costs().bytes_under_way()) {}

  /// Abandons queued work that nobody else needs. The array may go afterwards.
  ~Execution() {
    *abandoned_ = true;
    if (filling_) filling_->Stop();
  }

  Status Run(const query::Position& from) {
    coder_ = FindCoder(plan_.coder);
    if (coder_ == nullptr)
      return DataLoss("coder {} is not known; use a newer Quarry", static_cast<int>(plan_.coder));
    const std::vector<Pass> passes = query::MakePasses(plan_);
    for (std::size_t p = from.pass; p < std::min(passes.size(), from.end_pass); ++p) {
      layer_ = passes[p].layer;
      QUARRY_RETURN_IF_ERROR(StartFilling(plan_.levels[p], p + 1 == passes.size()));
      const std::span until(passes.data(), std::min(passes.size(), from.end_pass));
      QUARRY_RETURN_IF_ERROR(RunPass(until, p, p == from.pass ? from.patch : 0));
      levels_ahead_.EndPass(p);
      QUARRY_RETURN_IF_ERROR(sink_->LevelEnd(plan_.levels[p]));
    }
    return Status::Ok();
  }

 private:
  /// @param last  no finer level goes on from this one
  Status StartFilling(const query::LevelExtent& level, bool last) {
    filling_ = nullptr;
    if (level.extent.empty()) return Status::Ok();
    QUARRY_ASSIGN_OR_RETURN(const std::optional<SampleArray> array, sink_->ArrayFor(level));
    if (!array) return Status::Ok();
    // Patches that would leave the store before their next use do not enter it.
    const bool past_store = last && array->bytes() > store_->FairShare(requester_.client);
    filling_ = std::make_shared<ArrayFilling>(*array, level.level, plan_.patches.size(), past_store);
    return Status::Ok();
  }

  /// How the decoding of patches is started.
  enum class Manner {
    kAhead,  ///< only if memory is free
    kNow,    ///< waits for memory
    kToEnd,  ///< waits for memory and for the decoding to end, and returns its error
  };

  /// @param first  patches before it are skipped
  Status RunPass(std::span<const Pass> passes, std::size_t number, std::size_t first) {
    const Pass& pass = passes[number];
    started_ = first;
    ahead_bytes_ = 0;
    ahead_again_ = first;
    for (std::size_t b = 0; b < pass.batches.size(); ++b) {
      const std::span batches = BatchesAhead(std::span(pass.batches).subspan(b));
      for (std::size_t i = std::max(first, batches[0].first_patch); i < batches[0].end(); ++i) {
        if (requester_.cancelled()) return {StatusCode::kCancelled, "the read was cancelled"};
        QUARRY_RETURN_IF_ERROR(ReadAhead(pass, batches, i));
        if (i == std::max(first, batches[0].first_patch)) levels_ahead_.Begin(passes, number);
        if (filling_) {
          QUARRY_RETURN_IF_ERROR(Fill(i));
        } else {
          QUARRY_ASSIGN_OR_RETURN(const StoredPatch decoded, ObtainBest(i, pass.finest));
          QUARRY_RETURN_IF_ERROR(sink_->Patch(pass.finest, i, decoded));
        }
        if (i < started_) ahead_bytes_ -= DecodeMemory(pass, i);
      }
    }
    return Status::Ok();
  }

  /// The first batch, which is delivered, the next, and as many more as fill the way from the storage.
  std::span<const Batch> BatchesAhead(std::span<const Batch> batches) const {
    std::size_t count = std::min<std::size_t>(2, batches.size());
    std::uint64_t bytes = count < 2 ? 0 : batches[1].payload;
    for (; count < batches.size() && bytes < kFill * bytes_under_way_; ++count)
      bytes += batches[count].payload;
    return batches.first(count);
  }

  /// Sees to it that the samples of a patch are in the array.
  Status Fill(std::size_t index) {
    LevelChoice shown = Wanted(filling_->level());
    while (!filling_->AwaitPatch(index, requester_.cancelled)) {
      if (requester_.cancelled()) return {StatusCode::kCancelled, "the read was cancelled"};
      QUARRY_ASSIGN_OR_RETURN(const StoredPatch decoded, ObtainBest(index, filling_->level()));
      if (!decoded) continue;  // written meanwhile
      ArrayPart to = TakePart(plan_, index, filling_.get());
      if (!to.turn) continue;
      WriteToArray(*decoded, LevelBox(plan_.patches[index].samples, decoded->level()), *filling_, &to);
      shown = ShownBy(*decoded);
    }
    return sink_->Filled(filling_->level(), index, shown);
  }

  /// Starts on this batch and those behind it, so that they are fetched while this one is decoded, as far as
  /// memory is free and other reads keep their share.
  /// @param next  the patch to be delivered next
  Status ReadAhead(const Pass& pass, std::span<const Batch> batches, std::size_t next) {
    if (next < ahead_again_) return Status::Ok();
    for (const Batch& batch : batches) {
      const std::size_t first = std::max({batch.first_patch, started_, next});
      if (first >= batch.end()) continue;
      const std::size_t end = FairEnd(pass, first, batch.end());
      const Result<bool> started =
          end > first ? Start({first, end}, Wanted(pass.finest), Manner::kAhead) : Result<bool>(false);
      // Which patches are damaged shows when they are wanted, one by one.
      const bool damaged = started.status().code() == StatusCode::kDataLoss;
      if (!started.ok() && !damaged) return started.status();
      if (!damaged && !*started) {
        // Retrying for each patch would cost more than it gains.
        const std::size_t waiting = started_ > next ? started_ - next : batch.patch_count;
        ahead_again_ = next + std::max<std::size_t>(1, waiting / 8);
        break;
      }
      for (std::size_t i = first; i < end; ++i) ahead_bytes_ += DecodeMemory(pass, i);
      started_ = end;
      if (end < batch.end()) break;
    }
    return Status::Ok();
  }

  /// As many patches as fit into a fair share of the memory, with the gaps that are read between their
  /// payloads, and beside the patches that wait to be delivered: more would push those out.
  std::size_t FairEnd(const Pass& pass, std::size_t first, std::size_t last) const {
    const std::uint64_t fair = store_->FairShare(requester_.client);
    const std::uint64_t share = fair - std::min(fair, ahead_bytes_);
    std::uint64_t bytes = 0;
    std::size_t end = first;
    for (; end < last; ++end) {
      bytes += DecodeMemory(pass, end);
      if (bytes > share) break;
    }
    while (end > first + 1) {
      std::vector<query::Piece> pieces;
      for (std::size_t i = first; i < end; ++i) pieces.push_back(PieceOf(pass, i));
      if (query::DecodeMemory(plan_, query::PlanFetch(plan_, std::move(pieces), layer_)) <= share) break;
      end = first + (end - first) / 2;
    }
    return end;
  }

  /// All payload of a patch.
  query::Piece PieceOf(const Pass& pass, std::size_t index) const {
    return {index, plan_.dataset_levels - 1, pass.finest};
  }

  std::uint64_t DecodeMemory(const Pass& pass, std::size_t index) const {
    return query::DecodeMemory(plan_, PieceOf(pass, index));
  }

  /// A level as the pass wants it.
  LevelChoice Wanted(int level) const { return {level, layer_}; }

  /// The patch at a level; or what is undamaged of it: the layers before, then the coarser levels.
  Result<StoredPatch> ObtainBest(std::size_t index, int level) {
    Result<StoredPatch> decoded = Obtain(index, Wanted(level));
    if (decoded.status().code() != StatusCode::kDataLoss || !plan_.query.allow_damage) return decoded;
    LevelChoice choice = Wanted(level);
    while (!LevelBox(plan_.patches[index].samples, choice.level).empty()) {
      choice = choice.layer > 0 ? LevelChoice{choice.level, choice.layer - 1} : Wanted(choice.level + 1);
      if (choice.level == plan_.dataset_levels) break;
      Result<StoredPatch> shown = Obtain(index, choice);
      if (shown.status().code() == StatusCode::kDataLoss) continue;
      if (shown.ok()) sink_->Damaged(decoded.status());
      return shown;
    }
    return decoded;
  }

  /// @returns null: a task has decoded it into the array
  Result<StoredPatch> Obtain(std::size_t index, const LevelChoice& choice) {
    const PatchKey key = keys_.Of(plan_.patches[index], choice).front();
    Manner manner = Manner::kNow;
    if (index >= started_) QUARRY_RETURN_IF_ERROR(Start({index, index + 1}, choice, manner).status());
    while (true) {
      QUARRY_ASSIGN_OR_RETURN(StoredPatch decoded, store_->Take(key, requester_.cancelled));
      if (decoded) return decoded;
      if (requester_.cancelled()) return Status(StatusCode::kCancelled, "the read was cancelled");
      // Not started for lack of memory, evicted before its turn came, or given up by another read.
      QUARRY_RETURN_IF_ERROR(Start({index, index + 1}, choice, manner).status());
      // Before Take: a task that decodes into the array must not find that the patch is wanted in the store.
      if (FillingOf(choice) && filling_->AwaitPatch(index, requester_.cancelled)) return StoredPatch();
      // Evicted again before it was taken: an error that comes while nobody waits would be lost each time.
      manner = Manner::kToEnd;
    }
  }

  /// Fetches, and starts to decode, the patches of a range that are neither stored nor being decoded.
  /// @returns false if there is no memory and the manner is not to wait for it
  Result<bool> Start(std::pair<std::size_t, std::size_t> range, const LevelChoice& choice, Manner manner) {
    std::vector<query::Piece> pieces;
    std::vector<PatchStore::Claim> claims;
    std::vector<std::size_t> stored;
    for (std::size_t i = range.first; i < range.second; ++i) {
      const std::vector<PatchKey> keys = keys_.Of(plan_.patches[i], choice);
      PatchStore::Claim claim = store_->TryClaim(keys.front(), std::span(keys).subspan(1));
      if (!claim) stored.push_back(i);
      if (!claim) continue;
      pieces.push_back(PieceAfter(plan_, claim.base(), i, choice.level));
      claims.push_back(std::move(claim));
    }
    if (manner == Manner::kAhead) SubmitCopies(stored);
    if (pieces.empty()) return true;
    if (auto early = levels_ahead_.Take(pieces, choice.layer + 1))
      return Begin(std::move(early->payload), choice, claims, manner, std::move(early->reading));
    auto batch = std::make_shared<FetchedPayload>();
    batch->fetch = query::PlanFetch(plan_, std::move(pieces), choice.layer);
    const std::uint64_t bytes = query::DecodeMemory(plan_, batch->fetch);
    if (manner != Manner::kAhead) {
      levels_ahead_.GiveUp();
      QUARRY_ASSIGN_OR_RETURN(batch->memory, store_->Reserve(bytes, requester_));
    } else {
      std::optional<PatchStore::Memory> memory = store_->TryReserve(bytes, requester_.client);
      if (!memory) return false;
      batch->memory = *std::move(memory);
    }
    return Begin(std::move(batch), choice, claims, manner, nullptr);
  }

  /// Begins to read a batch, whose tasks decode what is there. Reading ahead does not wait for it: an error
  /// that comes later comes again when the patch is wanted.
  /// @param claims  of the pieces of the batch, all to be decoded to the choice
  /// @param early   if it was begun before
  Result<bool> Begin(std::shared_ptr<FetchedPayload> batch, const LevelChoice& choice,
                     std::span<PatchStore::Claim> claims, Manner manner,
                     std::unique_ptr<EarlyReading> early) {
    const std::uint64_t bytes = SampleBytes(*batch, choice.level);
    const bool alone = manner == Manner::kToEnd || (manner == Manner::kAhead && bytes <= kOwnSampleBytes);
    const std::size_t step = alone ? claims.size() : TaskPatches(bytes, claims.size());
    const DecodePriority priority = PriorityOf(*batch, choice.level, bytes * step / claims.size());
    const bool held = alone || batch->fetch.bytes() <= kFewBytes;
    auto reading = std::make_unique<BatchUnderWay>(batch, pool_, priority, held);
    for (std::size_t first = 0; first < claims.size(); first += step) {
      const auto of_task = claims.subspan(first, std::min(step, claims.size() - first));
      reading->Add(
          std::make_shared<DecodeTask>(plan_, *coder_, batch, first, of_task, FillingOf(choice), abandoned_),
          first, first + of_task.size());
    }
    QUARRY_RETURN_IF_ERROR(early ? reading->Begin(std::move(early))
                                 : reading->Begin(&source_, requester_.cancelled));
    if (manner != Manner::kAhead) QUARRY_RETURN_IF_ERROR(reading->Wait(requester_.cancelled));
    if (alone) {
      for (const std::shared_ptr<DecodeTask>& task : reading->TakeComplete()) {
        if (manner == Manner::kToEnd) {
          QUARRY_RETURN_IF_ERROR(DecodeToEnd(task, priority));
        } else {
          (void)task->Run();  // the error comes again when the patch is wanted
        }
      }
    } else if (held) {
      reading->SubmitComplete();
    }
    QUARRY_RETURN_IF_ERROR(reading->status());
    std::erase_if(under_way_, [](const auto& earlier) { return earlier->ended(); });
    if (!reading->ended()) under_way_.push_back(std::move(reading));
    return true;
  }

  /// The array, if this belongs there: what is shown instead of damaged payload goes there by Fill alone.
  std::shared_ptr<ArrayFilling> FillingOf(const LevelChoice& choice) const {
    return filling_ && choice == Wanted(filling_->level()) ? filling_ : nullptr;
  }

  /// Has patches that were stored copied to the array, as far as memory is free; this thread does the rest,
  /// and all where that is little.
  void SubmitCopies(std::span<const std::size_t> patches) {
    if (!filling_ || filling_->array().bytes() <= kOwnCopyBytes) return;
    const auto threads = static_cast<std::size_t>(pool_->threads());
    const std::size_t step = std::max<std::size_t>(1, patches.size() / (kTasksPerThread * threads));
    for (std::size_t first = 0; first < patches.size(); first += step) {
      const auto some = patches.subspan(first, std::min(step, patches.size() - first));
      if (!SubmitCopy(some)) return;
    }
  }

  bool SubmitCopy(std::span<const std::size_t> patches) {
    const int level = filling_->level();
    std::optional<PatchStore::Memory> memory = store_->TryReserve(delivery_memory_, requester_.client);
    if (!memory) return false;
    std::vector<CopyTask::Work> works;
    works.reserve(patches.size());
    for (const std::size_t index : patches) {
      const PlannedPatch& patch = plan_.patches[index];
      works.push_back({keys_.Of(patch, Wanted(level)).front(), LevelBox(patch.samples, level),
                       TakePart(plan_, index, filling_.get())});
    }
    const std::uint64_t work = delivery_memory_ * patches.size() / kCopiesPerDecode;
    auto task = std::make_shared<CopyTask>(store_, filling_, *std::move(memory), std::move(works));
    pool_->Submit({level, 0, requester_.client, work}, [task = std::move(task)] { task->Run(); });
    return true;
  }

  /// Runs on the pool's threads too: each decoding thread keeps megabytes for it.
  Status DecodeToEnd(std::shared_ptr<DecodeTask> task, const DecodePriority& priority) {
    auto ended = std::make_shared<std::promise<Status>>();
    std::future<Status> status = ended->get_future();
    pool_->Submit(priority, [task = std::move(task), ended] { ended->set_value(task->Run()); });
    constexpr auto kLookUp = std::chrono::milliseconds(50);
    while (status.wait_for(kLookUp) != std::future_status::ready) {
      if (requester_.cancelled()) return {StatusCode::kCancelled, "the read was cancelled"};
    }
    return status.get();
  }

  /// Samples of all pieces at a level; at least 1, as a level of a thin patch may have none.
  std::uint64_t SampleBytes(const FetchedPayload& batch, int level) const {
    std::uint64_t bytes = 1;
    for (const query::Piece& piece : batch.fetch.pieces) {
      const Box samples = LevelBox(plan_.patches[piece.patch].samples, level);
      bytes += static_cast<std::uint64_t>(samples.volume()) * SizeOf(plan_.type);
    }
    return bytes;
  }

  DecodePriority PriorityOf(const FetchedPayload& batch, int level, std::uint64_t sample_bytes) const {
    return {level, batch.fetch.bytes(), requester_.client, sample_bytes};
  }

  /// Patches that a task decodes.
  /// @param bytes  of their samples, of all patches of the batch together
  std::size_t TaskPatches(std::uint64_t bytes, std::size_t patches) const {
    const std::size_t enough_tasks = kTasksPerThread * static_cast<std::size_t>(pool_->threads());
    const std::size_t most = std::min<std::size_t>(kTaskPatches, kTaskSampleBytes * patches / bytes);
    return std::max<std::size_t>(1, std::min(most, patches / enough_tasks));
  }

  const ReadPlan& plan_;
  PatchStore* store_;
  DecodePool* pool_;
  const Requester& requester_;
  PatchSink* sink_;
  PayloadSource source_;
  const PatchKeys keys_;
  LevelsAhead levels_ahead_;
  const std::uint64_t delivery_memory_;
  const std::uint64_t bytes_under_way_;  ///< that fill the way from the storage
  const PatchCoder* coder_ = nullptr;
  int layer_ = 0;                  ///< layer of the pass
  std::size_t started_ = 0;        ///< patches of the pass requested from the store, in their order
  std::uint64_t ahead_bytes_ = 0;  ///< that decoding takes of those of them that are not delivered yet
  std::size_t ahead_again_ = 0;    ///< no reading ahead before this patch
  std::shared_ptr<ArrayFilling> filling_;  ///< the array of the pass; null: the sink gets the patches
  const std::shared_ptr<std::atomic<bool>> abandoned_ = std::make_shared<std::atomic<bool>>(false);
  std::vector<std::unique_ptr<BatchUnderWay>> under_way_;  ///< destroyed first: it uses the others
};

}  // namespace

Status ExecuteRead(const Dataset& dataset, const ReadPlan& plan, ReadEngine* engine,
                   const Requester& requester, BlockSink* sink, const query::Position& from,
                   ReadUsage* usage) {
  BlockCutter cutter(plan, sink);
  return ExecutePatches(dataset, plan, engine, requester, &cutter, from, usage);
}

Status ExecutePatches(const Dataset& dataset, const ReadPlan& plan, ReadEngine* engine,
                      const Requester& requester, PatchSink* sink, const query::Position& from,
                      ReadUsage* usage) {
  return Execution(dataset, plan, engine, requester, sink, usage).Run(from);
}

}  // namespace quarry
