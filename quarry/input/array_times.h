#pragma once

#include <optional>
#include <string>
#include <vector>

#include "quarry/input/conventions.h"

/// Positions and times of arrays.
namespace quarry::input::internal {

SourceAxis DescribeAxis(const ArrayFile& file, const ArrayDimension& dimension,
                        std::vector<std::string>* warnings);

struct Times {
  std::vector<double> values;  ///< by index of the dimension; empty: unknown
  TimeUnit unit;
  std::optional<std::size_t> coordinate;  ///< where the file has them
};

Times FindTimes(const ArrayFile& file, const Conventions& conventions, const ArrayInfo& of,
                const ArrayDimension& dimension, std::vector<std::string>* warnings);

/// The one moment of an array without a dimension of time: a time of the format, or a coordinate of no
/// dimension.
/// @returns  that coordinate
std::optional<std::size_t> FindMoment(const ArrayFile& file, const Conventions& conventions,
                                      const ArrayInfo& array, InputInfo* info);

}  // namespace quarry::input::internal
