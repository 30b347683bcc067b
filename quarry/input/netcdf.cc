// NetCDF: classic, 64-bit offset, 64-bit data, and NetCDF-4, through the netCDF library.

#include <netcdf.h>
#include <netcdf_filter.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <utility>

#include "quarry/base/file.h"
#include "quarry/format/attribute_rules.h"
#include "quarry/format/description_rules.h"
#include "quarry/input/array_file.h"
#include "quarry/input/conventions.h"
#include "quarry/input/hdf5_parts.h"
#include "quarry/input/netcdf_classic.h"
#include "quarry/input/stored_values.h"

namespace quarry::input::internal {
namespace {

std::optional<DataType> ToDataType(nc_type type) {
  static const auto& kTypes = *new const std::map<nc_type, DataType>{
      {NC_FLOAT, DataType::kFloat32}, {NC_DOUBLE, DataType::kFloat64}, {NC_BYTE, DataType::kInt8},
      {NC_UBYTE, DataType::kUint8},   {NC_SHORT, DataType::kInt16},    {NC_USHORT, DataType::kUint16},
      {NC_INT, DataType::kInt32},     {NC_UINT, DataType::kUint32},    {NC_INT64, DataType::kInt64},
      {NC_UINT64, DataType::kUint64}};
  const auto found = kTypes.find(type);
  return found == kTypes.end() ? std::nullopt : std::optional(found->second);
}

/// The type of both parts of a compound of two floats that is a complex sample. Nothing for other types.
std::optional<DataType> TypeOfParts(int group, nc_type type) {
  int kind = 0;
  std::size_t size = 0;
  std::size_t members = 0;
  if (type <= NC_MAX_ATOMIC_TYPE ||
      nc_inq_user_type(group, type, nullptr, &size, nullptr, &members, &kind) != NC_NOERR ||
      kind != NC_COMPOUND || members != 2)
    return std::nullopt;
  std::array<std::array<char, NC_MAX_NAME + 1>, 2> names{};
  std::array<std::size_t, 2> offsets{};
  std::array<nc_type, 2> types{};
  std::array<int, 2> ranks{};
  for (int member = 0; member < 2; ++member) {
    const auto m = static_cast<std::size_t>(member);
    if (nc_inq_compound_field(group, type, member, names[m].data(), &offsets[m], &types[m], &ranks[m],
                              nullptr) != NC_NOERR)
      return std::nullopt;
  }
  const std::optional<DataType> part = ToDataType(types[0]);
  const bool is_pair = part && IsFloat(*part) && types[1] == types[0] && ranks == std::array<int, 2>{} &&
                       offsets == std::array<std::size_t, 2>{0, SizeOf(*part)} && size == 2 * SizeOf(*part);
  return is_pair && IsComplex(names[0].data(), names[1].data()) ? part : std::nullopt;
}

/// Without the closing zero that some writers count, and the blanks that others pad with.
std::string Trimmed(std::string text) {
  while (!text.empty() && (text.back() == '\0' || text.back() == ' ')) text.pop_back();
  return text;
}

Result<std::vector<std::string>> ReadStrings(int group, int variable, std::size_t count) {
  std::vector<char*> strings(count);
  const int error = nc_get_var_string(group, variable, strings.data());
  std::vector<std::string> texts;
  std::size_t bytes = 0;
  for (const char* string : strings) {
    const std::string_view text = string == nullptr ? "" : string;
    bytes += text.size();
    if (error == NC_NOERR && bytes <= kMaxTextBytes) texts.emplace_back(text);
  }
  nc_free_string(count, strings.data());
  if (error != NC_NOERR) return DataLoss("{}", nc_strerror(error));
  if (bytes <= kMaxTextBytes) return texts;
  return InvalidArgument("there are {} bytes of text; {} are read", bytes, kMaxTextBytes);
}

/// Integers of 64 bits with all their digits; nothing of other types.
std::vector<SampleValue> ReadExact(int group, int variable, const char* name, nc_type type,
                                   std::size_t length) {
  std::vector<SampleValue> exact;
  if (type == NC_INT64) {
    std::vector<long long> numbers(length);
    if (nc_get_att_longlong(group, variable, name, numbers.data()) == NC_NOERR)
      exact.assign(numbers.begin(), numbers.end());
  } else if (type == NC_UINT64) {
    std::vector<unsigned long long> numbers(length);
    if (nc_get_att_ulonglong(group, variable, name, numbers.data()) == NC_NOERR)
      exact.assign(numbers.begin(), numbers.end());
  }
  return exact;
}

/// Nothing for an attribute that is neither numbers nor texts, or too long.
std::optional<FileAttribute> ReadAttribute(int group, int variable, const char* name) {
  nc_type type = NC_NAT;
  std::size_t length = 0;
  if (nc_inq_att(group, variable, name, &type, &length) != NC_NOERR || length > kMaxAttributeBytes)
    return std::nullopt;
  FileAttribute attribute;
  if (type == NC_CHAR) {
    std::string text(length, '\0');
    if (nc_get_att_text(group, variable, name, text.data()) != NC_NOERR) return std::nullopt;
    attribute.texts = {Trimmed(std::move(text))};
  } else if (type == NC_STRING) {
    std::vector<char*> strings(length);
    if (nc_get_att_string(group, variable, name, strings.data()) != NC_NOERR) return std::nullopt;
    for (const char* string : strings) attribute.texts.push_back(string == nullptr ? "" : Trimmed(string));
    nc_free_string(length, strings.data());
  } else {
    const std::optional<DataType> known = ToDataType(type);
    if (!known) return std::nullopt;
    attribute.type = *known;
    attribute.is_list = length == 0;
    attribute.numbers.resize(length);
    if (nc_get_att_double(group, variable, name, attribute.numbers.data()) != NC_NOERR) return std::nullopt;
    attribute.exact = ReadExact(group, variable, name, type, length);
  }
  return attribute;
}

/// @param variable  NC_GLOBAL: of the group itself
FileAttributes ReadAttributes(int group, int variable) {
  FileAttributes attributes;
  int count = 0;
  if (nc_inq_varnatts(group, variable, &count) != NC_NOERR) return attributes;
  for (int i = 0; i < count; ++i) {
    char name[NC_MAX_NAME + 1] = {};
    if (nc_inq_attname(group, variable, i, name) != NC_NOERR) continue;
    if (std::optional<FileAttribute> attribute = ReadAttribute(group, variable, name)) {
      attributes[name] = *std::move(attribute);
    } else {
      attributes.left.emplace_back(name);
    }
  }
  return attributes;
}

class NetcdfFile final : public ArrayFile {
 public:
  NetcdfFile() = default;
  NetcdfFile(const NetcdfFile&) = delete;
  NetcdfFile& operator=(const NetcdfFile&) = delete;
  ~NetcdfFile() override {
    if (id_ >= 0) nc_close(id_);
  }

