// HDF5 through the HDF5 library, with the attributes of the openPMD standard if a file has them.

#define H5_USE_110_API  // the same functions from HDF5 1.10 on
#include <hdf5.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "quarry/base/file.h"
#include "quarry/base/missing.h"
#include "quarry/input/formats.h"

namespace quarry::input::internal {
namespace {

/// An identifier of the library that closes itself.
class Handle {
 public:
  using Close = herr_t (*)(hid_t);
  Handle() = default;
  Handle(hid_t id, Close close) : id_(id), close_(close) {}
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
    return *this;
  }
  ~Handle() {
    if (id_ >= 0) close_(id_);
  }

  hid_t get() const { return id_; }
  bool ok() const { return id_ >= 0; }

 private:
  hid_t id_ = -1;
  Close close_ = nullptr;
};

/// Keeps the library from printing its errors; the code queries them where it needs them.
void Silence() { H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr); }

/// The cause of the library's last error, in its own words.
std::string LastError() {
  std::string text = "no reason given";
  const auto take_first = [](unsigned, const H5E_error2_t* error, void* data) -> herr_t {
    *static_cast<std::string*>(data) = error->desc == nullptr ? "no reason given" : error->desc;
    return 1;  // the first is the innermost
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take_first, &text);
  return text;
}

Handle OpenAttribute(hid_t object, const char* name) {
  if (H5Aexists(object, name) <= 0) return {};
  return {H5Aopen(object, name, H5P_DEFAULT), H5Aclose};
}

/// Values of a numeric attribute; empty if it is missing or not a number.
std::vector<double> Numbers(hid_t object, const char* name) {
  const Handle attribute = OpenAttribute(object, name);
  if (!attribute.ok()) return {};
  const Handle type(H5Aget_type(attribute.get()), H5Tclose);
  const Handle space(H5Aget_space(attribute.get()), H5Sclose);
  const H5T_class_t kind = H5Tget_class(type.get());
  const hssize_t count = H5Sget_simple_extent_npoints(space.get());
  constexpr hssize_t kMost = 1 << 20;
  if ((kind != H5T_FLOAT && kind != H5T_INTEGER) || count < 1 || count > kMost) return {};
  std::vector<double> values(static_cast<std::size_t>(count));
  if (H5Aread(attribute.get(), H5T_NATIVE_DOUBLE, values.data()) < 0) return {};
  return values;
}

std::optional<double> Number(hid_t object, const char* name) {
  const std::vector<double> values = Numbers(object, name);
  return values.empty() ? std::nullopt : std::optional(values.front());
}

/// Strings of an attribute, of fixed or of variable length.
std::vector<std::string> Texts(hid_t object, const char* name) {
  const Handle attribute = OpenAttribute(object, name);
  if (!attribute.ok()) return {};
  const Handle type(H5Aget_type(attribute.get()), H5Tclose);
  const Handle space(H5Aget_space(attribute.get()), H5Sclose);
  const hssize_t count = H5Sget_simple_extent_npoints(space.get());
  constexpr std::size_t kMost = 1 << 20;
  if (H5Tget_class(type.get()) != H5T_STRING || count < 1 || static_cast<std::size_t>(count) > kMost)
    return {};
  std::vector<std::string> texts;
  if (H5Tis_variable_str(type.get()) > 0) {
    std::vector<char*> strings(static_cast<std::size_t>(count), nullptr);
    if (H5Aread(attribute.get(), type.get(), strings.data()) < 0) return {};
    for (const char* string : strings) texts.emplace_back(string == nullptr ? "" : string);
    H5Dvlen_reclaim(type.get(), space.get(), H5P_DEFAULT, strings.data());
    return texts;
  }
  const std::size_t size = H5Tget_size(type.get());
  if (size == 0 || size > kMost / static_cast<std::size_t>(count)) return {};
  std::string buffer(size * static_cast<std::size_t>(count), '\0');
  if (H5Aread(attribute.get(), type.get(), buffer.data()) < 0) return {};
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    std::string text = buffer.substr(i * size, size);
    text.resize(std::min(text.find('\0'), text.size()));
    while (!text.empty() && text.back() == ' ') text.pop_back();
    texts.push_back(std::move(text));
  }
  return texts;
}

std::string Text(hid_t object, const char* name) {
  const std::vector<std::string> texts = Texts(object, name);
  return texts.size() == 1 ? texts.front() : "";
}

