#include "writer/pipeline/field_files.h"

#include <algorithm>
#include <cmath>

#include "quarry/format/description_rules.h"
#include "quarry/format/manifest.h"
#include "quarry/format/mask.h"
#include "writer/pipeline/comm.h"

namespace quarry::writer {

namespace fs = std::filesystem;

Result<FieldFiles> FieldFiles::Create(const FileSetting& setting, const OwnPatches& own,
                                      const distribution::Placement& placement) {
  const Timer timer(setting.seconds, Phase::kAssign);
  QUARRY_ASSIGN_OR_RETURN(PatchSizes sizes, own.ShareSizes(setting.comm, setting.morton_order.size()));
  return FieldFiles(setting, own, placement, std::move(sizes));
}

std::vector<std::uint64_t> FieldFiles::InMortonOrder(const std::vector<std::uint64_t>& by_index) const {
  std::vector<std::uint64_t> in_order;
  in_order.reserve(by_index.size());
  for (const std::int64_t patch : setting_.morton_order)
    in_order.push_back(by_index[static_cast<std::size_t>(patch)]);
  return in_order;
}

Result<std::vector<SubfileSummary>> FieldFiles::Write(const std::vector<std::uint64_t>& stored_bytes,
                                                      const fs::path& folder,
                                                      const format::SubfileHeader& header,
                                                      const std::vector<OutgoingPatch>& mine) const {
  SubfileLayout layout{&setting_.morton_order, &placement_, &stored_bytes, {}};
  {
    const Timer timer(setting_.seconds, Phase::kAssign);
    layout.assignment =
        distribution::AssignPatches(InMortonOrder(stored_bytes), setting_.files, setting_.aggregation);
  }
  const std::uint64_t number = (*setting_.transfers)++;
  return TransferAndWrite(setting_.comm, layout, setting_.grid, folder, number, header, mine, own_.store(),
                          setting_.seconds);
}

Result<std::vector<SubfileSummary>> FieldFiles::WriteSamples(const fs::path& folder,
                                                             const format::SubfileHeader& header) const {
  return Write(sizes_.samples, folder, header, own_.samples());
}

Result<FieldMask> FieldFiles::WriteMask() const {
  FieldMask mask;
  if (!sizes_.any_missing) return mask;
  mask.name = format::MaskName(InMortonOrder(sizes_.mask_digests), setting_.grid_number);
  mask.description.name = mask.name;
  mask.description.grid = setting_.grid_number;
  const auto stage = [&]() -> Result<std::string> {
    QUARRY_ASSIGN_OR_RETURN(const std::optional<MaskDescription> known,
                            setting_.publisher->FindMask(mask.name, setting_.dataset, setting_.grid_number));
    if (known) {
      mask.description = *known;
      return std::string();
    }
    QUARRY_ASSIGN_OR_RETURN(const fs::path path, setting_.publisher->StageMask(mask.name));
    return path.string();
  };
  QUARRY_ASSIGN_OR_RETURN(const std::string folder, TextOfRoot(setting_.comm, stage));
  if (folder.empty()) return mask;
  const DatasetDescription& dataset = setting_.dataset;
  const format::SubfileHeader header =
      format::MaskHeader(mask.name, dataset.grids[setting_.grid_number], dataset.order);
  QUARRY_ASSIGN_OR_RETURN(const std::vector<SubfileSummary> summaries,
                          Write(sizes_.masks, folder, header, own_.masks()));
  mask.description.subfiles = SubfilesOf(summaries);
  mask.new_bytes = mask.description.bytes();
  if (setting_.publisher != nullptr) setting_.publisher->AddMask(mask.description);
  return mask;
}

std::vector<SubfileDescription> SubfilesOf(const std::vector<SubfileSummary>& summaries) {
  std::vector<SubfileDescription> subfiles;
  subfiles.reserve(summaries.size());
  for (const SubfileSummary& summary : summaries) {
    subfiles.push_back({format::SubfileName(subfiles.size()), summary.bytes, summary.patches, summary.bounds,
                        summary.table_checksum});
  }
  return subfiles;
}

void EnterSummaries(const std::vector<SubfileSummary>& summaries, const PatchParts& parts,
                    FieldStepDescription* field) {
  field->subfiles = SubfilesOf(summaries);
  const auto count = static_cast<std::size_t>(parts.count());
  std::vector<double> squares(count, 0);
  std::vector<double> covered(count, 0);
  std::vector<LevelRecord> records(count);
  for (const SubfileSummary& summary : summaries) {
    field->stored_bytes += summary.bytes;
    field->valid += summary.valid;
    for (std::size_t p = 0; p < count; ++p) {
      records[p].max_error = std::max(records[p].max_error, summary.levels[p].max_error);
      records[p].bytes += summary.levels[p].bytes;
      squares[p] += summary.levels[p].sum_of_squares;
      covered[p] += summary.levels[p].covered;
    }
  }
  for (std::size_t p = 0; p < count; ++p) {
    records[p].rmse = covered[p] > 0 ? std::sqrt(squares[p] / covered[p]) : 0;
    records[p].coverage = field->valid > 0 ? covered[p] / static_cast<double>(field->valid) : 1;
  }
  for (int layer = 0; layer < parts.layers; ++layer) {
    const auto first = records.begin() + static_cast<std::ptrdiff_t>(parts.Of(layer, 0));
    const std::vector<LevelRecord> levels(first, first + parts.levels);
    const auto k = static_cast<std::size_t>(layer);
    (k < field->rougher.size() ? field->rougher[k].levels : field->levels) = levels;
  }
  field->max_error = field->levels[0].max_error;
  field->rmse = field->levels[0].rmse;
  field->psnr = Psnr(field->min, field->max, field->rmse);
}

}  // namespace quarry::writer
