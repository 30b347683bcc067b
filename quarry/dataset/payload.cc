#include "quarry/dataset/payload.h"

#include "quarry/base/checksum.h"

namespace quarry {
namespace {

/// @param row   of the field's table or of the mask's
/// @param part  of the row
Result<ByteSpan> TakeOne(const FetchedPayload& fetched, const format::PatchEntry& row, std::size_t part,
                         int level, const query::Slice& slice, query::FileNumber file) {
  const format::LevelEntry& entry = row.levels[part];
  ByteSpan payload;
  if (entry.size > 0) payload = ByteSpan(fetched.ranges[slice.range]).subspan(slice.offset, entry.size);
  std::uint64_t computed = 0;
  for (bool again = false;; again = true) {
    computed = Checksum(payload);
    if (computed == entry.checksum) return payload;
    if (again || entry.size == 0) break;
    const StoredObject& from = *fetched.files[slice.range];
    if (!from.Distrust(entry.offset, entry.size)) break;
    const Result<ByteSpan> second = fetched.again.Read(from, entry.offset, entry.size);
    if (!second.ok()) return StatusOfSubfile(second.status(), fetched.paths->Of(file));
    payload = *second;
  }
  return DataLoss(
      "cannot decode level {} of patch {} in \"{}\" (bytes {}..{}): checksum {} stored, {} computed; "
      "run \"quarry verify\" to list all damage",
      level, row.patch_index, fetched.paths->Of(file), entry.offset, entry.offset + entry.size,
      ChecksumText(entry.checksum), ChecksumText(computed));
}

}  // namespace

Result<ByteSpan> SecondReads::Read(const StoredObject& file, std::uint64_t offset, std::uint64_t size) const {
  Bytes bytes(size);
  QUARRY_RETURN_IF_ERROR(file.ReadAt(offset, bytes));
  const std::lock_guard lock(mutex_);
  return ByteSpan(bytes_.emplace_back(std::move(bytes)));
}

PayloadPaths::PayloadPaths(const Dataset& dataset, const query::ReadPlan& plan)
    : root_(dataset.root()),
      field_(dataset.description().fields[plan.query.field_number].name),
      steps_{{plan.query.step, plan.query.mask}} {
  steps_.insert(steps_.end(), plan.references.steps.begin(), plan.references.steps.end());
}

Location PayloadPaths::Of(query::FileNumber number) const {
  const query::ReferenceStep& step = steps_[number.step];
  return number.of_mask ? MaskSubfileLocation(root_, step.mask, number.subfile)
                        : SubfileLocation(root_, step.step, field_, number.subfile);
}

Result<std::shared_ptr<const StoredObject>> PayloadPaths::Refer(const Dataset& dataset,
                                                                query::FileNumber number) const {
  QUARRY_ASSIGN_OR_RETURN(const auto field, dataset.FieldOf(steps_[number.step].step, field_));
  const std::vector<SubfileDescription>* files = nullptr;
  if (field && !number.of_mask) files = &field->subfiles;
  if (field && number.of_mask && field->mask) files = &field->mask->subfiles;
  const Location path = Of(number);
  if (files == nullptr || number.subfile >= files->size())
    return DataLoss("\"{}\" is not listed in step.json any more; read again", path);
  const SubfileDescription& file = (*files)[number.subfile];
  return path.Refer(file.bytes, file.table_checksum);
}

Result<std::shared_ptr<const StoredObject>> PayloadSource::FileOf(query::FileNumber number) {
  auto it = files_.find(number);
  if (it == files_.end()) {
    QUARRY_ASSIGN_OR_RETURN(auto file, paths_->Refer(dataset_, number));
    it = files_.emplace(number, std::move(file)).first;
  }
  return it->second;
}

Result<std::unique_ptr<Reading>> PayloadSource::Begin(std::shared_ptr<FetchedPayload> fetched, RangeDone done,
                                                      const std::function<bool()>& cancelled) {
  fetched->paths = paths_;
  std::vector<ReadRange> ranges;
  ranges.reserve(fetched->fetch.ranges.size());
  for (const query::ByteRange& range : fetched->fetch.ranges) {
    QUARRY_ASSIGN_OR_RETURN(const auto file, FileOf(range.file));
    // Checked before memory is taken for bytes that the file does not have.
    if (range.offset > file->size() || range.size > file->size() - range.offset)
      return DataLoss("\"{}\" has {} bytes, but bytes {}..{} are needed; it is truncated", file->path(),
                      file->size(), range.offset, range.offset + range.size);
    ranges.push_back({file.get(), range.offset, {}});
    fetched->files.push_back(file);
  }
  fetched->ranges.reserve(ranges.size());
  for (std::size_t i = 0; i < ranges.size(); ++i)
    ranges[i].out = fetched->ranges.emplace_back(fetched->fetch.ranges[i].size);
  if (usage_ != nullptr) {
    usage_->reads += ranges.size();
    usage_->bytes += fetched->fetch.bytes();
    usage_->payload_bytes += fetched->fetch.payload_bytes;
  }
  auto report = [fetched, done = std::move(done)](std::size_t range, const Status& status) {
    const bool read = status.ok() || status.code() == StatusCode::kCancelled;
    done(range,
         read ? status : StatusOfSubfile(status, fetched->paths->Of(fetched->fetch.ranges[range].file)));
  };
  return dataset_.root().storage->BeginRead(std::move(ranges), std::move(report), cancelled);
}

Result<LevelPayload> TakePayload(const FetchedPayload& fetched, std::size_t piece, int level, int layers,
                                 const PatchParts& parts, const query::PlannedPatch& patch,
                                 std::size_t reference) {
  const query::Fetch& fetch = fetched.fetch;
  const auto step = static_cast<std::uint32_t>(reference == 0 ? 0 : patch.references[reference - 1].step + 1);
  const query::LocatedPatch& entry = reference == 0 ? patch.entry : patch.references[reference - 1].entry;
  const auto& mask = reference == 0 ? patch.mask : patch.references[reference - 1].mask;
  LevelPayload taken;
  taken.level = level;
  for (int layer = fetch.pieces[piece].first_layer; layer < layers; ++layer) {
    QUARRY_ASSIGN_OR_RETURN(
        taken.payload[static_cast<std::size_t>(taken.layers++)],
        TakeOne(fetched, entry.patch, parts.Of(layer, level), level,
                fetch.Payload(piece, level, layer, reference), {false, entry.subfile, step}));
  }
  if (mask && fetch.pieces[piece].first_layer == 0) {
    QUARRY_ASSIGN_OR_RETURN(taken.mask,
                            TakeOne(fetched, mask->patch, static_cast<std::size_t>(level), level,
                                    fetch.Mask(piece, level, reference), {true, mask->subfile, step}));
  }
  return taken;
}

}  // namespace quarry
