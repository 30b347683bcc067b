// Files of samples alone, and NumPy's .npy, which adds a short header.

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <regex>

#include "quarry/base/file.h"
#include "quarry/input/formats.h"

namespace quarry::input::internal {
namespace {

namespace fs = std::filesystem;

/// The parts of a file name like NAME-Field-[X-Y-Z]-Float64.raw.
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

/// A dense array of samples at an offset of a file.
struct RawLayout {
  InputInfo info;
  bool big_endian = false;
  std::uint64_t offset = 0;
};

Result<std::uint64_t> ExpectedSize(const InputInfo& input) {
  std::uint64_t bytes = SizeOf(input.type);
  for (const std::int64_t n : input.dims) {
    if (n < 1 || __builtin_mul_overflow(bytes, static_cast<std::uint64_t>(n), &bytes)) {
      return InvalidArgument("dims {} of \"{}\" are not possible; give three numbers of at least 1",
                             ToString(input.dims), input.path);
    }
  }
  return bytes;
}

Status CheckSize(const RawLayout& layout, std::uint64_t file_size) {
  const InputInfo& input = layout.info;
  QUARRY_ASSIGN_OR_RETURN(const std::uint64_t expected, ExpectedSize(input));
  if (layout.offset <= file_size && file_size - layout.offset == expected) return Status::Ok();
  if (input.type == DataType::kFloat32 && layout.offset <= file_size &&
      file_size - layout.offset == 2 * expected) {
    return InvalidArgument(
        "\"{}\" has {} bytes for {} samples of float32, twice as many as they need; if it holds float64, "
        "give --type float64, and --store-as float32 to convert it",
        input.path, 2 * expected, ToString(input.dims));
  }
  return InvalidArgument(
      "\"{}\" has {} bytes after offset {}, but {} samples of {} need {}; check --dims, --type and --offset",
      input.path, file_size < layout.offset ? 0 : file_size - layout.offset, layout.offset,
      ToString(input.dims), Name(input.type), expected);
}

class RawInput final : public Input {
 public:
  RawInput(RawLayout layout, RandomAccessFile file)
      : Input(std::move(layout.info)),
        big_endian_(layout.big_endian),
        offset_(layout.offset),
        file_(std::move(file)) {}

  /// Reads as few and as long runs as the box allows.
  Status ReadBox(const Box& box, std::span<std::byte> samples) const override {
    const Index3& dims = info_.dims;
    const std::size_t size = SizeOf(info_.type);
    const Index3 shape = box.shape();
    // A run is as many rows, or planes, as are contiguous in the file.
    const bool whole_rows = shape[0] == dims[0];
    const bool whole_planes = whole_rows && shape[1] == dims[1];
    const Index3 run = {shape[0], whole_rows ? shape[1] : 1, whole_planes ? shape[2] : 1};
    const std::size_t run_bytes = static_cast<std::size_t>(Volume(run)) * size;
    std::size_t done = 0;
    for (std::int64_t z = box.begin[2]; z < box.end[2]; z += run[2]) {
      for (std::int64_t y = box.begin[1]; y < box.end[1]; y += run[1]) {
        const std::int64_t first = box.begin[0] + dims[0] * (y + dims[1] * z);
        QUARRY_RETURN_IF_ERROR(file_.ReadAt(offset_ + static_cast<std::uint64_t>(first) * size,
                                            samples.subspan(done, run_bytes)));
        done += run_bytes;
      }
    }
    if (big_endian_ != (std::endian::native == std::endian::big)) SwapBytes(samples, size);
    return Status::Ok();
  }

