// Fields of files of arrays: which array, which of its dimensions are axes, and what its samples mean.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <set>

#include "quarry/base/natural_order.h"
#include "quarry/base/utf8.h"
#include "quarry/input/array_file.h"
#include "quarry/input/array_times.h"
#include "quarry/input/conventions.h"
#include "quarry/input/coordinates.h"
#include "quarry/input/stored_values.h"

namespace quarry::input::internal {
namespace {

/// How the samples of a field lie in its array.
struct Layout {
  AxisRoles roles;
  std::array<int, 3> order = {2, 1, 0};  ///< axes of the grid in the order of the array, slowest first
  Index3 chunk = {1, 1, 1};
  bool chunked = false;

  bool is_transposed() const { return order != std::array<int, 3>{2, 1, 0}; }
};

Layout FindLayout(const ArrayInfo& array, const AxisRoles& roles) {
  Layout layout{roles};
  layout.order = {2, 1, 0};
  std::ranges::stable_sort(layout.order, [&](int a, int b) {
    const auto& first = roles.grid[static_cast<std::size_t>(a)];
    const auto& second = roles.grid[static_cast<std::size_t>(b)];
    return first && second ? *first < *second : !first && second;
  });
  layout.chunked = !array.chunk.empty();
  for (std::size_t a = 0; a < 3 && layout.chunked; ++a) {
    if (!roles.grid[a]) continue;
    const std::size_t d = *roles.grid[a];
    layout.chunk[a] = std::clamp<std::int64_t>(array.chunk[d], 1, array.dimensions[d].length);
  }
  return layout;
}

/// Shared by the inputs of one array.
struct Source {
  std::shared_ptr<const ArrayFile> file;
  std::size_t array = 0;
  std::string path;  ///< path of the file alone
  DataType stored = DataType::kFloat32;
  MissingRule missing;
  std::optional<Packing> packing;
  Layout layout;
};

class ArrayInput final : public Input {
 public:
  /// @param first  the chosen index of each dimension
  ArrayInput(InputInfo info, std::shared_ptr<const Source> source, std::vector<std::int64_t> first)
      : Input(std::move(info)),
        source_(std::move(source)),
        first_(std::move(first)),
        part_(!info_.complex             ? Part::kWhole
              : info_.complex->imaginary ? Part::kImaginary
                                         : Part::kReal) {}

  Status ReadBox(const Box& box, std::span<std::byte> samples) const override {
    std::error_code error;
    const std::uint64_t size = std::filesystem::file_size(source_->path, error);
    if (error || size < source_->file->size()) {
      return DataLoss(
          "\"{}\" was truncated after it was opened: {} bytes instead of {}; fetch the file again",
          info_.path, error ? 0 : size, source_->file->size());
    }
    if (source_->packing) return ReadPacked(box, samples);
    QUARRY_RETURN_IF_ERROR(ReadStored(box, samples));
    if (!source_->missing.empty() && !source_->missing.is_one_value(IsFloat(info_.type)))
      MarkMissing(source_->missing, info_.type, samples);
    return Status::Ok();
  }

 private:
  /// Some planes at a time, so that memory for the stored samples stays bounded.
  Status ReadPacked(const Box& box, std::span<std::byte> samples) const {
    const auto plane = static_cast<std::size_t>(box.shape()[0] * box.shape()[1]);
    const std::size_t stored_size = SizeOf(source_->stored);
    const auto planes =
        static_cast<std::int64_t>(std::max<std::size_t>(1, kBlockBytes / (plane * stored_size)));
    Bytes stored;
    Box part = box;
    for (std::int64_t z = box.begin[2]; z < box.end[2]; z += planes) {
      part.begin[2] = z;
      part.end[2] = std::min(box.end[2], z + planes);
      const auto count = static_cast<std::size_t>(part.volume());
      stored.resize(count * stored_size);
      QUARRY_RETURN_IF_ERROR(ReadStored(part, stored));
      const std::size_t bytes = count * SizeOf(info_.type);
      Unpack(*source_->packing, source_->missing, source_->stored, stored, samples.first(bytes));
      samples = samples.subspan(bytes);
    }
    return Status::Ok();
  }

