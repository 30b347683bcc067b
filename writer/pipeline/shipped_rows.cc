#include "writer/pipeline/shipped_rows.h"

namespace quarry::writer {
namespace {

constexpr std::size_t kBytesOfPart = sizeof(std::uint32_t) + sizeof(std::uint64_t);

format::PatchEntry TakeRow(ByteSpan bytes, const PatchParts& parts, const format::PartRun& run,
                           bool first_run) {
  if (first_run) return format::PatchEntry::DecodeFrom(bytes, parts.count());
  format::PatchEntry row;
  row.levels.resize(static_cast<std::size_t>(parts.count()));
  LittleEndianReader reader(bytes.data());
  for (int part = run.last; part <= run.first; ++part) {
    format::LevelEntry& level = row.levels[static_cast<std::size_t>(part)];
    level.size = reader.Get<std::uint32_t>();
    level.checksum = reader.Get<std::uint64_t>();
  }
  return row;
}

}  // namespace

std::size_t ShippedRowSize(const PatchParts& parts, const format::PartRun& run, bool first_run) {
  if (first_run) return format::PatchEntry::EncodedSize(parts.count());
  return static_cast<std::size_t>(run.first - run.last + 1) * kBytesOfPart;
}

void ShipRow(const format::PatchEntry& row, const format::PartRun& run, bool first_run, Bytes* out) {
  if (first_run) return row.EncodeTo(out);
  for (int part = run.last; part <= run.first; ++part) {
    const format::LevelEntry& level = row.levels[static_cast<std::size_t>(part)];
    PutLittleEndian(out, level.size);
    PutLittleEndian(out, level.checksum);
  }
}

bool ArrivedPatches::Next(format::PatchEntry* row, ByteSpan* payload) {
  const std::size_t size = ShippedRowSize(parts_, run_, first_run_);
  if (head_.size() < size) return false;
  *row = TakeRow(head_.first(size), parts_, run_, first_run_);
  head_ = head_.subspan(size);
  const std::uint64_t bytes = PayloadBytes(*row, run_);
  if (body_.size() < bytes) return false;
  *payload = body_.first(bytes);
  body_ = body_.subspan(bytes);
  return true;
}

}  // namespace quarry::writer
