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
  const std::uint64_t computed = Checksum(payload);
  if (computed == entry.checksum) return payload;
  return DataLoss(
      "cannot decode level {} of patch {} in \"{}\" (bytes {}..{}): checksum {} stored, {} computed; "
      "run \"quarry verify\" to list all damage",
      level, row.patch_index, fetched.paths->Of(file), entry.offset, entry.offset + entry.size,
      ChecksumText(entry.checksum), ChecksumText(computed));
}

}  // namespace

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

Result<const StoredObject*> PayloadSource::Open(query::FileNumber number) {
  auto it = files_.find(number);
  if (it == files_.end()) {
    const Location path = paths_->Of(number);
    Result<std::shared_ptr<const StoredObject>> file = path.Open();
    if (!file.ok()) return StatusOfPart(std::move(file).status(), path, ", though step.json lists it");
    it = files_.emplace(number, *std::move(file)).first;
  }
  return it->second.get();
}

/// The file of a range, after checking that the range lies in it.
Result<const StoredObject*> PayloadSource::OpenFor(const query::ByteRange& range) {
  QUARRY_ASSIGN_OR_RETURN(const StoredObject* file, Open(range.file));
  if (range.offset > file->size() || range.size > file->size() - range.offset) {
    return DataLoss("\"{}\" has {} bytes, but bytes {}..{} are needed; it is truncated", file->path(),
                    file->size(), range.offset, range.offset + range.size);
  }
  return file;
}

Status PayloadSource::Read(const std::function<bool()>& cancelled, FetchedPayload* fetched) {
  fetched->paths = paths_;
  // Checked before memory is taken: a truncated file must not cost memory for bytes that it no longer has.
  std::vector<ReadRange> ranges;
  ranges.reserve(fetched->fetch.ranges.size());
  for (const query::ByteRange& range : fetched->fetch.ranges) {
    QUARRY_ASSIGN_OR_RETURN(const StoredObject* file, OpenFor(range));
    ranges.push_back({file, range.offset, {}});
  }
  fetched->ranges.reserve(ranges.size());
  for (std::size_t i = 0; i < ranges.size(); ++i)
    ranges[i].out = fetched->ranges.emplace_back(fetched->fetch.ranges[i].size);
  if (usage_ != nullptr) {
    usage_->reads += ranges.size();
    usage_->bytes += fetched->fetch.bytes();
    usage_->payload_bytes += fetched->fetch.payload_bytes;
  }
  return storage_->ReadRanges(ranges, cancelled);
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
