#include "writer/input/input.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <regex>

#include "quarry/base/file.h"
#include "quarry/format/manifest.h"

namespace quarry::writer {
namespace {

namespace fs = std::filesystem;

/// What a file name like NAME-Field-[X-Y-Z]-Float64.raw says.
struct NameParts {
  std::string field;
  Index3 dims;
  DataType type;
};

std::optional<NameParts> ParseName(const std::string& filename) {
  static const std::regex pattern(
      R"((?:.*-)?([A-Za-z0-9_.]+)-\[(\d{1,10})-(\d{1,10})-(\d{1,10})\]-([A-Za-z]+\d+)\.raw)");
  std::smatch match;
  if (!std::regex_match(filename, match, pattern)) return std::nullopt;
  std::string type_name = match[5];
  std::transform(type_name.begin(), type_name.end(), type_name.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  const Result<DataType> type = ParseDataType(type_name);
  if (!type.ok()) return std::nullopt;
  return NameParts{match[1], {std::stoll(match[2]), std::stoll(match[3]), std::stoll(match[4])}, *type};
}

/// "dir/run42.f32" -> "run42", with characters that a field name cannot have replaced.
std::string FieldFromPath(const std::string& path) {
  std::string name = fs::path(path).stem().string();
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '-' && c != '.') c = '_';
  }
  while (!name.empty() && name[0] == '.') name.erase(0, 1);
  name.resize(std::min(name.size(), format::kMaxFieldName));
  return name.empty() ? "field" : name;
}

Result<std::uint64_t> ExpectedSize(const Input& input) {
  std::uint64_t bytes = SizeOf(input.type);
  for (const std::int64_t n : input.dims) {
    if (n < 1 || __builtin_mul_overflow(bytes, static_cast<std::uint64_t>(n), &bytes)) {
      return InvalidArgument("dims {} of \"{}\" are not possible; give three numbers of at least 1",
                             ToString(input.dims), input.path);
    }
  }
  return bytes;
}

Status CheckSize(const Input& input, std::uint64_t file_size) {
  QUARRY_ASSIGN_OR_RETURN(const std::uint64_t expected, ExpectedSize(input));
  if (input.offset <= file_size && file_size - input.offset == expected) return Status::Ok();
  return InvalidArgument(
      "\"{}\" has {} bytes after offset {}, but {} samples of {} need {}; check --dims, --type and --offset",
      input.path, file_size < input.offset ? 0 : file_size - input.offset, input.offset, ToString(input.dims),
      Name(input.type), expected);
}

Result<Input> OpenRaw(const std::string& path, const InputOptions& options, std::uint64_t file_size) {
  const std::optional<NameParts> name = ParseName(fs::path(path).filename().string());
  Input input;
  input.path = path;
  input.offset = options.offset;
  input.big_endian = options.big_endian;
  if (!options.dims && !name) {
    return InvalidArgument(
        "the dims of \"{}\" are unknown; give --dims XxYxZ, or a name like NAME-Field-[X-Y-Z]-Float32.raw",
        path);
  }
  if (!options.type && !name) {
    return InvalidArgument(
        "the type of \"{}\" is unknown; give --type, or a name like NAME-Field-[X-Y-Z]-Float32.raw", path);
  }
  input.dims = options.dims ? *options.dims : name->dims;
  input.type = options.type ? *options.type : name->type;
  input.field = !options.field.empty() ? options.field : name ? name->field : FieldFromPath(path);
  QUARRY_RETURN_IF_ERROR(CheckSize(input, file_size));
  return input;
}

/// The value of a key in the Python dictionary that is an .npy header.
std::optional<std::string> HeaderValue(const std::string& header, const std::string& key,
                                       const std::string& value_pattern) {
  std::smatch match;
  const std::regex pattern("['\"]" + key + "['\"]\\s*:\\s*" + value_pattern);
  if (!std::regex_search(header, match, pattern)) return std::nullopt;
  return match[1].str();
}

/// NumPy's type letters: byte order, kind, bytes.
Status ParseNpyType(const std::string& descr, const std::string& path, Input* input) {
  static const std::array<std::pair<const char*, DataType>, 8> kTypes = {{{"f4", DataType::kFloat32},
                                                                          {"f8", DataType::kFloat64},
                                                                          {"i1", DataType::kInt8},
                                                                          {"u1", DataType::kUint8},
                                                                          {"i2", DataType::kInt16},
                                                                          {"u2", DataType::kUint16},
                                                                          {"i4", DataType::kInt32},
                                                                          {"u4", DataType::kUint32}}};
  for (const auto& [letters, type] : kTypes) {
    if (descr.size() == 3 && descr.substr(1) == letters) {
      input->type = type;
      input->big_endian = descr[0] == '>';
      return Status::Ok();
    }
  }
  return InvalidArgument(
      "\"{}\" has the NumPy type {}; convert it to float32, float64 or an integer of up to 32 bits first",
      path, descr);
}

Status ParseNpyShape(const std::string& text, const std::string& path, Input* input) {
  std::vector<std::int64_t> shape;
  static const std::regex number(R"(\d{1,12})");
  for (std::sregex_iterator it(text.begin(), text.end(), number), end; it != end; ++it)
    shape.push_back(std::stoll(it->str()));
  if (shape.size() > 3)
    return InvalidArgument("\"{}\" has {} axes; at most 3 (z, y, x) are understood", path, shape.size());
  input->dims = {1, 1, 1};
  std::copy(shape.rbegin(), shape.rend(), input->dims.begin());
  return Status::Ok();
}

Result<Input> OpenNpy(const std::string& path, const InputOptions& options) {
  QUARRY_ASSIGN_OR_RETURN(const RandomAccessFile file, RandomAccessFile::Open(path));
  const Status not_npy =
      InvalidArgument("\"{}\" is not a NumPy .npy file; give --format raw with --dims and --type", path);
  Bytes start(12);
  if (file.size() < start.size()) return not_npy;
  QUARRY_RETURN_IF_ERROR(file.ReadAt(0, start));
  constexpr std::string_view kMagic = "\x93NUMPY";
  if (!std::equal(kMagic.begin(), kMagic.end(), reinterpret_cast<const char*>(start.data()))) return not_npy;
  const bool long_length = std::to_integer<int>(start[6]) >= 2;
  const std::uint64_t length = long_length ? GetLittleEndian<std::uint32_t>(start.data() + 8)
                                           : GetLittleEndian<std::uint16_t>(start.data() + 8);
  const std::uint64_t header_begin = long_length ? 12 : 10;
  if (length > (1 << 20) || header_begin + length > file.size()) return not_npy;
  Bytes bytes(length);
  QUARRY_RETURN_IF_ERROR(file.ReadAt(header_begin, bytes));
  const std::string header(reinterpret_cast<const char*>(bytes.data()), bytes.size());

  const auto descr = HeaderValue(header, "descr", "['\"]([^'\"]*)['\"]");
  const auto fortran = HeaderValue(header, "fortran_order", "(True|False)");
  const auto shape = HeaderValue(header, "shape", "\\(([^)]*)\\)");
  if (!descr || !fortran || !shape) return not_npy;
  if (*fortran == "True") {
    return InvalidArgument(
        "\"{}\" is in Fortran order; save numpy.ascontiguousarray(a), shape [z, y, x], instead", path);
  }
  Input input;
  input.path = path;
  input.field = options.field.empty() ? FieldFromPath(path) : options.field;
  input.offset = header_begin + length;
  QUARRY_RETURN_IF_ERROR(ParseNpyType(*descr, path, &input));
  QUARRY_RETURN_IF_ERROR(ParseNpyShape(*shape, path, &input));
  if (options.dims && *options.dims != input.dims) {
    return InvalidArgument("--dims {} contradict \"{}\", which holds {} (x,y,z); leave the option out",
                           ToString(*options.dims), path, ToString(input.dims));
  }
  QUARRY_RETURN_IF_ERROR(CheckSize(input, file.size()));
  return input;
}

}  // namespace

