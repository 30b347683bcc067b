#include "quarry/input/tiff_image.h"

#include <algorithm>
#include <cstdarg>
#include <cstring>

#include "quarry/base/file.h"
#include "quarry/base/per_thread.h"
#include "quarry/input/formats.h"

namespace quarry::input::internal {
namespace {

/// The library's last error in this thread; it calls back from inside its functions.
std::string& LastText() {
  static const PerThread<std::string> texts;
  return *texts;
}

/// float16 samples are read by their bits, as uint16.
std::optional<DataType> ToDataType(std::uint16_t bits, std::uint16_t format) {
  if (bits % 8 != 0) return std::nullopt;
  if (format == SAMPLEFORMAT_IEEEFP) return bits == 16 ? DataType::kUint16 : FloatOf(bits / 8);
  if (format != SAMPLEFORMAT_INT && format != SAMPLEFORMAT_UINT && format != SAMPLEFORMAT_VOID)
    return std::nullopt;
  return IntegerOf(bits / 8, format == SAMPLEFORMAT_INT);
}

/// How many bytes one stored byte can become at most.
std::uint64_t LargestExpansion(TIFF* tiff) {
  std::uint16_t compression = COMPRESSION_NONE;
  TIFFGetFieldDefaulted(tiff, TIFFTAG_COMPRESSION, &compression);
  switch (compression) {
    case COMPRESSION_NONE:
      return 1;
    case COMPRESSION_PACKBITS:
      return 64;  // two bytes repeat one 128 times
    case COMPRESSION_DEFLATE:
    case COMPRESSION_ADOBE_DEFLATE:
      return 1032;  // two bits copy 258
    case COMPRESSION_LZW:
      return 4096;  // 12 bits name a string of at most 4096 bytes
    default:
      return 1 << 16;  // Zstandard repeats 128 KiB in a block of 4 bytes
  }
}

/// Reads parts of the current page.
class ImageReader {
 public:
  ImageReader(TIFF* tiff, const std::string& path, const ImageShape& shape)
      : tiff_(tiff), path_(path), shape_(shape), size_(SizeOf(shape.type)) {}

  /// @param box      x and y
  /// @param samples  exactly its bytes
  Status Read(const Box& box, std::span<std::byte> samples) {
    LastText().clear();
    return TIFFIsTiled(tiff_) ? ReadTiles(box, samples) : ReadStrips(box, samples);
  }

 private:
  Status ReadStrips(const Box& box, std::span<std::byte> samples) {
    std::uint32_t rows = shape_.height;
    TIFFGetFieldDefaulted(tiff_, TIFFTAG_ROWSPERSTRIP, &rows);
    rows = std::clamp<std::uint32_t>(rows, 1, shape_.height);
    const std::size_t row_bytes = static_cast<std::size_t>(shape_.width) * size_;
    for (std::int64_t y = box.begin[1] / rows * rows; y < box.end[1]; y += rows) {
      const Box strip = {{0, y, 0}, {shape_.width, std::min<std::int64_t>(y + rows, shape_.height), 1}};
      const std::size_t bytes = static_cast<std::size_t>(strip.shape()[1]) * row_bytes;
      const auto number = static_cast<std::uint32_t>(y / rows);
      const bool whole = Intersect(strip, box) == strip;
      QUARRY_RETURN_IF_ERROR(CheckSize(bytes, "strips"));
      if (!whole) buffer_.resize(bytes);
      // A strip that is used whole needs no copy.
      std::byte* to =
          whole ? samples.data() + static_cast<std::size_t>(y - box.begin[1]) * row_bytes : buffer_.data();
      if (TIFFReadEncodedStrip(tiff_, number, to, static_cast<tmsize_t>(bytes)) !=
          static_cast<tmsize_t>(bytes))
        return Damaged(fmt::format("strip {}", number));
      if (!whole) Copy(strip, box, samples);
    }
    return Status::Ok();
  }

