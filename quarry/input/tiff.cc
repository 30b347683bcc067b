// Stacks of TIFF images, one for each z: a folder, a pattern, or a file with several pages; through libtiff.

#include <fnmatch.h>
#include <tiffio.h>

#include <algorithm>
#include <cstdarg>
#include <filesystem>

#include "quarry/base/file.h"
#include "quarry/base/natural_order.h"
#include "quarry/base/per_thread.h"
#include "quarry/input/exported.h"
#include "quarry/input/formats.h"
#include "quarry/input/tiff_names.h"
#include "quarry/input/tiff_stack.h"
#include "quarry/input/tiff_tags.h"
#include "quarry/storage/location.h"

namespace quarry::input::internal {
namespace {

namespace fs = std::filesystem;

/// The library's last error in this thread; it calls back from inside its functions.
std::string& LastText() {
  static const PerThread<std::string> texts;
  return *texts;
}

/// Collects the library's errors, which it would print to stderr, and drops its warnings about unknown tags.
void Silence() {
  TIFFSetWarningHandler(nullptr);
  TIFFSetErrorHandler([](const char* module, const char* format, va_list arguments) {
    char text[512] = {};
    std::vsnprintf(text, sizeof(text), format, arguments);
    LastText() = module == nullptr ? text : fmt::format("{}: {}", module, text);
  });
}

std::string LastError() { return LastText().empty() ? "no reason given" : LastText(); }

struct CloseTiff {
  void operator()(TIFF* tiff) const { TIFFClose(tiff); }
};
using Tiff = std::unique_ptr<TIFF, CloseTiff>;

Result<Tiff> OpenFile(const std::string& path) {
  // The file system's own errors first.
  QUARRY_RETURN_IF_ERROR(quarry::internal::ToStatus(RandomAccessFile::Open(path)));
  LastText().clear();
  // Not mapped (m): a file that gets truncated must give an error, not a signal.
  Tiff tiff(TIFFOpen(path.c_str(), "rm"));
  if (tiff) return tiff;
  return DataLoss("\"{}\" is not a TIFF file, or is damaged: {}", path, LastError());
}

/// What all images of a stack have in common.
struct ImageShape {
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  DataType type = DataType::kUint8;
  bool is_half = false;  ///< the samples of uint16 are float16

