// VTK ImageData (.vti): ascii, inline and appended base64, appended raw; uncompressed or in zlib blocks.

#include <zlib.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <pugixml.hpp>

#include "quarry/base/file.h"
#include "quarry/input/formats.h"
#include "quarry/input/vti_text.h"

namespace quarry::input::internal {
namespace {

namespace fs = std::filesystem;

/// How the samples of an array are stored.
struct Encoding {
  bool ascii = false;
  bool base64 = false;
  bool compressed = false;
  bool big_endian = false;
  std::size_t header_bytes = 4;  ///< of each number in front of the samples
  std::uint64_t offset = 0;      ///< of the first character or byte, in the file
  std::uint64_t length = 0;      ///< of the text; 0 for appended data
};

/// Samples in blocks of zlib: their places in the source after the header.
struct Blocks {
  std::uint64_t block_bytes = 0;       ///< of a block before compression; the last may be shorter
  std::vector<std::uint64_t> offsets;  ///< one more than blocks
};

class VtiInput final : public Input {
 public:
  VtiInput(InputInfo info, RandomAccessFile file, Encoding encoding)
      : Input(std::move(info)), file_(std::move(file)), encoding_(encoding) {}

  /// Finds where the samples begin, and checks that there are as many bytes as the extent needs.
  Status Prepare() {
    bytes_ = static_cast<std::uint64_t>(Volume(info_.dims)) * SizeOf(info_.type);
    if (encoding_.ascii) return Status::Ok();
    const ByteSource start(file_, encoding_.offset, encoding_.base64);
    return encoding_.compressed ? PrepareBlocks(start) : PreparePlain(start);
  }

  Status ReadBox(const Box& box, std::span<std::byte> samples) const override {
    if (encoding_.ascii) return ReadAscii(box, samples);
    const std::size_t size = SizeOf(info_.type);
    const Index3 shape = box.shape();
    const bool whole_rows = shape[0] == info_.dims[0];
    const bool whole_planes = whole_rows && shape[1] == info_.dims[1];
    // Neighbouring rows and planes in one read, so that every block of compressed samples is decompressed
    // once.
    const Index3 run = {shape[0], whole_rows ? shape[1] : 1, whole_planes ? shape[2] : 1};
    const std::size_t run_bytes = static_cast<std::size_t>(Volume(run)) * size;
    std::size_t done = 0;
    Bytes block;
    std::size_t block_number = SIZE_MAX;
    for (std::int64_t z = box.begin[2]; z < box.end[2]; z += run[2]) {
      for (std::int64_t y = box.begin[1]; y < box.end[1]; y += run[1]) {
        const std::uint64_t first =
            static_cast<std::uint64_t>(box.begin[0] + info_.dims[0] * (y + info_.dims[1] * z)) * size;
        const auto out = samples.subspan(done, run_bytes);
        Status status =
            encoding_.compressed ? ReadBlocks(first, out, &block, &block_number) : data_->ReadAt(first, out);
        if (!status.ok()) return std::move(status).Annotate(info_.path);
        done += run_bytes;
      }
    }
    if (encoding_.big_endian != (std::endian::native == std::endian::big)) SwapBytes(samples, size);
    return Status::Ok();
  }

 private:
  std::uint64_t HeaderNumber(const std::byte* bytes) const {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < encoding_.header_bytes; ++i) {
      const std::size_t at = encoding_.big_endian ? i : encoding_.header_bytes - 1 - i;
      value = value << 8 | std::to_integer<std::uint64_t>(bytes[at]);
    }
    return value;
  }

  Status WrongSize(std::uint64_t bytes) const {
    return DataLoss("\"{}\" holds {} bytes, but {} samples of {} need {}; the file is damaged", info_.path,
                    bytes, ToString(info_.dims), Name(info_.type), bytes_);
  }

