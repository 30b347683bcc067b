#pragma once

#include <optional>
#include <vector>

#include "quarry/description.h"
#include "quarry/insitu_setup.h"

/// Rules of declarations.
namespace quarry::insitu {

/// The dataset.json of a declaration.
/// @param existing  the dataset that is continued, or nothing
/// @errors kInvalidArgument: the parts contradict each other or the existing dataset
Result<DatasetDescription> Describe(const Declaration& declaration,
                                    const std::optional<DatasetDescription>& existing);

/// @errors kInvalidArgument: storage that does not hold its box
Status CheckStorage(const std::vector<OwnedBox>& boxes);

}  // namespace quarry::insitu