  friend bool operator==(const ImageShape&, const ImageShape&) = default;
  std::string ToString() const {
    return fmt::format("{}x{} {}", width, height, is_half ? "float16" : Name(type));
  }
};

/// That of the bits of float16 is uint16.
std::optional<DataType> ToDataType(std::uint16_t bits, std::uint16_t format) {
  const bool is_signed = format == SAMPLEFORMAT_INT;
  if (format == SAMPLEFORMAT_IEEEFP) {
    if (bits == 16) return DataType::kUint16;
    if (bits == 32) return DataType::kFloat32;
    if (bits == 64) return DataType::kFloat64;
  } else if (is_signed || format == SAMPLEFORMAT_UINT || format == SAMPLEFORMAT_VOID) {
    if (bits == 8) return is_signed ? DataType::kInt8 : DataType::kUint8;
    if (bits == 16) return is_signed ? DataType::kInt16 : DataType::kUint16;
    if (bits == 32) return is_signed ? DataType::kInt32 : DataType::kUint32;
    if (bits == 64) return is_signed ? DataType::kInt64 : DataType::kUint64;
  }
  return std::nullopt;
}

/// Of the current page.
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

/// One image of a stack: a file, or a page of one.
struct ImagePlace {
  std::string path;
  std::uint64_t page_offset = 0;  ///< 0: the first page of the file
  /// Of the samples, in a file whose one page says only where the first image is; 0: in pages.
  std::uint64_t sample_offset = 0;
};

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
    return DataLoss("image \"{}\": {} cannot be read: {}; fetch the file again", path_, what, LastError());
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
        QUARRY_ASSIGN_OR_RETURN(tiff, OpenFile(image.path));
        open = image.path;
      }
      if (image.page_offset != 0 && TIFFSetSubDirectory(tiff.get(), image.page_offset) == 0)
        return DataLoss("page {} of \"{}\" cannot be found: {}", z, image.path, LastError());
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
  /// Of an image that lies behind others, without tags of its own.
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

bool HasTiffEnding(const fs::path& path) {
  const std::string ending = Lower(path.extension().string());
  return ending == ".tif" || ending == ".tiff";
}

/// The files of a folder, or those that match the last part of a pattern, in natural order.
Result<std::vector<std::string>> ListFiles(const InputName& name) {
  std::error_code error;
  const bool folder = fs::is_directory(name.file, error);
  if (!folder && fs::exists(name.file, error)) return std::vector<std::string>{name.file};
  const fs::path pattern = fs::path(name.file).filename();
  fs::path parent = folder ? fs::path(name.file) : fs::path(name.file).parent_path();
  std::vector<std::string> files;
  QUARRY_ASSIGN_OR_RETURN(const std::vector<FolderEntry> entries,
                          Location(parent.empty() ? "." : parent).List());
  for (const FolderEntry& entry : entries) {
    const fs::path file = entry.name;
    const bool wanted =
        folder ? HasTiffEnding(file) : fnmatch(pattern.c_str(), file.c_str(), FNM_PERIOD) == 0;
    if (wanted) files.push_back((parent / file).string());
  }
  if (files.empty()) {
    return NotFound("there is no {} \"{}\"; give a folder of .tif files, a pattern, or a file",
                    folder ? ".tif or .tiff file in" : "file", name.file);
  }
  std::sort(files.begin(), files.end(), NaturalLess);
  return files;
}

/// The pages of a file that holds several images; skips previews in between.
Result<std::vector<ImagePlace>> ListPages(TIFF* tiff, const std::string& path, const ImageShape& first) {
  std::vector<ImagePlace> pages;
  LastText().clear();
  do {
    std::uint32_t kind = 0;
    TIFFGetFieldDefaulted(tiff, TIFFTAG_SUBFILETYPE, &kind);
    if (!pages.empty() && (kind & FILETYPE_REDUCEDIMAGE) != 0) continue;
    QUARRY_ASSIGN_OR_RETURN(const ImageShape shape, ReadShape(tiff, path));
    if (shape != first) {
      return InvalidArgument("page {} of \"{}\" is {}, but the first is {}; a stack has images of one kind",
                             pages.size(), path, shape.ToString(), first.ToString());
    }
    pages.push_back({path, TIFFCurrentDirOffset(tiff)});
  } while (TIFFReadDirectory(tiff) == 1);
  if (TIFFLastDirectory(tiff) == 0)
    return DataLoss("\"{}\" ends or is damaged behind page {}: {}", path, pages.size() - 1, LastError());
  return pages;
}

/// Images behind the first one, as ImageJ keeps stacks of more than 4 GiB: one page has the place of the
/// first.
Result<std::vector<ImagePlace>> PlaceBehindFirst(TIFF* tiff, const std::string& path, const ImageShape& shape,
                                                 const Stack& stack) {
  const auto refuse = [&](const std::string& why) {
    return DataLoss(
        "\"{}\" has {} images, says {}, and one page: {}; the file is not whole, or save its images as "
        "pages",
        path, stack.images(), stack.writer, why);
  };
  std::uint16_t compression = COMPRESSION_NONE;
  TIFFGetFieldDefaulted(tiff, TIFFTAG_COMPRESSION, &compression);
  if (compression != COMPRESSION_NONE || TIFFIsTiled(tiff)) return refuse("it is compressed or in tiles");
  std::uint64_t bytes = static_cast<std::uint64_t>(shape.width) * shape.height;
  const std::uint64_t size = TIFFGetSizeProc(tiff)(TIFFClientdata(tiff));
  const std::uint64_t first = TIFFGetStrileOffset(tiff, 0);
  if (__builtin_mul_overflow(bytes, SizeOf(shape.type), &bytes) || bytes > size || first == 0 || first > size)
    return refuse("the file ends in its first image");
  std::uint64_t end = first;
  for (std::uint32_t strip = 0; strip < TIFFNumberOfStrips(tiff); ++strip) {
    if (TIFFGetStrileOffset(tiff, strip) != end) return refuse("its strips do not lie behind each other");
    end += TIFFGetStrileByteCount(tiff, strip);
  }
  // The only strip may have all images.
  const auto images = static_cast<std::uint64_t>(stack.images());
  if (end - first != bytes && end - first != bytes * images) return refuse("its strips have another size");
  if ((size - first) / bytes < images)
    return refuse(fmt::format("the file ends behind image {} of {}", (size - first) / bytes, images));
  std::vector<ImagePlace> places;
  for (std::uint64_t i = 0; i < images; ++i) places.push_back({path, 0, first + i * bytes});
  return places;
}

/// All images of a file, in the order of the dimensions of its stack.
Result<std::vector<ImagePlace>> PlaceImages(TIFF* tiff, const std::string& path, const ImageShape& shape,
                                            const std::vector<ImagePlace>& pages, const Stack& stack) {
  if (stack.dimensions.empty()) return pages;
  const auto images = static_cast<std::size_t>(stack.images());
  if (stack.pages.empty() && stack.may_be_contiguous && pages.size() == 1 && images > 1)
    return PlaceBehindFirst(tiff, path, shape, stack);
  if (stack.pages.empty() && images < pages.size()) {
    return InvalidArgument(
        "\"{}\" has {} pages, but {} says {} images; save the stack that you want as a file of its own", path,
        pages.size(), stack.writer, images);
  }
  std::vector<ImagePlace> places;
  std::size_t missing = 0;
  for (std::size_t i = 0; i < images; ++i) {
    const std::int64_t page = stack.pages.empty() ? static_cast<std::int64_t>(i) : stack.pages[i];
    if (page < 0 || static_cast<std::size_t>(page) >= pages.size()) {
      ++missing;
    } else {
      places.push_back(pages[static_cast<std::size_t>(page)]);
    }
  }
  if (missing == 0) return places;
  return DataLoss("\"{}\" has {} images, says {}, but no page for {} of them; fetch the file again", path,
                  images, stack.writer, missing);
}

/// "scan/img_*.tif" -> "img", or "scan" if the pattern begins with a wildcard.
std::string FieldOf(const InputName& name) {
  std::string stem = fs::path(name.Source("")).stem().string();
  stem.resize(std::min(stem.size(), stem.find_first_of("*?[")));
  while (!stem.empty() && (stem.back() == '_' || stem.back() == '-' || stem.back() == '.')) stem.pop_back();
  if (stem.empty()) stem = fs::path(name.file).parent_path().filename().string();
  return FieldFromName(stem);
}

/// What a stack of one file or several has.
struct Images {
  Stack stack;
  std::vector<ImagePlace> places;  ///< in the order of the stack's dimensions
  ImageShape shape;
};

/// Each file is a plane.
Result<Images> ImagesOfFiles(const std::vector<std::string>& files, TIFF* tiff, const ImageShape& shape,
                             const std::string& path) {
  Images images;
  images.shape = shape;
  std::vector<std::string> names;
  for (const std::string& file : files) {
    images.places.push_back({file, 0});
    names.push_back(fs::path(file).filename().string());
  }
  QUARRY_ASSIGN_OR_RETURN(const std::vector<std::string> warnings, CheckImageNames(names, path));
  const std::string description = DescriptionOf(tiff);
  const bool is_imagej = description.starts_with("ImageJ=");
  Result<Stack> stack = DescribeStack(is_imagej ? description : "", 1, ResolutionOf(tiff), names.front());
  if (!stack.ok()) return std::move(stack).status().Annotate(fmt::format("\"{}\"", files.front()));
  images.stack = *std::move(stack);
  const bool has_pages = TIFFReadDirectory(tiff) == 1;
  TIFFSetDirectory(tiff, 0);
  if (has_pages || images.stack.images() > 1) {
    return InvalidArgument(
        "\"{}\" has several images; in a folder or pattern each file is one plane. Give the files "
        "themselves, which "
        "become steps",
        files.front());
  }
  images.stack.dimensions = {{"z", static_cast<std::int64_t>(files.size()), Role::kUnknown}};
  images.stack.warnings.insert(images.stack.warnings.end(), warnings.begin(), warnings.end());
  return images;
}

/// Each page is a plane, a channel or a time, as the description says.
Result<Images> ImagesOfPages(TIFF* tiff, const ImageShape& shape, const std::string& path) {
  Images images;
  images.shape = shape;
  QUARRY_ASSIGN_OR_RETURN(const std::vector<ImagePlace> pages, ListPages(tiff, path, shape));
  TIFFSetDirectory(tiff, 0);
  const auto count = static_cast<std::int64_t>(pages.size());
  Result<Stack> stack =
      DescribeStack(DescriptionOf(tiff), count, ResolutionOf(tiff), fs::path(path).filename().string());
  if (!stack.ok()) return std::move(stack).status().Annotate(fmt::format("\"{}\"", path));
  images.stack = *std::move(stack);
  QUARRY_ASSIGN_OR_RETURN(images.places, PlaceImages(tiff, path, shape, pages, images.stack));
  if (images.stack.dimensions.empty()) images.stack.dimensions = {{"z", count, Role::kUnknown}};
  return images;
}

/// What our own exports say of their samples: names, units, exact positions and times.
void TakeExported(const Exported& exported, const InputOptions& options, InputInfo* info, Stack* stack) {
  const ExportedField& field = exported.fields.front();
  if (field.dimensions.size() != 4 || !options.axes.empty()) return;
  if (options.field.empty()) info->field = FieldFromName(field.name);
  info->units = Text(field.attributes, "units");
  for (std::size_t a = 0; a < 3; ++a) {
    const ExportedCoordinate* positions = exported.PositionsOf(field.dimensions[3 - a]);
    if (positions == nullptr || static_cast<std::int64_t>(positions->values.size()) != info->dims[a])
      continue;
    info->axes[a] = {};
    info->axes[a].name = positions->name;
    info->axes[a].units = Text(positions->attributes, "units");
    PlaceAxis(positions->values, DataType::kFloat64, &info->axes[a]);
  }
  const ExportedCoordinate* times = exported.Times();
  if (times == nullptr) return;
  stack->times = times->values;
  stack->time_unit = {Text(times->attributes, "units"), Text(times->attributes, "calendar")};
  if (times->values.size() != 1) return;
  info->time = times->values.front();
  info->time_unit = stack->time_unit;
}

/// Says that voxels have no size along z, where they have one along x and y.
void WarnOfSpacing(InputInfo* info) {
  std::string known;
  std::string unknown;
  for (std::size_t a = 0; a < 3; ++a) {
    if (info->dims[a] == 1) continue;
    std::string& list = info->axes[a].spacing ? known : unknown;
    list += (list.empty() ? "" : ", ") + std::string(1, kAxisNames[a]);
  }
  if (known.empty() || unknown.empty()) return;
  info->warnings.push_back(fmt::format(
      "the file has the distance of samples along {}, but not along {}, where it is taken as 1; give "
      "--spacing",
      known, unknown));
}

/// Which images make the fields and moments that the user wants.
struct Choice {
  AxisRoles roles;
  std::vector<std::size_t> strides;  ///< of the stack's dimensions, in images

