#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "writer/distribution/aggregation.h"
#include "writer/distribution/curve_piece.h"

/// Knowledge of ranks about ranks, files and patches: bytes that they hold, and messages that carry it.
namespace quarry::model {

/// Tables of one rank while a field is written, beside samples, rows and payload.
struct RankTables {
  std::uint64_t bytes = 0;          ///< held at a time, at most
  std::uint64_t messages = 0;       ///< sent and received, without collective calls
  std::uint64_t message_bytes = 0;  ///< in all of these messages

  friend bool operator==(const RankTables&, const RankTables&) = default;
};

/// One field as its patches lie along the curve.
struct CurveOfField {
  std::span<const int> encoders;         ///< rank of each patch
  std::span<const std::uint64_t> bytes;  ///< stored, of each patch
  std::uint64_t row_bytes = 280;         ///< in a message: format::PatchEntry::EncodedSize of 7 levels
  std::uint64_t window_bytes = 8 << 20;  ///< that move to a file at a time
  std::uint64_t summary_bytes = 304;     ///< about a subfile of 7 levels, to rank 0
};

/// Tables of every rank: those of the placement; sizes on their way to the pieces of the curve and there; the
/// cut; announcements of patches to the aggregators, and the answers; summaries on rank 0. Messages are
/// counted as the writer sends them.
/// @complexity O(patches log patches)
std::vector<RankTables> CountTables(const CurveOfField& field, const distribution::CurvePieces& pieces,
                                    std::size_t files, distribution::AggregationStrategy strategy, int ranks);

/// By each number, the most of a rank.
RankTables MostOf(std::span<const RankTables> ranks);

}  // namespace quarry::model
