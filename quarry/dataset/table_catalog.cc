#include "quarry/dataset/table_catalog.h"

#include "quarry/format/manifest.h"
#include "quarry/geometry/morton.h"

namespace quarry {

namespace fs = std::filesystem;

fs::path SubfilePath(const fs::path& root, std::uint64_t step, const std::string& field,
                     std::size_t subfile) {
  return root / format::StepFolder(step) / field / format::SubfileName(subfile);
}

Result<SubfileTable> ReadSubfileTable(const RandomAccessFile& file) {
  const std::string where = fmt::format("\"{}\"", file.path());
  constexpr std::uint64_t kSmallest =
      format::SubfileHeader::kEncodedSize + format::SubfileFooter::kEncodedSize;
  if (file.size() < kSmallest)
    return DataLoss("{} has {} bytes, too few for a subfile; it is truncated", where, file.size());
  Bytes bytes(format::SubfileHeader::kEncodedSize);
  QUARRY_RETURN_IF_ERROR(file.ReadAt(0, bytes));
  SubfileTable table;
  Result<format::SubfileHeader> header = format::SubfileHeader::DecodeFrom(bytes);
  if (!header.ok()) return std::move(header).status().Annotate(where);
  table.header = *std::move(header);

  bytes.resize(format::SubfileFooter::kEncodedSize);
  QUARRY_RETURN_IF_ERROR(file.ReadAt(file.size() - bytes.size(), bytes));
  Result<format::SubfileFooter> footer = format::SubfileFooter::DecodeFrom(bytes);
  if (!footer.ok()) return std::move(footer).status().Annotate(where);
  table.footer = *footer;
  if (table.footer.file_size != file.size()) {
    return DataLoss("{} has {} bytes, its footer says {}", where, file.size(), table.footer.file_size);
  }

  bytes.resize(table.footer.table_size);
  QUARRY_RETURN_IF_ERROR(file.ReadAt(table.footer.table_offset, bytes));
  Result<std::vector<format::PatchEntry>> rows = format::DecodePatchTable(bytes, table.header, table.footer);
  if (!rows.ok()) return std::move(rows).status().Annotate(where);
  table.rows = *std::move(rows);
  return table;
}

Result<std::vector<query::CatalogEntry>> TableCatalog::Find(std::uint64_t step, std::size_t field_number,
                                                            const Box& positions) const {
  QUARRY_ASSIGN_OR_RETURN(const PatchGrid grid, PatchGrid::Create(dataset_.grid.dims, dataset_.patch));
  QUARRY_ASSIGN_OR_RETURN(const std::shared_ptr<const StepDescription> description, steps_(step));
  const FieldStepDescription* field = description->FindField(dataset_.fields[field_number].name);
  if (field == nullptr)
    return NotFound("field \"{}\" is not in step {}", dataset_.fields[field_number].name, step);

  std::vector<query::CatalogEntry> found;
  std::uint64_t last_code = 0;
  for (std::size_t s = 0; s < field->subfiles.size(); ++s) {
    if (Intersect(grid.PatchesMeeting(field->subfiles[s].bounds), positions).empty()) continue;
    QUARRY_ASSIGN_OR_RETURN(const std::shared_ptr<const SubfileTable> table, Table(step, field_number, s));
    for (const format::PatchEntry& row : table->rows) {
      const Index3 p = grid.PatchPosition(static_cast<std::int64_t>(row.patch_index));
      if (!positions.Contains({p, {p[0] + 1, p[1] + 1, p[2] + 1}})) continue;
      // Each table is in Morton order and so are the subfiles: a patch that is in two of them shows here.
      const std::uint64_t code = MortonEncode(p);
      if (!found.empty() && code <= last_code) {
        return DataLoss("\"{}\" has patch {} out of order; run \"quarry verify\"",
                        SubfilePath(root_, step, field->name, s).string(), row.patch_index);
      }
      last_code = code;
      found.push_back({static_cast<std::uint32_t>(s), row});
    }
  }
  if (found.size() != static_cast<std::size_t>(positions.volume())) {
    return DataLoss(
        "\"{}\" lists {} of the {} patches at positions {} of field \"{}\", step {}; run \"quarry verify\"",
        root_.string(), found.size(), positions.volume(), ToString(positions), field->name, step);
  }
  return found;
}

Result<std::shared_ptr<const SubfileTable>> TableCatalog::Table(std::uint64_t step, std::size_t field_number,
                                                                std::size_t subfile) const {
  const auto key = std::make_tuple(step, field_number, subfile);
  {
    const std::lock_guard lock(mutex_);
    if (const auto hit = cache_.find(key); hit != cache_.end()) return hit->second;
  }
  QUARRY_ASSIGN_OR_RETURN(const std::shared_ptr<const StepDescription> description, steps_(step));
  QUARRY_ASSIGN_OR_RETURN(std::shared_ptr<const SubfileTable> table,
                          LoadTable(*description, field_number, subfile));
  const std::uint64_t bytes = table->footer.table_size;
  const std::lock_guard lock(mutex_);
  if (cached_bytes_ + bytes > kCacheBytes) {
    cache_.clear();
    cached_bytes_ = 0;
  }
  if (cache_.emplace(key, table).second) cached_bytes_ += bytes;
  return table;
}

Result<std::shared_ptr<const SubfileTable>> TableCatalog::LoadTable(const StepDescription& step,
                                                                    std::size_t field_number,
                                                                    std::size_t subfile) const {
  const FieldDescription& field = dataset_.fields[field_number];
  const FieldStepDescription* described = step.FindField(field.name);
  if (described == nullptr) return NotFound("field \"{}\" is not in step {}", field.name, step.step);
  const fs::path path = SubfilePath(root_, step.step, field.name, subfile);
  Result<RandomAccessFile> file = RandomAccessFile::Open(path);
  if (!file.ok() && file.status().code() == StatusCode::kNotFound) {
    return DataLoss("\"{}\" is missing, though step.json lists it", path.string());
  }
  if (!file.ok()) return std::move(file).status();
  QUARRY_ASSIGN_OR_RETURN(SubfileTable table, ReadSubfileTable(*file));

  // A file that is sound in itself may still be the wrong one: from another step, or an older write.
  const SubfileDescription& expected = described->subfiles[subfile];
  const format::SubfileHeader& header = table.header;
  if (header.step != step.step || header.field_name != field.name || header.field_number != field_number ||
      header.subfile_number != subfile || header.dims != dataset_.grid.dims ||
      header.patch != dataset_.patch || header.levels != dataset_.levels || header.type != field.type ||
      header.coder != field.coder || table.footer.table_checksum != expected.table_checksum ||
      table.footer.file_size != expected.bytes || header.patch_count != expected.patches) {
    return DataLoss("\"{}\" is not the subfile that step.json describes (field \"{}\", step {}, number {})",
                    path.string(), header.field_name, header.step, header.subfile_number);
  }
  return std::make_shared<const SubfileTable>(std::move(table));
}

}  // namespace quarry
