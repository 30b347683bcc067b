#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "quarry/input/axes.h"
#include "quarry/input/input.h"

/// Structure of a TIFF file from its description: which images are planes, times and channels, and where
/// voxels lie. Text alone: nothing here knows libtiff.
/// @source ImageJ's FileInfo and TiffDecoder; OME-TIFF specification 6; tifffile's "shaped" descriptions
namespace quarry::input::internal {

/// The size of a pixel as the first page has it in tags.
struct Resolution {
  double x = 0;  ///< pixels in a unit; 0: unknown
  double y = 0;
  int unit = 1;  ///< 1: none, 2: inch, 3: centimetre
};

struct Stack {
  std::string writer;  ///< author of the description, for messages; empty: there is none
  /// Dimensions of the images, slowest first, without y and x. Empty: unknown, the images are planes of z.
  std::vector<AxisDimension> dimensions;
  /// The page of each image, in the order of the dimensions. Empty: image i is page i.
  std::vector<std::int64_t> pages;
  /// Whether all images may lie behind each other where one page says that its own is.
  bool may_be_contiguous = false;
  std::array<SourceAxis, 3> axes;
  std::vector<double> times;  ///< time of each index of the dimension of time; empty: unknown
  TimeUnit time_unit;
  std::vector<std::string> channels;  ///< names; empty: unknown
  std::vector<std::string> warnings;

  std::int64_t images() const;
};

/// @param description  of the first page; may be empty
/// @param pages        that the file has
/// @param file_name    without its folder: OME-XML names the files of an image
/// @errors kInvalidArgument, kDataLoss: parts of a sentence without the path
Result<Stack> DescribeStack(const std::string& description, std::int64_t pages, const Resolution& resolution,
                            const std::string& file_name);

}  // namespace quarry::input::internal
