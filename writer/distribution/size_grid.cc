#include "writer/distribution/size_grid.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "quarry/base/status.h"

namespace quarry::distribution {
namespace {

using Json = nlohmann::json;

/// Enough for every real process grid, and too little to exhaust memory.
constexpr std::uint64_t kMaxCells = std::uint64_t{1} << 32;

/// Element of an array of non-negative integers.
std::optional<std::uint64_t> WholeNumber(const Json& value) {
  if (value.is_number_unsigned()) return value.get<std::uint64_t>();
  return std::nullopt;
}

Result<Index3> ParseGridShape(const Json& json, const std::string& where) {
  const Status wrong = InvalidArgument(
      "the shape of the size grid in \"{}\" is {}; it must be three numbers x, y, z, each at least 1", where,
      json.dump());
  if (!json.is_array() || json.size() != 3) return wrong;
  Index3 shape;
  std::uint64_t cells = 1;
  for (std::size_t a = 0; a < 3; ++a) {
    const std::optional<std::uint64_t> n = WholeNumber(json[a]);
    if (!n || *n == 0) return wrong;
    if (*n > kMaxCells / cells) {
      return InvalidArgument("the size grid in \"{}\" has {} cells on its axes; the maximum is {}", where,
                             json.dump(), kMaxCells);
    }
    cells *= *n;
    shape[a] = static_cast<std::int64_t>(*n);
  }
  return shape;
}

/// Where the centre of a new cell lies between two old ones.
struct Between {
  std::int64_t low = 0;
  std::int64_t high = 0;
  double weight = 0;  ///< weight of `high`
};

/// Cell `j` of `m` is centred at (j + 1/2) / m of the axis, which is (j + 1/2) n / m - 1/2 in units of old
/// cells from the first centre: ((2 j + 1) n - m) / (2 m), in integers up to the last step.
Between Locate(std::int64_t j, std::int64_t m, std::int64_t n) {
  const std::int64_t above = (2 * j + 1) * n - m;
  if (above <= 0) return {};
  const std::int64_t low = above / (2 * m);
  if (low >= n - 1) return {n - 1, n - 1, 0};
  return {low, low + 1, static_cast<double>(above % (2 * m)) / static_cast<double>(2 * m)};
}

std::uint64_t Interpolate(const SizeGrid& grid, const std::array<Between, 3>& place) {
  double sum = 0;
  for (unsigned corner = 0; corner < 8; ++corner) {
    Index3 cell;
    double weight = 1;
    for (std::size_t a = 0; a < 3; ++a) {
      const bool high = (corner >> a & 1U) != 0;
      cell[a] = high ? place[a].high : place[a].low;
      weight *= high ? place[a].weight : 1 - place[a].weight;
    }
    if (weight > 0) sum += weight * static_cast<double>(grid.at(cell));
  }
  return static_cast<std::uint64_t>(std::llround(sum));
}

}  // namespace

Result<SizeGrid> ParseSizeGrid(std::string_view json, const std::string& where) {
  const Json report = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (report.is_discarded())
    return InvalidArgument("\"{}\" is not JSON; give a report of quarry-write", where);
  const Json& grid = report.is_object() && report.contains("size_grid") ? report["size_grid"] : report;
  if (!grid.is_object() || !grid.contains("shape") || !grid.contains("bytes")) {
    return InvalidArgument(
        "\"{}\" has no \"size_grid\" with \"shape\" and \"bytes\"; give a report of quarry-write --report",
        where);
  }
  SizeGrid result;
  QUARRY_ASSIGN_OR_RETURN(result.shape, ParseGridShape(grid["shape"], where));
  const Json& bytes = grid["bytes"];
  const std::int64_t cells = Volume(result.shape);
  if (!bytes.is_array() || bytes.size() != static_cast<std::size_t>(cells)) {
    return InvalidArgument("the size grid in \"{}\" has shape {} and so {} cells, but {} sizes", where,
                           ToString(result.shape), cells, bytes.is_array() ? bytes.size() : 0);
  }
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const std::optional<std::uint64_t> size = WholeNumber(bytes[i]);
    // Sums of sizes, and doubles in between, must hold them.
    if (!size || *size > std::uint64_t{1} << 50) {
      return InvalidArgument("size {} of the size grid in \"{}\" is {}; it must be a number of bytes", i,
                             where, bytes[i].dump());
    }
    result.bytes.push_back(*size);
  }
  return result;
}

SizeGrid Extrapolate(const SizeGrid& grid, const Index3& shape) {
  std::array<std::vector<Between>, 3> places;
  for (std::size_t a = 0; a < 3; ++a) {
    for (std::int64_t j = 0; j < shape[a]; ++j) places[a].push_back(Locate(j, shape[a], grid.shape[a]));
  }
  SizeGrid result{shape, {}};
  result.bytes.reserve(static_cast<std::size_t>(Volume(shape)));
  for (const Between& z : places[2]) {
    for (const Between& y : places[1]) {
      for (const Between& x : places[0]) result.bytes.push_back(Interpolate(grid, {x, y, z}));
    }
  }
  return result;
}

}  // namespace quarry::distribution
