#include "quarry/dataset/table_catalog.h"

#include "quarry/format/manifest.h"
#include "quarry/format/mask.h"
#include "quarry/geometry/morton.h"

namespace quarry {

namespace fs = std::filesystem;

fs::path SubfilePath(const fs::path& root, std::uint64_t step, const std::string& field,
                     std::size_t subfile) {
  return root / format::StepFolder(step) / field / format::SubfileName(subfile);
}

fs::path MaskSubfilePath(const fs::path& root, std::uint64_t mask, std::size_t subfile) {
  return root / format::MaskFolder(mask) / format::SubfileName(subfile);
}

namespace {

/// A subfile of which a manifest says `expected`. A file that is sound in itself may still be the wrong one:
/// from another step, or an older write.
/// @param header  what the file's own must be equal to, but for order, version and number of patches
Result<std::shared_ptr<const SubfileTable>> LoadExpected(const fs::path& path,
                                                         const format::SubfileHeader& header,
                                                         const SubfileDescription& expected) {
  Result<RandomAccessFile> file = RandomAccessFile::Open(path);
  if (!file.ok() && file.status().code() == StatusCode::kNotFound)
    return DataLoss("\"{}\" is missing, though step.json lists it", path.string());
  if (!file.ok()) return std::move(file).status();
  QUARRY_ASSIGN_OR_RETURN(SubfileTable table, format::ReadSubfileTable(*file));
  format::SubfileHeader wanted = header;
  wanted.version = table.header.version;
  wanted.order = table.header.order;
  wanted.patch_count = expected.patches;
  if (table.header != wanted || table.footer.table_checksum != expected.table_checksum ||
      table.footer.file_size != expected.bytes) {
    return DataLoss("\"{}\" is not the subfile that step.json describes (field \"{}\", step {}, number {})",
                    path.string(), table.header.field_name, table.header.step, table.header.subfile_number);
  }
  return std::make_shared<const SubfileTable>(std::move(table));
}

using TableOf = std::function<Result<std::shared_ptr<const SubfileTable>>(std::size_t subfile)>;

/// The rows at some positions out of the tables of one set of subfiles; exactly one for each position.
/// @param folder  of the subfiles, for messages
Result<std::vector<query::CatalogEntry>> FindRows(const PatchGrid& grid, const Box& positions,
                                                  const std::vector<SubfileDescription>& subfiles,
                                                  const TableOf& table_of, const fs::path& folder) {
  std::vector<query::CatalogEntry> found;
  std::uint64_t last_code = 0;
  for (std::size_t s = 0; s < subfiles.size(); ++s) {
    if (Intersect(grid.PatchesMeeting(subfiles[s].bounds), positions).empty()) continue;
    QUARRY_ASSIGN_OR_RETURN(const std::shared_ptr<const SubfileTable> table, table_of(s));
    for (const format::PatchEntry& row : table->rows) {
      const Index3 p = grid.PatchPosition(static_cast<std::int64_t>(row.patch_index));
      if (!positions.Contains({p, {p[0] + 1, p[1] + 1, p[2] + 1}})) continue;
      // Each table is in Morton order and so are the subfiles: a patch that is in two of them shows here.
      const std::uint64_t code = MortonEncode(p);
      if (!found.empty() && code <= last_code) {
        return DataLoss("\"{}\" has patch {} out of order; run \"quarry verify\"",
                        (folder / subfiles[s].name).string(), row.patch_index);
      }
      last_code = code;
      found.push_back({static_cast<std::uint32_t>(s), row});
    }
  }
  if (found.size() != static_cast<std::size_t>(positions.volume())) {
    return DataLoss("\"{}\" lists {} of the {} patches at positions {}; run \"quarry verify\"",
                    folder.string(), found.size(), positions.volume(), ToString(positions));
  }
  return found;
}

}  // namespace

Result<std::shared_ptr<const StepDescription>> TableCatalog::StepWith(std::uint64_t step,
                                                                      std::size_t field_number) const {
  QUARRY_ASSIGN_OR_RETURN(std::shared_ptr<const StepDescription> description, steps_(step));
  const std::string& name = dataset_.fields[field_number].name;
  if (description->FindField(name) == nullptr) return NotFound("field \"{}\" is not in step {}", name, step);
  return description;
}

Result<std::vector<query::CatalogEntry>> TableCatalog::Find(std::uint64_t step, std::size_t field_number,
                                                            const Box& positions) const {
  QUARRY_ASSIGN_OR_RETURN(const PatchGrid grid, PatchGrid::Create(dataset_.grid.dims, dataset_.patch));
  QUARRY_ASSIGN_OR_RETURN(const auto description, StepWith(step, field_number));
  const std::string& name = dataset_.fields[field_number].name;
  return FindRows(
      grid, positions, description->FindField(name)->subfiles,
      [&](std::size_t subfile) { return Table(step, field_number, subfile); },
      root_ / format::StepFolder(step) / name);
}

Result<std::vector<query::CatalogEntry>> TableCatalog::FindMask(std::uint64_t step, std::size_t field_number,
                                                                const Box& positions) const {
  QUARRY_ASSIGN_OR_RETURN(const PatchGrid grid, PatchGrid::Create(dataset_.grid.dims, dataset_.patch));
  QUARRY_ASSIGN_OR_RETURN(const auto description, StepWith(step, field_number));
  const auto& mask = description->FindField(dataset_.fields[field_number].name)->mask;
  if (!mask) return std::vector<query::CatalogEntry>();
  return FindRows(
      grid, positions, mask->subfiles, [&](std::size_t subfile) { return MaskTable(*mask, subfile); },
      root_ / format::MaskFolder(mask->name));
}

Result<std::shared_ptr<const SubfileTable>> TableCatalog::Cached(const Key& key, const Load& load) const {
  {
    const std::lock_guard lock(mutex_);
    if (const auto hit = cache_.find(key); hit != cache_.end()) return hit->second;
  }
  QUARRY_ASSIGN_OR_RETURN(std::shared_ptr<const SubfileTable> table, load());
  const std::uint64_t bytes = table->footer.table_size;
  const std::lock_guard lock(mutex_);
  if (cached_bytes_ + bytes > kCacheBytes) {
    cache_.clear();
    cached_bytes_ = 0;
  }
  if (cache_.emplace(key, table).second) cached_bytes_ += bytes;
  return table;
}

Result<std::shared_ptr<const SubfileTable>> TableCatalog::Table(std::uint64_t step, std::size_t field_number,
                                                                std::size_t subfile) const {
  const auto load = [&]() -> Result<std::shared_ptr<const SubfileTable>> {
    QUARRY_ASSIGN_OR_RETURN(const auto description, StepWith(step, field_number));
    return LoadTable(*description, field_number, subfile);
  };
  return Cached({0, step, field_number, subfile}, load);
}

Result<std::shared_ptr<const SubfileTable>> TableCatalog::MaskTable(const MaskDescription& mask,
                                                                    std::size_t subfile) const {
  return Cached({mask.name, 0, 0, subfile}, [&] { return LoadMaskTable(mask, subfile); });
}

Result<std::shared_ptr<const SubfileTable>> TableCatalog::LoadTable(const StepDescription& step,
                                                                    std::size_t field_number,
                                                                    std::size_t subfile) const {
  const FieldDescription& field = dataset_.fields[field_number];
  const FieldStepDescription& described = *step.FindField(field.name);
  format::SubfileHeader header;
  header.step = step.step;
  header.field_number = static_cast<std::uint32_t>(field_number);
  header.subfile_number = static_cast<std::uint32_t>(subfile);
  header.dims = dataset_.grid.dims;
  header.patch = dataset_.patch;
  header.levels = dataset_.levels;
  header.type = field.type;
  header.coder = field.coder;
  header.field_name = field.name;
  header.mask = described.mask_name();
  return LoadExpected(SubfilePath(root_, step.step, field.name, subfile), header,
                      described.subfiles[subfile]);
}

Result<std::shared_ptr<const SubfileTable>> TableCatalog::LoadMaskTable(const MaskDescription& mask,
                                                                        std::size_t subfile) const {
  format::SubfileHeader header =
      format::MaskHeader(mask.name, dataset_.grid.dims, dataset_.patch, dataset_.levels, dataset_.order);
  header.subfile_number = static_cast<std::uint32_t>(subfile);
  return LoadExpected(MaskSubfilePath(root_, mask.name, subfile), header, mask.subfiles[subfile]);
}

}  // namespace quarry
