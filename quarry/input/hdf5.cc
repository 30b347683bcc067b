// HDF5 through the HDF5 library, with the attributes of the openPMD standard if a file has them.

#include <algorithm>
#include <map>

#include "quarry/base/file.h"
#include "quarry/format/description_rules.h"
#include "quarry/input/array_file.h"
#include "quarry/input/conventions.h"
#include "quarry/input/hdf5_attributes.h"
#include "quarry/input/hdf5_mesh.h"
#include "quarry/input/hdf5_parts.h"
#include "quarry/input/hdf5_types.h"
#include "quarry/input/stored_values.h"

namespace quarry::input::internal {
namespace {

class Hdf5File final : public ArrayFile {
 public:
  Status Open(const InputName& name) {
    // The file system's own errors first: the library hides them in its own.
    QUARRY_ASSIGN_OR_RETURN(const RandomAccessFile bytes, RandomAccessFile::Open(name.file));
    size_ = bytes.size();
    path_ = name.file;
    file_ = OpenHdf5(name.file);
    if (!file_.ok()) return DataLoss("\"{}\" is not an HDF5 file, or is damaged: {}", name.file, Hdf5Error());
    if (const auto other = FindOtherMesh(file_.get()); other && name.variable.empty()) {
      return InvalidArgument("\"{}\" is {}, made of {}, or name one array of it, as FILE:/PATH", name.file,
                             other->first, other->second);
    }
    is_netcdf_ = IsNetcdf();
    for (const std::string& path : Candidates(name)) Add(path);
    // Positions along dimensions may lie anywhere.
    for (std::size_t i = 0; i < arrays_.size(); ++i) FindScales(i);
    return Status::Ok();
  }

  Result<std::vector<double>> ReadNumbers(std::size_t array) const override {
    const Handle space(H5Dget_space(datasets_[array].get()), H5Sclose);
    const hssize_t count = H5Sget_simple_extent_npoints(space.get());
    std::vector<double> numbers(static_cast<std::size_t>(std::max<hssize_t>(0, count)));
    if (H5Dread(datasets_[array].get(), H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, numbers.data()) >=
        0)
      return numbers;
    return DataLoss("{}", Hdf5Error());
  }

  Result<std::vector<std::string>> ReadTexts(std::size_t array) const override {
    const ArrayInfo& info = arrays_[array];
    const Handle type(H5Dget_type(datasets_[array].get()), H5Tclose);
    const bool is_variable = H5Tis_variable_str(type.get()) > 0;
    QUARRY_ASSIGN_OR_RETURN(const TextShape shape,
                            ShapeOfTexts(info, is_variable ? 1 : H5Tget_size(type.get())));
    if (is_variable) return ReadStrings(datasets_[array].get(), type.get(), shape.texts);
    std::string characters(shape.texts * shape.length, '\0');
    if (H5Dread(datasets_[array].get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, characters.data()) < 0)
      return DataLoss("{}", Hdf5Error());
    std::vector<std::string> texts;
    for (std::size_t row = 0; row < shape.texts; ++row) {
      std::string text = characters.substr(row * shape.length, shape.length);
      text.resize(std::min(text.find('\0'), text.size()));
      if (info.is_characters) text.resize(text.find_last_not_of(' ') + 1);  // as netCDF's are read
      texts.push_back(std::move(text));
    }
    return texts;
  }

  FileAttributes ReadAround(std::size_t array) const override {
    std::string path(static_cast<std::size_t>(H5Iget_name(datasets_[array].get(), nullptr, 0)) + 1, '\0');
    H5Iget_name(datasets_[array].get(), path.data(), path.size());
    FileAttributes around;
    for (std::size_t end = 0; end != std::string::npos; end = path.find('/', end + 1)) {
      const Handle group(
          H5Oopen(file_.get(), path.substr(0, std::max<std::size_t>(end, 1)).c_str(), H5P_DEFAULT), H5Oclose);
      if (!group.ok()) break;
      around.Add(ReadAttributes(group.get()));
    }
    return around;
  }

