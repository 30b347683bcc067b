// VTK's XML files of regular grids: ImageData (.vti), its pieces in several files (.pvti), RectilinearGrid
// (.vtr). Arrays are text, inline and appended base64, or appended raw; uncompressed or in zlib blocks.

#include <algorithm>
#include <charconv>
#include <cmath>

#include "quarry/base/file.h"
#include "quarry/base/missing.h"
#include "quarry/input/formats.h"
#include "quarry/input/vti_grid.h"
#include "quarry/input/vtk_array.h"
#include "quarry/input/vtk_text.h"

namespace quarry::input::internal {
namespace {

std::optional<DataType> ToDataType(const std::string& name) {
  const Result<DataType> type = ParseDataType(Lower(name));
  return type.ok() ? std::optional(*type) : std::nullopt;
}

/// An array of the pieces.
struct Array {
  std::string name;
  std::string type;
  std::int64_t components = 1;
  bool of_cells = false;

  /// In a piece; empty if it is not there.
  pugi::xml_node In(const pugi::xml_node& piece) const {
    return piece.child(of_cells ? "CellData" : "PointData")
        .find_child_by_attribute("DataArray", "Name", name.c_str());
  }
};

std::vector<Array> ListArrays(const Grid& grid) {
  std::vector<Array> arrays;
  for (const bool of_cells : {false, true}) {
    for (const pugi::xml_node& node :
         grid.pieces.front().node.child(of_cells ? "CellData" : "PointData").children("DataArray")) {
      const std::string type = node.attribute("type").value();
      arrays.push_back(
          {node.attribute("Name").value(), type, node.attribute("NumberOfComponents").as_int(1), of_cells});
    }
  }
  return arrays;
}

Variable Summarise(const Grid& grid, const Array& array, const InputOptions& options) {
  Variable variable;
  variable.name = array.name;
  variable.dims = DimsOf(grid.extent, array.of_cells);
  variable.axes = 3;
  if (array.components < 1) {
    variable.obstacle = fmt::format("{} components", array.components);
  } else if (!ToDataType(array.type)) {
    variable.obstacle =
        fmt::format("{} samples; only floats and integers of up to 32 bits are understood", array.type);
  } else {
    variable.obstacle = ObstacleOfComponents(options, array.components);
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

Result<Encoding> FindEncoding(const Document& document, const pugi::xml_node& array) {
  Encoding encoding;
  const std::string& path = document.path;
  encoding.layout.big_endian = std::string_view(document.file.attribute("byte_order").value()) == "BigEndian";
  encoding.header_bytes =
      std::string_view(document.file.attribute("header_type").value()) == "UInt64" ? 8 : 4;
  const std::string format = array.attribute("format").value();
  const std::string name = array.attribute("Name").value();
  if (format == "appended") {
    const std::uint64_t offset = array.attribute("offset").as_ullong(UINT64_MAX);
    if (document.appended == 0 || offset > UINT64_MAX / 2)
      return DataLoss("\"{}\": array {} has no appended data; the file is damaged", path, name);
    encoding.offset = document.appended + offset;
    encoding.base64 =
        std::string_view(document.file.child("AppendedData").attribute("encoding").value()) == "base64";
  } else {
    encoding.ascii = format == "ascii";
    encoding.base64 = !encoding.ascii;
    if ((!encoding.ascii && format != "binary") || !ParsePlace(array.child_value(), &encoding))
      return DataLoss("\"{}\": array {} has no samples in a known format (\"{}\"); the file is damaged", path,
                      name, format);
  }
  const std::string compressor = document.file.attribute("compressor").value();
  encoding.compressed = !compressor.empty() && !encoding.ascii;
  if (encoding.compressed && compressor != "vtkZLibDataCompressor") {
    return InvalidArgument("\"{}\" is compressed by {}; only vtkZLibDataCompressor is understood, or none",
                           path, compressor);
  }
  return encoding;
}

/// The samples of an array that lie in one file.
Result<std::unique_ptr<Input>> OpenArray(const Document& document, const pugi::xml_node& node, InputInfo info,
                                         std::int64_t components, std::int64_t component) {
  info.path = document.path;
  QUARRY_ASSIGN_OR_RETURN(Encoding encoding, FindEncoding(document, node));
  encoding.layout.components = components;
  encoding.layout.component = component;
  return OpenVtkArray(std::move(info), encoding);
}

/// All numbers of an array that is not a field.
Result<std::vector<double>> ReadNumbers(const Document& document, const pugi::xml_node& node,
                                        std::int64_t count) {
  InputInfo info;
  info.dims = {count, 1, 1};
  const auto type = ToDataType(node.attribute("type").value());
  if (!type) {
    return InvalidArgument("\"{}\" has the numbers \"{}\" as {}; save them as Float64", document.path,
                           node.attribute("Name").value(), node.attribute("type").value());
  }
  info.type = *type;
  QUARRY_ASSIGN_OR_RETURN(const auto input, OpenArray(document, node, std::move(info), 1, 0));
  return NumbersIn(*input);
}

/// A piece that belongs to a field.
struct FieldPiece {
  Piece piece;
  Box box;  ///< among all samples
  pugi::xml_node array;
};

class VtiInput final : public Input {
 public:
  VtiInput(InputInfo info, Array array, std::int64_t component, std::vector<FieldPiece> pieces)
      : Input(std::move(info)), array_(std::move(array)), component_(component), pieces_(std::move(pieces)) {}

  /// A field in one piece keeps its file open; of many pieces each is opened when it is read.
  Status Prepare() {
    for (const FieldPiece& piece : pieces_) {
      QUARRY_ASSIGN_OR_RETURN(std::unique_ptr<Input> opened, Open(piece));
      if (pieces_.size() == 1) only_ = std::move(opened);
    }
    return Status::Ok();
  }

  Status ReadBox(const Box& box, std::span<std::byte> samples) const override {
    if (only_) return only_->ReadBox(box, samples);
    for (const FieldPiece& piece : pieces_) {
      const Box common = Intersect(piece.box, box);
      if (common.empty()) continue;
      QUARRY_ASSIGN_OR_RETURN(const std::unique_ptr<Input> opened, Open(piece));
      QUARRY_ASSIGN_OR_RETURN(const Bytes part, input::ReadBox(*opened, Translate(common, piece.box.begin)));
      CopyPermuted(part, common, {2, 1, 0}, SizeOf(info_.type), box, samples);
    }
    return Status::Ok();
  }

 private:
  Result<std::unique_ptr<Input>> Open(const FieldPiece& piece) const {
    InputInfo info;
    info.dims = DimsOf(piece.piece.extent, array_.of_cells);
    info.type = info_.type;
    return OpenArray(*piece.piece.document, piece.array, std::move(info), array_.components, component_);
  }

  Array array_;
  std::int64_t component_;
  std::vector<FieldPiece> pieces_;
  std::unique_ptr<Input> only_;
};

Result<std::vector<FieldPiece>> FindPieces(const Grid& grid, const Array& array) {
  std::vector<FieldPiece> pieces;
  std::vector<Box> boxes;
  for (const Piece& piece : grid.pieces) {
    const pugi::xml_node node = array.In(piece.node);
    const std::string type = node.attribute("type").value();
    if (!node || type != array.type || node.attribute("NumberOfComponents").as_int(1) != array.components) {
      return DataLoss("\"{}\" has no array \"{}\" of {} and {} components, as another piece has",
                      piece.document->path, array.name, array.type, array.components);
    }
    pieces.push_back({piece, BoxOf(grid, piece, array.of_cells), node});
    boxes.push_back(pieces.back().box);
  }
  QUARRY_RETURN_IF_ERROR(CheckCovered(boxes, DimsOf(grid.extent, array.of_cells), grid.document->path));
  return pieces;
}

/// A single number of FieldData, if there is one of this name.
std::optional<double> FindNumber(const Grid& grid, const std::string& name) {
  for (const Document* document : {grid.document.get(), grid.pieces.front().document.get()}) {
    const pugi::xml_node array =
        document->grid().child("FieldData").find_child_by_attribute("DataArray", "Name", name.c_str());
    if (!ToDataType(array.attribute("type").value())) continue;
    const Result<std::vector<double>> numbers = ReadNumbers(*document, array, 1);
    if (numbers.ok() && std::isfinite(numbers->front())) return numbers->front();
  }
  return std::nullopt;
}

/// A text of FieldData, which has the codes of its characters and a zero behind them; empty if there is none.
std::string FindText(const Grid& grid, const std::string& name) {
  const Document& document = *grid.document;
  const pugi::xml_node array =
      document.grid().child("FieldData").find_child_by_attribute("DataArray", "Name", name.c_str());
  Encoding place;
  if (std::string_view(array.attribute("type").value()) != "String" ||
      !ParsePlace(array.child_value(), &place))
    return "";
  const Result<RandomAccessFile> file = RandomAccessFile::Open(document.path);
  if (!file.ok()) return "";
  WordReader codes(*file, place.offset, place.length);
  constexpr std::size_t kLongest = 256;
  std::string text;
  while (text.size() < kLongest) {
    std::uint8_t code = 0;
    if (!ParseSample(codes.Next(), DataType::kUint8, reinterpret_cast<std::byte*>(&code)) || code == 0) break;
    text += static_cast<char>(code);
  }
  return text;
}

/// Takes the metadata that exports of Quarry keep in FieldData, where VTK has no place for it.
void DescribeFromFieldData(const Grid& grid, const std::string& array, InputInfo* info) {
  const std::optional<double> time = FindNumber(grid, "TimeValue");
  if (time) info->time = time;
  info->time_unit = {FindText(grid, "TimeValue.units"), FindText(grid, "TimeValue.calendar")};
  const std::optional<double> fill = FindNumber(grid, array + "._FillValue");
  if (fill && CanHold(info->type, *fill)) info->fill = *fill;
  info->units = FindText(grid, array + ".units");
  for (std::size_t a = 0; a < 3; ++a) {
    info->axes[a].name = FindText(grid, fmt::format("{}.long_name", kAxisNames[a]));
    info->axes[a].units = FindText(grid, fmt::format("{}.units", kAxisNames[a]));
  }
}

pugi::xml_node CoordinatesOf(const Piece& piece, std::size_t axis) {
  pugi::xml_node node = piece.node.child("Coordinates").child("DataArray");
  for (std::size_t a = 0; a < axis; ++a) node = node.next_sibling("DataArray");
  return node;
}

/// The positions of points along an axis of a rectilinear grid, from its pieces.
Result<std::vector<double>> ReadPoints(const Grid& grid, std::size_t axis) {
  const std::int64_t points = grid.extent[2 * axis + 1] - grid.extent[2 * axis] + 1;
  std::vector<std::vector<double>> parts;
  for (const Piece& piece : grid.pieces) {
    const pugi::xml_node node = CoordinatesOf(piece, axis);
    if (!node) return DataLoss("\"{}\" has no three Coordinates; the file is damaged", piece.document->path);
    const std::int64_t count = piece.extent[2 * axis + 1] - piece.extent[2 * axis] + 1;
    QUARRY_ASSIGN_OR_RETURN(parts.emplace_back(), ReadNumbers(*piece.document, node, count));
  }
  // The pieces cover the grid: their sizes bound this memory.
  std::vector<double> all(static_cast<std::size_t>(points));
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::int64_t first = grid.pieces[i].extent[2 * axis] - grid.extent[2 * axis];
    std::copy(parts[i].begin(), parts[i].end(), all.begin() + first);
  }
  return all;
}

Status PlaceGrid(const Grid& grid, bool of_cells, InputInfo* info) {
  for (std::size_t a = 0; a < 3; ++a) {
    // Samples of cells lie in their middle.
    const bool shifted = of_cells && grid.extent[2 * a + 1] > grid.extent[2 * a];
    if (grid.rectilinear) {
      QUARRY_ASSIGN_OR_RETURN(std::vector<double> points, ReadPoints(grid, a));
      PlaceVtkAxis(std::move(points),
                   ToDataType(CoordinatesOf(grid.pieces.front(), a).attribute("type").value()), shifted, a,
                   info);
      continue;
    }
    const double first = static_cast<double>(grid.extent[2 * a]) + (shifted ? 0.5 : 0);
    info->axes[a].origin = grid.origin[a] + first * grid.spacing[a];
    info->axes[a].spacing = grid.spacing[a];
  }
  return Status::Ok();
}

}  // namespace

Result<Inputs> OpenVti(const InputName& name, const InputOptions& options) {
  QUARRY_ASSIGN_OR_RETURN(const Grid grid, ReadGrid(name.file));
  const std::vector<Array> arrays = ListArrays(grid);
  std::vector<Variable> variables;
  for (const Array& array : arrays) variables.push_back(Summarise(grid, array, options));
  QUARRY_ASSIGN_OR_RETURN(const std::size_t chosen, ChooseVariable(name, variables));
  const Array& array = arrays[chosen];
  InputInfo info;
  info.path = name.variable.empty() ? fmt::format("{}:{}", name.file, array.name) : name.path;
  info.source = name.Source(array.name);
  NameField(array.name, options, &info);
  info.dims = variables[chosen].dims;
  info.type = *ToDataType(array.type);
  DescribeFromFieldData(grid, array.name, &info);
  QUARRY_ASSIGN_OR_RETURN(const std::vector<FieldPiece> pieces, FindPieces(grid, array));
  QUARRY_RETURN_IF_ERROR(PlaceGrid(grid, array.of_cells, &info));
  QUARRY_RETURN_IF_ERROR(CheckOptions(info, options));
  const auto open = [&](InputInfo of_component, std::int64_t component) -> Result<std::unique_ptr<Input>> {
    auto input = std::make_unique<VtiInput>(std::move(of_component), array, component, pieces);
    QUARRY_RETURN_IF_ERROR(input->Prepare());
    return std::unique_ptr<Input>(std::move(input));
  };
  return OpenComponents(options, info, array.components, open);
}

}  // namespace quarry::input::internal
