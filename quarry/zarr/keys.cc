#include "quarry/zarr/keys.h"

#include <algorithm>
#include <utility>

#include "quarry/base/numbers.h"
#include "quarry/base/split.h"

namespace quarry::zarr {
namespace {

/// Takes a part of a path such as layer=0 into a view.
/// @returns whether it is such a part
Result<bool> TakeOption(std::string_view part, View* view) {
  const std::size_t equals = part.find('=');
  if (equals == std::string_view::npos) return false;
  const std::string_view name = part.substr(0, equals);
  const std::string_view value = part.substr(equals + 1);
  if (name == "layer") {
    constexpr std::uint64_t kMost = 1000;
    const std::optional<std::uint64_t> layer = ParseIndex(value);
    if (!layer || *layer > kMost)
      return InvalidArgument("layer={} is not the number of a layer: 0, 1, ...", value);
    view->layer = static_cast<int>(*layer);
    return true;
  }
  if (name == "float32") {
    if (value != "true") return InvalidArgument("float32={} is not float32=true", value);
    view->float32 = true;
    return true;
  }
  if (name != "fields") return false;
  for (const std::string_view field : Split(value, ',')) {
    if (field.empty()) return InvalidArgument("fields={} has an empty name; write fields=NAME,NAME", value);
    view->fields.emplace_back(field);
  }
  return true;
}

constexpr std::string_view kEnding = ".zarr";

/// The dataset and the view in what stands before a key. Behind a view, .zarr means nothing.
Result<Place> Named(std::string_view before, std::string_view key) {
  Place place;
  place.key = std::string(key);
  std::string options;
  while (true) {
    const std::size_t slash = before.rfind('/');
    if (slash == std::string_view::npos) break;
    std::string_view part = before.substr(slash + 1);
    if (options.empty() && part.ends_with(kEnding)) part.remove_suffix(kEnding.size());
    QUARRY_ASSIGN_OR_RETURN(const bool taken, TakeOption(part, &place.view));
    if (!taken) break;
    options += '/';
    options += part;
    before = before.substr(0, slash);
  }
  place.dataset = std::string(before);
  place.hierarchy = place.dataset + options;
  return place;
}

/// How many parts at the end of a path may be the key, the most first.
std::vector<std::size_t> LengthsOfKeys(const std::vector<std::string_view>& parts) {
  std::vector<std::size_t> lengths;
  const std::size_t n = parts.size();
  const auto is_level = [&](std::size_t i) { return ParseIndex(parts[i]).has_value(); };
  if (parts.back() == "zarr.json") {
    if (n > 3 && is_level(n - 3)) lengths.push_back(3);
    if (n > 2 && is_level(n - 2)) lengths.push_back(2);
    lengths.push_back(1);
  }
  // The step, and the axes that the grid has; 1 is a coordinate as well, and 0 a single value that stands
  // still.
  constexpr std::size_t kAxes = 3;
  for (std::size_t length = kAxes + 4; length >= 3; --length) {
    const std::size_t axes = length - 3;
    if (n <= length || parts[n - axes - 1] != "c" || !is_level(n - length)) continue;
    if (std::ranges::all_of(parts.end() - static_cast<std::ptrdiff_t>(axes), parts.end(),
                            [](std::string_view part) { return ParseIndex(part).has_value(); }))
      lengths.push_back(length);
  }
  return lengths;
}

}  // namespace

std::optional<std::uint64_t> ParseIndex(std::string_view text) {
  constexpr std::size_t kMostDigits = 19;
  std::uint64_t number = 0;
  const bool good =
      ReadNumber(text, &number) && text.size() <= kMostDigits && (text.size() == 1 || text.front() != '0');
  return good ? std::optional(number) : std::nullopt;
}

bool IsChunkKey(std::string_view key) { return !key.ends_with("zarr.json"); }

Result<std::vector<Place>> PlacesOf(std::string_view path) {
  const std::vector<std::string_view> parts = Split(path, '/');
  std::vector<Place> places;
  for (const std::size_t length : LengthsOfKeys(parts)) {
    if (length >= parts.size()) continue;
    const auto key = static_cast<std::size_t>(parts[parts.size() - length].data() - path.data());
    QUARRY_ASSIGN_OR_RETURN(Place place, Named(path.substr(0, key - 1), path.substr(key)));
    if (place.dataset.empty()) continue;
    if (place.dataset.ends_with(kEnding) && place.dataset.size() > kEnding.size()) {
      Place without = place;
      without.dataset.resize(place.dataset.size() - kEnding.size());
      without.hierarchy.erase(without.dataset.size(), kEnding.size());
      places.push_back(std::move(without));
    }
    places.push_back(std::move(place));
  }
  return places;
}

}  // namespace quarry::zarr