  Status ReadTiles(const Box& box, std::span<std::byte> samples) {
    std::uint32_t width = 0;
    std::uint32_t height = 0;
    TIFFGetField(tiff_, TIFFTAG_TILEWIDTH, &width);
    TIFFGetField(tiff_, TIFFTAG_TILELENGTH, &height);
    const tmsize_t bytes = TIFFTileSize(tiff_);
    std::uint64_t expected = static_cast<std::uint64_t>(width) * height;
    if (width == 0 || height == 0 || __builtin_mul_overflow(expected, size_, &expected) ||
        static_cast<std::uint64_t>(bytes) != expected) {
      return Damaged(fmt::format("its tiles of {}x{}", width, height));
    }
    QUARRY_RETURN_IF_ERROR(CheckSize(expected, "tiles"));
    buffer_.resize(expected);
    for (std::int64_t y = box.begin[1] / height * height; y < box.end[1]; y += height) {
      for (std::int64_t x = box.begin[0] / width * width; x < box.end[0]; x += width) {
        const std::uint32_t number =
            TIFFComputeTile(tiff_, static_cast<std::uint32_t>(x), static_cast<std::uint32_t>(y), 0, 0);
        if (TIFFReadEncodedTile(tiff_, number, buffer_.data(), bytes) != bytes)
          return Damaged(fmt::format("tile {}", number));
        Copy({{x, y, 0}, {x + width, y + height, 1}}, box, samples);
      }
    }
    return Status::Ok();
  }

  /// A damaged size must not cost more memory than the file could fill.
  Status CheckSize(std::uint64_t bytes, std::string_view parts) const {
    const std::uint64_t stored = TIFFGetSizeProc(tiff_)(TIFFClientdata(tiff_));
    if (bytes / LargestExpansion(tiff_) <= stored) return Status::Ok();
    return DataLoss(
        "image \"{}\" says that its {} have {} bytes, more than a file of {} can hold; fetch the file again",
        path_, parts, bytes, stored);
  }

  /// Copies the samples of `part`, in the buffer, that lie in `box`.
  void Copy(const Box& part, const Box& box, std::span<std::byte> samples) const {
    const Box common = Intersect(part, box);
    const std::size_t bytes = static_cast<std::size_t>(common.shape()[0]) * size_;
    for (std::int64_t y = common.begin[1]; y < common.end[1]; ++y) {
      const auto from =
          static_cast<std::size_t>((y - part.begin[1]) * part.shape()[0] + common.begin[0] - part.begin[0]);
      const auto to =
          static_cast<std::size_t>((y - box.begin[1]) * box.shape()[0] + common.begin[0] - box.begin[0]);
      std::memcpy(samples.data() + to * size_, buffer_.data() + from * size_, bytes);
    }
  }

  Status Damaged(const std::string& what) const {
    return DataLoss("image \"{}\": {} cannot be read: {}; fetch the file again", path_, what, TiffError());
  }

  TIFF* tiff_;
  const std::string& path_;
  const ImageShape& shape_;
  std::size_t size_;
  Bytes buffer_;
};

class TiffInput final : public Input {
 public:
  TiffInput(InputInfo info, ImageShape shape, std::vector<ImagePlace> images)
      : Input(std::move(info)), shape_(shape), images_(std::move(images)) {}

  /// Opens every image that the box meets once.
  Status ReadBox(const Box& box, std::span<std::byte> samples) const override {
    const Box plane = {{box.begin[0], box.begin[1], 0}, {box.end[0], box.end[1], 1}};
    const std::size_t bytes = static_cast<std::size_t>(plane.volume()) * SizeOf(info_.type);
    Tiff tiff;
    std::string open;  // stays open for all its pages
    for (std::int64_t z = box.begin[2]; z < box.end[2]; ++z) {
      const ImagePlace& image = images_[static_cast<std::size_t>(z)];
      const auto of_plane = samples.subspan(static_cast<std::size_t>(z - box.begin[2]) * bytes, bytes);
      if (image.path != open) {
        QUARRY_ASSIGN_OR_RETURN(tiff, OpenTiffFile(image.path));
        open = image.path;
      }
      if (image.page_offset != 0 && TIFFSetSubDirectory(tiff.get(), image.page_offset) == 0)
        return DataLoss("page {} of \"{}\" cannot be found: {}", z, image.path, TiffError());
      QUARRY_RETURN_IF_ERROR(CheckShape(tiff.get(), image.path));
      ++images_read_;
      QUARRY_RETURN_IF_ERROR(image.sample_offset != 0
                                 ? ReadRows(image, TIFFIsByteSwapped(tiff.get()) != 0, plane, of_plane)
                                 : ImageReader(tiff.get(), image.path, shape_).Read(plane, of_plane));
    }
    return Status::Ok();
  }

  std::uint64_t images_read() const override { return images_read_; }

