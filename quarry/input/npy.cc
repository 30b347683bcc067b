// NumPy's .npy.

#include "quarry/input/npy.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>

#include "quarry/base/file.h"
#include "quarry/format/description_rules.h"
#include "quarry/input/array_file.h"

namespace quarry::input::internal {
namespace {

/// The value of a key in the Python dictionary of a header: a text, a tuple or a list with what encloses it,
/// or a word.
std::optional<std::string> HeaderValue(const std::string& header, const std::string& key) {
  std::size_t at = header.find("'" + key + "'");
  if (at == std::string::npos) at = header.find('"' + key + '"');
  if (at == std::string::npos) return std::nullopt;
  at = header.find_first_not_of(" \t\n", at + key.size() + 2);
  if (at == std::string::npos || header[at] != ':') return std::nullopt;
  at = header.find_first_not_of(" \t\n", at + 1);
  if (at == std::string::npos) return std::nullopt;
  const char first = header[at];
  const std::size_t end = first == '\'' || first == '"' ? header.find(first, at + 1)
                          : first == '('                ? header.find(')', at)
                          : first == '['                ? header.rfind(']')
                                                        : header.find_first_of(" ,}\n", at) - 1;
  if (end == std::string::npos || end < at) return std::nullopt;
  return header.substr(at, end - at + 1);
}

/// "(2, 3,)" -> 2, 3.
std::optional<std::vector<std::int64_t>> ParseTuple(std::string_view text) {
  if (text.size() < 2 || text.front() != '(' || text.back() != ')') return std::nullopt;
  text = text.substr(1, text.size() - 2);
  std::vector<std::int64_t> numbers;
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(" ,"), text.size()));
    if (text.empty()) return numbers;
    std::int64_t& number = numbers.emplace_back();
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || number < 0) return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    // Python 2 wrote "3L".
    if (text.starts_with('L')) text.remove_prefix(1);
  }
}

/// The arrays of .npy and .npz. Their dimensions have no names, unless an export has left them beside the
/// file.
class NpyFile final : public ArrayFile {
 public:
  NpyFile(std::vector<NpyArray> arrays, std::uint64_t size, const std::optional<Exported>& exported)
      : npy_(std::move(arrays)) {
    size_ = size;
    for (const NpyArray& array : npy_) {
      ArrayInfo& info = arrays_.emplace_back();
      info.name = array.name;
      info.field = array.field;
      info.type_name = fmt::format("NumPy's {}", array.header.type);
      if (const auto type = ParseNpyType(array.header.type)) {
        info.type = type->type;
        info.given = type->given;
        info.is_complex = type->is_complex;
      }
      for (const std::int64_t length : array.header.shape) {
        ArrayDimension dimension;
        dimension.length = length;
        info.dimensions.push_back(std::move(dimension));
      }
    }
    if (exported) Describe(*exported);
  }

  Result<std::vector<double>> ReadNumbers(std::size_t array) const override {
    const auto found = coordinates_.find(array);
    if (found == coordinates_.end()) return InvalidArgument("{} has no positions", arrays_[array].name);
    return found->second;
  }
  Result<std::vector<std::string>> ReadTexts(std::size_t array) const override {
    return InvalidArgument("{} has no texts", arrays_[array].name);
  }

  Status Read(std::size_t array, Part part, const std::vector<std::uint64_t>& start,
              const std::vector<std::uint64_t>& count, std::span<std::byte> samples) const override {
    const NpyHeader& header = npy_[array].header;
    const NpyType type = *ParseNpyType(header.type);
    const ArrayBlock block = {header.shape, start, count, type.bytes()};
    const bool is_half = type.given == GivenType::kFloat16;
    Bytes both(part == Part::kWhole ? 0 : 2 * samples.size());
    const std::span<std::byte> read = part != Part::kWhole ? std::span(both)
                                      : is_half            ? PlaceOfHalves(samples)
                                                           : samples;
    QUARRY_RETURN_IF_ERROR(header.fortran_order ? ReadFirstFastest(block, *npy_[array].samples, read)
                                                : ReadLastFastest(block, *npy_[array].samples, read));
    const std::size_t number = type.is_complex ? type.bytes() / 2 : type.bytes();
    if (type.big_endian != (std::endian::native == std::endian::big)) SwapBytes(read, number);
    if (is_half) WidenHalves(samples);
    if (part != Part::kWhole) TakePart(both, part, number, samples);
    return Status::Ok();
  }

