#pragma once

#include "quarry/client.h"
#include "quarry/query/coordinate_fields.h"

/// Tables as text that spreadsheets and pandas read: RFC 4180 with lines that end as text here does. A
/// missing value is an empty cell; numbers are the shortest that give the same value again.
namespace quarry::tools {

/// A line of samples: the position and the value of each.
/// @param samples  one sample thick along two axes; otherwise, or when empty, kInvalidArgument
Result<Bytes> EncodeCsv(const client::LevelSamples& samples, const DatasetDescription& dataset);

/// Values at points.
/// @param titles  of the coordinates of the points
Bytes EncodeCsv(std::span<const query::Point> points, std::span<const double> values,
                const FieldDescription& field, const query::PositionTitles& titles);

}  // namespace quarry::tools
