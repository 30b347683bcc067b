#pragma once

#include <map>
#include <memory>
#include <string>

#include "quarry/format/dimension_names.h"
#include "quarry/zarr/hierarchy.h"

namespace quarry::zarr {

/// The first dimension, and the array of its times: common to the fields that every step holds.
/// @param field  null: of the dataset
StepNames StepNamesOf(const Contents& contents, const FieldContents* field);

/// Every zarr.json by its key. Groups have the metadata of all below them, so that one read opens them.
std::map<std::string, std::shared_ptr<const std::string>, std::less<>> MakeDocuments(
    const Contents& contents, const std::map<std::string, Array, std::less<>>& arrays);

}  // namespace quarry::zarr
