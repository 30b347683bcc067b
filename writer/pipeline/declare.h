#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "quarry/description.h"
#include "quarry/field_request.h"

/// Turns the declaration of a dataset into its dataset.json: the same for dump files and for the memory of a
/// simulation.
namespace quarry::writer {

/// The default coder of a field with a tolerance.
inline constexpr CoderId kDefaultFloatCoder = CoderId::kInterpolate;
inline constexpr CoderId kDefaultIntegerCoder = CoderId::kInterpolate;

/// The grid and how it is cut. Omitted values take defaults, or those of the continued dataset.
struct LayoutRequest {
  std::optional<std::array<double, 3>> origin;
  std::optional<std::array<double, 3>> spacing;
  std::optional<Index3> patch;  ///< an axis of one sample has patches of one, always; default: DefaultPatch
  std::optional<int> levels;    ///< default: DefaultLevels
  std::optional<format::PayloadOrder> order;
};

/// Names of the parts of a field in the caller's language.
struct FieldWords {
  const char* tolerance = "tolerance";
  const char* relative = "relative";
  const char* lossless = "lossless";
  const char* codec = "codec";
  const char* layers = "layers";
  const char* pointwise_relative = "pointwise_relative";
  const char* keyframe = "keyframe";
  const char* units = "units";
};

/// "with tolerance 0.01", "in layers 0.1, exact": how exactly a field is stored, for messages.
std::string BoundText(const FieldDescription& field);

/// @param words  for messages
/// @errors kInvalidArgument: the parts contradict each other
Result<FieldDescription> DescribeField(const FieldRequest& field, const FieldWords& words = {});

/// A field that continues one of the dataset: settings that the request leaves open come from there.
FieldRequest ContinueField(FieldRequest field, const FieldDescription& existing);

/// Checks that a field matches one that the dataset already has.
/// @errors kInvalidArgument: they differ
Status CheckSameField(const FieldDescription& wanted, const FieldDescription& existing,
                      const FieldWords& words = {});

/// Adds a field to a dataset, or checks that it matches the one of that name, which keeps its attributes. One
/// that stood still changes, unless the field is to stand still.
/// @errors kInvalidArgument: they differ
Status TakeField(FieldDescription wanted, DatasetDescription* dataset, const FieldWords& words = {});

/// Adds a coordinate of text to a dataset. One that is there stays as it is.
/// @returns  whether the dataset has it now, with these texts along this axis
bool TakeText(const TextCoordinate& text, DatasetDescription* dataset);

/// A new dataset without fields and grids.
DatasetDescription DescribeDataset(const LayoutRequest& layout);

/// Cuts a grid and adds it to a dataset. Unless the layout says otherwise, it has no more levels than the
/// first grid of more than one sample, so that fields are seen at the same levels.
/// @returns  its number
/// @errors kInvalidArgument: patch or levels that do not fit, samples without a place, an axis that another
/// grid has elsewhere
Result<std::size_t> AddGrid(GridDescription grid, const LayoutRequest& layout, DatasetDescription* dataset);

/// Checks that a grid of a continued dataset has these samples and this layout.
/// @errors kInvalidArgument: what differs
Status CheckSameLayout(const Index3& dims, const LayoutRequest& layout, const DatasetDescription& existing,
                       std::size_t grid);

/// The unit of a dataset that is continued with times in `here`: its own, `there`, or `here` where it has
/// none and no step has a time. Times without a unit are in the dataset's.
/// @errors kInvalidArgument: its times have no unit; both are named
Result<TimeUnit> ContinueTimeUnit(const TimeUnit& here, const TimeUnit& there, bool has_times);

/// A time in the unit of the dataset, `there`. One without a unit is in it already.
/// @errors kInvalidArgument: see ConvertTime
Result<std::optional<double>> TimeInUnit(std::optional<double> time, const TimeUnit& here,
                                         const TimeUnit& there);

}  // namespace quarry::writer