  /// The image of plane z.
  std::size_t ImageOf(std::int64_t field, std::int64_t moment, std::int64_t z) const {
    std::size_t image = 0;
    for (std::size_t d = 0; d < strides.size(); ++d) {
      std::int64_t index = roles.first[d];
      if (roles.fields == d) index += field;
      if (roles.time == d) index += moment;
      if (roles.grid[2] == d) index += z;
      image += strides[d] * static_cast<std::size_t>(index);
    }
    return image;
  }
};

Result<Choice> ChooseImages(const Images& images, const InputOptions& options, const std::string& path) {
  std::vector<AxisDimension> dimensions = images.stack.dimensions;
  dimensions.push_back({"y", images.shape.height, Role::kUnknown});
  dimensions.push_back({"x", images.shape.width, Role::kUnknown});
  Result<AxisRoles> roles = AssignAxes(dimensions, options);
  if (!roles.ok()) return InvalidArgument("\"{}\": {}", path, roles.status().message());
  const std::size_t rows = dimensions.size() - 2;
  if (roles->grid[0] != rows + 1 || roles->grid[1] != rows) {
    return InvalidArgument(
        "\"{}\": the rows and columns of images are y and x, the last two of --axes; give no "
        "--index of them",
        path);
  }
  Choice choice{*roles, std::vector<std::size_t>(rows, 1)};
  for (std::size_t d = rows; d-- > 1;)
    choice.strides[d - 1] = choice.strides[d] * static_cast<std::size_t>(dimensions[d].length);
  return choice;
}

/// The name of one field of several.
std::string NameOfField(const InputInfo& info, const Images& images, const InputOptions& options,
                        std::size_t dimension, std::int64_t index) {
  const std::string axis = options.axes.empty() ? images.stack.dimensions[dimension].name
                                                : std::string(1, options.axes[dimension]);
  const auto number = static_cast<std::size_t>(index);
  if (axis == "channel" && number < images.stack.channels.size() && !images.stack.channels[number].empty())
    return FieldFromName(fmt::format("{}_{}", info.field, images.stack.channels[number]));
  return FieldFromName(fmt::format("{}_{}{}", info.field, axis, index));
}

Inputs MakeInputs(const InputInfo& info, const Images& images, const Choice& choice,
                  const InputOptions& options) {
  Inputs inputs;
  const AxisRoles& roles = choice.roles;
  for (std::int64_t field = 0; field < roles.field_count; ++field) {
    for (std::int64_t moment = 0; moment < roles.moments; ++moment) {
      InputInfo of_moment = info;
      if (roles.fields) {
        const std::int64_t index = roles.first[*roles.fields] + field;
        of_moment.field = NameOfField(info, images, options, *roles.fields, index);
        of_moment.source =
            fmt::format("{} {}={}", info.source, images.stack.dimensions[*roles.fields].name, index);
      }
      if (roles.time) {
        const auto t = static_cast<std::size_t>(roles.first[*roles.time] + moment);
        if (t < images.stack.times.size()) of_moment.time = images.stack.times[t];
        of_moment.time_unit = images.stack.time_unit;
      }
      std::vector<ImagePlace> places;
      for (std::int64_t z = 0; z < info.dims[2]; ++z)
        places.push_back(images.places[choice.ImageOf(field, moment, z)]);
      std::unique_ptr<Input> opened =
          std::make_unique<TiffInput>(std::move(of_moment), images.shape, std::move(places));
      inputs.push_back(images.shape.is_half ? WidenInput(std::move(opened)) : std::move(opened));
    }
  }
  return inputs;
}

}  // namespace