  Status CheckWhole(std::size_t array, const std::string& path,
                    std::vector<std::string>* warnings) const override {
    warnings->insert(warnings->end(), warnings_.begin(), warnings_.end());
    std::uint64_t expected = ParseNpyType(npy_[array].header.type)->bytes();
    bool possible = true;
    for (const std::int64_t n : npy_[array].header.shape)
      possible = possible && !__builtin_mul_overflow(expected, static_cast<std::uint64_t>(n), &expected);
    const std::uint64_t there = npy_[array].bytes - npy_[array].header.bytes;
    if (possible && there == expected) return Status::Ok();
    return InvalidArgument(
        "\"{}\" has {} bytes behind its header, but {} samples of {} need {}; fetch the file again", path,
        there, fmt::join(npy_[array].header.shape, "x"), Name(*arrays_[array].type),
        possible ? fmt::to_string(expected) : "too many");
  }

 private:
  /// Names, units, positions and times.
  void Describe(const Exported& exported) {
    for (const ExportedCoordinate& coordinate : exported.coordinates) AddCoordinate(coordinate);
    for (std::size_t i = 0; i < npy_.size(); ++i) {
      // The array of .npy has no name of its own.
      for (const ExportedField& field : exported.fields) {
        if (arrays_[i].name.empty() || arrays_[i].name == field.name) DescribeField(field, &arrays_[i]);
      }
    }
  }

  void DescribeField(const ExportedField& field, ArrayInfo* array) {
    if (field.dimensions.size() != array->dimensions.size()) {
      warnings_.push_back(
          fmt::format("the JSON of {} says that it has {} dimensions, but there are {}; it is not used",
                      field.name, field.dimensions.size(), array->dimensions.size()));
      return;
    }
    array->field = field.name;
    array->attributes = field.attributes;
    for (std::size_t d = 0; d < field.dimensions.size(); ++d) {
      ArrayDimension& dimension = array->dimensions[d];
      dimension.name = field.dimensions[d];
      const auto coordinate = std::ranges::find(arrays_, dimension.name, &ArrayInfo::name);
      const auto place = static_cast<std::size_t>(coordinate - arrays_.begin());
      if (coordinates_.contains(place) && coordinate->dimensions[0].length == dimension.length)
        dimension.coordinate = place;
    }
  }

  /// In .npz, coordinates are arrays, too. One that is not has no type: it can be no field.
  void AddCoordinate(const ExportedCoordinate& coordinate) {
    const auto known = std::ranges::find(arrays_, coordinate.name, &ArrayInfo::name);
    const auto place = static_cast<std::size_t>(known - arrays_.begin());
    const auto length = static_cast<std::int64_t>(coordinate.values.size());
    if (known == arrays_.end()) {
      ArrayInfo& info = arrays_.emplace_back();
      info.name = info.field = coordinate.name;
      info.type_name = "JSON's";
      info.dimensions.emplace_back().length = length;
    } else if (known->dimensions.size() != 1 || known->dimensions[0].length != length) {
      return;
    }
    arrays_[place].attributes = coordinate.attributes;
    arrays_[place].is_scale = true;
    arrays_[place].dimensions[0].name = coordinate.dimension;
    coordinates_[place] = coordinate.values;
  }

  /// A part of an array.
  struct ArrayBlock {
    const std::vector<std::int64_t>& shape;
    const std::vector<std::uint64_t>& start;
    const std::vector<std::uint64_t>& count;
    std::size_t size;

    std::size_t rank() const { return shape.size(); }
  };

  /// Calls `read` for each index of the dimensions from `begin` to `end`, the last fastest.
  template <typename Read>
  static Status ForEachIndex(const ArrayBlock& block, std::size_t begin, std::size_t end, Read read) {
    std::vector<std::uint64_t> index(block.rank());
    while (true) {
      QUARRY_RETURN_IF_ERROR(read(index));
      std::size_t d = end;
      while (d > begin && ++index[d - 1] == block.count[d - 1]) index[--d] = 0;
      if (d == begin) return Status::Ok();
    }
  }

