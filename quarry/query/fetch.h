#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "quarry/query/read_plan.h"

/// From a plan to the reads that bring its payload.
namespace quarry::query {

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
  static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

  std::size_t range = kNone;  ///< its number in the fetch; kNone: the payload is empty
  std::uint64_t offset = 0;   ///< from the start of the range
};

/// The payload levels of one patch that are fetched together.
struct Piece {
  std::size_t patch = 0;  ///< number in the plan
  int coarsest = 0;       ///< coarsest .. finest, inclusive
  int finest = 0;
  int first_layer = 0;  ///< first layer of the levels; the last is that of the fetch

  friend bool operator==(const Piece&, const Piece&) = default;
};

/// Reads for some patches.
struct Fetch {
  std::vector<Piece> pieces;
  std::vector<ByteRange> ranges;    ///< by file and offset; no two overlap
  int layers = 1;                   ///< layers of a level, from the first
  std::uint64_t payload_bytes = 0;  ///< without the gaps between payloads

  /// Payload of a piece and level.
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

  std::uint64_t bytes() const;  ///< sum of all ranges

  /// The ranges that pieces need, ascending. @param end  behind the last piece
  std::vector<std::size_t> RangesOf(std::size_t first, std::size_t end) const;
};

/// Consecutive patches of a plan that are fetched together if memory allows.
struct Batch {
  std::size_t first_patch = 0;
  std::size_t patch_count = 0;
  std::uint64_t payload = 0;  ///< [bytes] without gaps

  std::size_t end() const { return first_patch + patch_count; }
};

/// One delivered level in one layer: the payload that it needs beyond the passes before it, and the patches
/// in batches.
struct Pass {
  int coarsest = 0;     ///< payload levels coarsest .. finest, inclusive, coarse to fine
  int finest = 0;       ///< the level delivered
  int first_layer = 0;  ///< first layer of the payload; `layer` is the last
  int layer = 0;        ///< the one delivered

  /// Piece of a patch. In further layers one that refers to other steps is decoded anew.
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

/// One payload that a fetch needs, before neighbours are joined.
struct Wanted {
  FileNumber file;
  std::uint64_t offset;
  std::uint64_t size;
  Slice* slice;
};

/// The delivered levels without batches: coarse to fine in the first layer, then the finest level in each
/// layer after it.
std::vector<Pass> PassesOf(const ReadPlan& plan);

/// The batches of each delivered level, in order. The cost assumes that they are fetched one after the
/// other.
std::vector<Pass> MakePasses(const ReadPlan& plan);

/// The byte ranges that hold the payload of the pieces, neighbours joined.
/// @param layer  the last to fetch; that of the plan, unless it is damaged
Fetch PlanFetch(const ReadPlan& plan, std::vector<Piece> pieces, int layer);

/// Payload of a piece with all that it refers to, masks included, without the gaps.
/// @param layer  the last
std::uint64_t PayloadBytes(const ReadPlan& plan, const Piece& piece, int layer);

}  // namespace quarry::query
