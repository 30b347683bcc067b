#pragma once

#include <array>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "quarry/codec/patch_codec.h"
#include "quarry/format/description.h"
#include "quarry/query/patch_locator.h"
#include "quarry/query/question.h"

/// From a question to the bytes that answer it, before any of them is read.
namespace quarry::query {

/// One question, already resolved against a dataset.
struct Query {
  std::uint64_t step = 0;
  std::size_t field_number = 0;
  std::uint64_t mask = 0;  ///< name of the mask of this field and step; 0: no sample is missing
  Box box;                 ///< level-0 samples, inside the grid
  int level = 0;           ///< level wanted
  int layer = 0;           ///< layer of accuracy wanted, of all levels
  int first_level = 0;     ///< >= level; coarser levels from here on are delivered too, one after the other
  int first_layer = 0;     ///< <= layer; all levels are delivered in it, then `level` in those after it
  bool any_layer =
      false;  ///< the plan chooses the layer as well, with max_error and max_bytes: up to `layer`
  std::optional<double> max_error;             ///< the plan chooses the level: `level` is 0, first_level any
  std::optional<std::uint64_t> max_bytes;      ///< the plan chooses the level
  std::optional<Index3> stride;                ///< the plan chooses the level, for first_level as well
  std::optional<std::array<double, 3>> focus;  ///< [level-0 samples] the nearest patches come first
  std::optional<Bounds> values;                ///< patches that hold none of them are left out
  bool allow_damage = false;                   ///< otherwise damage is an error
  std::optional<std::vector<std::uint64_t>> only_patches;  ///< ascending indices: the others are left out
};

/// How far an answer was delivered.
struct Position {
  std::size_t pass = 0;   ///< levels, and layers of the last one, that were delivered
  std::size_t patch = 0;  ///< patches of the plan that were delivered of the next
  std::size_t start = 0;  ///< the patch of the plan with which each level begins; those before it come last
};

/// The same patch at another step.
struct ReferredPatch {
  std::size_t step = 0;  ///< of ReadPlan::references
  LocatedPatch entry;
  std::shared_ptr<const LocatedPatch> mask;  ///< as in PlannedPatch
};

struct PlannedPatch {
  LocatedPatch entry;
  std::shared_ptr<const LocatedPatch> mask;  ///< if samples of the patch are missing; most have none
  Box samples;                               ///< of the patch, level 0
  /// What decoding it needs, in the order of the plan's references. Most need none.
  std::vector<ReferredPatch> references;
};

/// A step to which another may refer.
struct ReferenceStep {
  std::uint64_t step = 0;
  std::uint64_t mask = 0;  ///< as in Query
};

/// Looks up the steps to which patches of a step may refer, at most two; of one field.
using FindReferences = std::function<Result<std::vector<ReferenceStep>>(std::uint64_t step)>;

/// The steps that decoding needs beside that of the plan.
struct References {
  std::vector<ReferenceStep> steps;  ///< in the order in which they are decoded
  /// Of each of them, and last of the step of the plan: the places of those to which it refers.
  std::vector<std::vector<std::size_t>> refers_to;
};

/// Ranges of values in a box by the patch tables; +infinity to -infinity without valid samples.
struct RecordedRange {
  Bounds all{std::numeric_limits<double>::infinity(),
             -std::numeric_limits<double>::infinity()};  ///< patches that meet the box
  Bounds inside = all;                                   ///< patches that lie in it
};

struct ReadPlan {
  Query query;  ///< with the level that was chosen
  std::string field;
  DataType type = DataType::kFloat32;
  CoderId coder = CoderId::kWaveletZfp;
  int dataset_levels = 1;
  PatchParts parts;                   ///< of the field
  std::uint64_t read_gap = 0;         ///< [bytes] gaps up to this are read rather than skipped
  std::vector<LevelExtent> levels;    ///< to deliver, coarsest first, then roughest first
  std::vector<PlannedPatch> patches;  ///< in Morton order or by distance from the focus, see BeginWith; only
                                      ///< those that hold a sample of the answer at the finest level
  References references;              ///< of all patches together
  std::vector<Box> left_out;          ///< level-0 samples of the box in patches without the requested values
  Price price;
  RecordedRange recorded;  ///< of the valid original samples
};

/// Which file of a read: a subfile of the field, or one of its mask.
struct FileNumber {
  bool of_mask = false;
  std::uint32_t subfile = 0;
  std::uint32_t step = 0;  ///< 0: that of the plan; k: the k-th of its references

  friend auto operator<=>(const FileNumber&, const FileNumber&) = default;  // NOLINT(modernize-use-nullptr)
};

/// One contiguous read from a subfile.
struct ByteRange {
  FileNumber file;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
};

/// The payload of one level of one patch, as a part of a ByteRange of its batch.
struct Slice {
  std::size_t range = 0;
  std::uint64_t offset = 0;  ///< from the start of the range
};

/// The payload levels of one patch that are fetched together.
struct Piece {
  std::size_t patch = 0;  ///< of the plan
  int coarsest = 0;       ///< coarsest .. finest, inclusive
  int finest = 0;
  int first_layer = 0;  ///< of the levels, up to the last of the fetch
};

/// What to read for some patches.
struct Fetch {
  std::vector<Piece> pieces;
  std::vector<ByteRange> ranges;    ///< by file and offset; no two overlap
  int layers = 1;                   ///< of a level, from the first
  std::uint64_t payload_bytes = 0;  ///< without the gaps between payloads

