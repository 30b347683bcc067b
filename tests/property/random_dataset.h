#pragma once

#include <filesystem>
#include <string>

#include "quarry/description.h"
#include "tests/testing/generated_patch.h"

namespace quarry::testing {

/// A dataset with one field, "f", of one step, and the original samples.
struct RandomDataset {
  DatasetDescription description;
  GeneratedPatch original;
  double range = 0;  ///< range of the valid samples; any for integers of 64 bits
  std::string text;  ///< for messages

  const FieldDescription& field() const { return description.fields[0]; }
  const GridDescription& grid() const { return description.grids[0]; }
};

/// Any type, coder, bound, layers, missing samples and grid.
/// @param coder       of the field
/// @param max_volume  of the grid, in samples
RandomDataset MakeRandomDataset(const PatchCoder& coder, std::int64_t max_volume, Random* random);

/// Writes the dataset as quarry-write does.
Status WriteDataset(const RandomDataset& dataset, const std::filesystem::path& path);

}  // namespace quarry::testing
