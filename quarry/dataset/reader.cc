#include "quarry/dataset/reader.h"

#include <algorithm>
#include <atomic>
#include <map>

#include "quarry/base/checksum.h"
#include "quarry/codec/patch_codec.h"
#include "quarry/query/patch_part.h"

namespace quarry {
namespace {

using query::Batch;
using query::Pass;
using query::PlannedPatch;
using query::ReadPlan;

/// The payload of patches that are decoded together. Their tasks share it; it goes with the last of them.
struct BatchInFlight {
  PatchStore::Memory memory;  ///< for payload and decoding
  query::Fetch fetch;
  std::vector<Bytes> payload;  ///< one per range
};

/// Subfiles of a read, of the field and of its mask, each opened once.
class OpenSubfiles {
 public:
  OpenSubfiles(const Dataset& dataset, const query::Query& query) : dataset_(dataset), query_(query) {}

  Result<const RandomAccessFile*> Get(query::FileNumber number) {
    auto it = files_.find(number);
    if (it == files_.end()) {
      Result<RandomAccessFile> file = RandomAccessFile::Open(Path(number));
      if (!file.ok() && file.status().code() == StatusCode::kNotFound) {
        return DataLoss("\"{}\" is missing, though step.json lists it", Path(number).string());
      }
      if (!file.ok()) return std::move(file).status();
      it = files_.emplace(number, *std::move(file)).first;
    }
    return &it->second;
  }

  std::filesystem::path Path(query::FileNumber number) const {
    if (number.of_mask) return MaskSubfilePath(dataset_.root(), query_.mask, number.subfile);
    return SubfilePath(dataset_.root(), query_.step, dataset_.description().fields[query_.field_number].name,
                       number.subfile);
  }

 private:
  const Dataset& dataset_;
  const query::Query& query_;
  std::map<query::FileNumber, RandomAccessFile> files_;
};

/// One level of one patch out of what was read, compared with its checksum.
/// @param row  of the field's table or of the mask's
Result<ByteSpan> TakePayload(const BatchInFlight& batch, const format::PatchEntry& row, int level,
                             const query::Slice& slice, const std::string& path) {
  const format::LevelEntry& entry = row.levels[static_cast<std::size_t>(level)];
  ByteSpan payload;
  if (entry.size > 0) payload = ByteSpan(batch.payload[slice.range]).subspan(slice.offset, entry.size);
  const std::uint64_t computed = Checksum(payload);
  if (computed == entry.checksum) return payload;
  return DataLoss(
      "cannot decode level {} of patch {} in \"{}\" (bytes {}..{}): checksum {} stored, {} computed; "
      "run \"quarry verify\" to list all damage",
      level, row.patch_index, path, entry.offset, entry.offset + entry.size, ChecksumText(entry.checksum),
      ChecksumText(computed));
}

/// Decodes one patch on one of the pool's threads. Independent of the read that wants it: others may want the
/// patch as well, and the read may end before.
class DecodeTask {
 public:
  DecodeTask(const ReadPlan& plan, const PatchCoder& coder, const OpenSubfiles& files,
             std::shared_ptr<BatchInFlight> batch, std::size_t piece, PatchStore::Claim claim,
             std::shared_ptr<const std::atomic<bool>> abandoned)
      : coder_(coder),
        batch_(std::move(batch)),
        piece_(batch_->fetch.pieces[piece]),
        slices_(batch_->fetch.slices[piece]),
        patch_(plan.patches[piece_.patch]),
        layout_{plan.type, patch_.samples.shape(), plan.dataset_levels},
        path_(files.Path({false, patch_.entry.subfile}).string()),
        mask_path_(patch_.mask ? files.Path({true, patch_.mask->subfile}).string() : ""),
        claim_(std::move(claim)),
        abandoned_(std::move(abandoned)) {}

  void Run() {
    if (*abandoned_ && !claim_.Wanted()) return;
    try {
      PatchReader reader = claim_.base() ? claim_.base()->Clone() : PatchReader(coder_, layout_);
      Status status = Decode(&reader);
      if (!status.ok()) return claim_.Fail(std::move(status));
      claim_.Finish(std::make_shared<const PatchReader>(std::move(reader)), &batch_->memory);
    } catch (const std::bad_alloc&) {
      claim_.Fail(InternalError(
          "out of memory while decoding \"{}\"; ask for a smaller box or a coarser level", path_));
    }
  }

 private:
  Status Decode(PatchReader* reader) const {
    for (int level = piece_.coarsest; level >= piece_.finest; --level) {
      const query::LevelSlices& slices = slices_[static_cast<std::size_t>(level - piece_.finest)];
      QUARRY_ASSIGN_OR_RETURN(const ByteSpan payload,
                              TakePayload(*batch_, patch_.entry.patch, level, slices.payload, path_));
      ByteSpan mask;
      if (patch_.mask) {
        QUARRY_ASSIGN_OR_RETURN(mask,
                                TakePayload(*batch_, patch_.mask->patch, level, slices.mask, mask_path_));
      }
      Status status = reader->Advance(payload, mask);
      if (!status.ok()) {
        return std::move(status).Annotate(fmt::format("cannot decode level {} of patch {} in \"{}\"", level,
                                                      patch_.entry.patch.patch_index, path_));
      }
    }
    return Status::Ok();
  }

