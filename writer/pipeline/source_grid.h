#pragma once

#include <string>
#include <string_view>

#include "quarry/format/description_rules.h"
#include "writer/pipeline/declare.h"

/// Which grid of a dataset the samples of a source lie on: the same for dump files, the memory of a
/// simulation and arrays of Python.
namespace quarry::writer {

/// The grid of a field, which gets a new one if the dataset has none on which the samples lie. Samples lie on
/// a grid of their size that has their axes, by name and unit where the source says them, and their positions
/// within a millionth of the spacing, in which positions of float32 are rounded. Origin and spacing of the
/// layout overrule the source.
/// @param field   a field that the dataset has keeps its grid
/// @param advice  what to do about samples that lie elsewhere than those of the field, for the message;
///                {origin} and {spacing} in it become those of the dataset
/// @returns       its number
/// @errors kInvalidArgument: samples without a place; another size, layout or place than the field has there
Result<std::size_t> ChooseGrid(const SourceGrid& source, const LayoutRequest& layout,
                               const std::string& field, std::string_view advice,
                               DatasetDescription* dataset);

}  // namespace quarry::writer
