#pragma once

#include <optional>
#include <utility>

#include "quarry/client.h"

namespace quarry::tools {

struct ImageOptions {
  std::string colormap = "viridis";
  std::optional<std::pair<double, double>>
      range;                          ///< values of the first and last colour; left out: of the samples
  int zoom = 1;                       ///< pixels along each side of a sample
  std::optional<std::uint64_t> fill;  ///< bits of missing samples, besides NaN and infinity
};

/// A plane of samples as a PNG: the lower of its two axes to the right, the other up, one square of pixels
/// per sample. Missing samples are transparent.
/// @param samples  one sample thick along at least one axis; otherwise, or when empty, kInvalidArgument
Result<Bytes> EncodePng(const client::LevelSamples& samples, const ImageOptions& options);

}  // namespace quarry::tools
