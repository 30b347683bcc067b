#pragma once

#include <functional>
#include <vector>

#include "quarry/dataset/dataset.h"

namespace quarry {

/// Result of a check of all checksums.
struct VerifyReport {
  std::uint64_t steps = 0;
  std::uint64_t subfiles = 0;
  std::uint64_t masks = 0;  ///< named by a step; their subfiles and bytes are counted with the others
  std::uint64_t patches = 0;
  std::uint64_t bytes = 0;
  std::uint64_t records = 0;   ///< steps with a record in the catalogue
  std::uint64_t coarse = 0;    ///< coarse objects that were compared
  std::vector<Status> damage;  ///< one per damaged file or payload; at most kMaxDamage are kept
  static constexpr std::size_t kMaxDamage = 100;
};

/// Reads every byte of every published step, and of the masks that the steps name, and compares it with the
/// stored checksums, the records of the catalogue with step.json, and coarse objects with the files;
/// continues after damage.
/// @param progress  called with the bytes checked and all bytes
/// @errors only when the dataset itself cannot be opened or read; damage is in the report
Result<VerifyReport> VerifyDataset(const Dataset& dataset,
                                   const std::function<void(std::uint64_t, std::uint64_t)>& progress);

}  // namespace quarry
