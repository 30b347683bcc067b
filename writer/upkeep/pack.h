#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <vector>

#include "quarry/base/directory_lock.h"
#include "quarry/description.h"

/// Moves small steps into packs, and back. Their files stay the same, byte for byte. A crash at any moment
/// leaves a dataset with all steps. docs/format.md, "Packs" and "Publishing".
namespace quarry::writer {

struct PackOptions {
  /// [bytes] Steps whose files have fewer are packed.
  std::uint64_t smaller_than = 64 << 10;
  static constexpr std::uint64_t kMostSmallerThan = 1 << 20;
  std::uint64_t keep = 0;                       ///< so many of the newest steps stay folders
  std::optional<std::set<std::uint64_t>> only;  ///< the steps that may be packed; nothing: all
};

/// Result of packing.
struct PackReport {
  std::uint64_t steps = 0;        ///< in the dataset
  std::uint64_t packed = 0;       ///< moved into packs by this call
  std::uint64_t packs = 0;        ///< made by this call
  std::uint64_t in_packs = 0;     ///< steps that are in packs now
  std::uint64_t left = 0;         ///< steps that are not small
  std::uint64_t disk_before = 0;  ///< [bytes] that the moved steps took on the disk
  std::uint64_t disk_after = 0;   ///< [bytes] that their packs take
  std::vector<Status> damage;     ///< steps that stay folders because of it; at most kMaxDamage are kept
  static constexpr std::size_t kMaxDamage = 100;
};

/// Moves small steps of a dataset into packs. Takes the writing lock.
/// @param progress  called with the number of steps looked at
/// @errors kInvalidArgument: options; kNotFound: no such dataset; kDataLoss: dataset.json or a pack is
/// damaged; kUnavailable: another process writes; kInternal: a file cannot be written
Result<PackReport> Pack(const std::filesystem::path& dataset, const PackOptions& options,
                        const std::function<void(std::uint64_t done, std::uint64_t all)>& progress,
                        const LockOptions& locking = {});

/// The same for a caller that holds the lock. @param description  of the dataset; may get `has_packs`
Result<PackReport> PackLocked(const std::filesystem::path& dataset, DatasetDescription* description,
                              const PackOptions& options,
                              const std::function<void(std::uint64_t done, std::uint64_t all)>& progress);

/// Moves all steps of the packs that have any of these steps to folders, before something of them changes.
/// The caller holds the lock.
/// @errors kDataLoss: a pack is damaged; kInternal
Status UnpackSteps(const std::filesystem::path& dataset, const std::set<std::uint64_t>& steps);

/// All packed steps to folders. Takes the writing lock.
/// @returns their number @errors as Pack
Result<std::uint64_t> Unpack(const std::filesystem::path& dataset,
                             const std::function<void(std::uint64_t done, std::uint64_t all)>& progress,
                             const LockOptions& locking = {});

/// Waits until a change of a folder gets another time than the last one: readers that list it meanwhile see
/// that it has changed.
Status AwaitTick(const std::filesystem::path& folder);

}  // namespace quarry::writer
