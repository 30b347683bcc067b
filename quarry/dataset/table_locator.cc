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

/// Opens a subfile that step.json lists.
Result<std::shared_ptr<const StoredObject>> OpenSubfile(const Location& path) {
  Result<std::shared_ptr<const StoredObject>> file = path.Open();
  if (!file.ok()) return StatusOfPart(std::move(file).status(), path, ", though step.json lists it");
  return file;
}

/// The subfile that a manifest describes by `expected`. A file that is undamaged may still be the wrong one:
/// from another step, or from an older write.
/// @param header  what the file's own must equal, except order, version, and number and blocks of the patches
Result<SubfileTable> LoadExpected(const Location& path, const format::SubfileHeader& header,
                                  const SubfileDescription& expected) {
  QUARRY_ASSIGN_OR_RETURN(const std::shared_ptr<const StoredObject> file, OpenSubfile(path));
  QUARRY_ASSIGN_OR_RETURN(SubfileTable table, format::ReadSubfileTable(*file, expected.patches));
  format::SubfileHeader wanted = header;
  wanted.version = table.header.version;
  wanted.order = table.header.order;
  wanted.block_bits = table.header.block_bits;
  wanted.patch_count = expected.patches;
  if (table.header != wanted || table.footer.table_checksum != expected.table_checksum ||
      table.footer.file_size != expected.bytes) {
    return DataLoss("\"{}\" is not the subfile that step.json describes (field \"{}\", step {}, number {})",
                    path, table.header.field_name, table.header.step, table.header.subfile_number);
  }
  return table;
}

/// The blocks of a table, kept beside it. The file is opened once, when the first one has to be read.
class KeptBlocks final : public format::BlockSource {
 public:
  /// @param key  that of the table
  KeptBlocks(std::shared_ptr<const SubfileTable> table, Location path, const MetadataCache& metadata,
             const MetadataCache::Key& key)
      : table_(std::move(table)), path_(std::move(path)), metadata_(metadata), key_(key) {}

  Result<std::shared_ptr<const format::PatchRows>> Rows(const format::BlockPlace& place) override {
    return Obtain<format::PatchRows>(place, format::ReadBlock);
  }
  Result<std::shared_ptr<const format::TableIndex>> Entries(const format::BlockPlace& place) override {
    return Obtain<format::TableIndex>(place, format::ReadEntries);
  }

 private:
  template <typename T, typename Read>
  Result<std::shared_ptr<const T>> Obtain(const format::BlockPlace& place, const Read& read) {
    const std::uint64_t bytes = format::BlockMemory(*table_, place);
    QUARRY_RETURN_IF_ERROR(metadata_.CheckFits(bytes, path_.path));
    key_.stage = place.stage;
    key_.block = place.number;
    return metadata_.Obtain<T>(
        key_, [&] { return bytes; },
        [&]() -> Result<T> {
          if (!file_) {
            QUARRY_ASSIGN_OR_RETURN(file_, OpenSubfile(path_));
          }
          return read(*file_, *table_, place);
        });
  }

  const std::shared_ptr<const SubfileTable> table_;
  const Location path_;
  const MetadataCache& metadata_;
  MetadataCache::Key key_;
  std::shared_ptr<const StoredObject> file_;
};

using TableOf = std::function<Result<TableWalk>(std::size_t subfile)>;

using Rows = format::PatchRows;

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

/// The rows of a table whose codes are in a run, block by block. Runs are asked for in ascending order.
class RowFinder {
 public:
  RowFinder(const PatchGrid& grid, TableWalk* walk) : grid_(grid), walk_(walk) {}

  template <typename Visit>
  Status ForEach(const MortonRun& run, const Visit& visit) {
    QUARRY_RETURN_IF_ERROR(Enter([&] { return walk_->Seek(run.begin); }));
    while (true) {
      const Rows& rows = walk_->rows();
      const auto first = rows.begin() + static_cast<std::ptrdiff_t>(next_);
      for (auto row = FindCode(grid_, first, rows.end(), run.begin); row != rows.end(); ++row) {
        next_ = static_cast<std::size_t>(row - rows.begin());
        if (grid_.PatchMorton(static_cast<std::int64_t>(row->patch_index)) >= run.end) return Status::Ok();
        visit(*row);
      }
      if (run.end <= walk_->end_code() || walk_->block() + 1 >= walk_->blocks()) return Status::Ok();
      QUARRY_RETURN_IF_ERROR(Enter([&] { return walk_->GoTo(walk_->block() + 1); }));
    }
  }

 private:
  template <typename Go>
  Status Enter(const Go& go) {
    QUARRY_RETURN_IF_ERROR(go());
    if (block_ != walk_->block()) next_ = 0;
    block_ = walk_->block();
    return Status::Ok();
  }

  const PatchGrid& grid_;
  TableWalk* const walk_;
  std::uint64_t block_ = 0;  ///< where the walk is
  std::size_t next_ = 0;     ///< no row before this one of the block is wanted
};