  Status Read(std::size_t array, Part part, const std::vector<std::uint64_t>& start,
              const std::vector<std::uint64_t>& count, std::span<std::byte> samples) const override {
    const hid_t dataset = datasets_[array].get();
    const std::vector<hsize_t> from(start.begin(), start.end());
    const std::vector<hsize_t> size(count.begin(), count.end());
    const Handle space(H5Dget_space(dataset), H5Sclose);
    const Handle memory(H5Screate_simple(static_cast<int>(size.size()), size.data(), nullptr), H5Sclose);
    // Samples as they are stored: `_Unsigned` gives their bits another meaning, and no value may be clipped.
    const GivenType given = arrays_[array].given;
    const hid_t native = NativeType(*arrays_[array].type);
    const Handle own(part != Part::kWhole          ? TypeOfPart(dataset, part, native)
                     : given == GivenType::kStored ? H5Tcopy(native)
                                                   : BitsOfType(dataset),
                     H5Tclose);
    const std::span<std::byte> read = given == GivenType::kFloat16 ? PlaceOfHalves(samples) : samples;
    const bool is_selected =
        size.empty() ||  // a single number
        H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, from.data(), nullptr, size.data(), nullptr) >= 0;
    if (is_selected &&
        H5Dread(dataset, own.get(), memory.get(), space.get(), H5P_DEFAULT, read.data()) >= 0) {
      if (given == GivenType::kFloat16) WidenHalves(samples);
      return Status::Ok();
    }
    return DataLoss("{}", Hdf5Error());
  }

  Status CheckWhole(std::size_t array, const std::string& path,
                    std::vector<std::string>* warnings) const override {
    const hid_t dataset = datasets_[array].get();
    const Handle properties(H5Dget_create_plist(dataset), H5Pclose);
    QUARRY_RETURN_IF_ERROR(CheckFilters(properties.get(), path));
    QUARRY_RETURN_IF_ERROR(CheckHdf5Parts(properties.get(), path_, path));
    if (H5Pget_layout(properties.get()) == H5D_VIRTUAL || H5Pget_external_count(properties.get()) > 0)
      return Status::Ok();
    WarnOfUnwritten(dataset, properties.get(), arrays_[array], warnings);
    return Status::Ok();
  }

 private:
  /// Whether netCDF has written the file. Libraries before 4.4.1 leave no mark in the root but in the
  /// datasets of dimensions, of which one comes early in any order.
  bool IsNetcdf() const {
    for (const char* mark : {"_NCProperties", "_nc3_strict"}) {
      if (H5Aexists(file_.get(), mark) > 0) return true;
    }
    const std::vector<std::string> datasets = ListDatasets();
    constexpr std::size_t kLooked = 256;
    return std::any_of(
        datasets.begin(), datasets.begin() + static_cast<std::ptrdiff_t>(std::min(kLooked, datasets.size())),
        [&](const std::string& path) {
          return H5Aexists_by_name(file_.get(), path.c_str(), "_Netcdf4Dimid", H5P_DEFAULT) > 0;
        });
  }

  /// The dataset that the user named, without looking at others; otherwise all of them.
  std::vector<std::string> Candidates(const InputName& name) const {
    if (!name.variable.empty()) {
      const std::string path =
          name.variable.starts_with('/') ? name.variable : fmt::format("/{}", name.variable);
      if (Handle(H5Dopen2(file_.get(), path.c_str(), H5P_DEFAULT), H5Dclose).ok()) {
        std::vector<std::string> paths = SameName(path);
        paths.insert(paths.begin(), path);
        return paths;
      }
    }
    return ListDatasets();
  }

  std::vector<std::string> ListDatasets() const {
    std::vector<std::string> names;
    const auto take = [](hid_t, const char* name, const H5O_info_t* info, void* data) -> herr_t {
      if (info->type == H5O_TYPE_DATASET)
        static_cast<std::vector<std::string>*>(data)->push_back(fmt::format("/{}", name));
      return 0;
    };
    H5Ovisit(file_.get(), H5_INDEX_NAME, H5_ITER_INC, take, &names);
    return names;
  }