  Status ReadStored(const Box& box, std::span<std::byte> samples) const {
    return source_->layout.is_transposed() ? ReadTransposed(box, samples) : ReadBlock(box, samples);
  }

  /// Samples in the order of the file.
  Status ReadBlock(const Box& box, std::span<std::byte> samples) const {
    std::vector<std::uint64_t> start(first_.begin(), first_.end());
    std::vector<std::uint64_t> count(first_.size(), 1);
    for (std::size_t a = 0; a < 3; ++a) {
      const std::optional<std::size_t>& dimension = source_->layout.roles.grid[a];
      if (!dimension) continue;
      start[*dimension] = static_cast<std::uint64_t>(box.begin[a]);
      count[*dimension] = static_cast<std::uint64_t>(box.shape()[a]);
    }
    Status status = source_->file->Read(source_->array, part_, start, count, samples);
    if (status.ok()) return status;
    return DataLoss("\"{}\" cannot be read at {}: {}; fetch the file again", info_.path, ToString(box),
                    status.message());
  }

  /// Reads blocks of whole chunks, in memory of a bounded size, so that every chunk is decompressed once.
  Status ReadTransposed(const Box& box, std::span<std::byte> samples) const {
    const std::size_t size = SizeOf(source_->stored);
    const Index3 block = ChooseBlock(box, static_cast<std::int64_t>(kBlockBytes / size));
    Bytes buffer;
    const auto first = [&](std::size_t a) { return box.begin[a] / block[a] * block[a]; };
    Index3 at{};
    for (at[2] = first(2); at[2] < box.end[2]; at[2] += block[2]) {
      for (at[1] = first(1); at[1] < box.end[1]; at[1] += block[1]) {
        for (at[0] = first(0); at[0] < box.end[0]; at[0] += block[0]) {
          const Box part = Intersect(box, {at, {at[0] + block[0], at[1] + block[1], at[2] + block[2]}});
          buffer.resize(static_cast<std::size_t>(part.volume()) * size);
          QUARRY_RETURN_IF_ERROR(ReadBlock(part, buffer));
          CopyPermuted(buffer, part, source_->layout.order, size, box, samples);
        }
      }
    }
    return Status::Ok();
  }

  /// A multiple of the chunks, longest along the fastest dimensions of the file.
  Index3 ChooseBlock(const Box& box, std::int64_t budget) const {
    Index3 block = source_->layout.chunk;
    for (std::size_t i = 3; i-- > 0;) {
      const auto axis = static_cast<std::size_t>(source_->layout.order[i]);
      const std::int64_t chunk = source_->layout.chunk[axis];
      const std::int64_t others = Volume(block) / chunk;
      const std::int64_t affordable = std::max<std::int64_t>(1, budget / others / chunk);
      // One more than the box is long: it may begin inside a chunk.
      const std::int64_t useful = box.shape()[axis] / chunk + 2;
      block[axis] = chunk * std::min(affordable, useful);
    }
    return block;
  }

  static constexpr std::size_t kBlockBytes = std::size_t{32} << 20;

