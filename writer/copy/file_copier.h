#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "quarry/format/subfile_table.h"
#include "writer/copy/destination.h"

namespace quarry::writer {

/// A file of the source, and how its bytes are checked as they pass.
struct FileToCopy {
  std::shared_ptr<const StoredObject> object;
  std::shared_ptr<const Storage> storage;  ///< storage of the object
  std::string place;                       ///< path below the root of the target
  std::uint64_t size = 0;
  std::uint64_t table_checksum = 0;  ///< checksum of its table or root, as its footer has it
  /// Begins a check: the function is given all bytes, piece by piece, and in the end none.
  /// @errors kDataLoss
  std::function<Result<std::function<Status(ByteSpan)>>()> begin_check;
};

/// Copies files in pieces, some of them at a time. Thread-safe.
class FileCopier {
 public:
  FileCopier(const Destination& target, const CopyOptions& options, CopyReport* report)
      : target_(target), options_(options), report_(*report) {}

  /// Whether the target has the file: of this size, with this checksum in its footer.
  bool IsThere(const FileToCopy& file) const;
  /// Copies all of them, or none more after an error.
  Status CopyAll(const std::vector<FileToCopy>& files);
  /// For the progress. @param all  [bytes] that will be written
  void Expect(std::uint64_t all) { expected_ = all; }

 private:
  Status CopyOne(const FileToCopy& file);
  Status CopyParts(const FileToCopy& file, const std::function<Status(ByteSpan)>& check);
  Status Damaged(Status status);
  Result<std::size_t> ThreadsFor(const std::vector<FileToCopy>& files) const;
  PutCondition Condition() const;
  void Count(std::uint64_t bytes);

  const Destination& target_;
  const CopyOptions& options_;
  std::mutex mutex_;  ///< guards the following
  CopyReport& report_;
  std::uint64_t expected_ = 0;
  std::uint64_t done_ = 0;
};

}  // namespace quarry::writer
