#include "quarry/index/index_writer.h"

#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <regex>
#include <set>

#include "quarry/base/directory_lock.h"
#include "quarry/base/file.h"
#include "quarry/format/description_rules.h"
#include "quarry/index/index_locator.h"
#include "quarry/index/piece_plan.h"
#include "quarry/index/piece_writer.h"
#include "quarry/index/records.h"
#include "quarry/index/seal.h"
#include "quarry/index/step_marks.h"
#include "quarry/storage/location.h"

namespace quarry::index {

namespace fs = std::filesystem;

namespace {

/// A file in the index's folder without a place in the index; removed at the end.
class WorkingFile {
 public:
  explicit WorkingFile(const fs::path& folder) : path_(folder / fmt::format("working-{}.mdb", ::getpid())) {
    Remove();
  }
  ~WorkingFile() { Remove(); }
  const fs::path& path() const { return path_; }

 private:
  void Remove() const {
    std::error_code ignored;
    fs::remove(path_, ignored);
  }
  const fs::path path_;
};

/// The pieces of the old index, whose valid records the new one takes over. LMDB never opens them: a hostile
/// file in the folder could end the process. Damaged ones are as if they were not there.
class OldPieces {
 public:
  /// @param seal  nothing: there is no old index, or it is not used
  OldPieces(fs::path folder, std::optional<Seal> seal)
      : folder_(std::move(folder)), is_used_(seal), seal_(std::move(seal).value_or(Seal())) {
    for (std::size_t p = 0; p < seal_.pieces.size(); ++p) {
      const Location path = Location(folder_) / seal_.pieces[p].file_name();
      const Result<ObjectInfo> info = path.Stat();
      const std::uint64_t bytes = info.ok() ? info->size : 0;
      if (bytes != seal_.pieces[p].bytes)
        Drop(p, DataLoss("index \"{}\" has {} bytes, sealed were {}", path, bytes, seal_.pieces[p].bytes));
    }
  }

  const Seal& seal() const { return seal_; }
  /// Whether these are the pieces of the index, all whole.
  bool Are(const Seal& index) const { return is_used_ && dropped_.empty() && index == seal_; }
  bool IsDropped(std::size_t number) const { return dropped_.contains(number); }
  std::size_t dropped() const { return dropped_.size(); }
  /// Why the first piece was dropped; empty: none was.
  const std::string& reason() const { return reason_; }

  void Drop(std::size_t number, const Status& damage) {
    if (dropped_.empty()) reason_ = damage.message();
    dropped_.insert(number);
    open_.erase(number);
  }

  /// Opens a piece. @errors those of OpenPiece, PrivateCopy::Map and PrivateCopy::Load
  Result<std::shared_ptr<const Piece>> Open(std::size_t number) {
    constexpr std::uint64_t kInMemory = 1 << 20;
    if (const auto known = open_.find(number); known != open_.end()) return known->second;
    const SealedPiece& sealed = seal_.pieces[number];
    const fs::path path = folder_ / fmt::format("working-{}-old.mdb", ::getpid());
    QUARRY_ASSIGN_OR_RETURN(PrivateCopy copy, sealed.bytes <= kInMemory
                                                  ? PrivateCopy::Load(folder_, sealed)
                                                  : PrivateCopy::Map(folder_, sealed, path));
    QUARRY_ASSIGN_OR_RETURN(std::shared_ptr<const Piece> piece, OpenPiece(folder_, sealed, std::move(copy)));
    return open_[number] = std::move(piece);
  }
  /// The number of an open piece.
  std::size_t NumberOf(const Piece* piece) const {
    return std::ranges::find(open_, piece, [](const auto& one) { return one.second.get(); })->first;
  }
  void CloseAll() { open_.clear(); }

 private:
  const fs::path folder_;
  const bool is_used_;
  const Seal seal_;
  std::set<std::size_t> dropped_;
  std::string reason_;
  std::map<std::size_t, std::shared_ptr<const Piece>> open_;
};

/// Makes an index of the steps of a dataset out of an old one and tables.
class Updater {
 public:
  using OnProgress = std::function<void(std::uint64_t, std::uint64_t)>;

  /// @param marks  of the dataset's steps
  Updater(const Dataset& dataset, const fs::path& folder, const OnProgress& progress, StepMarks* marks,
          OldPieces* old)
      : dataset_(dataset),
        folder_(folder),
        progress_(progress),
        steps_(dataset.steps()),
        marks_(*marks),
        old_(*old) {}

