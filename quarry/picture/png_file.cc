#include "quarry/picture/png_file.h"

#include <png.h>

namespace quarry::picture {
namespace {

std::size_t RowBytes(const Pixels& pixels) {
  return static_cast<std::size_t>(pixels.columns) * (pixels.transparency ? 4 : 3);
}

void AppendToBytes(png_structp png, png_bytep data, png_size_t size) {
  auto* out = static_cast<Bytes*>(png_get_io_ptr(png));
  const auto* begin = reinterpret_cast<const std::byte*>(data);
  out->insert(out->end(), begin, begin + size);
}

/// libpng reports errors by longjmp; no object with a destructor lives in this function's frame.
bool WriteRows(png_structp png, png_infop info, const Pixels& pixels) {
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  const auto height = static_cast<png_uint_32>(pixels.rows * pixels.repeat);
  png_set_IHDR(png, info, static_cast<png_uint_32>(pixels.columns), height, 8,
               pixels.transparency ? PNG_COLOR_TYPE_RGB_ALPHA : PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(png, info);
  for (png_uint_32 y = 0; y < height; ++y) {
    const std::size_t row = y / static_cast<png_uint_32>(pixels.repeat);
    png_write_row(png, pixels.samples.data() + row * RowBytes(pixels));
  }
  png_write_end(png, nullptr);
  return true;
}

}  // namespace

Result<Bytes> EncodePng(const Pixels& pixels) {
  const auto possible = [](std::int64_t side) { return side >= 1 && side <= kMaxPixelsPerSide; };
  if (!possible(pixels.columns) || !possible(pixels.rows) || !possible(pixels.repeat) ||
      !possible(pixels.rows * pixels.repeat)) {
    return InvalidArgument("a picture of {} x {} pixels is not possible; give 1 to {} a side", pixels.columns,
                           pixels.rows * pixels.repeat, kMaxPixelsPerSide);
  }
  if (pixels.samples.size() != RowBytes(pixels) * static_cast<std::size_t>(pixels.rows))
    return InvalidArgument("{} x {} pixels come with {} samples; give {} for each", pixels.columns,
                           pixels.rows, pixels.samples.size(), pixels.transparency ? 4 : 3);
  Bytes out;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png == nullptr ? nullptr : png_create_info_struct(png);
  bool written = false;
  if (info != nullptr) {
    png_set_write_fn(png, &out, AppendToBytes, nullptr);
    written = WriteRows(png, info, pixels);
  }
  png_destroy_write_struct(&png, &info);
  if (!written)
    return InternalError("libpng could not encode a picture of {} x {} pixels", pixels.columns, pixels.rows);
  return out;
}

}  // namespace quarry::picture
