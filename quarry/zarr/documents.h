#pragma once

#include "quarry/format/dimension_names.h"
#include "quarry/zarr/hierarchy.h"

namespace quarry::zarr {

/// The first dimension, and the array of its times: common to the fields that every step holds.
/// @param field  null: of the dataset
StepNames StepNamesOf(const Contents& contents, const FieldContents* field);

/// Every zarr.json by its key. Groups have the metadata of all below them, so that one read opens them.
Documents MakeDocuments(const Contents& contents, const Arrays& arrays);

}  // namespace quarry::zarr
