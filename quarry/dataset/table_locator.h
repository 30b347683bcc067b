#pragma once

#include <functional>
#include <memory>

#include "quarry/dataset/metadata_cache.h"
#include "quarry/description.h"
#include "quarry/format/subfile_table.h"
#include "quarry/query/patch_locator.h"
#include "quarry/storage/location.h"

namespace quarry {

using format::SubfileTable;
using format::TableWalk;

/// Returns the record of a field in a step, read before by the owner of the lookup; null if there is none.
using FieldLookup = std::function<Result<std::shared_ptr<const FieldStepDescription>>(
    std::uint64_t step, const std::string& field)>;

/// Finds patches in the subfiles' own tables: needs no index. Subfiles are chosen by their bounding boxes,
/// the blocks of their tables by codes; these are kept while there is room.
class TableLocator final : public query::PatchLocator {
 public:
  /// @param dataset, metadata  outlive the locator; the latter keeps the tables
  TableLocator(Location root, const DatasetDescription& dataset, FieldLookup fields,
               const MetadataCache* metadata)
      : root_(std::move(root)), dataset_(dataset), fields_(std::move(fields)), metadata_(metadata) {}

  Result<std::vector<query::LocatedPatch>> Find(std::uint64_t step, std::size_t field_number,
                                                const query::PatchRange& range) const override;
  Result<std::vector<query::LocatedPatch>> FindMask(std::uint64_t step, std::size_t field_number,
                                                    const query::PatchRange& range) const override;

  /// Whether the blocks that a walk visits are kept: not those of a walk over everything.
  enum class Blocks { kKeep, kForget };

  /// The rows of one subfile's table, checked against its own checksums and against step.json. The locator
  /// outlives the walk.
  Result<TableWalk> Walk(std::uint64_t step, std::size_t field_number, std::size_t subfile,
                         Blocks blocks = Blocks::kForget) const;
  /// The same of a mask that a step.json describes.
  Result<TableWalk> WalkMask(const MaskDescription& mask, std::size_t subfile,
                             Blocks blocks = Blocks::kForget) const;

 private:
  class Wanted;

  Result<TableWalk> WalkOf(const MetadataCache::Key& key, const Location& path,
                           const format::SubfileHeader& header, const SubfileDescription& expected,
                           std::uint64_t row_bytes, Blocks blocks) const;
  void LoadTogether(const std::vector<Wanted>& wanted, const std::vector<std::uint64_t>& steps,
                    std::size_t field_number) const;
  Result<std::shared_ptr<const FieldStepDescription>> FieldOf(std::uint64_t step,
                                                              std::size_t field_number) const;

  const Location root_;
  const DatasetDescription& dataset_;
  const FieldLookup fields_;
  const MetadataCache* const metadata_;
};

/// Header of a subfile of a field; the caller sets its number and its count of patches.
/// @param mask  name of the mask; 0: none
format::SubfileHeader FieldHeader(const DatasetDescription& dataset, std::uint64_t step,
                                  std::size_t field_number, std::uint64_t mask);

/// The error of a subfile: that it is missing is damage, since a step.json lists it.
Status StatusOfSubfile(Status error, const Location& path);

/// Path of a subfile of the dataset at `root`.
Location SubfileLocation(const Location& root, std::uint64_t step, const std::string& field,
                         std::size_t subfile);
/// The same for a subfile of a mask.
Location MaskSubfileLocation(const Location& root, std::uint64_t mask, std::size_t subfile);

}  // namespace quarry