  Status PreparePlain(const ByteSource& start) {
    Bytes header(encoding_.header_bytes);
    QUARRY_RETURN_IF_ERROR(start.ReadAt(0, header));
    if (HeaderNumber(header.data()) != bytes_) return WrongSize(HeaderNumber(header.data()));
    // Some writers encode the header separately, others together with the samples.
    QUARRY_ASSIGN_OR_RETURN(const bool apart, start.EndsPadded(header.size()));
    data_ = apart ? start.Behind(header.size()) : start.Skipping(header.size());
    Bytes last(1);
    return data_->ReadAt(bytes_ - 1, last).Annotate("the end of the samples is missing");
  }

  Status PrepareBlocks(const ByteSource& start) {
    const std::size_t n = encoding_.header_bytes;
    Bytes header(3 * n);
    QUARRY_RETURN_IF_ERROR(start.ReadAt(0, header));
    const std::uint64_t count = HeaderNumber(header.data());
    blocks_.block_bytes = HeaderNumber(header.data() + n);
    const std::uint64_t last = HeaderNumber(header.data() + 2 * n);  // 0: the last block is a full one
    // Every block takes a number in the header: an impossible count is noticed before memory is taken.
    if (count > file_.size() / n || (count > 0 && blocks_.block_bytes == 0) || last > blocks_.block_bytes ||
        blocks_.block_bytes > bytes_ + 1 + (std::uint64_t{1} << 26)) {
      return WrongSize(count);
    }
    std::uint64_t total = 0;
    if (__builtin_mul_overflow(count, blocks_.block_bytes, &total)) return WrongSize(count);
    if (last != 0) total -= blocks_.block_bytes - last;
    if (total != bytes_) return WrongSize(total);
    Bytes sizes(static_cast<std::size_t>(count) * n);
    QUARRY_RETURN_IF_ERROR(start.ReadAt(3 * n, sizes));
    blocks_.offsets = {0};
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t size = HeaderNumber(sizes.data() + i * n);
      if (size > file_.size()) return WrongSize(size);
      blocks_.offsets.push_back(blocks_.offsets.back() + size);
    }
    data_ = start.Behind((3 + count) * n);
    return Status::Ok();
  }

  /// @param block, number  the last decompressed block, for the next call
  Status ReadBlocks(std::uint64_t first, std::span<std::byte> out, Bytes* block, std::size_t* number) const {
    for (std::size_t done = 0; done < out.size();) {
      const std::uint64_t at = first + done;
      const auto wanted = static_cast<std::size_t>(at / blocks_.block_bytes);
      if (*number != wanted) {
        QUARRY_RETURN_IF_ERROR(Decompress(wanted, block));
        *number = wanted;
      }
      const auto inside = static_cast<std::size_t>(at % blocks_.block_bytes);
      const std::size_t bytes = std::min(out.size() - done, block->size() - inside);
      std::memcpy(out.data() + done, block->data() + inside, bytes);
      done += bytes;
    }
    return Status::Ok();
  }

  Status Decompress(std::size_t number, Bytes* block) const {
    Bytes packed(static_cast<std::size_t>(blocks_.offsets[number + 1] - blocks_.offsets[number]));
    QUARRY_RETURN_IF_ERROR(data_->ReadAt(blocks_.offsets[number], packed));
    const std::uint64_t begin = number * blocks_.block_bytes;
    const std::uint64_t unpacked = std::min(blocks_.block_bytes, bytes_ - begin);
    // Checked before memory is taken: zlib makes at most 1032 bytes out of one.
    if (unpacked / 1032 > packed.size()) {
      return DataLoss(
          "block {} has {} bytes, which cannot hold the {} that the header says; fetch the file again",
          number, packed.size(), unpacked);
    }
    block->resize(static_cast<std::size_t>(unpacked));
    uLongf length = static_cast<uLongf>(block->size());
    const int error =
        uncompress(reinterpret_cast<Bytef*>(block->data()), &length,
                   reinterpret_cast<const Bytef*>(packed.data()), static_cast<uLong>(packed.size()));
    // The output must fill the block: the header states its size.
    if (error == Z_OK && length == block->size()) return Status::Ok();
    return DataLoss("block {} cannot be decompressed (zlib says {}); fetch the file again", number, error);
  }

