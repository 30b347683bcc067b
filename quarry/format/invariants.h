#pragma once

#include <set>
#include <string_view>

#include "quarry/description.h"

/// Invariants of descriptions that every reader assumes, and that no single value shows. The writer refuses
/// to make a dataset that breaks it, and FromProto one that was found on a disk or came over the network.
namespace quarry::format {

/// Most fields of a dataset. A field is looked for by its name in a list.
inline constexpr std::size_t kMaxFields = 4096;
/// Most grids of a dataset.
inline constexpr std::size_t kMaxGrids = 4096;

/// The grids of a dataset: at least one, no more than kMaxGrids; each places all its samples, and axes of one
/// name are the same in all of them.
/// @errors kInvalidArgument
Status CheckGrids(const std::vector<GridDescription>& grids);

/// A field by itself: name, type, coder, layers of accuracy and bound go together; attributes within their
/// bounds.
/// @errors kInvalidArgument
Status CheckField(const FieldDescription& field);

/// Grids, fields, time and attributes together: at least one field, no more than kMaxFields, no two with one
/// name, each on a grid that is there; numbers of fields that ascend, both parts of complex samples; a unit
/// and a name of time, attributes and texts within their bounds.
/// @errors kInvalidArgument
/// @complexity n log n of the numbers of fields and grids
Status CheckDataset(const DatasetDescription& dataset);

/// Fields that are copied without others: both parts of complex samples, or none.
/// @errors kInvalidArgument: a part is missing
Status CheckChosenFields(const DatasetDescription& dataset, const std::set<std::string_view>& chosen);

/// Coordinates of text: each fits its grid, all together are within their bounds, and no two things have one
/// name.
/// @errors kInvalidArgument
Status CheckTexts(const DatasetDescription& dataset);

/// Checks a step of a dataset: a finite time, if any, no field twice, the numbers of levels and layers of
/// dataset.json, a mask if and only if a sample is missing, and subfiles that hold every patch once. A field
/// that `dataset` lacks is newer than it: it cannot be queried, and its layers and grid are unknown.
/// @errors kInvalidArgument
/// @complexity n log n of the numbers of fields of both
Status CheckStep(const StepDescription& step, const DatasetDescription& dataset);
/// The same without files.
Status CheckStep(const StepSummary& step, const DatasetDescription& dataset);

}  // namespace quarry::format
