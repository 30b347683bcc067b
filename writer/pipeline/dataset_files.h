#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <string_view>

#include "quarry/description.h"

/// The files of a dataset on a disk, for writers. docs/format.md, "Publishing", is the protocol.
namespace quarry::writer {

/// Prefix of names in "steps" that no reader sees: such a step is not published yet, or no longer.
inline constexpr std::string_view kStagingPrefix = ".partial-";

/// step.json of a step. @param folder  of the step
/// @errors kNotFound, kDataLoss
Result<StepDescription> ReadStep(const std::filesystem::path& folder, const DatasetDescription& dataset);

/// Numbers of all published steps. @errors kInternal
Result<std::set<std::uint64_t>> ListSteps(const std::filesystem::path& dataset);

/// Puts another dataset.json into the place of the one that is there.
Status ReplaceDescription(const std::filesystem::path& dataset, const DatasetDescription& description);

/// Removes the entries of a folder that are chosen by their names. A folder that is not there has none.
Status RemoveEntries(const std::filesystem::path& folder,
                     const std::function<bool(const std::string&)>& is_stale);

/// Removes steps and masks that are not published.
Status RemoveStaged(const std::filesystem::path& dataset);

}  // namespace quarry::writer