  /// Parses the text up to the last sample of the box.
  Status ReadAscii(const Box& box, std::span<std::byte> samples) const {
    const std::size_t size = SizeOf(info_.type);
    WordReader reader(file_, encoding_.offset, encoding_.length);
    const Index3 shape = box.shape();
    const Index3& dims = info_.dims;
    std::int64_t next = 0;
    std::size_t done = 0;
    for (std::int64_t z = box.begin[2]; z < box.end[2]; ++z) {
      for (std::int64_t y = box.begin[1]; y < box.end[1]; ++y) {
        const std::int64_t first = box.begin[0] + dims[0] * (y + dims[1] * z);
        for (; next < first; ++next) reader.Next();
        for (std::int64_t x = 0; x < shape[0]; ++x, ++next, done += size) {
          const std::string& text = reader.Next();
          if (!ParseSample(text, info_.type, samples.data() + done)) {
            QUARRY_RETURN_IF_ERROR(reader.status());
            return DataLoss("\"{}\": \"{}\" in the place of sample {} is not a valid {}; the file is damaged",
                            info_.path, text, next, Name(info_.type));
          }
        }
      }
    }
    return reader.status();
  }

  RandomAccessFile file_;
  Encoding encoding_;
  std::uint64_t bytes_ = 0;  ///< of all samples
  std::optional<ByteSource> data_;
  Blocks blocks_;
};

/// Numbers of an attribute, `count` of them; empty if it is another list.
std::vector<double> Numbers(const pugi::xml_node& node, const char* name, std::size_t count) {
  std::vector<double> numbers;
  std::string_view text = node.attribute(name).value();
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
    if (text.empty()) break;
    const std::size_t length = std::min(text.find_first_of(" \t\r\n"), text.size());
    double value = 0;
    if (!ParseSample(text.substr(0, length), DataType::kFloat64, reinterpret_cast<std::byte*>(&value)) ||
        !std::isfinite(value)) {
      return {};
    }
    numbers.push_back(value);
    text.remove_prefix(length);
  }
  return numbers.size() == count ? numbers : std::vector<double>();
}

/// An array of the file.
struct Array {
  pugi::xml_node node;
  bool of_cells = false;
};

/// The contents of the tags; the document must outlive it.
struct Image {
  pugi::xml_document document;
  std::uint64_t appended = 0;
  pugi::xml_node file;
  std::array<std::int64_t, 6> extent{};  ///< first and last point along x, y, z
  std::vector<double> origin;
  std::vector<double> spacing;
  std::vector<Array> arrays;

  /// Samples x, y, z of arrays of points or cells.
  Index3 Dims(bool of_cells) const {
    Index3 dims{};
    for (std::size_t a = 0; a < 3; ++a) {
      const std::int64_t points = extent[2 * a + 1] - extent[2 * a] + 1;
      dims[a] = of_cells ? std::max<std::int64_t>(1, points - 1) : points;
    }
    return dims;
  }
};

std::optional<DataType> ToDataType(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  const Result<DataType> type = ParseDataType(name);
  return type.ok() ? std::optional(*type) : std::nullopt;
}

Status ReadExtent(const pugi::xml_node& grid, const std::string& path, Image* image) {
  const std::vector<double> extent = Numbers(grid, "WholeExtent", 6);
  image->origin = Numbers(grid, "Origin", 3);
  image->spacing = Numbers(grid, "Spacing", 3);
  if (extent.empty() || image->origin.empty() || image->spacing.empty())
    return DataLoss("\"{}\" has no proper WholeExtent, Origin and Spacing; the file is damaged", path);
  for (std::size_t a = 0; a < 3; ++a) {
    constexpr double kMost = 1LL << 31;
    if (std::abs(extent[2 * a]) > kMost || std::abs(extent[2 * a + 1]) > kMost ||
        extent[2 * a + 1] < extent[2 * a])
      return DataLoss("\"{}\" has the impossible WholeExtent {}", path, fmt::join(extent, " "));
  }
  std::transform(extent.begin(), extent.end(), image->extent.begin(),
                 [](double v) { return std::llround(v); });
  const std::vector<double> direction = Numbers(grid, "Direction", 9);
  if (!direction.empty() && direction != std::vector<double>{1, 0, 0, 0, 1, 0, 0, 0, 1})
    return InvalidArgument("\"{}\" is rotated (Direction); resample it to axes x, y, z first", path);
  const pugi::xml_node piece = grid.child("Piece");
  if (!piece || piece.next_sibling("Piece") || Numbers(piece, "Extent", 6) != extent)
    return InvalidArgument("\"{}\" has not one piece with the whole extent; save it as one piece", path);
  return Status::Ok();
}

