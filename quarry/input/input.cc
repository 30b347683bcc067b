#include "quarry/input/input.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "quarry/format/manifest.h"
#include "quarry/input/file_kind.h"
#include "quarry/input/formats.h"

namespace quarry::input {

namespace fs = std::filesystem;

namespace {

using Open = Result<internal::Inputs> (*)(const internal::InputName& name, const InputOptions& options);

struct Format {
  const char* name;
  std::vector<std::string> endings;  ///< endings of file names, lower case
  Open open;                         ///< null if this build lacks the library
  const char* library;               ///< needed by the reader; null: none
  const char* in_python = nullptr;   ///< reads such a file for quarry.write; null: nothing does
};

/// QUARRY_OPEN_FORMAT is the function that opens a format, or nullptr where this build lacks it
/// (quarry/CMakeLists.txt).
const std::vector<Format>& Formats() {
  static const auto& formats = *new const std::vector<Format>{
      {"raw", {}, internal::OpenRaw, nullptr},
      {"npy", {".npy"}, internal::OpenNpy, nullptr},
      {"vtk", {".vtk"}, internal::OpenLegacyVtk, nullptr},
      {"netcdf",
       {".nc", ".nc3", ".nc4", ".cdf", ".netcdf"},
       QUARRY_OPEN_NETCDF,
       "netCDF (Debian: libnetcdf-dev)",
       "xarray.open_dataset(FILE)"},
      {"hdf5",
       {".h5", ".hdf5", ".hdf", ".he5"},
       QUARRY_OPEN_HDF5,
       "HDF5 (Debian: libhdf5-dev)",
       "h5py.File(FILE)[NAME]"},
      {"tiff", {".tif", ".tiff"}, QUARRY_OPEN_TIFF, "libtiff (Debian: libtiff-dev)", "tifffile.imread(FILE)"},
      {"vti", {".vti"}, QUARRY_OPEN_VTI, "pugixml (Debian: libpugixml-dev)"},
      {"vtr", {".vtr"}, QUARRY_OPEN_VTI, "pugixml (Debian: libpugixml-dev)"},
      {"pvti", {".pvti"}, QUARRY_OPEN_VTI, "pugixml (Debian: libpugixml-dev)"},
      {"npz", {".npz"}, QUARRY_OPEN_NPZ, "zlib (Debian: zlib1g-dev)"},
  };
  return formats;
}

const Format* FindFormat(const std::string& name) {
  for (const Format& format : Formats()) {
    if (format.name == name) return &format;
  }
  return nullptr;
}

/// The format that the user named, or the one that the file's first bytes say.
/// @errors kInvalidArgument: a kind of file that no reader knows, with the way to go
Result<const Format*> ChooseFormat(const internal::InputName& name, const InputOptions& options) {
  if (!options.format.empty()) {
    if (const Format* format = FindFormat(options.format)) return format;
    return InvalidArgument("unknown format \"{}\"; this build reads {}", options.format,
                           fmt::join(KnownFormats(), ", "));
  }
  std::error_code ignored;
  const bool folder = fs::is_directory(name.file, ignored);
  const auto kind = folder ? internal::FindFolderKind(name.file) : internal::FindFileKind(name.file);
  if (!kind) return FindFormat(folder ? "tiff" : internal::FormatOfEnding(name.file));
  if (!kind->format.empty()) return FindFormat(kind->format);
  return InvalidArgument("\"{}\" is {}, which is not read directly; {}{}", name.file, kind->name,
                         kind->remedy,
                         folder ? "" : "; to read its bytes as samples anyway, give --format raw");
}

}  // namespace

std::string internal::FormatOfEnding(const std::string& path) {
  const std::string ending = Lower(fs::path(path).extension().string());
  for (const Format& format : Formats()) {
    if (std::ranges::find(format.endings, ending) != format.endings.end()) return format.name;
  }
  return "raw";
}

std::string FileOf(const std::string& path) { return internal::ParseInputName(path).file; }

std::vector<std::string> KnownFormats() {
  std::vector<std::string> names;
  for (const Format& format : Formats()) {
    if (format.open != nullptr) names.emplace_back(format.name);
  }
  return names;
}

Result<std::vector<std::unique_ptr<Input>>> OpenInputs(const std::string& path, const InputOptions& options) {
  const internal::InputName name = internal::ParseInputName(path);
  QUARRY_ASSIGN_OR_RETURN(const Format* format, ChooseFormat(name, options));
  if (format->open == nullptr) {
    const std::string in_python =
        format->in_python == nullptr
            ? ""
            : fmt::format(", or in Python call quarry.write(DATASET, {})", format->in_python);
    return Unavailable(
        "this build has no reader for {} files, as \"{}\" is one; install {} and build again{}", format->name,
        path, format->library, in_python);
  }
  QUARRY_ASSIGN_OR_RETURN(internal::Inputs inputs, format->open(name, options));
  for (const std::unique_ptr<Input>& input : inputs)
    QUARRY_RETURN_IF_ERROR(format::CheckFieldName(input->info().field));
  return inputs;
}

}  // namespace quarry::input