  /// C's order: as few and as long runs as the block allows.
  static Status ReadLastFastest(const ArrayBlock& block, const SampleBytes& bytes, std::span<std::byte> out) {
    std::vector<std::uint64_t> stride(block.rank(), 1);
    for (std::size_t d = block.rank(); d-- > 1;)
      stride[d - 1] = stride[d] * static_cast<std::uint64_t>(block.shape[d]);
    std::size_t outer = block.rank();
    std::uint64_t run = 1;
    while (outer > 0) {
      run *= block.count[--outer];
      if (block.count[outer] != static_cast<std::uint64_t>(block.shape[outer])) break;
    }
    std::uint64_t first = 0;
    for (std::size_t d = 0; d < block.rank(); ++d) first += block.start[d] * stride[d];
    std::size_t done = 0;
    const auto run_bytes = static_cast<std::size_t>(run) * block.size;
    return ForEachIndex(block, 0, outer, [&](const std::vector<std::uint64_t>& index) {
      std::uint64_t at = first;
      for (std::size_t d = 0; d < outer; ++d) at += index[d] * stride[d];
      Status status = bytes.ReadAt(at * block.size, out.subspan(done, run_bytes));
      done += run_bytes;
      return status;
    });
  }

  /// Fortran's order. Of each plane of the first two dimensions, what lies between its first and its last
  /// sample is read at once.
  static Status ReadFirstFastest(const ArrayBlock& block, const SampleBytes& bytes,
                                 std::span<std::byte> out) {
    const std::size_t rank = block.rank();
    std::vector<std::uint64_t> stride(rank, 1);     // in the file
    std::vector<std::uint64_t> to_stride(rank, 1);  // in the block
    for (std::size_t d = 1; d < rank; ++d)
      stride[d] = stride[d - 1] * static_cast<std::uint64_t>(block.shape[d - 1]);
    for (std::size_t d = rank; d-- > 1;) to_stride[d - 1] = to_stride[d] * block.count[d];
    std::uint64_t first = 0;
    for (std::size_t d = 0; d < rank; ++d) first += block.start[d] * stride[d];
    const std::uint64_t rows = rank > 1 ? block.count[1] : 1;
    const std::uint64_t row_stride = rank > 1 ? stride[1] : 0;
    Bytes plane(static_cast<std::size_t>(block.count[0] + row_stride * (rows - 1)) * block.size);
    return ForEachIndex(
        block, std::min<std::size_t>(2, rank), rank, [&](const std::vector<std::uint64_t>& index) {
          std::uint64_t at = first;
          std::uint64_t to = 0;
          for (std::size_t d = 2; d < rank; ++d) {
            at += index[d] * stride[d];
            to += index[d] * to_stride[d];
          }
          QUARRY_RETURN_IF_ERROR(bytes.ReadAt(at * block.size, plane));
          for (std::uint64_t i = 0; i < block.count[0]; ++i) {
            for (std::uint64_t j = 0; j < rows; ++j) {
              const std::uint64_t target = to + i * to_stride[0] + (rank > 1 ? j * to_stride[1] : 0);
              std::memcpy(out.data() + static_cast<std::size_t>(target) * block.size,
                          plane.data() + static_cast<std::size_t>(i + j * row_stride) * block.size,
                          block.size);
            }
          }
          return Status::Ok();
        });
  }

  std::vector<NpyArray> npy_;
  std::map<std::size_t, std::vector<double>> coordinates_;  ///< by place in the list
  std::vector<std::string> warnings_;
};

/// Metadata that an export has left beside a file.
Result<std::optional<Exported>> ReadExported(const std::string& path) {
  const Result<RandomAccessFile> file = RandomAccessFile::Open(path);
  if (file.status().code() == StatusCode::kNotFound) return std::optional<Exported>();
  QUARRY_RETURN_IF_ERROR(file.status());
  QUARRY_RETURN_IF_ERROR(CheckExportedSize(file->size(), path));
  std::string text(static_cast<std::size_t>(file->size()), '\0');
  QUARRY_RETURN_IF_ERROR(file->ReadAt(0, std::as_writable_bytes(std::span(text))));
  return ParseExported(text);
}

}  // namespace

std::uint64_t NpyHeaderBytes(std::span<const std::byte> start) {
  constexpr std::string_view kMagic = "\x93NUMPY";
  if (start.size() < 12 ||
      !std::equal(kMagic.begin(), kMagic.end(), reinterpret_cast<const char*>(start.data())))
    return 0;
  return std::to_integer<int>(start[6]) >= 2
             ? 12 + std::uint64_t{GetLittleEndian<std::uint32_t>(start.data() + 8)}
             : 10 + std::uint64_t{GetLittleEndian<std::uint16_t>(start.data() + 8)};
}

