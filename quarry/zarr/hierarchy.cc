#include "quarry/zarr/hierarchy.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <set>
#include <span>
#include <utility>

#include "quarry/base/checksum.h"
#include "quarry/base/endian.h"
#include "quarry/base/split.h"
#include "quarry/geometry/patch_grid.h"
#include "quarry/zarr/documents.h"
#include "quarry/zarr/keys.h"

namespace quarry::zarr {
namespace {

/// The fewest samples of a chunk of a coarse level that there are patches for.
constexpr std::int64_t kChunkSamples = 32 * 32 * 32;
constexpr std::uint64_t kCoordinatesPerChunk = 1 << 20;
/// In tags: another number where the same dataset has other bytes in another version of this program.
constexpr std::uint64_t kLayout = 4;
constexpr std::size_t kAxes = 3;

std::uint64_t ChecksumOf(std::string_view text) { return Checksum(std::as_bytes(std::span(text))); }

std::uint64_t ChecksumOf(std::initializer_list<std::uint64_t> numbers, std::string_view text) {
  std::string bytes(text);
  for (const std::uint64_t number : numbers)
    for (int shift = 0; shift < 64; shift += 8) bytes += static_cast<char>(number >> shift & 0xff);
  return ChecksumOf(bytes);
}

std::string Tag(std::uint64_t checksum) { return fmt::format("\"{}\"", ChecksumText(checksum)); }

std::uint64_t Product(const Shape& shape) {
  std::uint64_t product = 1;
  for (const std::uint64_t n : shape) product *= n;
  return product;
}

Shape LevelShapeOf(const GridDescription& grid, int level) {
  Shape shape;
  for (std::size_t number = 0; number < kAxes; ++number)
    shape.push_back(static_cast<std::uint64_t>(LevelExtent(grid.dims[2 - number], level)));
  return shape;
}

/// Whether a level shows a grid: a single sample is that of every level.
bool HasLevel(const GridDescription& grid, int level) { return level < grid.levels || grid.samples() == 1; }

template <typename T>
void Append(T value, std::string* to) {
  if constexpr (std::endian::native == std::endian::big) value = ByteSwapped(value);
  to->append(reinterpret_cast<const char*>(&value), sizeof(T));
}

Array Coordinate(Array::Kind kind, int level, std::uint64_t length, std::string dtype,
                 std::string dimension) {
  Array array;
  array.kind = kind;
  array.level = level;
  array.shape = {length};
  array.chunks = {std::min(std::max<std::uint64_t>(length, 1), kCoordinatesPerChunk)};
  array.dtype = std::move(dtype);
  array.dimensions = {std::move(dimension)};
  return array;
}

/// Every 2^level-th of the texts, as the codec vlen-utf8 has them: how many there are, and for each how many
/// bytes it has, and these; numbers are of 32 bits.
/// @source numcodecs 0.16, vlen.pyx
std::string ChunkOfTexts(const std::vector<std::string>& texts, int level) {
  const std::size_t stride = std::size_t{1} << level;
  std::string chunk;
  Append(static_cast<std::uint32_t>((texts.size() - 1) / stride + 1), &chunk);
  for (std::size_t i = 0; i < texts.size(); i += stride) {
    Append(static_cast<std::uint32_t>(texts[i].size()), &chunk);
    chunk += texts[i];
  }
  return chunk;
}

/// The dimensions of the grids that a level shows.
std::set<std::string, std::less<>> DimensionsOf(const DatasetDescription& dataset,
                                                const std::vector<std::array<std::string, 3>>& names,
                                                int level) {
  std::set<std::string, std::less<>> dimensions;
  for (std::size_t g = 0; g < dataset.grids.size(); ++g) {
    if (!HasLevel(dataset.grids[g], level)) continue;
    for (std::size_t axis = 0; axis < kAxes; ++axis)
      if (dataset.grids[g].has_axis[axis]) dimensions.insert(names[g][axis]);
  }
  return dimensions;
}

/// Whether the numbers of the steps say no more than their places.
bool CountsFromZero(const std::vector<HeldStep>& steps) {
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].step != i) return false;
  }
  return true;
}

}  // namespace

// ---- Arrays

std::optional<Shape> Array::chunk_counts() const {
  // A declared field without a dimension of steps may be in no step yet.
  if (kind == Kind::kField && field->steps.empty()) return std::nullopt;
  Shape counts;
  for (std::size_t a = 0; a < shape.size(); ++a) {
    if (shape[a] == 0) return std::nullopt;
    counts.push_back((shape[a] - 1) / chunks[a] + 1);
  }
  return counts;
}

