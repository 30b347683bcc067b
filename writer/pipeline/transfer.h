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
struct FilePlan {
  const std::vector<std::int64_t>* morton_order;     ///< all patch indices of the grid
  const distribution::Placement* placement;          ///< the rank that has each patch, by patch index
  const std::vector<std::uint64_t>* stored_bytes;    ///< by patch index, see StoredBytes
  distribution::Assignment assignment;

  std::size_t files() const { return assignment.size() - 1; }
};

/// Moves encoded patches from the ranks that have them to the aggregators, which write them to subfiles as they
/// come: first the rows, from which an aggregator knows where everything goes, then the payload in windows, so that
/// an aggregator holds some megabytes of each file at a time, however large it is.
///
/// @param header  of the first file; number and count are filled in
/// @param mine    patches of this rank, by ascending index
/// @param seconds time spent in the phases transfer and write is added
/// @returns       on rank 0 the summaries of all files, in order; elsewhere nothing
/// @errors        the same on every rank
/// @collective over `comm`
/// @source Fan et al., section IV.C, patch transfer
Result<std::vector<SubfileSummary>> TransferAndWrite(MPI_Comm comm, const FilePlan& plan, const PatchGrid& grid,
                                                     const std::filesystem::path& folder,
                                                     format::SubfileHeader header,
                                                     const std::vector<OutgoingPatch>& mine,
                                                     const PayloadStore& store, PhaseSeconds* seconds);

}  // namespace quarry::writer
