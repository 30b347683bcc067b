#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>

#include "quarry/base/file.h"
#include "quarry/format/description.h"
#include "quarry/format/subfile_table.h"
#include "quarry/query/catalog.h"

namespace quarry {

using format::SubfileTable;

/// Gives the description of a step, from whoever has read its step.json.
using StepLookup = std::function<Result<std::shared_ptr<const StepDescription>>(std::uint64_t)>;

/// Finds patches in the subfiles' own tables: needs no index. Subfiles are chosen by their bounding boxes;
/// their tables are kept in memory while they fit.
class TableCatalog final : public query::PatchCatalog {
 public:
  TableCatalog(std::filesystem::path root, DatasetDescription dataset, StepLookup steps)
      : root_(std::move(root)), dataset_(std::move(dataset)), steps_(std::move(steps)) {}

  Result<std::vector<query::CatalogEntry>> Find(std::uint64_t step, std::size_t field_number,
                                                const Box& positions) const override;
  Result<std::vector<query::CatalogEntry>> FindMask(std::uint64_t step, std::size_t field_number,
                                                    const Box& positions) const override;

  /// One subfile's table, checked against its own checksums and against step.json.
  Result<std::shared_ptr<const SubfileTable>> Table(std::uint64_t step, std::size_t field_number,
                                                    std::size_t subfile) const;
  /// The same of a mask that a step.json describes.
  Result<std::shared_ptr<const SubfileTable>> MaskTable(const MaskDescription& mask,
                                                        std::size_t subfile) const;

 private:
  static constexpr std::uint64_t kCacheBytes = 64 << 20;
  /// Mask, step, field, subfile: a mask has neither step nor field, and a field has 0 for the mask.
  using Key = std::tuple<std::uint64_t, std::uint64_t, std::size_t, std::size_t>;
  using Load = std::function<Result<std::shared_ptr<const SubfileTable>>()>;

  Result<std::shared_ptr<const SubfileTable>> Cached(const Key& key, const Load& load) const;
  Result<std::shared_ptr<const SubfileTable>> LoadTable(const StepDescription& step, std::size_t field_number,
                                                        std::size_t subfile) const;
  Result<std::shared_ptr<const SubfileTable>> LoadMaskTable(const MaskDescription& mask,
                                                            std::size_t subfile) const;
  Result<std::shared_ptr<const StepDescription>> StepWith(std::uint64_t step, std::size_t field_number) const;

  const std::filesystem::path root_;
  const DatasetDescription dataset_;
  const StepLookup steps_;
  mutable std::mutex mutex_;
  mutable std::map<Key, std::shared_ptr<const SubfileTable>> cache_;
  mutable std::uint64_t cached_bytes_ = 0;
};

/// Path of a subfile in the dataset directory `root`.
std::filesystem::path SubfilePath(const std::filesystem::path& root, std::uint64_t step,
                                  const std::string& field, std::size_t subfile);
/// The same of a subfile of a mask.
std::filesystem::path MaskSubfilePath(const std::filesystem::path& root, std::uint64_t mask,
                                      std::size_t subfile);

}  // namespace quarry
