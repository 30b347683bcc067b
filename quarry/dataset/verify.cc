#include "quarry/dataset/verify.h"

#include <algorithm>
#include <map>

#include "quarry/base/checksum.h"
#include "quarry/format/mask.h"

namespace quarry {
namespace {

class Verifier {
 public:
  Verifier(const Dataset& dataset, const std::function<void(std::uint64_t, std::uint64_t)>& progress)
      : dataset_(dataset), progress_(progress) {}

  VerifyReport Run() {
    std::vector<std::shared_ptr<const StepDescription>> steps;
    for (const std::uint64_t number : dataset_.steps()) {
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
      for (const FieldStepDescription& field : step->fields) VerifyField(*step, field);
    }
    for (const auto& [name, mask] : masks_) VerifyMask(mask);
    return std::move(report_);
  }

 private:
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
      ++report_.subfiles;
      Result<std::shared_ptr<const SubfileTable>> table = dataset_.tables().MaskTable(mask, s);
      if (!table.ok()) {
        AddDamage(std::move(table).status());
        whole = false;
        continue;
      }
      for (const format::PatchEntry& row : (*table)->rows) digests.push_back(format::MaskDigest(row));
      const Status status = VerifyPayload(MaskSubfileLocation(dataset_.root(), mask.name, s), **table);
      if (!status.ok()) AddDamage(status);
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
    for (std::size_t s = 0; s < field.subfiles.size(); ++s) {
      ++report_.subfiles;
      Result<std::shared_ptr<const SubfileTable>> table = dataset_.tables().Table(step.step, *number, s);
      if (!table.ok()) {
        AddDamage(std::move(table).status());
        continue;
      }
      const Status status =
          VerifyPayload(SubfileLocation(dataset_.root(), step.step, field.name, s), **table);
      if (!status.ok()) AddDamage(status);
    }
  }

  /// "level 2", or "level 2 of layer 1".
  static std::string NameOf(const SubfileTable& table, int part) {
    const PatchParts parts = table.header.parts();
    return parts.layers == 1 ? fmt::format("level {}", parts.LevelOf(part))
                             : fmt::format("level {} of layer {}", parts.LevelOf(part), parts.LayerOf(part));
  }

  /// Payload ranges follow each other without gaps, so that a checksum covers every byte of the file.
  Status VerifyPayload(const Location& path, const SubfileTable& table) {
    QUARRY_ASSIGN_OR_RETURN(const std::shared_ptr<const StoredObject> file, path.Open());
    std::uint64_t position = format::HeaderSize(table.header.version);
    Status first_error;
    Bytes payload;
    format::ForEachPayload(
        table.header.order, table.rows.size(), table.header.parts(), [&](std::size_t row, int part) {
          const format::LevelEntry& entry = table.rows[row].levels[static_cast<std::size_t>(part)];
          if (!first_error.ok()) return;
          if (entry.offset != position) {
            first_error = DataLoss("\"{}\": {} of patch {} begins at byte {}, not at {}", path,
                                   NameOf(table, part), table.rows[row].patch_index, entry.offset, position);
            return;
          }
          position += entry.size;
          payload.resize(entry.size);
          first_error = file->ReadAt(entry.offset, payload);
          if (!first_error.ok()) return;
          if (Checksum(payload) != entry.checksum) {
            AddDamage(DataLoss("\"{}\": {} of patch {} (bytes {}..{}): checksum {} stored, {} computed", path,
                               NameOf(table, part), table.rows[row].patch_index, entry.offset,
                               entry.offset + entry.size, ChecksumText(entry.checksum),
                               ChecksumText(Checksum(payload))));
          }
          report_.bytes += entry.size;
          progress_(report_.bytes, total_);
        });
    report_.patches += table.rows.size();
    if (first_error.ok() && position != table.footer.table_offset) {
      return DataLoss("\"{}\": bytes {}..{} belong to nothing", path, position, table.footer.table_offset);
    }
    return first_error;
  }

  void AddDamage(Status status) {
    if (report_.damage.size() < VerifyReport::kMaxDamage) report_.damage.push_back(std::move(status));
  }

  const Dataset& dataset_;
  const std::function<void(std::uint64_t, std::uint64_t)>& progress_;
  VerifyReport report_;
  std::map<std::uint64_t, MaskDescription> masks_;
  std::uint64_t total_ = 0;
};

}  // namespace

Result<VerifyReport> VerifyDataset(const Dataset& dataset,
                                   const std::function<void(std::uint64_t, std::uint64_t)>& progress) {
  return Verifier(dataset, progress).Run();
}

}  // namespace quarry