  /// Makes the pieces that the new index needs, as files that no seal names yet. May drop old pieces: if so,
  /// the call must be repeated with another Updater.
  /// @returns the seal of the new index
  Result<Seal> Update() {
    QUARRY_RETURN_IF_ERROR(FindSources());
    Seal seal;
    seal.pieces = old_.seal().pieces;
    for (SealedPiece& piece : seal.pieces) piece.ranges.clear();
    const std::vector<PieceSize> sizes = SizesOfOld();
    for (const PieceSize& size : sizes) old_bytes_ += size.bytes;
    const std::vector<PlannedPiece> planned = PlanPieces(sources_, sizes);
    to_load_ = static_cast<std::uint64_t>(std::ranges::count(sources_, kTables));
    for (const PlannedPiece& piece : planned) {
      if (piece.written) {
        QUARRY_RETURN_IF_ERROR(Write(piece, &seal));
        old_.CloseAll();
        continue;
      }
      QUARRY_ASSIGN_OR_RETURN(const SealedRange range, RangeOf(piece.begin, piece.end));
      seal.pieces[sources_[piece.begin]].ranges.push_back(range);
      done_ += piece.end - piece.begin;
    }
    std::erase_if(seal.pieces, [](const SealedPiece& piece) { return piece.ranges.empty(); });
    std::ranges::sort(seal.pieces, {}, [](const SealedPiece& piece) { return piece.ranges[0].first; });
    return seal;
  }

  /// After Update.
  const IndexReport& report() const { return report_; }

 private:
  /// Finds out which steps the old index has, without reading those whose marks are as they were.
  Status FindSources() {
    report_.steps = steps_.size();
    sources_.assign(steps_.size(), kTables);
    for (std::size_t p = 0; p < old_.seal().pieces.size(); ++p) {
      for (const SealedRange& range : old_.seal().pieces[p].ranges)
        if (!old_.IsDropped(p)) QUARRY_RETURN_IF_ERROR(FindSourcesIn(p, range));
    }
    return Status::Ok();
  }

  Status FindSourcesIn(std::size_t number, const SealedRange& range) {
    const auto begin = std::ranges::lower_bound(steps_, range.first);
    const auto end = std::ranges::upper_bound(steps_, range.last);
    const auto first = static_cast<std::size_t>(begin - steps_.begin());
    const auto last = static_cast<std::size_t>(end - steps_.begin());
    std::uint64_t kept = last - first;
    bool are_same = kept == range.steps;
    if (are_same) {
      QUARRY_ASSIGN_OR_RETURN(const std::uint64_t marks, marks_.OfRange(first, last));
      are_same = marks == range.marks;
    }
    if (are_same) {
      std::fill_n(sources_.begin() + static_cast<std::ptrdiff_t>(first), last - first, number);
    } else if (kept > 0) {
      QUARRY_ASSIGN_OR_RETURN(kept, CompareSteps(number, first, last));
      if (old_.IsDropped(number)) return Status::Ok();
    }
    report_.steps_removed += range.steps - std::min(kept, range.steps);
    return Status::Ok();
  }

  /// Compares steps one by one with a piece, which may be dropped.
  /// @param first,last  places of the first of them, and behind the last
  /// @returns how many are as they were
  Result<std::uint64_t> CompareSteps(std::size_t number, std::size_t first, std::size_t last) {
    std::uint64_t kept = 0;
    const auto compare = [&]() -> Status {
      QUARRY_ASSIGN_OR_RETURN(const std::shared_ptr<const Piece> piece, old_.Open(number));
      for (std::size_t i = first; i < last; ++i) {
        QUARRY_ASSIGN_OR_RETURN(const std::optional<StepRecord> record, RecordOf(*piece, steps_[i]));
        if (!record) continue;
        const Result<MarkedStep> step = marks_.Of(i);
        if (!step.ok()) failed_ = step.status();
        QUARRY_RETURN_IF_ERROR(failed_);
        bool is_same = record->mark == step->mark;
        if (!is_same) {
          const Result<std::uint64_t> checksum = StepManifestChecksum(dataset_.root(), steps_[i]);
          if (!checksum.ok()) failed_ = checksum.status();
          QUARRY_RETURN_IF_ERROR(failed_);
          is_same = record->checksum == *checksum;
        }
        if (is_same) sources_[i] = number;
        kept += is_same ? 1 : 0;
      }
      return Status::Ok();
    };
    const Status compared = compare();
    old_.CloseAll();
    QUARRY_RETURN_IF_ERROR(failed_);
    if (compared.code() != StatusCode::kDataLoss) QUARRY_RETURN_IF_ERROR(compared);
    if (compared.ok()) return kept;
    old_.Drop(number, compared);
    std::fill_n(sources_.begin() + static_cast<std::ptrdiff_t>(first), last - first, kTables);
    return std::uint64_t{0};
  }

