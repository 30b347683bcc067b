#include "quarry/dataset/payload.h"

#include "quarry/base/checksum.h"

namespace quarry {
namespace {

/// @param row  of the field's table or of the mask's
Result<ByteSpan> TakeOne(const FetchedPayload& fetched, const format::PatchEntry& row, int level,
                         const query::Slice& slice, query::FileNumber file) {
  const format::LevelEntry& entry = row.levels[static_cast<std::size_t>(level)];
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
      step_(plan.query.step),
      field_(dataset.description().fields[plan.query.field_number].name),
      mask_(plan.query.mask) {}

std::string PayloadPaths::Of(query::FileNumber number) const {
  return (number.of_mask ? MaskSubfilePath(root_, mask_, number.subfile)
                         : SubfilePath(root_, step_, field_, number.subfile))
      .string();
}

Result<const RandomAccessFile*> PayloadSource::Open(query::FileNumber number) {
  auto it = files_.find(number);
  if (it == files_.end()) {
    const std::string path = paths_->Of(number);
    Result<RandomAccessFile> file = RandomAccessFile::Open(path);
    if (!file.ok() && file.status().code() == StatusCode::kNotFound)
      return DataLoss("\"{}\" is missing, though step.json lists it", path);
    if (!file.ok()) return std::move(file).status();
    it = files_.emplace(number, *std::move(file)).first;
  }
  return &it->second;
}

/// The file of a range that lies in it.
Result<const RandomAccessFile*> PayloadSource::OpenFor(const query::ByteRange& range) {
  QUARRY_ASSIGN_OR_RETURN(const RandomAccessFile* file, Open(range.file));
  if (range.offset > file->size() || range.size > file->size() - range.offset) {
    return DataLoss("\"{}\" has {} bytes, but bytes {}..{} are needed; it is truncated", file->path(),
                    file->size(), range.offset, range.offset + range.size);
  }
  return file;
}

Status PayloadSource::Read(const std::function<bool()>& cancelled, FetchedPayload* fetched) {
  fetched->paths = paths_;
  const std::vector<query::ByteRange>& ranges = fetched->fetch.ranges;
  // A coarse level is a few bytes in each of many places. Read one after the other from a disk, they take the
  // sum of all its delays; told of them at once, it takes them together.
  for (std::size_t i = 0; i < ranges.size() && ranges.size() > 1; ++i) {
    QUARRY_ASSIGN_OR_RETURN(const RandomAccessFile* file, OpenFor(ranges[i]));
    file->ExpectRead(ranges[i].offset, ranges[i].size);
  }
  fetched->ranges.reserve(ranges.size());
  for (const query::ByteRange& range : ranges) {
    if (cancelled()) return {StatusCode::kCancelled, "the read was cancelled"};
    // Before memory is taken for it: a file cut short must not cost the bytes that it no longer has.
    QUARRY_ASSIGN_OR_RETURN(const RandomAccessFile* file, OpenFor(range));
    fetched->ranges.emplace_back(range.size);
    QUARRY_RETURN_IF_ERROR(file->ReadAt(range.offset, fetched->ranges.back()));
  }
  return Status::Ok();
}

Result<LevelPayload> TakePayload(const FetchedPayload& fetched, std::size_t piece, int level,
                                 const query::PlannedPatch& patch) {
  const int finest = fetched.fetch.pieces[piece].finest;
  const query::LevelSlices& slices = fetched.fetch.slices[piece][static_cast<std::size_t>(level - finest)];
  LevelPayload taken{level, {}, {}};
  QUARRY_ASSIGN_OR_RETURN(taken.payload, TakeOne(fetched, patch.entry.patch, level, slices.payload,
                                                 {false, patch.entry.subfile}));
  if (patch.mask) {
    QUARRY_ASSIGN_OR_RETURN(taken.mask, TakeOne(fetched, patch.mask->patch, level, slices.mask,
                                                {true, patch.mask->subfile}));
  }
  return taken;
}

}  // namespace quarry