std::optional<DataType> ToDataType(hid_t type) {
  const std::size_t size = H5Tget_size(type);
  if (H5Tget_class(type) == H5T_FLOAT) {
    if (size == 4) return DataType::kFloat32;
    if (size == 8) return DataType::kFloat64;
  } else if (H5Tget_class(type) == H5T_INTEGER) {
    const bool is_signed = H5Tget_sign(type) != H5T_SGN_NONE;
    if (size == 1) return is_signed ? DataType::kInt8 : DataType::kUint8;
    if (size == 2) return is_signed ? DataType::kInt16 : DataType::kUint16;
    if (size == 4) return is_signed ? DataType::kInt32 : DataType::kUint32;
  }
  return std::nullopt;
}

hid_t NativeType(DataType type) {
  switch (type) {
    case DataType::kFloat32:
      return H5T_NATIVE_FLOAT;
    case DataType::kFloat64:
      return H5T_NATIVE_DOUBLE;
    case DataType::kInt8:
      return H5T_NATIVE_INT8;
    case DataType::kUint8:
      return H5T_NATIVE_UINT8;
    case DataType::kInt16:
      return H5T_NATIVE_INT16;
    case DataType::kUint16:
      return H5T_NATIVE_UINT16;
    case DataType::kInt32:
      return H5T_NATIVE_INT32;
    case DataType::kUint32:
      break;
  }
  return H5T_NATIVE_UINT32;
}

/// A dataset of the file, in the order of its dimensions, slowest first.
struct Dataset {
  Handle id;
  Handle type;
  std::vector<hsize_t> dims;
  std::vector<std::size_t> kept;  ///< positions of the dimensions that are axes of the grid
};

Dataset OpenDataset(hid_t file, const std::string& path) {
  Dataset dataset;
  dataset.id = Handle(H5Dopen2(file, path.c_str(), H5P_DEFAULT), H5Dclose);
  if (!dataset.id.ok()) return dataset;
  dataset.type = Handle(H5Dget_type(dataset.id.get()), H5Tclose);
  const Handle space(H5Dget_space(dataset.id.get()), H5Sclose);
  const int rank = H5Sget_simple_extent_ndims(space.get());
  if (rank > 0 && H5Sget_simple_extent_type(space.get()) == H5S_SIMPLE) {
    dataset.dims.resize(static_cast<std::size_t>(rank));
    H5Sget_simple_extent_dims(space.get(), dataset.dims.data(), nullptr);
  }
  for (std::size_t i = 0; i < dataset.dims.size(); ++i) dataset.kept.push_back(i);
  for (auto it = dataset.kept.begin(); it != dataset.kept.end() && dataset.kept.size() > 3;)
    it = dataset.dims[*it] == 1 ? dataset.kept.erase(it) : it + 1;
  return dataset;
}

std::string Obstacle(const Dataset& dataset) {
  if (!dataset.id.ok()) return "it cannot be opened";
  if (!ToDataType(dataset.type.get()))
    return fmt::format(
        "its samples are not floats or integers of up to 32 bits, but of {} bytes and another kind",
        H5Tget_size(dataset.type.get()));
  if (dataset.dims.empty()) return "a single number";
  if (dataset.kept.size() > 3)
    return fmt::format("{} dimensions; at most 3 are understood", dataset.kept.size());
  for (const hsize_t n : dataset.dims) {
    if (n == 0) return "it is empty";
  }
  return "";
}

std::vector<std::string> ListDatasets(hid_t file) {
  std::vector<std::string> names;
  const auto take = [](hid_t, const char* name, const H5O_info_t* info, void* data) -> herr_t {
    if (info->type == H5O_TYPE_DATASET)
      static_cast<std::vector<std::string>*>(data)->push_back(fmt::format("/{}", name));
    return 0;
  };
  H5Ovisit(file, H5_INDEX_NAME, H5_ITER_INC, take, &names);
  return names;
}

/// "/data/1/meshes/B/x" -> "/data/1/meshes/B"
std::string Parent(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == 0 || slash == std::string::npos ? "/" : path.substr(0, slash);
}

/// The openPMD description of a mesh: attributes of the dataset, or of the group of its components.
/// @source openPMD standard 1.1.0, "Required Attributes for each Mesh Record"
struct Mesh {
  bool component = false;  ///< the attributes are those of the group
  std::vector<std::string> labels;
  std::vector<double> spacing;
  std::vector<double> offset;
  std::vector<double> position;  ///< of the sample in its cell, as a part of the spacing
  double unit = 1;               ///< of spacing and offset, in metres if the mesh is cartesian
  bool cartesian = false;
  std::string units;  ///< of the samples
};