Status ReadImage(const RandomAccessFile& file, Image* image) {
  QUARRY_ASSIGN_OR_RETURN(const Markup markup, ReadMarkup(file));
  image->appended = markup.appended;
  const pugi::xml_parse_result parsed = image->document.load_buffer(markup.xml.data(), markup.xml.size());
  image->file = image->document.child("VTKFile");
  if (!parsed || !image->file) {
    return DataLoss("\"{}\" is not a VTK XML file, or is damaged: {}", file.path(),
                    parsed ? "no VTKFile in it" : parsed.description());
  }
  const std::string type = image->file.attribute("type").value();
  if (type != "ImageData")
    return InvalidArgument("\"{}\" holds {}; only ImageData has a regular grid", file.path(), type);
  const pugi::xml_node grid = image->file.child("ImageData");
  QUARRY_RETURN_IF_ERROR(ReadExtent(grid, file.path(), image));
  for (const bool of_cells : {false, true}) {
    for (const pugi::xml_node& node :
         grid.child("Piece").child(of_cells ? "CellData" : "PointData").children("DataArray"))
      image->arrays.push_back({node, of_cells});
  }
  return Status::Ok();
}

Variable Summarise(const Image& image, const Array& array) {
  Variable variable;
  variable.name = array.node.attribute("Name").value();
  variable.dims = image.Dims(array.of_cells);
  variable.axes = 3;
  const int components = array.node.attribute("NumberOfComponents").as_int(1);
  const std::string type = array.node.attribute("type").value();
  if (components != 1) {
    variable.obstacle = fmt::format("{} components; a field has one", components);
  } else if (!ToDataType(type)) {
    variable.obstacle =
        fmt::format("{} samples; only floats and integers of up to 32 bits are understood", type);
  }
  return variable;
}

/// "offset length", which ReadMarkup writes in place of text.
bool ParsePlace(std::string_view text, Encoding* encoding) {
  const std::size_t blank = std::min(text.find(' '), text.size());
  const auto number = [](std::string_view part, std::uint64_t* value) {
    return std::from_chars(part.data(), part.data() + part.size(), *value).ec == std::errc();
  };
  return blank < text.size() && number(text.substr(0, blank), &encoding->offset) &&
         number(text.substr(blank + 1), &encoding->length);
}

Result<Encoding> FindEncoding(const Image& image, const pugi::xml_node& array, const std::string& path) {
  Encoding encoding;
  encoding.big_endian = std::string_view(image.file.attribute("byte_order").value()) == "BigEndian";
  encoding.header_bytes = std::string_view(image.file.attribute("header_type").value()) == "UInt64" ? 8 : 4;
  const std::string format = array.attribute("format").value();
  const std::string name = array.attribute("Name").value();
  if (format == "appended") {
    const std::uint64_t offset = array.attribute("offset").as_ullong(UINT64_MAX);
    if (image.appended == 0 || offset > UINT64_MAX / 2)
      return DataLoss("\"{}\": array {} has no appended data; the file is damaged", path, name);
    encoding.offset = image.appended + offset;
    encoding.base64 =
        std::string_view(image.file.child("AppendedData").attribute("encoding").value()) == "base64";
  } else {
    encoding.ascii = format == "ascii";
    encoding.base64 = !encoding.ascii;
    if ((!encoding.ascii && format != "binary") || !ParsePlace(array.child_value(), &encoding))
      return DataLoss("\"{}\": array {} has no samples in a known format (\"{}\"); the file is damaged", path,
                      name, format);
  }
  const std::string compressor = image.file.attribute("compressor").value();
  encoding.compressed = !compressor.empty() && !encoding.ascii;
  if (encoding.compressed && compressor != "vtkZLibDataCompressor") {
    return InvalidArgument("\"{}\" is compressed by {}; only vtkZLibDataCompressor is understood, or none",
                           path, compressor);
  }
  return encoding;
}

