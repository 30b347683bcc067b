#include "quarry/input/coordinates.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "quarry/base/utf8.h"
#include "quarry/format/dimension_names.h"

namespace quarry::input::internal {
namespace {

/// Whether a dimension of one sample is no axis, no time and nobody's choice.
bool IsDropped(const AxisRoles& roles, const ArrayInfo& array, std::size_t dimension) {
  const bool is_axis = std::ranges::find(roles.grid, std::optional(dimension)) != roles.grid.end();
  return !is_axis && roles.time != dimension && roles.fields != dimension &&
         array.dimensions[dimension].length == 1;
}

/// The axis of an array's grid that another array's dimension is.
std::optional<std::size_t> AxisOf(const ArrayDimension& dimension, const ArrayInfo& array, const AxisRoles& roles) {
  for (std::size_t a = 0; a < 3; ++a) {
    if (!roles.grid[a]) continue;
    const ArrayDimension& own = array.dimensions[*roles.grid[a]];
    if (!own.name.empty() && own.name == dimension.name && own.length == dimension.length) return a;
  }
  return std::nullopt;
}

/// Dimensions of texts, of which each has one of characters more.
std::size_t RankOfTexts(const ArrayInfo& array) {
  return array.dimensions.size() - (array.is_characters && !array.dimensions.empty() ? 1 : 0);
}

/// Whether rows of characters are the coordinate of an axis: their dimension has their name.
bool NamesAxis(const ArrayInfo& other, const ArrayInfo& array, const AxisRoles& roles) {
  return other.kind == ArrayInfo::Kind::kText && other.is_characters && other.dimensions.size() == 2 &&
         other.field == other.dimensions.front().name && AxisOf(other.dimensions.front(), array, roles);
}

class Finding {
 public:
  Finding(const ArrayFile& file, const ArrayInfo& array, const AxisRoles& roles, std::vector<std::string>* warnings)
      : file_(file), array_(array), roles_(roles), warnings_(*warnings) {}

  void Take(std::size_t number) {
    const ArrayInfo& other = file_.arrays()[number];
    const bool is_kept = other.kind == ArrayInfo::Kind::kText ? TakeTexts(number) : TakeNumbers(other);
    if (!is_kept) left_.push_back(other.field);
  }

  Beside Finish() && {
    if (!left_.empty())
      warnings_.push_back(
          fmt::format("{}: its coordinates {} are not kept; convert them as fields if you need them", array_.name,
                      fmt::join(left_, ", ")));
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
  return InvalidArgument("{} has more text than the {} texts and {} bytes that are read", array.name, kMaxTexts,
                         kMaxTextBytes);
}

Beside FindBeside(const ArrayFile& file, const Conventions& conventions, const ArrayInfo& array,
                  const AxisRoles& roles, std::vector<std::string>* warnings) {
  const std::string names = fmt::format(" {} ", Text(array.attributes, "coordinates"));
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
    const bool is_named = names.find(fmt::format(" {} ", other.field)) != std::string::npos;
    if (dropped.contains(i) || texts.contains(i) || NamesAxis(other, array, roles) || (is_named && !is_moment && !placed.contains(i)))
      finding.Take(i);
  }
  return std::move(finding).Finish();
}

}  // namespace quarry::input::internal