std::uint64_t Array::sample_bytes() const {
  if (dtype.ends_with("64")) return 8;
  return dtype.ends_with("32") ? 4 : dtype.ends_with("16") ? 2 : 1;
}

std::uint64_t Array::chunk_bytes() const { return texts ? texts->size() : Product(chunks) * sample_bytes(); }

Shape Chunk::begin() const {
  Shape begin;
  for (std::size_t a = 0; a < index.size(); ++a) begin.push_back(index[a] * array->chunks[a]);
  return begin;
}

Shape Chunk::end() const {
  Shape end;
  for (std::size_t a = 0; a < index.size(); ++a)
    end.push_back(std::min((index[a] + 1) * array->chunks[a], array->shape[a]));
  return end;
}

const HeldStep& Chunk::step() const { return array->field->steps[array->has_steps ? index[0] : 0]; }

std::array<std::uint64_t, 3> Chunk::AlongAxes(const Shape& of_dimensions, std::uint64_t value) const {
  std::array<std::uint64_t, 3> along{};
  std::size_t dimension = array->has_steps ? 1 : 0;
  for (std::size_t number = 0; number < kAxes; ++number)
    along[number] = grid->has_axis[2 - number] ? of_dimensions[dimension++] : value;
  return along;
}

Shape ChunkShape(const GridDescription& grid, int level) {
  const Shape shape = LevelShapeOf(grid, level);
  Shape chunk;
  std::int64_t enough = 1;
  for (std::size_t number = 0; number < kAxes; ++number) {
    const std::int64_t patch = grid.patch[2 - number];
    chunk.push_back(static_cast<std::uint64_t>(std::max<std::int64_t>(patch >> level, 1)));
    enough *= std::min(patch, grid.dims[2 - number]);
  }
  enough = std::min(enough, kChunkSamples);
  const auto inside = [&] {
    Shape part;
    for (std::size_t a = 0; a < kAxes; ++a) part.push_back(std::min(chunk[a], shape[a]));
    return part;
  };
  while (Product(inside()) < static_cast<std::uint64_t>(enough) && inside() != shape)
    for (std::uint64_t& n : chunk) n *= 2;
  // A chunk that is all there is along an axis need not be padded.
  return inside();
}

// ---- The hierarchy

Hierarchy::Hierarchy(Contents contents) : contents_(std::move(contents)) {
  std::string steps;
  for (const HeldStep& step : contents_.steps()) {
    Append(step.step, &steps);
    Append(step.time, &steps);
  }
  for (const FieldContents& field : contents_.fields()) {
    for (const HeldStep& step : field.steps) Append(step.step, &steps);
    Append(std::uint64_t{field.steps.size()}, &steps);
  }
  steps_checksum_ = ChecksumOf(steps);
  MakeArrays();
  documents_ = MakeDocuments(contents_, arrays_);
  bytes_ = contents_.bytes();
}

std::vector<std::string> NamesOfTexts(const DatasetDescription& dataset) {
  const auto axes = NamesOfDimensions(dataset).axes;
  std::vector<std::string> names;
  for (const TextCoordinate& text : dataset.texts) {
    const bool is_axis = text.axis && dataset.grids[text.grid].axis_names[*text.axis] == text.name;
    names.push_back(is_axis ? axes[text.grid][*text.axis] : text.name);
  }
  return names;
}

void Hierarchy::MakeArrays() {
  const AxisNames names = NamesOfDimensions(contents_.dataset()).axes;
  const auto moves = [](const FieldContents& field) { return !field.description.still; };
  const bool has_steps = contents_.fields().empty() || std::ranges::any_of(contents_.fields(), moves);
  for (int level = 0; level < LevelsOf(contents_.dataset()); ++level) {
    for (std::size_t i = 0; i < contents_.fields().size(); ++i) AddField(i, level, names);
    // Texts that are called as their dimension are its coordinate, and positions are not.
    AddTexts(level, names);
    AddPositions(level, names);
    if (has_steps) AddSteps(nullptr, level);
    for (const FieldContents& field : contents_.fields())
      if (moves(field)) AddSteps(&field, level);
  }
}

void Hierarchy::AddField(std::size_t number, int level, const AxisNames& names) {
  const FieldContents& field = contents_.fields()[number];
  const GridDescription& grid = contents_.dataset().GridOf(field.description);
  if (!HasLevel(grid, level)) return;
  Array array;
  array.level = level;
  array.number = number;
  array.grid = field.description.grid;
  array.field = &field;
  array.has_steps = !field.description.still && contents_.has_step_dimension();
  if (array.has_steps) {
    array.shape = {field.steps.size()};
    array.chunks = {1};
    array.dimensions = {StepNamesOf(contents_, &field).dimension};
  }
  array.dtype = field.dtype();
  const Shape shape = LevelShapeOf(grid, level);
  const Shape chunks = ChunkShape(grid, level);
  for (std::size_t a = 0; a < kAxes; ++a) {
    if (!grid.has_axis[2 - a]) continue;
    array.shape.push_back(shape[a]);
    array.chunks.push_back(chunks[a]);
    array.dimensions.push_back(names[array.grid][2 - a]);
  }
  arrays_[fmt::format("{}/{}", level, field.description.name)] = std::move(array);
}

