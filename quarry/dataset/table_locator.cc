#include "quarry/dataset/table_locator.h"

#include <algorithm>
#include <limits>

#include "quarry/base/checked_math.h"
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
  header.SetOrder(dataset.order);
  header.layers = field.layers();
  header.type = field.type;
  header.coder = field.coder;
  header.field_name = field.name;
  header.mask = mask;
  return header;
}

Status StatusOfSubfile(Status error, const Location& path) {
  return StatusOfPart(std::move(error), path, ", though step.json lists it");
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
/// @param header     what the file's own must equal, except order and coarse level, version, and number and
/// blocks of the patches
/// @param row_bytes  as many as a row of its table probably has
Result<SubfileTable> LoadExpected(const Location& path, const StoredObject& file,
                                  const format::SubfileHeader& header, const SubfileDescription& expected,
                                  std::uint64_t row_bytes) {
  const std::uint64_t back = format::TableBack(expected.patches, row_bytes, header);
  Result<SubfileTable> read = format::ReadSubfileTable(*path.storage, file, expected.patches, back);
  if (!read.ok()) return StatusOfSubfile(std::move(read).status(), path);
  SubfileTable table = *std::move(read);
  format::SubfileHeader wanted = header;
  wanted.version = table.header.version;
  wanted.order = table.header.order;
  wanted.coarse_level = table.header.coarse_level;
  wanted.block_bits = table.header.block_bits;
  wanted.patch_count = expected.patches;
  if (table.header != wanted || table.footer.table_checksum != expected.table_checksum ||
      table.footer.file_size != expected.bytes) {
    return DataLoss("\"{}\" is not the subfile that step.json describes (field \"{}\", step {}, number {})",
                    path, table.header.field_name, table.header.step, table.header.subfile_number);
  }
  return table;
}

/// [bytes] of a row in the tables of a field, from the bytes that are no payload. Rows have various sizes,
/// and a table may have larger ones than the others.
std::uint64_t RowBytes(const FieldStepDescription& field, const PatchParts& parts) {
  const std::uint64_t most = format::PatchEntry::EncodedSize(parts.count());
  std::uint64_t rest =
      field.subfiles.size() * (format::SubfileHeader::kEncodedSize + format::SubfileFooter::kEncodedSize);
  for (int layer = 0; layer < parts.layers; ++layer) {
    for (const LevelRecord& level : field.LevelsOf(layer)) rest += level.bytes;
  }
  if (rest >= field.stored_bytes || field.patches == 0) return most;
  const std::uint64_t mean = CeilDivide(field.stored_bytes - rest, field.patches);
  return std::min(most, field.subfiles.size() == 1 ? mean : mean + mean / 4);
}

/// The blocks of a table, kept beside it.
class KeptBlocks final : public format::BlockSource {
 public:
  /// @param key  that of the table
  KeptBlocks(std::shared_ptr<const SubfileTable> table, Location path,
             std::shared_ptr<const StoredObject> file, const MetadataCache& metadata,
             const MetadataCache::Key& key)
      : table_(std::move(table)),
        path_(std::move(path)),
        file_(std::move(file)),
        metadata_(metadata),
        key_(key) {}

  Result<std::shared_ptr<const format::PatchRows>> Rows(const format::BlockPlace& place) override {
    return Obtain<format::PatchRows>(place, format::ReadBlock);
  }
  Result<std::shared_ptr<const format::TableIndex>> Entries(const format::BlockPlace& place) override {
    return Obtain<format::TableIndex>(place, format::ReadEntries);
  }
  bool Has(const format::BlockPlace& place) const override { return metadata_.Has(KeyOf(place)); }

 private:
  MetadataCache::Key KeyOf(const format::BlockPlace& place) const {
    MetadataCache::Key key = key_;
    key.stage = place.stage;
    key.block = place.number;
    return key;
  }

  template <typename T, typename Read>
  Result<std::shared_ptr<const T>> Obtain(const format::BlockPlace& place, const Read& read) const {
    const std::uint64_t bytes = format::BlockMemory(*table_, place);
    QUARRY_RETURN_IF_ERROR(metadata_.CheckFits(bytes, path_.path));
    return metadata_.Obtain<T>(
        KeyOf(place), [&] { return bytes; },
        [&]() -> Result<T> {
          Result<T> block = read(*file_, *table_, place);
          if (!block.ok()) return StatusOfSubfile(std::move(block).status(), path_);
          return block;
        });
  }

  const std::shared_ptr<const SubfileTable> table_;
  const Location path_;
  const std::shared_ptr<const StoredObject> file_;
  const MetadataCache& metadata_;
  const MetadataCache::Key key_;
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

/// A subfile that may have patches of a range.
struct MetSubfile {
  std::size_t number = 0;
  MortonRun codes;  ///< its piece of the curve
};

/// The subfiles with patches of a range. First their boxes, and because these have holes, their pieces of the
/// curve.
std::vector<MetSubfile> SubfilesOf(const PatchGrid& grid, const query::PatchRange& range,
                                   const std::vector<SubfileDescription>& subfiles) {
  std::vector<MetSubfile> met;
  std::uint64_t next_rank = 0;
  for (std::size_t s = 0; s < subfiles.size(); ++s) {
    const std::uint64_t rank = next_rank;
    next_rank += subfiles[s].patches;
    if (Intersect(grid.PatchesMeeting(subfiles[s].bounds), range.positions).empty()) continue;
    const MortonRun codes = CodesOfRanks(grid, rank, next_rank);
    if (query::RangeRuns(range, codes).Next()) met.push_back({s, codes});
  }
  return met;
}

/// The rows of a range from the tables of one set of subfiles; exactly one for each position. Of the subfiles
/// that it meets, first the blocks of the tables, then the patches. A thin box takes time for its own
/// patches, not for all of the tables. A table gives only patches of its own piece of the curve, so that none
/// is found twice.
/// @param folder  of the subfiles, for messages
Result<std::vector<query::LocatedPatch>> FindRows(const PatchGrid& grid, const query::PatchRange& range,
                                                  const std::vector<MetSubfile>& subfiles,
                                                  const TableOf& table_of, const Location& folder) {
  std::vector<query::LocatedPatch> found;
  const std::uint64_t wanted = range.count();
  found.reserve(wanted);
  for (const MetSubfile& subfile : subfiles) {
    query::RangeRuns runs(range, subfile.codes);
    QUARRY_ASSIGN_OR_RETURN(TableWalk walk, table_of(subfile.number));
    RowFinder finder(grid, &walk);
    for (auto run = runs.Next(); run && walk.blocks() > 0; run = runs.Next()) {
      QUARRY_RETURN_IF_ERROR(finder.ForEach(*run, [&](const format::PatchEntry& row) {
        found.push_back({static_cast<std::uint32_t>(subfile.number), row});
      }));
    }
  }
  if (found.size() != wanted) {
    return DataLoss("\"{}\" lists {} of the {} patches at positions {}; run \"quarry verify\"", folder,
                    found.size(), wanted, ToString(range.positions));
  }
  return found;
}

/// The blocks of rows of a table that runs of codes meet, as far as the root has their entries, that is in
/// all but the largest tables.
std::vector<format::BlockPlace> BlocksOf(const TableWalk& walk, query::RangeRuns runs) {
  const SubfileTable& table = walk.table();
  std::vector<format::BlockPlace> places;
  if (table.stages.root() != 1 || !table.rows.empty() || table.root.size() == 0) return places;
  std::size_t next = 0;
  for (auto run = runs.Next(); run; run = runs.Next()) {
    std::size_t entry = std::max(next, table.root.Find(run->begin));
    for (; entry < table.root.size() && table.root.code(entry) < run->end; ++entry)
      places.push_back(walk.PlaceBelowRoot(entry));
    next = std::max(next, entry);
  }
  return places;
}

}  // namespace

Result<std::shared_ptr<const FieldStepDescription>> TableLocator::FieldOf(std::uint64_t step,
                                                                          std::size_t field_number) const {
  const std::string& name = dataset_.fields[field_number].name;
  QUARRY_ASSIGN_OR_RETURN(auto field, fields_(step, name));
  if (!field) return NotFound("field \"{}\" is not in step {}", name, step);
  return field;
}

/// The tables of one set of subfiles that a range meets.
class TableLocator::Wanted {
 public:
  /// @param key  of the table of subfile 0
  Wanted(const PatchGrid& grid, const query::PatchRange& range,
         const std::vector<SubfileDescription>& subfiles, MetadataCache::Key key, TableOf table_of)
      : range_(range), met_(SubfilesOf(grid, range, subfiles)), key_(key), table_of_(std::move(table_of)) {}

  std::size_t size() const { return met_.size(); }
  const std::vector<MetSubfile>& met() const { return met_; }
  Result<TableWalk> Table(std::size_t subfile) const { return table_of_(subfile); }
  MetadataCache::Key KeyOf(std::size_t i) const {
    MetadataCache::Key key = key_;
    key.subfile = met_[i].number;
    return key;
  }
  Result<TableWalk> Load(std::size_t i) const { return table_of_(met_[i].number); }
  std::vector<format::BlockPlace> BlocksIn(std::size_t i, const TableWalk& walk) const {
    return BlocksOf(walk, query::RangeRuns(range_, met_[i].codes));
  }

 private:
  const query::PatchRange range_;
  const std::vector<MetSubfile> met_;
  const MetadataCache::Key key_;
  const TableOf table_of_;
};

/// Loads tables that are not kept yet with one wait, and those of their blocks that are needed with a second
/// one, as far as the storage answers calls together. Errors come again when the tables are used.
/// @param steps  to which patches may refer: their records are loaded besides
void TableLocator::LoadTogether(const std::vector<Wanted>& wanted, const std::vector<std::uint64_t>& steps,
                                std::size_t field_number) const {
  constexpr std::size_t kMost = 256;  // more would leave the cache before they are used
  const Storage& storage = *root_.storage;
  if (storage.costs().side_by_side < 2) return;
  struct Loaded {
    const Wanted* of = nullptr;
    std::size_t number = 0;
    std::optional<TableWalk> walk = {};
  };
  std::vector<Loaded> tables;
  bool any_missing = !steps.empty();
  for (const Wanted& of : wanted) {
    for (std::size_t i = 0; i < of.size() && tables.size() < kMost; ++i) {
      tables.push_back({&of, i});
      any_missing = any_missing || !metadata_->Has(of.KeyOf(i));
    }
  }
  const auto load_table = [&](std::size_t i) {
    if (i >= tables.size()) {
      (void)fields_(steps[i - tables.size()], dataset_.fields[field_number].name);
    } else if (auto walk = tables[i].of->Load(tables[i].number); walk.ok()) {
      tables[i].walk = *std::move(walk);
    }
  };
  const std::size_t loads = tables.size() + steps.size();
  if (any_missing) {
    storage.AtOnce(loads, load_table);
  } else {
    for (std::size_t i = 0; i < loads; ++i) load_table(i);
  }
  std::vector<std::pair<format::BlockSource*, format::BlockPlace>> blocks;
  for (Loaded& table : tables) {
    if (!table.walk) continue;
    for (const format::BlockPlace& place : table.of->BlocksIn(table.number, *table.walk)) {
      if (blocks.size() < kMost && !table.walk->source().Has(place))
        blocks.emplace_back(&table.walk->source(), place);
    }
  }
  storage.AtOnce(blocks.size(), [&](std::size_t i) { (void)blocks[i].first->Rows(blocks[i].second); });
}

Result<std::vector<query::LocatedPatch>> TableLocator::Find(std::uint64_t step, std::size_t field_number,
                                                            const query::PatchRange& range) const {
  QUARRY_ASSIGN_OR_RETURN(const PatchGrid grid, PatchesOf(dataset_.GridOf(field_number)));
  QUARRY_ASSIGN_OR_RETURN(const auto field, FieldOf(step, field_number));
  std::vector<Wanted> wanted;
  wanted.emplace_back(grid, range, field->subfiles,
                      MetadataCache::Key{MetadataCache::Key::Kind::kTable, step, field_number},
                      [&](std::size_t subfile) { return Walk(step, field_number, subfile, Blocks::kKeep); });
  // FindMask comes next: its tables come with these.
  if (field->mask)
    wanted.emplace_back(
        grid, range, field->mask->subfiles,
        MetadataCache::Key{MetadataCache::Key::Kind::kMaskTable, field->mask->name, field->mask->grid},
        [&](std::size_t subfile) { return WalkMask(*field->mask, subfile, Blocks::kKeep); });
  LoadTogether(wanted, field->references, field_number);
  const auto table_of = [&](std::size_t subfile) { return wanted.front().Table(subfile); };
  return FindRows(grid, range, wanted.front().met(), table_of,
                  root_ / format::StepFolder(step) / field->name);
}

Result<std::vector<query::LocatedPatch>> TableLocator::FindMask(std::uint64_t step, std::size_t field_number,
                                                                const query::PatchRange& range) const {
  QUARRY_ASSIGN_OR_RETURN(const PatchGrid grid, PatchesOf(dataset_.GridOf(field_number)));
  QUARRY_ASSIGN_OR_RETURN(const auto field, FieldOf(step, field_number));
  const auto& mask = field->mask;
  if (!mask) return std::vector<query::LocatedPatch>();
  return FindRows(
      grid, range, SubfilesOf(grid, range, mask->subfiles),
      [&](std::size_t subfile) { return WalkMask(*mask, subfile, Blocks::kKeep); },
      root_ / format::MaskFolder(mask->name));
}

Result<TableWalk> TableLocator::Walk(std::uint64_t step, std::size_t field_number, std::size_t subfile,
                                     Blocks blocks) const {
  QUARRY_ASSIGN_OR_RETURN(const auto field, FieldOf(step, field_number));
  format::SubfileHeader header = FieldHeader(dataset_, step, field_number, field->mask_name());
  header.subfile_number = static_cast<std::uint32_t>(subfile);
  return WalkOf({MetadataCache::Key::Kind::kTable, step, field_number, subfile},
                SubfileLocation(root_, step, field->name, subfile), header, field->subfiles[subfile],
                RowBytes(*field, header.parts()), blocks);
}

Result<TableWalk> TableLocator::WalkMask(const MaskDescription& mask, std::size_t subfile,
                                         Blocks blocks) const {
  format::SubfileHeader header = format::MaskHeader(mask.name, dataset_.grids[mask.grid], dataset_.order);
  header.subfile_number = static_cast<std::uint32_t>(subfile);
  return WalkOf({MetadataCache::Key::Kind::kMaskTable, mask.name, mask.grid, subfile},
                MaskSubfileLocation(root_, mask.name, subfile), header, mask.subfiles[subfile],
                format::PatchEntry::EncodedSize(header.parts().count()), blocks);
}

Result<TableWalk> TableLocator::WalkOf(const MetadataCache::Key& key, const Location& path,
                                       const format::SubfileHeader& header,
                                       const SubfileDescription& expected, std::uint64_t row_bytes,
                                       Blocks blocks) const {
  const std::uint64_t bytes =
      format::TableMemory(expected.patches, header.parts()) + root_.storage->costs().gap();
  QUARRY_RETURN_IF_ERROR(metadata_->CheckFits(bytes, path.path));
  const std::shared_ptr<const StoredObject> file = path.Refer(expected.bytes, expected.table_checksum);
  QUARRY_ASSIGN_OR_RETURN(const auto table, metadata_->Obtain<SubfileTable>(
                                                key, [&] { return bytes; },
                                                [&] {
                                                  return ReadPastWrongCopies(*file, 0, file->size(), [&] {
                                                    return LoadExpected(path, *file, header, expected,
                                                                        row_bytes);
                                                  });
                                                }));
  if (blocks == Blocks::kKeep)
    return TableWalk(table, std::make_unique<KeptBlocks>(table, path, file, *metadata_, key));
  return TableWalk(table, file);
}

}  // namespace quarry
