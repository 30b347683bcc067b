#pragma once

#include <string>

#include "tools/quarry/png_image.h"

namespace quarry::tools {

/// The formats that a file name's ending selects.
enum class OutputFormat { kRaw, kNpy, kPng };

/// @errors kInvalidArgument that lists the endings
Result<OutputFormat> FormatOf(const std::string& path);

/// Writes an answer; the file appears complete, or stays as it was.
///   .raw  little-endian samples, x fastest
///   .npy  NumPy array of shape [z, y, x]
///   .png  see EncodePng
Status WriteSamples(const std::string& path, const client::LevelSamples& samples, const ImageOptions& image);

}  // namespace quarry::tools