void Hierarchy::AddTexts(int level, const AxisNames& names) {
  const std::vector<TextCoordinate>& texts = contents_.dataset().texts;
  const std::vector<std::string> called = NamesOfTexts(contents_.dataset());
  const auto dimensions = DimensionsOf(contents_.dataset(), names, level);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    Array array;
    array.kind = Array::Kind::kTexts;
    array.level = level;
    array.number = i;
    array.grid = texts[i].grid;
    array.dtype = "string";
    if (texts[i].axis) {
      const std::string& dimension = names[array.grid][*texts[i].axis];
      // As positions, they are there where a grid has the dimension.
      if (!dimensions.contains(dimension)) continue;
      const std::int64_t samples = contents_.dataset().grids[array.grid].dims[*texts[i].axis];
      array.shape = array.chunks = {static_cast<std::uint64_t>(LevelExtent(samples, level))};
      array.dimensions = {dimension};
    }
    array.texts = std::make_shared<const std::string>(ChunkOfTexts(texts[i].texts, level));
    arrays_.try_emplace(fmt::format("{}/{}", level, called[i]), std::move(array));
  }
}

void Hierarchy::AddPositions(int level, const AxisNames& names) {
  const std::vector<GridDescription>& grids = contents_.dataset().grids;
  for (std::size_t g = 0; g < grids.size(); ++g) {
    if (!HasLevel(grids[g], level)) continue;
    const Shape shape = LevelShapeOf(grids[g], level);
    for (std::size_t number = 0; number < kAxes; ++number) {
      const std::size_t axis = 2 - number;
      if (!grids[g].has_axis[axis] || grids[g].unplaced[axis]) continue;
      Array array = Coordinate(Array::Kind::kPositions, level, shape[number], "float64", names[g][axis]);
      array.number = number;
      array.grid = g;
      arrays_.try_emplace(fmt::format("{}/{}", level, names[g][axis]), std::move(array));
    }
  }
}

const std::vector<HeldStep>& Hierarchy::StepsOf(const FieldContents* field) const {
  return field == nullptr ? contents_.steps() : field->steps;
}

/// @param field  see Array
void Hierarchy::AddSteps(const FieldContents* field, int level) {
  const std::vector<HeldStep>& steps = StepsOf(field);
  if (steps.empty() && !contents_.has_step_dimension()) return;
  const StepNames names = StepNamesOf(contents_, field);
  const auto add = [&](Array::Kind kind, const std::string& name, std::string dtype) {
    Array array = Coordinate(kind, level, steps.size(), std::move(dtype), names.dimension);
    if (!contents_.has_step_dimension()) {
      array.shape.clear();
      array.chunks.clear();
      array.dimensions.clear();
    }
    array.field = field;
    arrays_[fmt::format("{}/{}", level, name)] = std::move(array);
  };
  const bool is_signed = steps.empty() || steps.back().step < std::uint64_t{1} << 63;
  if (names.numbers == names.dimension || !CountsFromZero(steps))
    add(Array::Kind::kSteps, names.numbers, is_signed ? "int64" : "uint64");
  if (HasTimes(steps)) add(Array::Kind::kTimes, names.times, "float64");
}

std::optional<Entry> Hierarchy::Find(std::string_view key) const {
  Entry entry;
  if (const auto found = documents_.find(key); found != documents_.end()) {
    entry.value = found->second;
    entry.size = entry.value->size();
    entry.tag = Tag(ChecksumOf(*entry.value));
    return entry;
  }
  const std::vector<std::string_view> parts = Split(key, '/');
  if (parts.size() < 3 || parts[2] != "c") return std::nullopt;
  const auto found = arrays_.find(fmt::format("{}/{}", parts[0], parts[1]));
  if (found == arrays_.end() || parts.size() - 3 != found->second.shape.size()) return std::nullopt;
  const std::optional<Shape> counts = found->second.chunk_counts();
  if (!counts) return std::nullopt;
  entry.chunk.array = &found->second;
  entry.chunk.grid = &contents_.dataset().grids[found->second.grid];
  for (std::size_t a = 0; a < counts->size(); ++a) {
    const std::optional<std::uint64_t> i = ParseIndex(parts[a + 3]);
    if (!i || *i >= (*counts)[a]) return std::nullopt;
    entry.chunk.index.push_back(*i);
  }
  entry.tag = TagOf(entry.chunk, key);
  entry.size = entry.chunk.array->chunk_bytes();
  entry.value = entry.chunk.array->texts;
  return entry;
}

