#include "pictures.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "barrier.h"
#include "quarry/base/file.h"
#include "quarry/picture/colormap.h"
#include "quarry/picture/png_file.h"
#include "quarry/redistribute.h"

namespace lbm {
namespace {

namespace intransit = quarry::intransit;
namespace picture = quarry::picture;
namespace redistribute = quarry::redistribute;
using quarry::Box;
using quarry::Result;
using quarry::Status;

constexpr picture::Rgb kBarrierColour = {64, 64, 64};

// The colours end at so many times inflow / diameter, about where the vortices of
// the wake end; only the layers at the barrier have more.
constexpr float kScale = 5.0f;

// The grid of so many tiles whose tiles are closest to squares: columns and rows.
std::pair<int, int> TileGrid(const Int3& cells, int tiles) {
  std::pair<int, int> best = {tiles, 1};
  double least = INFINITY;
  for (int columns = 1; columns <= tiles; ++columns) {
    if (tiles % columns != 0) continue;
    const int rows = tiles / columns;
    const double width = static_cast<double>(cells[0]) / columns;
    const double height = static_cast<double>(cells[1]) / rows;
    const double distance = std::abs(std::log(width / height));
    if (distance < least) {
      least = distance;
      best = {columns, rows};
    }
  }
  return best;
}

Box TileOf(const Int3& cells, int rank, int ranks) {
  const auto [columns, rows] = TileGrid(cells, ranks);
  const auto cut = [](int cells_along, int parts, int part) {
    return static_cast<std::int64_t>(cells_along) * part / parts;
  };
  const int column = rank % columns;
  const int row = rank / columns;
  const std::int64_t z = cells[2] / 2;
  return {{cut(cells[0], columns, column), cut(cells[1], rows, row), z},
          {cut(cells[0], columns, column + 1), cut(cells[1], rows, row + 1), z + 1}};
}

// The tile and the neighbours of its cells, inside the domain.
Box WithNeighbours(const Box& tile, const Int3& cells) {
  if (tile.empty()) return tile;
  Box box = tile;
  for (int axis = 0; axis < 2; ++axis) {
    box.begin[axis] = std::max<std::int64_t>(0, tile.begin[axis] - 1);
    box.end[axis] = std::min<std::int64_t>(cells[axis], tile.end[axis] + 1);
  }
  return box;
}

// The samples of a box of one plane.
struct Plane {
  const Box& box;
  std::span<const float> values;

  float At(std::int64_t x, std::int64_t y) const {
    return values[static_cast<std::size_t>((x - box.begin[0]) +
                                           (y - box.begin[1]) * (box.end[0] - box.begin[0]))];
  }
};

// One-sided at the edges of the domain, as nothing arrives from beyond.
float VorticityAt(const Plane& ux, const Plane& uy, std::int64_t x, std::int64_t y) {
  const std::int64_t left = std::max(x - 1, uy.box.begin[0]);
  const std::int64_t right = std::min(x + 1, uy.box.end[0] - 1);
  const std::int64_t below = std::max(y - 1, ux.box.begin[1]);
  const std::int64_t above = std::min(y + 1, ux.box.end[1] - 1);
  return (uy.At(right, y) - uy.At(left, y)) / static_cast<float>(right - left) -
         (ux.At(x, above) - ux.At(x, below)) / static_cast<float>(above - below);
}

}  // namespace

struct Pictures::State {
  MPI_Comm comm;
  int rank = 0;
  std::string directory;
  Int3 cells;
  Barrier barrier;
  float highest;  // vorticity of the last colour
  Box tile;
  std::vector<std::uint8_t> tile_pixels;     // pixels of this rank, y upwards
  std::vector<std::uint8_t> picture_pixels;  // on rank 0, from the top
  std::optional<redistribute::Redistribution> gather;
  int drawn = 0;

  Result<std::vector<intransit::Need>> Needs() {
    if (rank == 0) {
      QUARRY_RETURN_IF_ERROR(quarry::CreateDirectories(directory));
    }
    const Box box = WithNeighbours(tile, cells);
    return std::vector<intransit::Need>{{"velocity_x", {box}}, {"velocity_y", {box}}};
  }