  Status Open(const std::string& path, const RandomAccessFile& bytes) {
    path_ = path;
    QUARRY_ASSIGN_OR_RETURN(ends_, ClassicVariableEnds(bytes));
    size_ = bytes.size();
    if (const int error = nc_open(path.c_str(), NC_NOWRITE, &id_); error != NC_NOERR) {
      id_ = -1;
      return DataLoss("\"{}\" is not a NetCDF file, or is damaged: {}", path, nc_strerror(error));
    }
    if (Status status = ListVariables(id_, "", 0); !status.ok())
      return DataLoss("\"{}\" is damaged: {}", path, status.message());
    FindCoordinates();
    return Status::Ok();
  }

  Result<std::vector<double>> ReadNumbers(std::size_t array) const override {
    std::uint64_t count = 1;
    for (const ArrayDimension& d : arrays_[array].dimensions) count *= static_cast<std::uint64_t>(d.length);
    std::vector<double> numbers(count);
    const auto [group, id] = places_[array].variable;
    const int error = nc_get_var_double(group, id, numbers.data());
    if (error == NC_NOERR) return numbers;
    return DataLoss("{}", nc_strerror(error));
  }

  Result<std::vector<std::string>> ReadTexts(std::size_t array) const override {
    const ArrayInfo& info = arrays_[array];
    const auto [group, id] = places_[array].variable;
    QUARRY_ASSIGN_OR_RETURN(const TextShape shape, ShapeOfTexts(info, 1));
    if (!info.is_characters) return ReadStrings(group, id, shape.texts);
    std::string characters(shape.texts * shape.length, '\0');
    if (const int error = nc_get_var_text(group, id, characters.data()); error != NC_NOERR)
      return DataLoss("{}", nc_strerror(error));
    std::vector<std::string> texts;
    for (std::size_t row = 0; row < shape.texts; ++row)
      texts.push_back(Trimmed(characters.substr(row * shape.length, shape.length)));
    return texts;
  }

