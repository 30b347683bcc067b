#include "writer/copy/copy.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "quarry/format/coarse_object.h"
#include "quarry/format/manifest.h"
#include "quarry/format/mask.h"
#include "quarry/format/pack.h"
#include "quarry/format/subfile.h"
#include "quarry/pack/packed_steps.h"
#include "writer/copy/destination.h"
#include "writer/copy/file_copier.h"
#include "writer/copy/payload_stream.h"
#include "writer/copy/selection.h"
#include "writer/upkeep/dataset_files.h"

namespace quarry::writer {
namespace {

using Check = std::function<Status(ByteSpan)>;

/// So many files are gathered before any of them is copied, so that a store is asked for several small ones
/// at a time.
constexpr std::size_t kFilesTogether = 64;

/// Checks the files of a pack, each as its part of the pack passes.
class PackCheck {
 public:
  /// A subfile in the pack, and how its check begins.
  struct Part {
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
    std::function<Result<Check>()> begin;
  };

  explicit PackCheck(std::vector<Part> parts) : parts_(std::move(parts)) {
    std::ranges::sort(parts_, {}, &Part::offset);
  }

  Status Take(ByteSpan bytes) {
    Status first;
    const auto keep = [&](Status status) {
      if (first.ok()) first = std::move(status);
    };
    const std::uint64_t end = position_ + bytes.size();
    while (next_ < parts_.size() && parts_[next_].offset < end) {
      const Part& part = parts_[next_];
      const std::uint64_t from = std::max(part.offset, position_);
      if (from == part.offset) {
        Result<Check> begun = part.begin();
        keep(begun.status());
        check_ = begun.ok() ? *std::move(begun) : [](ByteSpan) { return Status::Ok(); };
      }
      const std::uint64_t to = std::min(part.offset + part.size, end);
      keep(check_(bytes.subspan(from - position_, to - from)));
      if (part.offset + part.size > end) break;
      keep(check_({}));
      ++next_;
    }
    position_ = end;
    return first;
  }

 private:
  std::vector<Part> parts_;
  std::size_t next_ = 0;
  std::uint64_t position_ = 0;
  Check check_;
};

/// The steps of two datasets that are the same by the records of both catalogues: no step.json is read for
/// them.
class SameSteps {
 public:
  /// @param there  null: no step is known to be the same
  SameSteps(const Dataset& source, std::shared_ptr<const Dataset> there)
      : source_(source), there_(std::move(there)) {}

  /// Null: both step.json have to be compared.
  const format::StepRecord* Find(std::uint64_t step) {
    if (!there_ || !source_.catalogue().is_current() || !there_->catalogue().is_current()) return nullptr;
    const format::StepRecord* const here = source_.catalogue().FindRecord(step, &source_hold_);
    const format::StepRecord* const there = there_->catalogue().FindRecord(step, &there_hold_);
    const bool same = here != nullptr && there != nullptr && here->manifest_bytes == there->manifest_bytes &&
                      here->summary.checksum == there->summary.checksum;
    return same ? here : nullptr;
  }

 private:
  const Dataset& source_;
  const std::shared_ptr<const Dataset> there_;
  Catalogue::Hold source_hold_, there_hold_;
};

class Copying {
 public:
  Copying(const Selection& selection, Destination* target, const CopyOptions& options, CopyReport* report)
      : selection_(selection),
        source_(selection.source()),
        target_(*target),
        allow_damage_(options.allow_damage),
        report_(*report),
        copier_(*target, options, report) {}

  /// Looks at all steps before anything is written.
  Status Survey() {
    QUARRY_RETURN_IF_ERROR(selection_.CheckStillFields(target_.steps()));
    SameSteps same(source_, SeenTarget());
    for (const std::uint64_t number : selection_.steps()) {
      const bool is_there = target_.steps().contains(number);
      if (const format::StepRecord* const record = is_there ? same.Find(number) : nullptr) {
        ++report_.steps;
        ++report_.there;
        records_.emplace(number, *record);
        continue;
      }
      QUARRY_ASSIGN_OR_RETURN(const StepToCopy step, selection_.Load(number));
      if (step.step.fields.empty()) continue;
      ++report_.steps;
      QUARRY_RETURN_IF_ERROR(selection_.CheckReferences(step, target_.steps()));
      records_.emplace(number, format::RecordOf(step.step, step.text));
      QUARRY_ASSIGN_OR_RETURN(const std::optional<std::string> there, target_.StepText(number));
      if (!there) {
        missing_.insert(number);
      } else if (*there == step.text) {
        ++report_.there;
      } else {
        return FailedPrecondition("step {} is in \"{}\" with other contents; copy to another name", number,
                                  target_.root());
      }
    }
    QUARRY_RETURN_IF_ERROR(ChoosePacks());
    return CountAll();
  }