Folder Hierarchy::List(std::string_view path) const {
  Folder folder;
  const auto levels = static_cast<std::uint64_t>(LevelsOf(contents_.dataset()));
  if (path.empty()) {
    folder.names.emplace_back("zarr.json");
    folder.chunks = levels;
    return folder;
  }
  const std::vector<std::string_view> parts = Split(path, '/');
  const std::optional<std::uint64_t> level = ParseIndex(parts[0]);
  if (!level || *level >= levels) return folder;
  if (parts.size() == 1) {
    folder.names.emplace_back("zarr.json");
    const std::string prefix = fmt::format("{}/", *level);
    for (auto it = arrays_.lower_bound(prefix); it != arrays_.end() && it->first.starts_with(prefix); ++it)
      folder.names.push_back(it->first.substr(prefix.size()));
    return folder;
  }
  const auto found = arrays_.find(fmt::format("{}/{}", parts[0], parts[1]));
  return found == arrays_.end() ? folder : ListArray(found->second, std::span(parts).subspan(2));
}

/// @param below  the parts of the path behind that of the array
Folder Hierarchy::ListArray(const Array& array, std::span<const std::string_view> below) {
  const std::optional<Shape> counts = array.chunk_counts();
  if (below.empty()) {
    if (!counts) return {{"zarr.json"}, 0};
    return {{"zarr.json", "c"}, 0};
  }
  if (!counts || below[0] != "c" || below.size() > counts->size()) return {};
  for (std::size_t a = 0; a + 1 < below.size(); ++a) {
    const std::optional<std::uint64_t> i = ParseIndex(below[a + 1]);
    if (!i || *i >= (*counts)[a]) return {};
  }
  return {{}, (*counts)[below.size() - 1]};
}

std::string Hierarchy::TagOf(const Chunk& chunk, std::string_view key) const {
  const bool of_field = chunk.array->kind == Array::Kind::kField;
  const std::uint64_t version = of_field ? chunk.step().record : steps_checksum_;
  const std::uint64_t step = of_field ? chunk.step().step : 0;
  return Tag(ChecksumOf({kLayout, contents_.checksum(), version, step}, key));
}

ChunkQuestion Hierarchy::QuestionOf(const Chunk& chunk) const {
  const GridDescription& grid = *chunk.grid;
  const auto begin = chunk.AlongAxes(chunk.begin(), 0);
  const auto end = chunk.AlongAxes(chunk.end(), 1);
  ChunkQuestion question;
  question.field = chunk.array->field->description.name;
  question.step = chunk.step().step;
  question.level = std::min(chunk.array->level, grid.levels - 1);
  question.layer = chunk.array->field->layer;
  for (std::size_t a = 0; a < kAxes; ++a) {
    const std::size_t number = 2 - a;
    question.box.begin[a] = static_cast<std::int64_t>(begin[number] << question.level);
    question.box.end[a] = std::min(static_cast<std::int64_t>(end[number] << question.level), grid.dims[a]);
  }
  return question;
}

void Hierarchy::AppendCoordinates(const Chunk& chunk, std::uint64_t begin, std::uint64_t end,
                                  std::string* to) const {
  const Array& array = *chunk.array;
  const std::vector<HeldStep>& steps = StepsOf(array.field);
  const GridDescription& grid = contents_.dataset().grids[array.grid];
  const std::size_t axis = 2 - std::min<std::size_t>(array.number, 2);
  // A coordinate without a dimension has one number.
  const std::uint64_t first = chunk.index.empty() ? 0 : chunk.begin()[0];
  const std::uint64_t length = array.shape.empty() ? 1 : array.shape[0];
  for (std::uint64_t i = first + begin; i < first + end; ++i) {
    const bool inside = i < length;
    if (array.kind == Array::Kind::kSteps) {
      Append(inside ? steps[i].step : std::uint64_t{0}, to);
      continue;
    }
    double value = std::numeric_limits<double>::quiet_NaN();
    if (inside && array.kind == Array::Kind::kTimes) value = steps[i].time;
    if (inside && array.kind == Array::Kind::kPositions) {
      value = PositionOf(grid, axis, static_cast<std::int64_t>(i << array.level));
    }
    Append(value, to);
  }
}

}  // namespace quarry::zarr