  Status Read(std::size_t array, Part part, const std::vector<std::uint64_t>& start,
              const std::vector<std::uint64_t>& count, std::span<std::byte> samples) const override {
    const auto [group, id] = places_[array].variable;
    Bytes both(part == Part::kWhole ? 0 : 2 * samples.size());
    std::byte* const read = part == Part::kWhole ? samples.data() : both.data();
    const int error = nc_get_vara(group, id, start.data(), count.data(), read);
    if (error != NC_NOERR) return DataLoss("{}", nc_strerror(error));
    if (part != Part::kWhole) TakePart(both, part, SizeOf(*arrays_[array].type), samples);
    return Status::Ok();
  }

  Status CheckWhole(std::size_t array, const std::string& path, std::vector<std::string>*) const override {
    const auto end = ends_.find(arrays_[array].name);
    if (end != ends_.end() && size_ < end->second) {
      return DataLoss("\"{}\" has {} bytes, but variable {} ends at {}; the file was cut off, fetch it again",
                      path, size_, arrays_[array].name, end->second);
    }
    const auto [group, id] = places_[array].variable;
    int format = NC_FORMAT_CLASSIC;
    nc_inq_format(id_, &format);
    if (format == NC_FORMAT_NETCDF4 || format == NC_FORMAT_NETCDF4_CLASSIC)
      QUARRY_RETURN_IF_ERROR(CheckHdf5Parts(path_, "/" + arrays_[array].name, path));
    std::size_t count = 0;
    if (nc_inq_var_filter_ids(group, id, &count, nullptr) != NC_NOERR || count == 0) return Status::Ok();
    std::vector<unsigned> filters(count);
    nc_inq_var_filter_ids(group, id, &count, filters.data());
    for (const unsigned filter : filters) {
      if (nc_inq_filter_avail(id_, filter) != NC_NOERR) return MissingFilter(path, filter, "");
    }
    return Status::Ok();
  }

  FileAttributes ReadAround(std::size_t array) const override {
    std::vector<int> groups = {places_[array].variable.first};
    for (int parent = 0; nc_inq_grp_parent(groups.back(), &parent) == NC_NOERR;) groups.push_back(parent);
    FileAttributes around;
    for (auto group = groups.rbegin(); group != groups.rend(); ++group)
      around.Add(ReadAttributes(*group, NC_GLOBAL));
    return around;
  }

 private:
  struct Place {
    std::pair<int, int> variable;  ///< group and number
    std::vector<int> dimensions;   ///< the library's numbers
  };

  Status ListVariables(int group, const std::string& prefix, int depth) {
    int count = 0;
    if (nc_inq_nvars(group, &count) != NC_NOERR) return DataLoss("the list of variables cannot be read");
    for (int id = 0; id < count; ++id) QUARRY_RETURN_IF_ERROR(AddVariable(group, id, prefix));
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
          ListVariables(id, fmt::format("{}{}/", prefix.empty() ? "/" : prefix, name), depth + 1));
    }
    return Status::Ok();
  }

  Status AddVariable(int group, int id, const std::string& prefix) {
    char name[NC_MAX_NAME + 1] = {};
    nc_type type = NC_NAT;
    int count = 0;
    int ids[NC_MAX_VAR_DIMS] = {};
    int error = nc_inq_var(group, id, name, &type, &count, ids, nullptr);
    ArrayInfo array;
    array.name = prefix + name;
    array.field = name;
    array.type = ToDataType(type);
    if (const std::optional<DataType> of_parts = TypeOfParts(group, type)) {
      array.type = of_parts;
      array.is_complex = true;
    }
    const bool is_number =
        type != NC_CHAR && type != NC_STRING && (type <= NC_MAX_ATOMIC_TYPE || array.is_complex);
    array.kind = is_number                              ? ArrayInfo::Kind::kNumbers
                 : type == NC_CHAR || type == NC_STRING ? ArrayInfo::Kind::kText
                                                        : ArrayInfo::Kind::kOther;
    char type_name[NC_MAX_NAME + 1] = "an unknown type";
    nc_inq_type(group, type, type_name, nullptr);
    array.type_name = type_name;
    array.is_characters = type == NC_CHAR;
    int unlimited[NC_MAX_DIMS] = {};
    int unlimited_count = 0;
    if (error == NC_NOERR) error = nc_inq_unlimdims(group, &unlimited_count, unlimited);
    for (int i = 0; i < count && error == NC_NOERR; ++i) {
      char dimension[NC_MAX_NAME + 1] = {};
      std::size_t length = 0;
      error = nc_inq_dim(group, ids[i], dimension, &length);
      const bool grows =
          std::find(unlimited, unlimited + unlimited_count, ids[i]) != unlimited + unlimited_count;
      array.dimensions.push_back({dimension, static_cast<std::int64_t>(length), grows, std::nullopt, {}, {}});
    }
    if (error != NC_NOERR)
      return DataLoss("variable {} cannot be looked up: {}", array.name, nc_strerror(error));
    array.attributes = ReadAttributes(group, id);
    array.unwritten = Unwritten(group, id, type);
    int storage = NC_CONTIGUOUS;
    std::vector<std::size_t> chunk(static_cast<std::size_t>(count));
    if (nc_inq_var_chunking(group, id, &storage, chunk.data()) == NC_NOERR && storage == NC_CHUNKED)
      array.chunk.assign(chunk.begin(), chunk.end());
    arrays_.push_back(std::move(array));
    places_.push_back({{group, id}, {ids, ids + count}});
    return Status::Ok();
  }

