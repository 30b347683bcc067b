#include "writer/pipeline/subfile_writer.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "quarry/base/checksum.h"
#include "quarry/base/file.h"

namespace quarry::writer {
namespace {

/// As float32, kept away from 0 and infinity: an error that was measured must not look like none.
float StoredRmse(double rmse) {
  using Limits = std::numeric_limits<float>;
  if (rmse > static_cast<double>(Limits::max())) return Limits::max();
  const auto stored = static_cast<float>(rmse);
  return stored == 0 && rmse > 0 ? Limits::denorm_min() : stored;
}

/// As float32, never rounded up: a level that cannot show every sample must not look as if it could.
float StoredCoverage(double coverage) {
  const auto stored = static_cast<float>(coverage);
  return static_cast<double>(stored) > coverage ? std::nextafter(stored, 0.0f) : stored;
}

/// A row and the payloads behind it, coarsest first.
PackedPatch PackRow(const format::PatchEntry& row, const std::vector<Bytes>& levels) {
  PackedPatch packed;
  packed.bytes.reserve(format::PatchEntry::EncodedSize(static_cast<int>(row.levels.size())) +
                       row.payload_bytes());
  row.EncodeTo(&packed.bytes);
  for (std::size_t l = levels.size(); l-- > 0;)
    packed.bytes.insert(packed.bytes.end(), levels[l].begin(), levels[l].end());
  return packed;
}

/// Collects small payloads into large writes.
class BufferedAppender {
 public:
  explicit BufferedAppender(WritableFile* file) : file_(file) {}

  Status Append(ByteSpan bytes) {
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
    return buffer_.size() >= kFlushAt ? Flush() : Status::Ok();
  }
  Status Flush() {
    QUARRY_RETURN_IF_ERROR(file_->Append(buffer_));
    buffer_.clear();
    return Status::Ok();
  }

