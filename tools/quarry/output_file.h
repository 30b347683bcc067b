#pragma once

#include <optional>
#include <string>

#include "quarry/base/file.h"
#include "tools/quarry/png_image.h"

namespace quarry::tools {

/// The formats that a file name's ending selects.
enum class OutputFormat { kRaw, kNpy, kPng, kCsv };

/// @errors kInvalidArgument that lists the endings
Result<OutputFormat> FormatOf(const std::string& path);

/// The file of one level of an answer, which appears complete, or stays as it was.
///   .raw  little-endian samples, x fastest
///   .npy  NumPy array of shape [z, y, x]
///   .png  see EncodePng
///   .csv  see EncodeCsv
class OutputFile {
 public:
  /// Memory of the file for the samples; empty: the format or the file system has none.
  /// @param samples  without its samples
  /// @param given    what they stand for: so they come back
  /// @errors those of FormatOf and MappedFile::Create
  Result<std::span<std::byte>> Open(const std::string& path, const client::LevelSamples& samples,
                                    GivenType given, std::size_t bytes);

  /// @param samples  in the memory of the last Open, if there was any
  /// @param dataset  for .csv, which has positions; null for the others
  Status Write(const std::string& path, const client::LevelSamples& samples, GivenType given,
               const ImageOptions& image, const DatasetDescription* dataset);

 private:
  std::optional<MappedFile> mapped_;
};

}  // namespace quarry::tools
