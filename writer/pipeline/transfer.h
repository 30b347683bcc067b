#pragma once

#include <mpi.h>

#include <filesystem>
#include <vector>

#include "writer/distribution/aggregation.h"
#include "writer/distribution/placement.h"
#include "writer/pipeline/payload_store.h"
#include "writer/pipeline/phases.h"
#include "writer/pipeline/subfile_writer.h"

namespace quarry::writer {

/// A patch on the rank that has encoded it.
struct OutgoingPatch {
  format::PatchEntry row;
  std::uint64_t position = 0;  ///< in the store: all levels, coarsest first
};

/// Which patch goes to which subfile; the same on every rank.
struct SubfileLayout {
  const std::vector<std::int64_t>* morton_order;   ///< all patch indices of the grid
  const distribution::Placement* placement;        ///< the rank that has each patch, by patch index
  const std::vector<std::uint64_t>* stored_bytes;  ///< by patch index, see StoredBytes
  distribution::Assignment assignment;

  std::size_t files() const { return assignment.size() - 1; }
};

/// Moves encoded patches to the aggregators, which write them to subfiles as they arrive. The rows come first
/// and tell an aggregator where everything goes. The payload follows in windows, so that an aggregator holds
/// some megabytes of each file at a time, however large it is.
///
/// Nothing is trusted to arrive intact: rows travel with a checksum, and every payload is compared with the
/// checksum in its row before it is written.
///
/// @param number  of this transfer among those over `comm`, the same on every rank: keeps messages left over
/// from an earlier one after an error apart from this one's
/// @param header  of the first file; number and count are filled in
/// @param mine    patches of this rank, by ascending index
/// @param seconds time spent in the phases transfer and write is added
/// @returns       on rank 0 the summaries of all files, in order; elsewhere nothing
/// @errors        the same on every rank
/// @collective over `comm`
/// @source Fan et al., section IV.C, patch transfer
Result<std::vector<SubfileSummary>> TransferAndWrite(MPI_Comm comm, const SubfileLayout& layout,
                                                     const PatchGrid& grid,
                                                     const std::filesystem::path& folder,
                                                     std::uint64_t number, format::SubfileHeader header,
                                                     const std::vector<OutgoingPatch>& mine,
                                                     const PayloadStore& store, PhaseSeconds* seconds);

}  // namespace quarry::writer
