#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "quarry/format/pack.h"
#include "quarry/storage/location.h"

namespace quarry {

/// An open pack, with its table. Stays readable when the pack is removed. Thread-safe.
class PackFile {
 public:
  /// @param steps  from its name
  /// @param stamp  gets that of the file
  /// @errors kNotFound: there is no such file; kDataLoss: it is damaged, or does not have these steps
  static Result<std::shared_ptr<const PackFile>> Open(const Location& path,
                                                      const std::vector<format::StepRun>& steps,
                                                      Stamp* stamp = nullptr);

  const format::PackTable& table() const { return table_; }
  /// step.json of one of its steps. @errors kDataLoss
  Result<std::string> Manifest(const format::PackTable::Step& step) const;
  /// A file of one of its steps: "step.json", or a subfile. @param path  for messages
  /// @errors kNotFound: it does not have the step or the file; kDataLoss
  Result<std::shared_ptr<const StoredObject>> OpenPart(std::uint64_t step, std::string_view file,
                                                       std::string path) const;
  /// [bytes] of memory.
  std::uint64_t memory() const { return format::MemoryOf(table_) + FirstBytes(); }

 private:
  std::uint64_t FirstBytes() const;
  Status Read(std::vector<ReadRange> ranges) const;

  std::shared_ptr<const Storage> storage_;
  std::shared_ptr<const StoredObject> file_;
  std::shared_ptr<const StoredObject> payload_;  ///< the same file; a storage may give copies of its bytes
  format::PackTable table_;
  mutable std::mutex mutex_;    ///< guards the following
  mutable bool begun_ = false;  ///< the begin was read and checked
  mutable std::string first_;   ///< step.json of the first step, if others are its differences
};

/// The range of a pack that a file of a step is, as an object of the pack's storage; nothing for files that
/// are no range of one.
struct PackRange {
  const StoredObject* pack = nullptr;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
};
std::optional<PackRange> RangeInPack(const StoredObject& file);

}  // namespace quarry
