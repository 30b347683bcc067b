#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "quarry/base/status.h"
#include "quarry/zarr/contents.h"

/// Keys of hierarchies, and paths that lead to them.
namespace quarry::zarr {

/// A decimal number without leading zeros; nothing: something else.
std::optional<std::uint64_t> ParseIndex(std::string_view text);

/// The dataset, the view of it and the key that a path below /zarr/ may mean:
///
///     DATASET/KEY, DATASET/layer=0/KEY, DATASET/float32=true/fields=p,T/KEY
///
/// Names of datasets may have slashes. What stands before the key may end in .zarr, which many readers want.
struct Place {
  std::string dataset;
  View view;
  std::string key;
  std::string hierarchy;  ///< a name for the dataset in this view
};

/// The likeliest place comes first; none: no key looks like this.
/// @errors kInvalidArgument: a part of a view that cannot be understood
Result<std::vector<Place>> PlacesOf(std::string_view path);

/// Whether a key is that of a chunk, of whatever array.
bool IsChunkKey(std::string_view key);

}  // namespace quarry::zarr
