#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "quarry/input/input.h"

/// Which dimension of an array is x, y, z or time, and which is chosen by --index.
namespace quarry::input::internal {

/// Role of a dimension, as the file gives it.
enum class Role {
  kUnknown,  ///< an axis of the grid, if there are at most three
  kTime,
  kOther,  ///< channels, members, modes: never an axis of the grid
};

struct AxisDimension {
  std::string name;  ///< empty: unknown; --index then names its place, counted from 0
  std::int64_t length = 0;
  Role role = Role::kUnknown;
};

/// Roles of the dimensions of an array. Dimensions that are neither in `grid` nor `time` have one sample:
/// `first` says which.
struct AxisRoles {
  std::array<std::optional<std::size_t>, 3> grid;  ///< dimension of x, y, z
  std::optional<std::size_t> time;
  std::vector<std::int64_t> first;    ///< by dimension; of `time` and `fields` the first of those chosen
  std::int64_t moments = 1;           ///< that are chosen of `time`
  std::optional<std::size_t> fields;  ///< a dimension whose chosen indices each become a field
  std::int64_t field_count = 1;       ///< that are chosen of `fields`
};

/// Assigns roles: those of --axes; else time by the file's metadata, and z, y, x to the last dimensions.
/// Where more than three remain, those of one sample are dropped, slowest first.
/// @errors kInvalidArgument: options that do not fit the dimensions; dimensions that the user has to choose
/// of, with the option; the text is a part of a sentence without the file's name
Result<AxisRoles> AssignAxes(const std::vector<AxisDimension>& dimensions, const InputOptions& options);

/// How many axes of a grid the dimensions would make, were all options given: the rank of a field that a file
/// is looked through for.
std::size_t RankOf(const std::vector<AxisDimension>& dimensions);

/// "time=3 x z=4 x y=8", for messages.
std::string ListOf(const std::vector<AxisDimension>& dimensions);

}  // namespace quarry::input::internal