  /// Datasets of the same name in other groups, which decide the name of the field; and what lies beside it
  /// and in the groups around it: coordinates of no dimension.
  std::vector<std::string> SameName(const std::string& path) const {
    std::vector<std::string> same;
    const std::string last = path.substr(path.rfind('/'));
    for (const std::string& other : ListDatasets()) {
      const std::string parent = Parent(other) == "/" ? "/" : Parent(other) + "/";
      const bool beside = path.starts_with(parent);
      if (other != path && (beside || other.ends_with(last))) same.push_back(other);
    }
    return same;
  }

  /// @returns the place of a dataset in the list; adds it if it is new
  std::size_t Add(const std::string& path) {
    const auto [known, is_new] = places_.try_emplace(path, arrays_.size());
    if (!is_new) return known->second;
    ArrayInfo array;
    array.name = path;
    array.field = path.substr(path.rfind('/') + 1);
    Handle dataset(H5Dopen2(file_.get(), path.c_str(), H5P_DEFAULT), H5Dclose);
    if (dataset.ok()) {
      Describe(dataset.get(), &array);
    } else {
      array.kind = ArrayInfo::Kind::kOther;
      array.type_name = "unreadable";
    }
    arrays_.push_back(std::move(array));
    datasets_.push_back(std::move(dataset));
    return arrays_.size() - 1;
  }

  void Describe(hid_t dataset, ArrayInfo* array) const {
    const Handle type(H5Dget_type(dataset), H5Tclose);
    const Handle space(H5Dget_space(dataset), H5Sclose);
    const H5T_class_t kind = H5Tget_class(type.get());
    array->type = ToDataType(type.get());
    array->given = ToGivenType(type.get());
    if (array->given != GivenType::kStored) array->type = StoredTypeOf(array->given);
    if (const std::optional<DataType> of_parts = TypeOfParts(type.get())) {
      array->type = of_parts;
      array->is_complex = true;
    }
    array->kind = array->type || kind == H5T_FLOAT || kind == H5T_INTEGER ? ArrayInfo::Kind::kNumbers
                  : kind == H5T_STRING                                    ? ArrayInfo::Kind::kText
                                                                          : ArrayInfo::Kind::kOther;
    array->type_name = TypeName(type.get());
    const bool is_one_character =
        kind == H5T_STRING && H5Tis_variable_str(type.get()) <= 0 && H5Tget_size(type.get()) == 1;
    const int rank = H5Sget_simple_extent_ndims(space.get());
    std::vector<hsize_t> dims(static_cast<std::size_t>(std::max(0, rank)));
    std::vector<hsize_t> most(dims.size());
    H5Sget_simple_extent_dims(space.get(), dims.data(), most.data());
    // Letters along an axis are not text, unless they are rows, or netCDF has no other text.
    array->is_characters = is_one_character && (rank > 1 || (rank == 1 && is_netcdf_));
    const std::vector<std::string> labels = Texts(dataset, "DIMENSION_LABELS");
    for (std::size_t i = 0; i < dims.size(); ++i) {
      ArrayDimension dimension;
      dimension.length = static_cast<std::int64_t>(dims[i]);
      dimension.grows = is_netcdf_ && most[i] == H5S_UNLIMITED;
      if (labels.size() == dims.size()) dimension.name = labels[i];
      array->dimensions.push_back(std::move(dimension));
    }
    const Handle properties(H5Dget_create_plist(dataset), H5Pclose);
    std::vector<hsize_t> chunk(dims.size());
    if (!dims.empty() && H5Pget_layout(properties.get()) == H5D_CHUNKED &&
        H5Pget_chunk(properties.get(), rank, chunk.data()) > 0)
      array->chunk.assign(chunk.begin(), chunk.end());
    array->attributes = ReadAttributes(dataset);
    array->unwritten = Unwritten(properties.get(), *array);
    array->is_scale = internal::Text(array->attributes, "CLASS") == "DIMENSION_SCALE";
    if (const std::optional<OpenPmdMesh> mesh = FindMesh(file_.get(), dataset, array->name, dims.size()))
      DescribeMesh(*mesh, array);
    FindTime(file_.get(), array);
  }

  static std::string TypeName(hid_t type) {
    const std::size_t bits = 8 * H5Tget_size(type);
    switch (H5Tget_class(type)) {
      case H5T_FLOAT:
        return fmt::format("float{}", bits);
      case H5T_INTEGER:
        return fmt::format("{}int{}", H5Tget_sign(type) == H5T_SGN_NONE ? "u" : "", bits);
      case H5T_STRING:
        return "text";
      case H5T_COMPOUND:
        return "compound";
      default:
        return "other";
    }
  }

