#include "quarry/input/coordinates.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "quarry/base/utf8.h"
#include "quarry/format/description_rules.h"
#include "quarry/format/dimension_names.h"

namespace quarry::input::internal {
namespace {

/// Whether a dimension of one sample is neither an axis, nor time, nor chosen.
bool IsDropped(const AxisRoles& roles, const ArrayInfo& array, std::size_t dimension) {
  const bool is_axis = std::ranges::find(roles.grid, std::optional(dimension)) != roles.grid.end();
  return !is_axis && roles.time != dimension && roles.fields != dimension &&
         array.dimensions[dimension].length == 1;
}

/// The axis of an array's grid that another array's dimension is.
std::optional<std::size_t> AxisOf(const ArrayDimension& dimension, const ArrayInfo& array,
                                  const AxisRoles& roles) {
  for (std::size_t a = 0; a < 3; ++a) {
    if (!roles.grid[a]) continue;
    const ArrayDimension& own = array.dimensions[*roles.grid[a]];
    if (!own.name.empty() && own.name == dimension.name && own.length == dimension.length) return a;
  }
  return std::nullopt;
}

/// Dimensions of texts, each with one more of characters.
std::size_t RankOfTexts(const ArrayInfo& array) {
  return array.dimensions.size() - (array.is_characters && !array.dimensions.empty() ? 1 : 0);
}

/// The array that a name in another one's attributes means: a path, or the nearest of that name from its own
/// group upwards.
/// @source CF conventions 1.11, section 2.7
std::optional<std::size_t> FindNamed(const std::vector<ArrayInfo>& arrays, const ArrayInfo& array,
                                     const std::string& name) {
  const auto find = [&](const std::string& path) -> std::optional<std::size_t> {
    const auto found = std::ranges::find(arrays, path, &ArrayInfo::name);
    if (found == arrays.end()) return std::nullopt;
    return static_cast<std::size_t>(found - arrays.begin());
  };
  if (name.starts_with('/')) {
    const auto found = find(name);
    return found ? found : find(name.substr(1));
  }
  for (std::string group = GroupOf(array); !group.empty();) {
    if (const auto found = find(group + name)) return found;
    const std::size_t slash = group.size() < 2 ? std::string::npos : group.rfind('/', group.size() - 2);
    group = slash == std::string::npos ? "" : group.substr(0, slash + 1);
  }
  const auto found = find(name);
  return found ? found : find("/" + name);
}

/// The arrays that the attribute `coordinates` names. Names that mean none go to `unknown`.
std::set<std::size_t> NamedCoordinates(const std::vector<ArrayInfo>& arrays, const ArrayInfo& array,
                                       std::vector<std::string>* unknown) {
  std::set<std::size_t> named;
  std::istringstream words(Text(array.attributes, "coordinates"));
  for (std::string word; words >> word;) {
    if (const auto found = FindNamed(arrays, array, word)) {
      named.insert(*found);
    } else {
      unknown->push_back(word);
    }
  }
  return named;
}

/// Whether rows of characters are the coordinate of an axis: their dimension has their name.
bool NamesAxis(const ArrayInfo& other, const ArrayInfo& array, const AxisRoles& roles) {
  return GroupOf(array).starts_with(GroupOf(other)) && other.kind == ArrayInfo::Kind::kText &&
         other.is_characters && other.dimensions.size() == 2 &&
         other.field == other.dimensions.front().name && AxisOf(other.dimensions.front(), array, roles);
}

class Finding {
 public:
  Finding(const ArrayFile& file, const ArrayInfo& array, const AxisRoles& roles,
          std::vector<std::string>* warnings)
      : file_(file), array_(array), roles_(roles), warnings_(*warnings) {}

  void Take(std::size_t number) {
    const ArrayInfo& other = file_.arrays()[number];
    const bool is_kept = other.kind == ArrayInfo::Kind::kText ? TakeTexts(number) : TakeNumbers(other);
    if (!is_kept) left_.push_back(other.field);
  }

  Result<Beside> Finish() && {
    if (!status_.ok()) return status_;
    if (!left_.empty())
      warnings_.push_back(
          fmt::format("{}: its coordinates {} are not kept; convert them as fields if you need them",
                      array_.name, fmt::join(left_, ", ")));
    return std::move(found_);
  }

