#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "quarry/storage/look_at_each.h"

namespace quarry {

struct FoundDataset {
  std::string name;  ///< path below the root without ".quarry", "/" between parts; the name that clients use
  Location location;
};

/// Bounds of a search.
struct DiscoveryOptions {
  std::function<bool()> cancelled = [] { return false; };  ///< asked between looks at the storage
  std::uint64_t most_entries = 1'000'000;                  ///< looked at in all folders
  std::uint64_t most_behind_links = 100'000;               ///< limit of folders behind symbolic links
  std::chrono::milliseconds patience = Patience().each;    ///< for each look at a folder, see Patience
};

/// Result of a search.
struct Discovery {
  std::vector<FoundDataset> datasets;  ///< by name
  Status incomplete;                   ///< the first error of a folder below the root; Ok if there was none
  std::string left_out;                ///< folders that a bound has left out, for the operator; empty: none
};

/// All datasets in the directory tree below `root`; `root` itself when it is one, and it must be one where
/// there are no lists. Skips hidden directories
/// (among them the staging of writers), those whose names are not UTF-8 or that this user may not list, and
/// the insides of datasets. A folder that does not answer in time is a dataset if it is called NAME.quarry,
/// and makes the result incomplete otherwise. Folders come before those behind symbolic links, so that links
/// cannot use up the bounds for them; a link back to a folder above it is not followed.
/// @errors kNotFound: there is no such directory; kInternal: it cannot be listed; kCancelled
Result<Discovery> Discover(const Location& root, const DiscoveryOptions& options = {});

/// The same for callers that need all datasets. @errors besides: the first of any folder
Result<std::vector<FoundDataset>> FindDatasets(const Location& root);

}  // namespace quarry
