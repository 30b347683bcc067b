#include "quarry/dataset/verify.h"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <utility>

#include "quarry/base/checksum.h"
#include "quarry/format/mask.h"
#include "quarry/pack/packed_steps.h"

namespace quarry {
namespace {

const auto kNever = [] { return false; };

/// Calls that are made together.
std::size_t AtOnceOf(const Dataset& dataset) {
  return static_cast<std::size_t>(std::max(1, dataset.root().storage->costs().side_by_side));
}

class Verifier {
 public:
  Verifier(const Dataset& dataset, const std::function<void(std::uint64_t, std::uint64_t)>& progress)
      : dataset_(dataset),
        storage_(*dataset.root().storage),
        at_once_(AtOnceOf(dataset)),
        progress_(progress) {}

  VerifyReport Run() {
    std::vector<std::shared_ptr<const StepDescription>> steps;
    VerifyCatalogue();
    using Step = Result<std::shared_ptr<const StepDescription>>;
    ForEachTogether<Step>(
        dataset_.steps().size(), [&](std::size_t i) { return dataset_.Step(dataset_.steps()[i]); },
        [&](std::size_t i, Step step) {
          in_step_ = dataset_.steps()[i];
          if (!step.ok()) return AddDamage(std::move(step).status());
          for (const FieldStepDescription& field : (*step)->fields) {
            total_ += field.stored_bytes;
            if (field.mask) AddMask(**step, *field.mask);
          }
          steps.push_back(*std::move(step));
        });
    for (const auto& step : steps) {
      ++report_.steps;
      in_step_ = step->step;
      for (const FieldStepDescription& field : step->fields) VerifyField(*step, field);
      VerifyCoarse(*step);
    }
    in_step_.reset();
    for (const auto& [name, mask] : masks_) VerifyMask(mask);
    return std::move(report_);
  }

 private:
  /// Looks that do not depend on each other: some are made together, and their results used one by one.
  template <typename T, typename Look, typename Use>
  void ForEachTogether(std::size_t count, const Look& look, const Use& use) {
    for (std::size_t first = 0; first < count; first += at_once_) {
      std::vector<std::optional<T>> seen(std::min(at_once_, count - first));
      storage_.AtOnce(seen.size(), [&](std::size_t i) { seen[i].emplace(look(first + i)); });
      for (std::size_t i = 0; i < seen.size(); ++i) use(first + i, *std::move(seen[i]));
    }
  }

  /// Records that count, though they are not those of their step.json, and files that cannot be read. A
  /// record that is missing is no damage, nor is one that readers compare before they use it.
  void VerifyCatalogue() {
    const Catalogue& catalogue = dataset_.catalogue();
    Catalogue::Hold hold;
    std::vector<std::uint64_t> recorded;
    for (const std::uint64_t number : dataset_.steps()) {
      if (catalogue.FindRecord(number, &hold) != nullptr) recorded.push_back(number);
    }
    report_.records = recorded.size();
    if (catalogue.is_current()) {
      using Record = Result<format::StepRecord>;
      ForEachTogether<Record>(
          recorded.size(), [&](std::size_t i) { return dataset_.LoadRecord(recorded[i]); },
          [&](std::size_t i, const Record& expected) {
            const format::StepRecord* const record = catalogue.FindRecord(recorded[i], &hold);
            // A damaged step.json is reported where its step is looked at.
            if (record == nullptr || !expected.ok() || *expected == *record) return;
            AddDamage(DataLoss(
                "the catalogue of \"{}\" does not have step {} as its step.json; run \"quarry upgrade\"",
                dataset_.root(), recorded[i]));
          });
    }
    if (const Status damage = catalogue.damage(); !damage.ok()) {
      AddDamage(DataLoss("{}; steps are read from step.json instead, until you run \"quarry upgrade\"",
                         damage.message()));
    }
  }

