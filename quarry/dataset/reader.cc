#include "quarry/dataset/reader.h"

#include <future>
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

/// Reader of a patch, kept between levels while a finer one is still to come.
using ReaderPointer = std::unique_ptr<PatchReader>;

/// A decoded patch, or what went wrong with it.
struct DecodedPatch {
  Status status;
  ReaderPointer reader;
};

/// The payload of one batch and the decoding tasks that share it.
struct BatchInFlight {
  /// A read that ends early waits for its tasks, which then end at their next patch: memory that was reserved
  /// for a read is free when the read is over.
  void Abandon() {
    abandoned = true;
    for (std::future<DecodedPatch>& task : decoded) {
      if (task.valid()) task.wait();
    }
  }

  Batch batch;
  std::vector<Bytes> payload;  ///< one per range
  std::vector<std::future<DecodedPatch>> decoded;
  std::atomic<bool> abandoned = false;
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
Result<ByteSpan> TakePayload(const BatchInFlight& in_flight, const format::PatchEntry& row, int level,
                             const query::Slice& slice, const std::string& path) {
  const format::LevelEntry& entry = row.levels[static_cast<std::size_t>(level)];
  ByteSpan payload;
  if (entry.size > 0) payload = ByteSpan(in_flight.payload[slice.range]).subspan(slice.offset, entry.size);
  const std::uint64_t computed = Checksum(payload);
  if (computed == entry.checksum) return payload;
  return DataLoss(
      "cannot decode level {} of patch {} in \"{}\" (bytes {}..{}): checksum {} stored, {} computed; "
      "run \"quarry verify\" to list all damage",
      level, row.patch_index, path, entry.offset, entry.offset + entry.size, ChecksumText(entry.checksum),
      ChecksumText(computed));
}

/// Hands on the samples of patches that belong to the answer.
class BlockCutter final : public PatchSink {
 public:
  BlockCutter(const ReadPlan& plan, BlockSink* sink) : plan_(plan), sink_(sink) {}

  Status Patch(int level, const PlannedPatch& patch, const PatchReader& reader) override {
    const query::PatchPart part = query::PartOf(plan_, level, patch);
    if (part.extent.empty()) return Status::Ok();
    if (part.whole()) return sink_->Block(level, part.extent, reader.samples());
    return sink_->Block(level, part.extent, query::CutOut(part, reader.samples(), SizeOf(plan_.type)));
  }
  Status LevelEnd(const query::LevelExtent& level) override { return sink_->LevelEnd(level); }

 private:
  const ReadPlan& plan_;
  BlockSink* sink_;
};

class Execution {
 public:
  Execution(const Dataset& dataset, const ReadPlan& plan, DecodePool* pool,
            const std::function<bool()>& cancelled, PatchSink* sink)
      : plan_(plan),
        pool_(pool),
        cancelled_(cancelled),
        sink_(sink),
        files_(dataset, plan.query),
        kept_(plan.patches.size()) {}

  Status Run() {
    const PatchCoder* coder = FindCoder(plan_.coder);
    if (coder == nullptr)
      return DataLoss("coder {} is not known; use a newer Quarry", static_cast<int>(plan_.coder));
    coder_ = coder;
    std::vector<Pass> passes = query::MakePasses(plan_);
    for (std::size_t p = 0; p < passes.size(); ++p) {
      keep_readers_ = p + 1 < passes.size();
      QUARRY_RETURN_IF_ERROR(RunPass(std::move(passes[p])));
      QUARRY_RETURN_IF_ERROR(sink_->LevelEnd(plan_.levels[p]));
    }
    return Status::Ok();
  }

 private:
  /// Two batches are in flight: one is decoded while the one before is delivered.
  Status RunPass(Pass pass) {
    std::shared_ptr<BatchInFlight> before;
    for (Batch& batch : pass.batches) {
      if (cancelled_()) return Cancelled(before.get());
      Result<std::shared_ptr<BatchInFlight>> fetched = Fetch(std::move(batch));
      if (!fetched.ok()) {
        if (before) before->Abandon();
        return std::move(fetched).status();
      }
      StartDecoding(pass, *fetched);
      if (before) {
        const Status delivered = Deliver(pass, before.get());
        if (!delivered.ok()) (*fetched)->Abandon();
        QUARRY_RETURN_IF_ERROR(delivered);
      }
      before = *fetched;
    }
    return before ? Deliver(pass, before.get()) : Status::Ok();
  }

  Result<std::shared_ptr<BatchInFlight>> Fetch(Batch batch) {
    auto in_flight = std::make_shared<BatchInFlight>();
    for (const query::ByteRange& range : batch.ranges) {
      QUARRY_ASSIGN_OR_RETURN(const RandomAccessFile* file, files_.Get(range.file));
      // Before memory is taken for it: a file cut short must not cost the bytes that it no longer has.
      if (range.offset > file->size() || range.size > file->size() - range.offset) {
        return DataLoss("\"{}\" has {} bytes, but bytes {}..{} are needed; it is truncated", file->path(),
                        file->size(), range.offset, range.offset + range.size);
      }
      in_flight->payload.emplace_back(range.size);
      QUARRY_RETURN_IF_ERROR(file->ReadAt(range.offset, in_flight->payload.back()));
    }
    in_flight->batch = std::move(batch);
    return in_flight;
  }