  /// Of a piece and level; a slice means nothing where the payload is empty.
  /// @param reference  0: of the patch itself; k: of the k-th that it needs
  const Slice& Payload(std::size_t piece, int level, int layer, std::size_t reference = 0) const {
    return slices[piece][SliceOf(piece, level, reference) + static_cast<std::size_t>(layer)];
  }
  const Slice& Mask(std::size_t piece, int level, std::size_t reference = 0) const {
    return slices[piece][SliceOf(piece, level, reference) + static_cast<std::size_t>(layers)];
  }

  /// [piece]: of the patch and of each that it needs, of each level from the finest on, a payload for each
  /// layer and the mask.
  std::vector<std::vector<Slice>> slices;
  /// Where those of a level begin.
  std::size_t SliceOf(std::size_t piece, int level, std::size_t reference) const {
    const auto per_level = static_cast<std::size_t>(layers) + 1;
    const auto levels = static_cast<std::size_t>(pieces[piece].coarsest - pieces[piece].finest) + 1;
    const auto at = static_cast<std::size_t>(level - pieces[piece].finest);
    return (reference * levels + at) * per_level;
  }

  std::uint64_t bytes() const;  ///< of all ranges
};

/// Consecutive patches of a plan that are fetched together if memory allows.
struct Batch {
  std::size_t first_patch = 0;
  std::size_t patch_count = 0;

  std::size_t end() const { return first_patch + patch_count; }
};

/// One delivered level in one layer: the payload that it needs beyond the passes before it, and the patches
/// in batches.
struct Pass {
  int coarsest = 0;     ///< payload levels coarsest .. finest, inclusive, coarse to fine
  int finest = 0;       ///< the level delivered
  int first_layer = 0;  ///< of the payload, up to `layer`
  int layer = 0;        ///< the one delivered

  /// Of a patch. In further layers one that refers to other steps is decoded anew.
  Piece PieceOf(std::size_t index, const PlannedPatch& patch) const {
    return {index, coarsest, finest, patch.references.empty() ? first_layer : 0};
  }
  std::vector<Batch> batches;
};

/// A batch is closed when its payload, its decoded samples or its patches reach these sizes. This bounds the
/// memory of a read and still makes a whole-domain preview few reads per subfile.
inline constexpr std::uint64_t kBatchPayloadBytes = 8 << 20;
inline constexpr std::uint64_t kBatchSampleBytes = 16 << 20;
inline constexpr std::size_t kBatchPatches = 4096;

/// The coarsest level that has a sample at every multiple of `stride`, with the value that level 0 promises
/// there: 2^level divides the stride along every axis of more than one sample. Level 0 if the coder filters
/// coarse levels, because their samples differ from the field's.
int LevelForStride(const GridDescription& grid, const PatchCoder& coder, const Index3& stride);

/// [bytes] payload, masks included, of an answer at one level alone.
std::uint64_t PayloadAt(const ReadPlan& plan, int level);

/// Level-0 samples between neighbours of the answer at one of its levels.
Index3 SpacingAt(const Query& query, int level);

/// Plans a query: the level and layer that it leaves open, the samples that executing it delivers, and the
/// payload that it needs. For what it reads, see Price.
/// @param references  of the field
/// @param read_gap    of the storage that holds the payload
/// @errors those of PatchLocator::Find; kNotFound: no level and layer keep max_error, or fit into max_bytes;
/// kDataLoss: field and mask do not match, or references do not end
Result<ReadPlan> MakePlan(const DatasetDescription& dataset, const PatchLocator& locator,
                          const FindReferences& references, const Query& query, std::uint64_t read_gap);

/// In which order a patch and what it refers to are decoded: its references as they are, then itself.
ReferenceGraph GraphOf(const ReadPlan& plan, const PlannedPatch& patch);

/// The header that comes before the samples.
AnswerHeader HeaderOf(const ReadPlan& plan);

/// The batches of each delivered level, in order. The price assumes that they are fetched one after the
/// other.
std::vector<Pass> MakePasses(const ReadPlan& plan);

/// Has an answer begin with this patch, and those before it come last.
void BeginWith(std::size_t start, ReadPlan* plan);

/// Equal for plans whose answers are equal, byte for byte and in the same order: a digest of the parts of the
/// question that shape the answer, and of the stored checksums of all payload.
std::uint64_t Fingerprint(const ReadPlan& plan);

/// The byte ranges that hold the payload of the pieces, neighbours joined.
/// @param layer  the last to fetch; that of the plan, unless it is damaged
Fetch PlanFetch(const ReadPlan& plan, std::vector<Piece> pieces, int layer);

/// Payload of a piece with all that it refers to, masks included, without the gaps.
/// @param layer  the last
std::uint64_t PayloadBytes(const ReadPlan& plan, const Piece& piece, int layer);

/// Upper bound of the memory to read a fetch and to decode its pieces.
std::uint64_t DecodeMemory(const ReadPlan& plan, const Fetch& fetch);
/// The same for a piece alone.
std::uint64_t DecodeMemory(const ReadPlan& plan, const Piece& piece);

/// Upper bound of the memory that delivering takes beside decoding: the largest patch that is delivered, and
/// the block that is cut out of it.
std::uint64_t DeliveryMemory(const ReadPlan& plan);
/// The same before the plan is made, for any patch at the level that is asked for.
std::uint64_t DeliveryMemory(const DatasetDescription& dataset, const Query& query);

/// Upper bound of the patches of a plan, from the geometry alone.
std::uint64_t MostPatches(const DatasetDescription& dataset, const Query& query);
/// Upper bound of the memory that MakePlan takes, from the geometry alone: so much is pinned before a patch
/// is located.
std::uint64_t PlanningMemory(const DatasetDescription& dataset, const Query& query);
/// Upper bound of the memory of a plan, and of its fetches while it is executed.
std::uint64_t PlanMemory(const ReadPlan& plan);

}  // namespace quarry::query