  /// Nothing: the piece does not have the step.
  static Result<std::optional<StepRecord>> RecordOf(const Piece& piece, std::uint64_t step) {
    QUARRY_ASSIGN_OR_RETURN(const auto value, FindValue(piece.pages, piece.steps, StepKey(step)));
    if (!value) return std::optional<StepRecord>();
    QUARRY_ASSIGN_OR_RETURN(StepRecord record, StepRecord::Decode(*value));
    return std::optional<StepRecord>(std::move(record));
  }

  std::vector<PieceSize> SizesOfOld() const {
    std::vector<PieceSize> sizes;
    for (const SealedPiece& piece : old_.seal().pieces) sizes.push_back({piece.bytes, piece.steps});
    return sizes;
  }

  Result<SealedRange> RangeOf(std::size_t begin, std::size_t end) {
    QUARRY_ASSIGN_OR_RETURN(const std::uint64_t marks, marks_.OfRange(begin, end));
    return SealedRange{steps_[begin], steps_[end - 1], end - begin, marks};
  }

  /// Writes the steps of a planned piece to one piece, or several where there is too much for one.
  Status Write(const PlannedPiece& planned, Seal* seal) {
    for (std::size_t begin = planned.begin; begin < planned.end;) {
      const WorkingFile working(folder_);
      QUARRY_ASSIGN_OR_RETURN(const auto writer, PieceWriter::Create(working.path(), dataset_));
      const Result<std::size_t> end = Fill(writer.get(), begin, planned.end);
      if (writer->damaged() != nullptr) old_.Drop(old_.NumberOf(writer->damaged()), end.status());
      QUARRY_RETURN_IF_ERROR(end.status());
      QUARRY_ASSIGN_OR_RETURN(SealedPiece piece, SealFile(working.path()));
      QUARRY_RETURN_IF_ERROR(Rename(working.path(), folder_ / piece.file_name()));
      piece.steps = *end - begin;
      QUARRY_ASSIGN_OR_RETURN(const SealedRange range, RangeOf(begin, *end));
      piece.ranges = {range};
      seal->pieces.push_back(std::move(piece));
      begin = *end;
    }
    return Status::Ok();
  }

  /// @returns the end of the steps that the piece has
  Result<std::size_t> Fill(PieceWriter* writer, std::size_t begin, std::size_t end) {
    std::size_t step = begin;
    while (step < end) {
      QUARRY_RETURN_IF_ERROR(AddStep(writer, step++));
      progress_(++done_, steps_.size());
      if (writer->bytes() >= MostPieceBytes(BytesOfIndex(*writer))) break;
    }
    QUARRY_RETURN_IF_ERROR(writer->Finish());
    report_.steps_added += writer->loaded().steps;
    report_.fields_added += writer->loaded().fields;
    report_.patches_added += writer->loaded().patches;
    report_.masks_added += writer->loaded().masks;
    loaded_bytes_ += writer->loaded().bytes;
    return step;
  }

  Status AddStep(PieceWriter* writer, std::size_t step) {
    const std::size_t source = sources_[step];
    QUARRY_ASSIGN_OR_RETURN(const MarkedStep marked, marks_.Of(step));
    if (source == kTables) return writer->LoadStep(marked);
    Result<std::shared_ptr<const Piece>> piece = old_.Open(source);
    if (piece.status().code() == StatusCode::kDataLoss) old_.Drop(source, piece.status());
    QUARRY_RETURN_IF_ERROR(piece.status());
    return writer->CopyStep(*piece, marked);
  }