  std::shared_ptr<const Source> source_;
  std::vector<std::int64_t> first_;
  const Part part_;
};

// --- which array ---

/// Finds the roles of an array's dimensions, also by their names, where the format says that these count.
Result<AxisRoles> FindRoles(const std::vector<AxisDimension>& dimensions, const ArrayInfo& array,
                            const InputOptions& options) {
  QUARRY_ASSIGN_OR_RETURN(AxisRoles roles, AssignAxes(dimensions, options));
  if (!array.ordered_by_name || !options.axes.empty()) return roles;
  std::array<std::optional<std::size_t>, 3> named;
  for (const std::optional<std::size_t>& dimension : roles.grid) {
    if (!dimension) continue;
    const std::string& name = array.dimensions[*dimension].name;
    const std::size_t axis =
        name.size() == 1 ? std::string_view("xyzXYZ").find(name) : std::string_view::npos;
    if (axis == std::string_view::npos || named[axis % 3]) return roles;
    named[axis % 3] = dimension;
  }
  roles.grid = named;
  return roles;
}

Variable Summarise(const Conventions& conventions, const ArrayInfo& array, const InputOptions& options) {
  Variable variable;
  variable.name = array.name;
  variable.dims = {1, 1, 1};
  const std::vector<AxisDimension> dimensions = conventions.DescribeDimensions(array);
  const bool is_field = array.kind != ArrayInfo::Kind::kText && !conventions.is_helper(array);
  variable.axes = is_field ? static_cast<int>(RankOf(dimensions)) : 0;
  if (array.kind != ArrayInfo::Kind::kNumbers || !array.type) {
    variable.obstacle = fmt::format(
        "{} samples; only floats of up to 64 bits, complex numbers of two of them, integers and bool "
        "are understood",
        array.type_name);
    return variable;
  }
  const Result<AxisRoles> roles = FindRoles(dimensions, array, options);
  if (!roles.ok()) {
    variable.obstacle = roles.status().message();
    return variable;
  }
  for (std::size_t a = 0; a < 3; ++a) {
    if (roles->grid[a]) variable.dims[a] = dimensions[*roles->grid[a]].length;
  }
  return variable;
}

/// The name of the field: with its groups where the file has another array of the same name in other groups.
/// Groups that differ in numbers alone are moments of one field.
std::string FieldOf(const std::vector<ArrayInfo>& arrays, const ArrayInfo& array) {
  for (const ArrayInfo& other : arrays) {
    if (other.field == array.field && other.kind == array.kind && !other.is_scale &&
        WithoutNumbers(other.name) != WithoutNumbers(array.name)) {
      return array.name.substr(array.name.starts_with('/') ? 1 : 0);
    }
  }
  return array.field;
}

/// Attributes of the field, of the time and of the file.
/// @param time  the coordinate with the times
Result<std::shared_ptr<const FileWords>> ReadWords(const ArrayFile& file, const Conventions& conventions,
                                                   std::size_t number, const AxisRoles& roles,
                                                   std::optional<std::size_t> time,
                                                   std::vector<std::string>* warnings) {
  const ArrayInfo& array = file.arrays()[number];
  auto words = std::make_shared<FileWords>();
  QUARRY_ASSIGN_OR_RETURN(Beside beside, FindBeside(file, conventions, array, roles, warnings));
  words->texts = std::move(beside.texts);
  words->coordinates = std::move(beside.arrays);
  words->dataset = KeptAttributes(file.ReadAround(number), "the file", {}, warnings);
  std::set<std::string_view> applied = {"valid_min", "valid_max", "valid_range"};
  if (GivenTypeOf(array) == GivenType::kBool) applied.insert("dtype");
  words->field = KeptAttributes(array.attributes, array.name, applied, warnings);
  using Words = std::shared_ptr<const FileWords>;
  if (!time) return Words(words);
  const ArrayInfo& coordinate = file.arrays()[*time];
  // A coordinate beside that of the dimension is not a coordinate field.
  const bool is_coordinate = !roles.time || array.dimensions[*roles.time].coordinate == time;
  if (is_coordinate && IsUtf8(coordinate.field)) words->time_name = coordinate.field;
  words->time = KeptAttributes(coordinate.attributes, coordinate.name, {"calendar"}, warnings);
  return Words(words);
}

/// Says which axes nothing but their places tells.
void WarnOfGuesses(const ArrayInfo& array, const AxisRoles& roles, const Index3& dims,
                   std::vector<std::string>* warnings) {
  const auto& [x, y, z] = roles.grid;
  constexpr std::int64_t kColours = 4;
  constexpr std::int64_t kImage = 16;
  if (x && y && z && array.dimensions[*x].name.empty() && dims[0] > 2 && dims[0] <= kColours &&
      dims[1] >= kImage && dims[2] >= kImage) {
    warnings->push_back(
        fmt::format("{}{}its last dimension, of {} samples, is taken as x; if these are colours or "
                    "components, give --axes yxc and --index c=K",
                    array.name, array.name.empty() ? "" : ": ", dims[0]));
  }
  if (!z || dims[2] == 1) return;
  const ArrayDimension& slowest = array.dimensions[*z];
  if (slowest.name.empty() || slowest.coordinate || slowest.described.origin || NamesVertical(slowest.name))
    return;
  warnings->push_back(
      fmt::format("{}: its dimension {} has no metadata that makes it an axis of the grid; it is taken as z "
                  "(--index {}=K chooses from it)",
                  array.name, slowest.name, slowest.name));
}

// --- the inputs ---

InputInfo DescribeInfo(const InputName& name, const InputOptions& options, const Source& source,
                       const Index3& dims) {
  const ArrayInfo& array = source.file->arrays()[source.array];
  InputInfo info;
  // A file of one array without a name is its own path.
  info.path =
      name.variable.empty() && !array.name.empty() ? fmt::format("{}:{}", name.file, array.name) : name.path;
  info.source = name.Source(array.name);
  NameField(FieldOf(source.file->arrays(), array), options, &info);
  info.dims = dims;
  info.type = source.packing ? source.packing->unpacked : source.stored;
  if (!source.packing) info.given = GivenTypeOf(array);
  info.units = array.units;
  if (const std::string units = UnitsOf(array.attributes); !units.empty()) info.units = units;
  const bool keeps_value = source.missing.is_one_value(IsFloat(source.stored)) || !IsFloat(source.stored);
  if (!source.packing && keeps_value && !source.missing.values.empty())
    info.fill = source.missing.values.front();
  const bool has_names = std::ranges::any_of(source.layout.roles.grid, [&](const auto& dimension) {
    return dimension && !array.dimensions[*dimension].name.empty();
  });
  for (std::size_t a = 0; a < 3; ++a) {
    const std::optional<std::size_t>& dimension = source.layout.roles.grid[a];
    if (dimension) info.axes[a] = DescribeAxis(*source.file, array.dimensions[*dimension], &info.warnings);
    info.axes[a].exists = dimension.has_value() || (!has_names && !array.dimensions.empty());
  }
  if (options.axes.empty()) WarnOfGuesses(array, source.layout.roles, dims, &info.warnings);
  if (source.layout.chunked) {
    info.unit = source.layout.chunk;
  } else if (source.layout.is_transposed()) {
    // Samples that lie together in the file: a row of its fastest dimension.
    const auto fastest = static_cast<std::size_t>(source.layout.order[2]);
    info.unit[fastest] = info.dims[fastest];
  }
  return info;
}

/// The fields that an array becomes: itself, or the two parts of complex samples.
std::vector<InputInfo> PartsOf(const InputInfo& info, bool is_complex) {
  if (!is_complex) return {info};
  std::vector<InputInfo> parts(2, info);
  for (const bool imaginary : {false, true}) {
    InputInfo& part = parts[imaginary ? 1 : 0];
    part.complex = ComplexPart{info.field, imaginary};
    part.field = ComplexFieldName(*part.complex);
  }
  return parts;
}

/// @param first  the chosen index of each dimension
void AddMoments(const InputInfo& info, const std::shared_ptr<const Source>& source, const Times& times,
                const std::vector<std::int64_t>& first, Inputs* inputs) {
  const AxisRoles& roles = source->layout.roles;
  for (std::int64_t moment = 0; moment < roles.moments; ++moment) {
    InputInfo of_moment = info;
    std::vector<std::int64_t> at = first;
    if (roles.time) {
      at[*roles.time] += moment;
      const auto index = static_cast<std::size_t>(at[*roles.time]);
      if (index < times.values.size() && std::isfinite(times.values[index]))
        of_moment.time = times.values[index];
      of_moment.time_unit = times.unit;
    }
    inputs->push_back(std::make_unique<ArrayInput>(std::move(of_moment), source, std::move(at)));
  }
}

Inputs MakeInputs(const InputInfo& info, const InputOptions& options,
                  const std::shared_ptr<const Source>& source, const Times& times) {
  const AxisRoles& roles = source->layout.roles;
  Inputs inputs;
  for (std::int64_t f = 0; f < roles.field_count; ++f) {
    InputInfo of_field = info;
    std::vector<std::int64_t> first = roles.first;
    if (roles.fields) {
      std::string axis = source->file->arrays()[source->array].dimensions[*roles.fields].name;
      if (!options.axes.empty()) axis = options.axes[*roles.fields];
      first[*roles.fields] += f;
      of_field.field = FieldFromName(
          fmt::format("{}_{}{}", info.field, axis.empty() ? "index" : axis, first[*roles.fields]));
      of_field.source = fmt::format("{} {}={}", info.source, axis, first[*roles.fields]);
    }
    for (const InputInfo& part : PartsOf(of_field, source->file->arrays()[source->array].is_complex))
      AddMoments(part, source, times, first, &inputs);
  }
  return inputs;
}

}  // namespace

bool IsComplex(std::string_view first, std::string_view second) {
  using Names = std::pair<std::string_view, std::string_view>;
  const Names names = {first, second};
  return names == Names{"r", "i"} || names == Names{"real", "imag"} || names == Names{"re", "im"};
}

void TakePart(ByteSpan both, Part part, std::size_t size, std::span<std::byte> out) {
  const std::size_t offset = part == Part::kImaginary ? size : 0;
  for (std::size_t at = 0; at < out.size(); at += size)
    std::memcpy(out.data() + at, both.data() + 2 * at + offset, size);
}

Status MissingFilter(const std::string& path, unsigned filter, const std::string& its_name) {
  // Numbers of The HDF Group's registry.
  static const auto& kNames = *new const std::map<unsigned, const char*>{
      {307, "bzip2"}, {32000, "LZF"},       {32001, "Blosc"}, {32004, "LZ4"}, {32008, "bitshuffle"},
      {32013, "ZFP"}, {32015, "Zstandard"}, {32017, "SZ"},    {32024, "SZ3"}, {32026, "Blosc2"}};
  const auto known = kNames.find(filter);
  const std::string name = known == kNames.end() ? its_name : known->second;
  return Unavailable(
      "\"{}\" is compressed by the HDF5 filter {}{}, which is not installed; install its plugin "
      "and set HDF5_PLUGIN_PATH",
      path, filter, name.empty() ? "" : fmt::format(" \"{}\"", name));
}

Result<Inputs> OpenArrays(const InputName& name, const InputOptions& options,
                          std::shared_ptr<const ArrayFile> file) {
  const std::vector<ArrayInfo>& arrays = file->arrays();
  const Conventions conventions(arrays);
  std::vector<Variable> variables;
  variables.reserve(arrays.size());
  for (const ArrayInfo& array : arrays) variables.push_back(Summarise(conventions, array, options));
  const auto source = std::make_shared<Source>();
  QUARRY_ASSIGN_OR_RETURN(source->array, ChooseVariable(name, variables));
  const ArrayInfo& array = arrays[source->array];
  source->file = std::move(file);
  source->path = name.file;
  source->stored = StoredType(array);
  source->packing = FindPacking(array);
  QUARRY_ASSIGN_OR_RETURN(const AxisRoles roles,
                          FindRoles(conventions.DescribeDimensions(array), array, options));
  source->layout = FindLayout(array, roles);
  std::vector<std::string> warnings;
  source->missing = FindMissing(array, &warnings);
  InputInfo info = DescribeInfo(name, options, *source, variables[source->array].dims);
  QUARRY_RETURN_IF_ERROR(source->file->CheckWhole(source->array, info.path, &warnings));
  QUARRY_RETURN_IF_ERROR(CheckOptions(info, options));
  Times times;
  if (roles.time) {
    times = FindTimes(*source->file, conventions, array, array.dimensions[*roles.time], &warnings);
  } else {
    times.coordinate = FindMoment(*source->file, conventions, array, &info);
  }
  QUARRY_ASSIGN_OR_RETURN(
      info.words, ReadWords(*source->file, conventions, source->array, roles, times.coordinate, &warnings));
  info.warnings.insert(info.warnings.begin(), warnings.begin(), warnings.end());
  return MakeInputs(info, options, source, times);
}

}  // namespace quarry::input::internal
