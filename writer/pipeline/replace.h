#pragma once

#include <filesystem>
#include <optional>

#include "quarry/base/directory_lock.h"

namespace quarry::writer {

/// Replaces a dataset once all of the new one is written. Until then readers see the old one, which stays if
/// the new one fails or the process ends: a staging folder is then left beside it, which the next replacement
/// removes. Holds the writing lock meanwhile. One caller at a time.
class Replacement {
 public:
  /// Locks the old dataset, if there is one.
  /// @errors kFailedPrecondition: it is not a dataset, or holds other files, which are not removed;
  /// kUnavailable: another process writes it
  static Result<Replacement> Begin(const std::filesystem::path& dataset, const LockOptions& options = {});
  ~Replacement() { Abandon(); }
  Replacement(Replacement&& other) noexcept;
  Replacement& operator=(Replacement&&) = delete;

  /// The staging folder for the new dataset: beside the old one, or, if there is none, in its place.
  const std::filesystem::path& staged() const { return staged_; }

  /// Puts the new dataset into the place of the old one, and removes that. Where the file system can exchange
  /// two folders, there is a dataset at any moment; elsewhere there is none between two renames, and after a
  /// crash there the old one is ".NAME.replaced".
  Status Publish();

  /// Removes a new dataset that has not taken its place.
  void Abandon();

 private:
  Replacement(std::filesystem::path dataset, std::filesystem::path staged, std::optional<DirectoryLock> lock)
      : dataset_(std::move(dataset)), staged_(std::move(staged)), lock_(std::move(lock)) {}

  std::filesystem::path dataset_;
  std::filesystem::path staged_;
  std::optional<DirectoryLock> lock_;  ///< lock of the old one; none: there is nothing to do
};

}  // namespace quarry::writer
