#include "quarry/input/file_kind.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>

#include "quarry/base/file.h"
#include "quarry/storage/location.h"

namespace quarry::input::internal {
namespace {

namespace fs = std::filesystem;
using std::string_view_literals::operator""sv;  // NOLINT(misc-unused-using-decls): the check does not see
                                                // literals

/// Bytes at a place of a file that no other kind has there.
struct Signature {
  std::size_t at;
  std::string_view bytes;
  const char* name;
  const char* format;  ///< null: not read
  const char* remedy;  ///< with FILE in place of the path
};

constexpr const char* kImages = "convert the images to TIFF, and give their folder";
constexpr const char* kNifti =
    "write it from Python, quarry.write(\"NAME.quarry\", nibabel.load(\"FILE\").get_fdata().T)";
constexpr const char* kNasaCdf =
    "write it from Python, quarry.write(\"NAME.quarry\", cdflib.cdf_to_xarray(\"FILE\")[[NAME]])";
constexpr const char* kZarr =
    "write it from Python, quarry.write(\"NAME.quarry\", xarray.open_zarr(\"FILE\"))";

const auto kSignatures = std::to_array<Signature>({
    {0, "CDF\1"sv, "NetCDF", "netcdf", ""},
    {0, "CDF\2"sv, "NetCDF", "netcdf", ""},
    {0, "CDF\5"sv, "NetCDF", "netcdf", ""},
    {0, "II\x2a\0"sv, "TIFF", "tiff", ""},
    {0, "MM\0\x2a"sv, "TIFF", "tiff", ""},
    {0, "II\x2b\0\x08\0\0\0"sv, "TIFF", "tiff", ""},
    {0, "MM\0\x2b\0\x08\0\0"sv, "TIFF", "tiff", ""},
    {0, "\x93NUMPY"sv, "NumPy", "npy", ""},
    {0, "# vtk DataFile"sv, "VTK", "vtk", ""},
    {0, "GRIB"sv, "GRIB", nullptr,
     "write it from Python, quarry.write(\"NAME.quarry\", xarray.open_dataset(\"FILE\", engine=\"cfgrib\"))"},
    {0, "SIMPLE  ="sv, "FITS", nullptr,
     "write it from Python, quarry.write(\"NAME.quarry\", astropy.io.fits.getdata(\"FILE\"))"},
    {344, "n+1\0"sv, "NIfTI", nullptr, kNifti},
    {344, "ni1\0"sv, "NIfTI", nullptr, kNifti},
    {4, "n+2\0\r\n\x1a\n"sv, "NIfTI", nullptr, kNifti},
    {128, "DICM"sv, "DICOM", nullptr,
     "write the series from Python, quarry.write(\"NAME.quarry\", SimpleITK.GetArrayFromImage(image))"},
    {0, "MATLAB 5.0 MAT-file"sv, "MATLAB", nullptr,
     "save it with -v7.3, which is HDF5, or write it from Python, quarry.write(\"NAME.quarry\", "
     "scipy.io.loadmat(\"FILE\")[NAME])"},
    {0, "NRRD000"sv, "NRRD", nullptr,
     "write it from Python, quarry.write(\"NAME.quarry\", nrrd.read(\"FILE\", index_order=\"C\")[0])"},
    {208, "MAP "sv, "MRC", nullptr,
     "write it from Python, quarry.write(\"NAME.quarry\", mrcfile.read(\"FILE\"))"},
    {0, "\x0e\x03\x13\x01"sv, "HDF4", nullptr, "convert it first, with h4toh5 or ncdump and ncgen"},
    {0, "\xcd\xf3\0\1"sv, "NASA CDF", nullptr, kNasaCdf},
    {0, "\xcd\xf2\x60\2"sv, "NASA CDF", nullptr, kNasaCdf},
    {0, "ply\n"sv, "PLY", nullptr, "it holds points and faces; give an array"},
    {0, "netcdf "sv, "CDL", nullptr, "make NetCDF of it first, with ncgen"},
    {0, "\x89PNG\r\n\x1a\n"sv, "PNG", nullptr, kImages},
    {0, "\xff\xd8\xff"sv, "JPEG", nullptr, kImages},
    {0, "\0\0\0\x0cjP  \r\n\x87\n"sv, "JPEG 2000", nullptr, kImages},
    {0, "PAR1"sv, "Parquet", nullptr, "it holds tables; give an array"},
    {0, "BZh91AY&SY"sv, "bzip2", nullptr, "unpack it first, with bunzip2"},
    {0,
     "\xfd"
     "7zXZ\0"sv,
     "xz", nullptr, "unpack it first, with unxz"},
    {0, "\x28\xb5\x2f\xfd"sv, "Zstandard", nullptr, "unpack it first, with unzstd"},
});

/// The start of a file, where all signatures are.
struct Start {
  std::string bytes;