 private:
  bool TakeTexts(std::size_t number) {
    const ArrayInfo& other = file_.arrays()[number];
    const std::size_t rank = RankOfTexts(other);
    if (rank > 1) return false;
    TextCoordinate text;
    text.name = other.field;
    if (rank == 1) {
      text.axis = AxisOf(other.dimensions.front(), array_, roles_);
      if (!text.axis) return false;
    }
    const bool is_of_axis = rank == 1 && other.field == other.dimensions.front().name;
    if (!IsUtf8(other.field) || (!is_of_axis && !IsDimensionName(other.field))) return false;
    Result<std::vector<std::string>> texts = file_.ReadTexts(number);
    const auto is_text = [](const std::string& one) { return IsUtf8(one); };
    // A failed read is not a reason to leave it out: other ranks may be able to read it.
    if (!texts.ok() && texts.status().code() != StatusCode::kInvalidArgument)
      status_ = std::move(texts).status().Annotate(other.name);
    if (!texts.ok() || !std::ranges::all_of(*texts, is_text)) return false;
    text.texts = *std::move(texts);
    text.attributes = KeptAttributes(other.attributes, other.name, {}, &warnings_);
    found_.texts.push_back(std::move(text));
    return true;
  }

  bool TakeNumbers(const ArrayInfo& other) {
    if (other.kind != ArrayInfo::Kind::kNumbers || !other.type) return false;
    const auto is_axis = [&](const ArrayDimension& dimension) {
      return AxisOf(dimension, array_, roles_).has_value();
    };
    if (!std::ranges::all_of(other.dimensions, is_axis)) return false;
    found_.arrays.push_back(other.name);
    return true;
  }

  const ArrayFile& file_;
  const ArrayInfo& array_;
  const AxisRoles& roles_;
  std::vector<std::string>& warnings_;
  Beside found_;
  std::vector<std::string> left_;
  Status status_;
};

}  // namespace

Result<TextShape> ShapeOfTexts(const ArrayInfo& array, std::size_t bytes) {
  TextShape shape{1, bytes};
  const std::size_t rank = RankOfTexts(array);
  bool fits = true;
  for (std::size_t d = 0; d < array.dimensions.size(); ++d) {
    std::size_t& of = d < rank ? shape.texts : shape.length;
    const auto length = static_cast<std::uint64_t>(array.dimensions[d].length);
    fits = fits && (length == 0 || of <= kMaxTextBytes / length);
    of = fits ? of * length : of;
  }
  if (fits && shape.texts <= kMaxTexts && (shape.length == 0 || shape.texts <= kMaxTextBytes / shape.length))
    return shape;
  return InvalidArgument("{} has more text than the {} texts and {} bytes that are read", array.name,
                         kMaxTexts, kMaxTextBytes);
}

Result<Beside> FindBeside(const ArrayFile& file, const Conventions& conventions, const ArrayInfo& array,
                          const AxisRoles& roles, std::vector<std::string>* warnings) {
  std::vector<std::string> unknown;
  const std::set<std::size_t> named = NamedCoordinates(file.arrays(), array, &unknown);
  if (!unknown.empty())
    warnings->push_back(
        fmt::format("{}: its coordinates {} are not in the file", array.name, fmt::join(unknown, ", ")));
  std::set<std::size_t> placed;  // they have a place of their own: positions and times
  std::set<std::size_t> dropped;
  std::set<std::size_t> texts;
  for (std::size_t d = 0; d < array.dimensions.size(); ++d) {
    const ArrayDimension& dimension = array.dimensions[d];
    const std::optional<std::size_t> time = conventions.TimeAlong(array, dimension);
    if (time) placed.insert(*time);
    if (!dimension.coordinate || time == dimension.coordinate) continue;
    const bool is_text = file.arrays()[*dimension.coordinate].kind == ArrayInfo::Kind::kText;
    (IsDropped(roles, array, d) ? dropped : is_text ? texts : placed).insert(*dimension.coordinate);
  }
  Finding finding(file, array, roles, warnings);
  for (std::size_t i = 0; i < file.arrays().size(); ++i) {
    const ArrayInfo& other = file.arrays()[i];
    const bool is_moment = other.dimensions.empty() && IsTimeCoordinate(other);
    const bool is_beside = named.contains(i) && !is_moment && !placed.contains(i);
    if (dropped.contains(i) || texts.contains(i) || NamesAxis(other, array, roles) || is_beside)
      finding.Take(i);
  }
  return std::move(finding).Finish();
}

}  // namespace quarry::input::internal
