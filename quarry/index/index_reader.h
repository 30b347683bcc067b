#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "quarry/dataset/dataset.h"

namespace quarry::index {

/// Checksum of the bytes of a step's step.json: what tells whether a step is still the one that was indexed.
Result<std::uint64_t> StepManifestChecksum(const std::filesystem::path& dataset, std::uint64_t step);

/// Finds patches in the index, by range reads along the Morton curve. The index is never trusted: its file
/// was compared with its seal before it was mapped, a step counts only while its step.json is the one that
/// was indexed, and every other step is looked up in the subfiles' own tables. Thread-safe.
class IndexCatalog final : public query::PatchCatalog {
 public:
  /// @param scratch  local directory for the private copy that gets mapped; the copy is gone when the process
  /// ends
  /// @errors kNotFound: no index; kDataLoss: the index is damaged
  static Result<std::shared_ptr<const IndexCatalog>> Open(std::shared_ptr<const Dataset> dataset,
                                                          const std::filesystem::path& folder,
                                                          const std::filesystem::path& scratch);
  ~IndexCatalog() override;

  Result<std::vector<query::CatalogEntry>> Find(std::uint64_t step, std::size_t field_number,
                                                const Box& positions) const override;
  Result<std::vector<query::CatalogEntry>> FindMask(std::uint64_t step, std::size_t field_number,
                                                    const Box& positions) const override;

  /// The subfiles of a field and step with their bounding boxes, as indexed.
  Result<std::vector<SubfileDescription>> Subfiles(std::uint64_t step, std::size_t field_number) const;

  /// Whether the index has this step as it is published now.
  Result<bool> IsCurrent(std::uint64_t step) const;
  /// Whether the index has this mask with these subfiles.
  Result<bool> HasMask(const MaskDescription& mask) const;

 private:
  struct Lmdb;
  /// Key of the record of a patch, by Morton code.
  using KeyOf = std::function<Bytes(std::uint64_t morton_code)>;

  IndexCatalog(std::shared_ptr<const Dataset> dataset, std::unique_ptr<Lmdb> lmdb,
               std::filesystem::path folder);

  /// @param database  patches or masks
  /// @param what      whose patches they are, for messages
  Result<std::vector<query::CatalogEntry>> FindInIndex(unsigned database, const KeyOf& key_of,
                                                       const Box& positions, const std::string& what) const;

  const std::shared_ptr<const Dataset> dataset_;
  const std::unique_ptr<Lmdb> lmdb_;
  const std::filesystem::path folder_;
  mutable std::mutex mutex_;
  mutable std::map<std::uint64_t, bool> current_;
  mutable std::map<std::uint64_t, std::vector<SubfileDescription>> masks_;  ///< as indexed, by name
};

}  // namespace quarry::index