  /// The value of samples that were never written, if somebody has chosen it: 0, the default of HDF5, is a
  /// sample like others.
  std::optional<SampleValue> Unwritten(hid_t properties, const ArrayInfo& array) const {
    if (!array.type) return std::nullopt;
    H5D_fill_value_t defined = H5D_FILL_VALUE_UNDEFINED;
    H5D_fill_time_t when = H5D_FILL_TIME_ERROR;
    SampleValue value;
    const bool is_chosen = H5Pfill_value_defined(properties, &defined) >= 0 &&
                           defined == H5D_FILL_VALUE_USER_DEFINED &&
                           H5Pget_fill_time(properties, &when) >= 0 && when != H5D_FILL_TIME_NEVER &&
                           ReadFill(properties, *array.type, &value) && value.nearest() != 0;
    if (is_chosen) return value;
    return is_netcdf_ && SizeOf(*array.type) > 1 ? std::optional(NetcdfFill(*array.type)) : std::nullopt;
  }

  /// The scale of each dimension: its name and positions.
  void FindScales(std::size_t array) {
    if (arrays_[array].is_scale && IsList(arrays_[array])) {
      arrays_[array].dimensions[0].name = ScaleName(array);
      arrays_[array].dimensions[0].coordinate = array;
      return;
    }
    for (std::size_t d = 0; d < arrays_[array].dimensions.size(); ++d) {
      const std::string path = ScalePath(datasets_[array].get(), static_cast<unsigned>(d));
      const bool is_labelled = !arrays_[array].dimensions[d].name.empty();
      std::optional<std::size_t> scale;
      if (!path.empty()) {
        scale = Add(path);
      } else if (is_labelled) {
        scale = Labelled(array, arrays_[array].dimensions[d]);
      }
      if (!scale) continue;
      arrays_[*scale].is_scale = true;
      ArrayDimension& dimension = arrays_[array].dimensions[d];
      dimension.name = ScaleName(*scale);
      // netCDF stores dimensions without positions as scales, too.
      const std::string text = internal::Text(arrays_[*scale].attributes, "NAME");
      const bool empty = text.starts_with("This is a netCDF dimension but not a netCDF variable");
      if (IsList(arrays_[*scale]) && arrays_[*scale].dimensions[0].length == dimension.length && !empty)
        dimension.coordinate = scale;
    }
  }

  /// A list of positions, or of texts, which may be rows of characters.
  static bool IsList(const ArrayInfo& array) {
    return array.dimensions.size() == (array.is_characters ? 2U : 1U);
  }

  std::string ScaleName(std::size_t scale) const {
    const std::string& path = arrays_[scale].name;
    return path.substr(path.rfind('/') + 1);
  }

  /// A list in the same group with the name of a dimension's label, and its length.
  std::optional<std::size_t> Labelled(std::size_t array, const ArrayDimension& dimension) {
    const std::string parent = Parent(arrays_[array].name);
    const std::string path = fmt::format("{}/{}", parent == "/" ? "" : parent, dimension.name);
    if (path == arrays_[array].name || H5Lexists(file_.get(), path.c_str(), H5P_DEFAULT) <= 0)
      return std::nullopt;
    const std::size_t scale = Add(path);
    const std::vector<ArrayDimension>& dimensions = arrays_[scale].dimensions;
    return dimensions.size() == 1 && dimensions[0].length == dimension.length ? std::optional(scale)
                                                                              : std::nullopt;
  }