  const PatchCoder& coder_;
  const std::shared_ptr<BatchInFlight> batch_;
  const query::Piece piece_;
  const std::vector<query::LevelSlices> slices_;
  const PlannedPatch patch_;
  const PatchLayout layout_;
  const std::string path_;
  const std::string mask_path_;
  PatchStore::Claim claim_;
  const std::shared_ptr<const std::atomic<bool>> abandoned_;
};

/// Hands on the samples of patches that belong to the answer.
class BlockCutter final : public PatchSink {
 public:
  BlockCutter(const ReadPlan& plan, BlockSink* sink) : plan_(plan), sink_(sink) {}

  Status Patch(int level, const PlannedPatch& patch, const StoredPatch& decoded) override {
    const query::PatchPart part = query::PartOf(plan_, level, patch);
    if (part.extent.empty()) return Status::Ok();
    if (part.whole()) return sink_->Block(level, part.extent, decoded->samples());
    return sink_->Block(level, part.extent, query::CutOut(part, decoded->samples(), SizeOf(plan_.type)));
  }
  Status LevelEnd(const query::LevelExtent& level) override { return sink_->LevelEnd(level); }

 private:
  const ReadPlan& plan_;
  BlockSink* sink_;
};

class Execution {
 public:
  Execution(const Dataset& dataset, const ReadPlan& plan, ReadEngine* engine,
            const std::function<bool()>& cancelled, PatchSink* sink)
      : plan_(plan),
        store_(&engine->store),
        pool_(&engine->pool),
        cancelled_(cancelled),
        sink_(sink),
        files_(dataset, plan.query),
        dataset_(Checksum(std::as_bytes(std::span(dataset.root().native())))) {}

  /// What has been begun and nobody else waits for is not begun on any more.
  ~Execution() { *abandoned_ = true; }

  Status Run() {
    coder_ = FindCoder(plan_.coder);
    if (coder_ == nullptr)
      return DataLoss("coder {} is not known; use a newer Quarry", static_cast<int>(plan_.coder));
    QUARRY_ASSIGN_OR_RETURN(const PatchStore::Memory pinned,
                            store_->Pin(query::PinnedMemory(plan_) + sink_->memory(), cancelled_));
    const std::vector<Pass> passes = query::MakePasses(plan_);
    for (std::size_t p = 0; p < passes.size(); ++p) {
      QUARRY_RETURN_IF_ERROR(RunPass(passes[p]));
      QUARRY_RETURN_IF_ERROR(sink_->LevelEnd(plan_.levels[p]));
    }
    return Status::Ok();
  }

 private:
  Status RunPass(const Pass& pass) {
    started_ = 0;
    for (std::size_t b = 0; b < pass.batches.size(); ++b) {
      const std::span ahead = std::span(pass.batches).subspan(b).first(std::min<std::size_t>(
          2, pass.batches.size() - b));
      for (std::size_t i = pass.batches[b].first_patch; i < pass.batches[b].end(); ++i) {
        if (cancelled_()) return {StatusCode::kCancelled, "the read was cancelled"};
        QUARRY_RETURN_IF_ERROR(ReadAhead(pass, ahead, i));
        QUARRY_ASSIGN_OR_RETURN(const StoredPatch decoded, Obtain(pass, i));
        QUARRY_RETURN_IF_ERROR(sink_->Patch(pass.finest, plan_.patches[i], decoded));
      }
    }
    return Status::Ok();
  }

  /// Starts on this batch and the next, so that one is fetched while the other is decoded: as far as memory is
  /// free, and other reads have their part of it.
  /// @param next  the patch to be delivered next
  Status ReadAhead(const Pass& pass, std::span<const Batch> batches, std::size_t next) {
    for (const Batch& batch : batches) {
      const std::size_t first = std::max({batch.first_patch, started_, next});
      if (first >= batch.end()) continue;
      QUARRY_ASSIGN_OR_RETURN(const bool started, Start(pass, {first, batch.end()}, /*wait=*/false));
      if (!started) break;
      started_ = batch.end();
    }
    return Status::Ok();
  }

  Result<StoredPatch> Obtain(const Pass& pass, std::size_t index) {
    const PatchKey key = Keys(plan_.patches[index], pass.finest).front();
    while (true) {
      QUARRY_ASSIGN_OR_RETURN(StoredPatch decoded, store_->Take(key, cancelled_));
      if (decoded) return decoded;
      // Not begun for want of memory, made way for others before its turn came, or given up by another read.
      QUARRY_RETURN_IF_ERROR(Start(pass, {index, index + 1}, /*wait=*/true).status());
    }
  }

