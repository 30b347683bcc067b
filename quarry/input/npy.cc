// NumPy's .npy.

#include "quarry/input/npy.h"

#include <algorithm>
#include <charconv>

#include "quarry/input/dense.h"

namespace quarry::input::internal {
namespace {

/// The value of a key in the Python dictionary of a header: a text, a tuple or a list with what encloses it, or
/// a word.
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
  static const std::array<std::pair<const char*, DataType>, 8> kTypes = {{{"f4", DataType::kFloat32},
                                                                          {"f8", DataType::kFloat64},
                                                                          {"i1", DataType::kInt8},
                                                                          {"u1", DataType::kUint8},
                                                                          {"i2", DataType::kInt16},
                                                                          {"u2", DataType::kUint16},
                                                                          {"i4", DataType::kInt32},
                                                                          {"u4", DataType::kUint32}}};
  for (const auto& [known, type] : kTypes) {
    if (letters.size() == 3 && letters.substr(1) == known) return NpyType{type, letters[0] == '>'};
  }
  return std::nullopt;
}

Variable SummariseNpy(const NpyArray& array, const InputOptions& /*options*/) {
  Variable variable;
  variable.name = array.name;
  variable.dims = {1, 1, 1};
  const std::vector<std::int64_t>& shape = array.header.shape;
  variable.axes = static_cast<int>(shape.size());
  if (!ParseNpyType(array.header.type)) {
    variable.obstacle = fmt::format(
        "NumPy type {}; convert it to float32, float64 or an integer of up to 32 bits first", array.header.type);
  } else if (shape.size() > 3) {
    variable.obstacle = fmt::format(
        "{} axes, and no names that say which of them are x, y and z; name them with --axes, as in --axes tzyx "
        "(steps of z, y, x) or --axes zyxc with --index c=0",
        shape.size());
  } else {
    std::copy(shape.rbegin(), shape.rend(), variable.dims.begin());
  }
  return variable;
}

Result<Inputs> OpenNpyArray(const InputName& name, const NpyArray& array, const InputOptions& options,
                            const std::function<Result<std::unique_ptr<SampleBytes>>()>& open) {
  const Variable variable = SummariseNpy(array, options);
  InputInfo info;
  info.path = array.name.empty() || !name.variable.empty() ? name.path
                                                           : fmt::format("{}:{}", name.file, array.name);
  info.source = name.Source(array.name);
  info.field = !options.field.empty()  ? options.field
               : array.name.empty()    ? FieldFromPath(name.file)
                                       : FieldFromName(array.name);
  if (!variable.obstacle.empty()) return InvalidArgument("\"{}\" has {}", info.path, variable.obstacle);
  const NpyType type = *ParseNpyType(array.header.type);
  info.type = type.type;
  info.dims = variable.dims;
  QUARRY_RETURN_IF_ERROR(CheckOptions(info, options));
  QUARRY_ASSIGN_OR_RETURN(const std::uint64_t expected, BytesOf(info));
  if (array.bytes - array.header.bytes != expected) {
    return InvalidArgument(
        "\"{}\" has {} bytes behind its header, but {} samples of {} need {}; fetch the file again", info.path,
        array.bytes - array.header.bytes, ToString(info.dims), Name(info.type), expected);
  }
  DenseLayout layout;
  layout.big_endian = type.big_endian;
  layout.x_slowest = array.header.fortran_order;
  QUARRY_ASSIGN_OR_RETURN(std::unique_ptr<SampleBytes> bytes, open());
  Inputs inputs;
  inputs.push_back(MakeDenseInput(std::move(info), layout, std::move(bytes)));
  return inputs;
}

Result<Inputs> OpenNpy(const InputName& input, const InputOptions& options) {
  QUARRY_RETURN_IF_ERROR(CheckNoVariable(input));
  QUARRY_ASSIGN_OR_RETURN(const RandomAccessFile file, RandomAccessFile::Open(input.path));
  Bytes start(static_cast<std::size_t>(std::min<std::uint64_t>(file.size(), kMostNpyHeader)));
  if (!start.empty()) QUARRY_RETURN_IF_ERROR(file.ReadAt(0, start));
  const std::optional<NpyHeader> header = ParseNpy(start);
  if (!header) {
    return InvalidArgument("\"{}\" is not a NumPy .npy file; give --format raw with --dims and --type",
                           input.path);
  }
  return OpenNpyArray(input, {"", *header, file.size()}, options,
                      [&]() -> Result<std::unique_ptr<SampleBytes>> {
                        QUARRY_ASSIGN_OR_RETURN(RandomAccessFile again, RandomAccessFile::Open(input.path));
                        return std::unique_ptr<SampleBytes>(std::make_unique<FileBytes>(
                            std::move(again), std::vector<Segment>{{0, header->bytes}}));
                      });
}

}  // namespace quarry::input::internal