/// The rows of a range from the tables of one set of subfiles; exactly one for each position. First the boxes
/// of subfiles, and because these have holes, their pieces of the curve; then the blocks of the tables, then
/// the patches. A thin box takes time for its own patches, not for all of the tables. A table gives only
/// patches of its own piece of the curve, so that none is found twice.
/// @param folder  of the subfiles, for messages
Result<std::vector<query::LocatedPatch>> FindRows(const PatchGrid& grid, const query::PatchRange& range,
                                                  const std::vector<SubfileDescription>& subfiles,
                                                  const TableOf& table_of, const Location& folder) {
  std::vector<query::LocatedPatch> found;
  const std::uint64_t wanted = range.count();
  found.reserve(wanted);
  std::uint64_t next_rank = 0;
  for (std::size_t s = 0; s < subfiles.size(); ++s) {
    const std::uint64_t rank = next_rank;
    next_rank += subfiles[s].patches;
    if (Intersect(grid.PatchesMeeting(subfiles[s].bounds), range.positions).empty()) continue;
    query::RangeRuns runs(range, CodesOfRanks(grid, rank, next_rank));
    std::optional<MortonRun> run = runs.Next();
    if (!run) continue;
    QUARRY_ASSIGN_OR_RETURN(TableWalk walk, table_of(s));
    RowFinder finder(grid, &walk);
    for (; run && walk.blocks() > 0; run = runs.Next()) {
      QUARRY_RETURN_IF_ERROR(finder.ForEach(*run, [&](const format::PatchEntry& row) {
        found.push_back({static_cast<std::uint32_t>(s), row});
      }));
    }
  }
  if (found.size() != wanted) {
    return DataLoss("\"{}\" lists {} of the {} patches at positions {}; run \"quarry verify\"", folder,
                    found.size(), wanted, ToString(range.positions));
  }
  return found;
}

}  // namespace

Result<std::shared_ptr<const FieldStepDescription>> TableLocator::FieldOf(std::uint64_t step,
                                                                          std::size_t field_number) const {
  const std::string& name = dataset_.fields[field_number].name;
  QUARRY_ASSIGN_OR_RETURN(auto field, fields_(step, name));
  if (!field) return NotFound("field \"{}\" is not in step {}", name, step);
  return field;
}

Result<std::vector<query::LocatedPatch>> TableLocator::Find(std::uint64_t step, std::size_t field_number,
                                                            const query::PatchRange& range) const {
  QUARRY_ASSIGN_OR_RETURN(const PatchGrid grid, PatchesOf(dataset_.GridOf(field_number)));
  QUARRY_ASSIGN_OR_RETURN(const auto field, FieldOf(step, field_number));
  return FindRows(
      grid, range, field->subfiles,
      [&](std::size_t subfile) { return Walk(step, field_number, subfile, Blocks::kKeep); },
      root_ / format::StepFolder(step) / field->name);
}

Result<std::vector<query::LocatedPatch>> TableLocator::FindMask(std::uint64_t step, std::size_t field_number,
                                                                const query::PatchRange& range) const {
  QUARRY_ASSIGN_OR_RETURN(const PatchGrid grid, PatchesOf(dataset_.GridOf(field_number)));
  QUARRY_ASSIGN_OR_RETURN(const auto field, FieldOf(step, field_number));
  const auto& mask = field->mask;
  if (!mask) return std::vector<query::LocatedPatch>();
  return FindRows(
      grid, range, mask->subfiles,
      [&](std::size_t subfile) { return WalkMask(*mask, subfile, Blocks::kKeep); },
      root_ / format::MaskFolder(mask->name));
}

Result<TableWalk> TableLocator::Walk(std::uint64_t step, std::size_t field_number, std::size_t subfile,
                                     Blocks blocks) const {
  QUARRY_ASSIGN_OR_RETURN(const auto field, FieldOf(step, field_number));
  format::SubfileHeader header = FieldHeader(dataset_, step, field_number, field->mask_name());
  header.subfile_number = static_cast<std::uint32_t>(subfile);
  return WalkOf({MetadataCache::Key::Kind::kTable, step, field_number, subfile},
                SubfileLocation(root_, step, field->name, subfile), header, field->subfiles[subfile], blocks);
}

Result<TableWalk> TableLocator::WalkMask(const MaskDescription& mask, std::size_t subfile,
                                         Blocks blocks) const {
  format::SubfileHeader header = format::MaskHeader(mask.name, dataset_.grids[mask.grid], dataset_.order);
  header.subfile_number = static_cast<std::uint32_t>(subfile);
  return WalkOf({MetadataCache::Key::Kind::kMaskTable, mask.name, mask.grid, subfile},
                MaskSubfileLocation(root_, mask.name, subfile), header, mask.subfiles[subfile], blocks);
}

Result<TableWalk> TableLocator::WalkOf(const MetadataCache::Key& key, const Location& path,
                                       const format::SubfileHeader& header,
                                       const SubfileDescription& expected, Blocks blocks) const {
  const std::uint64_t bytes = format::TableMemory(expected.patches, header.parts());
  QUARRY_RETURN_IF_ERROR(metadata_->CheckFits(bytes, path.path));
  QUARRY_ASSIGN_OR_RETURN(const auto table, metadata_->Obtain<SubfileTable>(
                                                key, [&] { return bytes; },
                                                [&] { return LoadExpected(path, header, expected); }));
  if (blocks == Blocks::kKeep)
    return TableWalk(table, std::make_unique<KeptBlocks>(table, path, *metadata_, key));
  QUARRY_ASSIGN_OR_RETURN(const std::shared_ptr<const StoredObject> file, OpenSubfile(path));
  return TableWalk(table, file);
}

}  // namespace quarry
