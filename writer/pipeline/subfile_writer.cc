#include "writer/pipeline/subfile_writer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "quarry/base/checksum.h"
#include "quarry/base/file.h"
#include "quarry/format/patch_table.h"

namespace quarry::writer {
namespace {

/// To five digits, which take three bytes of a row, and kept away from 0 and infinity: an error that was
/// measured must not look like none.
float StoredRmse(double rmse) {
  using Limits = std::numeric_limits<float>;
  if (rmse > static_cast<double>(Limits::max())) return Limits::max();
  const auto full = static_cast<float>(rmse);
  constexpr std::uint32_t kDropped = (1 << 7) - 1;
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(full);
  const auto stored = std::bit_cast<float>((bits + kDropped / 2 + (bits >> 7 & 1)) & ~kDropped);
  if (!std::isfinite(stored)) return full;
  return stored == 0 && rmse > 0 ? Limits::denorm_min() : stored;
}

/// Error of a coarse level, rounded up to four digits, which take three bytes of a row.
double StoredError(double error) {
  constexpr std::uint64_t kDropped = (std::uint64_t{1} << 39) - 1;
  const auto stored = std::bit_cast<double>((std::bit_cast<std::uint64_t>(error) + kDropped) & ~kDropped);
  return std::isfinite(stored) ? stored : error;
}

/// As float32, never rounded up: a level that cannot show every sample must not look as if it could.
float StoredCoverage(double coverage) {
  const auto stored = static_cast<float>(coverage);
  return static_cast<double>(stored) > coverage ? std::nextafter(stored, 0.0f) : stored;
}

/// Smaller payloads are collected for one write.
constexpr std::size_t kSmallPayload = 64 << 10;
constexpr std::size_t kWriteBytes = 1 << 20;

/// Summary of a subfile with these rows, without the bytes and checksum of the file.
SubfileSummary Summarize(const PatchGrid& grid, int parts, const std::vector<format::PatchEntry>& rows) {
  SubfileSummary summary;
  summary.patches = rows.size();
  summary.levels.resize(static_cast<std::size_t>(parts));
  for (const format::PatchEntry& row : rows) {
    summary.bounds = BoundingBox(summary.bounds, grid.PatchBox(static_cast<std::int64_t>(row.patch_index)));
    summary.valid += row.valid;
    for (std::size_t l = 0; l < summary.levels.size(); ++l) {
      const format::LevelEntry& entry = row.levels[l];
      SubfileSummary::Level& level = summary.levels[l];
      level.max_error = std::max(level.max_error, entry.max_error);
      const double covered = static_cast<double>(entry.coverage) * static_cast<double>(row.valid);
      level.sum_of_squares += static_cast<double>(entry.rmse) * static_cast<double>(entry.rmse) * covered;
      level.covered += covered;
      level.bytes += entry.size;
    }
  }
  return summary;
}

}  // namespace

format::PatchEntry SampleRow(const EncodedPatchOfGrid& patch) {
  const EncodedPatch& encoded = patch.encoded;
  format::PatchEntry row;
  row.patch_index = static_cast<std::uint64_t>(patch.patch_index);
  row.min = encoded.min;
  row.max = encoded.max;
  row.valid = static_cast<std::uint32_t>(encoded.valid);
  row.refers = encoded.refers;
  for (std::size_t l = 0; l < encoded.levels.size(); ++l) {
    const LevelError& error = encoded.errors[l];
    const bool coarse = encoded.parts.LevelOf(static_cast<int>(l)) > 0;
    row.levels.push_back({0, static_cast<std::uint32_t>(encoded.levels[l].size()), StoredRmse(error.rmse),
                          Checksum(encoded.levels[l]),
                          coarse ? StoredError(error.max_error) : error.max_error,
                          StoredCoverage(error.coverage)});
  }
  return row;
}

format::PatchEntry MaskRow(const EncodedPatchOfGrid& patch, std::int64_t samples) {
  const EncodedPatch& encoded = patch.encoded;
  format::PatchEntry row;
  row.patch_index = static_cast<std::uint64_t>(patch.patch_index);
  row.min = encoded.mask_levels.empty() ? 1 : 0;
  row.max = encoded.valid > 0 ? 1 : 0;
  row.valid = static_cast<std::uint32_t>(samples);
  for (std::size_t l = 0; l < static_cast<std::size_t>(encoded.parts.levels); ++l) {
    const ByteSpan payload = encoded.mask_levels.empty() ? ByteSpan() : ByteSpan(encoded.mask_levels[l]);
    row.levels.push_back({0, static_cast<std::uint32_t>(payload.size()), 0, Checksum(payload), 0, 1});
  }
  return row;
}

std::uint64_t StoredBytes(const format::PatchEntry& row) {
  return format::StoredRowSize(row) + row.payload_bytes();
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

SubfileSummary SubfileSummary::DecodeFrom(LittleEndianReader* reader, int parts) {
  SubfileSummary summary;
  summary.bytes = reader->Get<std::uint64_t>();
  summary.patches = reader->Get<std::uint64_t>();
  for (Index3* corner : {&summary.bounds.begin, &summary.bounds.end}) {
    for (std::int64_t& v : *corner) v = reader->Get<std::int64_t>();
  }
  summary.table_checksum = reader->Get<std::uint64_t>();
  summary.valid = reader->Get<std::uint64_t>();
  summary.levels.resize(static_cast<std::size_t>(parts));
  for (Level& level : summary.levels) {
    level.max_error = reader->Get<double>();
    level.sum_of_squares = reader->Get<double>();
    level.covered = reader->Get<double>();
    level.bytes = reader->Get<std::uint64_t>();
  }
  return summary;
}

Result<SubfileWriter> SubfileWriter::Create(const std::filesystem::path& path,
                                            const format::SubfileHeader& header, const PatchGrid& grid,
                                            std::vector<format::PatchEntry> rows) {
  QUARRY_ASSIGN_OR_RETURN(WritableFile file, WritableFile::Create(path));
  SubfileWriter writer(std::move(file), header, grid, std::move(rows));
  writer.summary_ = Summarize(grid, header.parts().count(), writer.rows_);
  header.EncodeTo(&writer.buffer_);
  std::uint64_t offset = writer.buffer_.size();
  format::ForEachPayload(header.order, writer.rows_.size(), header.parts(), [&](std::size_t row, int part) {
    format::LevelEntry& entry = writer.rows_[row].levels[static_cast<std::size_t>(part)];
    entry.offset = offset;
    offset += entry.size;
  });
  writer.payload_end_ = offset;
  return writer;
}

Status SubfileWriter::Append(ByteSpan payload) {
  if (payload.size() < kSmallPayload && buffer_.size() + payload.size() <= kWriteBytes) {
    const std::size_t end = buffer_.size();
    buffer_.resize(end + payload.size());
    std::copy(payload.begin(), payload.end(), buffer_.begin() + static_cast<std::ptrdiff_t>(end));
    return Status::Ok();
  }
  QUARRY_RETURN_IF_ERROR(Flush());
  return file_.Append(payload);
}

Status SubfileWriter::Flush() {
  QUARRY_RETURN_IF_ERROR(file_.Append(buffer_));
  buffer_.clear();
  return Status::Ok();
}

Result<SubfileSummary> SubfileWriter::Finish() {
  QUARRY_RETURN_IF_ERROR(Flush());
  if (file_.size() != payload_end_) {
    return InternalError("a subfile has {} bytes of header and payload instead of {}; please report this",
                         file_.size(), payload_end_);
  }
  QUARRY_RETURN_IF_ERROR(file_.Sync());
  format::TableEncoder table(header_, grid_, payload_end_);
  for (const format::PatchEntry& row : rows_) {
    table.Put(row, &buffer_);
    if (buffer_.size() >= kWriteBytes) QUARRY_RETURN_IF_ERROR(Flush());
  }
  const format::SubfileFooter footer = table.Finish(&buffer_);
  QUARRY_RETURN_IF_ERROR(Flush());
  QUARRY_RETURN_IF_ERROR(file_.SyncAndClose());
  summary_.bytes = footer.file_size;
  summary_.table_checksum = footer.table_checksum;
  return summary_;
}

}  // namespace quarry::writer
