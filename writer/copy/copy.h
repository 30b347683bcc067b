#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "quarry/base/directory_lock.h"
#include "quarry/question.h"
#include "quarry/storage/location.h"
#include "quarry/storage/writable_storage.h"

/// Copies datasets between storages. Files stay the same, byte for byte; readers of the copy see whole steps
/// only. docs/format.md, "Publishing".
namespace quarry::writer {

/// A dataset to be written.
using CopyTarget = WritableLocation;

struct CopyOptions {
  std::optional<query::StepRange> steps;  ///< left out: all
  std::vector<std::string> fields;        ///< empty: all
  bool allow_damage = false;         ///< payloads with a wrong checksum are copied as they are, and reported
  bool dry_run = false;              ///< only says what is to be done
  std::uint64_t memory = 256 << 20;  ///< [bytes] of buffers
  LockOptions locking;
  /// Called with bytes written so far and in the end, by one thread at a time; may be empty.
  std::function<void(std::uint64_t done, std::uint64_t all)> progress;
};

/// Result of a copy; of a dry run what it would be.
struct CopyReport {
  std::uint64_t steps = 0;       ///< that were chosen
  std::uint64_t there = 0;       ///< steps of these that were in the target before
  std::uint64_t objects = 0;     ///< files that were written, without catalogue and dataset.json
  std::uint64_t bytes = 0;       ///< that were written
  std::uint64_t kept = 0;        ///< files that an interrupted copy has left complete
  bool keeps_conditions = true;  ///< false: the store ignores conditions, and two copies are not told apart
  std::vector<Status> damage;    ///< with allow_damage; at most kMaxDamage are kept
  static constexpr std::size_t kMaxDamage = 100;
};

/// Copies a dataset, or some steps and fields of it, to a place where nothing is, where a copy was
/// interrupted, or where the same dataset is. Takes the writing lock of the target where there is one.
/// @errors kNotFound: no such dataset, step or field; kInvalidArgument: options, or a step or field that was
/// not chosen is needed; kDataLoss: the source is damaged; kFailedPrecondition: another dataset, or other
/// contents of a step, are in the target; kUnavailable: another process writes, or a store does not answer;
/// kInternal: a file cannot be read or written
Result<CopyReport> Copy(const Location& from, const CopyTarget& to, const CopyOptions& options);

/// Checks that a target is not its source, and does not lie in it. @errors kInvalidArgument
Status CheckApart(const Location& from, const Location& to);

/// Removes what interrupted copies to a target have left. A dataset that is there stays.
/// @returns number of files and folders @errors as Copy
Result<std::uint64_t> CleanCopy(const CopyTarget& to, const LockOptions& locking);

}  // namespace quarry::writer
