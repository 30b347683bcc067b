#pragma once

#include <optional>
#include <string>

/// The kind of a file, by its first bytes and not by its name.
namespace quarry::input::internal {

/// A kind of file that its bytes tell, or a kind of folder that the names in it tell.
struct FileKind {
  std::string name;    ///< "GRIB": for messages
  std::string format;  ///< the value of --format that reads it; empty: none does
  std::string remedy;  ///< remedy for a kind that is not read, as an order without a full stop
};

/// @returns nothing if the bytes are of no known kind, or cannot be read
std::optional<FileKind> FindFileKind(const std::string& path);

/// @returns nothing for a folder that may be a stack of images
std::optional<FileKind> FindFolderKind(const std::string& path);

/// The value of --format for files whose names end so; "raw": an ending of no format.
std::string FormatOfEnding(const std::string& path);

}  // namespace quarry::input::internal
