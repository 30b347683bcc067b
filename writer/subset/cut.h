#pragma once

#include <optional>
#include <string>
#include <vector>

#include "quarry/description.h"
#include "quarry/question.h"

/// How the description of a dataset changes with the samples that are left of it.
namespace quarry::writer {

/// The samples that are left of a grid.
struct Cut {
  Box box;                  ///< level-0 samples
  Box extent;               ///< the same at the level of the cut
  Index3 spacing{1, 1, 1};  ///< level-0 samples between neighbours
  query::Target target;     ///< reads them

  /// The level-0 box of some samples of the copy. @param part  in samples of the copy
  Box Source(const Box& part) const;
};

/// @param reference  position of the grid on which the box lies
/// @errors kInvalidArgument: no sample is left; the grid has an axis that is none of the reference grid
Result<Cut> CutOf(const DatasetDescription& dataset, std::size_t grid, std::size_t reference,
                  const std::optional<Box>& box, int level);

/// The grid on which a box for these fields lies: the one with the most axes.
std::size_t ReferenceGrid(const DatasetDescription& dataset, const std::vector<std::size_t>& fields);

/// A grid with the samples that are left, which has no layout of patches yet.
GridDescription CutGrid(const GridDescription& grid, const Cut& cut);

/// The texts along an axis of such a grid.
TextCoordinate CutText(const TextCoordinate& text, const Cut& cut);

}  // namespace quarry::writer
