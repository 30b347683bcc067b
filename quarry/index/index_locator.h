#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "quarry/dataset/dataset.h"
#include "quarry/index/piece.h"

namespace quarry::index {

/// Finds patches in the index, by range reads along the Morton curve. Pieces are opened when a question first
/// needs them. The index is never trusted: each piece is compared with the seal, which finds accidents, and
/// every number in it is checked when it is used, as any writer of the folder can forge a seal. A step counts
/// only while its step.json is the one that was indexed; every other step, and what is damaged, is looked up
/// in the subfiles' own tables. Thread-safe.
class IndexLocator final : public query::PatchLocator {
 public:
  /// Called once, with the first damage.
  using OnDamage = std::function<void(const Status&)>;

  /// @param copies  of pieces of this index, from before; forgets those that are no more
  /// @errors kNotFound: no index; kDataLoss: the seal is damaged
  static Result<std::shared_ptr<const IndexLocator>> Open(std::shared_ptr<const Dataset> dataset,
                                                          const Location& folder,
                                                          std::shared_ptr<PieceCopies> copies,
                                                          OnDamage on_damage = {});
  /// The same with copies of its own. @param scratch  see PieceCopies
  static Result<std::shared_ptr<const IndexLocator>> Open(std::shared_ptr<const Dataset> dataset,
                                                          const Location& folder,
                                                          const std::filesystem::path& scratch,
                                                          OnDamage on_damage = {});

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
  Status CheckMaskBoxes(std::uint64_t step, const MaskDescription& mask) const;

  /// Whether the index has this step as it is published now.
  Result<bool> IsCurrent(std::uint64_t step) const;
  /// Whether the index has this mask of this step, with these subfiles.
  Result<bool> HasMask(std::uint64_t step, const MaskDescription& mask) const;
  /// The number of the piece that has a step, if there is one. Steps of one piece share the records of masks.
  std::optional<std::size_t> PieceNumber(std::uint64_t step) const;

 private:
  /// A piece, as far as questions have needed it.
  struct Opened {
    bool tried = false;
    std::shared_ptr<const Piece> piece;  ///< null: it is damaged, or gone
  };

  IndexLocator(std::shared_ptr<const Dataset> dataset, Location folder, Seal seal,
               std::shared_ptr<PieceCopies> copies, OnDamage on_damage);

  /// The piece that has a step as it is published now; null if there is none, or it is damaged.
  Result<const Piece*> PieceOf(std::uint64_t step) const;
  const Piece* OpenPiece(std::size_t number) const;
  bool HasStep(const Piece& piece, std::uint64_t step, std::uint64_t checksum) const;
  bool HasMask(const Piece& piece, const MaskDescription& mask) const;

  /// @param tree  of the patches of fields, or of masks
  /// @param key   of any patch of the field and step, or of the mask
  /// @param subfiles  that have the patches
  Result<std::vector<query::LocatedPatch>> FindRecords(const Piece& piece, const StoredTree& tree, Bytes key,
                                                       const FieldDescription& field, int layers,
                                                       const query::PatchRange& range,
                                                       const std::vector<SubfileDescription>& subfiles) const;
  /// The record of a step.json for a field. @errors kNotFound: it has none
  Result<std::shared_ptr<const FieldStepDescription>> FieldOf(std::uint64_t step,
                                                              std::size_t field_number) const;
  void Tell(const Status& damage) const;
  /// @param what  has a damaged record
  void Tell(const Status& damage, const std::string& what) const;

  const std::shared_ptr<const Dataset> dataset_;
  const Location folder_;
  const Seal seal_;
  const std::shared_ptr<PieceCopies> copies_;
  const OnDamage on_damage_;
  std::vector<std::pair<SealedRange, std::size_t>> ranges_;  ///< ascending, each with the number of its piece
  mutable std::mutex mutex_;                                 ///< never held over a look at the storage
  mutable std::vector<Opened> opened_;
  mutable std::map<std::uint64_t, const Piece*> current_;  ///< the results of PieceOf
  mutable bool told_ = false;
};

}  // namespace quarry::index
