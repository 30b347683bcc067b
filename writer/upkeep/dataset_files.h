#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <string_view>

#include "quarry/base/directory_lock.h"
#include "quarry/description.h"
#include "quarry/format/manifest.h"
#include "quarry/format/step_records.h"
#include "quarry/storage/location.h"

/// The files of a dataset on a disk, for writers. docs/format.md, "Publishing", is the protocol.
namespace quarry::writer {

/// Prefix of names in "steps" that no reader sees: such a step is not published yet, or no longer.
inline constexpr std::string_view kStagingPrefix = ".partial-";

/// dataset.json of an existing dataset. @errors kNotFound, kDataLoss
Result<DatasetDescription> ReadDescription(const std::filesystem::path& dataset);

/// A dataset that this process may change.
struct HeldDataset {
  DirectoryLock lock;
  DatasetDescription description;
};
/// Takes the writing lock of a dataset. @errors kNotFound, kDataLoss, kUnavailable: another process writes
Result<HeldDataset> HoldDataset(const std::filesystem::path& dataset, const LockOptions& locking);

/// step.json of a step. @param folder  of the step, below WithPacks if it may be in a pack
/// @errors kNotFound, kDataLoss
Result<StepDescription> ReadStep(const Location& folder, const DatasetDescription& dataset);
/// The same with the text of the file.
Result<StepDescription> ReadStep(const Location& folder, const DatasetDescription& dataset,
                                 std::string* text);

/// step.json of a step as the catalogue has it. @errors as ReadStep
Result<format::StepRecord> ReadRecord(const Location& folder, const DatasetDescription& dataset);

/// Numbers of all published steps, those in packs included. @errors kInternal; kDataLoss: see PacksAmong
Result<std::set<std::uint64_t>> ListSteps(const std::filesystem::path& dataset);

/// Puts another dataset.json into the place of the one that is there.
Status ReplaceDescription(const std::filesystem::path& dataset, const DatasetDescription& description);

/// Removes the entries of a folder that are chosen by their names. A folder that is not there has none.
Status RemoveEntries(const std::filesystem::path& folder,
                     const std::function<bool(const std::string&)>& is_stale);

/// The text of a manifest to be written.
/// @errors kInvalidArgument: readers would refuse it as too large
template <typename Description>
Result<std::string> ManifestText(const Description& description, std::string_view name) {
  std::string text = format::EncodeManifest(description);
  if (text.size() <= format::kManifestLimit) return text;
  return InvalidArgument("{} would have {} bytes; readers accept at most {}", name, text.size(),
                         format::kManifestLimit);
}

/// Removes steps and masks that are not published.
Status RemoveStaged(const std::filesystem::path& dataset);

}  // namespace quarry::writer
