#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "quarry/base/directory_lock.h"
#include "quarry/description.h"
#include "quarry/format/manifest.h"
#include "quarry/format/step_records.h"
#include "quarry/storage/writable_storage.h"

/// The files of a dataset on a disk, for writers. docs/format.md, "Publishing", is the protocol.
namespace quarry::writer {

/// Prefix of names in "steps" that no reader sees: such a step is not published yet, or no longer.
inline constexpr std::string_view kStagingPrefix = ".partial-";

/// Name in "steps" of the file that says who writes a dataset in a store.
inline constexpr std::string_view kClaimFile = ".partial-writer";
/// [bytes] Most of its line.
inline constexpr std::uint64_t kMostClaim = 4096;
/// The error for a dataset in a store that another process has claimed.
Status Claimed(const Location& file, const std::string& line);
/// Takes the claim of another process away, or says that there is one.
/// @errors kUnavailable: another process writes, or was killed; those of the storage
Status CheckUnclaimed(const WritableLocation& root, bool break_lock);

/// dataset.json of an existing dataset. @errors kNotFound, kDataLoss
Result<DatasetDescription> ReadDescription(const Location& dataset);

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
Result<std::set<std::uint64_t>> ListSteps(const Location& dataset);

/// Puts another dataset.json into the place of the one that is there.
Status ReplaceDescription(const WritableLocation& dataset, const DatasetDescription& description);

/// Whether a subfile or pack is there, of this size and with this checksum of its table in its footer.
bool HasFooter(const Location& file, std::uint64_t size, std::uint64_t checksum);

/// Puts a file that is the same, whoever puts it, and that may be there.
/// @errors kFailedPrecondition: another one is there; those of the storage
Status PutOnce(const WritableLocation& file, const std::string& text);

/// The names in the folder of a dataset that no reader sees yet; nothing: others are among them.
/// @errors those of the storage
Result<std::optional<std::set<std::string>>> DatasetNames(const Location& root);
/// Removes these, and everything below them. Names of others stay. In a store.
/// @param keep  name of a file in "steps" that stays
/// @return number of files
Result<std::uint64_t> RemoveDatasetFiles(const WritableLocation& root, std::string_view keep = {});
/// Removes the files below a folder of a store.
/// @param chosen  by the names in the folder; left out: all
/// @return their number
Result<std::uint64_t> RemoveFiles(const WritableLocation& folder,
                                  const std::function<bool(const std::string&)>& chosen = {});
/// Removes the files of steps of a store that are not published. @return their number
Result<std::uint64_t> RemoveUnpublished(const WritableLocation& root,
                                        const std::vector<std::uint64_t>& published);

/// The error for a dataset in a store whose head does not publish: a step would be seen file by file.
Status AddsNoSteps(const Location& root);

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
