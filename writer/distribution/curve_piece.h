#pragma once

#include <cstdint>
#include <span>
#include <vector>

/// The Morton curve of a grid in pieces. Each piece is with one rank, which learns the sizes of its patches
/// and cuts it: no rank knows the sizes of all patches. Pure functions, as in placement.h.
namespace quarry::distribution {

/// How the curve is divided: nearly equal pieces, of some thousand patches at least, so that few patches have
/// one piece and few messages reach it.
class CurvePieces {
 public:
  /// A piece of as many sizes takes 128 KiB.
  static constexpr std::uint64_t kLeastPatches = 1 << 14;

  /// @param patches  of the grid, at most 2^40; at least 1
  CurvePieces(std::uint64_t patches, int ranks, std::uint64_t least_patches = kLeastPatches);

  std::uint64_t patches() const { return patches_; }
  std::size_t count() const { return static_cast<std::size_t>(count_); }
  /// The piece is [begin(piece), begin(piece + 1)) of the curve positions.
  std::uint64_t begin(std::size_t piece) const { return patches_ * piece / count_; }
  std::size_t PieceOf(std::uint64_t curve_position) const {
    return static_cast<std::size_t>(((curve_position + 1) * count_ - 1) / patches_);
  }
  /// Pieces are spread evenly over the ranks: a rank has one or none, ascending.
  int RankOf(std::size_t piece) const {
    return static_cast<int>(piece * static_cast<std::uint64_t>(ranks_) / count_);
  }

 private:
  std::uint64_t patches_;
  int ranks_;
  std::uint64_t count_;
};

/// Greedy runs from the front of the curve up to some position: each takes as many patches as fit.
struct GreedyRuns {
  std::uint64_t runs = 0;   ///< the open one included
  std::uint64_t bytes = 0;  ///< in the open one
};

/// Greedy runs from the back of the curve: starts[k] is where the longest suffix begins that fits k runs.
struct BackwardRuns {
  std::uint64_t found = 0;  ///< starts that are known
  std::uint64_t bytes = 0;  ///< in the open run
};

/// The scan that cuts the curve into files, up to some position.
struct CutScan {
  std::uint64_t left = 0;       ///< files that are not cut yet, that of the open run included
  std::uint64_t begin = 0;      ///< where the open run begins
  std::uint64_t bytes = 0;      ///< in the open run
  std::uint64_t remaining = 0;  ///< bytes from `begin` to the end of the curve
};

/// Sizes of the patches of a piece.
class CurvePiece {
 public:
  /// @param begin  curve position of the first patch
  /// @param sizes  [bytes], in the order of the curve
  CurvePiece(std::uint64_t begin, std::span<const std::uint64_t> sizes);

  std::uint64_t begin() const { return begin_; }
  std::uint64_t end() const { return begin_ + sums_.size() - 1; }
  std::uint64_t total() const { return sums_.back(); }
  std::uint64_t largest() const { return largest_; }
  /// Memory.
  std::uint64_t bytes() const { return sums_.capacity() * sizeof(std::uint64_t); }
  static constexpr std::uint64_t BytesFor(std::uint64_t patches) {
    return (patches + 1) * sizeof(std::uint64_t);
  }

  // Each continues through this piece what the pieces before it, or behind it, have begun.
  /// @param limit  [bytes] of a run, at least the largest patch of the curve
  /// @complexity runs log patches
  void CountRuns(std::uint64_t limit, GreedyRuns* runs) const;
  /// From the last patch of the piece to the first.
  /// @param starts  entries that are found here are set
  void FindStarts(std::uint64_t limit, BackwardRuns* runs, std::span<std::uint64_t> starts) const;
  /// Cuts by the rules of AssignPatches; the ends of runs in this piece are set in `ends`.
  /// @param patches  of the whole curve
  /// @param starts   from FindStarts
  /// @param ends     by file
  void Cut(std::uint64_t limit, std::uint64_t patches, std::span<const std::uint64_t> starts, CutScan* scan,
           std::span<std::uint64_t> ends) const;

 private:
  /// Bytes of the patches in [begin(), position).
  std::uint64_t Before(std::uint64_t position) const { return sums_[position - begin_]; }
  /// First position in [from, to] for which `stops` holds, else `to`. Once it holds it holds for all further
  /// ones.
  template <typename Stops>
  static std::uint64_t FirstOf(std::uint64_t from, std::uint64_t to, Stops stops);
  std::uint64_t EndOfRun(std::uint64_t limit, std::span<const std::uint64_t> starts, const CutScan& scan,
                         std::uint64_t last_end) const;

  std::uint64_t begin_;
  std::uint64_t largest_ = 0;
  std::vector<std::uint64_t> sums_;  ///< bytes before each patch of the piece, and of all
};

}  // namespace quarry::distribution