  bool has_work() const { return !missing_.empty(); }

  Status Run() {
    copier_.Expect(report_.bytes);
    report_.bytes = report_.objects = 0;
    QUARRY_RETURN_IF_ERROR(target_.Declare(!packs_.empty()));
    QUARRY_RETURN_IF_ERROR(CopyPacks());
    std::vector<StepToCopy> steps;
    std::vector<FileToCopy> files;
    std::set<std::uint64_t> masks;
    const auto end_batch = [&]() -> Status {
      QUARRY_RETURN_IF_ERROR(copier_.CopyAll(files));
      for (const std::uint64_t mask : masks) QUARRY_RETURN_IF_ERROR(target_.ShowMask(mask));
      // Each after its files, and after its masks.
      for (const StepToCopy& step : steps) {
        QUARRY_RETURN_IF_ERROR(CopyCoarse(step.step.step));
        QUARRY_RETURN_IF_ERROR(target_.ShowStep(step));
        ++report_.objects;
        report_.bytes += step.text.size();
      }
      files.clear();
      steps.clear();
      masks.clear();
      return Status::Ok();
    };
    for (const std::uint64_t number : missing_) {
      if (packed_.contains(number)) continue;
      QUARRY_ASSIGN_OR_RETURN(StepToCopy step, selection_.Load(number));
      AddMasks(step.step, &files, &masks);
      AddSubfiles(step.step, &files);
      steps.push_back(std::move(step));
      if (files.size() >= kFilesTogether) QUARRY_RETURN_IF_ERROR(end_batch());
    }
    QUARRY_RETURN_IF_ERROR(end_batch());
    return Status::Ok();
  }

  std::map<std::uint64_t, format::StepRecord> TakeRecords() { return std::move(records_); }

 private:
  /// The target as readers see it, where a step that is the same is copied whole. What other tools have
  /// copied to a store may have a head before it has all files of its steps.
  std::shared_ptr<const Dataset> SeenTarget() const {
    const bool steps_are_whole = target_.storage().renames_folders() || target_.publishes_by_head();
    if (!target_.shown() || !selection_.all_fields() || !steps_are_whole) return nullptr;
    const Result<std::shared_ptr<const Dataset>> there = Dataset::Open(target_.place());
    return there.ok() ? *there : nullptr;
  }

  /// Packs are copied as they are if all of their steps are to come.
  Status ChoosePacks() {
    if (!selection_.all_fields()) return Status::Ok();
    for (const PackRef& pack : PacksOf(source_.root())) {
      const std::vector<std::uint64_t> steps = format::StepsOf(pack.runs);
      if (!std::ranges::all_of(steps, [&](std::uint64_t step) { return missing_.contains(step); })) continue;
      packs_.push_back(pack);
      packed_.insert(steps.begin(), steps.end());
    }
    return Status::Ok();
  }

  /// Files and bytes of what is missing, without a look at those that are there.
  Status CountAll() {
    std::set<std::uint64_t> masks;
    for (const std::uint64_t number : missing_) {
      std::vector<FileToCopy> files;
      QUARRY_ASSIGN_OR_RETURN(const StepToCopy step, selection_.Load(number));
      AddMasks(step.step, &files, &masks);
      if (!packed_.contains(number)) {
        AddSubfiles(step.step, &files);
        ++report_.objects;
        report_.bytes += step.text.size();
        QUARRY_ASSIGN_OR_RETURN(const std::uint64_t coarse, CoarseBytes(number));
        report_.objects += coarse > 0 ? 1 : 0;
        report_.bytes += coarse;
      }
      report_.objects += files.size();
      for (const FileToCopy& file : files) report_.bytes += file.size;
    }
    for (const PackRef& pack : packs_) {
      QUARRY_ASSIGN_OR_RETURN(const ObjectInfo info, (source_.root() / "steps" / pack.name).Stat());
      ++report_.objects;
      report_.bytes += info.size;
    }
    seen_masks_.clear();
    return Status::Ok();
  }

  bool has_coarse_objects() const {
    const DatasetDescription& dataset = source_.description();
    return dataset.has_coarse_objects && !dataset.FindField(std::string(format::kCoarseFile));
  }

  Location CoarseOf(std::uint64_t step) const {
    return source_.root() / format::StepFolder(step) / format::kCoarseFile;
  }

  /// [bytes] of the coarse object of a step; 0: it has none.
  Result<std::uint64_t> CoarseBytes(std::uint64_t step) const {
    if (!has_coarse_objects()) return 0;
    const Result<ObjectInfo> info = CoarseOf(step).Stat();
    if (info.status().code() == StatusCode::kNotFound) return 0;
    QUARRY_RETURN_IF_ERROR(info.status());
    return info->size;
  }