  /// Steps that share a mask must describe it alike.
  void AddMask(const StepDescription& step, const MaskDescription& mask) {
    const auto [it, added] = masks_.emplace(mask.name, mask);
    if (added) total_ += mask.bytes();
    if (it->second != mask)
      AddDamage(DataLoss("step {} of \"{}\" describes mask {} differently from another step", step.step,
                         dataset_.root(), format::MaskText(mask.name)));
  }

  void VerifyMask(const MaskDescription& mask) {
    ++report_.masks;
    std::vector<std::uint64_t> digests;
    bool whole = true;
    ForEachTogether<Result<TableWalk>>(
        mask.subfiles.size(), [&](std::size_t s) { return dataset_.tables().WalkMask(mask, s); },
        [&](std::size_t s, Result<TableWalk> walk) {
          const auto digest = [&](const format::PatchEntry& row) {
            digests.push_back(format::MaskDigest(row));
          };
          const Location path = MaskSubfileLocation(dataset_.root(), mask.name, s);
          whole = VerifySubfile(path, mask.subfiles[s], std::move(walk), digest) && whole;
        });
    EndPayload();
    if (whole && format::MaskName(digests, mask.grid) != mask.name) {
      AddDamage(DataLoss("\"{}\" should be called {}, after its contents",
                         dataset_.root() / format::MaskFolder(mask.name),
                         format::MaskText(format::MaskName(digests, mask.grid))));
    }
  }

  void VerifyField(const StepDescription& step, const FieldStepDescription& field) {
    const std::optional<std::size_t> number = dataset_.description().FindField(field.name);
    if (!number) {
      AddDamage(
          DataLoss("step {} has a field \"{}\" that dataset.json does not know", step.step, field.name));
      return;
    }
    ForEachTogether<Result<TableWalk>>(
        field.subfiles.size(), [&](std::size_t s) { return dataset_.tables().Walk(step.step, *number, s); },
        [&](std::size_t s, Result<TableWalk> walk) {
          VerifySubfile(SubfileLocation(dataset_.root(), step.step, field.name, s), field.subfiles[s],
                        std::move(walk), [](const format::PatchEntry&) {});
        });
    EndPayload();
  }

  /// The coarse object of a step, if it has one. Files that it has and the step does not have in this form
  /// are no damage: readers do not use them.
  void VerifyCoarse(const StepDescription& step) {
    const Location root = dataset_.root();
    if (!dataset_.description().has_coarse_objects || !NameOfPack(root, step.step).empty()) return;
    if (step.FindField(std::string(format::kCoarseFile)) != nullptr) return;
    const Result<CoarseCopy> copy = CoarseSteps(root).Read(step.step);
    if (copy.status().code() == StatusCode::kNotFound) return;
    if (!copy.ok()) return AddDamage(DataLoss("{}; run \"quarry upgrade\"", copy.status().message()));
    ++report_.coarse;
    for (const FieldStepDescription& field : step.fields) {
      const auto compare = [&](const Location& path, const SubfileDescription& subfile) {
        if (const Status same = CompareCoarse(copy->object, path, subfile); !same.ok()) AddDamage(same);
      };
      for (std::size_t s = 0; s < field.subfiles.size(); ++s)
        compare(SubfileLocation(root, step.step, field.name, s), field.subfiles[s]);
      for (std::size_t s = 0; field.mask && s < field.mask->subfiles.size(); ++s)
        compare(MaskSubfileLocation(root, field.mask->name, s), field.mask->subfiles[s]);
    }
  }

  Status CompareCoarse(const format::CoarseObject& object, const Location& path,
                       const SubfileDescription& subfile) const {
    const std::size_t number = object.Find(CoarseSteps(dataset_.root()).Below(path.path));
    if (number == object.files().size()) return Status::Ok();
    const format::CoarseFile& part = object.files()[number];
    if (part.size != subfile.bytes || part.table_checksum != subfile.table_checksum) return Status::Ok();
    const auto file = path.Refer(subfile.bytes, subfile.table_checksum);
    Bytes front(part.front);
    Bytes back(part.back);
    const std::array<ReadRange, 2> both = {ReadRange{file.get(), 0, front},
                                           ReadRange{file.get(), part.size - part.back, back}};
    // Files that cannot be read are reported with their payload.
    if (!storage_.ReadRanges(both, kNever).ok()) return Status::Ok();
    if (std::ranges::equal(object.Front(number), front) && std::ranges::equal(object.Back(number), back))
      return Status::Ok();
    return DataLoss("the coarse object beside \"{}\" has other bytes than the file; run \"quarry upgrade\"",
                    path);
  }

