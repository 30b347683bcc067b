// NetCDF: classic, 64-bit offset, 64-bit data, and NetCDF-4, through the netCDF library.

#include <netcdf.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "quarry/base/file.h"
#include "quarry/base/missing.h"
#include "quarry/input/formats.h"
#include "quarry/input/netcdf_classic.h"

namespace quarry::input::internal {
namespace {

/// A file open in the library, shared by the inputs of all its moments.
struct NetcdfFile {
  std::string path;
  int id = -1;

  NetcdfFile() = default;
  NetcdfFile(const NetcdfFile&) = delete;
  NetcdfFile& operator=(const NetcdfFile&) = delete;
  ~NetcdfFile() {
    if (id >= 0) nc_close(id);
  }
};

struct Dimension {
  int id = 0;
  std::string name;
  std::size_t length = 0;
  bool grows = false;
};

/// A variable of the file, slowest dimension first.
struct NetcdfVariable {
  int group = 0;
  int id = 0;
  nc_type type = NC_NAT;
  std::string name;
  std::vector<Dimension> dimensions;
};

/// How a variable's dimensions become a grid.
struct Axes {
  std::optional<std::size_t> time;   ///< position of the time dimension
  std::vector<std::size_t> spatial;  ///< positions of z, y, x, or the last of them, slowest first
};

/// Physical values of samples that are stored as `stored * scale + offset`.
struct Packing {
  DataType stored = DataType::kInt16;
  double scale = 1;
  double offset = 0;
  std::optional<double> fill;  ///< stored value of missing samples; they become NaN
};

std::optional<std::vector<double>> Numbers(int group, int variable, const char* name) {
  nc_type type = NC_NAT;
  std::size_t length = 0;
  if (nc_inq_att(group, variable, name, &type, &length) != NC_NOERR || type == NC_CHAR || type >= NC_STRING ||
      length == 0) {
    return std::nullopt;
  }
  std::vector<double> numbers(length);
  if (nc_get_att_double(group, variable, name, numbers.data()) != NC_NOERR) return std::nullopt;
  return numbers;
}

std::optional<double> Number(int group, int variable, const char* name) {
  const auto numbers = Numbers(group, variable, name);
  return numbers ? std::optional(numbers->front()) : std::nullopt;
}

std::string Text(int group, int variable, const char* name) {
  nc_type type = NC_NAT;
  std::size_t length = 0;
  if (nc_inq_att(group, variable, name, &type, &length) != NC_NOERR || length == 0) return "";
  std::string text;
  if (type == NC_CHAR) {
    text.resize(length);
    if (nc_get_att_text(group, variable, name, text.data()) != NC_NOERR) return "";
  } else if (type == NC_STRING && length == 1) {
    char* string = nullptr;
    if (nc_get_att_string(group, variable, name, &string) != NC_NOERR) return "";
    text = string == nullptr ? "" : string;
    nc_free_string(1, &string);
  }
  // Some writers count the closing zero, others pad with blanks.
  while (!text.empty() && (text.back() == '\0' || text.back() == ' ')) text.pop_back();
  return text;
}

std::optional<DataType> ToDataType(nc_type type, bool as_unsigned) {
  switch (type) {
    case NC_FLOAT:
      return DataType::kFloat32;
    case NC_DOUBLE:
      return DataType::kFloat64;
    case NC_BYTE:
      return as_unsigned ? DataType::kUint8 : DataType::kInt8;
    case NC_UBYTE:
      return DataType::kUint8;
    case NC_SHORT:
      return as_unsigned ? DataType::kUint16 : DataType::kInt16;
    case NC_USHORT:
      return DataType::kUint16;
    case NC_INT:
      return as_unsigned ? DataType::kUint32 : DataType::kInt32;
    case NC_UINT:
      return DataType::kUint32;
    default:
      return std::nullopt;
  }
}

/// Classic files have no unsigned types; some writers mark unsigned samples with an attribute.
DataType StoredType(const NetcdfVariable& variable) {
  const bool as_unsigned = Text(variable.group, variable.id, "_Unsigned") == "true";
  return *ToDataType(variable.type, as_unsigned);
}

Status Describe(int group, int id, const std::string& prefix, NetcdfVariable* variable) {
  char name[NC_MAX_NAME + 1] = {};
  int count = 0;
  int ids[NC_MAX_VAR_DIMS] = {};
  *variable = {group, id};
  int error = nc_inq_var(group, id, name, &variable->type, &count, ids, nullptr);
  variable->name = prefix + name;
  int unlimited[NC_MAX_DIMS] = {};
  int unlimited_count = 0;
  if (error == NC_NOERR) error = nc_inq_unlimdims(group, &unlimited_count, unlimited);
  for (int i = 0; i < count && error == NC_NOERR; ++i) {
    char dimension[NC_MAX_NAME + 1] = {};
    std::size_t length = 0;
    error = nc_inq_dim(group, ids[i], dimension, &length);
    const bool grows =
        std::find(unlimited, unlimited + unlimited_count, ids[i]) != unlimited + unlimited_count;
    variable->dimensions.push_back({ids[i], dimension, length, grows});
  }
  if (error == NC_NOERR) return Status::Ok();
  return DataLoss("variable {} cannot be looked up: {}", variable->name, nc_strerror(error));
}

/// All variables of a group and of the groups in it.
Status ListVariables(int group, const std::string& prefix, int depth,
                     std::vector<NetcdfVariable>* variables) {
  int count = 0;
  if (nc_inq_nvars(group, &count) != NC_NOERR) return DataLoss("the list of variables cannot be read");
  for (int id = 0; id < count; ++id) {
    variables->emplace_back();
    QUARRY_RETURN_IF_ERROR(Describe(group, id, prefix, &variables->back()));
  }
  int groups = 0;
  constexpr int kDeepest = 64;
  if (depth == kDeepest || nc_inq_grps(group, &groups, nullptr) != NC_NOERR || groups == 0)
    return Status::Ok();
  std::vector<int> ids(static_cast<std::size_t>(groups));
  nc_inq_grps(group, &groups, ids.data());
  for (const int id : ids) {
    char name[NC_MAX_NAME + 1] = {};
    if (nc_inq_grpname(id, name) != NC_NOERR) return DataLoss("the name of a group cannot be read");
    QUARRY_RETURN_IF_ERROR(
        ListVariables(id, fmt::format("{}{}/", prefix.empty() ? "/" : prefix, name), depth + 1, variables));
  }
  return Status::Ok();
}

/// The variable with the positions along a dimension: of the same name, in this group or an enclosing one.
std::optional<NetcdfVariable> FindCoordinate(int group, const Dimension& dimension) {
  for (int parent = group;; group = parent) {
    int id = 0;
    NetcdfVariable variable;
    if (nc_inq_varid(group, dimension.name.c_str(), &id) == NC_NOERR &&
        Describe(group, id, "", &variable).ok() && variable.dimensions.size() == 1 &&
        variable.dimensions[0].id == dimension.id && ToDataType(variable.type, false)) {
      return variable;
    }
    if (nc_inq_grp_parent(group, &parent) != NC_NOERR) return std::nullopt;
  }
}

std::vector<double> Positions(const NetcdfVariable& coordinate) {
  std::vector<double> positions(coordinate.dimensions[0].length);
  if (nc_get_var_double(coordinate.group, coordinate.id, positions.data()) != NC_NOERR) return {};
  const double scale = Number(coordinate.group, coordinate.id, "scale_factor").value_or(1);
  const double offset = Number(coordinate.group, coordinate.id, "add_offset").value_or(0);
  for (double& position : positions) position = position * scale + offset;
  return positions;
}

bool IsTime(const NetcdfVariable& variable, const Dimension& dimension) {
  std::string name = dimension.name;
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  if (name == "time" || name == "t") return true;
  if (dimension.grows && variable.dimensions.size() == 4) return true;
  const std::optional<NetcdfVariable> coordinate = FindCoordinate(variable.group, dimension);
  if (!coordinate) return false;
  return Text(coordinate->group, coordinate->id, "axis") == "T" ||
         Text(coordinate->group, coordinate->id, "units").find(" since ") != std::string::npos;
}

/// Separates time, and drops dimensions of one sample, slowest first, while there are more than three.
Axes FindAxes(const NetcdfVariable& variable) {
  Axes axes;
  const std::vector<Dimension>& dimensions = variable.dimensions;
  if (dimensions.size() > 1 && IsTime(variable, dimensions[0])) axes.time = 0;
  for (std::size_t i = axes.time ? 1 : 0; i < dimensions.size(); ++i) axes.spatial.push_back(i);
  for (auto it = axes.spatial.begin(); it != axes.spatial.end() && axes.spatial.size() > 3;)
    it = dimensions[*it].length == 1 ? axes.spatial.erase(it) : it + 1;
  return axes;
}

/// The description that ChooseVariable needs.
Variable Summarise(const NetcdfVariable& variable, const Axes& axes) {
  Variable out;
  out.name = variable.name;
  out.dims = {1, 1, 1};
  out.axes = static_cast<int>(axes.spatial.size());
  const bool is_coordinate =
      variable.dimensions.size() == 1 && variable.name.ends_with(variable.dimensions[0].name);
  if (is_coordinate) out.axes = 0;
  char type[NC_MAX_NAME + 1] = "an unknown type";
  nc_inq_type(variable.group, variable.type, type, nullptr);
  if (!ToDataType(variable.type, false)) {
    out.obstacle = fmt::format("{} samples; only floats and integers of up to 32 bits are understood", type);
  } else if (axes.spatial.empty()) {
    out.obstacle = "a single number";
  } else if (axes.spatial.size() > 3) {
    out.obstacle = fmt::format("{} dimensions beside time; at most 3 are understood", axes.spatial.size());
  }
  for (std::size_t i = 0; i < std::min<std::size_t>(3, axes.spatial.size()); ++i)
    out.dims[i] =
        static_cast<std::int64_t>(variable.dimensions[axes.spatial[axes.spatial.size() - 1 - i]].length);
  for (const Dimension& dimension : variable.dimensions) {
    if (dimension.length == 0 && out.obstacle.empty())
      out.obstacle = "dimension " + dimension.name + " is empty";
  }
  return out;
}

/// The value of missing samples, converted to the sample type: attributes may have a wider one.
std::optional<double> FillValue(const NetcdfVariable& variable, DataType type) {
  for (const char* name : {"_FillValue", "missing_value"}) {
    const std::optional<double> value = Number(variable.group, variable.id, name);
    if (!value) continue;
    const double rounded =
        type == DataType::kFloat32 ? static_cast<double>(static_cast<float>(*value)) : *value;
    if (CanHold(type, rounded)) return rounded;
    // An unsigned variable of a classic file has its fill value as a signed number.
    const double wrapped = rounded + std::ldexp(1, static_cast<int>(8 * SizeOf(type)));
    if (rounded < 0 && !IsFloat(type) && CanHold(type, wrapped)) return wrapped;
  }
  return std::nullopt;
}

std::optional<Packing> FindPacking(const NetcdfVariable& variable) {
  Packing packing;
  packing.stored = StoredType(variable);
  packing.scale = Number(variable.group, variable.id, "scale_factor").value_or(1);
  packing.offset = Number(variable.group, variable.id, "add_offset").value_or(0);
  packing.fill = FillValue(variable, packing.stored);
  if (packing.scale == 1 && packing.offset == 0) return std::nullopt;
  return packing;
}

/// @source CF conventions, section 8.1: unpacked samples have the type of the attributes
DataType UnpackedType(const NetcdfVariable& variable) {
  nc_type type = NC_NAT;
  for (const char* name : {"scale_factor", "add_offset"}) {
    if (nc_inq_atttype(variable.group, variable.id, name, &type) == NC_NOERR && type != NC_FLOAT)
      return DataType::kFloat64;
  }
  return DataType::kFloat32;
}

void Unpack(const Packing& packing, std::span<const std::byte> stored, DataType type,
            std::span<std::byte> samples) {
  DispatchType(packing.stored, [&]<typename S>(S) {
    DispatchType(type, [&]<typename T>(T) {
      if constexpr (std::is_floating_point_v<T>) {
        const auto fill =
            packing.fill ? std::optional(SampleBits(static_cast<S>(*packing.fill))) : std::nullopt;
        for (std::size_t i = 0; i < stored.size() / sizeof(S); ++i) {
          S from;
          std::memcpy(&from, stored.data() + i * sizeof(S), sizeof(S));
          const T to = IsMissing(from, fill)
                           ? std::numeric_limits<T>::quiet_NaN()
                           : static_cast<T>(static_cast<double>(from) * packing.scale + packing.offset);
          std::memcpy(samples.data() + i * sizeof(T), &to, sizeof(T));
        }
      }
    });
  });
}

/// What the moments of a variable have in common.
struct Source {
  NetcdfFile file;
  NetcdfVariable variable;
  Axes axes;
  std::optional<Packing> packing;
  std::uint64_t size = 0;  ///< bytes of the file when it was opened
};

class NetcdfInput final : public Input {
 public:
  NetcdfInput(InputInfo info, std::shared_ptr<const Source> source, std::size_t moment)
      : Input(std::move(info)), source_(std::move(source)), moment_(moment) {}

