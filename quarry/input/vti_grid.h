#pragma once

#include <array>
#include <memory>
#include <pugixml.hpp>
#include <string>
#include <vector>

#include "quarry/base/status.h"
#include "quarry/box.h"

/// The tags of VTK's XML files, and the grids that they describe.
namespace quarry::input::internal {

/// First and last point along x, y, z.
using Extent = std::array<std::int64_t, 6>;

/// Points, or cells.
Index3 DimsOf(const Extent& extent, bool of_cells);

/// The tags of a file.
struct Document {
  std::string path;
  std::uint64_t appended = 0;
  pugi::xml_document xml;
  pugi::xml_node file;  ///< VTKFile
  std::string type;     ///< "ImageData"

  pugi::xml_node grid() const { return file.child(type.c_str()); }
};

/// A part of the grid: samples of it lie in one file.
struct Piece {
  std::shared_ptr<const Document> document;
  pugi::xml_node node;
  Extent extent{};
};

/// A regular grid, or the whole of its pieces.
struct Grid {
  std::shared_ptr<const Document> document;
  Extent extent{};
  bool rectilinear = false;
  std::vector<double> origin;
  std::vector<double> spacing;
  std::vector<Piece> pieces;
};

Result<Grid> ReadGrid(const std::string& path);

/// Where the samples of a piece lie among all.
Box BoxOf(const Grid& grid, const Piece& piece, bool of_cells);

/// Whether each sample is in some piece. Looks at the boxes between the borders of all pieces.
/// @errors kDataLoss with a box that is missing
Status CheckCovered(const std::vector<Box>& boxes, const Index3& dims, const std::string& path);

}  // namespace quarry::input::internal
