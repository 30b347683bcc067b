#pragma once

#include <tiffio.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "quarry/input/input.h"

/// Images of TIFF files and their samples, through libtiff.
namespace quarry::input::internal {

/// Collects the library's errors, which it would print to stderr, and drops its warnings about unknown tags.
void SilenceTiff();

/// The library's last error in this thread; ClearTiffError forgets it.
std::string TiffError();
void ClearTiffError();

struct CloseTiff {
  void operator()(TIFF* tiff) const { TIFFClose(tiff); }
};
using Tiff = std::unique_ptr<TIFF, CloseTiff>;

Result<Tiff> OpenTiffFile(const std::string& path);

/// The common shape of all images of a stack.
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

/// The shape of the current page.
Result<ImageShape> ReadShape(TIFF* tiff, const std::string& path);

/// One image of a stack: a file, or a page of one.
struct ImagePlace {
  std::string path;
  std::uint64_t page_offset = 0;  ///< 0: the first page of the file
  /// Offset of the samples, in a file whose one page gives only the place of the first image; 0: in pages.
  std::uint64_t sample_offset = 0;
};

/// The samples of a stack.
/// @param images  by z
std::unique_ptr<Input> MakeTiffInput(InputInfo info, const ImageShape& shape, std::vector<ImagePlace> images);

}  // namespace quarry::input::internal
