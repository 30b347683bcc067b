#include "quarry/dataset/table_locator.h"

#include <algorithm>
#include <limits>

#include "quarry/format/description_rules.h"
#include "quarry/format/manifest.h"
#include "quarry/format/mask.h"
#include "quarry/geometry/morton.h"

namespace quarry {

format::SubfileHeader FieldHeader(const DatasetDescription& dataset, std::uint64_t step,
                                  std::size_t field_number, std::uint64_t mask) {
  const FieldDescription& field = dataset.fields[field_number];
  const GridDescription& grid = dataset.GridOf(field);
  format::SubfileHeader header;
  header.step = step;
  header.field_number = dataset.NumberOf(field_number);
  header.dims = grid.dims;
  header.patch = grid.patch;
  header.levels = grid.levels;
  header.layers = field.layers();
  header.type = field.type;
  header.coder = field.coder;
  header.order = dataset.order;
  header.field_name = field.name;
  header.mask = mask;
  return header;
}

Location SubfileLocation(const Location& root, std::uint64_t step, const std::string& field,
                         std::size_t subfile) {
  return root / format::StepFolder(step) / field / format::SubfileName(subfile);
}

Location MaskSubfileLocation(const Location& root, std::uint64_t mask, std::size_t subfile) {
  return root / format::MaskFolder(mask) / format::SubfileName(subfile);
}

namespace {

/// The subfile that a manifest describes by `expected`. A file that is undamaged may still be the wrong one:
/// from another step, or from an older write.
/// @param header  what the file's own must equal, except order, version and number of patches
Result<SubfileTable> LoadExpected(const Location& path, const format::SubfileHeader& header,
                                  const SubfileDescription& expected) {
  Result<std::shared_ptr<const StoredObject>> file = path.Open();
  if (!file.ok()) return StatusOfPart(std::move(file).status(), path, ", though step.json lists it");
  QUARRY_ASSIGN_OR_RETURN(SubfileTable table, format::ReadSubfileTable(**file, expected.patches));
  format::SubfileHeader wanted = header;
  wanted.version = table.header.version;
  wanted.order = table.header.order;
  wanted.patch_count = expected.patches;
  if (table.header != wanted || table.footer.table_checksum != expected.table_checksum ||
      table.footer.file_size != expected.bytes) {
    return DataLoss("\"{}\" is not the subfile that step.json describes (field \"{}\", step {}, number {})",
                    path, table.header.field_name, table.header.step, table.header.subfile_number);
  }
  return table;
}

using TableOf = std::function<Result<std::shared_ptr<const SubfileTable>>(std::size_t subfile)>;

using Rows = std::vector<format::PatchEntry>;

/// The first row from `row` on whose code is at least `code`. Rows are in Morton order. Steps that double,
/// then halve: the next run of a box is often near.
Rows::const_iterator FindCode(const PatchGrid& grid, Rows::const_iterator row, Rows::const_iterator end,
                              std::uint64_t code) {
  const auto before = [&](const format::PatchEntry& entry, std::uint64_t wanted) {
    return grid.PatchMorton(static_cast<std::int64_t>(entry.patch_index)) < wanted;
  };
  std::ptrdiff_t step = 1;
  while (step < end - row && before(row[step], code)) {
    row += step;
    step *= 2;
  }
  return std::lower_bound(row, row + std::min(step, end - row), code, before);
}

/// The codes of the patches `begin` to `end` along the curve: those of a subfile, by the numbers of patches
/// in the manifest. Numbers that are too large, which only a damaged manifest has, stand for no code.
MortonRun CodesOfRanks(const PatchGrid& grid, std::uint64_t begin, std::uint64_t end) {
  const auto code = [&](std::uint64_t rank) {
    return rank < static_cast<std::uint64_t>(grid.patch_count())
               ? MortonCodeOfRank(grid.patches(), static_cast<std::int64_t>(rank))
               : std::numeric_limits<std::uint64_t>::max();
  };
  return {code(begin), code(end)};
}

/// The codes of a table, from its first row to its last.
MortonRun CodesOf(const PatchGrid& grid, const Rows& rows) {
  if (rows.empty()) return {};
  const auto code = [&](const format::PatchEntry& row) {
    return grid.PatchMorton(static_cast<std::int64_t>(row.patch_index));
  };
  return {code(rows.front()), code(rows.back()) + 1};
}

MortonRun Common(const MortonRun& a, const MortonRun& b) {
  return {std::max(a.begin, b.begin), std::min(a.end, b.end)};
}

/// The rows of a range from the tables of one set of subfiles; exactly one for each position. First
/// the boxes of subfiles, and because these have holes, their pieces of the curve; then the patches. A thin
/// box takes time for its own patches, not for all of the tables.
/// @param folder  of the subfiles, for messages
Result<std::vector<query::LocatedPatch>> FindRows(const PatchGrid& grid, const query::PatchRange& range,
                                                  const std::vector<SubfileDescription>& subfiles,
                                                  const TableOf& table_of, const Location& folder) {
  std::vector<query::LocatedPatch> found;
  const std::uint64_t wanted = range.count();
  found.reserve(wanted);
  std::uint64_t last_code = 0;
  std::uint64_t next_rank = 0;
  for (std::size_t s = 0; s < subfiles.size(); ++s) {
    const std::uint64_t rank = next_rank;
    next_rank += subfiles[s].patches;
    if (Intersect(grid.PatchesMeeting(subfiles[s].bounds), range.positions).empty()) continue;
    const MortonRun codes = Common(CodesOfRanks(grid, rank, next_rank), range.codes);
    if (!MortonRuns(range.positions, codes).Next()) continue;
    QUARRY_ASSIGN_OR_RETURN(const std::shared_ptr<const SubfileTable> table, table_of(s));
    auto row = table->rows.begin();
    MortonRuns runs(range.positions, Common(CodesOf(grid, table->rows), range.codes));
    for (std::optional<MortonRun> run = runs.Next(); run; run = runs.Next()) {
      for (row = FindCode(grid, row, table->rows.end(), run->begin); row != table->rows.end(); ++row) {
        const std::uint64_t code = grid.PatchMorton(static_cast<std::int64_t>(row->patch_index));
        if (code >= run->end) break;
        // Tables and subfiles are in Morton order: a patch that is in two of them shows here.
        if (!found.empty() && code <= last_code) {
          return DataLoss("\"{}\" has patch {} out of order; run \"quarry verify\"",
                          folder / subfiles[s].name, row->patch_index);
        }
        last_code = code;
        found.push_back({static_cast<std::uint32_t>(s), *row});
      }
    }
  }
  if (found.size() != wanted) {
    return DataLoss("\"{}\" lists {} of the {} patches at positions {}; run \"quarry verify\"", folder,
                    found.size(), wanted, ToString(range.positions));
  }
  return found;
}

/// [bytes] to read and decode a table.
std::uint64_t LoadingMemory(const SubfileDescription& subfile, const PatchParts& parts) {
  constexpr std::uint64_t kAllocation = 16;
  const std::uint64_t decoded = sizeof(format::PatchEntry) + kAllocation +
                                static_cast<std::uint64_t>(parts.count()) * sizeof(format::LevelEntry);
  return subfile.patches * (format::PatchEntry::EncodedSize(parts.count()) + decoded);
}

}  // namespace

Result<std::shared_ptr<const StepDescription>> TableLocator::StepWith(std::uint64_t step,
                                                                      std::size_t field_number) const {
  QUARRY_ASSIGN_OR_RETURN(std::shared_ptr<const StepDescription> description, steps_(step));
  const std::string& name = dataset_.fields[field_number].name;
  if (description->FindField(name) == nullptr) return NotFound("field \"{}\" is not in step {}", name, step);
  return description;
}

Result<std::vector<query::LocatedPatch>> TableLocator::Find(std::uint64_t step, std::size_t field_number,
                                                            const query::PatchRange& range) const {
  QUARRY_ASSIGN_OR_RETURN(const PatchGrid grid, PatchesOf(dataset_.GridOf(field_number)));
  QUARRY_ASSIGN_OR_RETURN(const auto description, StepWith(step, field_number));
  const std::string& name = dataset_.fields[field_number].name;
  return FindRows(
      grid, range, description->FindField(name)->subfiles,
      [&](std::size_t subfile) { return Table(step, field_number, subfile); },
      root_ / format::StepFolder(step) / name);
}

Result<std::vector<query::LocatedPatch>> TableLocator::FindMask(std::uint64_t step, std::size_t field_number,
                                                                const query::PatchRange& range) const {
  QUARRY_ASSIGN_OR_RETURN(const PatchGrid grid, PatchesOf(dataset_.GridOf(field_number)));
  QUARRY_ASSIGN_OR_RETURN(const auto description, StepWith(step, field_number));
  const auto& mask = description->FindField(dataset_.fields[field_number].name)->mask;
  if (!mask) return std::vector<query::LocatedPatch>();
  return FindRows(
      grid, range, mask->subfiles, [&](std::size_t subfile) { return MaskTable(*mask, subfile); },
      root_ / format::MaskFolder(mask->name));
}

Result<std::shared_ptr<const SubfileTable>> TableLocator::Table(std::uint64_t step, std::size_t field_number,
                                                                std::size_t subfile) const {
  QUARRY_ASSIGN_OR_RETURN(const auto description, StepWith(step, field_number));
  const FieldStepDescription& field = *description->FindField(dataset_.fields[field_number].name);
  return metadata_->Obtain<SubfileTable>(
      {MetadataCache::Key::Kind::kTable, step, field_number, subfile},
      [&] {
        const int layers = dataset_.fields[field_number].layers();
        return LoadingMemory(field.subfiles[subfile], {dataset_.GridOf(field_number).levels, layers});
      },
      [&] { return LoadTable(*description, field_number, subfile); });
}

Result<std::shared_ptr<const SubfileTable>> TableLocator::MaskTable(const MaskDescription& mask,
                                                                    std::size_t subfile) const {
  return metadata_->Obtain<SubfileTable>(
      {MetadataCache::Key::Kind::kMaskTable, mask.name, mask.grid, subfile},
      [&] {
        return LoadingMemory(mask.subfiles[subfile], {dataset_.grids[mask.grid].levels, 1});
      },
      [&] { return LoadMaskTable(mask, subfile); });
}

Result<SubfileTable> TableLocator::LoadTable(const StepDescription& step, std::size_t field_number,
                                             std::size_t subfile) const {
  const std::string& field = dataset_.fields[field_number].name;
  const FieldStepDescription& described = *step.FindField(field);
  format::SubfileHeader header = FieldHeader(dataset_, step.step, field_number, described.mask_name());
  header.subfile_number = static_cast<std::uint32_t>(subfile);
  return LoadExpected(SubfileLocation(root_, step.step, field, subfile), header, described.subfiles[subfile]);
}

Result<SubfileTable> TableLocator::LoadMaskTable(const MaskDescription& mask, std::size_t subfile) const {
  format::SubfileHeader header = format::MaskHeader(mask.name, dataset_.grids[mask.grid], dataset_.order);
  header.subfile_number = static_cast<std::uint32_t>(subfile);
  return LoadExpected(MaskSubfileLocation(root_, mask.name, subfile), header, mask.subfiles[subfile]);
}

}  // namespace quarry
