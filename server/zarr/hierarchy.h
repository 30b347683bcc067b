#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "quarry/format/description.h"
#include "quarry/v1/service.pb.h"

/// A dataset as the keys and values of a Zarr hierarchy (format 3). Pure functions: nothing here asks a
/// server or a file. The same as the Python package's _zarr_contents.py, key by key:
///
///     zarr.json                      the root: fields as multiscale images, and the metadata of everything
///     below L/zarr.json                    a group for each level L/FIELD/zarr.json              an array
///     over [step, z, y, x] for each field L/FIELD/c/S/Z/Y/X              its chunks L/z, L/y, L/x, L/step,
///     L/time  coordinates, likewise; axes are called as NamesOfDimensions calls them L/TEXT texts, likewise
///
/// An axis that the grid of a field lacks is left out of its array, and so are the steps of a field that
/// stands still. An axis whose positions nobody has said has none.
///
/// docs/decisions/zarr-xarray-export.md says why chunks and dimensions are what they are.
namespace quarry::server::zarr {

/// Along the axes of an array, the slowest first: z, y, x of a grid.
using Shape = std::vector<std::uint64_t>;

/// A step that holds a field.
struct HeldStep {
  std::uint64_t step = 0;
  double time = 0;           ///< NaN: not known
  bool missing = false;      ///< samples of it are missing
  std::uint64_t record = 0;  ///< checksum of what step.json says of the field, which has those of its files
};

/// Levels of the grid that has the most.
int LevelsOf(const DatasetDescription& dataset);

/// A field, and the steps that hold it.
struct FieldContents {
  FieldDescription description;
  std::vector<HeldStep> steps;
  std::vector<double> max_errors;  ///< of each level, the largest of all steps

  bool has_times() const;
};

/// Everything that the hierarchy is made from.
struct Contents {
  DatasetDescription dataset;
  std::uint64_t manifest = 0;  ///< checksum
  std::vector<FieldContents> fields;
  std::vector<HeldStep> steps;   ///< that hold a field which changes with time; all, if none does
  std::uint64_t text_bytes = 0;  ///< in memory, of the texts and of their chunks

  explicit Contents(const ::quarry::v1::DatasetManifest& manifest, DatasetDescription description);
  /// In ascending order. Fields that were declared since are left out.
  void Add(const ::quarry::v1::StepManifest& step);
  /// [bytes] in memory, about, with the documents that are made from it.
  std::uint64_t bytes() const;
};

/// An array of the hierarchy.
struct Array {
  enum class Kind { kField, kPositions, kSteps, kTimes, kTexts };

  Kind kind = Kind::kField;
  int level = 0;
  std::size_t number = 0;  ///< of the field, of the texts, or of the axis: 0 (z), 1 (y), 2 (x)
  std::size_t grid = 0;    ///< of fields, positions and texts
  /// Whose steps they are; null: the dataset's.
  const FieldContents* field = nullptr;
  Shape shape;
  Shape chunks;
  std::string dtype;
  std::vector<std::string> dimensions;
  bool has_steps = true;  ///< the first dimension is that of the steps; a field that stands still has none
  std::shared_ptr<const std::string> texts;  ///< the only chunk of texts; null: of numbers

  /// [bytes] Of a number, and of each chunk; those at the end are padded.
  std::uint64_t sample_bytes() const;
  std::uint64_t chunk_bytes() const;
};

/// A chunk that exists.
struct Chunk {
  const Array* array = nullptr;
  const GridDescription* grid = nullptr;  ///< of the array
  Shape index;

  /// Its samples that the array has: half-open.
  Shape begin() const;
  Shape end() const;
  /// Of a field: the step that it shows.
  const HeldStep& step() const;
  /// Numbers of a field's chunk along z, y, x out of those along its dimensions. Axes that the grid lacks
  /// have `value`.
  std::array<std::uint64_t, 3> AlongAxes(const Shape& of_dimensions, std::uint64_t value) const;
};

/// What a key leads to.
struct Entry {
  std::shared_ptr<const std::string> value;  ///< a document, or a chunk of texts; null: a chunk of numbers
  Chunk chunk;                               ///< without an array: a document
  std::string tag;                           ///< in quotes; another one where the bytes are others
  std::uint64_t size = 0;

  bool is_document() const { return chunk.array == nullptr; }
};

/// Immutable; thread-safe.
class Hierarchy {
 public:
  explicit Hierarchy(Contents contents);
  Hierarchy(const Hierarchy&) = delete;
  Hierarchy& operator=(const Hierarchy&) = delete;

  /// Nothing: there is no such key.
  std::optional<Entry> Find(std::string_view key) const;

  /// The question whose answer has the samples of a field's chunk. @param dataset  its name
  ::quarry::v1::ReadRequest QuestionOf(const Chunk& chunk, const std::string& dataset) const;

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
  std::string TagOf(const Chunk& chunk, std::string_view key) const;

  const Contents contents_;
  std::uint64_t steps_checksum_ = 0;
  std::map<std::string, Array, std::less<>> arrays_;  ///< by path
  std::map<std::string, std::shared_ptr<const std::string>, std::less<>> documents_;
  std::uint64_t bytes_ = 0;
};

/// The dataset and the key that a path below /zarr/ may mean. Names of datasets may have slashes, and may end
/// in .zarr, which many readers want. The likeliest comes first; none: no key looks like this.
struct Place {
  std::string dataset;
  std::string key;
};
std::vector<Place> PlacesOf(std::string_view path);

/// Whether a key is that of a chunk, of whatever array.
bool IsChunkKey(std::string_view key);

/// What the arrays of DatasetDescription::texts are called: as their dimension if the dataset calls them as
/// their axis, otherwise as the dataset calls them.
std::vector<std::string> NamesOfTexts(const DatasetDescription& dataset);

/// The shape of chunks of a level, z, y, x: whole patches, one at level 0, and at coarser levels as many as
/// make a chunk of useful size.
Shape ChunkShape(const GridDescription& grid, int level);

}  // namespace quarry::server::zarr