std::optional<NpyHeader> ParseNpy(std::span<const std::byte> start) {
  const std::uint64_t bytes = NpyHeaderBytes(start);
  if (bytes == 0 || bytes > start.size()) return std::nullopt;
  const std::string text(reinterpret_cast<const char*>(start.data()), static_cast<std::size_t>(bytes));
  const auto type = HeaderValue(text, "descr");
  const auto fortran = HeaderValue(text, "fortran_order");
  const auto shape = ParseTuple(HeaderValue(text, "shape").value_or(""));
  if (!type || !fortran || !shape || (*fortran != "True" && *fortran != "False")) return std::nullopt;
  NpyHeader header;
  // The types of a structure are a list.
  header.type = type->size() >= 2 && type->front() != '[' ? type->substr(1, type->size() - 2) : *type;
  header.fortran_order = *fortran == "True";
  header.shape = *shape;
  header.bytes = bytes;
  return header;
}

std::optional<NpyType> ParseNpyType(const std::string& letters) {
  struct Row {
    const char* letters;
    NamedType type;
    bool is_complex = false;
  };
  static const std::array<Row, 14> kTypes = {{{"f4", {DataType::kFloat32}},
                                              {"f8", {DataType::kFloat64}},
                                              {"i1", {DataType::kInt8}},
                                              {"u1", {DataType::kUint8}},
                                              {"i2", {DataType::kInt16}},
                                              {"u2", {DataType::kUint16}},
                                              {"i4", {DataType::kInt32}},
                                              {"u4", {DataType::kUint32}},
                                              {"i8", {DataType::kInt64}},
                                              {"u8", {DataType::kUint64}},
                                              {"b1", {DataType::kUint8, GivenType::kBool}},
                                              {"f2", {DataType::kFloat32, GivenType::kFloat16}},
                                              {"c8", {DataType::kFloat32}, true},
                                              {"c16", {DataType::kFloat64}, true}}};
  for (const auto& [known, type, is_complex] : kTypes) {
    if (!letters.empty() && letters.substr(1) == known)
      return NpyType{type.type, letters[0] == '>', type.given, is_complex};
  }
  return std::nullopt;
}

Result<Inputs> OpenNpyArrays(const InputName& name, const InputOptions& options, std::vector<NpyArray> arrays,
                             std::uint64_t size, const std::optional<Exported>& exported) {
  return OpenArrays(name, options, std::make_shared<NpyFile>(std::move(arrays), size, exported));
}

Result<Inputs> OpenNpy(const InputName& input, const InputOptions& options) {
  QUARRY_RETURN_IF_ERROR(CheckNoVariable(input));
  QUARRY_ASSIGN_OR_RETURN(const std::shared_ptr<const RandomAccessFile> file, OpenShared(input.path));
  const std::uint64_t size = file->size();
  Bytes start(12);
  if (size >= start.size()) QUARRY_RETURN_IF_ERROR(file->ReadAt(0, start));
  start.resize(
      static_cast<std::size_t>(std::min<std::uint64_t>({size, kMostNpyHeader, NpyHeaderBytes(start)})));
  if (!start.empty()) QUARRY_RETURN_IF_ERROR(file->ReadAt(0, start));
  const std::optional<NpyHeader> header = ParseNpy(start);
  if (!header) {
    return InvalidArgument("\"{}\" is not a NumPy .npy file; give --format raw with --dims and --type",
                           input.path);
  }
  NpyArray array = {"", FieldFromPath(input.path), *header, size, nullptr};
  array.samples = std::make_shared<FileBytes>(file, std::vector<Segment>{{0, header->bytes}});
  std::vector<NpyArray> arrays;
  arrays.push_back(std::move(array));
  QUARRY_ASSIGN_OR_RETURN(const std::optional<Exported> exported, ReadExported(input.path + ".json"));
  return OpenNpyArrays(input, options, std::move(arrays), size, exported);
}

}  // namespace quarry::input::internal

quarry::Result<quarry::input::internal::Inputs> quarry::input::OpenNumpyArray(const std::string& path) {
  return internal::OpenNpy(internal::ParseInputName(path), {});
}