/// "kg s^-2 A^-1", or the name of the unit if it has one.
/// @param powers  of length, mass, time, current, temperature, amount, luminous intensity
std::string SiUnit(const std::vector<double>& powers) {
  if (powers.size() != 7) return "";
  static const std::vector<std::pair<std::array<double, 7>, const char*>> kNamed = {
      {{0, 1, -2, -1, 0, 0, 0}, "T"},    {{1, 1, -3, -1, 0, 0, 0}, "V/m"}, {{2, 1, -3, -1, 0, 0, 0}, "V"},
      {{-1, 1, -2, 0, 0, 0, 0}, "Pa"},   {{1, 0, -1, 0, 0, 0, 0}, "m/s"},  {{-3, 1, 0, 0, 0, 0, 0}, "kg/m^3"},
      {{-3, 0, 1, 1, 0, 0, 0}, "C/m^3"}, {{-2, 0, 0, 1, 0, 0, 0}, "A/m^2"}};
  for (const auto& [named, name] : kNamed) {
    if (std::equal(named.begin(), named.end(), powers.begin())) return name;
  }
  constexpr std::array<const char*, 7> kBase = {"m", "kg", "s", "A", "K", "mol", "cd"};
  std::string unit;
  for (std::size_t i = 0; i < kBase.size(); ++i) {
    if (powers[i] == 0) continue;
    if (!unit.empty()) unit += ' ';
    unit += kBase[i];
    if (powers[i] != 1) unit += fmt::format("^{}", powers[i]);
  }
  return unit;
}

/// Lists of the standard follow the order of dimensions in the writing program: for Fortran, the reverse of
/// ours.
template <typename T>
std::vector<T> AlongDimensions(std::vector<T> list, std::size_t rank, bool fortran) {
  if (list.size() != rank) return {};
  if (fortran) std::reverse(list.begin(), list.end());
  return list;
}

std::optional<Mesh> FindMesh(hid_t file, const std::string& path, const Dataset& dataset) {
  const Handle group(H5Gopen2(file, Parent(path).c_str(), H5P_DEFAULT), H5Gclose);
  Mesh mesh;
  hid_t owner = dataset.id.get();
  if (H5Aexists(owner, "gridSpacing") <= 0) {
    mesh.component = true;
    owner = group.get();
    if (owner < 0 || H5Aexists(owner, "gridSpacing") <= 0) return std::nullopt;
  }
  const bool fortran = Text(owner, "dataOrder") == "F";
  const std::size_t rank = dataset.dims.size();
  mesh.labels = AlongDimensions(Texts(owner, "axisLabels"), rank, fortran);
  mesh.spacing = AlongDimensions(Numbers(owner, "gridSpacing"), rank, fortran);
  mesh.offset = AlongDimensions(Numbers(owner, "gridGlobalOffset"), rank, fortran);
  mesh.position = AlongDimensions(Numbers(dataset.id.get(), "position"), rank, fortran);
  mesh.unit = Number(owner, "gridUnitSI").value_or(1);
  mesh.cartesian = Text(owner, "geometry") == "cartesian";
  mesh.units = SiUnit(Numbers(owner, "unitDimension"));
  const double factor = Number(dataset.id.get(), "unitSI").value_or(1);
  if (factor != 1 && !mesh.units.empty()) mesh.units = fmt::format("{} {}", factor, mesh.units);
  return mesh;
}

/// The grid's axis (0 x, 1 y, 2 z) of each kept dimension: by its label if all are called x, y or z,
/// otherwise the last dimension is x.
std::vector<std::size_t> AssignAxes(const Dataset& dataset, const std::optional<Mesh>& mesh) {
  std::vector<std::size_t> by_position;
  std::vector<std::size_t> by_label;
  for (std::size_t i = 0; i < dataset.kept.size(); ++i) {
    by_position.push_back(dataset.kept.size() - 1 - i);
    if (!mesh || mesh->labels.empty()) continue;
    const std::string& label = mesh->labels[dataset.kept[i]];
    for (std::size_t a = 0; a < 3; ++a) {
      const bool taken = std::find(by_label.begin(), by_label.end(), a) != by_label.end();
      if (label.size() == 1 && std::tolower(static_cast<unsigned char>(label[0])) == kAxisNames[a] && !taken)
        by_label.push_back(a);
    }
  }
  return by_label.size() == by_position.size() ? by_label : by_position;
}

