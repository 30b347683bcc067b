#include "quarry/input/hdf5_parts.h"

#include <filesystem>
#include <set>

namespace quarry::input::internal {
namespace {

namespace fs = std::filesystem;

/// A path in a file is relative to the folder of the file.
fs::path Beside(const std::string& file, const std::string& other) {
  return fs::path(file).parent_path() / other;
}

/// The library reads other values where a source of a virtual dataset is missing.
Status CheckSources(hid_t properties, const std::string& own, const std::string& path) {
  std::size_t count = 0;
  H5Pget_virtual_count(properties, &count);
  std::set<std::pair<std::string, std::string>> checked;
  for (std::size_t i = 0; i < count; ++i) {
    char file[4096] = {};
    char dataset[4096] = {};
    if (H5Pget_virtual_filename(properties, i, file, sizeof(file)) < 0 ||
        H5Pget_virtual_dsetname(properties, i, dataset, sizeof(dataset)) < 0)
      return DataLoss("\"{}\": source {} of the virtual dataset cannot be looked up", path, i);
    if (!checked.emplace(file, dataset).second) continue;
    if (std::string_view(file).find("%b") != std::string_view::npos) {
      return InvalidArgument(
          "\"{}\" is a virtual dataset of the files {}, whose number is open; copy it to a plain dataset "
          "first (h5repack)",
          path, file);
    }
    if (std::string_view(file) == ".") continue;
    Handle source(H5Fopen(Beside(own, file).c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose);
    if (!source.ok()) source = Handle(H5Fopen(file, H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose);
    if (source.ok() && Handle(H5Dopen2(source.get(), dataset, H5P_DEFAULT), H5Dclose).ok()) continue;
    return DataLoss(
        "\"{}\" is a virtual dataset, and its source \"{}\" {}; bring it back, HDF5 would read other values "
        "there",
        path, file, source.ok() ? fmt::format("has no dataset \"{}\"", dataset) : "is missing");
  }
  return Status::Ok();
}

/// Samples in raw files outside.
Status CheckExternal(hid_t properties, const std::string& own, const std::string& path) {
  const int count = H5Pget_external_count(properties);
  for (int i = 0; i < count; ++i) {
    char file[4096] = {};
    off_t offset = 0;
    hsize_t size = 0;
    if (H5Pget_external(properties, static_cast<unsigned>(i), sizeof(file), file, &offset, &size) < 0)
      return DataLoss("\"{}\": external file {} cannot be looked up", path, i);
    std::error_code error;
    std::filesystem::path place = Beside(own, file);
    if (!std::filesystem::exists(place, error)) place = file;
    const std::uint64_t bytes = std::filesystem::file_size(place, error);
    const std::uint64_t needed = size == H5F_UNLIMITED ? 0 : static_cast<std::uint64_t>(offset) + size;
    if (!error && bytes >= needed) continue;
    return DataLoss("\"{}\" has its samples in \"{}\", which {}; bring it back, HDF5 would read zeros there",
                    path, file, error ? "is missing" : fmt::format("has {} bytes of {}", bytes, needed));
  }
  return Status::Ok();
}

}  // namespace

Handle OpenHdf5(const std::string& path) {
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  const Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
#if H5_VERSION_GE(1, 10, 7)
  H5Pset_file_locking(access.get(), true, true);
#endif
  return {H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()), H5Fclose};
}

Status CheckHdf5Parts(hid_t properties, const std::string& own, const std::string& path) {
  if (H5Pget_layout(properties) == H5D_VIRTUAL) return CheckSources(properties, own, path);
  if (H5Pget_external_count(properties) > 0) return CheckExternal(properties, own, path);
  return Status::Ok();
}

Status CheckHdf5Parts(const std::string& own, const std::string& dataset, const std::string& path) {
  const Handle file = OpenHdf5(own);
  const Handle opened(file.ok() ? H5Dopen2(file.get(), dataset.c_str(), H5P_DEFAULT) : -1, H5Dclose);
  if (!opened.ok()) return Status::Ok();
  const Handle properties(H5Dget_create_plist(opened.get()), H5Pclose);
  return CheckHdf5Parts(properties.get(), own, path);
}

}  // namespace quarry::input::internal