  /// The path of the first scale that is attached to a dimension.
  /// @source HDF5 Dimension Scale Specification: DIMENSION_LIST holds references
  static std::string ScalePath(hid_t dataset, unsigned dimension) {
    const Handle attribute = OpenAttribute(dataset, "DIMENSION_LIST");
    if (!attribute.ok()) return "";
    const Handle type(H5Aget_type(attribute.get()), H5Tclose);
    const Handle space(H5Aget_space(attribute.get()), H5Sclose);
    const hssize_t count = H5Sget_simple_extent_npoints(space.get());
    constexpr hssize_t kMost = 64;
    if (H5Tget_class(type.get()) != H5T_VLEN || count <= static_cast<hssize_t>(dimension) || count > kMost)
      return "";
    const Handle base(H5Tget_super(type.get()), H5Tclose);
    if (H5Tequal(base.get(), H5T_STD_REF_OBJ) <= 0) return "";
    std::vector<hvl_t> lists(static_cast<std::size_t>(count));
    if (H5Aread(attribute.get(), type.get(), lists.data()) < 0) return "";
    std::string path;
    if (lists[dimension].len > 0) {
      const Handle scale(H5Rdereference2(dataset, H5P_DEFAULT, H5R_OBJECT, lists[dimension].p), H5Oclose);
      char name[4096] = {};
      if (scale.ok() && H5Iget_type(scale.get()) == H5I_DATASET &&
          H5Iget_name(scale.get(), name, sizeof(name)) > 0)
        path = name;
    }
    H5Dvlen_reclaim(type.get(), space.get(), H5P_DEFAULT, lists.data());
    return path;
  }

  static Status CheckFilters(hid_t properties, const std::string& path) {
    const int filters = H5Pget_nfilters(properties);
    for (int i = 0; i < filters; ++i) {
      unsigned flags = 0;
      unsigned config = 0;
      std::size_t values = 0;
      char text[256] = {};
      const H5Z_filter_t filter = H5Pget_filter2(properties, static_cast<unsigned>(i), &flags, &values,
                                                 nullptr, sizeof(text), text, &config);
      if (filter < 0 || H5Zfilter_avail(filter) > 0) continue;
      return MissingFilter(path, static_cast<unsigned>(filter), text);
    }
    return Status::Ok();
  }

  /// Integers of 64 bits with all their digits.
  static bool ReadFill(hid_t properties, DataType type, SampleValue* value) {
    const auto read = [&](auto number, hid_t native) {
      if (H5Pget_fill_value(properties, native, &number) < 0) return false;
      *value = number;
      return true;
    };
    if (type == DataType::kInt64) return read(std::int64_t{}, H5T_NATIVE_INT64);
    if (type == DataType::kUint64) return read(std::uint64_t{}, H5T_NATIVE_UINT64);
    return read(double{}, H5T_NATIVE_DOUBLE);
  }

  static void WarnOfUnwritten(hid_t dataset, hid_t properties, const ArrayInfo& array,
                              std::vector<std::string>* warnings) {
    if (array.unwritten || array.attributes.contains("_FillValue")) return;  // they are missing samples
    H5D_space_status_t status = H5D_SPACE_STATUS_ERROR;
    if (H5Dget_space_status(dataset, &status) < 0 || status == H5D_SPACE_STATUS_ALLOCATED) return;
    if (H5Pget_layout(properties) == H5D_COMPACT) return;
    hsize_t written = 0;
    hsize_t whole = 1;
    for (std::size_t i = 0; i < array.chunk.size(); ++i)
      whole *= static_cast<hsize_t>((array.dimensions[i].length + array.chunk[i] - 1) / array.chunk[i]);
#if H5_VERSION_GE(1, 10, 5)
    const Handle space(H5Dget_space(dataset), H5Sclose);
    if (!array.chunk.empty()) H5Dget_num_chunks(dataset, space.get(), &written);
#endif
    if (written >= whole) return;
    warnings->push_back(
        fmt::format("{}: {} of {} {} never written and read as the default of HDF5, 0; if these samples are "
                    "missing, give --fill 0",
                    array.name, whole - written, whole, array.chunk.empty() ? "blocks were" : "chunks were"));
  }

  std::string path_;
  bool is_netcdf_ = false;
  Handle file_;
  std::vector<Handle> datasets_;
  std::map<std::string, std::size_t> places_;  ///< positions of datasets in the list, by path
};

}  // namespace

Result<Inputs> OpenHdf5(const InputName& name, const InputOptions& options) {
  const auto file = std::make_shared<Hdf5File>();
  QUARRY_RETURN_IF_ERROR(file->Open(name));
  return OpenArrays(name, options, file);
}

}  // namespace quarry::input::internal
