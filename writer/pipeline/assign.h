#pragma once

#include <mpi.h>

#include <cstdint>

#include "writer/distribution/aggregation.h"
#include "writer/distribution/patch_numbers.h"
#include "writer/pipeline/own_patches.h"

/// Decisions about all patches of a grid that no rank knows all of: sizes and digests go to the ranks that
/// have the pieces of the curve (distribution::CurvePieces), and numbers pass from piece to piece.
namespace quarry::writer {

/// The ranks of a transfer, and how many have been.
struct RankSetting {
  MPI_Comm comm;
  std::uint64_t* exchanges;  ///< done so far, the same on every rank: see ExchangeLetters

  std::uint64_t Next() const { return (*exchanges)++; }
};

/// Letters to the ranks that they name; returns those for this rank, by rank. @collective
Result<std::vector<distribution::NumberLetter>> ExchangeNumbers(
    const RankSetting& ranks, std::vector<distribution::NumberLetter> letters);

/// AssignPatches for patches that are spread over the ranks.
/// @param own  of this rank; those of all ranks are the patches of the grid
/// @returns    the same on every rank
/// @errors     the same on every rank
/// @collective
Result<distribution::Assignment> AssignOverRanks(const RankSetting& ranks, const OutgoingPatches& own,
                                                 std::size_t files,
                                                 distribution::AggregationStrategy strategy);

/// The name of the mask that the patches of all ranks have together (format::MaskName).
/// @param masks  of this rank
/// @param grid   its number
/// @collective
Result<std::uint64_t> NameMaskOverRanks(const RankSetting& ranks, const OutgoingPatches& masks,
                                        std::size_t grid);

/// Stored bytes of every patch, by patch index, on rank 0; empty elsewhere. @collective
Result<std::vector<std::uint64_t>> GatherStoredBytes(const RankSetting& ranks, const OutgoingPatches& own);

}  // namespace quarry::writer
