#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>

#include "quarry/dataset/dataset.h"

namespace quarry::index {

/// Checksum of the bytes of a step's step.json: shows whether a step is still the one that was indexed.
Result<std::uint64_t> StepManifestChecksum(const Location& dataset, std::uint64_t step);

/// Finds patches in the index, by range reads along the Morton curve. The index is never trusted: its file is
/// compared with its seal before it is mapped. A step counts only while its step.json is the one that was
/// indexed; every other step is looked up in the subfiles' own tables. Thread-safe.
class IndexLocator final : public query::PatchLocator {
 public:
  /// @param scratch  local directory for the private copy that is mapped; the copy disappears when the
  /// process ends
  /// @errors kNotFound: no index; kDataLoss: the index is damaged
  static Result<std::shared_ptr<const IndexLocator>> Open(std::shared_ptr<const Dataset> dataset,
                                                          const Location& folder,
                                                          const std::filesystem::path& scratch);
  ~IndexLocator() override;

  Result<std::vector<query::LocatedPatch>> Find(std::uint64_t step, std::size_t field_number,
                                                const Box& positions) const override;
  Result<std::vector<query::LocatedPatch>> FindMask(std::uint64_t step, std::size_t field_number,
                                                    const Box& positions) const override;

  /// Whether the index has this step as it is published now.
  Result<bool> IsCurrent(std::uint64_t step) const;
  /// Whether the index has this mask with these subfiles.
  Result<bool> HasMask(const MaskDescription& mask) const;

 private:
  struct Lmdb;

  IndexLocator(std::shared_ptr<const Dataset> dataset, std::unique_ptr<Lmdb> lmdb, Location folder);

  /// @param database  patches or masks
  /// @param key       of any patch of the field and step, or of the mask
  /// @param what      whose patches they are, for messages
  Result<std::vector<query::LocatedPatch>> FindInIndex(unsigned database, Bytes key, const PatchParts& parts,
                                                       const Box& positions, const std::string& what) const;

  const std::shared_ptr<const Dataset> dataset_;
  const std::unique_ptr<Lmdb> lmdb_;
  const Location folder_;
  mutable std::mutex mutex_;
  mutable std::map<std::uint64_t, bool> current_;
};

}  // namespace quarry::index