/// Physical time of the iteration that a dataset belongs to: from the nearest enclosing group that has one.
std::optional<double> FindTime(hid_t file, std::string path) {
  while (path != "/") {
    path = Parent(path);
    const Handle group(H5Gopen2(file, path.c_str(), H5P_DEFAULT), H5Gclose);
    if (!group.ok()) return std::nullopt;
    const std::optional<double> time = Number(group.get(), "time");
    if (!time) continue;
    const double seconds = *time * Number(group.get(), "timeUnitSI").value_or(1);
    return std::isfinite(seconds) ? std::optional(seconds) : std::nullopt;
  }
  return std::nullopt;
}

/// A dataset with the dimensions of the grid, in the order of the file: `order[i]` is the axis of its i-th.
struct Layout {
  std::array<int, 3> order = {2, 1, 0};
  std::array<std::optional<std::size_t>, 3> dimension;  ///< of the file, by position in `order`
  Index3 chunk = {1, 1, 1};                             ///< x, y, z; ones if the dataset has no chunks
  bool chunked = false;

  bool transposed() const { return order != std::array<int, 3>{2, 1, 0}; }
};

Layout FindLayout(const Dataset& dataset, const std::vector<std::size_t>& axes) {
  Layout layout;
  std::vector<int> order;
  for (int a = 2; a >= 0; --a) {
    if (std::find(axes.begin(), axes.end(), static_cast<std::size_t>(a)) == axes.end()) order.push_back(a);
  }
  const std::size_t padding = order.size();
  for (const std::size_t a : axes) order.push_back(static_cast<int>(a));
  std::copy(order.begin(), order.end(), layout.order.begin());
  for (std::size_t i = 0; i < axes.size(); ++i) layout.dimension[padding + i] = dataset.kept[i];
  const Handle properties(H5Dget_create_plist(dataset.id.get()), H5Pclose);
  std::vector<hsize_t> chunk(dataset.dims.size());
  layout.chunked = H5Pget_layout(properties.get()) == H5D_CHUNKED &&
                   H5Pget_chunk(properties.get(), static_cast<int>(chunk.size()), chunk.data()) > 0;
  for (std::size_t i = 0; i < axes.size() && layout.chunked; ++i)
    layout.chunk[axes[i]] =
        static_cast<std::int64_t>(std::min(chunk[dataset.kept[i]], dataset.dims[dataset.kept[i]]));
  return layout;
}

/// A file may need filter plugins that are not installed here.
Status CheckFilters(const InputName& name, const Dataset& dataset) {
  const Handle properties(H5Dget_create_plist(dataset.id.get()), H5Pclose);
  const int filters = H5Pget_nfilters(properties.get());
  for (int i = 0; i < filters; ++i) {
    unsigned flags = 0;
    unsigned config = 0;
    std::size_t values = 0;
    char text[256] = {};
    const H5Z_filter_t filter = H5Pget_filter2(properties.get(), static_cast<unsigned>(i), &flags, &values,
                                               nullptr, sizeof(text), text, &config);
    if (filter < 0 || H5Zfilter_avail(filter) > 0) continue;
    return Status(
        StatusCode::kUnavailable,
        fmt::format("\"{}\" is compressed by the HDF5 filter {} \"{}\", which is not installed; install its "
                    "plugin and set HDF5_PLUGIN_PATH",
                    name.path, filter, text));
  }
  return Status::Ok();
}

class Hdf5Input final : public Input {
 public:
  Hdf5Input(InputInfo info, Handle file, Dataset dataset, Layout layout, std::string path, std::uint64_t size)
      : Input(std::move(info)),
        file_(std::move(file)),
        dataset_(std::move(dataset)),
        layout_(layout),
        path_(std::move(path)),
        size_(size) {}

  Status ReadBox(const Box& box, std::span<std::byte> samples) const override {
    // The library reads zeros beyond the end of a truncated file.
    std::error_code error;
    const std::uint64_t size = std::filesystem::file_size(path_, error);
    if (error || size < size_) {
      return DataLoss("\"{}\" has become shorter: {} bytes, {} when it was opened; fetch the file again",
                      info_.path, error ? 0 : size, size_);
    }
    return layout_.transposed() ? ReadTransposed(box, samples) : Read(box, samples);
  }

