// Files of samples alone, and those in which they lie in records of Fortran.

#include <algorithm>
#include <filesystem>
#include <regex>

#include "quarry/base/file.h"
#include "quarry/format/description_rules.h"
#include "quarry/input/dense.h"
#include "quarry/input/records.h"

namespace quarry::input::internal {
namespace {

namespace fs = std::filesystem;

/// The parts of a file name like NAME-Field-[X-Y-Z]-Float64.raw.
struct NameParts {
  std::string field;
  Index3 dims;
  DataType type;
  GivenType given;
};

std::optional<NameParts> ParseName(const std::string& filename) {
  static const auto& pattern = *new const std::regex(
      R"((?:.*-)?([A-Za-z0-9_.]+)-\[(\d{1,10})-(\d{1,10})-(\d{1,10})\]-([A-Za-z]+\d+)\.raw)");
  std::smatch match;
  if (!std::regex_match(filename, match, pattern)) return std::nullopt;
  const Result<NamedType> type = ParseNamedType(Lower(match[5]));
  if (!type.ok()) return std::nullopt;
  return NameParts{
      match[1], {std::stoll(match[2]), std::stoll(match[3]), std::stoll(match[4])}, type->type, type->given};
}

/// The option that reads a file of records, if its marks say that it is one.
/// @returns nothing if it is not
std::optional<std::string> OptionsOfRecords(const RandomAccessFile& file, std::uint64_t bytes,
                                            std::uint64_t row_bytes) {
  for (const bool big_endian : {false, true}) {
    if (FindRecords(file, 0, bytes, row_bytes, big_endian).ok())
      return big_endian ? "--records fortran --byte-order big" : "--records fortran";
  }
  return std::nullopt;
}

Status WrongSize(const InputInfo& info, const RandomAccessFile& file, std::uint64_t expected,
                 std::uint64_t row_bytes, std::uint64_t offset) {
  if (const auto records = OptionsOfRecords(file, expected, row_bytes)) {
    return InvalidArgument(
        "\"{}\" has {} bytes for {} samples of {}, which lie in records of Fortran; give {}", info.path,
        file.size(), ToString(info.dims), Name(info.type), *records);
  }
  const std::uint64_t there = file.size() < offset ? 0 : file.size() - offset;
  if (info.type == DataType::kFloat32 && there == 2 * expected) {
    return InvalidArgument(
        "\"{}\" has {} bytes for {} samples of float32, twice as many as they need; if it holds float64, "
        "give --type float64, and --store-as float32 to convert it; if it holds several fields, give "
        "--offset with the byte of the first sample",
        info.path, there, ToString(info.dims));
  }
  return InvalidArgument(
      "\"{}\" has {} bytes after offset {}, but {} samples of {} need {}; check --dims and --type{}",
      info.path, there, offset, ToString(info.dims), Name(info.type), expected,
      there > expected ? ", or give --offset with the byte of the first sample: bytes behind the last sample "
                         "are then ignored"
                       : " and --offset");
}

/// Says how much of the file is not read.
void WarnOfRest(std::uint64_t end, std::uint64_t size, InputInfo* info) {
  if (end >= size) return;
  info->warnings.push_back(
      fmt::format("the file has {} bytes behind the samples, which are not read", size - end));
}

/// Where the samples lie, checked against the size of the file.
Result<std::vector<Segment>> PlaceSamples(const RandomAccessFile& file, const InputOptions& options,
                                          InputInfo* info) {
  QUARRY_ASSIGN_OR_RETURN(const std::uint64_t bytes, BytesOf(*info));
  const std::uint64_t row_bytes = static_cast<std::uint64_t>(info->dims[0]) * SizeOf(info->type);
  const std::uint64_t offset = options.offset.value_or(0);
  if (!options.fortran_records) {
    const bool fits = offset <= file.size() && file.size() - offset >= bytes;
    // Only who says where the samples begin has said that the file may hold more.
    if (!fits || (!options.offset && file.size() != bytes))
      return WrongSize(*info, file, bytes, row_bytes, offset);
    WarnOfRest(offset + bytes, file.size(), info);
    return std::vector<Segment>{{0, offset}};
  }
  Result<RecordPlaces> places = FindRecords(file, offset, bytes, row_bytes, options.big_endian);
  if (!places.ok()) {
    const bool other = FindRecords(file, offset, bytes, row_bytes, !options.big_endian).ok();
    return InvalidArgument(
        "\"{}\" does not hold {} samples of {} in records: {}; {}", info->path, ToString(info->dims),
        Name(info->type), places.status().message(),
        other
            ? fmt::format("they fit with --byte-order {}", options.big_endian ? "little" : "big")
            : "check --dims, --type and --byte-order, and give --offset with the byte of the first record of "
              "samples");
  }
  if (!options.offset && places->end != file.size()) {
    return InvalidArgument(
        "\"{}\" has {} bytes behind the records of its {} samples; check --dims, or give --offset 0 to leave "
        "them out",
        info->path, file.size() - places->end, ToString(info->dims));
  }
  WarnOfRest(places->end, file.size(), info);
  return std::move(places->segments);
}

}  // namespace

Result<Inputs> OpenRaw(const InputName& input, const InputOptions& options) {
  const std::string& path = input.path;
  QUARRY_RETURN_IF_ERROR(CheckNoVariable(input));
  QUARRY_ASSIGN_OR_RETURN(const std::shared_ptr<const RandomAccessFile> file, OpenShared(path));
  const std::optional<NameParts> name = ParseName(fs::path(path).filename().string());
  if (!options.dims && !name) {
    return InvalidArgument(
        "the dims of \"{}\" are unknown; give --dims XxYxZ, or a name like NAME-Field-[X-Y-Z]-Float32.raw",
        path);
  }
  if (!options.type && !name) {
    return InvalidArgument(
        "the type of \"{}\" is unknown; give --type, or a name like NAME-Field-[X-Y-Z]-Float32.raw", path);
  }
  InputInfo info;
  info.path = path;
  info.source = fs::path(path).filename().string();
  info.dims = options.dims ? *options.dims : name->dims;
  const GivenType given = options.type ? options.given : name->given;
  info.type = options.type ? *options.type : name->type;
  // The bits of float16 are read as those of uint16.
  if (given == GivenType::kFloat16) info.type = DataType::kUint16;
  if (given == GivenType::kBool) info.given = given;
  info.field = !options.field.empty() ? options.field : name ? name->field : FieldFromPath(path);
  QUARRY_ASSIGN_OR_RETURN(std::vector<Segment> segments, PlaceSamples(*file, options, &info));
  DenseLayout layout;
  layout.big_endian = options.big_endian;
  std::unique_ptr<Input> opened =
      MakeDenseInput(std::move(info), layout, std::make_unique<FileBytes>(file, std::move(segments)));
  Inputs inputs;
  inputs.push_back(given == GivenType::kFloat16 ? WidenInput(std::move(opened)) : std::move(opened));
  return inputs;
}

}  // namespace quarry::input::internal