  /// Fetches and begins to decode the patches of a range that are neither in the store nor under way.
  /// @param wait  for memory; otherwise false where there is none
  Result<bool> Start(const Pass& pass, std::pair<std::size_t, std::size_t> range, bool wait) {
    std::vector<query::Piece> pieces;
    std::vector<PatchStore::Claim> claims;
    for (std::size_t i = range.first; i < range.second; ++i) {
      const std::vector<PatchKey> keys = Keys(plan_.patches[i], pass.finest);
      PatchStore::Claim claim = store_->TryClaim(keys.front(), std::span(keys).subspan(1));
      if (!claim) continue;
      const int coarsest = (claim.base() ? claim.base()->level() : plan_.dataset_levels) - 1;
      pieces.push_back({i, coarsest, pass.finest});
      claims.push_back(std::move(claim));
    }
    if (pieces.empty()) return true;
    auto batch = std::make_shared<BatchInFlight>();
    batch->fetch = query::PlanFetch(plan_, std::move(pieces));
    const std::uint64_t bytes = query::DecodeMemory(plan_, batch->fetch);
    if (wait) {
      QUARRY_ASSIGN_OR_RETURN(batch->memory, store_->Reserve(bytes, cancelled_));
    } else {
      if (bytes > store_->FairShare()) return false;
      std::optional<PatchStore::Memory> memory = store_->TryReserve(bytes);
      if (!memory) return false;
      batch->memory = *std::move(memory);
    }
    QUARRY_RETURN_IF_ERROR(Fetch(batch.get()));
    for (std::size_t i = 0; i < claims.size(); ++i) {
      auto task = std::make_shared<DecodeTask>(plan_, *coder_, files_, batch, i, std::move(claims[i]),
                                               abandoned_);
      pool_->Submit({pass.finest, batch->fetch.bytes()}, [task = std::move(task)] { task->Run(); });
    }
    return true;
  }

  Status Fetch(BatchInFlight* batch) {
    for (const query::ByteRange& range : batch->fetch.ranges) {
      QUARRY_ASSIGN_OR_RETURN(const RandomAccessFile* file, files_.Get(range.file));
      // Before memory is taken for it: a file cut short must not cost the bytes that it no longer has.
      if (range.offset > file->size() || range.size > file->size() - range.offset) {
        return DataLoss("\"{}\" has {} bytes, but bytes {}..{} are needed; it is truncated", file->path(),
                        file->size(), range.offset, range.offset + range.size);
      }
      batch->payload.emplace_back(range.size);
      QUARRY_RETURN_IF_ERROR(file->ReadAt(range.offset, batch->payload.back()));
    }
    return Status::Ok();
  }

  /// Of a patch at a level and at those that are coarser, the finest first.
  std::vector<PatchKey> Keys(const PlannedPatch& patch, int finest) const {
    std::vector<PatchKey> keys;
    const Index3 shape = patch.samples.shape();
    const std::array<std::int64_t, 6> layout = {
        static_cast<std::int64_t>(plan_.type), static_cast<std::int64_t>(plan_.coder), plan_.dataset_levels,
        shape[0], shape[1], shape[2]};
    PatchKey key;
    key.content = Checksum(std::as_bytes(std::span(layout)));
    key.dataset = dataset_;
    key.step = plan_.query.step;
    key.field = static_cast<std::uint32_t>(plan_.query.field_number);
    key.patch = patch.entry.patch.patch_index;
    for (int level = plan_.dataset_levels - 1; level >= finest; --level) {
      const auto l = static_cast<std::size_t>(level);
      const std::array<std::uint64_t, 3> content = {key.content, patch.entry.patch.levels[l].checksum,
                                                    patch.mask ? patch.mask->patch.levels[l].checksum : 0};
      key.content = Checksum(std::as_bytes(std::span(content)));
      key.level = level;
      keys.push_back(key);
    }
    std::reverse(keys.begin(), keys.end());
    return keys;
  }

  const ReadPlan& plan_;
  PatchStore* store_;
  DecodePool* pool_;
  const std::function<bool()>& cancelled_;
  PatchSink* sink_;
  OpenSubfiles files_;
  const std::uint64_t dataset_;
  const PatchCoder* coder_ = nullptr;
  std::size_t started_ = 0;  ///< patches of the pass that were asked of the store, in their order
  const std::shared_ptr<std::atomic<bool>> abandoned_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace

Status ExecuteRead(const Dataset& dataset, const ReadPlan& plan, ReadEngine* engine,
                   const std::function<bool()>& cancelled, BlockSink* sink) {
  BlockCutter cutter(plan, sink);
  return ExecutePatches(dataset, plan, engine, cancelled, &cutter);
}

Status ExecutePatches(const Dataset& dataset, const ReadPlan& plan, ReadEngine* engine,
                      const std::function<bool()>& cancelled, PatchSink* sink) {
  return Execution(dataset, plan, engine, cancelled, sink).Run();
}

}  // namespace quarry
