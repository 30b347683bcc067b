#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "quarry/dataset/array_filling.h"
#include "quarry/dataset/payload.h"
#include "quarry/query/patch_part.h"
#include "quarry/store/patch_store.h"

/// Tasks of the threads of the pool for a read.
namespace quarry {

/// The samples of a patch that an array takes.
struct ArrayPart {
  query::PatchPart part;
  ArrayFilling::Turn turn;  ///< nothing: they are not wanted, or come from elsewhere

  bool whole() const { return turn && part.whole(); }
};

/// @param index    of the patch in the plan
/// @param filling  outlives what is returned; null: no samples are wanted
ArrayPart TakePart(const query::ReadPlan& plan, std::size_t index, ArrayFilling* filling);

/// Writes the samples of a decoded patch, unless the read has ended.
/// @param box  of the decoded samples
void WriteToArray(const PatchReader& decoded, const Box& box, const ArrayFilling& filling, ArrayPart* to);

/// Decodes some patches. Independent of the read that wants them: others may want the patches as well, and
/// the read may end earlier.
class DecodeTask {
 public:
  /// @param batch    payload of some patches; freed with the last of their tasks
  /// @param first    piece of the batch
  /// @param claims   of the patches of the pieces from `first` on
  /// @param filling  the array of the level that is decoded, or null
  DecodeTask(const query::ReadPlan& plan, const PatchCoder& coder, std::shared_ptr<FetchedPayload> batch,
             std::size_t first, std::span<PatchStore::Claim> claims, std::shared_ptr<ArrayFilling> filling,
             std::shared_ptr<const std::atomic<bool>> abandoned);

  /// @returns the first error; those who wait for the patches are told as well
  Status Run();

 private:
  struct Work {
    std::size_t piece;
    query::PlannedPatch patch;
    PatchLayout layout;
    PatchParts parts;
    ReferenceGraph references;
    PatchStore::Claim claim;
    ArrayPart to;
    StoredPatch decoded;
  };

  Status Decode(Work* work) const;
  Status DecodeLevels(Work* work, bool into_array, PatchReader* reader) const;
  Status AddLayers(const Work& work, PatchReader* reader) const;
  Status Annotate(Status status, const Work& work, int level) const;
  Status DecodeIntoArray(std::span<const LevelParts> steps, Work* work, PatchReader* reader) const;
  StoredPatch Keep(PatchReader reader, Work* work) const;

  const PatchCoder& coder_;
  const std::shared_ptr<FetchedPayload> batch_;
  const std::shared_ptr<ArrayFilling> filling_;  ///< outlives the turns in works_
  const std::shared_ptr<const std::atomic<bool>> abandoned_;
  std::vector<Work> works_;
};

/// Copies stored patches to an array.
class CopyTask {
 public:
  struct Work {
    PatchKey key;
    Box box;  ///< box of the patch's samples at its level
    ArrayPart to;
  };

  /// @param memory  for the patch that the task holds: it may leave the store meanwhile
  CopyTask(PatchStore* store, std::shared_ptr<ArrayFilling> filling, PatchStore::Memory memory,
           std::vector<Work> works)
      : store_(store), filling_(std::move(filling)), memory_(std::move(memory)), works_(std::move(works)) {}

  void Run();

 private:
  PatchStore* const store_;
  const std::shared_ptr<ArrayFilling> filling_;  ///< outlives the turns in works_
  const PatchStore::Memory memory_;
  std::vector<Work> works_;
};

}  // namespace quarry
