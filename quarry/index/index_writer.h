#pragma once

#include <filesystem>
#include <functional>

#include "quarry/base/directory_lock.h"
#include "quarry/dataset/dataset.h"

namespace quarry::index {

/// The folder of an index unless the user chooses another.
Location DefaultIndexFolder(const Location& dataset);

struct IndexReport {
  std::uint64_t steps_added = 0;
  std::uint64_t steps_removed = 0;  ///< indexed before, but no longer published, or replaced
  std::uint64_t fields_added = 0;   ///< pairs of a field and a step
  std::uint64_t patches_added = 0;
  std::uint64_t masks_added = 0;
  std::uint64_t steps = 0;      ///< in the index now
  std::string rebuilt_because;  ///< why an existing index was not used; empty when it was
};

/// Brings the index up to date: loads new and changed steps, one transaction each, and drops removed ones.
/// Rebuilds an index that is missing, damaged or another dataset's. The new index appears at once; readers
/// keep the one that they have open. Running it twice changes nothing.
/// @param folder  a local one: an index is copied to other storages as a whole
/// @errors kDataLoss: a patch table or step.json is damaged; the old index stays; those of DirectoryLock
Result<IndexReport> UpdateIndex(const Dataset& dataset, const std::filesystem::path& folder, bool rebuild,
                                const std::function<void(std::uint64_t done, std::uint64_t total)>& progress,
                                const LockOptions& locking = {});

/// Compares every record of the index with the patch tables. @errors kDataLoss: damaged; kNotFound: no index;
/// kFailedPrecondition: not up to date
Status VerifyIndex(const Dataset& dataset, const Location& folder);

}  // namespace quarry::index