  /// An estimate: steps that are still to be loaded have as many bytes as those that were, in the mean.
  std::uint64_t BytesOfIndex(const PieceWriter& writer) const {
    const std::uint64_t steps = report_.steps_added + writer.loaded().steps;
    if (steps == 0) return old_bytes_;
    return old_bytes_ + (loaded_bytes_ + writer.loaded().bytes) / steps * to_load_;
  }

  const Dataset& dataset_;
  const fs::path& folder_;
  const OnProgress& progress_;
  const std::vector<std::uint64_t>& steps_;
  StepMarks& marks_;
  OldPieces& old_;
  std::vector<std::size_t> sources_;  ///< one for each step, see PlanPieces
  std::uint64_t to_load_ = 0;         ///< steps that are not in the old index
  std::uint64_t done_ = 0;            ///< steps that are in a piece
  std::uint64_t old_bytes_ = 0;
  std::uint64_t loaded_bytes_ = 0;  ///< records of loaded steps, in pieces that are written
  Status failed_;
  IndexReport report_;
};

/// Makes the pieces of a seal the index, which are there and durable but for their names.
Status PublishIndex(const fs::path& folder, const Seal& seal) {
  QUARRY_RETURN_IF_ERROR(SyncDirectory(folder));
  return WriteSeal(folder, seal);
}

/// Removes pieces that are in the index no more, and leftovers of a killed run. Called under the folder's
/// lock.
void RemoveLeftovers(const fs::path& folder, const Seal& seal) {
  const Result<std::vector<FolderEntry>> entries = Location(folder).List();
  if (!entries.ok()) return;
  std::set<std::string> sealed;
  for (const SealedPiece& piece : seal.pieces) sealed.insert(piece.file_name());
  for (const FolderEntry& entry : *entries) {
    // The whole name must be one of ours: the user chooses the folder, and it may hold other files.
    static const auto& ours =
        *new const std::regex(R"(patches-[0-9a-f]{16}\.mdb|working-\d+(-old)?\.mdb|seal\.json\.partial-\d+)");
    std::error_code ignored;
    if (std::regex_match(entry.name, ours) && !sealed.contains(entry.name))
      fs::remove(folder / entry.name, ignored);
  }
}

/// @param because  why it is not used, where it is there
OldPieces OpenOld(const fs::path& folder, bool rebuild, std::string* because) {
  if (rebuild) {
    *because = "asked for";
    return {folder, std::nullopt};
  }
  Result<Seal> seal = ReadSeal(folder);
  if (seal.ok()) return {folder, *std::move(seal)};
  if (seal.status().code() != StatusCode::kNotFound) *because = seal.status().message();
  return {folder, std::nullopt};
}

}  // namespace

Location DefaultIndexFolder(const Location& dataset) { return dataset / "index"; }

Result<IndexReport> UpdateIndex(const Dataset& dataset, const fs::path& folder, bool rebuild,
                                const std::function<void(std::uint64_t, std::uint64_t)>& progress,
                                const LockOptions& locking) {
  QUARRY_RETURN_IF_ERROR(CreateDirectories(folder));
  QUARRY_ASSIGN_OR_RETURN(const DirectoryLock lock, DirectoryLock::Acquire(folder, locking));
  std::string because;
  OldPieces old = OpenOld(folder, rebuild, &because);
  QUARRY_ASSIGN_OR_RETURN(StepMarks marks, StepMarks::Take(dataset));
  while (true) {
    const std::size_t dropped = old.dropped();
    Updater updater(dataset, folder, progress, &marks, &old);
    const Result<Seal> seal = updater.Update();
    if (!seal.ok() && old.dropped() > dropped) continue;  // its steps are in tables
    QUARRY_RETURN_IF_ERROR(seal.status());
    if (!old.Are(*seal)) QUARRY_RETURN_IF_ERROR(PublishIndex(folder, *seal));
    RemoveLeftovers(folder, *seal);
    IndexReport report = updater.report();
    report.rebuilt_because = because.empty() ? old.reason() : because;
    return report;
  }
}

namespace {

/// Compares records of the index with those of the tables, patch by patch.
/// @param what  the owner of the patches, for the message
Status CompareEntries(const std::vector<query::LocatedPatch>& indexed,
                      const std::vector<query::LocatedPatch>& expected, const Location& folder,
                      const std::string& what) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (indexed[i].subfile == expected[i].subfile && indexed[i].patch == expected[i].patch) continue;
    return DataLoss(
        "the index \"{}\" has another record of patch {} of {} than its subfile; run quarry-index with "
        "--rebuild",
        folder, expected[i].patch.patch_index, what);
  }
  return Status::Ok();
}