  Status ReadBox(const Box& box, std::span<std::byte> samples) const override {
    std::error_code error;
    const std::uint64_t size = std::filesystem::file_size(source_->file.path, error);
    // The library reads zeros beyond the end of a truncated file.
    if (error || size < source_->size) {
      return DataLoss("\"{}\" has become shorter: {} bytes, {} when it was opened; fetch the file again",
                      info_.path, error ? 0 : size, source_->size);
    }
    if (!source_->packing) return Read(box, samples);
    Box plane = box;
    const auto plane_samples = static_cast<std::size_t>(box.shape()[0] * box.shape()[1]);
    Bytes stored(plane_samples * SizeOf(source_->packing->stored));
    const std::size_t plane_bytes = plane_samples * SizeOf(info_.type);
    for (std::int64_t z = box.begin[2]; z < box.end[2]; ++z) {
      plane.begin[2] = z;
      plane.end[2] = z + 1;
      QUARRY_RETURN_IF_ERROR(Read(plane, stored));
      Unpack(*source_->packing, stored, info_.type,
             samples.subspan(static_cast<std::size_t>(z - box.begin[2]) * plane_bytes, plane_bytes));
    }
    return Status::Ok();
  }

 private:
  /// Reads samples as they are stored.
  Status Read(const Box& box, std::span<std::byte> samples) const {
    const NetcdfVariable& variable = source_->variable;
    std::vector<std::size_t> start(variable.dimensions.size(), 0);
    std::vector<std::size_t> count(variable.dimensions.size(), 1);
    if (source_->axes.time) start[*source_->axes.time] = moment_;
    const std::vector<std::size_t>& spatial = source_->axes.spatial;
    for (std::size_t i = 0; i < spatial.size(); ++i) {
      const std::size_t axis = spatial.size() - 1 - i;  // the last dimension is x
      start[spatial[i]] = static_cast<std::size_t>(box.begin[axis]);
      count[spatial[i]] = static_cast<std::size_t>(box.shape()[axis]);
    }
    const int error = nc_get_vara(variable.group, variable.id, start.data(), count.data(), samples.data());
    if (error == NC_NOERR) return Status::Ok();
    return DataLoss("\"{}\" cannot be read at {}: {}; fetch the file again", info_.path, ToString(box),
                    nc_strerror(error));
  }