  /// The coarse object of a step, if it has one: it is true of each file that it names, whichever come along.
  Status CopyCoarse(std::uint64_t step) {
    if (!has_coarse_objects()) return Status::Ok();
    const Location path = CoarseOf(step);
    const Result<Bytes> bytes = path.ReadWhole(format::kCoarseLimit);
    if (bytes.status().code() == StatusCode::kNotFound) return Status::Ok();
    Status whole = bytes.ok() ? format::CoarseObject::Decode(*bytes).status() : bytes.status();
    if (whole.code() == StatusCode::kDataLoss && allow_damage_) {
      // Readers do without.
      if (report_.damage.size() < CopyReport::kMaxDamage)
        report_.damage.push_back(std::move(whole).Annotate(fmt::format("\"{}\"", path)));
      return Status::Ok();
    }
    QUARRY_RETURN_IF_ERROR(std::move(whole).Annotate(fmt::format("\"{}\"", path)));
    QUARRY_RETURN_IF_ERROR(target_.storage().Put(
        target_.PathOf(fmt::format("{}/{}", target_.StepPlace(step), format::kCoarseFile)), *bytes,
        PutCondition::Always()));
    ++report_.objects;
    report_.bytes += bytes->size();
    return Status::Ok();
  }

  FileToCopy FileOf(const Location& path, std::string place, const SubfileDescription& subfile,
                    std::function<Result<TableWalk>()> walk) const {
    FileToCopy file;
    file.object = path.Refer(subfile.bytes, subfile.table_checksum);
    file.storage = path.storage;
    file.place = std::move(place);
    file.size = subfile.bytes;
    file.table_checksum = subfile.table_checksum;
    file.begin_check = [path, walk = std::move(walk)]() -> Result<Check> { return CheckOf(path, walk); };
    return file;
  }

  static Result<Check> CheckOf(const Location& path, const std::function<Result<TableWalk>()>& walk) {
    QUARRY_ASSIGN_OR_RETURN(TableWalk rows, walk());
    auto stream = std::make_shared<PayloadStream>(std::move(rows), path.path);
    return Check([stream](ByteSpan bytes) { return bytes.empty() ? stream->Finish() : stream->Take(bytes); });
  }

  /// The masks that no step before has named.
  void AddMasks(const StepDescription& step, std::vector<FileToCopy>* files, std::set<std::uint64_t>* masks) {
    for (const FieldStepDescription& field : step.fields) {
      if (!field.mask || target_.HasMask(field.mask->name) || !seen_masks_.insert(field.mask->name).second)
        continue;
      const MaskDescription& mask = *field.mask;
      masks->insert(mask.name);
      for (std::size_t s = 0; s < mask.subfiles.size(); ++s) {
        files->push_back(FileOf(MaskSubfileLocation(source_.root(), mask.name, s),
                                fmt::format("{}/{}", target_.MaskPlace(mask.name), format::SubfileName(s)),
                                mask.subfiles[s],
                                [this, mask, s] { return source_.tables().WalkMask(mask, s); }));
      }
    }
  }

  void AddSubfiles(const StepDescription& step, std::vector<FileToCopy>* files) const {
    for (const FieldStepDescription& field : step.fields) {
      for (std::size_t s = 0; s < field.subfiles.size(); ++s) {
        files->push_back(
            FileOf(SubfileLocation(source_.root(), step.step, field.name, s),
                   fmt::format("{}/{}/{}", target_.StepPlace(step.step), field.name, format::SubfileName(s)),
                   field.subfiles[s], WalkOf(step.step, field.name, s)));
      }
    }
  }

  std::function<Result<TableWalk>()> WalkOf(std::uint64_t step, const std::string& name,
                                            std::size_t s) const {
    return [this, step, name, s]() -> Result<TableWalk> {
      const std::optional<std::size_t> number = source_.description().FindField(name);
      if (!number) return DataLoss("step {} has a field \"{}\" that dataset.json does not know", step, name);
      return source_.tables().Walk(step, *number, s);
    };
  }