Result<std::unique_ptr<VtiInput>> OpenArray(const Image& image, const pugi::xml_node& array, InputInfo info,
                                            const std::string& path) {
  QUARRY_ASSIGN_OR_RETURN(const Encoding encoding, FindEncoding(image, array, path));
  QUARRY_ASSIGN_OR_RETURN(RandomAccessFile file, RandomAccessFile::Open(path));
  auto input = std::make_unique<VtiInput>(std::move(info), std::move(file), encoding);
  if (Status status = input->Prepare(); !status.ok()) return std::move(status).Annotate(path);
  return input;
}

/// The single number of an array TimeValue, if there is one.
std::optional<double> FindTime(const Image& image, const std::string& path) {
  const pugi::xml_node fields = image.file.child("ImageData").child("FieldData");
  const pugi::xml_node array = fields.find_child_by_attribute("DataArray", "Name", "TimeValue");
  if (!array) return std::nullopt;
  InputInfo info;
  info.path = path;
  info.dims = {1, 1, 1};
  const auto type = ToDataType(array.attribute("type").value());
  if (type != DataType::kFloat32 && type != DataType::kFloat64) return std::nullopt;
  info.type = *type;
  const auto input = OpenArray(image, array, info, path);
  Bytes sample(SizeOf(info.type));
  if (!input.ok() || !(*input)->ReadBox({{0, 0, 0}, {1, 1, 1}}, sample).ok()) return std::nullopt;
  const double time = DispatchType(info.type, [&](auto value) {
    std::memcpy(&value, sample.data(), sizeof(value));
    return static_cast<double>(value);
  });
  return std::isfinite(time) ? std::optional(time) : std::nullopt;
}

}  // namespace

Result<Inputs> OpenVti(const InputName& name, const InputOptions& options) {
  Image image;
  {
    QUARRY_ASSIGN_OR_RETURN(const RandomAccessFile file, RandomAccessFile::Open(name.file));
    QUARRY_RETURN_IF_ERROR(ReadImage(file, &image));
  }
  std::vector<Variable> variables;
  for (const Array& array : image.arrays) variables.push_back(Summarise(image, array));
  QUARRY_ASSIGN_OR_RETURN(const std::size_t chosen, ChooseVariable(name, variables));
  const Array& array = image.arrays[chosen];
  InputInfo info;
  info.path = name.variable.empty() ? fmt::format("{}:{}", name.file, variables[chosen].name) : name.path;
  info.source = name.Source(variables[chosen].name);
  info.field = options.field.empty() ? FieldFromName(variables[chosen].name) : options.field;
  info.dims = variables[chosen].dims;
  info.type = *ToDataType(array.node.attribute("type").value());
  info.time = FindTime(image, name.file);
  for (std::size_t a = 0; a < 3; ++a) {
    const std::int64_t points = image.extent[2 * a + 1] - image.extent[2 * a] + 1;
    // Samples of cells lie in their middle.
    const double shift = array.of_cells && points > 1 ? 0.5 : 0;
    info.axes[a].origin =
        image.origin[a] + (static_cast<double>(image.extent[2 * a]) + shift) * image.spacing[a];
    info.axes[a].spacing = image.spacing[a];
  }
  QUARRY_RETURN_IF_ERROR(CheckOptions(info, options));
  QUARRY_ASSIGN_OR_RETURN(auto input, OpenArray(image, array.node, std::move(info), name.file));
  Inputs inputs;
  inputs.push_back(std::move(input));
  return inputs;
}

}  // namespace quarry::input::internal