  /// "level 2", or "level 2 of layer 1".
  static std::string NameOf(const SubfileTable& table, int part) {
    const PatchParts parts = table.header.parts();
    return parts.layers == 1 ? fmt::format("level {}", parts.LevelOf(part))
                             : fmt::format("level {} of layer {}", parts.LevelOf(part), parts.LayerOf(part));
  }

  /// Goes through the blocks of a table, and the payloads of each. Damage in one block hides no other.
  /// @param visit  gets each row
  /// @return whether the table is undamaged
  template <typename Visit>
  bool VerifySubfile(const Location& path, const SubfileDescription& subfile, Result<TableWalk> walk,
                     const Visit& visit) {
    ++report_.subfiles;
    bool whole = walk.ok();
    if (!walk.ok()) AddDamage(walk.status());
    const auto file = std::make_shared<const CheckedFile>(
        CheckedFile{path, path.Refer(subfile.bytes, subfile.table_checksum)});
    for (std::uint64_t block = 0; walk.ok() && block < walk->blocks(); ++block) {
      Status status = walk->GoTo(block);
      whole = whole && status.ok();
      if (status.ok()) {
        for (const format::PatchEntry& row : walk->rows()) visit(row);
        report_.patches += walk->rows().size();
        status = VerifyPayload(file, *walk);
      }
      if (!status.ok()) AddDamage(StatusOfSubfile(std::move(status), path));
    }
    if (!whole || walk->blocks() == 0) return whole;
    // Before version 4 the rows say where payloads lie, and these may end before the table.
    const SubfileTable& table = walk->table();
    const std::uint64_t end = walk->payload_end(table.stages.runs - 1);
    if (end != table.footer.table_offset)
      AddDamage(DataLoss("\"{}\": bytes {}..{} belong to nothing", path, end, table.footer.table_offset));
    return true;
  }

  struct CheckedFile {
    Location path;
    std::shared_ptr<const StoredObject> object;
  };

  /// A payload: where it is, and what it should be.
  struct Part {
    std::uint64_t patch = 0;
    std::string name;
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
    std::uint64_t checksum = 0;
  };

  /// Payloads that follow each other in a file, and are read together.
  struct Group {
    std::shared_ptr<const CheckedFile> file;
    std::shared_ptr<bool> failed;  ///< a group of the block cannot be read: the others are not looked at
    std::vector<Part> parts;
    std::uint64_t size = 0;
    Bytes bytes;
    std::unique_ptr<Reading> reading;  ///< destroyed first
  };

  /// Payload ranges follow each other without gaps, so that a checksum covers every byte of the file.
  Status VerifyPayload(const std::shared_ptr<const CheckedFile>& file, const TableWalk& walk) {
    constexpr std::uint64_t kTogether = 1 << 20;
    const SubfileTable& table = walk.table();
    const std::vector<format::PartRun> runs = format::PartRuns(table.header);
    const auto failed = std::make_shared<bool>(false);
    for (std::size_t run = 0; run < runs.size(); ++run) {
      std::uint64_t position = walk.payload_begin(run);
      auto group = std::make_unique<Group>(Group{file, failed, {}, 0, {}, nullptr});
      for (const format::PatchEntry& row : walk.rows()) {
        for (int part = runs[run].first; part >= runs[run].last; --part) {
          const format::LevelEntry& entry = row.levels[static_cast<std::size_t>(part)];
          if (entry.offset != position) {
            Begin(std::move(group));
            return DataLoss("\"{}\": {} of patch {} begins at byte {}, not at {}", file->path,
                            NameOf(table, part), row.patch_index, entry.offset, position);
          }
          position += entry.size;
          if (!group->parts.empty() && group->size + entry.size > kTogether)
            Begin(std::exchange(group, std::make_unique<Group>(Group{file, failed, {}, 0, {}, nullptr})));
          group->parts.push_back(
              {row.patch_index, NameOf(table, part), entry.offset, entry.size, entry.checksum});
          group->size += entry.size;
        }
      }
      Begin(std::move(group));
    }
    return Status::Ok();
  }