Result<Inputs> OpenTiff(const InputName& name, const InputOptions& options) {
  Silence();
  if (!name.variable.empty()) {
    return InvalidArgument("\"{}\" holds images without names; leave \":{}\" out", name.file, name.variable);
  }
  QUARRY_ASSIGN_OR_RETURN(const std::vector<std::string> files, ListFiles(name));
  // The others are checked when they are read: opening thousands of files takes long on some file systems.
  QUARRY_ASSIGN_OR_RETURN(const Tiff tiff, OpenFile(files.front()));
  InputInfo info;
  info.path = name.path;
  info.source = name.Source("");
  info.field = options.field.empty() ? FieldOf(name) : options.field;
  // Before the shape: it says why a page of several planes is none.
  Status kind = CheckKind(tiff.get());
  if (!kind.ok()) return std::move(kind).Annotate(fmt::format("\"{}\"", files.front()));
  QUARRY_ASSIGN_OR_RETURN(const ImageShape shape, ReadShape(tiff.get(), files.front()));
  info.type = shape.type;
  QUARRY_ASSIGN_OR_RETURN(Images images, files.size() == 1
                                             ? ImagesOfPages(tiff.get(), shape, files.front())
                                             : ImagesOfFiles(files, tiff.get(), shape, name.path));
  QUARRY_ASSIGN_OR_RETURN(const Choice choice, ChooseImages(images, options, name.path));
  const std::optional<std::size_t>& planes = choice.roles.grid[2];
  info.dims = {shape.width, shape.height, planes ? images.stack.dimensions[*planes].length : 1};
  info.unit = {shape.width, shape.height, 1};
  info.axes = images.stack.axes;
  info.warnings = images.stack.warnings;
  TakeTags(tiff.get(), &info);
  if (const std::optional<Exported> exported = ParseExported(ImageJInfo(tiff.get())))
    TakeExported(*exported, options, &info, &images.stack);
  WarnOfSpacing(&info);
  QUARRY_RETURN_IF_ERROR(CheckOptions(info, options));
  return MakeInputs(info, images, choice, options);
}

}  // namespace quarry::input::internal
