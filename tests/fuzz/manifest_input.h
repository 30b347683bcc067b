#pragma once

#include "quarry/description.h"

namespace quarry::fuzz {

/// The dataset to which the steps of the targets "manifest" and "wire" belong.
inline DatasetDescription ManifestDataset() {
  DatasetDescription dataset;
  dataset.created_by = "fuzz_seeds";
  dataset.grids[0].dims = {91, 45, 7};
  dataset.grids[0].spacing = {0.125, 0.5, 2};
  dataset.grids[0].patch = {32, 32, 4};
  dataset.grids[0].levels = 3;
  dataset.fields = {{"pressure", DataType::kFloat32, "Pa", CoderId::kWaveletZfp, AbsoluteBound{0.25}},
                    {"label", DataType::kUint8, "", CoderId::kLossless, Lossless{}, 255.0},
                    {"salt", DataType::kFloat64, "", CoderId::kInterpolate, RelativeBound{1e-3}, 1e20}};
  dataset.time_unit = {"days since 2001-01-01", "noleap"};
  return dataset;
}

}  // namespace quarry::fuzz
