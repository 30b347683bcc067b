#include "writer/pipeline/publish.h"

#include <algorithm>
#include <vector>

#include "quarry/dataset/dataset.h"
#include "quarry/format/description_rules.h"
#include "quarry/format/manifest.h"
#include "quarry/format/mask.h"
#include "quarry/format/subfile_table.h"
#include "writer/pipeline/directory_publisher.h"
#include "writer/pipeline/store_publisher.h"
#include "writer/upkeep/coarse_writer.h"
#include "writer/upkeep/dataset_files.h"

namespace quarry::writer {
namespace {

/// Describes a mask from the subfiles in its folder, and checks its name.
Result<MaskDescription> DescribeMask(const Location& folder, std::uint64_t name,
                                     const DatasetDescription& dataset, std::size_t grid_number) {
  const GridDescription& described = dataset.grids[grid_number];
  QUARRY_ASSIGN_OR_RETURN(const PatchGrid grid, PatchesOf(described));
  MaskDescription mask;
  mask.name = name;
  mask.grid = grid_number;
  std::vector<std::uint64_t> digests;
  while (true) {
    SubfileDescription subfile;
    subfile.name = format::SubfileName(mask.subfiles.size());
    const auto opened = (folder / subfile.name).Open();
    if (opened.status().code() == StatusCode::kNotFound) break;
    QUARRY_RETURN_IF_ERROR(opened.status());
    const std::shared_ptr<const StoredObject>& file = *opened;
    QUARRY_ASSIGN_OR_RETURN(format::SubfileTable table, format::ReadSubfileTable(*file));
    subfile.bytes = table.footer.file_size;
    subfile.patches = table.header.patch_count;
    subfile.table_checksum = table.footer.table_checksum;
    if (table.header.dims != described.dims || table.header.patch != described.patch)
      return DataLoss("\"{}\" is a mask of another grid", file->path());
    format::TableWalk walk(std::make_shared<const format::SubfileTable>(std::move(table)), file);
    for (std::uint64_t block = 0; block < walk.blocks(); ++block) {
      QUARRY_RETURN_IF_ERROR(walk.GoTo(block));
      for (const format::PatchEntry& row : walk.rows()) {
        const Box box = grid.PatchBox(static_cast<std::int64_t>(row.patch_index));
        subfile.bounds = BoundingBox(subfile.bounds, box);
        digests.push_back(format::MaskDigest(row));
      }
    }
    mask.subfiles.push_back(std::move(subfile));
  }
  if (digests.size() != static_cast<std::size_t>(grid.patch_count()) ||
      format::MaskName(digests, grid_number) != name) {
    return DataLoss("the mask \"{}\" is damaged; run \"quarry verify\", or remove it if no step needs it",
                    folder);
  }
  return mask;
}

/// The first of some steps that is as wanted; nothing if none is.
template <typename Steps, typename Wanted>
Result<std::optional<std::uint64_t>> FirstOf(const Dataset& dataset, const Steps& steps,
                                             const Wanted& wanted) {
  Catalogue::Hold hold;
  for (const std::uint64_t number : steps) {
    QUARRY_ASSIGN_OR_RETURN(const StepSummary step, dataset.Summary(number, &hold));
    if (wanted(step)) return std::optional(number);
  }
  return std::optional<std::uint64_t>();
}

}  // namespace

Result<std::unique_ptr<Publisher>> Publisher::Open(const WritableLocation& place, bool append,
                                                   bool break_lock) {
  return place.storage->renames_folders() ? DirectoryPublisher::Open(place, append, break_lock)
                                          : StorePublisher::Open(place, append, break_lock);
}

Result<bool> Publisher::HasTimes(const Location& path) {
  QUARRY_ASSIGN_OR_RETURN(const auto dataset, Dataset::Open(path));
  QUARRY_ASSIGN_OR_RETURN(const auto found, FirstOf(*dataset, dataset->steps(), [](const StepSummary& step) {
                            return step.time.has_value();
                          }));
  return found.has_value();
}

Result<std::optional<std::uint64_t>> Publisher::LastStep(const Location& path, const std::string& field) {
  QUARRY_ASSIGN_OR_RETURN(const auto dataset, Dataset::Open(path));
  if (!dataset->description().FindField(field)) return std::optional<std::uint64_t>();
  std::vector<std::uint64_t> newest_first(dataset->steps().rbegin(), dataset->steps().rend());
  return FirstOf(*dataset, newest_first,
                 [&](const StepSummary& step) { return step.FindField(field) != nullptr; });
}

Result<bool> Publisher::Holds(const Location& path, const std::string& field) {
  QUARRY_ASSIGN_OR_RETURN(const auto dataset, Dataset::Open(path));
  if (!dataset->description().FindField(field)) return false;
  QUARRY_ASSIGN_OR_RETURN(const auto found, FirstOf(*dataset, dataset->steps(), [&](const StepSummary& step) {
                            return step.FindField(field) != nullptr;
                          }));
  return found.has_value();
}

Status CreatedMeanwhile(const std::string& dataset) {
  return AlreadyExists(
      "\"{}\" was created by another process just now; look at it (quarry info), then choose another name, "
      "or "
      "run this again to add to it, if that is what you want",
      dataset);
}

Status CheckSameInput(const std::string& dataset, std::uint64_t step, const PublishedStep& published,
                      const std::string& field, const std::string& source, std::optional<double> time) {
  const std::string& before = published.sources.at(field);
  const bool times_known = published.time && time;
  if (times_known ? *published.time == *time : before == source) return Status::Ok();
  const auto describe = [](const std::string& from, std::optional<double> at) {
    return at ? fmt::format("\"{}\" at time {}", from, *at) : fmt::format("\"{}\"", from);
  };
  return AlreadyExists(
      "step {} of \"{}\" has the field \"{}\" of {} already, and {} is given for it, which a "
      "resumed run would skip; append to go on after the last step, or give the series from its "
      "beginning",
      step, dataset, field, describe(before, published.time), describe(source, time));
}

Result<PublishedStep> Publisher::ReadPublished(const Location& folder,
                                               const DatasetDescription& description) {
  PublishedStep published;
  QUARRY_ASSIGN_OR_RETURN(const StepDescription read, ReadStep(folder, description));
  published.time = read.time;
  for (const FieldStepDescription& field : read.fields) published.sources[field.name] = field.source;
  return published;
}

Result<std::optional<MaskDescription>> Publisher::FindMask(std::uint64_t name,
                                                           const DatasetDescription& dataset,
                                                           std::size_t grid) {
  if (const auto known = masks_.find(name); known != masks_.end()) return std::optional(known->second);
  const Location folder = root() / format::MaskFolder(name);
  if (!existing_ || !folder.Stat().ok()) return std::optional<MaskDescription>();
  QUARRY_ASSIGN_OR_RETURN(MaskDescription mask, DescribeMask(folder, name, dataset, grid));
  return std::optional(masks_.emplace(name, std::move(mask)).first->second);
}

bool Publisher::Declares(const DatasetDescription& dataset, const DatasetDescription& existing) {
  return dataset.fields.size() != existing.fields.size() || dataset.grids.size() != existing.grids.size() ||
         dataset.time_unit != existing.time_unit || dataset.texts != existing.texts ||
         !std::ranges::equal(dataset.fields, existing.fields, {}, &FieldDescription::still,
                             &FieldDescription::still);
}

bool Publisher::StageCoarse(const StepDescription& step, const DatasetDescription& dataset,
                            const Location& folder) const {
  const Result<bool> written = WriteCoarseObject({root(), folder}, dataset, step, *place_.storage);
  return written.ok() && *written;
}

Status Publisher::AddFieldsTo(const StepDescription& step, StepDescription* whole) const {
  if (step.time && whole->time && *step.time != *whole->time) {
    return InvalidArgument(
        "step {} of \"{}\" has the time {}, but the new fields {}; choose another step, or leave their time "
        "out",
        step.step, place_.root, *whole->time, *step.time);
  }
  whole->fields.insert(whole->fields.end(), step.fields.begin(), step.fields.end());
  if (step.time) whole->time = step.time;
  return Status::Ok();
}

}  // namespace quarry::writer