  void StartDecoding(const Pass& pass, const std::shared_ptr<BatchInFlight>& in_flight) {
    for (std::size_t i = 0; i < in_flight->batch.patch_count; ++i) {
      const PlannedPatch& patch = plan_.patches[in_flight->batch.first_patch + i];
      ReaderPointer reader = std::move(kept_[in_flight->batch.first_patch + i]);
      if (!reader) {
        reader = std::make_unique<PatchReader>(
            *coder_, PatchLayout{plan_.type, patch.samples.shape(), plan_.dataset_levels});
      }
      auto promise = std::make_shared<std::promise<DecodedPatch>>();
      in_flight->decoded.push_back(promise->get_future());
      // The copy of the plan's row keeps the task independent of this read's lifetime.
      auto task = [in_flight, i, promise, patch, coarsest = pass.coarsest, finest = pass.finest,
                   path = files_.Path({false, patch.entry.subfile}).string(),
                   mask_path = patch.mask ? files_.Path({true, patch.mask->subfile}).string() : "",
                   reader = std::make_shared<ReaderPointer>(std::move(reader))] {
        DecodedPatch result;
        try {
          if (in_flight->abandoned) {
            result.status = Status(StatusCode::kCancelled, "the read was given up");
          } else {
            result.status = Advance(*in_flight, i, patch, coarsest, finest, path, mask_path, reader->get());
          }
        } catch (const std::bad_alloc&) {
          result.status = InternalError(
              "out of memory while decoding \"{}\"; ask for a smaller box or a coarser level", path);
        }
        result.reader = std::move(*reader);
        promise->set_value(std::move(result));
      };
      pool_->Submit(std::move(task));
    }
  }

  static Status Advance(const BatchInFlight& in_flight, std::size_t i, const PlannedPatch& patch,
                        int coarsest, int finest, const std::string& path, const std::string& mask_path,
                        PatchReader* reader) {
    for (int level = coarsest; level >= finest; --level) {
      const query::LevelSlices& slices = in_flight.batch.slices[i][static_cast<std::size_t>(level - finest)];
      QUARRY_ASSIGN_OR_RETURN(const ByteSpan payload,
                              TakePayload(in_flight, patch.entry.patch, level, slices.payload, path));
      ByteSpan mask;
      if (patch.mask) {
        QUARRY_ASSIGN_OR_RETURN(mask,
                                TakePayload(in_flight, patch.mask->patch, level, slices.mask, mask_path));
      }
      Status status = reader->Advance(payload, mask);
      if (!status.ok()) {
        return std::move(status).Annotate(fmt::format("cannot decode level {} of patch {} in \"{}\"", level,
                                                      patch.entry.patch.patch_index, path));
      }
    }
    return Status::Ok();
  }

  Status Deliver(const Pass& pass, BatchInFlight* in_flight) {
    for (std::size_t i = 0; i < in_flight->decoded.size(); ++i) {
      if (cancelled_()) return Cancelled(in_flight);
      DecodedPatch decoded = in_flight->decoded[i].get();
      const std::size_t index = in_flight->batch.first_patch + i;
      Status status = decoded.status;
      if (status.ok()) status = sink_->Patch(pass.finest, plan_.patches[index], *decoded.reader);
      if (!status.ok()) {
        in_flight->Abandon();
        return status;
      }
      if (keep_readers_) kept_[index] = std::move(decoded.reader);
    }
    return Status::Ok();
  }

  static Status Cancelled(BatchInFlight* in_flight) {
    if (in_flight != nullptr) in_flight->Abandon();
    return {StatusCode::kCancelled, "the read was cancelled"};
  }

  const ReadPlan& plan_;
  DecodePool* pool_;
  const std::function<bool()>& cancelled_;
  PatchSink* sink_;
  OpenSubfiles files_;
  const PatchCoder* coder_ = nullptr;
  std::vector<ReaderPointer> kept_;
  bool keep_readers_ = false;
};

}  // namespace

Status ExecuteRead(const Dataset& dataset, const ReadPlan& plan, DecodePool* pool,
                   const std::function<bool()>& cancelled, BlockSink* sink) {
  BlockCutter cutter(plan, sink);
  return ExecutePatches(dataset, plan, pool, cancelled, &cutter);
}

Status ExecutePatches(const Dataset& dataset, const ReadPlan& plan, DecodePool* pool,
                      const std::function<bool()>& cancelled, PatchSink* sink) {
  return Execution(dataset, plan, pool, cancelled, sink).Run();
}

}  // namespace quarry