  bool Has(std::size_t at, std::string_view what) const {
    return at + what.size() <= bytes.size() && std::string_view(bytes).substr(at, what.size()) == what;
  }
};

std::string WithPath(std::string text, const std::string& path) {
  if (const std::size_t at = text.find("FILE"); at != std::string::npos) text.replace(at, 4, path);
  return text;
}

std::string ReadText(const RandomAccessFile& file, std::uint64_t offset, std::size_t most) {
  if (offset >= file.size()) return {};
  std::string text(static_cast<std::size_t>(std::min<std::uint64_t>(most, file.size() - offset)), '\0');
  if (!file.ReadAt(offset, std::as_writable_bytes(std::span(text))).ok()) return {};
  return text;
}

/// The signature of HDF5 lies at byte 0, 512, 1024, 2048, ...: a block of the user may be before it.
bool IsHdf5(const RandomAccessFile& file) {
  constexpr std::string_view kSignature = "\x89HDF\r\n\x1a\n"sv;
  for (std::uint64_t at = 0; at < file.size(); at = at == 0 ? 512 : 2 * at) {
    if (ReadText(file, at, kSignature.size()) == kSignature) return true;
  }
  return false;
}

/// NetCDF-4 is HDF5, too. The name decides where it can; else the attributes do that NetCDF's library writes.
FileKind Hdf5Kind(const RandomAccessFile& file, const std::string& path) {
  const FileKind netcdf{"NetCDF", "netcdf", ""};
  const FileKind hdf5{"HDF5", "hdf5", ""};
  const std::string named = FormatOfEnding(path);
  if (named == netcdf.format) return netcdf;
  if (named == hdf5.format) return hdf5;
  const std::string start = ReadText(file, 0, std::size_t{1} << 20);
  for (const char* mark : {"_NCProperties", "_Netcdf4Dimid", "_Netcdf4Coordinates",
                           "This is a netCDF dimension but not a netCDF variable"}) {
    if (start.find(mark) != std::string::npos) return netcdf;
  }
  return hdf5;
}

/// The type that a file of VTK's XML formats says it has.
std::optional<FileKind> VtkXmlKind(const Start& start) {
  const std::size_t tag = start.bytes.find("<VTKFile");
  if (tag == std::string::npos) return std::nullopt;
  const std::string_view rest = std::string_view(start.bytes).substr(tag);
  const std::size_t at = rest.find("type=");
  if (at == std::string_view::npos || at > rest.find('>') || at + 6 >= rest.size()) return std::nullopt;
  const std::size_t end = rest.find(rest[at + 5], at + 6);
  if (end == std::string_view::npos) return std::nullopt;
  const std::string type(rest.substr(at + 6, end - at - 6));
  if (type == "ImageData") return FileKind{"VTK ImageData", "vti", ""};
  if (type == "RectilinearGrid") return FileKind{"VTK RectilinearGrid", "vtr", ""};
  if (type == "PImageData") return FileKind{"VTK PImageData", "pvti", ""};
  if (type == "Collection")
    return FileKind{"VTK Collection (.pvd)", "", "give the files that it lists, in their order"};
  return FileKind{"VTK " + type, "",
                  "resample it to a regular grid and save it as .vti, as with ParaView's ResampleToImage"};
}

FileKind ZipKind(const RandomAccessFile& file, const std::string& path, const Start& start) {
  // The name of the first file follows its header of 30 bytes.
  const std::size_t length = start.bytes.size() < 30
                                 ? 0
                                 : static_cast<unsigned char>(start.bytes[26]) +
                                       std::size_t{256} * static_cast<unsigned char>(start.bytes[27]);
  const std::string name = ReadText(file, 30, length);
  if (name.ends_with(".npy") || FormatOfEnding(path) == "npz") return {"NumPy .npz", "npz", ""};
  if (name.find(".zgroup") != std::string::npos || name.find(".zarray") != std::string::npos ||
      name.find("zarr.json") != std::string::npos)
    return {"Zarr", "", WithPath(kZarr, path)};
  return {"zip", "", "unpack it first, with unzip"};
}

std::optional<FileKind> GzipKind(const std::string& path, const Start& start) {
  // Two bytes, the method, and flags of which three are always 0.
  if (!start.Has(0, "\x1f\x8b\x08"sv) || start.bytes.size() < 4 ||
      (static_cast<unsigned char>(start.bytes[3]) & 0xe0) != 0)
    return std::nullopt;
  if (path.ends_with(".nii.gz")) return FileKind{"NIfTI (compressed by gzip)", "", WithPath(kNifti, path)};
  return FileKind{"gzip", "", "unpack it first, with gunzip"};
}

/// GRIB's four letters are followed, at byte 7, by the edition; a raw file may begin with the letters alone.
bool IsReally(const Signature& signature, const Start& start) {
  if (signature.bytes != "GRIB") return true;
  return start.bytes.size() > 7 && (start.bytes[7] == 1 || start.bytes[7] == 2);
}

bool Exists(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

/// Kind of the first file of a folder without any TIFF, if it is a known kind that is not read.
std::optional<FileKind> KindOfContent(const std::string& path) {
  const Result<std::vector<FolderEntry>> entries = Location(path).List();
  if (!entries.ok()) return std::nullopt;
  std::optional<FileKind> kind;
  for (const FolderEntry& entry : *entries) {
    const std::string file = (fs::path(path) / entry.name).string();
    if (FormatOfEnding(file) == "tiff") return std::nullopt;
    std::error_code ignored;
    if (!kind && fs::is_regular_file(file, ignored)) kind = FindFileKind(file);
  }
  if (!kind || !kind->format.empty()) return std::nullopt;
  kind->name += " files";
  return kind;
}

}  // namespace

std::optional<FileKind> FindFileKind(const std::string& path) {
  const Result<RandomAccessFile> file = RandomAccessFile::Open(path);
  if (!file.ok()) return std::nullopt;
  const Start start{ReadText(*file, 0, 4096)};
  for (const Signature& signature : kSignatures) {
    if (!start.Has(signature.at, signature.bytes) || !IsReally(signature, start)) continue;
    return FileKind{signature.name, signature.format == nullptr ? "" : signature.format,
                    WithPath(signature.remedy, path)};
  }
  if (start.Has(0, "PK\3\4"sv)) return ZipKind(*file, path, start);
  if (auto kind = GzipKind(path, start)) return kind;
  if (auto kind = VtkXmlKind(start)) return kind;
  if (IsHdf5(*file)) return Hdf5Kind(*file, path);
  return std::nullopt;
}

std::optional<FileKind> FindFolderKind(const std::string& path) {
  const fs::path folder = path;
  for (const char* name : {".zgroup", ".zarray", "zarr.json", ".zattrs", ".zmetadata"}) {
    if (Exists(folder / name)) return FileKind{"Zarr", "", WithPath(kZarr, path)};
  }
  if (Exists(folder / "md.idx") && Exists(folder / "data.0")) {
    return FileKind{"ADIOS2", "",
                    "convert it first, with adios2_convert or openpmd-pipe to HDF5, or write its arrays from "
                    "Python with quarry.write"};
  }
  if (Exists(folder / "dataset.json")) {
    return FileKind{"a dataset of Quarry", "",
                    "write the samples of a field to a file first, with quarry get"};
  }
  const Result<RandomAccessFile> header = RandomAccessFile::Open((folder / "Header").string());
  if (header.ok()) {
    const std::string start = ReadText(*header, 0, 16);
    if (start.starts_with("HyperCLaw") || start.starts_with("NavierStokes")) {
      return FileKind{"AMReX plotfile", "",
                      "write a uniform grid of it from Python, as with yt.load(...).covering_grid(...) and "
                      "quarry.write"};
    }
  }
  return KindOfContent(path);
}

}  // namespace quarry::input::internal
