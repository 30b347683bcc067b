#include "quarry/dataset/verify.h"

#include <algorithm>
#include <map>

#include "quarry/base/checksum.h"
#include "quarry/format/mask.h"
#include "quarry/pack/packed_steps.h"

namespace quarry {
namespace {

class Verifier {
 public:
  Verifier(const Dataset& dataset, const std::function<void(std::uint64_t, std::uint64_t)>& progress)
      : dataset_(dataset), progress_(progress) {}

  VerifyReport Run() {
    std::vector<std::shared_ptr<const StepDescription>> steps;
    VerifyCatalogue();
    for (const std::uint64_t number : dataset_.steps()) {
      in_step_ = number;
      Result<std::shared_ptr<const StepDescription>> step = dataset_.Step(number);
      if (!step.ok()) {
        AddDamage(std::move(step).status());
        continue;
      }
      for (const FieldStepDescription& field : (*step)->fields) {
        total_ += field.stored_bytes;
        if (field.mask) AddMask(**step, *field.mask);
      }
      steps.push_back(*std::move(step));
    }
    for (const auto& step : steps) {
      ++report_.steps;
      in_step_ = step->step;
      for (const FieldStepDescription& field : step->fields) VerifyField(*step, field);
    }
    in_step_.reset();
    for (const auto& [name, mask] : masks_) VerifyMask(mask);
    return std::move(report_);
  }

 private:
  /// Records that count, though they are not those of their step.json, and files that cannot be read. A
  /// record that is missing is no damage, nor is one that readers compare before they use it.
  void VerifyCatalogue() {
    const Catalogue& catalogue = dataset_.catalogue();
    Catalogue::Hold hold;
    for (const std::uint64_t number : dataset_.steps()) {
      const format::StepRecord* record = catalogue.FindRecord(number, &hold);
      if (record == nullptr) continue;
      ++report_.records;
      if (!catalogue.is_current()) continue;
      const Result<format::StepRecord> expected = dataset_.LoadRecord(number);
      // A damaged step.json is reported where its step is looked at.
      if (expected.ok() && *expected != *record)
        AddDamage(
            DataLoss("the catalogue of \"{}\" does not have step {} as its step.json; run \"quarry upgrade\"",
                     dataset_.root(), number));
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
    for (std::size_t s = 0; s < mask.subfiles.size(); ++s) {
      const auto digest = [&](const format::PatchEntry& row) { digests.push_back(format::MaskDigest(row)); };
      const Location path = MaskSubfileLocation(dataset_.root(), mask.name, s);
      whole = VerifySubfile(path, dataset_.tables().WalkMask(mask, s), digest) && whole;
    }
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
    for (std::size_t s = 0; s < field.subfiles.size(); ++s)
      VerifySubfile(SubfileLocation(dataset_.root(), step.step, field.name, s),
                    dataset_.tables().Walk(step.step, *number, s), [](const format::PatchEntry&) {});
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
  bool VerifySubfile(const Location& path, Result<TableWalk> walk, const Visit& visit) {
    ++report_.subfiles;
    bool whole = walk.ok();
    if (!walk.ok()) AddDamage(walk.status());
    for (std::uint64_t block = 0; walk.ok() && block < walk->blocks(); ++block) {
      Status status = walk->GoTo(block);
      whole = whole && status.ok();
      if (status.ok()) {
        for (const format::PatchEntry& row : walk->rows()) visit(row);
        report_.patches += walk->rows().size();
        status = VerifyPayload(path, *walk);
      }
      if (!status.ok()) AddDamage(std::move(status));
    }
    if (!whole || walk->blocks() == 0) return whole;
    // Before version 4 the rows say where payloads lie, and these may end before the table.
    const SubfileTable& table = walk->table();
    const std::uint64_t end = walk->payload_end(table.stages.runs - 1);
    if (end != table.footer.table_offset)
      AddDamage(DataLoss("\"{}\": bytes {}..{} belong to nothing", path, end, table.footer.table_offset));
    return true;
  }

  /// Payload ranges follow each other without gaps, so that a checksum covers every byte of the file.
  Status VerifyPayload(const Location& path, const TableWalk& walk) {
    QUARRY_ASSIGN_OR_RETURN(const std::shared_ptr<const StoredObject> file, path.Open());
    const SubfileTable& table = walk.table();
    const std::vector<format::PartRun> runs = format::PartRuns(table.header.order, table.header.parts());
    for (std::size_t run = 0; run < runs.size(); ++run) {
      std::uint64_t position = walk.payload_begin(run);
      for (const format::PatchEntry& row : walk.rows()) {
        for (int part = runs[run].first; part >= runs[run].last; --part) {
          const format::LevelEntry& entry = row.levels[static_cast<std::size_t>(part)];
          if (entry.offset != position) {
            return DataLoss("\"{}\": {} of patch {} begins at byte {}, not at {}", path, NameOf(table, part),
                            row.patch_index, entry.offset, position);
          }
          position += entry.size;
          QUARRY_RETURN_IF_ERROR(VerifyPart(path, *file, row, NameOf(table, part), entry));
        }
      }
    }
    return Status::Ok();
  }

  Status VerifyPart(const Location& path, const StoredObject& file, const format::PatchEntry& row,
                    const std::string& part, const format::LevelEntry& entry) {
    payload_.resize(entry.size);
    QUARRY_RETURN_IF_ERROR(file.ReadAt(entry.offset, payload_));
    if (Checksum(payload_) != entry.checksum) {
      AddDamage(DataLoss("\"{}\": {} of patch {} (bytes {}..{}): checksum {} stored, {} computed", path, part,
                         row.patch_index, entry.offset, entry.offset + entry.size,
                         ChecksumText(entry.checksum), ChecksumText(Checksum(payload_))));
    }
    report_.bytes += entry.size;
    progress_(report_.bytes, total_);
    return Status::Ok();
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
  const std::function<void(std::uint64_t, std::uint64_t)>& progress_;
  VerifyReport report_;
  std::optional<std::uint64_t> in_step_;  ///< step whose files are looked at
  Bytes payload_;
  std::map<std::uint64_t, MaskDescription> masks_;
  std::uint64_t total_ = 0;
};

}  // namespace

Result<VerifyReport> VerifyDataset(const Dataset& dataset,
                                   const std::function<void(std::uint64_t, std::uint64_t)>& progress) {
  return Verifier(dataset, progress).Run();
}

}  // namespace quarry