using Find = std::function<Result<std::vector<query::LocatedPatch>>(const query::PatchRange&)>;

/// The same for all patches of a grid, run by run: memory does not grow with their number.
/// @param damage  that the index tells while it is asked; then it answers with the tables
Status CompareAll(const PatchGrid& grid, const Find& index, const Find& tables, const Status& damage,
                  const Location& folder, const std::string& what) {
  const Box everywhere{{0, 0, 0}, grid.patches()};
  const std::vector<MortonRun> runs = CutCodes(everywhere, query::kRunPatches);
  for (const MortonRun& run : runs) {
    QUARRY_ASSIGN_OR_RETURN(const auto indexed, index({everywhere, run}));
    QUARRY_RETURN_IF_ERROR(damage);
    QUARRY_ASSIGN_OR_RETURN(const auto expected, tables({everywhere, run}));
    QUARRY_RETURN_IF_ERROR(CompareEntries(indexed, expected, folder, what));
  }
  return Status::Ok();
}

/// @param checked  of the boxes of the owner's subfiles
Status CompareBoxes(const Status& checked, const Location& folder, const std::string& what) {
  if (checked.ok()) return checked;
  return DataLoss(
      "the index \"{}\" has other boxes of the subfiles of {} than step.json ({}); run quarry-index "
      "with --rebuild",
      folder, what, checked.message());
}

}  // namespace

Status VerifyIndex(const Dataset& dataset, const Location& folder) {
  Status damage;  // where it is damaged, the locator falls back to the tables
  QUARRY_ASSIGN_OR_RETURN(const auto locator,
                          IndexLocator::Open(dataset.shared_from_this(), folder, fs::temp_directory_path(),
                                             [&](const Status& told) { damage = told; }));
  std::set<std::pair<std::size_t, std::uint64_t>> masks;  // that were compared, by piece
  for (const std::uint64_t step : dataset.steps()) {
    QUARRY_ASSIGN_OR_RETURN(const bool current, locator->IsCurrent(step));
    QUARRY_RETURN_IF_ERROR(damage);
    if (!current)
      return FailedPrecondition("the index \"{}\" does not have step {} as it is now; run quarry-index",
                                folder, step);
    QUARRY_ASSIGN_OR_RETURN(const auto description, dataset.Step(step));
    for (const FieldStepDescription& field : description->fields) {
      QUARRY_ASSIGN_OR_RETURN(const std::size_t number, NumberOfField(dataset, step, field));
      QUARRY_ASSIGN_OR_RETURN(const PatchGrid grid, PatchesOf(dataset.description().GridOf(number)));
      const std::string what = fmt::format("field \"{}\", step {},", field.name, step);
      QUARRY_RETURN_IF_ERROR(CompareAll(
          grid, [&](const query::PatchRange& range) { return locator->Find(step, number, range); },
          [&](const query::PatchRange& range) { return dataset.tables().Find(step, number, range); }, damage,
          folder, what));
      QUARRY_RETURN_IF_ERROR(CompareBoxes(locator->CheckBoxes(step, number), folder, what));
      if (!field.mask || !masks.emplace(*locator->PieceNumber(step), field.mask->name).second) continue;
      QUARRY_ASSIGN_OR_RETURN(const bool has_mask, locator->HasMask(step, *field.mask));
      QUARRY_RETURN_IF_ERROR(damage);
      if (!has_mask) {
        return DataLoss(
            "the index \"{}\" lacks the mask of {} or has another; run quarry-index with --rebuild", folder,
            what);
      }
      QUARRY_RETURN_IF_ERROR(CompareAll(
          grid, [&](const query::PatchRange& range) { return locator->FindMask(step, number, range); },
          [&](const query::PatchRange& range) { return dataset.tables().FindMask(step, number, range); },
          damage, folder, "the mask of " + what));
      QUARRY_RETURN_IF_ERROR(
          CompareBoxes(locator->CheckMaskBoxes(step, *field.mask), folder, "the mask of " + what));
    }
  }
  return Status::Ok();
}

}  // namespace quarry::index