  /// Reads a group while others are under way, up to what fills the way from the storage.
  void Begin(std::unique_ptr<Group> group) {
    if (group->parts.empty()) return;
    const std::uint64_t most = storage_.costs().bytes_under_way();
    while (!groups_.empty() && under_way_ + group->size > most) EndFirst();
    group->bytes.resize(group->size);
    under_way_ += group->size;
    const auto ignore = [](std::size_t, const Status&) {};
    group->reading = storage_.BeginRead(
        {{group->file->object.get(), group->parts.front().offset, group->bytes}}, ignore, kNever);
    groups_.push_back(std::move(group));
    if (most == 0) EndFirst();
  }

  void EndPayload() {
    while (!groups_.empty()) EndFirst();
  }

  void EndFirst() {
    const std::unique_ptr<Group> group = std::move(groups_.front());
    groups_.pop_front();
    under_way_ -= group->size;
    const bool together = group->reading->Wait(kNever).ok();
    std::uint64_t at = 0;
    for (const Part& part : group->parts) {
      if (*group->failed) return;
      const std::span<std::byte> bytes = std::span(group->bytes).subspan(at, part.size);
      at += part.size;
      // One by one, the payloads before the first that cannot be read are whole.
      const Status status = together ? Status::Ok() : group->file->object->ReadAt(part.offset, bytes);
      if (!status.ok()) {
        *group->failed = true;
        return AddDamage(StatusOfSubfile(status, group->file->path));
      }
      VerifyPart(*group->file, part, bytes);
    }
  }

  void VerifyPart(const CheckedFile& file, const Part& part, ByteSpan payload) {
    const std::uint64_t computed = Checksum(payload);
    if (computed != part.checksum) {
      AddDamage(DataLoss("\"{}\": {} of patch {} (bytes {}..{}): checksum {} stored, {} computed", file.path,
                         part.name, part.patch, part.offset, part.offset + part.size,
                         ChecksumText(part.checksum), ChecksumText(computed)));
    }
    report_.bytes += part.size;
    progress_(report_.bytes, total_);
  }

  /// Damage in a file of a packed step is in the file of its pack.
  Status WithPack(Status damage) const {
    const std::string pack = in_step_ ? NameOfPack(dataset_.root(), *in_step_) : std::string();
    if (pack.empty()) return damage;
    return {damage.code(), fmt::format("{}; step {} is in \"{}\"", damage.message(), *in_step_,
                                       dataset_.root() / "steps" / pack)};
  }

  void AddDamage(Status status) {
    if (report_.damage.size() < VerifyReport::kMaxDamage)
      report_.damage.push_back(WithPack(std::move(status)));
  }

  const Dataset& dataset_;
  const Storage& storage_;
  const std::size_t at_once_;  ///< calls that are made together
  const std::function<void(std::uint64_t, std::uint64_t)>& progress_;
  VerifyReport report_;
  std::optional<std::uint64_t> in_step_;       ///< step whose files are looked at
  std::deque<std::unique_ptr<Group>> groups_;  ///< under way, the first one in front
  std::uint64_t under_way_ = 0;                ///< [bytes] of them
  std::map<std::uint64_t, MaskDescription> masks_;
  std::uint64_t total_ = 0;
};

}  // namespace

Result<VerifyReport> VerifyDataset(const Dataset& dataset,
                                   const std::function<void(std::uint64_t, std::uint64_t)>& progress) {
  return Verifier(dataset, progress).Run();
}

}  // namespace quarry
