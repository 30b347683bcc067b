#include "writer/pipeline/field_files.h"

#include <algorithm>
#include <cmath>

#include "quarry/base/checked_math.h"
#include "quarry/format/description_rules.h"
#include "quarry/format/manifest.h"
#include "quarry/format/mask.h"
#include "writer/pipeline/comm.h"

namespace quarry::writer {

namespace {

// One in so many parts of a rank's memory is for these, of all its files together. Samples and patches that
// wait for a thread are gone by then.
constexpr std::uint64_t kWindowShare = 16;
constexpr std::uint64_t kTableShare = 8;
constexpr std::uint64_t kPartShare = 4;
constexpr std::uint64_t kLeastWindow = 1 << 20;
constexpr std::uint64_t kLargestWindow = 8 << 20;

}  // namespace

Status FieldFiles::CheckCount(std::size_t files, const PatchParts& parts) {
  SubfileSummary summary;
  summary.levels.resize(static_cast<std::size_t>(parts.count()));
  Bytes bytes;
  summary.EncodeTo(&bytes);
  const std::size_t most = kMostGathered / bytes.size();
  if (files <= most) return Status::Ok();
  return ResourceExhausted(
      "it would have {} subfiles, more than the {} that the ranks can describe; give fewer (--files)", files,
      most);
}

Result<std::vector<SubfileSummary>> FieldFiles::Write(const std::string& folder,
                                                      const format::SubfileHeader& header,
                                                      const OutgoingPatches& own) const {
  SubfileLayout layout;
  {
    const Timer timer(setting_.seconds, Phase::kAssign);
    QUARRY_ASSIGN_OR_RETURN(layout.assignment,
                            AssignOverRanks(ranks(), own, setting_.files, setting_.aggregation));
  }
  const std::uint64_t files_of_rank =
      CeilDivide<std::uint64_t>(layout.files(), static_cast<std::uint64_t>(Size(setting_.comm)));
  layout.window_bytes =
      std::clamp(setting_.memory_per_rank / kWindowShare / files_of_rank, kLeastWindow, kLargestWindow);
  layout.table_memory = setting_.memory_per_rank / kTableShare;
  layout.part_memory = setting_.memory_per_rank / kPartShare;
  const WritableLocation place{Location(setting_.place.root.storage, folder), setting_.place.storage};
  return TransferAndWrite(ranks(), layout, place, header, own, setting_.seconds);
}

Result<std::vector<SubfileSummary>> FieldFiles::WriteSamples(const std::string& folder,
                                                             const format::SubfileHeader& header) const {
  return Write(folder, header, own_.samples());
}

Result<FieldMask> FieldFiles::WriteMask() const {
  FieldMask mask;
  {
    const Timer timer(setting_.seconds, Phase::kAssign);
    QUARRY_ASSIGN_OR_RETURN(const double missing, MaxOverRanks(setting_.comm, own_.any_masked() ? 1.0 : 0.0));
    if (missing == 0) return mask;
    QUARRY_ASSIGN_OR_RETURN(mask.name, NameMaskOverRanks(ranks(), own_.masks(), setting_.grid_number));
  }
  mask.description.name = mask.name;
  mask.description.grid = setting_.grid_number;
  const auto stage = [&]() -> Result<std::string> {
    QUARRY_ASSIGN_OR_RETURN(const std::optional<MaskDescription> known,
                            setting_.publisher->FindMask(mask.name, setting_.dataset, setting_.grid_number));
    if (known) {
      mask.description = *known;
      return std::string();
    }
    return setting_.publisher->StageMask(mask.name);
  };
  QUARRY_ASSIGN_OR_RETURN(const std::string folder, TextOfRoot(setting_.comm, stage));
  if (folder.empty()) return mask;
  const DatasetDescription& dataset = setting_.dataset;
  const format::SubfileHeader header =
      format::MaskHeader(mask.name, dataset.grids[setting_.grid_number], dataset.order);
  QUARRY_ASSIGN_OR_RETURN(const std::vector<SubfileSummary> summaries, Write(folder, header, own_.masks()));
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
