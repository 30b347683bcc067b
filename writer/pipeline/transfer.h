#pragma once

#include <vector>

#include "quarry/storage/writable_storage.h"
#include "writer/pipeline/assign.h"
#include "writer/pipeline/phases.h"

namespace quarry::writer {

/// How patches become subfiles; the same on every rank.
struct SubfileLayout {
  distribution::Assignment assignment;  ///< curve positions where the files begin
  /// [bytes] of rows and payload of a file that move at a time; an aggregator holds two windows, one that it
  /// fills and one that it writes.
  std::uint64_t window_bytes = 8 << 20;
  std::uint64_t table_memory = UINT64_MAX;  ///< [bytes] of a rank, for the rows of its files
  std::uint64_t part_memory =
      UINT64_MAX;  ///< [bytes] of a rank, for parts of its files, where a store takes such

  std::size_t files() const { return assignment.size() - 1; }
};

/// Moves encoded patches to the aggregators, which write them to subfiles as they arrive. First ranks
/// announce their patches to the aggregators, which answer in which windows they take them. Then rows and
/// payload follow in these windows, so that an aggregator holds some megabytes of each file at a time,
/// however large it is.
///
/// Nothing is trusted to arrive intact: rows travel with a checksum, and every payload is compared with the
/// checksum in its row before it is written.
///
/// @param header  of the first file; number and count are filled in
/// @param own     patches of this rank
/// @param seconds time spent in the phases transfer and write is added
/// @returns       on rank 0 the summaries of all files, in order; elsewhere nothing
/// @errors        the same on every rank
/// @collective
/// @source Fan et al., section IV.C, patch transfer
Result<std::vector<SubfileSummary>> TransferAndWrite(const RankSetting& ranks, const SubfileLayout& layout,
                                                     const WritableLocation& folder,
                                                     format::SubfileHeader header, const OutgoingPatches& own,
                                                     PhaseSeconds* seconds);

}  // namespace quarry::writer
