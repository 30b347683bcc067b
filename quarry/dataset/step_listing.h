#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "quarry/format/catalogue.h"
#include "quarry/storage/location.h"

/// The one place that knows where the steps of a dataset are listed: names, or the head. docs/format.md,
/// "Files and names".
namespace quarry {

/// The published steps of a dataset.
struct StepListing {
  std::vector<std::uint64_t> steps;  ///< ascending
  bool catalogue_is_current = false;
  std::optional<format::CatalogueHead> head;  ///< if it was read
};

/// @param root  a dataset, from WithPacks
/// @errors kDataLoss: the folder is missing, or the head is damaged where it is needed; kInvalidArgument: a
/// web server has no head of it; kInternal
Result<StepListing> ListPublished(const Location& root);

/// The head of a dataset in an object store, if it decides which steps there are.
/// @errors those of a storage that gives no answer
Result<std::optional<format::CatalogueHead>> PublishingHead(const Location& root);

}  // namespace quarry
