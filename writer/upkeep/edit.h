#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "quarry/base/directory_lock.h"
#include "quarry/description.h"

/// Changes of an existing dataset that read and write no samples. Each one takes the writing lock, and
/// survives a crash at any moment: a removal has then happened or not, and calling again completes it.
/// Readers that have the dataset open may fail on removed steps until they open it again.
namespace quarry::writer {

/// Owner of attributes.
struct AttributeOwner {
  enum class Kind : std::uint8_t { kDataset, kField, kAxis };
  Kind kind = Kind::kDataset;
  std::string field;     ///< for kField, and for kAxis one that has the axis
  std::size_t axis = 0;  ///< 0 to 2: x, y, z. All grids that share the axis have its attributes
};

/// Sets attributes, and removes others. The name "units" means the unit of a field or an axis.
/// @returns  the description as it is now
/// @errors kNotFound: no such dataset, field or attribute to remove; kInvalidArgument: a name that says what
/// Quarry says in its own way, or beyond the bounds of attributes; kUnavailable: another process writes
Result<DatasetDescription> EditAttributes(const std::filesystem::path& dataset, const AttributeOwner& owner,
                                          const Attributes& set, const std::vector<std::string>& removed,
                                          const LockOptions& locking = {});

/// Steps and fields to be removed.
struct Removal {
  std::vector<std::uint64_t> steps;
  std::vector<std::string> fields;  ///< from all steps
};

/// Result of a removal.
struct RemovalReport {
  std::vector<std::uint64_t> steps;  ///< with those that had nothing but removed fields; ascending
  std::uint64_t bytes = 0;           ///< size of payloads and masks that no step has any more
};

/// Removes steps and fields, and the masks that no step needs any more.
/// @errors kNotFound: no such dataset, step or field; kFailedPrecondition: the rest needs them (patches that
/// refer to an earlier step, a still field, the other part of complex samples), or no field would stay;
/// kUnavailable: another process writes
Result<RemovalReport> Remove(const std::filesystem::path& dataset, const Removal& removal,
                             const LockOptions& locking = {});

}  // namespace quarry::writer