Result<Input> OpenInput(const std::string& path, const InputOptions& options) {
  QUARRY_ASSIGN_OR_RETURN(const RandomAccessFile file, RandomAccessFile::Open(path));
  std::string format = options.format;
  if (format.empty()) format = fs::path(path).extension() == ".npy" ? "npy" : "raw";
  if (format != "raw" && format != "npy")
    return InvalidArgument("unknown format \"{}\"; this version reads raw and npy", format);
  QUARRY_ASSIGN_OR_RETURN(Input input,
                          format == "npy" ? OpenNpy(path, options) : OpenRaw(path, options, file.size()));
  QUARRY_RETURN_IF_ERROR(format::CheckFieldName(input.field));
  return input;
}

Result<Bytes> ReadBox(const Input& input, const Box& box) {
  QUARRY_ASSIGN_OR_RETURN(const RandomAccessFile file, RandomAccessFile::Open(input.path));
  const std::size_t size = SizeOf(input.type);
  Bytes samples(static_cast<std::size_t>(box.volume()) * size);
  if (samples.empty()) return samples;
  const Index3 shape = box.shape();
  // A run is as many rows, or planes, as lie one after the other in the file.
  const bool whole_rows = shape[0] == input.dims[0];
  const bool whole_planes = whole_rows && shape[1] == input.dims[1];
  const Index3 run = {shape[0], whole_rows ? shape[1] : 1, whole_planes ? shape[2] : 1};
  const std::size_t run_bytes = static_cast<std::size_t>(Volume(run)) * size;
  std::size_t done = 0;
  for (std::int64_t z = box.begin[2]; z < box.end[2]; z += run[2]) {
    for (std::int64_t y = box.begin[1]; y < box.end[1]; y += run[1]) {
      const std::int64_t first = box.begin[0] + input.dims[0] * (y + input.dims[1] * z);
      QUARRY_RETURN_IF_ERROR(file.ReadAt(input.offset + static_cast<std::uint64_t>(first) * size,
                                         std::span(samples).subspan(done, run_bytes)));
      done += run_bytes;
    }
  }
  if (input.big_endian != (std::endian::native == std::endian::big) && size > 1) {
    for (std::size_t i = 0; i < samples.size(); i += size)
      std::reverse(samples.begin() + static_cast<std::ptrdiff_t>(i),
                   samples.begin() + static_cast<std::ptrdiff_t>(i + size));
  }
  return samples;
}

}  // namespace quarry::writer
