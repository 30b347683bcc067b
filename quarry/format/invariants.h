#pragma once

#include "quarry/format/description.h"

/// Invariants of descriptions that every reader assumes, and that no single value shows. The writer refuses
/// to make a dataset that breaks it, and FromProto one that was found on a disk or came over the network.
namespace quarry::format {

/// Most fields of a dataset. A field is looked for by its name in a list.
inline constexpr std::size_t kMaxFields = 4096;

/// A field by itself: name, type, coder, layers of accuracy and bound go together.
/// @errors kInvalidArgument
Status CheckField(const FieldDescription& field);

/// The fields together: at least one, no more than kMaxFields, no two with one name.
/// @errors kInvalidArgument
/// @complexity n log n of the number of fields
Status CheckFields(const std::vector<FieldDescription>& fields);

/// A step of a dataset: a time that is finite, if any, no field twice, as many levels and layers as
/// dataset.json says, and subfiles that hold every patch once. A field that `dataset` does not know is newer
/// than it, and none of its layers are known.
/// @errors kInvalidArgument
/// @complexity n log n of the numbers of fields of both
Status CheckStep(const StepDescription& step, const DatasetDescription& dataset);

}  // namespace quarry::format