 private:
  /// Samples in the order of the file.
  Status Read(const Box& box, std::span<std::byte> samples) const {
    std::vector<hsize_t> start(dataset_.dims.size(), 0);
    std::vector<hsize_t> count(dataset_.dims.size(), 1);
    for (std::size_t i = 0; i < 3; ++i) {
      if (!layout_.dimension[i]) continue;
      const auto axis = static_cast<std::size_t>(layout_.order[i]);
      start[*layout_.dimension[i]] = static_cast<hsize_t>(box.begin[axis]);
      count[*layout_.dimension[i]] = static_cast<hsize_t>(box.shape()[axis]);
    }
    const Handle space(H5Dget_space(dataset_.id.get()), H5Sclose);
    const Handle memory(H5Screate_simple(static_cast<int>(count.size()), count.data(), nullptr), H5Sclose);
    if (H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr) >= 0 &&
        H5Dread(dataset_.id.get(), NativeType(info_.type), memory.get(), space.get(), H5P_DEFAULT,
                samples.data()) >= 0) {
      return Status::Ok();
    }
    return DataLoss("\"{}\" cannot be read at {}: {}; fetch the file again", info_.path, ToString(box),
                    LastError());
  }

  /// Reads blocks of whole chunks, in memory of a bounded size, so that every chunk is decompressed once.
  Status ReadTransposed(const Box& box, std::span<std::byte> samples) const {
    const std::size_t size = SizeOf(info_.type);
    const Index3 block = ChooseBlock(box, static_cast<std::int64_t>(kBlockBytes / size));
    Bytes buffer;
    const auto first = [&](std::size_t a) { return box.begin[a] / block[a] * block[a]; };
    Index3 at{};
    for (at[2] = first(2); at[2] < box.end[2]; at[2] += block[2]) {
      for (at[1] = first(1); at[1] < box.end[1]; at[1] += block[1]) {
        for (at[0] = first(0); at[0] < box.end[0]; at[0] += block[0]) {
          const Box part = Intersect(box, {at, {at[0] + block[0], at[1] + block[1], at[2] + block[2]}});
          buffer.resize(static_cast<std::size_t>(part.volume()) * size);
          QUARRY_RETURN_IF_ERROR(Read(part, buffer));
          CopyPermuted(buffer, part, layout_.order, size, box, samples);
        }
      }
    }
    return Status::Ok();
  }

  /// A multiple of the chunks, longest along the fastest dimensions of the file.
  Index3 ChooseBlock(const Box& box, std::int64_t budget) const {
    Index3 block = layout_.chunk;
    for (std::size_t i = 3; i-- > 0;) {
      const auto axis = static_cast<std::size_t>(layout_.order[i]);
      const std::int64_t chunk = layout_.chunk[axis];
      const std::int64_t others = Volume(block) / chunk;
      const std::int64_t affordable = std::max<std::int64_t>(1, budget / others / chunk);
      // One more than the box is long: it may begin inside a chunk.
      const std::int64_t useful = box.shape()[axis] / chunk + 2;
      block[axis] = chunk * std::min(affordable, useful);
    }
    return block;
  }

  static constexpr std::size_t kBlockBytes = std::size_t{32} << 20;

  Handle file_;
  Dataset dataset_;
  Layout layout_;
  std::string path_;
  std::uint64_t size_;
};

Variable Summarise(const std::string& path, const Dataset& dataset, const std::vector<std::size_t>& axes) {
  Variable variable;
  variable.name = path;
  variable.dims = {1, 1, 1};
  variable.axes = static_cast<int>(dataset.kept.size());
  variable.obstacle = Obstacle(dataset);
  for (std::size_t i = 0; i < axes.size() && variable.obstacle.empty(); ++i)
    variable.dims[axes[i]] = static_cast<std::int64_t>(dataset.dims[dataset.kept[i]]);
  return variable;
}

void DescribeMesh(const Mesh& mesh, const Dataset& dataset, const std::vector<std::size_t>& axes,
                  InputInfo* info) {
  for (std::size_t i = 0; i < axes.size(); ++i) {
    InputAxis& axis = info->axes[axes[i]];
    const std::size_t d = dataset.kept[i];
    if (!mesh.labels.empty()) axis.name = mesh.labels[d];
    if (mesh.cartesian) axis.units = "m";
    if (mesh.spacing.empty() || mesh.offset.empty()) continue;
    const double shift = mesh.position.empty() ? 0 : mesh.position[d] * mesh.spacing[d];
    axis.origin = (mesh.offset[d] + shift) * mesh.unit;
    axis.spacing = mesh.spacing[d] * mesh.unit;
  }
  info->units = mesh.units;
}

