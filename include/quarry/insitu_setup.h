#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "quarry/attributes.h"
#include "quarry/box.h"
#include "quarry/box_view.h"
#include "quarry/calendar.h"
#include "quarry/description.h"
#include "quarry/field_request.h"
#include "quarry/payload_order.h"
#include "quarry/pipeline_options.h"

/// Declaration of a simulation's data, before the first step.
namespace quarry::insitu {

using redistribute::BoxView;
using writer::OpenMode;
using writer::PipelineOptions;

/// A field. Floats need one of tolerance, relative and lossless; integers without a bound are lossless.
using Field = writer::FieldRequest;

/// The dataset. Omitted values take the defaults of quarry-write, or those of the continued dataset.
struct Declaration {
  Index3 dims = {1, 1, 1};  ///< samples of the whole grid, x, y, z
  std::optional<std::array<double, 3>> origin;
  std::optional<std::array<double, 3>> spacing;
  std::optional<Index3> patch;
  std::optional<int> levels;
  std::optional<format::PayloadOrder> order;
  /// Names, units, positions and attributes of x, y and z. `origin` and `spacing` overrule theirs.
  std::array<SourceAxis, 3> axes;
  std::vector<Field> fields;
  TimeUnit time_unit;     ///< unit of BeginStep's times; a continued dataset converts them to its own
  Attributes attributes;  ///< attributes of the dataset; a continued one keeps its own
  std::vector<TextCoordinate> texts;  ///< on the declared grid: their number of a grid is not read
};

/// Which axis of an array lies densest in memory.
enum class ArrayOrder {
  kXFastest,  ///< Fortran's a(x,y,z), or C's a[z][y][x]
  kZFastest,  ///< C's a[x][y][z], or Fortran's a(z,y,x)
};

/// A box that a rank owns, and how its samples lie in memory. The address is given with each Put.
struct OwnedBox {
  Box box;      ///< in samples of the grid; may be empty
  Box storage;  ///< the array that holds it: `box` and its ghost layers, which may reach out of the
                ///< grid. The address is that of the array's first sample.
  ArrayOrder array_order = ArrayOrder::kXFastest;
  std::optional<Index3> stride;  ///< instead of `storage`: bytes from one sample to the next along x, y, z,
                                 ///< of any sign. The address is that of the first sample of `box`.

  /// An array of exactly this box.
  static OwnedBox Dense(const Box& box, ArrayOrder order = ArrayOrder::kXFastest) {
    return {box, box, order, {}};
  }
  /// An array that is larger than the box.
  /// Example: box {{8,0,0},{16,8,8}} with one ghost layer has storage {{7,-1,-1},{17,9,9}}.
  static OwnedBox InArray(const Box& box, const Box& storage, ArrayOrder order = ArrayOrder::kXFastest) {
    return {box, storage, order, {}};
  }
  /// Any other arrangement: arrays of structs, slices, arrays with padding.
  static OwnedBox Strided(const Box& box, const Index3& stride) {
    return {box, box, ArrayOrder::kXFastest, stride};
  }

  /// Where the samples are, for this address. Local.
  BoxView At(const void* address, std::size_t sample_bytes) const;
};

/// Everything but the boxes: the same on every rank.
struct Setup {
  std::string path;  ///< path of the dataset, NAME.quarry
  OpenMode mode = OpenMode::kCreate;
  Declaration declaration;
  PipelineOptions pipeline;
};

}  // namespace quarry::insitu