  /// Their masks first, as of all steps.
  Status CopyPacks() {
    for (const PackRef& pack : packs_) {
      std::vector<FileToCopy> of_masks;
      std::set<std::uint64_t> masks;
      std::vector<PackCheck::Part> parts;
      for (const format::StepRun& run : pack.runs) {
        for (std::uint64_t k = 0; k < run.steps; ++k) {
          QUARRY_ASSIGN_OR_RETURN(const StepToCopy step, selection_.Load(run.first + k * run.distance));
          AddMasks(step.step, &of_masks, &masks);
          QUARRY_RETURN_IF_ERROR(AddParts(step.step, &parts));
        }
      }
      QUARRY_RETURN_IF_ERROR(copier_.CopyAll(of_masks));
      for (const std::uint64_t mask : masks) QUARRY_RETURN_IF_ERROR(target_.ShowMask(mask));
      QUARRY_ASSIGN_OR_RETURN(FileToCopy file, FileOfPack(pack.name, std::move(parts)));
      QUARRY_RETURN_IF_ERROR(copier_.CopyAll({std::move(file)}));
      QUARRY_RETURN_IF_ERROR(target_.storage().SyncFolder(target_.PathOf("steps")));
    }
    return Status::Ok();
  }

  Status AddParts(const StepDescription& step, std::vector<PackCheck::Part>* parts) const {
    for (const FieldStepDescription& field : step.fields) {
      for (std::size_t s = 0; s < field.subfiles.size(); ++s) {
        const Location path = SubfileLocation(source_.root(), step.step, field.name, s);
        QUARRY_ASSIGN_OR_RETURN(const auto object, path.Open());
        // A step that has a folder as well is read from there.
        const std::optional<PackRange> range = RangeInPack(*object);
        if (!range) continue;
        parts->push_back({range->offset, range->size,
                          [path, walk = WalkOf(step.step, field.name, s)] { return CheckOf(path, walk); }});
      }
    }
    return Status::Ok();
  }

  Result<FileToCopy> FileOfPack(const std::string& name, std::vector<PackCheck::Part> parts) const {
    const Location path = source_.root() / "steps" / name;
    QUARRY_ASSIGN_OR_RETURN(OpenedFile end, path.OpenWith(FileEnd::kBack, format::kPackFooter, nullptr));
    FileToCopy file;
    file.object = std::move(end.object);
    file.storage = path.storage;
    file.place = fmt::format("steps/{}", name);
    file.size = file.object->size();
    QUARRY_ASSIGN_OR_RETURN(const format::PackFooter footer, format::DecodePackFooter(end.bytes, file.size));
    file.table_checksum = footer.table_checksum;
    file.begin_check = [parts = std::move(parts)]() -> Result<Check> {
      auto check = std::make_shared<PackCheck>(parts);
      return Check([check](ByteSpan bytes) { return check->Take(bytes); });
    };
    return file;
  }

  const Selection& selection_;
  const Dataset& source_;
  Destination& target_;
  const bool allow_damage_;
  CopyReport& report_;
  FileCopier copier_;
  std::set<std::uint64_t> missing_;     ///< steps that are copied
  std::vector<PackRef> packs_;          ///< that are copied as they are
  std::set<std::uint64_t> packed_;      ///< their steps
  std::set<std::uint64_t> seen_masks_;  ///< that were asked for
  std::map<std::uint64_t, format::StepRecord> records_;
};

}  // namespace

Status CheckApart(const Location& from, const Location& to) {
  const std::string source = from.storage->AbsolutePath(from.path);
  const std::string target = to.storage->AbsolutePath(to.path);
  if (source == target) return InvalidArgument("\"{}\" is copied to itself; name another place", from);
  if (!target.starts_with(source + "/")) return Status::Ok();
  return InvalidArgument("\"{}\" lies in the dataset \"{}\"; name another place", to, from);
}

Result<CopyReport> Copy(const Location& from, const CopyTarget& to, const CopyOptions& options) {
  QUARRY_RETURN_IF_ERROR(CheckApart(from, to.root));
  QUARRY_ASSIGN_OR_RETURN(auto source, Dataset::Open(from));
  QUARRY_ASSIGN_OR_RETURN(const Selection selection, Selection::Make(std::move(source), options));
  QUARRY_ASSIGN_OR_RETURN(Destination target,
                          Destination::Open(to, selection, options.dry_run, options.locking));
  CopyReport report;
  Copying copying(selection, &target, options, &report);
  QUARRY_RETURN_IF_ERROR(copying.Survey());
  if (options.dry_run) return report;
  // A copy may have been killed after its last step, and before the head.
  const bool is_complete = !to.storage->renames_folders() || target.has_catalogue();
  if (target.shown() && !copying.has_work() && is_complete) return report;
  if (target.shown() && !to.storage->renames_folders() && !target.publishes_by_head())
    return AddsNoSteps(to.root);
  QUARRY_ASSIGN_OR_RETURN(report.keeps_conditions, to.storage->KeepsConditions(target.PathOf("steps")));
  QUARRY_RETURN_IF_ERROR(copying.Run());
  QUARRY_RETURN_IF_ERROR(target.Finish(copying.TakeRecords()));
  return report;
}

}  // namespace quarry::writer
