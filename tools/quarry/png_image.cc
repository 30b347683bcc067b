#include "tools/quarry/png_image.h"

#include <png.h>

#include <algorithm>
#include <cmath>
#include <memory>

namespace quarry::tools {
namespace {

constexpr std::int64_t kMaxPixelsPerSide = 32767;

/// The two axes that have the picture: those left when one axis of a single sample is taken away, the last
/// such first, so that a plane at one z shows x to the right and y up.
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

double SampleAt(const client::LevelSamples& samples, std::int64_t index) {
  const auto i = static_cast<std::size_t>(index);
  return samples.type == DataType::kFloat32 ? static_cast<double>(samples.SamplesAs<float>()[i])
                                            : samples.SamplesAs<double>()[i];
}

std::pair<double, double> RangeOf(const client::LevelSamples& samples) {
  double low = INFINITY;
  double high = -INFINITY;
  for (std::int64_t i = 0; i < samples.extent.volume(); ++i) {
    const double value = SampleAt(samples, i);
    low = std::fmin(low, value);
    high = std::fmax(high, value);
  }
  return {low, high};
}

void AppendToBytes(png_structp png, png_bytep data, png_size_t size) {
  auto* out = static_cast<Bytes*>(png_get_io_ptr(png));
  const auto* begin = reinterpret_cast<const std::byte*>(data);
  out->insert(out->end(), begin, begin + size);
}

/// libpng reports errors by longjmp; no object with a destructor lives in this function's frame.
bool WriteRows(png_structp png, png_infop info, png_uint_32 width, png_uint_32 height, int zoom,
               const std::uint8_t* rows) {
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  png_set_IHDR(png, info, width, height, 8, PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(png, info);
  for (png_uint_32 y = 0; y < height; ++y) {
    png_write_row(png, rows + static_cast<std::size_t>(y / static_cast<png_uint_32>(zoom)) * width * 3);
  }
  png_write_end(png, nullptr);
  return true;
}

}  // namespace

Result<Bytes> EncodePng(const client::LevelSamples& samples, const ImageOptions& options) {
  QUARRY_ASSIGN_OR_RETURN(const PlaneAxes axes, FindPlane(samples.extent));
  QUARRY_ASSIGN_OR_RETURN(const Colormap colormap, Colormap::Find(options.colormap));
  if (!IsFloat(samples.type))
    return InvalidArgument("samples of {} cannot be made a picture; write .raw or .npy", Name(samples.type));
  const Index3 shape = samples.extent.shape();
  const std::int64_t columns = shape[axes.right];
  const std::int64_t lines = shape[axes.up];
  if (options.zoom < 1 || std::max(columns, lines) * options.zoom > kMaxPixelsPerSide) {
    return InvalidArgument(
        "a picture of {} x {} samples at zoom {} is not possible; at most {} pixels a side", columns, lines,
        options.zoom, kMaxPixelsPerSide);
  }
  const auto [low, high] = options.range.value_or(RangeOf(samples));
  const double scale = high > low ? 1 / (high - low) : 0;
  const std::array<std::int64_t, 3> stride = {1, shape[0], shape[0] * shape[1]};
  std::vector<std::uint8_t> rows;
  for (std::int64_t line = lines - 1; line >= 0; --line) {
    for (std::int64_t column = 0; column < columns; ++column) {
      const double value = SampleAt(samples, column * stride[axes.right] + line * stride[axes.up]);
      const Rgb colour = colormap.At((value - low) * scale);
      for (int z = 0; z < options.zoom; ++z) rows.insert(rows.end(), colour.begin(), colour.end());
    }
  }
  Bytes out;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png == nullptr ? nullptr : png_create_info_struct(png);
  bool written = false;
  if (info != nullptr) {
    png_set_write_fn(png, &out, AppendToBytes, nullptr);
    written = WriteRows(png, info, static_cast<png_uint_32>(columns * options.zoom),
                        static_cast<png_uint_32>(lines * options.zoom), options.zoom, rows.data());
  }
  png_destroy_write_struct(&png, &info);
  if (!written) return InternalError("libpng could not encode a picture of {} x {} samples", columns, lines);
  return out;
}

}  // namespace quarry::tools
