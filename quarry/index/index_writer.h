#pragma once

#include <filesystem>
#include <functional>

#include "quarry/dataset/dataset.h"

namespace quarry::index {

/// Where the index of a dataset is unless somebody chose another folder.
std::filesystem::path DefaultIndexFolder(const std::filesystem::path& dataset);

struct IndexReport {
  std::uint64_t steps_added = 0;
  std::uint64_t steps_removed = 0;  ///< indexed before, but no longer published or published anew
  std::uint64_t fields_added = 0;   ///< pairs of a field and a step
  std::uint64_t patches_added = 0;
  std::uint64_t masks_added = 0;
  std::uint64_t steps = 0;      ///< in the index now
  std::string rebuilt_because;  ///< why an existing index was not used; empty when it was
};

/// Brings the index up to date: loads steps that are new or have changed, one transaction each, and drops
/// those that are gone. An index that is missing, damaged or another dataset's is built anew. The new index
/// appears at once; readers keep the one that they have open. Running it twice changes nothing.
/// @errors kDataLoss: a patch table or step.json is damaged; the old index stays
Result<IndexReport> UpdateIndex(const Dataset& dataset, const std::filesystem::path& folder, bool rebuild,
                                const std::function<void(std::uint64_t done, std::uint64_t total)>& progress);

/// Compares every record of the index with the patch tables. @errors kDataLoss: damaged; kNotFound: no index;
/// kFailedPrecondition: not up to date
Status VerifyIndex(const Dataset& dataset, const std::filesystem::path& folder);

}  // namespace quarry::index