std::string FieldOf(const std::string& path, const std::optional<Mesh>& mesh) {
  const std::string last = path.substr(path.rfind('/') + 1);
  if (!mesh || !mesh->component) return FieldFromName(last);
  const std::string record = Parent(path);
  return FieldFromName(record.substr(record.rfind('/') + 1) + "_" + last);
}

InputInfo DescribeInfo(const InputName& name, const InputOptions& options, hid_t file,
                       const std::string& path, const Dataset& dataset, const Layout& layout) {
  const std::optional<Mesh> mesh = FindMesh(file, path, dataset);
  const std::vector<std::size_t> axes = AssignAxes(dataset, mesh);
  InputInfo info;
  info.path = name.variable.empty() ? fmt::format("{}:{}", name.file, path) : name.path;
  info.source = name.Source(path);
  info.field = options.field.empty() ? FieldOf(path, mesh) : options.field;
  info.dims = Summarise(path, dataset, axes).dims;
  info.type = *ToDataType(dataset.type.get());
  info.time = FindTime(file, path);
  if (mesh) DescribeMesh(*mesh, dataset, axes, &info);
  if (const std::string units = Text(dataset.id.get(), "units"); !units.empty()) info.units = units;
  if (std::optional<double> fill = Number(dataset.id.get(), "_FillValue")) {
    if (info.type == DataType::kFloat32) fill = static_cast<double>(static_cast<float>(*fill));
    if (CanHold(info.type, *fill)) info.fill = fill;
  }
  if (layout.chunked) {
    info.unit = layout.chunk;
  } else if (layout.transposed()) {
    // Samples that lie together in the file: a row of its fastest dimension.
    const auto fastest = static_cast<std::size_t>(layout.order[2]);
    info.unit[fastest] = info.dims[fastest];
  }
  return info;
}

Result<Handle> OpenFile(const InputName& name) {
  const Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
#if H5_VERSION_GE(1, 10, 7)
  // Reading needs no lock; file systems without locks would refuse it.
  H5Pset_file_locking(access.get(), true, true);
#endif
  Handle file(H5Fopen(name.file.c_str(), H5F_ACC_RDONLY, access.get()), H5Fclose);
  if (file.ok()) return file;
  return DataLoss("\"{}\" is not an HDF5 file, or is damaged: {}", name.file, LastError());
}

/// The dataset that the user named, without looking at others; otherwise all of them.
std::vector<std::string> Candidates(hid_t file, const InputName& name) {
  if (!name.variable.empty()) {
    const std::string path =
        name.variable.starts_with('/') ? name.variable : fmt::format("/{}", name.variable);
    if (Handle(H5Dopen2(file, path.c_str(), H5P_DEFAULT), H5Dclose).ok()) return {path};
  }
  return ListDatasets(file);
}

}  // namespace

Result<Inputs> OpenHdf5(const InputName& name, const InputOptions& options) {
  Silence();
  // The file system's own errors first: the library hides them in its own.
  QUARRY_ASSIGN_OR_RETURN(const RandomAccessFile bytes, RandomAccessFile::Open(name.file));
  QUARRY_ASSIGN_OR_RETURN(Handle file, OpenFile(name));
  const std::vector<std::string> paths = Candidates(file.get(), name);
  std::vector<Variable> variables;
  for (const std::string& path : paths) {
    const Dataset dataset = OpenDataset(file.get(), path);
    const bool sound = Obstacle(dataset).empty();
    variables.push_back(Summarise(
        path, dataset,
        sound ? AssignAxes(dataset, FindMesh(file.get(), path, dataset)) : std::vector<std::size_t>()));
  }
  QUARRY_ASSIGN_OR_RETURN(const std::size_t chosen, ChooseVariable(name, variables));
  const std::string& path = paths[chosen];
  Dataset dataset = OpenDataset(file.get(), path);
  QUARRY_RETURN_IF_ERROR(CheckFilters(name, dataset));
  const Layout layout = FindLayout(dataset, AssignAxes(dataset, FindMesh(file.get(), path, dataset)));
  InputInfo info = DescribeInfo(name, options, file.get(), path, dataset, layout);
  QUARRY_RETURN_IF_ERROR(CheckOptions(info, options));
  Inputs inputs;
  inputs.push_back(std::make_unique<Hdf5Input>(std::move(info), std::move(file), std::move(dataset), layout,
                                               name.file, bytes.size()));
  return inputs;
}

}  // namespace quarry::input::internal
