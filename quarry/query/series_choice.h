#pragma once

#include <span>
#include <string>
#include <vector>

#include "quarry/description.h"

namespace quarry::query {

/// A field of a series whose error is bounded.
struct BoundedField {
  std::string name;
  double max_error = 0;                   ///< [unit of the field]
  std::vector<const FieldRecord*> steps;  ///< the records of the steps that hold it, none null
};

struct SeriesChoice {
  int level = 0;            ///< one for all fields
  std::vector<int> layers;  ///< layer of accuracy of each field
};

/// Chooses the level, one for all fields, and the layer of each field with the least payload at which whole
/// grids keep the errors in all of the steps. From the records of the steps: they are the worst of their
/// patches, so a plan of the whole grid of a single field and step chooses the same. Grids of one sample have
/// it at every level.
/// @errors kNotFound: no level keeps an error, with that of level 0 of the last layer; kInvalidArgument: no
/// such field, an error that is no number from 0 on
Result<SeriesChoice> ChooseForSeries(const DatasetDescription& dataset, std::span<const BoundedField> fields);

}  // namespace quarry::query