 private:
  bool big_endian_;
  std::uint64_t offset_;
  RandomAccessFile file_;
};

Result<Inputs> OpenLayout(RawLayout layout, RandomAccessFile file) {
  layout.info.source = fs::path(layout.info.path).filename().string();
  QUARRY_RETURN_IF_ERROR(CheckSize(layout, file.size()));
  Inputs inputs;
  inputs.push_back(std::make_unique<RawInput>(std::move(layout), std::move(file)));
  return inputs;
}

Status CheckNoVariable(const InputName& input) {
  if (input.variable.empty()) return Status::Ok();
  return InvalidArgument("\"{}\" holds one field without a name; leave \":{}\" out", input.file,
                         input.variable);
}

/// The value of a key in the Python dictionary of an .npy header.
std::optional<std::string> HeaderValue(const std::string& header, const std::string& key,
                                       const std::string& value_pattern) {
  std::smatch match;
  const std::regex pattern("['\"]" + key + "['\"]\\s*:\\s*" + value_pattern);
  if (!std::regex_search(header, match, pattern)) return std::nullopt;
  return match[1].str();
}

/// NumPy's type letters: byte order, kind, bytes.
Status ParseNpyType(const std::string& descr, RawLayout* layout) {
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
      layout->info.type = type;
      layout->big_endian = descr[0] == '>';
      return Status::Ok();
    }
  }
  return InvalidArgument(
      "\"{}\" has the NumPy type {}; convert it to float32, float64 or an integer of up to 32 bits first",
      layout->info.path, descr);
}

Status ParseNpyShape(const std::string& text, InputInfo* info) {
  std::vector<std::int64_t> shape;
  static const std::regex number(R"(\d{1,12})");
  for (std::sregex_iterator it(text.begin(), text.end(), number), end; it != end; ++it)
    shape.push_back(std::stoll(it->str()));
  if (shape.size() > 3)
    return InvalidArgument("\"{}\" has {} axes; at most 3 (z, y, x) are understood", info->path,
                           shape.size());
  info->dims = {1, 1, 1};
  std::copy(shape.rbegin(), shape.rend(), info->dims.begin());
  return Status::Ok();
}

}  // namespace

Result<Inputs> OpenRaw(const InputName& input, const InputOptions& options) {
  const std::string& path = input.path;
  QUARRY_RETURN_IF_ERROR(CheckNoVariable(input));
  QUARRY_ASSIGN_OR_RETURN(RandomAccessFile file, RandomAccessFile::Open(path));
  const std::optional<NameParts> name = ParseName(fs::path(path).filename().string());
  RawLayout layout;
  layout.info.path = path;
  layout.offset = options.offset;
  layout.big_endian = options.big_endian;
  if (!options.dims && !name) {
    return InvalidArgument(
        "the dims of \"{}\" are unknown; give --dims XxYxZ, or a name like NAME-Field-[X-Y-Z]-Float32.raw",
        path);
  }
  if (!options.type && !name) {
    return InvalidArgument(
        "the type of \"{}\" is unknown; give --type, or a name like NAME-Field-[X-Y-Z]-Float32.raw", path);
  }
  layout.info.dims = options.dims ? *options.dims : name->dims;
  layout.info.type = options.type ? *options.type : name->type;
  layout.info.field = !options.field.empty() ? options.field : name ? name->field : FieldFromPath(path);
  return OpenLayout(std::move(layout), std::move(file));
}

Result<Inputs> OpenNpy(const InputName& input, const InputOptions& options) {
  const std::string& path = input.path;
  QUARRY_RETURN_IF_ERROR(CheckNoVariable(input));
  QUARRY_ASSIGN_OR_RETURN(RandomAccessFile file, RandomAccessFile::Open(path));
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
  RawLayout layout;
  layout.info.path = path;
  layout.info.field = options.field.empty() ? FieldFromPath(path) : options.field;
  layout.offset = header_begin + length;
  QUARRY_RETURN_IF_ERROR(ParseNpyType(*descr, &layout));
  QUARRY_RETURN_IF_ERROR(ParseNpyShape(*shape, &layout.info));
  QUARRY_RETURN_IF_ERROR(CheckOptions(layout.info, options));
  return OpenLayout(std::move(layout), std::move(file));
}

}  // namespace quarry::input::internal