  static std::optional<SampleValue> Unwritten(int group, int id, nc_type type) {
    const std::optional<DataType> known = ToDataType(type);
    if (!known) return std::nullopt;
    int no_fill = 0;
    const bool is_off = nc_inq_var_fill(group, id, &no_fill, nullptr) == NC_NOERR && no_fill == 1;
    return is_off && SizeOf(*known) == 1 ? std::nullopt : std::optional(NetcdfFill(*known));
  }

  /// The variable with the positions along each dimension has its name. Of several, the one of the innermost
  /// group that the dimension reaches.
  void FindCoordinates() {
    std::map<int, std::vector<std::size_t>> along;
    for (std::size_t i = 0; i < arrays_.size(); ++i) {
      if (places_[i].dimensions.size() == 1) along[places_[i].dimensions.front()].push_back(i);
    }
    for (std::size_t i = 0; i < arrays_.size(); ++i) {
      for (std::size_t d = 0; d < arrays_[i].dimensions.size(); ++d) {
        arrays_[i].dimensions[d].coordinate =
            ChooseCoordinate(arrays_[i], arrays_[i].dimensions[d], along[places_[i].dimensions[d]]);
      }
    }
  }

  std::optional<std::size_t> ChooseCoordinate(const ArrayInfo& array, const ArrayDimension& dimension,
                                              const std::vector<std::size_t>& along) const {
    std::optional<std::size_t> found;
    for (const std::size_t i : along) {
      const ArrayInfo& candidate = arrays_[i];
      const std::string group = candidate.name.substr(0, candidate.name.size() - candidate.field.size());
      if (candidate.field == dimension.name && array.name.starts_with(group)) found = i;
    }
    return found;
  }

  std::string path_;
  int id_ = -1;
  std::map<std::string, std::uint64_t> ends_;
  std::vector<Place> places_;
};

/// The file that was opened last: the inputs of a run may be a thousand variables of one file, and opening it
/// takes time for all of them.
class LastFile {
 public:
  static LastFile& Instance() {
    static auto& instance = *new LastFile;
    return instance;
  }

  Result<std::shared_ptr<const NetcdfFile>> Obtain(const std::string& path) {
    // The file system's own errors first: the library only has numbers for them.
    QUARRY_ASSIGN_OR_RETURN(const RandomAccessFile bytes, RandomAccessFile::Open(path));
    const std::scoped_lock lock(mutex_);
    if (file_ && path == path_ && bytes.identity() == identity_) return file_;
    file_ = nullptr;  // closed before another one is open, unless an input reads it
    const auto opened = std::make_shared<NetcdfFile>();
    QUARRY_RETURN_IF_ERROR(opened->Open(path, bytes));
    path_ = path;
    identity_ = bytes.identity();
    file_ = opened;
    return file_;
  }

 private:
  std::mutex mutex_;
  std::string path_;
  FileIdentity identity_;
  std::shared_ptr<const NetcdfFile> file_;
};

}  // namespace

Result<Inputs> OpenNetcdf(const InputName& name, const InputOptions& options) {
  QUARRY_ASSIGN_OR_RETURN(std::shared_ptr<const NetcdfFile> file, LastFile::Instance().Obtain(name.file));
  return OpenArrays(name, options, std::move(file));
}

}  // namespace quarry::input::internal
