#include "server/zarr/hierarchy.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>
#include <span>
#include <utility>

#include "quarry/base/checksum.h"
#include "quarry/base/endian.h"
#include "server/zarr/documents.h"

namespace quarry::server::zarr {
namespace {

namespace pb = ::quarry::v1;

/// The fewest samples of a chunk of a coarse level that there are patches for.
constexpr std::int64_t kChunkSamples = 32 * 32 * 32;
constexpr std::uint64_t kCoordinatesPerChunk = 1 << 20;
/// In tags: another number where the same dataset has other bytes in another version of this program.
constexpr std::uint64_t kLayout = 3;
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

/// A decimal number without leading zeros.
std::optional<std::uint64_t> Index(std::string_view text) {
  constexpr std::size_t kMostDigits = 19;
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool good = error == std::errc() && end == text.data() + text.size() && text.size() <= kMostDigits &&
                    (text.size() == 1 || text.front() != '0');
  return good ? std::optional(number) : std::nullopt;
}

std::vector<std::string_view> Split(std::string_view path) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    parts.push_back(path.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

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

/// [bytes] in memory of texts and of their chunks: level l has text i where i is a multiple of 2^l.
std::uint64_t BytesOfTexts(const DatasetDescription& dataset) {
  const int levels = LevelsOf(dataset);
  std::uint64_t bytes = 0;
  for (const TextCoordinate& coordinate : dataset.texts) {
    for (std::size_t i = 0; i < coordinate.texts.size(); ++i) {
      const auto chunks =
          static_cast<std::uint64_t>(i == 0 ? levels : std::min(levels, std::countr_zero(i) + 1));
      const std::uint64_t size = coordinate.texts[i].size();
      bytes += sizeof(std::string) + size + chunks * (sizeof(std::uint32_t) + size);
    }
  }
  return bytes;
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

bool HasTimes(const std::vector<HeldStep>& steps) {
  return std::ranges::any_of(steps, [](const HeldStep& step) { return !std::isnan(step.time); });
}

}  // namespace

// ---- Contents

int LevelsOf(const DatasetDescription& dataset) {
  int levels = 0;
  for (const GridDescription& grid : dataset.grids) levels = std::max(levels, grid.levels);
  return levels;
}

bool FieldContents::has_times() const { return HasTimes(steps); }

Contents::Contents(const pb::DatasetManifest& message, DatasetDescription description)
    : dataset(std::move(description)),
      manifest(ChecksumOf(message.SerializeAsString())),
      text_bytes(BytesOfTexts(dataset)) {
  for (const FieldDescription& field : dataset.fields)
    fields.push_back(
        {field, {}, std::vector<double>(static_cast<std::size_t>(dataset.GridOf(field).levels), 0)});
}

void Contents::Add(const pb::StepManifest& step) {
  HeldStep held;
  held.step = step.step();
  held.time = step.has_time() ? step.time() : std::numeric_limits<double>::quiet_NaN();
  const auto changes = [](const FieldDescription& field) { return !field.still; };
  bool counts = std::ranges::none_of(dataset.fields, changes);
  for (const pb::FieldStep& said : step.fields()) {
    const auto number = dataset.FindField(said.name());
    counts = counts || (number && changes(dataset.fields[*number]));
  }
  if (counts) steps.push_back(held);
  for (const pb::FieldStep& said : step.fields()) {
    const auto number = dataset.FindField(said.name());
    if (!number) continue;
    FieldContents& field = fields[*number];
    held.missing = said.has_mask();
    held.record = ChecksumOf(said.SerializeAsString());
    field.steps.push_back(held);
    for (const pb::LevelRecord& level : said.levels())
      if (level.level() < field.max_errors.size())
        field.max_errors[level.level()] = std::max(field.max_errors[level.level()], level.max_error());
  }
}

std::uint64_t Contents::bytes() const {
  // An array has a document, and is in that of its group and in that of the root.
  constexpr std::uint64_t kDocuments = 3;
  constexpr std::uint64_t kArray = kDocuments * 1024 + 512;
  // As JSON, attributes may take twice their size.
  const std::uint64_t attributes =
      2 * kDocuments * static_cast<std::uint64_t>(LevelsOf(dataset)) * SizeOfAttributes(dataset);
  std::uint64_t held = steps.size();
  for (const FieldContents& field : fields) held += field.steps.size();
  std::uint64_t positions = 0;
  for (const GridDescription& grid : dataset.grids)
    for (const auto& axis : grid.coordinates) positions += axis.size();
  const std::uint64_t arrays = static_cast<std::uint64_t>(LevelsOf(dataset)) *
                               (3 * fields.size() + kAxes * dataset.grids.size() + dataset.texts.size() + 2);
  return held * 2 * sizeof(HeldStep) + positions * sizeof(double) + text_bytes + arrays * kArray + attributes;
}

// ---- Arrays

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
  for (const HeldStep& step : contents_.steps) {
    Append(step.step, &steps);
    Append(step.time, &steps);
  }
  for (const FieldContents& field : contents_.fields) {
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
  const AxisNames names = NamesOfDimensions(contents_.dataset).axes;
  const auto moves = [](const FieldContents& field) { return !field.description.still; };
  const bool has_steps = contents_.fields.empty() || std::ranges::any_of(contents_.fields, moves);
  for (int level = 0; level < LevelsOf(contents_.dataset); ++level) {
    for (std::size_t i = 0; i < contents_.fields.size(); ++i) AddField(i, level, names);
    // Texts that are called as their dimension are its coordinate, and positions are not.
    AddTexts(level, names);
    AddPositions(level, names);
    if (has_steps) AddSteps(nullptr, level);
    for (const FieldContents& field : contents_.fields)
      if (moves(field)) AddSteps(&field, level);
  }
}

void Hierarchy::AddField(std::size_t number, int level, const AxisNames& names) {
  const FieldContents& field = contents_.fields[number];
  const GridDescription& grid = contents_.dataset.GridOf(field.description);
  if (!HasLevel(grid, level)) return;
  Array array;
  array.level = level;
  array.number = number;
  array.grid = field.description.grid;
  array.field = &field;
  array.has_steps = !field.description.still;
  if (array.has_steps) {
    array.shape = {field.steps.size()};
    array.chunks = {1};
    array.dimensions = {StepNamesOf(contents_, &field).dimension};
  }
  array.dtype = field.description.given_type();
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
  const std::vector<TextCoordinate>& texts = contents_.dataset.texts;
  const std::vector<std::string> called = NamesOfTexts(contents_.dataset);
  const auto dimensions = DimensionsOf(contents_.dataset, names, level);
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
      const std::int64_t samples = contents_.dataset.grids[array.grid].dims[*texts[i].axis];
      array.shape = array.chunks = {static_cast<std::uint64_t>(LevelExtent(samples, level))};
      array.dimensions = {dimension};
    }
    array.texts = std::make_shared<const std::string>(ChunkOfTexts(texts[i].texts, level));
    arrays_.try_emplace(fmt::format("{}/{}", level, called[i]), std::move(array));
  }
}

void Hierarchy::AddPositions(int level, const AxisNames& names) {
  const std::vector<GridDescription>& grids = contents_.dataset.grids;
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

/// @param field  see Array
void Hierarchy::AddSteps(const FieldContents* field, int level) {
  const std::vector<HeldStep>& steps = field == nullptr ? contents_.steps : field->steps;
  const StepNames names = StepNamesOf(contents_, field);
  const auto add = [&](Array::Kind kind, const std::string& name, std::string dtype) {
    Array array = Coordinate(kind, level, steps.size(), std::move(dtype), names.dimension);
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
  const std::vector<std::string_view> parts = Split(key);
  if (parts.size() < 3 || parts[2] != "c") return std::nullopt;
  const auto found = arrays_.find(fmt::format("{}/{}", parts[0], parts[1]));
  if (found == arrays_.end() || parts.size() - 3 != found->second.shape.size()) return std::nullopt;
  entry.chunk.array = &found->second;
  entry.chunk.grid = &contents_.dataset.grids[found->second.grid];
  for (std::size_t a = 0; a < found->second.shape.size(); ++a) {
    const std::optional<std::uint64_t> i = Index(parts[a + 3]);
    const std::uint64_t chunk = found->second.chunks[a];
    if (!i || *i >= found->second.shape[a] / chunk + (found->second.shape[a] % chunk != 0 ? 1 : 0))
      return std::nullopt;
    entry.chunk.index.push_back(*i);
  }
  const bool is_declared_alone = !found->second.has_steps && found->second.field->steps.empty();
  if (is_declared_alone) return std::nullopt;
  entry.tag = TagOf(entry.chunk, key);
  entry.size = entry.chunk.array->chunk_bytes();
  entry.value = entry.chunk.array->texts;
  return entry;
}

std::string Hierarchy::TagOf(const Chunk& chunk, std::string_view key) const {
  const bool of_field = chunk.array->kind == Array::Kind::kField;
  const std::uint64_t version = of_field ? chunk.step().record : steps_checksum_;
  const std::uint64_t step = of_field ? chunk.step().step : 0;
  return Tag(ChecksumOf({kLayout, contents_.manifest, version, step}, key));
}

pb::ReadRequest Hierarchy::QuestionOf(const Chunk& chunk, const std::string& dataset) const {
  const GridDescription& grid = *chunk.grid;
  const auto begin = chunk.AlongAxes(chunk.begin(), 0);
  const auto end = chunk.AlongAxes(chunk.end(), 1);
  const int level = std::min(chunk.array->level, grid.levels - 1);
  pb::ReadRequest request;
  pb::ReadQuery* const query = request.mutable_query();
  query->set_dataset(dataset);
  query->set_field(chunk.array->field->description.name);
  query->set_step(chunk.step().step);
  query->set_level(static_cast<std::uint32_t>(level));
  query->set_strict(true);
  for (std::size_t a = 0; a < kAxes; ++a) {
    const std::size_t number = 2 - a;
    const auto last = std::min<std::uint64_t>(end[number] << level, static_cast<std::uint64_t>(grid.dims[a]));
    query->mutable_box()->add_begin(static_cast<std::uint32_t>(begin[number] << level));
    query->mutable_box()->add_end(static_cast<std::uint32_t>(last));
  }
  return request;
}

void Hierarchy::AppendCoordinates(const Chunk& chunk, std::uint64_t begin, std::uint64_t end,
                                  std::string* to) const {
  const Array& array = *chunk.array;
  const std::vector<HeldStep>& steps = array.field == nullptr ? contents_.steps : array.field->steps;
  const GridDescription& grid = contents_.dataset.grids[array.grid];
  const std::size_t axis = 2 - std::min<std::size_t>(array.number, 2);
  for (std::uint64_t i = chunk.begin()[0] + begin; i < chunk.begin()[0] + end; ++i) {
    const bool inside = i < array.shape[0];
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

// ---- Keys

bool IsChunkKey(std::string_view key) { return !key.ends_with("zarr.json"); }

std::vector<Place> PlacesOf(std::string_view path) {
  const std::vector<std::string_view> parts = Split(path);
  // How many parts at the end may be the key, the most first.
  std::vector<std::size_t> lengths;
  const std::size_t n = parts.size();
  const auto is_level = [&](std::size_t i) { return Index(parts[i]).has_value(); };
  if (parts.back() == "zarr.json") {
    if (n > 3 && is_level(n - 3)) lengths.push_back(3);
    if (n > 2 && is_level(n - 2)) lengths.push_back(2);
    lengths.push_back(1);
  }
  // The step, and the axes that the grid has; 1 is a coordinate as well, and 0 a single value that stands
  // still.
  for (std::size_t length = kAxes + 4; length >= 3; --length) {
    const std::size_t axes = length - 3;
    if (n <= length || parts[n - axes - 1] != "c" || !is_level(n - length)) continue;
    if (std::ranges::all_of(parts.end() - static_cast<std::ptrdiff_t>(axes), parts.end(),
                            [](std::string_view part) { return Index(part).has_value(); }))
      lengths.push_back(length);
  }
  std::vector<Place> places;
  for (const std::size_t length : lengths) {
    if (length >= n) continue;
    const std::size_t key = static_cast<std::size_t>(parts[n - length].data() - path.data());
    const std::string dataset(path.substr(0, key - 1));
    if (dataset.empty()) continue;
    constexpr std::string_view kEnding = ".zarr";
    if (dataset.ends_with(kEnding) && dataset.size() > kEnding.size())
      places.push_back({dataset.substr(0, dataset.size() - kEnding.size()), std::string(path.substr(key))});
    places.push_back({dataset, std::string(path.substr(key))});
  }
  return places;
}

}  // namespace quarry::server::zarr