  void Colour(const picture::Colormap& colours, const intransit::ArrivedStep& step) {
    tile_pixels.clear();
    const intransit::ArrivedField& x_field = *step.Find("velocity_x");
    const intransit::ArrivedField& y_field = *step.Find("velocity_y");
    const Plane ux{x_field.boxes[0], x_field.Samples<float>(0)};
    const Plane uy{y_field.boxes[0], y_field.Samples<float>(0)};
    for (std::int64_t y = tile.begin[1]; y < tile.end[1]; ++y) {
      for (std::int64_t x = tile.begin[0]; x < tile.end[0]; ++x) {
        const bool solid = barrier.Contains(static_cast<int>(x), static_cast<int>(y));
        const picture::Rgb colour =
            solid ? kBarrierColour : colours.At(0.5 + 0.5 * VorticityAt(ux, uy, x, y) / highest);
        tile_pixels.insert(tile_pixels.end(), colour.begin(), colour.end());
      }
    }
  }

  // All tiles on rank 0, turned upside down: pictures begin at the top.
  Status Gather() {
    const Box plane = {{0, 0, 0}, {cells[0], cells[1], 1}};
    Box flat = tile;
    flat.begin[2] = 0;
    flat.end[2] = 1;
    if (!gather) {
      QUARRY_ASSIGN_OR_RETURN(
          gather, redistribute::Redistribution::Describe(comm, {.dims = plane.shape(), .sample_bytes = 3}));
      QUARRY_RETURN_IF_ERROR(gather->Map({flat}, {rank == 0 ? plane : Box{}}));
    }
    const std::size_t row = std::size_t{3} * static_cast<std::size_t>(cells[0]);
    if (rank == 0) picture_pixels.resize(row * static_cast<std::size_t>(cells[1]));
    redistribute::MutableBoxView view;
    if (rank == 0) {
      auto* top = reinterpret_cast<std::byte*>(picture_pixels.data());
      const auto stride = static_cast<std::int64_t>(row);
      view = {top + picture_pixels.size() - row, {3, -stride, stride}};
    }
    const auto mine = redistribute::BoxView::Dense(tile_pixels.data(), flat, 3);
    return gather->Exchange({&mine, 1}, {&view, 1});
  }

  // Under another name first: who follows the pictures never sees a part of one.
  Status Write(std::uint64_t step) const {
    QUARRY_ASSIGN_OR_RETURN(
        const quarry::Bytes bytes,
        picture::EncodePng({.columns = cells[0], .rows = cells[1], .samples = picture_pixels}));
    const std::string name = fmt::format("{}/vorticity{:06}.png", directory, step);
    return quarry::ReplaceFile(name, bytes);
  }

  Status Draw(const intransit::ArrivedStep& step) {
    QUARRY_ASSIGN_OR_RETURN(const picture::Colormap colours, picture::Colormap::Find("coolwarm"));
    Colour(colours, step);
    QUARRY_RETURN_IF_ERROR(Gather());
    if (rank == 0) QUARRY_RETURN_IF_ERROR(Write(step.number));
    ++drawn;
    return Status::Ok();
  }
};

Pictures::Pictures(MPI_Comm comm, std::string directory, const Int3& cells, const Flow& flow)
    : state_(std::make_unique<State>()) {
  int ranks = 0;
  MPI_Comm_size(comm, &ranks);
  MPI_Comm_rank(comm, &state_->rank);
  state_->comm = comm;
  state_->directory = std::move(directory);
  state_->cells = cells;
  state_->barrier = MakeBarrier(cells);
  state_->highest = kScale * flow.inflow / state_->barrier.diameter;
  state_->tile = TileOf(cells, state_->rank, ranks);
}

Pictures::~Pictures() = default;

intransit::Consumer Pictures::consumer() {
  return {.needs = [this](const quarry::insitu::Setup&) { return state_->Needs(); },
          .consume = [this](const intransit::ArrivedStep& step) { return state_->Draw(step); }};
}

int Pictures::drawn() const { return state_->drawn; }

}  // namespace lbm
