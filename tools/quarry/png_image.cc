#include "tools/quarry/png_image.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "quarry/base/missing.h"
#include "quarry/picture/colormap.h"
#include "quarry/picture/png_file.h"

namespace quarry::tools {

using picture::Colormap;
using picture::kMaxPixelsPerSide;
using picture::Rgb;

namespace {

/// The two axes of the picture: all but one axis of a single sample, the last such one, so that a plane at
/// one z shows x to the right and y up.
struct PlaneAxes {
  std::size_t right;
  std::size_t up;
};

Result<PlaneAxes> FindPlane(const Box& extent) {
  const Index3 shape = extent.shape();
  if (extent.empty())
    return InvalidArgument("the box holds no sample at this level; ask for a finer level or a thicker box");
  for (std::size_t thin = 3; thin-- > 0;) {
    if (shape[thin] == 1) return PlaneAxes{thin == 0 ? std::size_t{1} : 0, thin == 2 ? std::size_t{1} : 2};
  }
  return InvalidArgument(
      "a picture needs a box one sample thick, this one is {}; give for example --box :,:,10:11",
      ToString(shape));
}

/// Samples as numbers; nothing for a missing one.
std::vector<std::optional<double>> ValuesOf(const client::LevelSamples& samples,
                                            std::optional<std::uint64_t> fill) {
  std::vector<std::optional<double>> values;
  DispatchType(samples.type, [&]<typename T>(T) {
    for (const T sample : samples.SamplesAs<T>())
      values.push_back(IsMissing(sample, fill) ? std::nullopt : std::optional(static_cast<double>(sample)));
  });
  return values;
}

std::pair<double, double> RangeOf(const std::vector<std::optional<double>>& values) {
  double low = INFINITY;
  double high = -INFINITY;
  for (const std::optional<double>& value : values) {
    if (!value) continue;
    low = std::fmin(low, *value);
    high = std::fmax(high, *value);
  }
  return {low, high};
}

}  // namespace

Result<Bytes> EncodePng(const client::LevelSamples& samples, const ImageOptions& options) {
  QUARRY_ASSIGN_OR_RETURN(const PlaneAxes axes, FindPlane(samples.extent));
  QUARRY_ASSIGN_OR_RETURN(const Colormap colormap, Colormap::Find(options.colormap));
  const Index3 shape = samples.extent.shape();
  const std::int64_t columns = shape[axes.right];
  const std::int64_t lines = shape[axes.up];
  if (options.zoom < 1 || std::max(columns, lines) * options.zoom > kMaxPixelsPerSide) {
    return InvalidArgument(
        "a picture of {} x {} samples at zoom {} is not possible; at most {} pixels a side", columns, lines,
        options.zoom, kMaxPixelsPerSide);
  }
  const std::vector<std::optional<double>> values = ValuesOf(samples, options.fill);
  const auto [low, high] = options.range.value_or(RangeOf(values));
  const double scale = high > low ? 1 / (high - low) : 0;
  const bool transparency = std::find(values.begin(), values.end(), std::nullopt) != values.end();
  const std::array<std::int64_t, 3> stride = {1, shape[0], shape[0] * shape[1]};
  std::vector<std::uint8_t> rows;
  for (std::int64_t line = lines - 1; line >= 0; --line) {
    for (std::int64_t column = 0; column < columns; ++column) {
      const auto& value =
          values[static_cast<std::size_t>(column * stride[axes.right] + line * stride[axes.up])];
      const Rgb colour = value ? colormap.At((*value - low) * scale) : Rgb{};
      for (int z = 0; z < options.zoom; ++z) {
        rows.insert(rows.end(), colour.begin(), colour.end());
        if (transparency) rows.push_back(value ? 255 : 0);
      }
    }
  }
  return picture::EncodePng({.columns = columns * options.zoom,
                             .rows = lines,
                             .transparency = transparency,
                             .repeat = options.zoom,
                             .samples = rows});
}

}  // namespace quarry::tools
