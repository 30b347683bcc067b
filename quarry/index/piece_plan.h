#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

/// Which pieces an index is made of: pure functions.
namespace quarry::index {

/// As the source of a step: the tables of its subfiles, as no piece has the step.
inline constexpr std::size_t kTables = SIZE_MAX;

/// An existing piece.
struct PieceSize {
  std::uint64_t bytes = 0;
  std::uint64_t steps = 0;  ///< in the file
};

/// A piece of the new index, with a run of the steps of the dataset.
struct PlannedPiece {
  std::size_t begin = 0;  ///< steps, by their place among those of the dataset
  std::size_t end = 0;
  bool written = false;  ///< else all of its steps stay in the piece where they are

  friend bool operator==(const PlannedPiece&, const PlannedPiece&) = default;
};

/// Most pieces of a plan.
inline constexpr std::size_t kMostPieces = 64;

/// Decides which steps are written anew. Steps of the tables are, together with neighbours that have no more
/// steps than they do, so that each record is written again O(log n) times while n steps are added one by
/// one. No merge makes a piece of more than MostPieceBytes: one step more costs a part of the index at most.
/// A piece less than half of whose steps are still in the index is written anew.
/// @source O'Neil et al. 1996, "The log-structured merge-tree"; Bentley and Saxe 1980, "Decomposable
/// searching problems I" (the doubling)
/// @param sources  of each step of the dataset, in ascending order: the number of its piece, or kTables
std::vector<PlannedPiece> PlanPieces(std::span<const std::size_t> sources, std::span<const PieceSize> pieces);

/// A piece that is filled with more is followed by another one, from the next step on.
/// @param index_bytes  [bytes] of the index, as far as they are known
std::uint64_t MostPieceBytes(std::uint64_t index_bytes);

}  // namespace quarry::index