  std::shared_ptr<const Source> source_;
  std::size_t moment_;
};

InputAxis DescribeAxis(const NetcdfVariable& variable, const Dimension& dimension) {
  InputAxis axis;
  axis.name = dimension.name;
  if (const auto coordinate = FindCoordinate(variable.group, dimension)) {
    axis.units = Text(coordinate->group, coordinate->id, "units");
    PlaceAxis(Positions(*coordinate), &axis);
  }
  return axis;
}

Index3 ReadUnit(const NetcdfVariable& variable, const Axes& axes) {
  int storage = NC_CONTIGUOUS;
  std::vector<std::size_t> chunk(variable.dimensions.size());
  Index3 unit = {1, 1, 1};
  if (nc_inq_var_chunking(variable.group, variable.id, &storage, chunk.data()) != NC_NOERR ||
      storage != NC_CHUNKED)
    return unit;
  for (std::size_t i = 0; i < axes.spatial.size(); ++i)
    unit[axes.spatial.size() - 1 - i] = static_cast<std::int64_t>(chunk[axes.spatial[i]]);
  return unit;
}

InputInfo DescribeInfo(const InputName& name, const InputOptions& options, const Source& source,
                       const Variable& chosen) {
  const NetcdfVariable& variable = source.variable;
  InputInfo info;
  info.path = name.variable.empty() ? name.file + ":" + variable.name : name.path;
  info.source = name.Source(variable.name);
  info.field = options.field.empty() ? FieldFromName(variable.name.substr(variable.name.rfind('/') + 1))
                                     : options.field;
  info.dims = chosen.dims;
  info.type = source.packing ? UnpackedType(variable) : StoredType(variable);
  info.units = Text(variable.group, variable.id, "units");
  if (!source.packing) info.fill = FillValue(variable, info.type);
  for (std::size_t i = 0; i < source.axes.spatial.size(); ++i) {
    info.axes[source.axes.spatial.size() - 1 - i] =
        DescribeAxis(variable, variable.dimensions[source.axes.spatial[i]]);
  }
  info.unit = ReadUnit(variable, source.axes);
  for (std::size_t a = 0; a < 3; ++a) info.unit[a] = std::clamp<std::int64_t>(info.unit[a], 1, info.dims[a]);
  return info;
}

Status OpenFile(const InputName& name, NetcdfFile* file) {
  file->path = name.file;
  const int error = nc_open(name.file.c_str(), NC_NOWRITE, &file->id);
  if (error == NC_NOERR) return Status::Ok();
  file->id = -1;
  return DataLoss("\"{}\" is not a NetCDF file, or is damaged: {}", name.file, nc_strerror(error));
}

}  // namespace

Result<Inputs> OpenNetcdf(const InputName& name, const InputOptions& options) {
  // The file system's own errors first: the library only has numbers for them.
  QUARRY_ASSIGN_OR_RETURN(const RandomAccessFile bytes, RandomAccessFile::Open(name.file));
  QUARRY_ASSIGN_OR_RETURN(const auto ends, ClassicVariableEnds(bytes));
  const auto source = std::make_shared<Source>();
  QUARRY_RETURN_IF_ERROR(OpenFile(name, &source->file));
  std::vector<NetcdfVariable> found;
  if (Status status = ListVariables(source->file.id, "", 0, &found); !status.ok())
    return DataLoss("\"{}\" is damaged: {}", name.file, status.message());
  std::vector<Variable> variables;
  for (const NetcdfVariable& variable : found) variables.push_back(Summarise(variable, FindAxes(variable)));
  QUARRY_ASSIGN_OR_RETURN(const std::size_t chosen, ChooseVariable(name, variables));
  source->variable = found[chosen];
  source->axes = FindAxes(source->variable);
  source->packing = FindPacking(source->variable);
  source->size = bytes.size();
  const auto end = ends.find(source->variable.name);
  if (end != ends.end() && bytes.size() < end->second) {
    return DataLoss("\"{}\" has {} bytes, but variable {} ends at {}; the file was cut off, fetch it again",
                    name.file, bytes.size(), source->variable.name, end->second);
  }
  const InputInfo info = DescribeInfo(name, options, *source, variables[chosen]);
  QUARRY_RETURN_IF_ERROR(CheckOptions(info, options));

  std::vector<double> times;
  std::size_t moments = 1;
  if (source->axes.time) {
    const Dimension& time = source->variable.dimensions[*source->axes.time];
    moments = time.length;
    if (const auto coordinate = FindCoordinate(source->variable.group, time)) times = Positions(*coordinate);
  }
  Inputs inputs;
  for (std::size_t moment = 0; moment < moments; ++moment) {
    InputInfo of_moment = info;
    if (moment < times.size() && std::isfinite(times[moment])) of_moment.time = times[moment];
    inputs.push_back(std::make_unique<NetcdfInput>(std::move(of_moment), source, moment));
  }
  return inputs;
}

}  // namespace quarry::input::internal
