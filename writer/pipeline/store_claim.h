#pragma once

#include <string>

#include "quarry/storage/writable_storage.h"

namespace quarry::writer {

/// Keeps other writers of a dataset in a store out: a small file that says who writes, put if nobody has put
/// one. A killed process leaves it behind, as it does the owner file of a DirectoryLock.
class StoreClaim {
 public:
  /// @param break_lock  takes the place of another one
  /// @errors kUnavailable: another process writes, or was killed; those of the storage
  static Result<StoreClaim> Take(const WritableLocation& dataset, bool break_lock);
  ~StoreClaim() { Release(); }
  StoreClaim(StoreClaim&& other) noexcept;
  StoreClaim& operator=(StoreClaim&&) = delete;

  /// Whether it is still ours. @errors kFailedPrecondition: it was broken; those of the storage
  Status Check() const;
  /// Leaves the file: what this process has not removed, the next one must.
  void Keep() { storage_ = nullptr; }

 private:
  StoreClaim(Location file, std::shared_ptr<const WritableStorage> storage, std::string line)
      : file_(std::move(file)), storage_(std::move(storage)), line_(std::move(line)) {}
  void Release();

  Location file_;
  std::shared_ptr<const WritableStorage> storage_;  ///< null: there is nothing to release
  std::string line_;
};

}  // namespace quarry::writer
