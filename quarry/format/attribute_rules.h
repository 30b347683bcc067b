#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "quarry/attributes.h"
#include "quarry/base/status.h"

/// Rules of attributes, for all who make them, and all who read them.
namespace quarry {

/// Bounds of the attributes of one owner: of a dataset, a field, an axis, the time.
inline constexpr std::size_t kMaxAttributes = 4096;
inline constexpr std::size_t kMaxAttributeName = 255;                        ///< [bytes]
inline constexpr std::size_t kMaxAttributeBytes = std::size_t{1} << 20;      ///< limit of one owner
inline constexpr std::size_t kMaxAllAttributeBytes = std::size_t{16} << 20;  ///< limit of a dataset
inline constexpr std::size_t kMaxJsonDepth = 32;

/// [bytes] of names and values, as they count for the bounds.
std::size_t SizeOf(const Attribute& attribute);
std::size_t SizeOf(const Attributes& attributes);

/// Checks one attribute: a name, UTF-8, numbers that their type has, JSON that is no deeper than
/// kMaxJsonDepth.
/// @errors kInvalidArgument
Status CheckAttribute(const Attribute& attribute);

/// Checks all of one owner: each by itself, no name twice, and the bounds.
/// @errors kInvalidArgument
Status CheckAttributes(const Attributes& attributes);

/// Adds one, unless it is wrong or goes beyond the bounds.
/// @errors kInvalidArgument: see CheckAttributes
Status AddAttribute(Attribute attribute, Attributes* to);

/// Names of those that are not, or with another value, among `kept`.
std::vector<std::string> OtherAttributes(const Attributes& attributes, const Attributes& kept);

/// Whether Quarry stores the content of an attribute of this name itself: units, fill values, packing, and
/// the storage records of formats. It is not an attribute of a dataset then.
bool IsSaidElsewhere(std::string_view name);

}  // namespace quarry
