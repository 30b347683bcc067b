#include "quarry/dataset/read_tasks.h"

#include <new>
#include <utility>

#include "quarry/query/references.h"

namespace quarry {

ArrayPart TakePart(const query::ReadPlan& plan, std::size_t index, ArrayFilling* filling) {
  if (filling == nullptr) return {};
  return {query::PartOf(plan.query, filling->level(), plan.patches[index].samples), filling->TryTake(index)};
}

void WriteToArray(const PatchReader& decoded, const Box& box, const ArrayFilling& filling, ArrayPart* to) {
  if (!to->turn.BeginWriting()) return to->turn.Release();
  const SampleArray& array = filling.array();
  if (!to->part.extent.empty()) {
    query::WritePart(to->part, decoded.samples(), box, decoded.level() - filling.level(), array.sample_size,
                     array.PlaceOf(to->part.extent));
  }
  to->turn.Done();
}

// ---- Decoding

DecodeTask::DecodeTask(const query::ReadPlan& plan, const PatchCoder& coder,
                       std::shared_ptr<FetchedPayload> batch, std::size_t first,
                       std::span<PatchStore::Claim> claims, std::shared_ptr<ArrayFilling> filling,
                       std::shared_ptr<const std::atomic<bool>> abandoned)
    : coder_(coder),
      batch_(std::move(batch)),
      filling_(std::move(filling)),
      abandoned_(std::move(abandoned)) {
  works_.reserve(claims.size());
  for (std::size_t i = 0; i < claims.size(); ++i) {
    const std::size_t index = batch_->fetch.pieces[first + i].patch;
    const query::PlannedPatch& patch = plan.patches[index];
    const PatchLayout layout{plan.type, patch.samples.shape(), plan.dataset_levels};
    works_.push_back({first + i, patch, layout, plan.parts, query::GraphOf(plan, patch), std::move(claims[i]),
                      TakePart(plan, index, filling_.get()), nullptr});
  }
}

Status DecodeTask::Run() {
  Status first;
  for (Work& work : works_) {
    Status status = Decode(&work);
    if (first.ok()) first = std::move(status);
  }
  // All together: a reader that waits for the first most likely waits for the others next.
  for (Work& work : works_) {
    if (work.decoded) work.claim.Finish(std::move(work.decoded), &batch_->memory);
  }
  return first;
}

Status DecodeTask::Decode(Work* work) const {
  PatchStore::Claim& claim = work->claim;
  const bool wanted = claim.Wanted();
  if (*abandoned_ && !wanted) return Status::Ok();
  // Others who wait for the patch get it from the store.
  const bool past_store = work->to.whole() && filling_->past_store() && !wanted &&
                          batch_->fetch.pieces[work->piece].first_layer == 0;
  Status status;
  try {
    PatchReader reader =
        claim.base() ? claim.base()->Clone()
                     : PatchReader(coder_, work->layout, batch_->fetch.layers, std::move(work->references));
    status = DecodeLevels(work, past_store, &reader);
    if (status.ok() && !past_store) work->decoded = Keep(std::move(reader), work);
  } catch (const std::bad_alloc&) {
    status = {StatusCode::kResourceExhausted, "no memory"};  // a text that allocates nothing
  }
  if (status.ok()) return status;
  work->to.turn.Release();  // before the read hears of the error, and shows another level there
  claim.Fail(status);
  return status;
}

/// @param into_array  the last level, and nowhere else
Status DecodeTask::DecodeLevels(Work* work, bool into_array, PatchReader* reader) const {
  const query::Piece& piece = batch_->fetch.pieces[work->piece];
  if (piece.first_layer > 0) return AddLayers(*work, reader);
  const int layers = batch_->fetch.layers;
  for (int level = piece.coarsest; level >= piece.finest; --level) {
    const std::size_t references = work->patch.references.size();
    std::vector<LevelPayload> taken;
    for (std::size_t i = 0; i <= references; ++i) {
      const std::size_t r = i < references ? i + 1 : 0;  // the patch itself last
      QUARRY_ASSIGN_OR_RETURN(taken.emplace_back(),
                              TakePayload(*batch_, work->piece, level, layers, work->parts, work->patch, r));
    }
    std::vector<LevelParts> steps;
    steps.reserve(taken.size());
    for (const LevelPayload& of_step : taken) steps.push_back({of_step.payloads(), of_step.mask});
    Status status =
        into_array && level == piece.finest ? DecodeIntoArray(steps, work, reader) : reader->Advance(steps);
    if (!status.ok()) return Annotate(std::move(status), *work, level);
  }
  return Status::Ok();
}

/// The level that the reader has, in the layers that it lacks.
Status DecodeTask::AddLayers(const Work& work, PatchReader* reader) const {
  const query::Piece& piece = batch_->fetch.pieces[work.piece];
  const int layers = batch_->fetch.layers;
  std::vector<LevelPayload> levels;
  for (int level = piece.coarsest; level >= piece.finest; --level) {
    QUARRY_ASSIGN_OR_RETURN(levels.emplace_back(),
                            TakePayload(*batch_, work.piece, level, layers, work.parts, work.patch));
  }
  for (int layer = piece.first_layer; layer < layers; ++layer) {
    std::vector<ByteSpan> payloads;
    payloads.reserve(levels.size());
    for (const LevelPayload& level : levels)
      payloads.push_back(level.payload[static_cast<std::size_t>(layer - piece.first_layer)]);
    Status status = reader->AddLayer(payloads);
    if (!status.ok()) return Annotate(std::move(status), work, piece.finest);
  }
  return Status::Ok();
}

Status DecodeTask::Annotate(Status status, const Work& work, int level) const {
  return std::move(status).Annotate(fmt::format("cannot decode level {} of patch {} in \"{}\"", level,
                                                work.patch.entry.patch.patch_index,
                                                batch_->paths->Of({false, work.patch.entry.subfile})));
}

Status DecodeTask::DecodeIntoArray(std::span<const LevelParts> steps, Work* work, PatchReader* reader) const {
  if (!work->to.turn.BeginWriting()) return Status::Ok();  // the read has ended
  const SamplePlace place = filling_->array().PlaceOf(work->to.part.extent);
  QUARRY_RETURN_IF_ERROR(reader->AdvanceInto(steps, place));
  work->to.turn.Done();
  return Status::Ok();
}

/// The patch for the store; its samples are written to the array while they are in the processor's caches.
StoredPatch DecodeTask::Keep(PatchReader reader, Work* work) const {
  if (work->to.turn)
    WriteToArray(reader, LevelBox(work->patch.samples, reader.level()), *filling_, &work->to);
  return std::make_shared<const PatchReader>(std::move(reader));
}

// ---- Copying

void CopyTask::Run() {
  for (Work& work : works_) {
    // Without the patch the read comes to it later.
    const StoredPatch stored = work.to.turn ? store_->Find(work.key) : nullptr;
    if (stored) WriteToArray(*stored, work.box, *filling_, &work.to);
    work.to.turn.Release();
  }
}

}  // namespace quarry
