#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

#include "quarry/base/directory_lock.h"
#include "quarry/base/status.h"

namespace quarry::writer {

/// Result of an upgrade.
struct UpgradeReport {
  std::uint64_t steps = 0;      ///< in the dataset
  std::uint64_t records = 0;    ///< in the catalogue now
  std::uint64_t pages = 0;      ///< in the catalogue
  std::uint64_t sectioned = 0;  ///< step.json that were put into sections
  std::uint64_t coarse = 0;     ///< coarse objects that were made or made anew
  bool changed = false;         ///< false: everything was as it is now
  std::vector<Status> damage;   ///< steps without a record because of it; at most kMaxDamage are kept
  static constexpr std::size_t kMaxDamage = 100;
};

/// Brings the metadata of a dataset of any version to what the newest programs make of it: every large
/// step.json in sections, coarse objects where the payload order allows them, and a complete catalogue of its
/// steps, made from them. Samples, all other step.json, and dataset.json but for saying that there are coarse
/// objects, stay as they are. Takes the writing lock; a crash at any moment leaves a dataset that
/// all readers read as before.
/// @param progress  called with the number of steps read
/// @errors kNotFound: no such dataset; kDataLoss: dataset.json is damaged; kUnavailable: another process
/// writes; kInternal: a file cannot be written
Result<UpgradeReport> Upgrade(const std::filesystem::path& dataset,
                              const std::function<void(std::uint64_t done, std::uint64_t all)>& progress,
                              const LockOptions& locking = {});

}  // namespace quarry::writer
