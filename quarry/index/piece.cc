#include "quarry/index/piece.h"

#include <unistd.h>

#include <atomic>

#include "quarry/index/records.h"

namespace quarry::index {
namespace {

std::filesystem::path ScratchFile(const std::filesystem::path& scratch) {
  static std::atomic<std::uint64_t> counter = 0;
  return scratch / fmt::format("quarry-index-{}-{}.mdb", ::getpid(), counter++);
}

}  // namespace

Result<std::shared_ptr<const Piece>> Piece::Open(PrivateCopy copy) {
  QUARRY_ASSIGN_OR_RETURN(const StoredPages pages, StoredPages::Open(copy.bytes()));
  QUARRY_ASSIGN_OR_RETURN(const StoredTree patches, pages.FindTree(kPatches));
  QUARRY_ASSIGN_OR_RETURN(const StoredTree steps, pages.FindTree(kSteps));
  QUARRY_ASSIGN_OR_RETURN(const StoredTree masks, pages.FindTree(kMasks));
  QUARRY_ASSIGN_OR_RETURN(const StoredTree mask_subfiles, pages.FindTree(kMaskSubfiles));
  QUARRY_ASSIGN_OR_RETURN(const StoredTree boxes, pages.FindTree(kBoxes));
  QUARRY_ASSIGN_OR_RETURN(const StoredTree mask_boxes, pages.FindTree(kMaskBoxes));
  return std::shared_ptr<const Piece>(
      new Piece{std::move(copy), pages, patches, steps, masks, mask_subfiles, boxes, mask_boxes});
}

Result<std::shared_ptr<const Piece>> OpenPiece(const Location& folder, const SealedPiece& sealed,
                                               PrivateCopy copy) {
  // Behind a right checksum lies what quarry-index has written, or what somebody else has.
  return Piece::Open(std::move(copy))
      .Annotate(fmt::format("index \"{}\" is damaged; run quarry-index with --rebuild",
                            folder / sealed.file_name()));
}

Result<std::shared_ptr<const Piece>> PieceCopies::Obtain(const Location& folder, const SealedPiece& sealed) {
  std::shared_ptr<Slot> slot;
  {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<Slot>& known = slots_[{sealed.checksum, sealed.bytes}];
    if (!known) known = std::make_shared<Slot>();
    slot = known;
  }
  const std::lock_guard lock(slot->mutex);
  if (slot->piece) return slot->piece;
  QUARRY_ASSIGN_OR_RETURN(PrivateCopy copy, PrivateCopy::Map(folder, sealed, ScratchFile(scratch_)));
  QUARRY_ASSIGN_OR_RETURN(slot->piece, OpenPiece(folder, sealed, std::move(copy)));
  return slot->piece;
}

void PieceCopies::KeepOnly(const Seal& seal) {
  const std::lock_guard lock(mutex_);
  std::map<Key, std::shared_ptr<Slot>> kept;
  for (const SealedPiece& piece : seal.pieces) {
    const auto known = slots_.find({piece.checksum, piece.bytes});
    if (known != slots_.end()) kept.insert(*known);
  }
  slots_ = std::move(kept);
}

}  // namespace quarry::index
