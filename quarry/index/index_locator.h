#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "quarry/dataset/dataset.h"
#include "quarry/index/lmdb_reader.h"

namespace quarry::index {

/// Checksum of the bytes of a step's step.json: shows whether a step is still the one that was indexed.
Result<std::uint64_t> StepManifestChecksum(const Location& dataset, std::uint64_t step);

/// Finds patches in the index, by range reads along the Morton curve. The index is never trusted: its file is
/// compared with its seal, which finds accidents, and every number in it is checked when it is used, as any
/// writer of the folder can forge a seal. A step counts only while its step.json is the one that was indexed;
/// every other step, and what is damaged, is looked up in the subfiles' own tables. Thread-safe.
class IndexLocator final : public query::PatchLocator {
 public:
  /// Called once, with the first damage that the seal does not show.
  using OnDamage = std::function<void(const Status&)>;

  /// @param scratch  local directory for the private copy that is mapped; the copy disappears when the
  /// process ends
  /// @errors kNotFound: no index; kDataLoss: the index is damaged
  static Result<std::shared_ptr<const IndexLocator>> Open(std::shared_ptr<const Dataset> dataset,
                                                          const Location& folder,
                                                          const std::filesystem::path& scratch,
                                                          OnDamage on_damage = {});
  ~IndexLocator() override;

  Result<std::vector<query::LocatedPatch>> Find(std::uint64_t step, std::size_t field_number,
                                                const query::PatchRange& range) const override;
  Result<std::vector<query::LocatedPatch>> FindMask(std::uint64_t step, std::size_t field_number,
                                                    const query::PatchRange& range) const override;

  /// The subfiles of a field and step whose boxes meet a box, by their numbers in step.json, ascending: reads
  /// the records of boxes that meet it. For grids whose patches no arithmetic finds ("box, then patch"), and
  /// for those who want to know the files of a region. Without a record that can be believed, step.json
  /// tells.
  /// @param box  level-0 samples
  /// @errors kNotFound: no such step or field; those of reading step.json
  Result<std::vector<std::uint32_t>> SubfilesMeeting(std::uint64_t step, std::size_t field_number,
                                                     const Box& box) const;
  /// Compare all boxes of the subfiles with step.json. The index must be current.
  /// @errors kDataLoss: they differ, or the index is damaged
  Status CheckBoxes(std::uint64_t step, std::size_t field_number) const;
  Status CheckMaskBoxes(const MaskDescription& mask) const;

  /// Whether the index has this step as it is published now.
  Result<bool> IsCurrent(std::uint64_t step) const;
  /// Whether the index has this mask with these subfiles.
  bool HasMask(const MaskDescription& mask) const;

 private:
  struct Stored;

  IndexLocator(std::shared_ptr<const Dataset> dataset, std::unique_ptr<Stored> stored, Location folder,
               OnDamage on_damage);

  /// @param tree  of the patches of fields, or of masks
  /// @param key   of any patch of the field and step, or of the mask
  /// @param subfiles  that have the patches
  Result<std::vector<query::LocatedPatch>> FindRecords(const StoredTree& tree, Bytes key,
                                                       const FieldDescription& field, int layers,
                                                       const query::PatchRange& range,
                                                       const std::vector<SubfileDescription>& subfiles) const;
  /// The record of a step.json for a field. @errors kNotFound: it has none
  Result<std::shared_ptr<const FieldStepDescription>> FieldOf(std::uint64_t step,
                                                              std::size_t field_number) const;
  /// The value of a key. @errors kDataLoss: it is not there
  Result<ByteSpan> ValueOf(const StoredTree& tree, const Bytes& key) const;
  /// False where the index is damaged, which is told.
  bool Has(const StoredTree& tree, const Bytes& key, const Bytes& value, const std::string& what) const;
  void Tell(const Status& damage, const std::string& what) const;

  const std::shared_ptr<const Dataset> dataset_;
  const std::unique_ptr<Stored> stored_;
  const Location folder_;
  const OnDamage on_damage_;
  mutable std::mutex mutex_;
  mutable std::map<std::uint64_t, bool> current_;
  mutable bool told_ = false;
};

}  // namespace quarry::index
