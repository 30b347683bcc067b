#pragma once

#include <array>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "quarry/format/description.h"
#include "quarry/query/catalog.h"
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
  int first_level = 0;     ///< >= level; coarser levels from here on are delivered too, one after the other
  std::optional<double> max_error;         ///< the plan chooses the level: `level` is 0, first_level any
  std::optional<std::uint64_t> max_bytes;  ///< the plan chooses the level
  std::optional<Index3> stride;            ///< the plan chooses the level, which is then first_level as well
  std::optional<std::array<double, 3>> focus;  ///< [level-0 samples] the nearest patches come first
  std::optional<Bounds> values;  ///< patches that hold none of them are left out
  bool strict = false;           ///< damage is an error
  std::optional<std::vector<std::uint64_t>> only_patches;  ///< ascending indices: the others are left out
};

/// How far an answer was delivered.
struct Position {
  std::size_t pass = 0;   ///< levels that were delivered
  std::size_t patch = 0;  ///< of the plan, patches that were delivered of the level after them
};

struct PlannedPatch {
  CatalogEntry entry;
  std::optional<CatalogEntry> mask;  ///< where samples of the patch are missing
  Box samples;                       ///< of the patch, level 0
};

/// What the patch tables say of the values in a box; infinite the other way round where no sample is valid.
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
  std::vector<LevelExtent> levels;  ///< to deliver, coarsest first
  std::vector<PlannedPatch> patches;  ///< in Morton order or by distance from the focus; only those that hold
                                      ///< a sample of the answer at the finest level
  std::vector<Box> left_out;  ///< level-0 samples of the box, for want of the values asked for
  Price price;
  RecordedRange recorded;  ///< of the valid original samples
};

/// Which file of a read: a subfile of the field, or one of its mask.
struct FileNumber {
  bool of_mask = false;
  std::uint32_t subfile = 0;

  friend auto operator<=>(const FileNumber&, const FileNumber&) = default;
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

/// What one level of one patch needs; a slice means nothing where the payload is empty.
struct LevelSlices {
  Slice payload;
  Slice mask;
};

/// The payload levels of one patch that are fetched together.
struct Piece {
  std::size_t patch = 0;  ///< of the plan
  int coarsest = 0;       ///< coarsest .. finest, inclusive
  int finest = 0;
};

/// What to read for some patches.
struct Fetch {
  std::vector<Piece> pieces;
  std::vector<ByteRange> ranges;                 ///< by file and offset; no two overlap
  std::vector<std::vector<LevelSlices>> slices;  ///< [piece][level - finest of the piece]

  std::uint64_t bytes() const;  ///< of all ranges
};

/// Consecutive patches of a plan that are fetched together where memory allows.
struct Batch {
  std::size_t first_patch = 0;
  std::size_t patch_count = 0;

  std::size_t end() const { return first_patch + patch_count; }
};

/// One delivered level: the payload levels that it needs beyond the passes before it, and the patches in
/// batches.
struct Pass {
  int coarsest = 0;  ///< payload levels coarsest .. finest, inclusive, coarse to fine
  int finest = 0;    ///< the level delivered
  std::vector<Batch> batches;
};

/// Gaps up to this are read rather than skipped: a separate read costs more than these bytes.
inline constexpr std::uint64_t kMaxGap = 8 << 10;
/// A batch is closed when its payload or its decoded samples reach these sizes: bounds the memory of a read,
/// and still makes whole-domain previews one read per subfile.
inline constexpr std::uint64_t kBatchPayloadBytes = 8 << 20;
inline constexpr std::uint64_t kBatchSampleBytes = 16 << 20;

/// The coarsest level at which every patch that meets the box has samples in the box, covers all its valid
/// samples, and is recorded with an error of at most `max_error`. The record is of whole patches: a box that
/// cuts one may lack the samples beside it that the interpolation at its faces would take.
/// @param entries  of the patches that meet the box
/// @errors kNotFound with the error of level 0 when no level keeps it
Result<int> ChooseLevel(const PatchGrid& grid, int levels, const std::vector<CatalogEntry>& entries,
                        const Box& box, double max_error);

/// The finest level whose whole answer, with the coarser levels from first_level on, has at most `max_bytes`
/// of payload and at most as many of samples: whichever of them travels, no more than that arrives. A level
/// without a sample in the box is none.
/// @param entries, masks  of the patches that meet the box
/// @param left_out  of the answer
/// @errors kNotFound with the least number of bytes that brings samples
Result<int> ChooseLevelWithin(const DatasetDescription& dataset, const PatchGrid& grid,
                              const std::vector<CatalogEntry>& entries,
                              const std::vector<CatalogEntry>& masks, const std::vector<Box>& left_out,
                              const Query& query, std::uint64_t max_bytes);

/// The coarsest level that has a sample at every multiple of `stride`, with the value that level 0 promises
/// there: 2^level divides the stride along every axis of more than one sample. Level 0 where coarse levels
/// are filtered (wavelet-zfp), and samples of them are not those of the field.
int LevelForStride(const DatasetDescription& dataset, CoderId coder, const Index3& stride);

/// Level-0 samples between neighbours of the answer at one of its levels.
Index3 SpacingAt(const Query& query, int level);

/// Plans a query. The price is exact: executing the plan reads those ranges and delivers those samples.
/// @errors those of PatchCatalog::Find, ChooseLevel and ChooseLevelWithin; kDataLoss: field and mask do not
/// fit each other
Result<ReadPlan> MakePlan(const DatasetDescription& dataset, const PatchCatalog& catalog, const Query& query);

/// What comes before the samples.
AnswerHeader HeaderOf(const ReadPlan& plan);

/// The batches of each delivered level, in order. The price is that of fetching them one after the other.
std::vector<Pass> MakePasses(const ReadPlan& plan);

/// Equal for plans whose answers are equal, byte for byte and in the same order: of the question as far as it
/// shapes the answer, and of the stored checksums of all payload.
std::uint64_t Fingerprint(const ReadPlan& plan);

/// The byte ranges that hold some payload, neighbours joined.
Fetch PlanFetch(const ReadPlan& plan, std::vector<Piece> pieces);

/// Payload of a piece, masks included, without what lies in between.
std::uint64_t PayloadBytes(const ReadPlan& plan, const Piece& piece);

/// Upper bound of the memory in which a fetch is read and its pieces are decoded.
std::uint64_t DecodeMemory(const ReadPlan& plan, const Fetch& fetch);
/// The same for a piece alone.
std::uint64_t DecodeMemory(const ReadPlan& plan, const Piece& piece);

/// Upper bound of the memory that a read takes beside what it decodes in: the largest patch that it delivers,
/// and the block that is cut out of it.
std::uint64_t PinnedMemory(const ReadPlan& plan);

}  // namespace quarry::query
