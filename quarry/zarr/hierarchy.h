#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quarry/zarr/contents.h"

// clang-format off
/// A dataset as the keys and values of a Zarr hierarchy (format 3), for the server and for Python.
///
///     zarr.json                      the root: fields as multiscale images, and the metadata of everything below
///     L/zarr.json                    a group for each level
///     L/FIELD/zarr.json              an array over [step, z, y, x] for each field
///     L/FIELD/c/S/Z/Y/X              its chunks
///     L/z, L/y, L/x, L/step, L/time  coordinates, likewise; axes are called as NamesOfDimensions calls them
///     L/TEXT                         texts, likewise
///
// clang-format on
/// The array of a field has no dimension for an axis that its grid lacks. It has none for steps if the field
/// stands still, or if the dataset has one step. An axis whose positions nobody has said has no array.
///
/// docs/decisions/zarr-xarray-export.md says why chunks and dimensions are what they are.
namespace quarry::zarr {

/// Along the dimensions of an array, the slowest first: z, y, x of a grid.
using Shape = std::vector<std::uint64_t>;

/// An array of the hierarchy.
struct Array {
  enum class Kind { kField, kPositions, kSteps, kTimes, kTexts };

  Kind kind = Kind::kField;
  int level = 0;
  std::size_t number = 0;  ///< number of the field, the texts, or the axis: 0 (z), 1 (y), 2 (x)
  std::size_t grid = 0;    ///< grid of fields, positions and texts
  /// Field with these steps; null: they are the dataset's.
  const FieldContents* field = nullptr;
  Shape shape;
  Shape chunks;
  std::string dtype;
  std::vector<std::string> dimensions;
  bool has_steps = false;                    ///< a field whose first dimension is that of the steps
  std::shared_ptr<const std::string> texts;  ///< the only chunk of texts; null: of numbers

  /// Chunks along each dimension; nothing: the array has no chunk.
  std::optional<Shape> chunk_counts() const;
  /// [bytes] of a number.
  std::uint64_t sample_bytes() const;
  /// [bytes] of each chunk; those at the end are padded.
  std::uint64_t chunk_bytes() const;
};

/// Arrays, and the documents of arrays and groups, by their paths in a hierarchy.
using Arrays = std::map<std::string, Array, std::less<>>;
using Documents = std::map<std::string, std::shared_ptr<const std::string>, std::less<>>;

/// A chunk that exists.
struct Chunk {
  const Array* array = nullptr;
  const GridDescription* grid = nullptr;  ///< grid of the array
  Shape index;

  /// Its samples that the array has: half-open.
  Shape begin() const;
  Shape end() const;
  /// The step that a chunk of a field shows.
  const HeldStep& step() const;
  /// Numbers of a field's chunk along z, y, x out of those along its dimensions. Axes that the grid lacks
  /// have `value`.
  std::array<std::uint64_t, 3> AlongAxes(const Shape& of_dimensions, std::uint64_t value) const;
};

/// The question whose answer has the samples of a field's chunk. Damage must be an error, never samples.
struct ChunkQuestion {
  std::string field;
  std::uint64_t step = 0;
  int level = 0;
  int layer = 0;
  Box box;  ///< level-0 samples
};

/// Value of a key, or where it comes from.
struct Entry {
  std::shared_ptr<const std::string> value;  ///< a document, or a chunk of texts; null: a chunk of numbers
  Chunk chunk;                               ///< without an array: a document
  std::string tag;                           ///< in quotes; another one where the bytes are others
  std::uint64_t size = 0;

  bool is_document() const { return chunk.array == nullptr; }
  /// Whether it has samples of a field, which have to be read.
  bool is_of_field() const { return !is_document() && chunk.array->kind == Array::Kind::kField; }
};

/// Children of a path: names, then the numbers from 0 to `chunks`.
struct Folder {
  std::vector<std::string> names;
  std::uint64_t chunks = 0;
};

/// Immutable; thread-safe.
class Hierarchy {
 public:
  explicit Hierarchy(Contents contents);
  Hierarchy(const Hierarchy&) = delete;
  Hierarchy& operator=(const Hierarchy&) = delete;

  /// Nothing: there is no such key.
  std::optional<Entry> Find(std::string_view key) const;

  /// @param path  without a slash at its ends; empty: the root
  /// @returns an empty folder if there is none
  Folder List(std::string_view path) const;

  ChunkQuestion QuestionOf(const Chunk& chunk) const;

  /// Appends numbers [begin, end) of a chunk of coordinates, counted from its first one, padding included.
  void AppendCoordinates(const Chunk& chunk, std::uint64_t begin, std::uint64_t end, std::string* to) const;

  const Contents& contents() const { return contents_; }
  /// [bytes] in memory, about.
  std::uint64_t bytes() const { return bytes_; }

 private:
  using AxisNames = std::vector<std::array<std::string, 3>>;  ///< see DimensionNames

  void MakeArrays();
  void AddField(std::size_t number, int level, const AxisNames& names);
  void AddTexts(int level, const AxisNames& names);
  void AddPositions(int level, const AxisNames& names);
  void AddSteps(const FieldContents* field, int level);
  const std::vector<HeldStep>& StepsOf(const FieldContents* field) const;
  static Folder ListArray(const Array& array, std::span<const std::string_view> below);
  std::string TagOf(const Chunk& chunk, std::string_view key) const;

  const Contents contents_;
  std::uint64_t steps_checksum_ = 0;
  Arrays arrays_;
  Documents documents_;
  std::uint64_t bytes_ = 0;
};

/// Names of the arrays of DatasetDescription::texts: the name of their dimension if the dataset calls them as
/// their axis, otherwise the name in the dataset.
std::vector<std::string> NamesOfTexts(const DatasetDescription& dataset);

/// The shape of chunks of a level, z, y, x: whole patches, one at level 0, and at coarser levels as many as
/// make a chunk of useful size.
Shape ChunkShape(const GridDescription& grid, int level);

}  // namespace quarry::zarr
