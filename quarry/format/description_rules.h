#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "quarry/base/status.h"
#include "quarry/description.h"
#include "quarry/geometry/patch_grid.h"

/// Rules of descriptions, for all who make one, and all who read one.
namespace quarry {

/// Whether axes of two grids have the same samples, positions and unit.
bool IsSameAxis(const GridDescription& a, std::size_t of_a, const GridDescription& b, std::size_t of_b);

/// Where the samples of a source lie.
struct SourceGrid {
  Index3 dims{};
  std::array<SourceAxis, 3> axes;  ///< x, y, z
};

/// The patches of a grid. @errors see PatchGrid::Create
Result<PatchGrid> PatchesOf(const GridDescription& grid);

/// Whether these can be the positions of samples along an axis: finite, and strictly ascending or strictly
/// descending.
bool AreCoordinates(std::span<const double> positions);

/// Whether this can be the distance of samples along an axis: finite, and not 0.
bool IsSpacing(double spacing);

/// Checks that every sample of a grid has a place: for all who make a grid, and all who read one.
/// @errors kInvalidArgument: an axis whose origin, spacing or coordinates say none
Status CheckPlaces(const GridDescription& grid);

/// Checks the name of the dimension of time, for all who make one, and all who read one.
/// @errors kInvalidArgument: not UTF-8, or longer than kMaxAttributeName
Status CheckTimeName(const std::string& name);

/// Checks the time of a step, for all who make one, and all who read one.
/// @errors kInvalidArgument: NaN or infinite
Status CheckTime(const std::optional<double>& time);

/// Checks the unit of times, for all who make one, and all who read one. A unit or calendar that is not known
/// is a text like others.
/// @errors kInvalidArgument: not UTF-8, or longer than kMaxTimeUnit
Status CheckTimeUnit(const TimeUnit& unit);
inline constexpr std::size_t kMaxTimeUnit = 1024;  ///< [bytes] of the units, and of the calendar

/// The type in which samples of a given one are stored.
DataType StoredTypeOf(GivenType given);

/// How samples of a type are stored.
struct NamedType {
  DataType type = DataType::kFloat32;
  GivenType given = GivenType::kStored;
};

/// By its name: "bool" and "float16" beside those of DataType. @errors kInvalidArgument that lists the known
/// names
Result<NamedType> ParseNamedType(std::string_view name);

/// The layer of accuracy that a field shows in a call for several fields.
/// @param layer  0 the roughest; the last for a field with fewer layers, and where it is left out
int ShownLayer(const FieldDescription& field, std::optional<int> layer);

/// Checks the layer of accuracy of a call for several fields: at least one of them must have it.
/// @param layer  as in ShownLayer
/// @errors kInvalidArgument with the names of the fields, and the layers
Status CheckLayer(std::span<const FieldDescription* const> fields, std::optional<int> layer);

/// Bounds of the coordinates of text of a dataset, all together.
inline constexpr std::size_t kMaxTextCoordinates = 1024;
inline constexpr std::size_t kMaxTexts = std::size_t{1} << 20;
inline constexpr std::size_t kMaxTextBytes = std::size_t{16} << 20;

/// [bytes] of all attributes, as they count for their bounds.
std::size_t SizeOfAttributes(const DatasetDescription& dataset);

/// The attributes of a variable with the times of the steps: those of the source, its unit and calendar; of a
/// source that says no more than these, what CF asks for.
Attributes TimeAttributesOf(const DatasetDescription& dataset);

/// Peak signal-to-noise ratio of a field, in dB; infinite when nothing was lost.
double Psnr(double min, double max, double rmse);

}  // namespace quarry