 private:
  static constexpr std::size_t kFlushAt = 4 << 20;
  WritableFile* file_;
  Bytes buffer_;
};

}  // namespace

PackedPatch PackedPatch::Pack(const EncodedPatchOfGrid& patch) {
  const EncodedPatch& encoded = patch.encoded;
  format::PatchEntry entry;
  entry.patch_index = static_cast<std::uint64_t>(patch.patch_index);
  entry.min = encoded.min;
  entry.max = encoded.max;
  entry.valid = static_cast<std::uint32_t>(encoded.valid);
  for (std::size_t l = 0; l < encoded.levels.size(); ++l) {
    entry.levels.push_back({0, static_cast<std::uint32_t>(encoded.levels[l].size()),
                            StoredRmse(encoded.errors[l].rmse), Checksum(encoded.levels[l]),
                            encoded.errors[l].max_error, StoredCoverage(encoded.errors[l].coverage)});
  }
  return PackRow(entry, encoded.levels);
}

format::PatchEntry MaskRow(const EncodedPatchOfGrid& patch, std::int64_t samples) {
  const EncodedPatch& encoded = patch.encoded;
  format::PatchEntry row;
  row.patch_index = static_cast<std::uint64_t>(patch.patch_index);
  row.min = encoded.mask_levels.empty() ? 1 : 0;
  row.max = encoded.valid > 0 ? 1 : 0;
  row.valid = static_cast<std::uint32_t>(samples);
  for (std::size_t l = 0; l < encoded.levels.size(); ++l) {
    const ByteSpan payload = encoded.mask_levels.empty() ? ByteSpan() : ByteSpan(encoded.mask_levels[l]);
    row.levels.push_back({0, static_cast<std::uint32_t>(payload.size()), 0, Checksum(payload), 0, 1});
  }
  return row;
}

PackedPatch PackedPatch::PackMask(const EncodedPatchOfGrid& patch, std::int64_t samples) {
  return PackRow(MaskRow(patch, samples), patch.encoded.mask_levels);
}

void SubfileSummary::EncodeTo(Bytes* out) const {
  PutLittleEndian(out, bytes);
  PutLittleEndian(out, patches);
  for (const Index3& corner : {bounds.begin, bounds.end}) {
    for (const std::int64_t v : corner) PutLittleEndian(out, v);
  }
  PutLittleEndian(out, table_checksum);
  PutLittleEndian(out, valid);
  for (const Level& level : levels) {
    PutLittleEndian(out, level.max_error);
    PutLittleEndian(out, level.sum_of_squares);
    PutLittleEndian(out, level.covered);
    PutLittleEndian(out, level.bytes);
  }
}

SubfileSummary SubfileSummary::DecodeFrom(LittleEndianReader* reader, int levels) {
  SubfileSummary summary;
  summary.bytes = reader->Get<std::uint64_t>();
  summary.patches = reader->Get<std::uint64_t>();
  for (Index3* corner : {&summary.bounds.begin, &summary.bounds.end}) {
    for (std::int64_t& v : *corner) v = reader->Get<std::int64_t>();
  }
  summary.table_checksum = reader->Get<std::uint64_t>();
  summary.valid = reader->Get<std::uint64_t>();
  summary.levels.resize(static_cast<std::size_t>(levels));
  for (Level& level : summary.levels) {
    level.max_error = reader->Get<double>();
    level.sum_of_squares = reader->Get<double>();
    level.covered = reader->Get<double>();
    level.bytes = reader->Get<std::uint64_t>();
  }
  return summary;
}

Result<SubfileSummary> WriteSubfile(const std::filesystem::path& path, const format::SubfileHeader& header,
                                    const PatchGrid& grid, const std::vector<PackedPatch>& patches) {
  const std::size_t entry_size = format::PatchEntry::EncodedSize(header.levels);
  std::vector<format::PatchEntry> rows;
  std::vector<std::vector<ByteSpan>> payloads;  // [row][level]
  SubfileSummary summary;
  summary.patches = patches.size();
  summary.levels.resize(static_cast<std::size_t>(header.levels));
  for (const PackedPatch& patch : patches) {
    const ByteSpan packed(patch.bytes);
    rows.push_back(format::PatchEntry::DecodeFrom(packed.first(entry_size), header.levels));
    payloads.emplace_back(static_cast<std::size_t>(header.levels));
    std::size_t position = entry_size;
    for (std::size_t l = static_cast<std::size_t>(header.levels); l-- > 0;) {
      payloads.back()[l] = packed.subspan(position, rows.back().levels[l].size);
      position += rows.back().levels[l].size;
    }
    const Box box = grid.PatchBox(static_cast<std::int64_t>(rows.back().patch_index));
    summary.bounds = BoundingBox(summary.bounds, box);
    summary.valid += rows.back().valid;
    for (std::size_t l = 0; l < summary.levels.size(); ++l) {
      const format::LevelEntry& entry = rows.back().levels[l];
      SubfileSummary::Level& level = summary.levels[l];
      level.max_error = std::max(level.max_error, entry.max_error);
      const double covered = static_cast<double>(entry.coverage) * static_cast<double>(rows.back().valid);
      level.sum_of_squares += static_cast<double>(entry.rmse) * static_cast<double>(entry.rmse) * covered;
      level.covered += covered;
      level.bytes += entry.size;
    }
  }

  QUARRY_ASSIGN_OR_RETURN(WritableFile file, WritableFile::Create(path));
  BufferedAppender appender(&file);
  Bytes bytes;
  header.EncodeTo(&bytes);
  QUARRY_RETURN_IF_ERROR(appender.Append(bytes));
  std::uint64_t offset = bytes.size();
  Status status;
  format::ForEachPayload(header.order, rows.size(), header.levels, [&](std::size_t row, int level) {
    const auto l = static_cast<std::size_t>(level);
    rows[row].levels[l].offset = offset;
    offset += rows[row].levels[l].size;
    if (status.ok()) status = appender.Append(payloads[row][l]);
  });
  QUARRY_RETURN_IF_ERROR(status);
  QUARRY_RETURN_IF_ERROR(appender.Flush());
  QUARRY_RETURN_IF_ERROR(file.Sync());

  Bytes table;
  for (const format::PatchEntry& row : rows) row.EncodeTo(&table);
  format::SubfileFooter footer;
  footer.table_offset = offset;
  footer.table_size = table.size();
  footer.table_checksum = Checksum(table);
  footer.file_size = offset + table.size() + format::SubfileFooter::kEncodedSize;
  footer.EncodeTo(&table);
  QUARRY_RETURN_IF_ERROR(file.Append(table));
  QUARRY_RETURN_IF_ERROR(file.SyncAndClose());
  summary.bytes = footer.file_size;
  summary.table_checksum = footer.table_checksum;
  return summary;
}

}  // namespace quarry::writer
