#include "quarry/input/vti_grid.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "quarry/base/file.h"
#include "quarry/input/vtk_text.h"

namespace quarry::input::internal {
namespace {

namespace fs = std::filesystem;

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

Result<Extent> ReadExtent(const pugi::xml_node& node, const char* name, const std::string& path) {
  const std::vector<double> numbers = Numbers(node, name, 6);
  if (numbers.empty()) return DataLoss("\"{}\" has no proper {}; the file is damaged", path, name);
  Extent extent{};
  for (std::size_t a = 0; a < 3; ++a) {
    constexpr double kMost = 1LL << 31;
    if (std::abs(numbers[2 * a]) > kMost || std::abs(numbers[2 * a + 1]) > kMost ||
        numbers[2 * a + 1] < numbers[2 * a])
      return DataLoss("\"{}\" has the impossible {} {}", path, name, fmt::join(numbers, " "));
  }
  std::transform(numbers.begin(), numbers.end(), extent.begin(), [](double v) { return std::llround(v); });
  return extent;
}

Result<std::shared_ptr<const Document>> ReadDocument(const std::string& path) {
  QUARRY_ASSIGN_OR_RETURN(const RandomAccessFile file, RandomAccessFile::Open(path));
  QUARRY_ASSIGN_OR_RETURN(const Markup markup, ReadMarkup(file));
  auto document = std::make_shared<Document>();
  document->path = path;
  document->appended = markup.appended;
  const pugi::xml_parse_result parsed = document->xml.load_buffer(markup.xml.data(), markup.xml.size());
  document->file = document->xml.child("VTKFile");
  if (!parsed || !document->file) {
    return DataLoss("\"{}\" is not a VTK XML file, or is damaged: {}", path,
                    parsed ? "no VTKFile in it" : parsed.description());
  }
  document->type = document->file.attribute("type").value();
  if (!document->grid()) return DataLoss("\"{}\" has no {} in it; the file is damaged", path, document->type);
  return std::shared_ptr<const Document>(std::move(document));
}

Status CheckDirection(const pugi::xml_node& node, const std::string& path) {
  const std::vector<double> direction = Numbers(node, "Direction", 9);
  if (!direction.empty() && direction != std::vector<double>{1, 0, 0, 0, 1, 0, 0, 0, 1})
    return InvalidArgument("\"{}\" is rotated (Direction); resample it to axes x, y, z first", path);
  return Status::Ok();
}

/// Adds the pieces that lie in a file itself.
Status AddPieces(const std::shared_ptr<const Document>& document, std::vector<Piece>* pieces) {
  for (const pugi::xml_node& node : document->grid().children("Piece")) {
    QUARRY_ASSIGN_OR_RETURN(const Extent extent, ReadExtent(node, "Extent", document->path));
    pieces->push_back({document, node, extent});
  }
  return Status::Ok();
}

/// Adds the pieces in other files, whose names are relative to this one.
Status AddPiecesOfFiles(const Document& document, std::vector<Piece>* pieces) {
  for (const pugi::xml_node& node : document.grid().children("Piece")) {
    const std::string path =
        (fs::path(document.path).parent_path() / node.attribute("Source").value()).string();
    QUARRY_ASSIGN_OR_RETURN(const std::shared_ptr<const Document> piece,
                            ReadDocument(path).Annotate(fmt::format("a piece of \"{}\"", document.path)));
    if (piece->type != "ImageData") {
      return InvalidArgument("\"{}\", a piece of \"{}\", holds {}, not ImageData", path, document.path,
                             piece->type);
    }
    QUARRY_RETURN_IF_ERROR(CheckDirection(piece->grid(), path));
    QUARRY_RETURN_IF_ERROR(AddPieces(piece, pieces));
  }
  return Status::Ok();
}

}  // namespace

Index3 DimsOf(const Extent& extent, bool of_cells) {
  Index3 dims{};
  for (std::size_t a = 0; a < 3; ++a) {
    const std::int64_t points = extent[2 * a + 1] - extent[2 * a] + 1;
    dims[a] = of_cells ? std::max<std::int64_t>(1, points - 1) : points;
  }
  return dims;
}

Result<Grid> ReadGrid(const std::string& path) {
  Grid grid;
  QUARRY_ASSIGN_OR_RETURN(grid.document, ReadDocument(path));
  const std::string& type = grid.document->type;
  grid.rectilinear = type == "RectilinearGrid";
  const bool of_files = type == "PImageData";
  if (type != "ImageData" && !of_files && !grid.rectilinear) {
    return InvalidArgument(
        "\"{}\" holds {}; only ImageData, PImageData and RectilinearGrid have a regular grid", path, type);
  }
  const pugi::xml_node node = grid.document->grid();
  QUARRY_ASSIGN_OR_RETURN(grid.extent, ReadExtent(node, "WholeExtent", path));
  if (!grid.rectilinear) {
    grid.origin = Numbers(node, "Origin", 3);
    grid.spacing = Numbers(node, "Spacing", 3);
    if (grid.origin.empty() || grid.spacing.empty())
      return DataLoss("\"{}\" has no proper Origin and Spacing; the file is damaged", path);
    QUARRY_RETURN_IF_ERROR(CheckDirection(node, path));
  }
  QUARRY_RETURN_IF_ERROR(of_files ? AddPiecesOfFiles(*grid.document, &grid.pieces)
                                  : AddPieces(grid.document, &grid.pieces));
  for (const Piece& piece : grid.pieces) {
    for (std::size_t i = 0; i < 6; ++i) {
      if (i % 2 == 0 ? piece.extent[i] < grid.extent[i] : piece.extent[i] > grid.extent[i]) {
        return DataLoss("\"{}\" has a piece of {}, outside of the whole of {}; the file is damaged",
                        piece.document->path, fmt::join(piece.extent, " "), fmt::join(grid.extent, " "));
      }
    }
  }
  if (grid.pieces.empty()) return DataLoss("\"{}\" has no piece; the file is damaged", path);
  return grid;
}

Box BoxOf(const Grid& grid, const Piece& piece, bool of_cells) {
  Box box;
  const Index3 dims = DimsOf(piece.extent, of_cells);
  for (std::size_t a = 0; a < 3; ++a) {
    box.begin[a] = piece.extent[2 * a] - grid.extent[2 * a];
    // A piece of one plane of points at the end of a grid has no cells.
    box.end[a] = std::min(box.begin[a] + dims[a], DimsOf(grid.extent, of_cells)[a]);
  }
  return box;
}

Status CheckCovered(const std::vector<Box>& boxes, const Index3& dims, const std::string& path) {
  std::array<std::vector<std::int64_t>, 3> cuts;
  for (std::size_t a = 0; a < 3; ++a) {
    cuts[a] = {0, dims[a]};
    for (const Box& box : boxes) cuts[a].insert(cuts[a].end(), {box.begin[a], box.end[a]});
    std::sort(cuts[a].begin(), cuts[a].end());
    cuts[a].erase(std::unique(cuts[a].begin(), cuts[a].end()), cuts[a].end());
  }
  const Index3 parts = {static_cast<std::int64_t>(cuts[0].size() - 1),
                        static_cast<std::int64_t>(cuts[1].size() - 1),
                        static_cast<std::int64_t>(cuts[2].size() - 1)};
  constexpr std::int64_t kMost = std::int64_t{1} << 24;
  if (parts[0] * parts[1] > kMost || parts[0] * parts[1] * parts[2] > kMost)
    return InvalidArgument("\"{}\" has too many pieces ({}); save it as one", path, boxes.size());
  std::vector<bool> covered(static_cast<std::size_t>(Volume(parts)));
  const auto number = [&](std::int64_t x, std::int64_t y, std::int64_t z) {
    return static_cast<std::size_t>(x + parts[0] * (y + parts[1] * z));
  };
  const auto part_of = [&](std::size_t a, std::int64_t at) {
    return std::lower_bound(cuts[a].begin(), cuts[a].end(), at) - cuts[a].begin();
  };
  for (const Box& box : boxes) {
    for (auto z = part_of(2, box.begin[2]); z < part_of(2, box.end[2]); ++z) {
      for (auto y = part_of(1, box.begin[1]); y < part_of(1, box.end[1]); ++y) {
        for (auto x = part_of(0, box.begin[0]); x < part_of(0, box.end[0]); ++x)
          covered[number(x, y, z)] = true;
      }
    }
  }
  for (std::int64_t z = 0; z < parts[2]; ++z) {
    for (std::int64_t y = 0; y < parts[1]; ++y) {
      for (std::int64_t x = 0; x < parts[0]; ++x) {
        if (covered[number(x, y, z)]) continue;
        const auto i = static_cast<std::size_t>(x);
        const auto j = static_cast<std::size_t>(y);
        const auto k = static_cast<std::size_t>(z);
        const Box missing = {{cuts[0][i], cuts[1][j], cuts[2][k]},
                             {cuts[0][i + 1], cuts[1][j + 1], cuts[2][k + 1]}};
        return DataLoss("\"{}\" has no piece with the samples {}; the file is incomplete", path,
                        ToString(missing));
      }
    }
  }
  return Status::Ok();
}

}  // namespace quarry::input::internal
