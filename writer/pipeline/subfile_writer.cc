#include "writer/pipeline/subfile_writer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "quarry/base/checksum.h"
#include "quarry/base/file.h"
#include "quarry/format/patch_table.h"
#include "writer/upkeep/dataset_files.h"

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

/// Adds a row to the summary of its subfile.
void AddToSummary(const PatchGrid& grid, const format::PatchEntry& row, SubfileSummary* summary) {
  ++summary->patches;
  summary->bounds = BoundingBox(summary->bounds, grid.PatchBox(static_cast<std::int64_t>(row.patch_index)));
  summary->valid += row.valid;
  for (std::size_t l = 0; l < summary->levels.size(); ++l) {
    const format::LevelEntry& entry = row.levels[l];
    SubfileSummary::Level& level = summary->levels[l];
    level.max_error = std::max(level.max_error, entry.max_error);
    const double covered = static_cast<double>(entry.coverage) * static_cast<double>(row.valid);
    level.sum_of_squares += static_cast<double>(entry.rmse) * static_cast<double>(entry.rmse) * covered;
    level.covered += covered;
    level.bytes += entry.size;
  }
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

format::PatchEntry UnmaskedRow(std::int64_t patch_index, std::int64_t samples, int levels) {
  format::PatchEntry row;
  row.patch_index = static_cast<std::uint64_t>(patch_index);
  row.min = 1;
  row.max = 1;
  row.valid = static_cast<std::uint32_t>(samples);
  row.levels.assign(static_cast<std::size_t>(levels), {0, 0, 0, Checksum(ByteSpan()), 0, 1});
  return row;
}

std::uint64_t PayloadBytes(const format::PatchEntry& row, const format::PartRun& run) {
  std::uint64_t bytes = 0;
  for (int part = run.last; part <= run.first; ++part)
    bytes += row.levels[static_cast<std::size_t>(part)].size;
  return bytes;
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

SubfileWriter::SubfileWriter(WritableLocation place, std::unique_ptr<NewFile> file,
                             const format::SubfileHeader& header, const PatchGrid& grid,
                             std::uint64_t memory_limit)
    : place_(std::move(place)),
      file_(std::move(file)),
      header_(header),
      grid_(grid),
      memory_limit_(memory_limit),
      run_bytes_(format::PartRuns(header).size(), 0) {
  summary_.levels.resize(static_cast<std::size_t>(header.parts().count()));
  // A vector that grows by itself holds three times its rows while it moves them.
  const std::size_t size = format::PatchEntry::EncodedSize(header.parts().count());
  rows_.reserve(static_cast<std::size_t>(std::min(memory_limit, header.patch_count * size)) + size);
}

Result<SubfileWriter> SubfileWriter::Create(const WritableLocation& place,
                                            const format::SubfileHeader& header, const PatchGrid& grid,
                                            std::uint64_t most, std::uint64_t memory_limit) {
  QUARRY_ASSIGN_OR_RETURN(auto file, place.storage->Create(place.root.path, most));
  SubfileWriter writer(place, std::move(file), header, grid, memory_limit);
  header.EncodeTo(&writer.buffer_);
  writer.payload_end_ = writer.buffer_.size();
  return writer;
}

Status SubfileWriter::AddRow(const format::PatchEntry& row) {
  AddToSummary(grid_, row, &summary_);
  payload_end_ += row.payload_bytes();
  const std::vector<format::PartRun> runs = format::PartRuns(header_);
  for (std::size_t r = 0; r < runs.size(); ++r) run_bytes_[r] += PayloadBytes(row, runs[r]);
  row.EncodeTo(&rows_);
  return rows_.size() > memory_limit_ ? SpillRows() : Status::Ok();
}

Status SubfileWriter::SpillRows() {
  if (!spilled_) {
    const std::string& path = place_.root.path;
    QUARRY_ASSIGN_OR_RETURN(const std::filesystem::path folder,
                            place_.storage->TemporaryFolder(path.substr(0, path.rfind('/'))));
    QUARRY_ASSIGN_OR_RETURN(TemporaryFile file, TemporaryFile::Create(folder));
    spilled_.emplace(std::move(file));
  }
  QUARRY_RETURN_IF_ERROR(spilled_->WriteAt(spilled_bytes_, rows_));
  spilled_bytes_ += rows_.size();
  rows_.clear();
  return Status::Ok();
}

template <typename Put>
Status SubfileWriter::ForEachRow(Put put) {
  const int parts = header_.parts().count();
  const std::size_t size = format::PatchEntry::EncodedSize(parts);
  format::PayloadPositions positions(header_);
  std::uint64_t begin = format::SubfileHeader::kEncodedSize;
  for (std::size_t r = 0; r < run_bytes_.size(); ++r) {
    positions.Set(r, begin);
    begin += run_bytes_[r];
  }
  const auto put_all = [&](ByteSpan rows) -> Status {
    for (; !rows.empty(); rows = rows.subspan(size)) {
      format::PatchEntry row = format::PatchEntry::DecodeFrom(rows.first(size), parts);
      positions.Pass(&row);
      QUARRY_RETURN_IF_ERROR(put(row));
    }
    return Status::Ok();
  };
  Bytes piece;
  for (std::uint64_t at = 0; at < spilled_bytes_; at += piece.size()) {
    piece.resize(std::min<std::uint64_t>(kWriteBytes / size * size, spilled_bytes_ - at));
    QUARRY_RETURN_IF_ERROR(spilled_->ReadAt(at, piece));
    QUARRY_RETURN_IF_ERROR(put_all(piece));
  }
  return put_all(rows_);
}

Status SubfileWriter::Append(ByteSpan payload) {
  if (payload.size() < kSmallPayload && buffer_.size() + payload.size() <= kWriteBytes) {
    const std::size_t end = buffer_.size();
    buffer_.resize(end + payload.size());
    std::copy(payload.begin(), payload.end(), buffer_.begin() + static_cast<std::ptrdiff_t>(end));
    return Status::Ok();
  }
  QUARRY_RETURN_IF_ERROR(Flush());
  return file_->Append(payload);
}

Status SubfileWriter::Flush() {
  QUARRY_RETURN_IF_ERROR(file_->Append(buffer_));
  buffer_.clear();
  return Status::Ok();
}

Result<format::SubfileFooter> SubfileWriter::AppendTable() {
  format::TableEncoder table(header_, grid_, payload_end_);
  QUARRY_RETURN_IF_ERROR(ForEachRow([&](const format::PatchEntry& row) {
    table.Put(row, &buffer_);
    return buffer_.size() >= kWriteBytes ? Flush() : Status::Ok();
  }));
  const format::SubfileFooter footer = table.Finish(&buffer_);
  QUARRY_RETURN_IF_ERROR(Flush());
  return footer;
}

/// A store may say of a request whose answer was lost that the file is there.
Status SubfileWriter::FinishFile(const format::SubfileFooter& footer) {
  Status finished = file_->Finish();
  const bool may_be_ours = finished.code() == StatusCode::kAlreadyExists;
  if (may_be_ours && HasFooter(place_.root, footer.file_size, footer.table_checksum)) return Status::Ok();
  return finished;
}

Result<SubfileSummary> SubfileWriter::Finish() {
  QUARRY_RETURN_IF_ERROR(Flush());
  if (summary_.patches != header_.patch_count) {
    return InternalError("a subfile has {} rows instead of {}; please report this", summary_.patches,
                         header_.patch_count);
  }
  if (file_->size() != payload_end_) {
    return InternalError("a subfile has {} bytes of header and payload instead of {}; please report this",
                         file_->size(), payload_end_);
  }
  QUARRY_RETURN_IF_ERROR(file_->Sync());
  QUARRY_ASSIGN_OR_RETURN(const format::SubfileFooter footer, AppendTable());
  QUARRY_RETURN_IF_ERROR(FinishFile(footer));
  summary_.bytes = footer.file_size;
  summary_.table_checksum = footer.table_checksum;
  return summary_;
}

}  // namespace quarry::writer
