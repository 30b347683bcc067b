#include "quarry/dataset/payload.h"

#include "quarry/base/checksum.h"

namespace quarry {
namespace {

/// @param row  of the field's table or of the mask's
Result<ByteSpan> TakeOne(const FetchedPayload& fetched, const format::PatchEntry& row, int level,
                         const query::Slice& slice, const std::string& path) {
  const format::LevelEntry& entry = row.levels[static_cast<std::size_t>(level)];
  ByteSpan payload;
  if (entry.size > 0) payload = ByteSpan(fetched.ranges[slice.range]).subspan(slice.offset, entry.size);
  const std::uint64_t computed = Checksum(payload);
  if (computed == entry.checksum) return payload;
  return DataLoss(
      "cannot decode level {} of patch {} in \"{}\" (bytes {}..{}): checksum {} stored, {} computed; "
      "run \"quarry verify\" to list all damage",
      level, row.patch_index, path, entry.offset, entry.offset + entry.size, ChecksumText(entry.checksum),
      ChecksumText(computed));
}

}  // namespace

std::string PayloadSource::Path(query::FileNumber number) const {
  const query::Query& query = plan_.query;
  if (number.of_mask) return MaskSubfilePath(dataset_.root(), query.mask, number.subfile).string();
  const std::string& field = dataset_.description().fields[query.field_number].name;
  return SubfilePath(dataset_.root(), query.step, field, number.subfile).string();
}

Result<const RandomAccessFile*> PayloadSource::Open(query::FileNumber number) {
  auto it = files_.find(number);
  if (it == files_.end()) {
    Result<RandomAccessFile> file = RandomAccessFile::Open(Path(number));
    if (!file.ok() && file.status().code() == StatusCode::kNotFound)
      return DataLoss("\"{}\" is missing, though step.json lists it", Path(number));
    if (!file.ok()) return std::move(file).status();
    it = files_.emplace(number, *std::move(file)).first;
  }
  return &it->second;
}

Status PayloadSource::Read(FetchedPayload* fetched) {
  for (const query::ByteRange& range : fetched->fetch.ranges) {
    QUARRY_ASSIGN_OR_RETURN(const RandomAccessFile* file, Open(range.file));
    // Before memory is taken for it: a file cut short must not cost the bytes that it no longer has.
    if (range.offset > file->size() || range.size > file->size() - range.offset) {
      return DataLoss("\"{}\" has {} bytes, but bytes {}..{} are needed; it is truncated", file->path(),
                      file->size(), range.offset, range.offset + range.size);
    }
    fetched->ranges.emplace_back(range.size);
    QUARRY_RETURN_IF_ERROR(file->ReadAt(range.offset, fetched->ranges.back()));
  }
  return Status::Ok();
}

Result<LevelPayload> TakePayload(const FetchedPayload& fetched, std::size_t piece, int level,
                                 const query::PlannedPatch& patch, const PayloadPaths& paths) {
  const int finest = fetched.fetch.pieces[piece].finest;
  const query::LevelSlices& slices = fetched.fetch.slices[piece][static_cast<std::size_t>(level - finest)];
  LevelPayload taken{level, {}, {}};
  QUARRY_ASSIGN_OR_RETURN(taken.payload,
                          TakeOne(fetched, patch.entry.patch, level, slices.payload, paths.field));
  if (patch.mask) {
    QUARRY_ASSIGN_OR_RETURN(taken.mask, TakeOne(fetched, patch.mask->patch, level, slices.mask, paths.mask));
  }
  return taken;
}

}  // namespace quarry