 private:
  /// Reads rows of an image that lies behind others, without tags of its own.
  Status ReadRows(const ImagePlace& image, bool swapped, const Box& plane,
                  std::span<std::byte> samples) const {
    QUARRY_ASSIGN_OR_RETURN(const RandomAccessFile file, RandomAccessFile::Open(image.path));
    const std::size_t size = SizeOf(shape_.type);
    const std::size_t row_bytes = static_cast<std::size_t>(plane.shape()[0]) * size;
    for (std::int64_t y = plane.begin[1]; y < plane.end[1]; ++y) {
      const auto first = static_cast<std::uint64_t>(plane.begin[0] + y * shape_.width) * size;
      const auto row = samples.subspan(static_cast<std::size_t>(y - plane.begin[1]) * row_bytes, row_bytes);
      QUARRY_RETURN_IF_ERROR(file.ReadAt(image.sample_offset + first, row));
    }
    if (swapped) SwapBytes(samples, size);
    return Status::Ok();
  }

  Status CheckShape(TIFF* tiff, const std::string& path) const {
    QUARRY_ASSIGN_OR_RETURN(const ImageShape shape, ReadShape(tiff, path));
    if (shape == shape_) return Status::Ok();
    return InvalidArgument(
        "image \"{}\" is {}, but the first of the stack, \"{}\", is {}; a stack has images of one kind", path,
        shape.ToString(), images_.front().path, shape_.ToString());
  }

  ImageShape shape_;
  std::vector<ImagePlace> images_;
  mutable std::uint64_t images_read_ = 0;
};

}  // namespace

void SilenceTiff() {
  TIFFSetWarningHandler(nullptr);
  TIFFSetErrorHandler([](const char* module, const char* format, va_list arguments) {
    char text[512] = {};
    std::vsnprintf(text, sizeof(text), format, arguments);
    LastText() = module == nullptr ? text : fmt::format("{}: {}", module, text);
  });
}

std::string TiffError() { return LastText().empty() ? "no reason given" : LastText(); }

void ClearTiffError() { LastText().clear(); }

Result<Tiff> OpenTiffFile(const std::string& path) {
  // The file system's own errors first.
  QUARRY_RETURN_IF_ERROR(quarry::internal::ToStatus(RandomAccessFile::Open(path)));
  ClearTiffError();
  // Not mapped (m): a file that gets truncated must give an error, not a signal.
  Tiff tiff(TIFFOpen(path.c_str(), "rm"));
  if (tiff) return tiff;
  return DataLoss("\"{}\" is not a TIFF file, or is damaged: {}", path, TiffError());
}

Result<ImageShape> ReadShape(TIFF* tiff, const std::string& path) {
  ImageShape shape;
  std::uint16_t bits = 1;
  std::uint16_t samples = 1;
  std::uint16_t format = SAMPLEFORMAT_UINT;
  TIFFGetField(tiff, TIFFTAG_IMAGEWIDTH, &shape.width);
  TIFFGetField(tiff, TIFFTAG_IMAGELENGTH, &shape.height);
  TIFFGetFieldDefaulted(tiff, TIFFTAG_BITSPERSAMPLE, &bits);
  TIFFGetFieldDefaulted(tiff, TIFFTAG_SAMPLESPERPIXEL, &samples);
  TIFFGetFieldDefaulted(tiff, TIFFTAG_SAMPLEFORMAT, &format);
  if (shape.width == 0 || shape.height == 0) return DataLoss("\"{}\" has an image without a size", path);
  if (samples != 1) {
    return InvalidArgument("\"{}\" has {} samples per pixel; convert it to grey values, one sample per pixel",
                           path, samples);
  }
  const std::optional<DataType> type = ToDataType(bits, format);
  if (!type) {
    return InvalidArgument(
        "\"{}\" has samples of {} bits and format {}; integers of 8, 16, 32 or 64 bits and floats "
        "of 16, 32 or 64 are understood",
        path, bits, format);
  }
  shape.type = *type;
  shape.is_half = format == SAMPLEFORMAT_IEEEFP && bits == 16;
  const auto row = static_cast<std::uint64_t>(shape.width) * SizeOf(shape.type);
  if (!TIFFIsTiled(tiff) && static_cast<std::uint64_t>(TIFFScanlineSize64(tiff)) != row)
    return DataLoss("\"{}\" has rows of {} bytes instead of {}", path, TIFFScanlineSize64(tiff), row);
  return shape;
}

std::unique_ptr<Input> MakeTiffInput(InputInfo info, const ImageShape& shape,
                                     std::vector<ImagePlace> images) {
  return std::make_unique<TiffInput>(std::move(info), shape, std::move(images));
}

}  // namespace quarry::input::internal
