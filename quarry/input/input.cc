#include "quarry/input/input.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "quarry/format/manifest.h"
#include "quarry/input/formats.h"

namespace quarry::input {

namespace fs = std::filesystem;

namespace {

using Open = Result<internal::Inputs> (*)(const internal::InputName& name, const InputOptions& options);

struct Format {
  const char* name;
  std::vector<std::string> endings;  ///< of file names, lower case
  Open open;                         ///< null if this build lacks the library
  const char* library;               ///< that the reader needs; null: none
};

#ifdef QUARRY_INPUT_NETCDF
constexpr Open kOpenNetcdf = internal::OpenNetcdf;
#else
constexpr Open kOpenNetcdf = nullptr;
#endif
#ifdef QUARRY_INPUT_HDF5
constexpr Open kOpenHdf5 = internal::OpenHdf5;
#else
constexpr Open kOpenHdf5 = nullptr;
#endif
#ifdef QUARRY_INPUT_TIFF
constexpr Open kOpenTiff = internal::OpenTiff;
#else
constexpr Open kOpenTiff = nullptr;
#endif
#ifdef QUARRY_INPUT_VTI
constexpr Open kOpenVti = internal::OpenVti;
#else
constexpr Open kOpenVti = nullptr;
#endif

const std::vector<Format>& Formats() {
  static const std::vector<Format> formats = {
      {"raw", {}, internal::OpenRaw, nullptr},
      {"npy", {".npy"}, internal::OpenNpy, nullptr},
      {"netcdf", {".nc", ".nc3", ".nc4", ".cdf", ".netcdf"}, kOpenNetcdf, "netCDF (Debian: libnetcdf-dev)"},
      {"hdf5", {".h5", ".hdf5", ".hdf", ".he5"}, kOpenHdf5, "HDF5 (Debian: libhdf5-dev)"},
      {"tiff", {".tif", ".tiff"}, kOpenTiff, "libtiff (Debian: libtiff-dev)"},
      {"vti", {".vti"}, kOpenVti, "pugixml (Debian: libpugixml-dev)"},
  };
  return formats;
}

const Format* FindFormat(const std::string& name) {
  for (const Format& format : Formats()) {
    if (format.name == name) return &format;
  }
  return nullptr;
}

/// The format that the user named, or the one of the file's ending; a folder is a stack of images; otherwise
/// raw.
Result<const Format*> ChooseFormat(const internal::InputName& name, const InputOptions& options) {
  if (!options.format.empty()) {
    if (const Format* format = FindFormat(options.format)) return format;
    return InvalidArgument("unknown format \"{}\"; this build reads {}", options.format,
                           fmt::join(KnownFormats(), ", "));
  }
  std::error_code ignored;
  if (fs::is_directory(name.file, ignored)) return FindFormat("tiff");
  std::string ending = fs::path(name.file).extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  for (const Format& format : Formats()) {
    if (std::find(format.endings.begin(), format.endings.end(), ending) != format.endings.end())
      return &format;
  }
  return &Formats().front();
}

}  // namespace

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
    return Status(
        StatusCode::kUnavailable,
        fmt::format("this build has no reader for {} files, as \"{}\" is one; install {} and build again",
                    format->name, path, format->library));
  }
  QUARRY_ASSIGN_OR_RETURN(internal::Inputs inputs, format->open(name, options));
  for (const std::unique_ptr<Input>& input : inputs)
    QUARRY_RETURN_IF_ERROR(format::CheckFieldName(input->info().field));
  return inputs;
}

Result<Bytes> ReadBox(const Input& input, const Box& box) {
  Bytes samples(static_cast<std::size_t>(box.volume()) * SizeOf(input.info().type));
  if (!samples.empty()) QUARRY_RETURN_IF_ERROR(input.ReadBox(box, samples));
  return samples;
}

}  // namespace quarry::input
